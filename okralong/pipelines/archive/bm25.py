"""BM25 with the statistics of a question's scope.

BM25 scores are relative to a collection, which here is the question's scope: one document, several, or the whole
archive. So shards store raw term frequencies and lengths. Each reports the statistics of its part of the scope, and
computes scores with the sum of all parts. A chunk's score is bit-identical whichever shard holds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive import files
from okralong.pipelines.archive.files import RowRanges, Strings

K1: Final = 1.5
"""Saturation of the term frequency. It is the default of bm25s, since the papers do not specify it."""

B: Final = 0.75
"""Weight of the length. It is the default of bm25s, since the papers do not specify it."""


@dataclass(frozen=True, slots=True)
class ScopeStatistics:
    """BM25's statistics of a scope: number of chunks, their total length in terms, and document frequencies.

    Statistics of disjoint parts of a scope can be added with ``+``.
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
        """Return ``ln(1 + (N - df + 0.5) / (df + 0.5))``, which is never negative (Lucene's variant)."""
        df = self.document_frequency.get(term, 0)
        return math.log(1 + (self.n_chunks - df + 0.5) / (df + 0.5))

    def scores(
        self, weights: NDArray[np.float64] | np.float64, frequencies: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Return what a term adds to the score of each chunk that contains it.

        All arrays have the shape (n,), n > 0: one element for each pair of a term and a chunk.

        Args:
            weights: The term's inverse document frequency times its count in the query; a scalar if all pairs have one
                term.
            frequencies: Counts of the term in the chunk.
            lengths: Lengths of the chunks.
        """
        average = self.total_length / self.n_chunks
        # Computed in place, because a whole archive has hundreds of thousands of pairs.
        damping = np.multiply(lengths, K1 * B / average, dtype=np.float64)
        damping += K1 * (1 - B)
        damping += frequencies
        scores: NDArray[np.float64] = np.multiply(weights, frequencies, dtype=np.float64)
        scores /= damping
        return scores


# The postings of a shard: for each term, the chunks that contain it, and its frequency in each.

Int32 = NDArray[np.int32]

_NONE: Final[Int32] = np.empty(0, dtype=np.int32)


KNOWN_TERMS: Final = 16_384
"""Number of terms whose place in the vocabulary is cached. They take some megabytes, enough for thousands of questions.
project default"""


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings as memory-mapped columns (see ``archive/files.py``), with the length of each chunk in terms."""

    vocabulary: Strings
    pointers: NDArray[np.int64]
    rows: Int32
    frequencies: Int32
    lengths: Int32
    known: dict[str, slice | None] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Path) -> Postings:
        """Map the files of a shard. Raises OSError or ValueError if one is missing or damaged."""
        postings = cls(
            vocabulary=Strings.of(files.open_columns(folder, files.VOCABULARY, files.VOCABULARY_SCHEMA).column(0)),
            pointers=files.open_array(folder, files.POINTERS),
            rows=files.open_array(folder, files.POSTING_ROWS),
            frequencies=files.open_array(folder, files.FREQUENCIES),
            lengths=files.open_array(folder, files.LENGTHS),
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
        """Return the lengths of the scope's chunks by place (see ``RowRanges``); a single range is not copied."""
        runs = [self.lengths[start:end] for start, end in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True)]
        return runs[0] if len(runs) == 1 else np.concatenate([_NONE, *runs])

    def count(self, term: str, scope: RowRanges) -> int:
        """Return the number of chunks of the scope that contain a term."""
        entries = self._entries(term)
        if entries is None:
            return 0
        if scope.size == len(self.lengths):
            return int(entries.stop - entries.start)
        first, last = scope.within(self.rows[entries])
        return int((last - first).sum())

    def find(self, term: str, scope: RowRanges) -> tuple[Int32, Int32]:
        """Return the ascending rows of the scope's n chunks with a term, and its frequencies, both of shape (n,)."""
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
        # The indexes of all entries to take, range after range, computed without a loop over the ranges.
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


# Find the best chunks without scoring every chunk that contains a common word (MaxScore: Turtle and Flood 1995). Rare
# terms are added first. Once the k-th best sum exceeds the most that the remaining terms can add, a chunk without any
# rare term cannot be among the best. Only the others are scored in full, adding terms in the order of the query, so
# that scores are bit-identical to those computed without skipping.

FEW: Final = 20_000
"""With at most this many postings, every chunk is scored: skipping some would cost more than it saves.
project default"""

