"""Choosing chunks one by one, each for what it adds to those chosen before (SARA algorithm 1).

The loop is the same for every measure of novelty. The most relevant chunk always comes first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from okralong.pipelines.core.types import Hit

Novelty = Callable[[Sequence[Hit], Sequence[Hit]], Awaitable[Sequence[float]]]
"""From the chunks chosen so far and those that remain: how much each of the latter adds; more is better."""


async def choose_greedily(hits: Sequence[Hit], count: int, trade_off: float, novelty: Novelty) -> list[Hit]:
    """At most ``count`` of ``hits`` (best first, each once) in the order of choice; scores stay as they were.

    Each turn takes the chunk with the largest ``trade_off`` * relevance + (1 - ``trade_off``) * novelty, both
    stretched to 0..1 over the chunks that remain, because log-likelihoods, distances and fused scores share no scale
    (ours: SARA looks at novelty alone, which is ``trade_off`` 0). Ties go to the more relevant chunk.
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
    """``values`` moved and scaled so that they reach from 0 to 1; all 0 where they are equal."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.0 for value in values]
