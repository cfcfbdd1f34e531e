"""Intervals, paired differences and their tests, as every report uses them.

Questions on one document rise and fall together, so documents (clusters of questions) are drawn and not questions:
in the bootstrap of the intervals, and in the sign flips of the tests. What shares a ``Resample`` is paired.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

DRAWS: Final = 2000
"""Bootstrap samples. Ours."""

FLIPS: Final = 9_999
"""Random sign flips where there are too many to try all. Ours: the smallest p is 0.0001."""

ALL_UP_TO: Final = 13
"""Clusters up to which all flips are tried: 8,192 of them. Ours."""

_BLOCK: Final = 1_000
_ROUNDING: Final = 1e-12

Floats = NDArray[np.float64]

Drawn = tuple[Floats, Floats | None]
"""Figures (...) and the same in each draw (draws, ...); None where there are fewer than two clusters to draw from."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval. ``value`` is None where it is not defined; ``low`` or ``high`` is None where
    that end cannot be told: fewer than two clusters, or more than 2.5 % of the draws undefined on that side. ``n`` is
    the number of questions that it is over, None where nobody counted.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, where both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class Resample:
    """Draws of whole clusters with replacement. Figures taken with one Resample are paired: they share their draws.

    ``index`` (questions,) numbers each question's cluster; ``weights`` (draws, clusters) says how often a draw has it.
    """

    index: NDArray[np.intp]
    weights: Floats

    def sums(self, values: Floats) -> Floats:
        """The sum over questions in each draw: (..., questions) becomes (draws, ...)."""
        return np.asarray(np.tensordot(self.weights, cluster_sums(values, self.index), axes=1))

    def means(self, values: Floats) -> Floats:
        """The mean over questions in each draw: (..., questions) becomes (draws, ...)."""
        counts = self.weights @ np.bincount(self.index)
        return np.asarray(self.sums(values) / counts.reshape(-1, *[1] * (values.ndim - 1)))


def resample(clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS) -> Resample | None:
    """Draw as many clusters as there are, ``draws`` times. None when there are fewer than two clusters."""
    index = cluster_index(clusters)
    count = int(index.max(initial=-1)) + 1
    if count < 2:
        return None
    drawn = np.random.default_rng(seed).integers(0, count, size=(draws, count))
    flat = drawn + np.arange(draws)[:, None] * count
    weights = np.bincount(flat.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return Resample(index, weights.astype(np.float64))


def cluster_index(clusters: Sequence[Hashable]) -> NDArray[np.intp]:
    """The number of each question's cluster, from 0 in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.intp)


def cluster_sums(values: Floats, index: NDArray[np.intp]) -> Floats:
    """Sums over the questions of each cluster: (..., questions) becomes (clusters, ...)."""
    sums = np.zeros((int(index.max(initial=-1)) + 1, *values.shape[:-1]))
    np.add.at(sums, index, np.moveaxis(values, -1, 0))
    return sums


def joined_by_documents(asked: Sequence[tuple[str, ...]]) -> list[str]:
    """A name for each question, the same for all that a chain of shared documents joins: they are drawn together."""
    names: dict[str, str] = {}

    def find(document: str) -> str:
        while (parent := names.setdefault(document, document)) != document:
            names[document] = document = names[parent]  # chains stay short
        return document

    for documents in asked:
        for document in documents:
            names[find(document)] = find(documents[0])
    return [find(documents[0]) for documents in asked]


def mean(values: Floats, drawn: Resample | None) -> Drawn:
    """The mean over the questions that have a value: (..., questions), nan where one has none, becomes (...)."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0), known.astype(np.float64), drawn)


def ratio(tops: Floats, bottoms: Floats, drawn: Resample | None) -> Drawn:
    """The sum of ``tops`` over questions by that of ``bottoms``, both (..., questions); nan where nothing is below."""

    def divided(above: Floats, below: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(below > 0, np.divide(above, below), np.nan))

    value = divided(tops.sum(axis=-1), bottoms.sum(axis=-1))
    return value, divided(drawn.sums(tops), drawn.sums(bottoms)) if drawn else None


def mean_over_sets(found: Sequence[Drawn], skip_undefined: bool = False) -> Drawn:
    """The mean of figures over sets that were drawn each by itself; every set weighs alike.

    A figure that is nan on one of the sets is nan, or with ``skip_undefined`` the mean over the others. There are no
    draws where one of the sets has none: an interval that left it out would be too narrow.
    """
    values = np.stack([value for value, _ in found])
    held = ~np.isnan(values) if skip_undefined else np.ones_like(values, dtype=bool)
    drawn = [draws for _, draws in found if draws is not None]
    with np.errstate(invalid="ignore"):
        value = np.where(held, values, 0.0).sum(axis=0) / held.sum(axis=0)
        if len(drawn) < len(found):
            return value, None
        # A set without the figure leaves it out in every draw; one that has it makes a draw without it undefined.
        parts = np.stack([np.where(mask, draws, 0.0) for mask, draws in zip(held, drawn, strict=True)])
        return value, parts.sum(axis=0) / held.sum(axis=0)


def estimate(value: float | Floats, draws: Floats | None, n: int | None = None) -> Estimate:
    """A figure and its values in the draws as an Estimate: 95 % percentiles, taken outwards.

    An infinite value means "out of reach" and counts on its side; nan means "not defined" and counts against both ends.
    Neither is reported as a number.
    """
    if draws is None:
        return Estimate(_finite(value), n=n)
    undefined = np.isnan(draws)
    low = np.quantile(np.where(undefined, -np.inf, draws), 0.025, method="lower")
    high = np.quantile(np.where(undefined, np.inf, draws), 0.975, method="higher")
    return Estimate(_finite(value), _finite(low), _finite(high), n)


def _finite(value: float | np.float64 | Floats) -> float | None:
    return float(value) if np.isfinite(value) else None


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS
) -> Estimate:
    """The mean of ``values``, all of them numbers, with the 95 % percentile interval, interpolated between draws.

    ``clusters[i]`` says to which ``values[i]`` belongs. Without values there is no mean, with fewer than two clusters
    no interval. Raises ValueError when the two differ in length.
    """
    if len(values) != len(clusters):
        raise ValueError(f"There are {len(values)} values and {len(clusters)} clusters: one is shorter.")
    numbers = np.asarray(values, dtype=np.float64)
    drawn = resample(clusters, seed, draws)
    value = float(np.mean(numbers)) if len(numbers) else None
    if drawn is None:
        return Estimate(value, n=len(numbers))
    low, high = np.quantile(drawn.means(numbers), [0.025, 0.975])
    return Estimate(value, float(low), float(high), len(numbers))


def sign_flip_p(contributions: Floats, seed: int = 7) -> Floats:
    """Is a paired difference more than chance? The two-sided p-value of each column's sum, (columns,).

    ``contributions`` (clusters, columns) has at [c, j] what cluster c adds to the difference j. If two methods were
    alike, each cluster's difference could as well have the other sign, so signs are flipped; no distribution is
    assumed. It is the share of flips whose sum is at least as far from 0 as the one observed, itself counted; nan with
    fewer than two clusters.
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
    """Holm's (1979) correction for many tests: the p-values of one family, raised so that any false alarm among them
    keeps its level. nan stays nan and does not count as a test.
    """
    found = sorted((p, at) for at, p in enumerate(p_values) if not np.isnan(p))
    raised = [float("nan")] * len(p_values)
    highest = 0.0
    for rank, (p, at) in enumerate(found):
        highest = max(highest, min(1.0, (len(found) - rank) * p))
        raised[at] = highest
    return raised