_LOOK_UP: Final = 10
"""Finding a chunk in a term's postings takes as long as adding this many postings (measured: 8 to 12). project
default"""

_ROUNDING: Final = 1e-9
"""Largest relative difference between sums that add the same terms in different orders."""


Doubles = NDArray[np.float64]


def best_places(
    statistics: ScopeStatistics,
    weights: Doubles,
    found: Sequence[tuple[Int32, Int32]],
    scope: RowRanges,
    lengths: Int32,
    k: int,
) -> tuple[NDArray[np.int64], Doubles]:
    """Return the ascending places of the best ``k`` chunks and of ties with the k-th, and their scores.

    Args:
        statistics: The statistics of the whole scope.
        weights: The weight of each term, see ``ScopeStatistics.scores``.
        found: Ascending rows and frequencies of each term, in the order of ``weights``.
        scope: The rows of the scope in this shard.
        lengths: Lengths of all chunks of the scope.
        k: Number of chunks. Chunks without any of the terms are never returned.
    """
    postings = sum(len(places) for places, _ in found)
    if not postings:  # includes a scope whose chunks have only stop words, where all lengths are 0
        return np.empty(0, dtype=np.int64), np.empty(0)
    if postings <= FEW:
        places, scores = _all(statistics, weights, found, scope, lengths)
    else:
        placed = [(scope.places_of(rows), frequencies) for rows, frequencies in found]
        places = _within_reach(statistics, weights, placed, lengths, k)
        scores = _in_full(statistics, weights, placed, lengths, places)
    if len(places) > k:
        # Ties with the k-th are kept, since the caller breaks them by chunk_id.
        kept = scores >= _kth(scores, k)
        places, scores = places[kept], scores[kept]
    return places, scores


def _all(
    statistics: ScopeStatistics,
    weights: Doubles,
    found: Sequence[tuple[Int32, Int32]],
    scope: RowRanges,
    lengths: Int32,
) -> tuple[NDArray[np.int64], Doubles]:
    places = scope.places_of(np.concatenate([rows for rows, _ in found]))
    frequencies = np.concatenate([frequencies for _, frequencies in found])
    each = weights.repeat([len(rows) for rows, _ in found])
    # ``bincount`` adds in the order of its input: term by term.
    total: Any = np.bincount(places, statistics.scores(each, frequencies, lengths[places]), len(lengths))
    (hit,) = total.nonzero()
    return hit, total[hit]


def _within_reach(
    statistics: ScopeStatistics, weights: Doubles, found: Sequence[tuple[Int32, Int32]], lengths: Int32, k: int
) -> NDArray[np.int64]:
    """Return the ascending places whose full score can be among the best ``k``."""
    partial = np.zeros(len(lengths))
    left = float(weights.sum())
    rare_first = sorted(range(len(found)), key=lambda term: len(found[term][0]))
    for number, term in enumerate(rare_first):
        places, frequencies = found[term]
        if len(places):
            partial[places] += statistics.scores(weights[term], frequencies, lengths[places])
        left -= float(weights[term])
        common = rare_first[number + 1 :]
        if not common:
            break
        # A term adds less than its weight to a score, since tf / (damping + tf) < 1.
        touched = partial[partial > 0] if number else partial[places]
        reach = _kth(touched, k) * (1 - _ROUNDING) - left * (1 + _ROUNDING) if len(touched) >= k else 0.0
        if reach > 0:
            within = int((touched >= reach).sum())
            if within * len(found) * _LOOK_UP <= len(found[common[0]][0]):
                return (partial >= reach).nonzero()[0]
    (hit,) = partial.nonzero()
    if len(hit) <= k:
        return hit
    sums = partial[hit]
    return hit[sums >= _kth(sums, k) * (1 - _ROUNDING)]


def _in_full(
    statistics: ScopeStatistics,
    weights: Doubles,
    found: Sequence[tuple[Int32, Int32]],
    lengths: Int32,
    wanted: NDArray[np.int64],
) -> Doubles:
    total = np.zeros(len(wanted))
    keys = wanted.astype(np.int32)
    for weight, (places, frequencies) in zip(weights, found, strict=True):
        if not len(places):
            continue
        at = np.minimum(places.searchsorted(keys), len(places) - 1)
        (holds,) = (places[at] == keys).nonzero()
        total[holds] += statistics.scores(weight, frequencies[at[holds]], lengths[wanted[holds]])
    return total


def _kth(values: Doubles, k: int) -> float:
    ranked = values.copy()
    ranked.partition(len(ranked) - k)
    return float(ranked[-k])
