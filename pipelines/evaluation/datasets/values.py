"""What every data set becomes: texts, and items that ask about them.

A *text* is the piece in which a set delivers its contexts: a Wikipedia paragraph, a page of a filing, a whole paper or
meeting. Short texts can be pooled into long documents later; evidence is therefore kept as ranges of the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from okralong.pipelines.evaluation.gold import Gold
from okralong.pipelines.reporting.metrics import plain_words


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

    ``texts`` by text_id; every text_id of an item is in it.
    """

    name: str
    part: str
    texts: Mapping[str, Text]
    items: tuple[Item, ...]


def text_id(text: str) -> str:
    """An id of 16 hex digits that follows from a text's words: case, punctuation and spacing do not count."""
    return hashlib.sha256(" ".join(plain_words(text)).encode()).hexdigest()[:16]


def make_text(document: str, text: str) -> Text:
    """A text with its id."""
    return Text(text_id(text), document, text)
