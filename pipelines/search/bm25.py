"""BM25 with the statistics of the question's scope.

A score means something only against the collection that it was computed in. Here the collection is what the question
is about: one document, some, or the whole archive. The shards therefore keep raw term frequencies and lengths, say
what the scope looks like on their side, and are told the sum before they score. A chunk's score does not depend on
the shard that it lies in, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

K1: Final = 1.5
"""Saturation of the term frequency: the default of bm25s; the papers leave the retriever open."""

B: Final = 0.75
"""Weight of the length: the default of bm25s; the papers leave the retriever open."""


@dataclass(frozen=True, slots=True)
class ScopeStatistics:
    """What BM25 must know of a scope: its chunks, the sum of their lengths in terms, and in how many a term occurs.

    Statistics of disjoint parts add up to those of the whole.
    """

    n_chunks: int = 0
    total_length: int = 0
    document_frequency: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: ScopeStatistics) -> ScopeStatistics:
        frequency = dict(self.document_frequency)
        for term, count in other.document_frequency.items():
            frequency[term] = frequency.get(term, 0) + count
        return ScopeStatistics(self.n_chunks + other.n_chunks, self.total_length + other.total_length, frequency)

    def inverse_document_frequency(self, term: str) -> float:
        """``ln(1 + (N - df + 0.5) / (df + 0.5))``, which is never negative (Lucene's variant)."""
        df = self.document_frequency.get(term, 0)
        return math.log(1 + (self.n_chunks - df + 0.5) / (df + 0.5))

    def scores(
        self, weights: NDArray[np.float64] | np.float64, frequencies: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """What each occurrence of a term in a chunk adds to the chunk's score, all of shape (n,), n > 0.

        ``weights`` are the inverse document frequencies, times how often the query says the term (one for all where
        they are of one term); ``frequencies`` how often the chunk does, ``lengths`` those of the chunks.
        """
        average = self.total_length / self.n_chunks
        # In place: for a whole archive these are hundreds of thousands.
        damping = np.multiply(lengths, K1 * B / average, dtype=np.float64)
        damping += K1 * (1 - B)
        damping += frequencies
        scores: NDArray[np.float64] = np.multiply(weights, frequencies, dtype=np.float64)
        scores /= damping
        return scores
