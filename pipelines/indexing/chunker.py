"""Parting a document into chunks that tile it.

Units (sentences, lines, table rows) are packed greedily. A unit that is larger than a chunk is parted at words, and a
word that is larger still at a few bytes, never inside a character that a reader sees as one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from okralong.pipelines.indexing.sentences import boundaries
from okralong.pipelines.tokens import count_tokens, count_tokens_batch
from okralong.pipelines.values import Chunk, Document, TableSpan

Boundaries = Literal["sentences", "words"]
"""Where a chunk may end: after a sentence, line or table row, or after any word."""

MIN_GRANULARITY: Final = 16
"""Smallest chunk size in tokens; ours: below it a single character might not fit."""

TABLE_START_SHARE: Final = 0.5
"""A chunk that is at least so full ends before a table that would not fit whole; ours, not in the papers."""

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


def chunk_document(doc: Document, granularity: int, at: Boundaries = "sentences") -> list[Chunk]:
    """Chunks of at most ``granularity`` o200k tokens that tile ``doc.text``; none for an empty text.

    Raises ValueError when ``granularity`` is below MIN_GRANULARITY.
    """
    return pack(doc, split_units(doc, at), granularity)


def split_units(doc: Document, at: Boundaries = "sentences") -> list[Unit]:
    """The units of ``doc``, each tokenised once; they serve every granularity."""
    if at == "words":
        return _units(doc.text, [0, *(match.end() for match in _SPACED_WORD.finditer(doc.text))])
    return _units(doc.text, [0, *boundaries(doc.text, doc.tables)])


def pack(doc: Document, units: Sequence[Unit], granularity: int) -> list[Chunk]:
    """``chunk_document`` over units that were split before."""
    if granularity < MIN_GRANULARITY:
        raise ValueError(f"A granularity of {granularity} tokens is too small; the least is {MIN_GRANULARITY}.")
    fitting = [part for unit in units for part in _fit(doc.text, unit, granularity)]
    tables = sorted(doc.tables, key=lambda table: table.start_char)
    table_costs = _table_costs(fitting, tables)
    chunks: list[Chunk] = []
    first = 0
    while first < len(fitting):
        last = _reach(fitting, first, granularity, table_costs)
        n_tokens = count_tokens(doc.text[fitting[first].start : fitting[last].end])
        while n_tokens > granularity:  # the sum of costs is an estimate, this count is the truth
            last -= 1
            n_tokens = count_tokens(doc.text[fitting[first].start : fitting[last].end])
        start, end = fitting[first].start, fitting[last].end
        chunks.append(
            Chunk(
                chunk_id=f"{doc.sha256[:16]}-{granularity}-{len(chunks):06d}",
                doc_id=doc.doc_id,
                granularity=granularity,
                ordinal=len(chunks),
                start_char=start,
                end_char=end,
                n_tokens=n_tokens,
                text=doc.text[start:end],
                table_id=_cut_table(start, end, tables),
            )
        )
        first = last + 1
    return chunks


def _units(text: str, cuts: Sequence[int]) -> list[Unit]:
    spans = list(pairwise(cuts))
    costs = count_tokens_batch([text[start:end] for start, end in spans])
    return [
        Unit(start, end, cost, cost - (cost > 1 and text[end - 1] == " " and text[end - 2] != " "))
        for (start, end), cost in zip(spans, costs, strict=True)
    ]


def _reach(units: Sequence[Unit], first: int, granularity: int, table_costs: dict[int, int]) -> int:
    """Index of the last unit of the chunk that begins with unit ``first``."""
    total = 0
    last = first
    while last < len(units):
        unit = units[last]
        if total + unit.cost > granularity:
            break
        starts_table = table_costs.get(unit.start, 0)
        if starts_table and total >= TABLE_START_SHARE * granularity and total + starts_table > granularity:
            break
        total += unit.inner_cost
        last += 1
    return max(first, last - 1)


def _fit(text: str, unit: Unit, granularity: int) -> Iterator[Unit]:
    if unit.cost <= granularity:
        yield unit
        return
    words = [unit.start, *(match.end() for match in _WORD.finditer(text, unit.start, unit.end))]
    for word in _units(text, words):
        if word.cost <= granularity:
            yield word
        else:
            yield from _units(text, [word.start, *_piece_ends(text, word, granularity)])


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


def _table_costs(units: Sequence[Unit], tables: Sequence[TableSpan]) -> dict[int, int]:
    """Tokens of each table by the offset at which it starts."""
    costs: dict[int, int] = {}
    starts = [table.start_char for table in tables]
    for unit in units:
        number = bisect_right(starts, unit.start) - 1
        if number >= 0 and unit.start < tables[number].end_char:
            costs[starts[number]] = costs.get(starts[number], 0) + unit.cost
    return costs


def _cut_table(start: int, end: int, tables: Sequence[TableSpan]) -> str | None:
    """The table that ``start`` or ``end`` cuts; where both cut one, that with more of its text in the chunk."""
    cut = [t for t in tables if t.start_char < start < t.end_char or t.start_char < end < t.end_char]
    if not cut:
        return None
    return max(cut, key=lambda table: min(end, table.end_char) - max(start, table.start_char)).table_id
