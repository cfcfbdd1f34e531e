"""The nearest vectors among contiguous rows, by inner product, in an order that is the same every time.

FAISS finds the candidates in the mapped matrix, range by range, or through an approximate index or a GPU. Its ID
selectors are not used: a search on a GPU has been seen to ignore them without a word (facebookresearch/faiss issues
3114, 3924), and a document's rows are contiguous anyway. The final scores are computed here, row by row in double
precision, since sums of float32 depend on the block that a row happens to be in and equal vectors must get equal scores
in every shard.
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

from okralong.pipelines.archive.files import DenseConfig, RowRanges
from okralong.pipelines.core.types import ConfigError

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
    on_gpu: GpuRows | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rows of the scope that are among the best ``k`` or tied with the k-th, unsorted, and their inner products.

    ``matrix`` has shape (rows, dimension), ``vector`` (dimension,); k > 0 and the scope holds a row. ``on_gpu`` holds
    the same matrix, and finds the candidates where it is given.
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


@dataclass(frozen=True)
class SmallerChunks:
    """The chunks of the size that was embedded, by which larger ones without vectors of their own are found: a larger
    chunk scores as the best of the smaller ones that it overlaps.

    ``vectors`` has shape (smaller chunks, dimension). Larger chunk i overlaps those from ``first[i]`` to before
    ``end[i]``, at least one; both rise with i.
    """

    vectors: NDArray[np.float32]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], small: Spans, large: Spans) -> SmallerChunks:
        """``small`` and ``large`` are where the chunks of either size stand, of the same documents in the same order.
        Raises ValueError when they are not of the same documents.
        """
        if list(small.ranges) != list(large.ranges):
            raise ValueError("the shard of the embedded size has other documents")
        starts = small.places(small.starts)
        first = np.searchsorted(starts, large.places(large.starts), side="right") - 1
        end = np.searchsorted(starts, large.places(large.ends), side="left")
        return cls(vectors, first, np.maximum(end, first + 1))

    def nearest(
        self, query: NDArray[np.float32], scope: RowRanges, k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """As ``nearest``, of the larger chunks."""
        rows = [np.arange(start, stop) for start, stop in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True)]
        rough = [self._rough(query, part) for part in rows]
        found, estimates = np.concatenate(rows), np.concatenate(rough)
        if len(found) > k:
            tolerance = TOLERANCE * max(1.0, math.sqrt(float(query @ query)))
            found = found[estimates >= np.partition(estimates, len(estimates) - k)[-k] - 2 * tolerance]
        return found, self._exact(query, found)

    def mean(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """One unit vector for each of some larger chunks, shape (rows, dimension): the mean of its smaller chunks'."""
        means = np.stack([self.vectors[self.first[row] : self.end[row]].mean(axis=0) for row in rows])
        unit: NDArray[np.float32] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return unit.astype(np.float32)

    def _rough(self, query: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of contiguous larger chunks in float32."""
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
    """Where the chunks of a shard stand in their documents, in order of their rows; ``ranges`` are each document's."""

    ranges: Mapping[str, range]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def places(self, characters: NDArray[np.int64]) -> NDArray[np.int64]:
        """For a place in each chunk's document one number that rises over all documents."""
        numbers = np.repeat(np.arange(len(self.ranges)), [len(rows) for rows in self.ranges.values()])
        return numbers * _LONGEST + characters


_LONGEST: Final = 1 << 40
"""More characters than a document has; over eight million documents of a shard still fit into an int64."""


# An approximate FAISS index beside the vectors of a large shard: it names candidates, their scores stay exact. It holds
# one byte a dimension (scalar quantisation), a quarter of the vectors, and is mapped into memory like them. How far a
# question looks around is not set by hand: the build raises it until it finds the wanted share of the true best 20
# again, for made-up questions that lie between two vectors of the shard, where real ones lie too.

BEST: Final = 20
"""Recall is measured at 20, the paper's candidates of each retriever (appendix B.3)."""

LARGEST_K: Final = 64
"""Beyond it every vector is compared, since the effort was measured at 20 (ours)."""

PROBES: Final = 256
"""Made-up questions that the effort is measured with: at a recall of 0.99, +-0.002 (ours)."""

SPARE: Final = 2
"""Candidates for each chunk that is wanted, since one byte a dimension mixes up near ones (ours)."""

TRAINING: Final = 64
"""Vectors for each cell in training, of which more change little (ours; FAISS warns under 39, drops over 256)."""

CONSTRUCTION: Final = 100
"""Nodes that the graph looks at to place one (``efConstruction``; ours, between FAISS's 40 and the usual 200)."""

GRAPH_EFFORT: Final = 2048
"""Nodes beyond which a graph is slower than comparing with every vector of the shards meant here (ours)."""


@dataclass(frozen=True)
class ApproximateIndex:
    """A FAISS index over the rows of a shard; ``effort`` is how many cells (ivf) or nodes (hnsw) a question visits."""

    index: Any
    effort: int

    @classmethod
    def open(cls, path: Path, effort: int, rows: int, dimension: int) -> ApproximateIndex:
        """Map the file of an index. Raises ValueError when it cannot be read or is of other vectors."""
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as error:
            raise ValueError(f"{path.name} cannot be read: {error}") from error
        if (index.ntotal, index.d) != (rows, dimension):
            raise ValueError(f"{path.name} has {index.ntotal} rows of {index.d}, not {rows} of {dimension}")
        return cls(index, effort)

    def candidates(self, query: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Rows among which the nearest ``k`` should be; fewer than ``k`` where the visited part holds fewer."""
        wanted = min(SPARE * k, self.index.ntotal)
        _, rows = self.index.search(query[np.newaxis], wanted, params=_parameters(self.index, self.effort))
        found: NDArray[np.int64] = rows[0][rows[0] >= 0]
        return found


@dataclass(frozen=True)
class Built:
    """A new index: its file's content, and what the shard's manifest says of it."""

    data: bytes
    effort: int
    recall: float


def build_approximate(matrix: NDArray[np.float32], config: DenseConfig) -> Built | None:
    """An index over the rows of ``matrix``, shape (rows, dimension); None where every vector is to be compared.

    That is with index "flat", in a shard of at most ``config.above`` rows, and where no effort reaches the recall.
    The same vectors and config give the same index.
    """
    if config.index == "flat" or len(matrix) <= config.above:
        return None
    index = _inverted_file(matrix, config) if config.index == "ivf" else _graph(matrix, config)
    index.add(matrix)
    questions = _between(matrix)
    _, best = faiss.knn(questions, matrix, min(BEST, len(matrix)), faiss.METRIC_INNER_PRODUCT)
    most = index.nlist if config.index == "ivf" else GRAPH_EFFORT
    effort = _least_effort(index, matrix, questions, best, config.recall, most)
    if effort is None:
        return None
    recall = _recall(index, matrix, questions, best, effort)
    return Built(faiss.serialize_index(index).tobytes(), effort, recall)


def _inverted_file(matrix: NDArray[np.float32], config: DenseConfig) -> Any:
    cells = config.cells_for(len(matrix))
    index: Any = faiss.index_factory(matrix.shape[1], f"IVF{cells},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True  # the centre of unit vectors is a direction
    rows = np.random.default_rng(0).permutation(len(matrix))[: TRAINING * cells]
    index.train(matrix[np.sort(rows)])
    return index


def _graph(matrix: NDArray[np.float32], config: DenseConfig) -> Any:
    index: Any = faiss.index_factory(matrix.shape[1], f"HNSW{config.links},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = CONSTRUCTION
    index.train(matrix)
    return index


def _between(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Directions between two rows each, nearer to one of them: no chunk stands there, as none stands at a question."""
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
    """The least effort that reaches the recall, within a sixteenth; None where the most does not."""

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
    _, rows = index.search(questions, wanted, params=_parameters(index, effort))
    found = 0
    for question, candidates, true in zip(questions, rows, best, strict=True):
        seen = candidates[candidates >= 0]
        order = np.argsort(-(matrix[seen] @ question), kind="stable")[: len(true)]
        found += len(np.intersect1d(seen[order], true))
    return found / best.size


def _parameters(index: Any, effort: int) -> Any:
    untyped: Any = faiss  # its stubs do not know them
    if hasattr(index, "nlist"):
        return untyped.SearchParametersIVF(nprobe=effort)
    return untyped.SearchParametersHNSW(efSearch=effort)


# The vectors of a shard on a GPU: FAISS is handed each contiguous stretch of rows by its address.

MOST: Final = 2048
"""The largest k of FAISS's selection on a GPU."""


class GpuRows:
    """A copy of a matrix of shape (rows, dimension), float32, on the GPU that this process sees first."""

    def __init__(self, matrix: NDArray[np.float32]) -> None:
        """Raises ConfigError when this FAISS has no GPU part, or no GPU is visible."""
        if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
            raise ConfigError(
                "search.gpus_per_shard asks for vectors on a GPU, but the installed FAISS is the CPU build or sees no "
                "GPU. Install okralong[faiss-gpu] on the nodes with GPUs, or set search.gpus_per_shard to 0."
            )
        import torch

        self._rows = torch.from_numpy(np.array(matrix)).cuda()
        self._resources = faiss.StandardGpuResources()
        self._lock = threading.Lock()  # FAISS's resources serve one call at a time

    def knn(
        self, query: NDArray[np.float32], start: int, end: int, k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Inner products and places (from ``start``) of the ``k`` best rows from ``start`` to ``end``, best first.

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
