"""Recall against tokens: a method's curve over its budgets, and how two methods compare at equal recall or tokens.

A curve is read off its upper envelope: what fewer tokens have shown, more tokens can show as well. Between points, and
between nothing (0 tokens, recall 0) and the first point, it is linear; beyond the last point it is not defined.

Comparisons are paired: each bootstrap draw takes whole documents, the same for both methods, and reads both
curves anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from okralong.pipelines.reporting.statistics import DRAWS, Estimate, Floats, Resample, estimate, resample

_Compare: TypeAlias = Callable[[Floats, Floats, Floats, Floats], Floats]
_Found: TypeAlias = tuple[Floats, Floats | None]


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """A method on the questions of a set: ``tokens`` shown and ``recall`` reached, each (budgets, questions).

    Raises ValueError when the shapes differ or a value is nan: questions without evidence are to be left out.
    """

    tokens: Floats
    recall: Floats

    def __post_init__(self) -> None:
        if self.tokens.ndim != 2 or self.tokens.shape != self.recall.shape or not self.tokens.size:
            raise ValueError(
                f"Tokens and recall must both be (budgets, questions); they are {self.tokens.shape} and "
                f"{self.recall.shape}."
            )
        if np.isnan(self.tokens).any() or np.isnan(self.recall).any():
            raise ValueError("A question has no tokens or no recall; leave out the questions without evidence.")

    @property
    def curve(self) -> Curve:
        """Mean tokens and mean recall at each budget."""
        return Curve(tuple(self.tokens.mean(axis=1).tolist()), tuple(self.recall.mean(axis=1).tolist()))


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of mean ``tokens`` and mean ``recall``, in the order of the budgets."""

    tokens: tuple[float, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two methods on the same questions. ``clusters`` names each question's document; ``at`` is the budget of
    ``baseline`` at which the two are compared. Raises ValueError when the numbers of questions differ.
    """

    method: Results
    baseline: Results
    clusters: Sequence[Hashable]
    at: int = 0

    def __post_init__(self) -> None:
        if not self.method.tokens.shape[1] == self.baseline.tokens.shape[1] == len(self.clusters):
            raise ValueError("Both methods and the clusters of a pair must have the same questions.")


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Marks of two methods on the same questions, each (questions,): 1 where all evidence is shown, else 0."""

    method: Floats
    baseline: Floats
    clusters: Sequence[Hashable]


def recall_at_tokens(curve: Curve, tokens: float) -> float | None:
    """The recall of a curve at so many tokens; None beyond its last point."""
    x, y = _envelope(np.array([curve.tokens]), np.array([curve.recall]))
    read = float(_read(x, y, np.array([tokens]))[0])
    return None if np.isnan(read) else read


def tokens_at_recall(curve: Curve, recall: float) -> float | None:
    """The fewest tokens at which a curve reaches a recall; None where it never does."""
    x, y = _envelope(np.array([curve.tokens]), np.array([curve.recall]))
    read = float(_read(y, x, np.array([recall]))[0])
    return None if np.isnan(read) else read


def recall_difference(*pairs: Pair, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's recall at the baseline's tokens, less the baseline's recall: the mean over the pairs, one a set."""
    return _over_sets([_draws(pair, _recall_difference, seed + n, draws) for n, pair in enumerate(pairs)])


def token_ratio(*pairs: Pair, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's tokens at the baseline's recall, by the baseline's tokens: the mean over the pairs, one a set.

    Where the method does not reach that recall the ratio is out of reach: no value, or no upper end.
    """
    return _over_sets([_draws(pair, _token_ratio, seed + n, draws) for n, pair in enumerate(pairs)])


def rate_ratio(*rates: Rates, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's rate by the baseline's: the mean over the sets. Out of reach where the baseline's rate is zero."""
    found = []
    for n, rate in enumerate(rates):
        both = np.stack([rate.method, rate.baseline]).astype(np.float64)
        drawn = resample(rate.clusters, seed + n, draws)
        found.append((_by(*both.mean(axis=1, keepdims=True)), _by(*drawn.means(both).T) if drawn else None))
    return _over_sets(found)


def _draws(pair: Pair, compare: _Compare, seed: int, draws: int) -> _Found:
    """The comparison on the questions as they are, and in each draw."""
    drawn = resample(pair.clusters, seed, draws)
    return compare(*_means(pair, None)), compare(*_means(pair, drawn)) if drawn else None


def _means(pair: Pair, drawn: Resample | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean tokens and recall of the method (draws, budgets) and of the baseline at its budget (draws,)."""

    def mean(values: Floats) -> Floats:
        return drawn.means(values) if drawn else values.mean(axis=-1)[None]

    method, baseline, at = pair.method, pair.baseline, pair.at
    return mean(method.tokens), mean(method.recall), mean(baseline.tokens[at]), mean(baseline.recall[at])


def _recall_difference(tokens: Floats, recall: Floats, other_tokens: Floats, other_recall: Floats) -> Floats:
    x, y = _envelope(tokens, recall)
    return _read(x, y, other_tokens) - other_recall


def _token_ratio(tokens: Floats, recall: Floats, other_tokens: Floats, other_recall: Floats) -> Floats:
    x, y = _envelope(tokens, recall)
    reached = _read(y, x, other_recall)
    return _by(np.where(np.isnan(reached), np.inf, reached), other_tokens)


def _by(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _over_sets(found: Sequence[_Found]) -> Estimate:
    """The mean over the sets, each drawn on its own; no interval where a set has only one document."""
    if not found:
        return Estimate(None)
    value = float(np.mean([value[0] for value, _ in found]))
    drawn = [draws for _, draws in found if draws is not None]
    return estimate(value, np.mean(drawn, axis=0) if len(drawn) == len(found) else None)


def _envelope(tokens: Floats, recall: Floats) -> tuple[Floats, Floats]:
    """Points (rows, budgets) in order of tokens, from nothing on, the recall never falling."""
    order = np.lexsort((-recall, tokens), axis=1)
    x = np.take_along_axis(tokens, order, axis=1)
    y = np.maximum.accumulate(np.take_along_axis(recall, order, axis=1), axis=1)
    start = np.zeros((len(x), 1))
    return np.hstack([start, x]), np.hstack([start, y])


def _read(x: Floats, y: Floats, at: Floats) -> Floats:
    """y where x first reaches ``at``, row by row; nan where it never does. Both x and y never fall along a row."""
    after = (x < at[:, None]).sum(axis=1)
    rows, last = np.arange(len(x)), x.shape[1] - 1
    right, left = np.minimum(after, last), np.maximum(np.minimum(after, last) - 1, 0)
    width = x[rows, right] - x[rows, left]
    share = np.divide(at - x[rows, left], width, out=np.ones_like(width), where=(width > 0) & (after > 0))
    read = y[rows, left] + share * (y[rows, right] - y[rows, left])
    return np.where(after > last, np.nan, np.where(after == 0, 0.0, read))
