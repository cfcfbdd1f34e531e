"""The units that a chunker packs: sentences, lines, table rows or words, and smaller pieces of what is too large.

They are made one by one as they are asked for: a text of many megabytes may have millions, and a list of them would
take fifty times its memory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, Literal

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.sentences import boundaries

Boundaries = Literal["sentences", "words"]
"""Where a chunk may end: after a sentence, line or table row, or after any word."""

_PIECE_BYTES: Final = 16
"""Pieces of an overlong word; a token has at least one byte, so that a piece always fits."""

_WORD: Final = re.compile(r"\S+\s*|\s+")
_SPACED_WORD: Final = re.compile(r"\s*\S+|\s+")
"""A word with the blanks before it, which o200k puts into one token with it: costs add up, and chunks are filled."""
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text that is not parted if it can be helped.

    ``cost`` is its number of tokens on its own, ``inner_cost`` about that with more text behind it: a lone last space
    goes into the first token of the next word.
    """

    start: int
    end: int
    cost: int
    inner_cost: int


def fitting_units(doc: Document, granularity: int, at: Boundaries) -> Iterator[Unit]:
    """The units of ``doc`` in order, each of at most ``granularity`` o200k tokens; together they tile its text."""
    if at == "words":
        ends: Iterable[int] = (match.end() for match in _SPACED_WORD.finditer(doc.text))
    else:
        ends = boundaries(doc.text, doc.tables)
    for unit in _units(doc.text, 0, ends):
        yield from _parted(doc.text, unit, granularity)


def _units(text: str, start: int, ends: Iterable[int]) -> Iterator[Unit]:
    for begin, end in pairwise(chain([start], ends)):
        cost = count_tokens(text[begin:end])
        yield Unit(begin, end, cost, cost - (cost > 1 and text[end - 1] == " " and text[end - 2] != " "))


def _parted(text: str, unit: Unit, granularity: int) -> Iterator[Unit]:
    if unit.cost <= granularity:
        yield unit
        return
    for word in _units(text, unit.start, (match.end() for match in _WORD.finditer(text, unit.start, unit.end))):
        if word.cost <= granularity:
            yield word
        else:
            yield from _units(text, word.start, _piece_ends(text, word, granularity))


def _piece_ends(text: str, word: Unit, granularity: int) -> Iterator[int]:
    size = 0
    for start, end in _clusters(text, word, granularity):
        length = len(text[start:end].encode())
        if size and size + length > _PIECE_BYTES:
            yield start
            size = 0
        size += length
    yield word.end


def _clusters(text: str, word: Unit, granularity: int) -> Iterator[tuple[int, int]]:
    """Characters with the marks, joiners and selectors that belong to them, unless they pass ``granularity`` bytes."""
    start = word.start
    size = len(text[start].encode())
    for at in range(word.start + 1, word.end):
        length = len(text[at].encode())
        joined = text[at] == _JOINER or text[at - 1] == _JOINER or unicodedata.category(text[at]) in ("Mn", "Mc", "Me")
        if joined and size + length <= granularity:
            size += length
            continue
        yield start, at
        start, size = at, length
    yield start, word.end
