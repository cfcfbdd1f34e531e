"""Significance tests of paired differences between methods.

Questions about the same document are correlated, so the tests flip the signs of whole clusters of questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from okralong.pipelines.reporting.statistics import Floats

FLIPS: Final = 9_999  # project default
"""Number of random sign flips if there are too many to enumerate. The smallest possible p-value is then 0.0001."""

ALL_UP_TO: Final = 13  # project default
"""With at most this many clusters, all (up to 8,192) sign flips are enumerated."""

_BLOCK: Final = 1_000
_ROUNDING: Final = 1e-12


def sign_flip_p(contributions: Floats, seed: int = 7) -> Floats:
    """Test paired differences with random sign flips and return two-sided p-values, (columns,).

    If two methods were equally good, each cluster's difference could just as well have the opposite sign. The p-value
    is the share of flips, including the observed signs, whose sum is at least as far from 0 as the observed sum; it is
    nan for fewer than two clusters. ``contributions``, shape (clusters, columns), has each cluster's part of each
    difference.
    """
    clusters, columns = contributions.shape
    if clusters < 2:
        return np.full(columns, np.nan)
    observed = np.abs(contributions.sum(axis=0))
    bound = observed - _ROUNDING * np.maximum(1.0, np.abs(contributions).sum(axis=0))
    if clusters <= ALL_UP_TO:
        numbers = np.arange(2**clusters)[:, None] >> np.arange(clusters)
        signs = 1.0 - 2.0 * (numbers & 1)
        return np.asarray((np.abs(signs @ contributions) >= bound).mean(axis=0))
    random = np.random.default_rng(seed)
    beyond = np.ones(columns)  # counts the observed signs
    for start in range(0, FLIPS, _BLOCK):
        drawn = random.integers(0, 2, size=(min(_BLOCK, FLIPS - start), clusters))
        beyond += (np.abs((1.0 - 2.0 * drawn) @ contributions) >= bound).sum(axis=0)
    return np.asarray(beyond / (FLIPS + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p-values of a family of tests by Holm's correction (1979). nan stays nan and is not counted."""
    found = sorted((p, at) for at, p in enumerate(p_values) if not np.isnan(p))
    raised = [float("nan")] * len(p_values)
    highest = 0.0
    for rank, (p, at) in enumerate(found):
        highest = max(highest, min(1.0, (len(found) - rank) * p))
        raised[at] = highest
    return raised
