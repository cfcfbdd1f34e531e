"""What ``dense`` in ``configs/index.yaml`` may say: how the vectors of a large shard are searched."""

from __future__ import annotations

import math
from typing import Final, Literal

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings

TRAINED_ON: Final = 39
"""Vectors that FAISS wants to see for each cell of an inverted file (its ``min_points_per_centroid``)."""

LINKS: Final = 32
"""Neighbours of a node: FAISS's own default."""


class DenseConfig(Settings):
    """How nearest vectors are found.

    ``index`` "flat" compares with every vector and is exact. "ivf" (an inverted file over cells) and "hnsw" (a graph)
    look at some of them, in shards of more than ``above`` chunks, and only for questions about the whole archive: the
    rows of a smaller scope are compared one by one. ``recall`` is the share of the best 20 that the build must find
    again, measured on vectors of the shard; it sets how many cells or nodes a question visits. ``cells`` are those of
    an inverted file, "auto" 4 times the square root of the shard's chunks; ``links`` are a node's neighbours in the
    graph.
    """

    index: Literal["flat", "ivf", "hnsw"] = "flat"
    above: int = Field(default=40_000, ge=1)
    recall: float = Field(default=0.99, ge=0.5, le=1.0)
    cells: Literal["auto"] | int = "auto"
    links: int = Field(default=LINKS, ge=4, le=128)

    @model_validator(mode="after")
    def _possible(self) -> DenseConfig:
        if self.index != "ivf" and self.cells != "auto":
            raise ValueError(f"cells belong to an inverted file: with index {self.index} leave them at auto")
        if self.cells != "auto" and self.cells < 1:
            raise ValueError("cells must be auto, or 1 or more")
        if self.index != "hnsw" and self.links != LINKS:
            raise ValueError(f"links belong to a graph: with index {self.index} leave them at {LINKS}")
        if self.index == "ivf" and self.above < self.least_chunks():
            raise ValueError(
                f"above must be {self.least_chunks()} or more: FAISS wants {TRAINED_ON} vectors for each cell"
            )
        return self

    def least_chunks(self) -> int:
        """The fewest chunks that the inverted file's cells can be trained on."""
        if self.cells != "auto":
            return TRAINED_ON * max(1, self.cells)
        # With 4 * sqrt(n) cells, n vectors are 39 a cell from n = (4 * 39) ** 2 on.
        return (4 * TRAINED_ON) ** 2

    def cells_for(self, chunks: int) -> int:
        """Cells of the inverted file of a shard of so many chunks."""
        return int(self.cells) if self.cells != "auto" else 4 * math.isqrt(chunks)
