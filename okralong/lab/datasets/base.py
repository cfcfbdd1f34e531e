"""Define the form that every data set is read into: texts, and questions with their gold evidence.

A *text* is a unit of context in a set: a Wikipedia paragraph, a page of a filing, a whole paper or meeting. Short texts
can be pooled into long documents later, so evidence is stored as ranges of a text. An adapter reads the rows of a file
(``files``) into a ``Builder``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.lab.datasets.files import Row
from okralong.lab.datasets.gold import Gold, Parts
from okralong.lab.datasets.places import trimmed
from okralong.pipelines.core.types import Question, QuestionType, Section
from okralong.pipelines.reporting.metrics import plain_words

FLOAT: Final = "FLOAT SELECTED"
"""Qasper's marker for evidence that is a figure or a table, of which the files have only the caption."""

_UNSAFE: Final = re.compile(r"[^\w.\-]")


@dataclass(frozen=True, slots=True)
class Text:
    """A context as the set gives it, including its title line.

    ``text_id`` depends only on the words, so the same paragraph has the same id in two sets. ``document`` is the name
    of the source that the text is part of ("ADI_2009", an arXiv id, a Wikipedia title); the split puts all texts of a
    document on one side. ``sections`` are the beginnings of its pages, if the set has documents with pages.
    """

    text_id: str
    document: str
    text: str
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """A piece of gold evidence: the range ``[start_char, end_char)`` of a text. An item needs all of its pieces."""

    text_id: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class GoldCell:
    """A table cell that the answer needs, given by the ranges of its row and of the column heads.

    A row's range begins with its label, so a row that is shown as a whole always has its row header.
    """

    text_id: str
    row: tuple[int, int]
    header: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hop:
    """A look-up on the way to an answer, with its own answer."""

    query: str
    answer: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with all annotations of its set.

    Attributes:
        gold: The question (with empty doc_ids), answers, mapped type, and parts for answer recall.
        documents: The sources that the question is about, even if the set has no text of them.
        text_ids: The texts of the item's context, both gold texts and distractors.
        evidence: The gold ranges.
        cells: The gold table cells.
        gold_queries: The set's own sub-questions, in order, or the closest equivalent (see the adapter).
        calculation: The expression that yields the answer, with the figures as in the text ("(44.1-56.7)/56.7").
        sub_questions: The gold queries that are whole sentences in the set.
        hops: The look-ups whose answers the set has, in the set's best wording.
        pools: Gold pages. An answer has to cite one page of each pool.
    """

    gold: Gold
    documents: tuple[str, ...]
    text_ids: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    cells: tuple[GoldCell, ...] = ()
    gold_queries: tuple[str, ...] = ()
    calculation: str = ""
    sub_questions: tuple[str, ...] = ()
    hops: tuple[Hop, ...] = ()
    pools: tuple[tuple[Evidence, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DataSet:
    """The content of one source file (or folder).

    ``name`` is the name of the set ("hotpotqa"), ``part`` that of the file ("dev"). ``texts`` has every text_id of an
    item. ``notes`` lists the skipped rows with reasons, for the author of the file.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


def text_id(text: str) -> str:
    """Return an id of 16 hex digits for the words of a text; case, punctuation and spacing have no effect."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str, sections: tuple[Section, ...] = ()) -> Text:
    """Make a text with its id."""
    return Text(text_id(text), document, text, sections)


class Builder:
    """Collects the texts and items of a data set while its file is read, and refuses duplicate ids."""

    def __init__(self, name: str, part: str) -> None:
        self.name, self.part = name, part
        self.texts: dict[str, Text] = {}
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ids: set[str] = set()

    def built(self) -> DataSet:
        """Return the data set with everything that was added."""
        return DataSet(self.name, self.part, self.texts, tuple(self.items), tuple(self.notes))

    def gold(
        self,
        row: Row,
        id_field: str,
        answers: Iterable[str],
        kind: QuestionType,
        label: str,
        parts: Parts = (),
        prefix: str = "",
    ) -> Gold:
        """Return the row's ``question`` with its answers, without duplicates.

        The query_id is ``prefix`` (default: the set's name) and the set's own id; characters that are unsafe in file
        names are replaced by ``_``. Raises InputError for a duplicate id.
        """
        query_id = f"{prefix or self.name}-{_UNSAFE.sub('_', row.text(id_field).strip())}"
        if query_id in self._ids:
            row.bad(id_field, f"is {row.values[id_field]!r}, the id of an earlier question")
        self._ids.add(query_id)
        question = Question(query_id, row.text("question"), answers=tuple(dict.fromkeys(answers)), type=kind)
        return Gold(question, self.name, label, parts)

    def text(self, document: str, text: str, sections: tuple[Section, ...] = ()) -> Text:
        """Add a text to the set and return it, or return the existing one.

        If there is a text with the same words but other punctuation, ranges of the two would differ. The id of the
        later one is then made from its words, its document and a number.
        """
        known = self.texts.setdefault(text_id(text), make_text(document, text, sections))
        number = 1
        while known.text != text:
            number += 1
            other = Text(text_id(f"{document} {number} {text}"), document, text, sections)
            known = self.texts.setdefault(other.text_id, other)
        return known

    def titled(self, title: str, paragraph: str) -> Text:
        """Add a Wikipedia paragraph as a text, with its title on a line before it."""
        return self.text(title, f"{title}\n{paragraph}")

    def paragraphs(self, document: str, paragraphs: Sequence[str]) -> tuple[tuple[Evidence, ...], int]:
        """Add the evidence paragraphs of a paper whose full text the file lacks, each as a text that is all evidence.

        Also returns the number of figures and tables that were left out.
        """
        written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
        kept = dict.fromkeys(self.text(document, each) for each in dict.fromkeys(written) if each)
        return tuple(whole(text) for text in kept), len(paragraphs) - len(written)


def page_of(text: Text, number: int) -> Evidence | None:
    """Return the page with this number, counted from 1, of a text with pages; None if it has no words there."""
    starts = [*(section.start_char for section in text.sections), len(text.text)]
    for section, end in zip(text.sections, starts[1:], strict=True):
        if section.name == str(number):
            start, end = trimmed(text.text, (section.start_char, end))
            return Evidence(text.text_id, start, end) if start < end else None
    return None


def whole(text: Text, title: str = "") -> Evidence:
    """Return all of a text as evidence, or all but its title line."""
    skipped = len(title) + 1 if title else 0
    return Evidence(text.text_id, *trimmed(text.text, (skipped, len(text.text))))
