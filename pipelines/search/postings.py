"""Which chunks hold a term, and how often: the postings of one shard, term by term."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.search import layout
from okralong.pipelines.search.scope import RowRanges
from okralong.pipelines.search.terms import TermTable
from okralong.pipelines.storage import Folder

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings in column form (see ``layout``), with the length of each chunk in terms."""

    vocabulary: pa.Array
    pointers: NDArray[np.int64]
    rows: Int32
    frequencies: Int32
    lengths: Int32

    @classmethod
    def build(cls, table: TermTable) -> Postings:
        """Count the terms of each text; text number i becomes row i."""
        n_rows, n_terms = len(table.lengths), len(table.vocabulary)
        row_of = np.repeat(np.arange(n_rows, dtype=np.int64), table.lengths)
        # One sorted integer per (term, row) gives the order of the columns and the counts in a single pass.
        pairs, counts = np.unique(table.terms * max(n_rows, 1) + row_of, return_counts=True)
        per_term = np.bincount(pairs // max(n_rows, 1), minlength=n_terms)
        return cls(
            vocabulary=pa.array(table.vocabulary, pa.large_string()),
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
        layout.write_columns(folder, layout.VOCABULARY, pa.table([self.vocabulary], schema=layout.VOCABULARY_SCHEMA))

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the files that ``write`` wrote. Raises OSError or ValueError when one is missing or damaged."""
        column = layout.open_columns(folder, layout.VOCABULARY, layout.VOCABULARY_SCHEMA).column("term")
        postings = cls(
            vocabulary=column.chunk(0) if column.num_chunks else pa.array([], pa.large_string()),
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

    def total_length(self, scope: RowRanges) -> int:
        """The sum of the lengths of the scope's chunks."""
        runs = zip(scope.starts, scope.ends, strict=True)
        return sum(int(self.lengths[start:end].sum(dtype=np.int64)) for start, end in runs)

    def count(self, term: str, scope: RowRanges) -> int:
        """In how many chunks of the scope a term occurs."""
        entries = self._entries(term)
        if entries is None:
            return 0
        first, last = scope.within(self.rows[entries])
        return int((last - first).sum())

    def find(self, term: str, scope: RowRanges) -> tuple[Int32, Int32, Int32]:
        """The chunks of the scope that hold a term: their places, frequencies and lengths, each of shape (n,)."""
        entries = self._entries(term)
        if entries is None:
            none = np.empty(0, dtype=np.int32)
            return none, none, none
        rows, frequencies = self.rows[entries], self.frequencies[entries]
        first, last = scope.within(rows)
        if len(first) == 1:
            run = slice(int(first[0]), int(last[0]))
            rows, frequencies = rows[run], frequencies[run]
            return rows - (scope.starts[0] - scope.offsets[0]), frequencies, self.lengths[rows]
        counts = last - first
        # Entry numbers of all runs, laid end to end without a loop over the ranges.
        chosen = np.arange(int(counts.sum())) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        rows, frequencies = rows[chosen], frequencies[chosen]
        return rows - np.repeat(scope.starts - scope.offsets, counts), frequencies, self.lengths[rows]

    def _entries(self, term: str) -> slice | None:
        vocabulary = self.vocabulary
        place = bisect.bisect_left(range(len(vocabulary)), term, key=lambda number: str(vocabulary[number].as_py()))
        if place == len(vocabulary) or vocabulary[place].as_py() != term:
            return None
        return slice(int(self.pointers[place]), int(self.pointers[place + 1]))
