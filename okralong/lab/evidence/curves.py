"""Compare the curves (recall against tokens) of two methods on the same questions.

A curve is the upper envelope of its points, since more tokens can always show what fewer tokens show. It is linear
between points, and from (0 tokens, recall 0) to the first point; beyond the last point it is undefined. Methods are
compared at equal recall or at equal tokens. The comparison is paired: each bootstrap draw takes whole documents, the
same for both methods, and computes both curves again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from okralong.pipelines.reporting.statistics import DRAWS, Drawn, Estimate, Floats, estimate, mean_over_sets, resample

_Compare: TypeAlias = Callable[[Floats, Floats, Floats, Floats], Floats]
"""A function that compares mean tokens and recall of a method, shape (curves, budgets), with those of a baseline at one
budget, shape (curves,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """A method's results on a set: ``tokens`` shown and ``recall``, both of shape (budgets, questions).

    Raises ValueError if the shapes differ or a value is nan. Questions without evidence must be left out.
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
        """The mean tokens and mean recall at each budget."""
        return Curve(tuple(self.tokens.mean(axis=1).tolist()), tuple(self.recall.mean(axis=1).tolist()))


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of mean ``tokens`` and mean ``recall``, in the order of the budgets."""

    tokens: tuple[float, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two methods on the same questions, compared at the budget ``at`` of ``baseline``.

    ``clusters`` names each question's document. Raises ValueError if the numbers of questions differ.
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
    """For two methods, whether all evidence of each question is shown (1 or 0), shape (questions,)."""

    method: Floats
    baseline: Floats
    clusters: Sequence[Hashable]


def recall_differences(pairs: Sequence[Pair], seed: int = 7, draws: int = DRAWS) -> list[Drawn]:
    """Return, for each pair, the method's recall at the baseline's tokens, minus the baseline's recall."""
    return _compared(pairs, lambda tokens, recall, x, y: recall_at(tokens, recall, x) - y, seed, draws)


def token_ratios(pairs: Sequence[Pair], seed: int = 7, draws: int = DRAWS) -> list[Drawn]:
    """Return, for each pair, the method's tokens at the baseline's recall, divided by the baseline's tokens.

    The ratio is infinite if the method does not reach that recall.
    """

    def compare(tokens: Floats, recall: Floats, other_tokens: Floats, other_recall: Floats) -> Floats:
        reached = tokens_at(tokens, recall, other_recall)
        return _by(np.where(np.isnan(reached), np.inf, reached), other_tokens)

    return _compared(pairs, compare, seed, draws)


def rate_ratios(rates: Sequence[Rates], seed: int = 7, draws: int = DRAWS) -> list[Drawn]:
    """Return, for each set, the method's rate divided by the baseline's; infinite if the baseline's is zero."""
    found: list[Drawn] = []
    for n, rate in enumerate(rates):
        both = np.stack([rate.method, rate.baseline]).astype(np.float64)
        drawn = resample(rate.clusters, seed + n, draws)
        found.append((_by(*both.mean(axis=1)), _by(*drawn.means(both).T) if drawn else None))
    return found


def _compared(pairs: Sequence[Pair], compare: _Compare, seed: int, draws: int) -> list[Drawn]:
    """Compare each pair on the actual questions and in each bootstrap draw."""

    def means(pair: Pair, mean: Callable[[Floats], Floats]) -> Floats:
        method, baseline, at = pair.method, pair.baseline, pair.at
        return compare(*map(mean, (method.tokens, method.recall, baseline.tokens[at], baseline.recall[at])))

    found: list[Drawn] = []
    for n, pair in enumerate(pairs):
        drawn = resample(pair.clusters, seed + n, draws)
        whole = means(pair, lambda values: values.mean(axis=-1)[None])[0]
        found.append((whole, means(pair, drawn.means) if drawn else None))
    return found


def _by(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def mean_estimate(found: Sequence[Drawn]) -> Estimate:
    """Return the mean over the sets on which the figure is finite, or over all sets if it is finite on none."""
    read = [each for each in found if np.isfinite(each[0])] or found
    return estimate(*mean_over_sets(read)) if read else Estimate(None)


def recall_at(tokens: Floats, recall: Floats, at: Floats) -> Floats:
    """Return each curve's recall at a number of tokens ``at``, shape (curves,); nan beyond its last point."""
    return _read(*_envelope(tokens, recall), at)


def tokens_at(tokens: Floats, recall: Floats, at: Floats) -> Floats:
    """Return the fewest tokens at which each curve has the recall ``at``, shape (curves,); nan if it never does."""
    x, y = _envelope(tokens, recall)
    return _read(y, x, at)


def _envelope(tokens: Floats, recall: Floats) -> tuple[Floats, Floats]:
    """Return the points sorted by tokens, shape (rows, budgets + 1), from zero on, with recall that never falls."""
    order = np.lexsort((-recall, tokens), axis=1)
    x = np.take_along_axis(tokens, order, axis=1)
    y = np.maximum.accumulate(np.take_along_axis(recall, order, axis=1), axis=1)
    start = np.zeros((len(x), 1))
    return np.hstack([start, x]), np.hstack([start, y])


def _read(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return, for each row, y where x first reaches ``at``, or nan. Along a row, x and y never fall."""
    after = (x < at[:, None]).sum(axis=1)
    rows, last = np.arange(len(x)), x.shape[1] - 1
    right, left = np.minimum(after, last), np.maximum(np.minimum(after, last) - 1, 0)
    width = x[rows, right] - x[rows, left]
    share = np.divide(at - x[rows, left], width, out=np.ones_like(width), where=(width > 0) & (after > 0))
    read = y[rows, left] + share * (y[rows, right] - y[rows, left])
    return np.where(after > last, np.nan, np.where(after == 0, 0.0, read))
