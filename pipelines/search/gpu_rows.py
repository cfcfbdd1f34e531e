"""The vectors of a shard on a GPU, compared by FAISS there.

A scope is a few contiguous stretches of rows, and FAISS is handed each stretch by its address. Its ID selectors would
say the same in one call, but GPU indexes have ignored them without a word (facebookresearch/faiss issues 3114, 3924).
"""

from __future__ import annotations

import threading
from typing import Any, Final

import faiss
import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.core.types import ConfigError

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
