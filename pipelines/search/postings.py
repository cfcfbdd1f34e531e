"""Which chunks hold a term, and how often: the postings of one shard, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.search import layout
from okralong.pipelines.search.columns import Strings
from okralong.pipelines.search.scope import RowRanges

Int32 = NDArray[np.int32]

_NONE: Final[Int32] = np.empty(0, dtype=np.int32)


KNOWN_TERMS: Final = 16_384
"""Terms whose place in the vocabulary is remembered; ours: some megabytes, and the words of thousands of questions."""


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings in column form (see ``layout``), with the length of each chunk in terms."""

    vocabulary: Strings
    pointers: NDArray[np.int64]
    rows: Int32
    frequencies: Int32
    lengths: Int32
    known: dict[str, slice | None] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the files of a shard. Raises OSError or ValueError when one is missing or damaged."""
        postings = cls(
            vocabulary=Strings.of(layout.open_columns(folder, layout.VOCABULARY, layout.VOCABULARY_SCHEMA).column(0)),
            pointers=layout.open_array(folder, layout.POINTERS),
            rows=layout.open_array(folder, layout.POSTING_ROWS),
            frequencies=layout.open_array(folder, layout.FREQUENCIES),
            lengths=layout.open_array(folder, layout.LENGTHS),
        )
        n_terms, n_postings = len(postings.vocabulary), len(postings.rows)
        if (len(postings.pointers), len(postings.frequencies), int(postings.pointers[-1])) != (
            n_terms + 1,
            n_postings,
            n_postings,
        ):
            raise ValueError("the postings and the vocabulary do not belong together")
        return postings

    def lengths_of(self, scope: RowRanges) -> Int32:
        """The lengths of the scope's chunks, by place; those of a single range are not copied."""
        runs = [self.lengths[start:end] for start, end in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True)]
        return runs[0] if len(runs) == 1 else np.concatenate([_NONE, *runs])

    def count(self, term: str, scope: RowRanges) -> int:
        """In how many chunks of the scope a term occurs."""
        entries = self._entries(term)
        if entries is None:
            return 0
        if scope.size == len(self.lengths):
            return int(entries.stop - entries.start)
        first, last = scope.within(self.rows[entries])
        return int((last - first).sum())

    def find(self, term: str, scope: RowRanges) -> tuple[Int32, Int32]:
        """The chunks of the scope that hold a term: their rows, rising, and how often they do, both of shape (n,)."""
        entries = self._entries(term)
        if entries is None:
            return _NONE, _NONE
        rows, frequencies = self.rows[entries], self.frequencies[entries]
        if scope.size == len(self.lengths):
            return rows, frequencies
        if len(scope.starts) == 1:
            first, last = rows.searchsorted(scope.bounds).tolist()
            return rows[first:last], frequencies[first:last]
        starts, ends = scope.within(rows)
        counts = ends - starts
        # Entry numbers of all runs, laid end to end without a loop over the ranges.
        chosen = np.arange(int(counts.sum())) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return rows[chosen], frequencies[chosen]

    def _entries(self, term: str) -> slice | None:
        try:
            return self.known[term]
        except KeyError:
            place = self.vocabulary.place(term)
        found = None if place is None else slice(int(self.pointers[place]), int(self.pointers[place + 1]))
        if len(self.known) >= KNOWN_TERMS:
            self.known.clear()
        self.known[term] = found
        return found
