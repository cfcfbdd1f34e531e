"""Parting a document into chunks that tile it, in time and memory linear in its text whatever stands in it.

Units (sentences, lines, table rows) are packed greedily. A unit that is larger than a chunk is parted at words, and a
word that is larger still at a few bytes, never inside a character that a reader sees as one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Chunk, Document, TableSpan
from okralong.pipelines.indexing.units import Boundaries, Unit, fitting_units

MIN_GRANULARITY: Final = 16
"""Smallest chunk size in tokens; ours: below it a single character might not fit."""

TABLE_START_SHARE: Final = 0.5
"""A chunk that is at least so full ends before a table that would not fit whole; ours, not in the papers."""

_SINGLE_STEPS: Final = 4
"""Units that an overfull chunk gives back one by one. Ours: prose gives back one or two; a text whose units all count
for less than they take, such as "1 1 1 1", would give back half of them, and each step counts the whole chunk."""


def chunk_document(doc: Document, granularity: int, at: Boundaries = "sentences") -> list[Chunk]:
    """Chunks of at most ``granularity`` o200k tokens that tile ``doc.text``; none for an empty text.

    Raises ValueError when ``granularity`` is below MIN_GRANULARITY.
    """
    if granularity < MIN_GRANULARITY:
        raise ValueError(f"A granularity of {granularity} tokens is too small; the least is {MIN_GRANULARITY}.")
    tables = sorted(doc.tables, key=lambda table: table.start_char)
    starts = [table.start_char for table in tables]
    ends = {table.start_char: table.end_char for table in tables}
    units = _Ahead(fitting_units(doc, granularity, at))
    chunks: list[Chunk] = []
    while units.get(0) is not None:
        taken, n_tokens = _fill(doc.text, units, granularity, ends)
        start, end = taken[0].start, taken[-1].end
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
                table_id=_cut_table(start, end, tables, starts),
            )
        )
    return chunks


class _Ahead:
    """Units that have been looked at and not yet packed, at most some more than fill one chunk."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units
        self._seen: list[Unit] = []

    def get(self, place: int) -> Unit | None:
        """The unit ``place`` units ahead, or None when the text ends before it."""
        while place >= len(self._seen):
            unit = next(self._units, None)
            if unit is None:
                return None
            self._seen.append(unit)
        return self._seen[place]

    def first(self, count: int) -> Sequence[Unit]:
        """The first ``count`` of the units that ``get`` has given."""
        return self._seen[:count]

    def take(self, count: int) -> Sequence[Unit]:
        """``first``, and they are gone."""
        taken = self._seen[:count]
        del self._seen[:count]
        return taken


def _fill(text: str, units: _Ahead, granularity: int, tables: Mapping[int, int]) -> tuple[Sequence[Unit], int]:
    """Take the units of the next chunk; with its number of tokens."""

    def tokens(count: int) -> int:
        seen = units.first(count)
        return count_tokens(text[seen[0].start : seen[-1].end])

    most = _reach(units, granularity, tables)
    n_tokens = tokens(most)
    steps = 0
    while n_tokens > granularity and steps < _SINGLE_STEPS:  # the sum of costs is an estimate, this count is the truth
        most -= 1
        steps += 1
        n_tokens = tokens(most)
    if n_tokens > granularity:
        fits, over = 1, most  # a single unit always fits
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (middle, over) if tokens(middle) <= granularity else (fits, middle)
        most, n_tokens = fits, tokens(fits)
    return units.take(most), n_tokens


def _reach(units: _Ahead, granularity: int, tables: Mapping[int, int]) -> int:
    """How many units fit into the next chunk by the sum of their costs; at least one. ``tables``: start to end."""
    total = 0
    place = 0
    while (unit := units.get(place)) is not None and total + unit.cost <= granularity:
        if (
            total >= TABLE_START_SHARE * granularity
            and unit.start in tables
            and not _fits_whole(units, place, tables[unit.start], granularity - total)
        ):
            break
        total += unit.inner_cost
        place += 1
    return max(1, place)


def _fits_whole(units: _Ahead, place: int, end: int, room: int) -> bool:
    """Whether the units from ``place`` on that begin before ``end`` have at most ``room`` tokens together."""
    while (unit := units.get(place)) is not None and unit.start < end:
        room -= unit.cost
        if room < 0:
            return False
        place += 1
    return True


def _cut_table(start: int, end: int, tables: Sequence[TableSpan], starts: Sequence[int]) -> str | None:
    """The table that ``start`` or ``end`` cuts; where both cut one, that with more of its text in the chunk."""
    cut = []
    for edge in (start, end):
        before = bisect_left(starts, edge) - 1
        if before >= 0 and edge < tables[before].end_char:
            cut.append(tables[before])
    if not cut:
        return None
    return max(cut, key=lambda table: min(end, table.end_char) - max(start, table.start_char)).table_id
