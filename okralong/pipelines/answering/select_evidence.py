"""Select chunks greedily, each by how much it adds to those already chosen (SARA algorithm 1).

The loop is the same for both measures of novelty: conditional self-information, and distance of embeddings. The most
relevant chunk is always chosen first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Hit

Novelty = Callable[[Sequence[Hit], Sequence[Hit]], Awaitable[Sequence[float]]]
"""A function of the chosen and the remaining chunks that returns how much each of the latter adds; more is better."""


async def choose_greedily(hits: Sequence[Hit], count: int, trade_off: float, novelty: Novelty) -> list[Hit]:
    """Return at most ``count`` of ``hits`` (best first, distinct) in the order of choice, with unchanged scores.

    Each turn takes the chunk with the largest ``trade_off`` * relevance + (1 - ``trade_off``) * novelty. Both terms are
    stretched to 0..1 over the remaining chunks, since log-likelihoods, distances and fused scores have different
    scales. Ties go to the more relevant chunk. SARA uses novelty alone (``trade_off`` 0).
    """
    chosen, rest = list(hits[:1]), list(hits[1:])
    while rest and len(chosen) < count:
        if trade_off == 1:
            values = stretched([hit.score for hit in rest])
        else:
            relevance = stretched([hit.score for hit in rest])
            gains = stretched(await novelty(chosen, rest))
            values = [trade_off * one + (1 - trade_off) * other for one, other in zip(relevance, gains, strict=True)]
        chosen.append(rest.pop(values.index(max(values))))
    return chosen[:count]


def stretched(values: Sequence[float]) -> list[float]:
    """Shift and scale ``values`` to 0..1; all 0 if they are equal."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]


# Conditional self-information: choose the chunk that is least likely after the chosen ones (SARA section 2.4).
#
# A small language model reads the chosen chunks. The novelty of another chunk is its mean negative log-likelihood per
# token after them. A chunk that repeats a chosen one is likely, so its novelty is low.

Score = Callable[[str, Sequence[str]], Awaitable[list[list[float]]]]
"""``Tools.score``: log-likelihood of each token of some texts after a shared prefix."""

SEPARATOR = "\n\n"  # project default
"""The text after each chosen chunk."""


async def choose_surprising(hits: Sequence[Hit], score: Score, count: int, trade_off: float) -> list[Hit]:
    """Return at most ``count`` of ``hits`` (best first, each once) by self-information (SARA equations 6 and 7).

    It is measured after the chosen chunks. ``score`` is called once for each choice after the first. For ``trade_off``
    see ``choose_greedily``.
    """

    async def novelty(chosen: Sequence[Hit], rest: Sequence[Hit]) -> Sequence[float]:
        prefix = "".join(hit.chunk.text.strip() + SEPARATOR for hit in chosen)
        return [self_information(logs) for logs in await score(prefix, [hit.chunk.text.strip() for hit in rest])]

    return await choose_greedily(hits, count, trade_off, novelty)


def self_information(logs: Sequence[float]) -> float:
    """Return the mean of minus ``logs``, the log-likelihoods of a text's tokens, in nats; 0 for an empty text."""
    return -sum(logs) / len(logs) if logs else 0.0


# Embedding novelty: choose the chunk that brings the mean of the chosen ones closest to the target (SARA section 2.4).
#
# The target is the mean of the question and the first chunk. A chunk similar to the chosen ones hardly moves their
# mean; one in a direction that is still missing moves it most. This is so from the third choice on: the second choice
# is the chunk nearest to the question, because the first chunk is part of the target. SARA measures in the space of its
# trained compressor. With the archive's sentence encoder, this is a variant of the paper's rule.

Vectors = NDArray[np.float32]


async def choose_novel(
    hits: Sequence[Hit], query_vector: Vectors, vectors: Vectors, count: int, trade_off: float
) -> list[Hit]:
    """Return at most ``count`` of ``hits`` (best first, each once) by embedding novelty (SARA equations 4 and 5).

    ``query_vector`` has shape (dimension,), ``vectors`` (hits, dimension), both unit vectors. For ``trade_off`` see
    ``choose_greedily``.
    """
    row = {hit.chunk.chunk_id: number for number, hit in enumerate(hits)}

    async def novelty(chosen: Sequence[Hit], rest: Sequence[Hit]) -> Sequence[float]:
        before = vectors[[row[hit.chunk.chunk_id] for hit in chosen]]
        after = vectors[[row[hit.chunk.chunk_id] for hit in rest]]
        return closeness(target, before, after)

    if not hits:
        return []
    # The question alone has little content, so the paper takes the mean with the first chunk (algorithm 1, line 2).
    target = (query_vector + vectors[0]) / 2
    return await choose_greedily(hits, count, trade_off, novelty)


def closeness(target: Vectors, chosen: Vectors, candidates: Vectors) -> list[float]:
    """Return, for each candidate, minus the distance between ``target`` and the mean of the candidate and ``chosen``.

    Shapes: (dimension,), (chosen, dimension), (candidates, dimension).
    """
    means = (chosen.sum(axis=0) + candidates) / (len(chosen) + 1)
    distances: list[float] = np.linalg.norm(target - means, axis=1).tolist()
    return [-distance for distance in distances]


async def choose(
    tools: Tools,
    step: str,
    query: str,
    pool: Sequence[Hit],
    count: int,
    *,
    method: Literal["novelty", "csi"],
    space: Literal["compressor", "encoder"],
    trade_off: float,
) -> list[Hit]:
    """Return at most ``count`` of ``pool`` (best first, each once), in the order of choice, which is journaled.

    Raises:
        ConfigError: The method needs a scorer or a compressor and the run has none. A run checks this before it starts.
    """

    async def pick() -> list[Hit]:
        if method == "csi":
            return await choose_surprising(pool, tools.score, count, trade_off)
        vectors = [*await tools.embed([query]), *await tools.vectors(pool)]
        if space == "compressor":
            vectors = await tools.compress(vectors)
        rows = np.asarray(vectors, dtype=np.float32)
        return await choose_novel(pool, rows[0], rows[1:], count, trade_off)

    return await tools.record_choice(step, query, pool, pick) if min(len(pool), count) > 1 else list(pool[:count])
