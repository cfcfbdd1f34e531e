"""What every data set becomes: texts, and questions with their gold evidence.

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
"""How Qasper writes that the evidence is a figure or a table, of which the files have no text but the caption."""

_UNSAFE: Final = re.compile(r"[^\w.\-]")


@dataclass(frozen=True, slots=True)
class Text:
    """A context as a set gives it, title line included where it has one.

    ``text_id`` follows from the words alone (see ``text_id``), so the same paragraph in two sets has one id.
    ``document`` names the source that it is part of ("ADI_2009", an arXiv id, a Wikipedia title): the split keeps all
    texts of a document on one side.
    """

    text_id: str
    document: str
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of gold evidence: the range ``[start_char, end_char)`` of a text. All pieces of an item are needed."""

    text_id: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class GoldCell:
    """A table cell that the answer needs, by the ranges of its row and of the table's column heads.

    The row's range begins with the row's own label, so a shown row always has its row header.
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
    """A question with all that its set knows of it.

    ``gold`` has the question (its doc_ids still empty), answers, mapped type and the parts that answer recall looks
    for. ``documents`` are the sources asked about, also where the set delivers no text. ``text_ids`` is the item's own
    context, gold and distractors; empty where the set has none. ``gold_queries`` are what a perfect writer of
    sub-questions would ask, in order: the set's own sub-questions, or what stands nearest (the adapter says what).
    ``calculation`` is the expression that leads to the answer, in the text's own figures ("(44.1-56.7)/56.7"); empty
    where there is nothing to calculate or the set does not say how. ``sub_questions`` are those of the gold queries
    that the set wrote as whole sentences, in order; empty where it did not. ``hops`` are the look-ups whose own answers
    the set gives, in order, in its best wording; empty where it gives none.
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
    """One source file (or folder) as read. ``name`` is the set's ("hotpotqa"), ``part`` the file's ("dev").

    ``texts`` by text_id; every text_id of an item is in it. ``notes`` are lines for whoever wrote the file: what was
    not taken as it stands there, with its row and the reason.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()


def text_id(text: str) -> str:
    """An id of 16 hex digits that follows from a text's words: case, punctuation and spacing do not count."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str) -> Text:
    """A text with its id."""
    return Text(text_id(text), document, text)


class Builder:
    """A data set while its file is read: its texts, its items, and the ids that are taken."""

    def __init__(self, name: str, part: str) -> None:
        self.name, self.part = name, part
        self.texts: dict[str, Text] = {}
        self.items: list[Item] = []
        self.notes: list[str] = []
        self._ids: set[str] = set()

    def built(self) -> DataSet:
        """The data set with all that was added."""
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
        """The row's ``question`` with its answers, each once.

        Its id is ``prefix``, or else the set's name, and the set's own id, with signs that no file name bears made
        ``_``. Raises InputError for an id that was taken before.
        """
        query_id = f"{prefix or self.name}-{_UNSAFE.sub('_', row.text(id_field).strip())}"
        if query_id in self._ids:
            row.bad(id_field, f"is {row.values[id_field]!r}, the id of an earlier question")
        self._ids.add(query_id)
        question = Question(query_id, row.text("question"), answers=tuple(dict.fromkeys(answers)), type=kind)
        return Gold(question, self.name, label, parts)

    def text(self, document: str, text: str) -> Text:
        """The text, from now on one of the set's; the one kept before when it was there already.

        Where a text of the same words but other punctuation is there, ranges of the two would differ: the later one
        then gets an id in which the document, and a number, count as words.
        """
        known = self.texts.setdefault(text_id(text), make_text(document, text))
        number = 1
        while known.text != text:
            number += 1
            other = Text(text_id(f"{document} {number} {text}"), document, text)
            known = self.texts.setdefault(other.text_id, other)
        return known

    def titled(self, title: str, paragraph: str) -> Text:
        """A Wikipedia paragraph as a text: its title on a line of its own before it."""
        return self.text(title, f"{title}\n{paragraph}")

    def paragraphs(self, document: str, paragraphs: Sequence[str]) -> tuple[tuple[Evidence, ...], int]:
        """Evidence paragraphs of a paper whose full text the file does not hold: each is a text of its own, wholly
        evidence. With them how many figures and tables were left out.
        """
        written = [each.strip() for each in paragraphs if not each.startswith(FLOAT)]
        kept = dict.fromkeys(self.text(document, each) for each in dict.fromkeys(written) if each)
        return tuple(whole(text) for text in kept), len(paragraphs) - len(written)


def whole(text: Text, title: str = "") -> Evidence:
    """All of a text as evidence, or all but its title line."""
    skipped = len(title) + 1 if title else 0
    return Evidence(text.text_id, *trimmed(text.text, (skipped, len(text.text))))
