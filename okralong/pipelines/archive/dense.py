"""Find the nearest vectors among contiguous rows by inner product, in a deterministic order.

FAISS finds candidates in each range of the mapped matrix, or uses an approximate index or a GPU. Its ID selectors are
not used: a GPU search may silently ignore them (facebookresearch/faiss issues 3114, 3924), and a document's rows are
contiguous anyway. Final scores are computed here, row by row in double precision. Otherwise equal vectors could get
different scores in different shards, because a float32 sum depends on the block of rows that it is computed with.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive.files import DenseConfig, RowRanges, cells_for
from okralong.pipelines.core.types import ConfigError

SLACK: Final = 16
"""Number of vectors requested in addition to k, to detect ties with the k-th. project default"""

TOLERANCE: Final = 1e-5
"""Largest error of FAISS's float32 score of a unit vector (observed: 4e-7). project default"""

Found = tuple[NDArray[np.float32], NDArray[np.int64]]


def nearest(
    matrix: NDArray[np.float32],
    vector: NDArray[np.float32],
    scope: RowRanges,
    k: int,
    on_gpu: GpuRows | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the best ``k`` rows of the scope and ties with the k-th, unsorted, and their inner products.

    ``matrix`` has shape (rows, dimension), ``vector`` (dimension,); k > 0 and the scope is not empty. ``on_gpu``, if
    given, has the same matrix and finds the candidates.
    """

    def knn(start: int, end: int, wanted: int) -> Found:
        if on_gpu is not None and wanted <= MOST:
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
        if wanted > k:  # sorted, best first: keep those that may tie with this range's k-th
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
    """Return the inner products of ``rows`` with ``vector``; a row's result does not depend on the other rows."""
    # Row by row, because in a matrix product the order of a row's sum depends on the other rows.
    exact: NDArray[np.float64] = np.vecdot(matrix[rows].astype(np.float64), vector.astype(np.float64))
    return exact.astype(np.float32)


@dataclass(frozen=True)
class SmallerChunks:
    """Chunks of the embedded size, whose vectors are used for larger chunks that have none.

    A larger chunk's score is the best of the smaller chunks that it overlaps. ``vectors`` has shape (smaller chunks,
    dimension). Larger chunk i overlaps the smaller chunks ``first[i]`` to ``end[i]`` (exclusive), at least one; both
    ascend with i.
    """

    vectors: NDArray[np.float32]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], small: Spans, large: Spans) -> SmallerChunks:
        """Assign smaller chunks to larger ones. Raises ValueError unless both have the same documents in order."""
        if list(small.ranges) != list(large.ranges):
            raise ValueError("the shard of the embedded size has other documents")
        starts = small.places(small.starts)
        first = np.searchsorted(starts, large.places(large.starts), side="right") - 1
        end = np.searchsorted(starts, large.places(large.ends), side="left")
        return cls(vectors, first, np.maximum(end, first + 1))

    def nearest(
        self, query: NDArray[np.float32], scope: RowRanges, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the nearest larger chunks, as the function ``nearest`` does."""
        rows = [np.arange(start, stop) for start, stop in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True)]
        rough = [self._rough(query, part) for part in rows]
        found, estimates = np.concatenate(rows), np.concatenate(rough)
        if len(found) > k:
            tolerance = TOLERANCE * max(1.0, math.sqrt(float(query @ query)))
            found = found[estimates >= np.partition(estimates, len(estimates) - k)[-k] - 2 * tolerance]
        return found, self._exact(query, found)

    def mean(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Return a unit vector per larger chunk, shape (rows, dimension): the mean of its smaller chunks."""
        means = np.stack([self.vectors[self.first[row] : self.end[row]].mean(axis=0) for row in rows])
        unit: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return unit.astype(np.float32)

    def _rough(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the float32 scores of larger chunks; ``rows`` must be contiguous."""
        start, stop = int(self.first[rows[0]]), int(self.end[rows[-1]])
        scores = np.append(self.vectors[start:stop] @ query, np.float32(-np.inf))
        bounds = np.stack([self.first[rows] - start, self.end[rows] - start], axis=1).reshape(-1)
        best: NDArray[np.float32] = np.maximum.reduceat(scores, bounds)[::2]
        return best

    def _exact(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        spans = [np.arange(self.first[row], self.end[row]) for row in rows.tolist()]
        bounds = np.cumsum([0, *map(len, spans[:-1])])
        best: NDArray[np.float32] = np.maximum.reduceat(products(self.vectors, query, np.concatenate(spans)), bounds)
        return best


@dataclass(frozen=True)
class Spans:
    """The character ranges of a shard's chunks, by row; ``ranges`` has the rows of each document."""

    ranges: Mapping[str, range]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def places(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """Map an offset of each chunk in its document to a number that ascends over all documents."""
        numbers = np.repeat(np.arange(len(self.ranges)), [len(rows) for rows in self.ranges.values()])
        return numbers * _LONGEST + characters


_LONGEST: Final = 1 << 40
"""More characters than any document has. The numbers of eight million documents per shard still fit into an int64."""


# An approximate FAISS index of a large shard's vectors: it finds candidates, which are then scored exactly. It holds
# one byte per dimension (scalar quantization), a quarter of the vectors' size, and is memory-mapped like them. The
# search effort is tuned at build time. It is raised until the index finds the configured share of the true best 20 for
# synthetic queries. Each of these lies between two vectors of the shard, like the vectors of real questions.

BEST: Final = 20
"""Recall is measured among the best 20, the paper's number of candidates of each retriever (appendix B.3)."""

LARGEST_K: Final = 64
"""For a larger k every vector is compared, because the effort was tuned for 20. project default"""

PROBES: Final = 256
"""Number of synthetic queries for tuning the effort. They measure a recall of 0.99 to within 0.002. project default"""

SPARE: Final = 2
"""Number of candidates per wanted chunk, because one byte per dimension does not tell close vectors apart. project
default"""

TRAINING: Final = 64
"""Number of training vectors per cell; more improve little. FAISS warns below 39 and uses at most 256. project
default"""


@dataclass(frozen=True)
class ApproximateIndex:
    """A FAISS index over the rows of a shard. ``effort`` is the number of cells to visit per search."""

    index: Any
    effort: int

    @classmethod
    def open(cls, path: Path, effort: int, rows: int, dimension: int) -> ApproximateIndex | None:
        """Map an index file; None for a graph of an earlier release. Raises ValueError if it is of other vectors."""
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise ValueError(f"{path.name} cannot be read: {error}") from error
        if (index.ntotal, index.d) != (rows, dimension):
            raise ValueError(f"{path.name} has {index.ntotal} rows of {index.d}, not {rows} of {dimension}")
        return cls(index, effort) if hasattr(index, "nlist") else None

    def candidates(self, query: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Return rows that probably include the nearest ``k``; fewer rows if the visited cells have fewer."""
        wanted = min(SPARE * k, self.index.ntotal)
        _, rows = self.index.search(query[np.newaxis], wanted, params=_visiting(self.effort))
        found: NDArray[np.int64] = rows[0][rows[0] >= 0]
        return found


@dataclass(frozen=True)
class Built:
    """A new index: the content of its file, and the effort and measured recall for the shard's manifest."""

    data: bytes
    effort: int
    recall: float


def build_approximate(matrix: NDArray[np.float32], config: DenseConfig) -> Built | None:
    """Build an index over ``matrix``, shape (rows, dimension), or return None if searches should compare every vector.

    It returns None with index "flat", for at most ``config.above`` rows, or if no effort reaches the recall. The build
    is deterministic.
    """
    if config.index == "flat" or len(matrix) <= config.above:
        return None
    index = _inverted_file(matrix)
    index.add(matrix)
    questions = _between(matrix)
    _, best = faiss.knn(questions, matrix, min(BEST, len(matrix)), faiss.METRIC_INNER_PRODUCT)
    effort = _least_effort(index, matrix, questions, best, config.recall, index.nlist)
    if effort is None:
        return None
    recall = _recall(index, matrix, questions, best, effort)
    return Built(faiss.serialize_index(index).tobytes(), effort, recall)


def _inverted_file(matrix: NDArray[np.float32]) -> Any:
    cells = cells_for(len(matrix))
    index: Any = faiss.index_factory(matrix.shape[1], f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True  # the centers of unit vectors are directions
    rows = np.random.default_rng(0).permutation(len(matrix))[: TRAINING * cells]
    index.train(matrix[np.sort(rows)])
    return index


def _between(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return synthetic queries. Each lies between two rows, nearer to one, so that it equals no chunk."""
    first, second = np.random.default_rng(1).integers(len(matrix), size=(2, PROBES))
    mixed = matrix[first] + 0.7 * matrix[second]
    unit: NDArray[np.float32] = mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-12)
    return unit


def _least_effort(
    index: Any,
    matrix: NDArray[np.float32],
    questions: NDArray[np.float32],
    best: NDArray[np.int64],
    recall: float,
    most: int,
) -> int | None:
    """Return the least effort that reaches the recall, to within a sixteenth; None if even ``most`` does not."""

    def enough(effort: int) -> bool:
        return _recall(index, matrix, questions, best, effort) >= recall

    high = 1
    while not enough(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > max(1, high // 16):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _recall(
    index: Any, matrix: NDArray[np.float32], questions: NDArray[np.float32], best: NDArray[np.int64], effort: int
) -> float:
    wanted = min(SPARE * best.shape[1], len(matrix))
    _, rows = index.search(questions, wanted, params=_visiting(effort))
    found = 0
    for question, candidates, true in zip(questions, rows, best, strict=True):
        seen = candidates[candidates >= 0]
        order = np.argsort(-(matrix[seen] @ question), kind="stable")[: len(true)]
        found += len(np.intersect1d(seen[order], true))
    return found / best.size


def _visiting(cells: int) -> Any:
    untyped: Any = faiss  # its stubs lack this class
    return untyped.SearchParametersIVF(nprobe=cells)


# The vectors of a shard on a GPU. FAISS gets the address of each contiguous range of rows.

MOST: Final = 2048
"""The largest k of FAISS's GPU selection."""


class GpuRows:
    """A copy of a float32 matrix of shape (rows, dimension) on the first visible GPU."""

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        """Copy the matrix. Raises ConfigError if FAISS is the CPU build or no GPU is visible."""
        if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
            raise ConfigError(
                "search.gpus_per_shard asks for vectors on a GPU, but the installed FAISS is the CPU build or sees no "
                "GPU. Install the extra faiss-gpu on the nodes with GPUs, or set search.gpus_per_shard to 0."
            )
        import torch

        self._rows = torch.from_numpy(np.array(matrix)).cuda()
        self._resources = faiss.StandardGpuResources()
        self._lock = threading.Lock()  # FAISS's resources are not thread-safe

    def knn(
        self, query: NDArray[np.float32], start: int, end: int, k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products and offsets from ``start`` of the best ``k`` of rows ``start`` to ``end``, best first.

        ``k`` is at most ``MOST`` and at most ``end - start``; ``query`` has shape (dimension,).
        """
        scores, places = np.empty(k, dtype=np.float32), np.empty(k, dtype=np.int64)
        block, query = self._rows[start:end], np.ascontiguousarray(query)
        asked: Any = faiss.GpuDistanceParams()
        asked.metric = faiss.METRIC_INNER_PRODUCT
        asked.k, asked.dims = k, block.shape[1]
        asked.vectors, asked.numVectors = faiss.cast_integer_to_void_ptr(block.data_ptr()), len(block)
        asked.vectorType, asked.vectorsRowMajor = faiss.DistanceDataType_F32, True
        asked.queries, asked.numQueries = faiss.swig_ptr(query), 1
        asked.queryType, asked.queriesRowMajor = faiss.DistanceDataType_F32, True
        asked.outDistances, asked.outIndices = faiss.swig_ptr(scores), faiss.swig_ptr(places)
        asked.outIndicesType = faiss.IndicesDataType_I64
        with self._lock:
            faiss.bfKnn(self._resources, asked)
        return scores, places
