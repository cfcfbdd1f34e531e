"""From drawn sums to what a person reads: tokens and dollars, each with a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from okralong.pipelines.answering.estimate.beliefs import Floats
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import Price

SHARE: Final = 0.9
"""How much of the draws a range holds. Ours: what is asked for is that it holds the actual in 80 % of runs."""


@dataclass(frozen=True, slots=True)
class Range:
    """The mean of the draws, and the ends of their middle ``SHARE``."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What ``questions`` questions use together. Tokens, the weighted ones input + 4 x output; US dollars in real time,
    and for a batch (None: the price knows none).
    """

    questions: int
    prompt_tokens: Range
    cached_tokens: Range
    completion_tokens: Range
    weighted_tokens: Range
    usd: Range
    batch_usd: Range | None


def figures(questions: int, sums: Floats, price: Price) -> Figures:
    """Figures from draws of prompt, cached and completion tokens, shape (draws, 3)."""
    prompt, cached, completion = sums.T
    # Prices are linear, so what one token of each kind costs is all there is to know.
    fresh, kept, out = (price.cost(usage) for usage in (Usage(1), Usage(1, 1), Usage(0, 0, 1)))
    batch = price.batch_cost(Usage(1)), price.batch_cost(Usage(0, 0, 1))
    return Figures(
        questions=questions,
        prompt_tokens=_range(prompt),
        cached_tokens=_range(cached),
        completion_tokens=_range(completion),
        weighted_tokens=_range(prompt + 4 * completion),
        usd=_range((prompt - cached) * fresh + cached * kept + completion * out),
        batch_usd=_range(prompt * batch[0] + completion * batch[1]) if price.batch_discount else None,
    )


def _range(draws: Floats) -> Range:
    low, high = np.quantile(draws, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Range(float(low), float(draws.mean()), float(high))
