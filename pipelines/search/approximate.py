"""An approximate FAISS index beside the vectors of a large shard: it names candidates, their scores stay exact.

It holds one byte a dimension (scalar quantisation), a quarter of the vectors, and is mapped into memory like them. How
far a question looks around is not set by hand: the build raises it until it finds the wanted share of the true best 20
again, for made-up questions that lie between two vectors of the shard, where real ones lie too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.search.dense_config import DenseConfig

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
