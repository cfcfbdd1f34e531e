"""The best chunks by BM25, without working out the score of every chunk that holds a common word.

Rare terms are added up first. Once the k-th best sum is more than all terms that are left can bring, a chunk without
any of the rare ones cannot be among the best (MaxScore: Turtle and Flood 1995), and only those that can still get there
are scored in full. Their scores are summed in the order of the query, so that the result is the same to the last bit
whatever was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.search.bm25 import ScopeStatistics
from okralong.pipelines.search.scope import RowRanges

FEW: Final = 20_000
"""Postings up to which every chunk is scored: leaving some out would cost more than it saves (ours)."""

_LOOK_UP: Final = 10
"""What finding a chunk in one term's postings costs, in postings added up (ours, measured: 8 to 12)."""

_ROUNDING: Final = 1e-9
"""Sums in another order differ by less than this share."""

Int32 = NDArray[np.int32]
Doubles = NDArray[np.float64]


def best_places(
    statistics: ScopeStatistics,
    weights: Doubles,
    found: Sequence[tuple[Int32, Int32]],
    scope: RowRanges,
    lengths: Int32,
    k: int,
) -> tuple[NDArray[np.int64], Doubles]:
    """Places of the chunks that are among the best ``k`` or tied with the k-th, and their scores, in order of place.

    ``found`` are the rows, rising, and frequencies of each term, in the order of ``weights`` (see
    ``ScopeStatistics.scores``); ``lengths`` are those of all chunks of the scope. Chunks without any term are left out.
    """
    postings = sum(len(places) for places, _ in found)
    if not postings:  # also of a scope of stop words alone, whose chunks have no length to divide by
        return np.empty(0, dtype=np.int64), np.empty(0)
    if postings <= FEW:
        places, scores = _all(statistics, weights, found, scope, lengths)
    else:
        placed = [(scope.places_of(rows), frequencies) for rows, frequencies in found]
        places = _within_reach(statistics, weights, placed, lengths, k)
        scores = _in_full(statistics, weights, placed, lengths, places)
    if len(places) > k:
        # Everything tied with the k-th stays until the chunk_ids have decided.
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
    # bincount adds in the order given: term by term.
    total: Any = np.bincount(places, statistics.scores(each, frequencies, lengths[places]), len(lengths))
    (hit,) = total.nonzero()
    return hit, total[hit]


def _within_reach(
    statistics: ScopeStatistics, weights: Doubles, found: Sequence[tuple[Int32, Int32]], lengths: Int32, k: int
) -> NDArray[np.int64]:
    """Places whose full score can be among the best ``k``, rising."""
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
        # An occurrence brings less than its weight, since tf / (damping + tf) < 1.
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
