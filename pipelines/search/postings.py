"""Which chunks hold a term, and how often: the postings of one shard, term by term."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.search import layout
from okralong.pipelines.search.columns import Strings
from okralong.pipelines.search.scope import RowRanges
from okralong.pipelines.search.terms import TermTable
from okralong.pipelines.storage import Folder

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
    def build(cls, table: TermTable) -> Postings:
        """Count the terms of each text; text number i becomes row i."""
        n_rows, n_terms = len(table.lengths), len(table.vocabulary)
        row_of = np.repeat(np.arange(n_rows, dtype=np.int64), table.lengths)
        # One sorted integer per (term, row) gives the order of the columns and the counts in a single pass.
        pairs, counts = np.unique(table.terms * max(n_rows, 1) + row_of, return_counts=True)
        per_term = np.bincount(pairs // max(n_rows, 1), minlength=n_terms)
        return cls(
            vocabulary=Strings.of(pa.chunked_array([pa.array(table.vocabulary, pa.large_string())])),
            pointers=np.concatenate(([0], np.cumsum(per_term))).astype(np.int64),
            rows=(pairs % max(n_rows, 1)).astype(np.int32),
            frequencies=counts.astype(np.int32),
            lengths=table.lengths,
        )

    def write(self, folder: Folder) -> None:
        """Write the files of the postings into a shard's folder."""
        layout.write_array(folder, layout.POINTERS, self.pointers)
        layout.write_array(folder, layout.POSTING_ROWS, self.rows)
        layout.write_array(folder, layout.FREQUENCIES, self.frequencies)
        layout.write_array(folder, layout.LENGTHS, self.lengths)
        terms = pa.array([self.vocabulary.at(place) for place in range(len(self.vocabulary))], pa.large_string())
        layout.write_columns(folder, layout.VOCABULARY, pa.table([terms], schema=layout.VOCABULARY_SCHEMA))

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the files that ``write`` wrote. Raises OSError or ValueError when one is missing or damaged."""
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
