"""The nearest vectors among contiguous rows, by inner product, with an order that never wavers.

FAISS reads the mapped matrix range by range. Its ID selectors are not used: a search on a GPU has been seen to ignore
them without a word, and a document's rows are contiguous anyway. FAISS finds the candidates; their final scores are
computed here, row by row in double precision, since sums of float32 depend on the block that a row happens to be in
and equal vectors must get equal scores in every shard.
"""

from __future__ import annotations

from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.search.scope import RowRanges

SLACK: Final = 16
"""Vectors asked for beyond k, so that a tie at the k-th place is seen (ours, not in the papers)."""

TOLERANCE: Final = 1e-5
"""How far FAISS's float32 score of a unit vector may be off (ours, not in the papers; seen: 4e-7)."""


def nearest(
    matrix: NDArray[np.float32], vector: NDArray[np.float32], scope: RowRanges, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of the scope that are among the best ``k`` or tied with the k-th, unsorted, and their inner products.

    ``matrix`` has shape (rows, dimension), ``vector`` (dimension,); k > 0 and the scope holds a row.
    """
    tolerance = TOLERANCE * max(1.0, float(np.linalg.norm(vector)))
    rows, rough = [], []
    for start, end in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True):
        places, scores = _best_of(matrix[start:end], vector[np.newaxis], k, tolerance)
        rows.append(places + start)
        rough.append(scores)
    found, estimates = np.concatenate(rows), np.concatenate(rough)
    if len(found) > k:
        found = found[estimates >= np.partition(estimates, len(estimates) - k)[-k] - tolerance]
    products = matrix[found].astype(np.float64) * vector.astype(np.float64)
    return found, products.sum(axis=1).astype(np.float32)


def _best_of(
    block: NDArray[np.float32], query: NDArray[np.float32], k: int, tolerance: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    wanted = min(len(block), k + SLACK)
    while True:
        scores, places = faiss.knn(query, block, wanted, faiss.METRIC_INNER_PRODUCT)
        if wanted == len(block) or scores[0, k - 1] - scores[0, -1] > 2 * tolerance:
            return places[0], scores[0]
        wanted = min(len(block), 2 * wanted)
