"""Embedding novelty: the chunk that brings the mean of what is chosen closest to the question (SARA section 2.4).

A chunk like those that are chosen moves their mean hardly at all, one that lies where the question is still far from
the mean moves it most. That holds from the third choice on: since the first chunk is part of the target, the second
choice is just the chunk that is nearest to the question. SARA measures in the space of its trained compressor; with
the archive's plain sentence encoder, as here, this is a variant of the paper's rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.answering.operators.greedy import choose_greedily
from okralong.pipelines.core.types import Hit

Vectors = NDArray[np.float32]


async def choose_novel(
    hits: Sequence[Hit], query_vector: Vectors, vectors: Vectors, count: int, trade_off: float
) -> list[Hit]:
    """At most ``count`` of ``hits`` (best first, each once), chosen by embedding novelty (SARA equations 4 and 5).

    ``query_vector`` has shape (dimension,), ``vectors`` (hits, dimension), both of unit vectors. For ``trade_off`` see
    ``choose_greedily``.
    """
    row = {hit.chunk.chunk_id: number for number, hit in enumerate(hits)}

    async def novelty(chosen: Sequence[Hit], rest: Sequence[Hit]) -> Sequence[float]:
        before = vectors[[row[hit.chunk.chunk_id] for hit in chosen]]
        after = vectors[[row[hit.chunk.chunk_id] for hit in rest]]
        return closeness(target, before, after)

    if not hits:
        return []
    # A question alone says little: the paper takes the mean of it and the most relevant chunk (algorithm 1, line 2).
    target = (query_vector + vectors[0]) / 2
    return await choose_greedily(hits, count, trade_off, novelty)


def closeness(target: Vectors, chosen: Vectors, candidates: Vectors) -> list[float]:
    """For each candidate, minus the distance of ``target`` from the mean of the chosen vectors and the candidate's.

    Shapes: (dimension,), (chosen, dimension), (candidates, dimension).
    """
    means = (chosen.sum(axis=0) + candidates) / (len(chosen) + 1)
    distances: list[float] = np.linalg.norm(target - means, axis=1).tolist()
    return [-distance for distance in distances]
