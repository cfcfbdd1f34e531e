"""The nearest vectors among contiguous rows, by inner product, with an order that never wavers.

FAISS reads the mapped matrix range by range. Its ID selectors are not used: a search on a GPU has been seen to ignore
them without a word, and a document's rows are contiguous anyway. FAISS finds the candidates; their final scores are
computed here, row by row in double precision, since sums of float32 depend on the block that a row happens to be in
and equal vectors must get equal scores in every shard.
"""

from __future__ import annotations

import math
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.search import gpu_rows
from okralong.pipelines.search.scope import RowRanges

SLACK: Final = 16
"""Vectors asked for beyond k, so that a tie at the k-th place is seen (ours, not in the papers)."""

TOLERANCE: Final = 1e-5
"""How far FAISS's float32 score of a unit vector may be off (ours, not in the papers; seen: 4e-7)."""

Found = tuple[NDArray[np.float32], NDArray[np.int64]]


def nearest(
    matrix: NDArray[np.float32],
    vector: NDArray[np.float32],
    scope: RowRanges,
    k: int,
    on_gpu: gpu_rows.GpuRows | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of the scope that are among the best ``k`` or tied with the k-th, unsorted, and their inner products.

    ``matrix`` has shape (rows, dimension), ``vector`` (dimension,); k > 0 and the scope holds a row. ``on_gpu`` holds
    the same matrix, and finds the candidates where it is given.
    """

    def knn(start: int, end: int, wanted: int) -> Found:
        if on_gpu is not None and wanted <= gpu_rows.MOST:
            return on_gpu.knn(vector, start, end, wanted)
        scores, places = faiss.knn(vector[np.newaxis], matrix[start:end], wanted, faiss.METRIC_INNER_PRODUCT)
        return scores[0], places[0]

    tolerance = TOLERANCE * max(1.0, math.sqrt(float(vector @ vector)))
    rows, rough = [], []
    for start, end in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True):
        wanted = min(end - start, k + SLACK)
        scores, places = knn(start, end, wanted)
        while wanted < end - start and scores[k - 1] - scores[-1] <= 2 * tolerance:
            wanted = min(end - start, 2 * wanted)
            scores, places = knn(start, end, wanted)
        if wanted > k:  # best first: those that may be tied with this range's k-th
            near = int((scores >= scores[k - 1] - tolerance).sum())
            scores, places = scores[:near], places[:near]
        rows.append(places + start)
        rough.append(scores)
    found = rows[0] if len(rows) == 1 else np.concatenate(rows)
    if len(rows) > 1 and len(found) > k:
        estimates = np.concatenate(rough)
        found = found[estimates >= np.partition(estimates, len(estimates) - k)[-k] - tolerance]
    return found, products(matrix, vector, found)


def products(matrix: NDArray[np.float32], vector: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Inner products of some rows with ``vector``, the same for a row whichever others are asked with it."""
    # Row by row: a product of matrices would sum a row's terms in an order that depends on its neighbours.
    exact: NDArray[np.float64] = np.vecdot(matrix[rows].astype(np.float64), vector.astype(np.float64))
    return exact.astype(np.float32)
