"""Define what every data set becomes: texts, and questions with their gold evidence.

A *text* is the piece in which a set delivers its contexts: a Wikipedia paragraph, a page of a filing, a whole paper or
meeting. Short texts can be pooled into long documents later, so evidence is kept as ranges of a text. An adapter reads
the rows of a file (``files``) into a ``Builder``.
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
from okralong.pipelines.core.types import Question, QuestionType
from okralong.pipelines.reporting.metrics import plain_words

FLOAT: Final = "FLOAT SELECTED"
"""Qasper's marker for evidence that is a figure or a table, of which the files hold only the caption."""

_UNSAFE: Final = re.compile(r"[^\w.\-]")


@dataclass(frozen=True, slots=True)
class Text:
    """A context as the set gives it, including its title line.

    ``text_id`` depends on the words alone, so the same paragraph in two sets has one id. ``document`` names the source
    that the text is part of ("ADI_2009", an arXiv id, a Wikipedia title); the split keeps all texts of a document on
    one side.
    """

    text_id: str
    document: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of gold evidence: the range ``[start_char, end_char)`` of a text. An item needs all its pieces."""

    text_id: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class GoldCell:
    """A table cell that the answer needs, given by the ranges of its row and of the column heads.

    A row's range begins with its label, so a row that is shown always has its row header.
    """

    text_id: str
    row: tuple[int, int]
    header: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hop:
    """One look-up on the way to an answer, with its own answer."""

    query: str
    answer: str


@dataclass(frozen=True, slots=True)
class Item:
    """A question with all annotations of its set.

    Attributes:
        gold: The question (its doc_ids still empty), answers, mapped type, and the parts for answer recall.
        documents: The sources asked about, even if the set delivers no text of them.
        text_ids: The item's context, gold and distractors.
        evidence: The gold ranges.
        cells: The gold table cells.
        gold_queries: The set's own sub-questions in order, or the closest equivalent (see the adapter).
        calculation: The expression that leads to the answer, in the text's own figures ("(44.1-56.7)/56.7").
        sub_questions: Those of the gold queries that the set wrote as whole sentences.
        hops: The look-ups whose answers the set gives, in its best wording.
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


@dataclass(frozen=True, slots=True)
class DataSet:
    """One source file (or folder) as read.

    ``name`` is the set's ("hotpotqa"), ``part`` the file's ("dev"). ``texts`` are by text_id and hold every text_id of
    an item. ``notes`` list the skipped rows with reasons, for the author of the file.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


def text_id(text: str) -> str:
    """Return an id of 16 hex digits made from a text's words; case, punctuation and spacing do not count."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str) -> Text:
    """Make a text with its id."""
    return Text(text_id(text), document, text)


class Builder:
    """Collects the texts and items of a data set while its file is read, and refuses ids that were used before."""

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

        The id is ``prefix`` (default: the set's name) and the set's own id, with characters that are unsafe in file
        names replaced by ``_``. Raises InputError for an id that was used before.
        """
        query_id = f"{prefix or self.name}-{_UNSAFE.sub('_', row.text(id_field).strip())}"
        if query_id in self._ids:
            row.bad(id_field, f"is {row.values[id_field]!r}, the id of an earlier question")
        self._ids.add(query_id)
        question = Question(query_id, row.text("question"), answers=tuple(dict.fromkeys(answers)), type=kind)
        return Gold(question, self.name, label, parts)

    def text(self, document: str, text: str) -> Text:
        """Add a text to the set and return it, or return the existing one.

        If a text with the same words but other punctuation is there, ranges of the two would differ. The later one then
        gets an id that also counts the document and a number as words.
        """
        known = self.texts.setdefault(text_id(text), make_text(document, text))
        number = 1
        while known.text != text:
            number += 1
            other = Text(text_id(f"{document} {number} {text}"), document, text)
            known = self.texts.setdefault(other.text_id, other)
        return known

    def titled(self, title: str, paragraph: str) -> Text:
        """Add a Wikipedia paragraph as a text, with its title on a line before it."""
        return self.text(title, f"{title}\n{paragraph}")

    def paragraphs(self, document: str, paragraphs: Sequence[str]) -> tuple[tuple[Evidence, ...], int]:
        """Add the evidence paragraphs of a paper whose full text the file lacks, each as a text that is all evidence.

        Also returns how many figures and tables were left out.
        """
        written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
        kept = dict.fromkeys(self.text(document, each) for each in dict.fromkeys(written) if each)
        return tuple(whole(text) for text in kept), len(paragraphs) - len(written)


def whole(text: Text, title: str = "") -> Evidence:
    """Return all of a text as evidence, or all but its title line."""
    skipped = len(title) + 1 if title else 0
    return Evidence(text.text_id, *trimmed(text.text, (skipped, len(text.text))))
