"""How sure is a mean? Questions on one document rise and fall together, so documents are drawn and not questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
"""Bootstrap samples. Ours."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval. ``value`` is None where it is not defined; ``low`` or ``high`` is None where
    that end cannot be told: fewer than two clusters, or more than 2.5 % of the draws undefined on that side.
    """

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Resample:
    """Draws of whole clusters with replacement. Means taken with one Resample are paired: they share their draws.

    ``index`` (questions,) numbers each question's cluster; ``weights`` (draws, clusters) says how often a draw has it.
    """

    index: NDArray[np.intp]
    weights: Floats

    def means(self, values: Floats) -> Floats:
        """The mean over questions in each draw: (..., questions) becomes (draws, ...)."""
        sums = np.zeros((self.weights.shape[1], *values.shape[:-1]))
        np.add.at(sums, self.index, np.moveaxis(values, -1, 0))
        counts = self.weights @ np.bincount(self.index)
        return np.tensordot(self.weights, sums, axes=1) / counts.reshape(-1, *[1] * (values.ndim - 1))


def resample(clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS) -> Resample | None:
    """Draw as many clusters as there are, ``draws`` times. None when there are fewer than two clusters."""
    numbers: dict[Hashable, int] = {}
    index = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.intp)
    if len(numbers) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(0, len(numbers), size=(draws, len(numbers)))
    flat = drawn + np.arange(draws)[:, None] * len(numbers)
    weights = np.bincount(flat.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return Resample(index, weights.astype(np.float64))


def clustered_interval(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS
) -> tuple[float, float] | None:
    """The 95 % percentile interval of the mean of ``values``, resampling whole clusters with replacement.

    ``clusters[i]`` says to which ``values[i]`` belongs. None when there are fewer than two clusters. Raises ValueError
    when the two differ in length.
    """
    if len(values) != len(clusters):
        raise ValueError(f"There are {len(values)} values and {len(clusters)} clusters: one is shorter.")
    drawn = resample(clusters, seed, draws)
    if drawn is None:
        return None
    low, high = np.quantile(drawn.means(np.asarray(values, dtype=np.float64)), [0.025, 0.975])
    return float(low), float(high)


def joined_by_documents(asked: Sequence[tuple[str, ...]]) -> list[str]:
    """A name for each question, the same for all that a chain of shared documents joins: they are drawn together."""
    names: dict[str, str] = {}

    def find(document: str) -> str:
        while names.setdefault(document, document) != document:
            document = names[document]
        return document

    for documents in asked:
        for document in documents:
            names[find(document)] = find(documents[0])
    return [find(documents[0]) for documents in asked]


Drawn = tuple[Floats, Floats | None]
"""Figures (...) and the same in each draw (draws, ...); None where there are fewer than two clusters to draw from."""


def ratio(tops: Floats, bottoms: Floats, drawn: Resample | None) -> Drawn:
    """The sum of ``tops`` over questions by that of ``bottoms``, both (..., questions); nan where nothing is below."""

    def divided(above: Floats, below: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(below > 0, np.divide(above, below), np.nan))

    value = divided(tops.sum(axis=-1), bottoms.sum(axis=-1))
    return value, divided(drawn.means(tops), drawn.means(bottoms)) if drawn else None


def estimate(value: float | Floats, draws: Floats | None) -> Estimate:
    """A figure and its values in the draws as an Estimate: 95 % percentiles, taken outwards.

    An infinite value means "out of reach" and counts on its side; nan means "not defined" and counts against both ends.
    Neither is reported as a number.
    """
    if draws is None:
        return Estimate(_finite(value))
    undefined = np.isnan(draws)
    low = np.quantile(np.where(undefined, -np.inf, draws), 0.025, method="lower")
    high = np.quantile(np.where(undefined, np.inf, draws), 0.975, method="higher")
    return Estimate(_finite(value), _finite(low), _finite(high))


def _finite(value: float | np.float64 | Floats) -> float | None:
    return float(value) if np.isfinite(value) else None


# --------
# Is a paired difference more than chance, and how many differences were looked at?
#
# The test flips signs: if two methods were alike, each cluster's difference could as well stand the other way round.
# Whole clusters are flipped, as whole clusters are drawn in the bootstrap (``intervals.py``). No distribution is
# assumed.

FLIPS: Final = 9_999
"""Random flips where there are too many to try all. Ours: the smallest p is 0.0001."""

ALL_UP_TO: Final = 13
"""Clusters up to which all flips are tried: 8,192 of them. Ours."""

_BLOCK: Final = 1_000
_ROUNDING: Final = 1e-12


def sign_flip_p(contributions: Floats, seed: int = 7) -> Floats:
    """The two-sided p-value of each column's sum: (clusters, columns) becomes (columns,).

    ``contributions[c, j]`` is what cluster c adds to the difference j. It is the share of flips whose sum is at least
    as far from 0 as the one observed, itself counted; nan with fewer than two clusters.
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
    beyond = np.ones(columns)  # the observed one
    for start in range(0, FLIPS, _BLOCK):
        drawn = random.integers(0, 2, size=(min(_BLOCK, FLIPS - start), clusters))
        beyond += (np.abs((1.0 - 2.0 * drawn) @ contributions) >= bound).sum(axis=0)
    return np.asarray(beyond / (FLIPS + 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's (1979) correction: the p-values of one family, so raised that any false alarm keeps its level.

    nan stays nan and does not count as a test.
    """
    found = sorted((p, at) for at, p in enumerate(p_values) if not np.isnan(p))
    raised = [float("nan")] * len(p_values)
    highest = 0.0
    for rank, (p, at) in enumerate(found):
        highest = max(highest, min(1.0, (len(found) - rank) * p))
        raised[at] = highest
    return raised
