"""The rows of a shard that a question is about: a few contiguous ranges, since a document's rows are neighbours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Disjoint half-open row ranges in rising order. A row's *place* is its position among the rows of all ranges.

    Row numbers are int32 like the postings: a binary search with keys of another type would copy the postings.
    """

    starts: Int32
    ends: Int32
    offsets: Int32
    size: int
    bounds: Int32
    """The first start and the last end."""

    @classmethod
    def of(cls, ranges: Iterable[range]) -> RowRanges:
        """Built from ranges in rising order."""
        listed = list(ranges)
        starts = np.array([part.start for part in listed], dtype=np.int32)
        ends = np.array([part.stop for part in listed], dtype=np.int32)
        widths = ends - starts
        offsets = (np.cumsum(widths) - widths).astype(np.int32)
        bounds = np.array([starts[0], ends[-1]] if listed else [0, 0], dtype=np.int32)
        return cls(starts, ends, offsets, int(widths.sum()), bounds)

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row numbers of some places."""
        if len(self.starts) == 1:
            return places + int(self.bounds[0])
        part = np.searchsorted(self.offsets, places, side="right") - 1
        rows: NDArray[np.int64] = places + (self.starts - self.offsets)[part]
        return rows

    def places_of(self, rows: Int32) -> Int32:
        """The places of some rows of the ranges."""
        if len(self.starts) == 1:
            return rows - self.bounds[0] if self.bounds[0] else rows
        part = np.searchsorted(self.starts, rows, side="right") - 1
        places: Int32 = rows - (self.starts - self.offsets)[part]
        return places

    def within(self, rows: Int32) -> tuple[Int32, Int32]:
        """For sorted ``rows``: where each range's run of them begins and ends."""
        return (
            np.searchsorted(rows, self.starts).astype(np.int32),
            np.searchsorted(rows, self.ends).astype(np.int32),
        )


def joined(ranges: Iterable[range]) -> list[range]:
    """Ranges in rising order, with neighbours that touch made one."""
    result: list[range] = []
    for part in sorted(ranges, key=lambda each: each.start):
        if result and result[-1].stop == part.start:
            result[-1] = range(result[-1].start, part.stop)
        elif part:
            result.append(part)
    return result
