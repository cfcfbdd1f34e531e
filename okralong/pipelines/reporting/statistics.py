"""Means with confidence intervals, for all reports.

Questions about the same document are correlated, so the bootstrap draws clusters of questions (documents). Figures that
share a ``Resample`` are paired.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

DRAWS: Final = 2000  # project default
"""Number of bootstrap samples."""

Floats = NDArray[np.float64]

Drawn = tuple[Floats, Floats | None]
"""Figures (...) and their values in each draw (draws, ...), or None with fewer than two clusters."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval.

    Attributes:
        value: None if undefined.
        low: None if unknown: fewer than two clusters, or more than 2.5 % of the draws are undefined on that side.
        high: As ``low``.
        n: Number of questions, None if unknown.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends, or None unless both are known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class Resample:
    """Draws of whole clusters with replacement. Figures computed with the same Resample are paired.

    Attributes:
        index: The cluster number of each question, (questions,).
        weights: How often each draw contains each cluster, (draws, clusters).
    """

    index: NDArray[np.intp]
    weights: Floats

    def sums(self, values: Floats) -> Floats:
        """Sum over the questions of each draw: (..., questions) to (draws, ...)."""
        return np.asarray(np.tensordot(self.weights, cluster_sums(values, self.index), axes=1))

    def means(self, values: Floats) -> Floats:
        """Average over the questions of each draw: (..., questions) to (draws, ...)."""
        counts = self.weights @ np.bincount(self.index)
        return np.asarray(self.sums(values) / counts.reshape(-1, *[1] * (values.ndim - 1)))


def resample(clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS) -> Resample | None:
    """Draw the clusters with replacement, ``draws`` times. Returns None for fewer than two clusters."""
    index = cluster_index(clusters)
    count = int(index.max(initial=-1)) + 1
    if count < 2:
        return None
    drawn = np.random.default_rng(seed).integers(0, count, size=(draws, count))
    flat = drawn + np.arange(draws)[:, None] * count
    weights = np.bincount(flat.ravel(), minlength=drawn.size).reshape(drawn.shape)
    return Resample(index, weights.astype(np.float64))


def cluster_index(clusters: Sequence[Hashable]) -> NDArray[np.intp]:
    """Return each question's cluster number, counted from 0 in order of appearance."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.intp)


def cluster_sums(values: Floats, index: NDArray[np.intp]) -> Floats:
    """Sum over the questions of each cluster: (..., questions) to (clusters, ...)."""
    sums = np.zeros((int(index.max(initial=-1)) + 1, *values.shape[:-1]))
    np.add.at(sums, index, np.moveaxis(values, -1, 0))
    return sums


def joined_by_documents(asked: Sequence[tuple[str, ...]]) -> list[str]:
    """Return a cluster name for each question; questions linked by a chain of shared documents share a cluster."""
    names: dict[str, str] = {}

    def find(document: str) -> str:
        while (parent := names.setdefault(document, document)) != document:
            names[document] = document = names[parent]  # path compression
        return document

    for documents in asked:
        for document in documents:
            names[find(document)] = find(documents[0])
    return [find(documents[0]) for documents in asked]


def mean(values: Floats, drawn: Resample | None) -> Drawn:
    """Average over the questions with a value (not nan): (..., questions) to (...)."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0.0), known.astype(np.float64), drawn)


def ratio(tops: Floats, bottoms: Floats, drawn: Resample | None) -> Drawn:
    """Divide the sum of ``tops`` by the sum of ``bottoms``, both (..., questions); nan where the latter is 0."""

    def divided(above: Floats, below: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(below > 0, np.divide(above, below), np.nan))

    value = divided(tops.sum(axis=-1), bottoms.sum(axis=-1))
    return value, divided(drawn.sums(tops), drawn.sums(bottoms)) if drawn else None


def mean_over_sets(found: Sequence[Drawn], skip_undefined: bool = False) -> Drawn:
    """Average figures over independently drawn sets with equal weights.

    A figure that is nan on one set is nan, or, with ``skip_undefined``, the mean over the other sets. If a set has no
    draws, neither has the result, because an interval without that set would be too narrow.
    """
    values = np.stack([value for value, _ in found])
    held = ~np.isnan(values) if skip_undefined else np.ones_like(values, dtype=bool)
    drawn = [draws for _, draws in found if draws is not None]
    with np.errstate(invalid="ignore"):
        value = np.where(held, values, 0.0).sum(axis=0) / held.sum(axis=0)
        if len(drawn) < len(found):
            return value, None
        # A set without the figure is skipped in every draw; in the other sets an undefined draw stays undefined.
        parts = np.stack([np.where(mask, draws, 0.0) for mask, draws in zip(held, drawn, strict=True)])
        return value, parts.sum(axis=0) / held.sum(axis=0)


def estimate(value: float | Floats, draws: Floats | None, n: int | None = None) -> Estimate:
    """Return the figure with its 95 % percentile interval, rounded outwards to actual draws.

    An infinite draw ("out of reach") counts on its side, an undefined one (nan) on both sides. Infinite and
    undefined figures are reported as None.
    """
    if draws is None:
        return Estimate(_finite(value), n=n)
    undefined = np.isnan(draws)
    low = np.quantile(np.where(undefined, -np.inf, draws), 0.025, method="lower")
    high = np.quantile(np.where(undefined, np.inf, draws), 0.975, method="higher")
    return Estimate(_finite(value), _finite(low), _finite(high), n)


def _finite(value: float | np.float64 | Floats) -> float | None:
    return float(value) if np.isfinite(value) else None
