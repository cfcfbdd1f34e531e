"""The postings of a shard put together from those of others: words that were counted once are not counted again.

The result is what counting all texts anew would give, number for number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.search import layout
from okralong.pipelines.search.terms import analyze_texts


@dataclass(frozen=True)
class PostingPiece:
    """Postings in the form of ``layout``, and for each of their rows its place among the rows to come, -1 for none."""

    vocabulary: Any
    pointers: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    lengths: NDArray[np.int32]
    places: NDArray[np.int64]

    @classmethod
    def of_texts(cls, texts: Sequence[str], places: NDArray[np.int64]) -> PostingPiece:
        """The postings of texts that were not counted before; text number i is row i of the piece."""
        table = analyze_texts(texts)
        n_rows = max(len(table.lengths), 1)
        row_of = np.repeat(np.arange(len(table.lengths), dtype=np.int64), table.lengths)
        # One sorted integer per (term, row) gives the order of the columns and the counts in a single pass.
        pairs, counts = np.unique(table.terms * n_rows + row_of, return_counts=True)
        per_term = np.bincount(pairs // n_rows, minlength=len(table.vocabulary))
        return cls(
            vocabulary=pa.array(table.vocabulary, pa.large_string()),
            pointers=np.concatenate(([0], np.cumsum(per_term))).astype(np.int64),
            rows=(pairs % n_rows).astype(np.int32),
            frequencies=counts.astype(np.int32),
            lengths=table.lengths,
            places=places,
        )


@dataclass(frozen=True)
class MergedPostings:
    """The postings of all pieces, in the form of ``layout``."""

    vocabulary: pa.Array
    pointers: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, pieces: Sequence[PostingPiece], n_rows: int) -> MergedPostings:
        """Merge; every one of the ``n_rows`` rows to come is in one piece."""
        words = pa.chunked_array([_flat(piece.vocabulary) for piece in pieces], pa.large_string()).unique()
        words = words.take(pc.sort_indices(words))  # by bytes of UTF-8, which is the order of code points
        lengths = np.zeros(n_rows, dtype=np.int32)
        pairs, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        for piece in pieces:
            number = pc.index_in(_flat(piece.vocabulary), value_set=words).to_numpy(zero_copy_only=False)
            term = np.repeat(number.astype(np.int64), np.diff(piece.pointers))
            place = piece.places[piece.rows]
            kept = place >= 0
            # One integer for each (term, row): sorting them gives the order of the columns.
            pairs.append(term[kept] * n_rows + place[kept])
            counts.append(piece.frequencies[kept])
            lengths[piece.places[piece.places >= 0]] = piece.lengths[piece.places >= 0]
        together, frequencies = np.concatenate(pairs), np.concatenate(counts)
        order = np.argsort(together)
        together = together[order]
        per_term = np.bincount(together // max(n_rows, 1), minlength=len(words))
        left = per_term > 0  # words that only documents had that are gone
        return cls(
            vocabulary=words.filter(pa.array(left)),
            pointers=np.concatenate(([0], np.cumsum(per_term[left]))).astype(np.int64),
            rows=(together % max(n_rows, 1)).astype(np.int32),
            frequencies=frequencies[order].astype(np.int32),
            lengths=lengths,
        )

    def write(self, folder: Folder) -> None:
        """Write the files of the postings into a shard's folder."""
        layout.write_array(folder, layout.POINTERS, self.pointers)
        layout.write_array(folder, layout.POSTING_ROWS, self.rows)
        layout.write_array(folder, layout.FREQUENCIES, self.frequencies)
        layout.write_array(folder, layout.LENGTHS, self.lengths)
        layout.write_columns(folder, layout.VOCABULARY, pa.table([self.vocabulary], schema=layout.VOCABULARY_SCHEMA))


def _flat(words: Any) -> pa.Array:
    if not isinstance(words, pa.ChunkedArray):
        return words
    return pa.concat_arrays(words.chunks) if words.num_chunks else pa.array([], pa.large_string())
