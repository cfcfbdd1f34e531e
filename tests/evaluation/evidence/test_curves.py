"""Reading curves, and comparing two methods with paired draws."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.lab.evidence.curves import (
    Curve,
    Pair,
    Rates,
    Results,
    mean_estimate,
    rate_ratios,
    recall_at,
    recall_differences,
    token_ratios,
    tokens_at,
)
from okralong.pipelines.reporting.statistics import DRAWS, Estimate


def recall_difference(*pairs: Pair) -> Estimate:
    return mean_estimate(recall_differences(pairs))


def token_ratio(*pairs: Pair, draws: int = DRAWS) -> Estimate:
    return mean_estimate(token_ratios(pairs, draws=draws))


def rate_ratio(*rates: Rates) -> Estimate:
    return mean_estimate(rate_ratios(rates))


BENT = Curve((800.0, 100.0, 400.0, 200.0), (0.8, 0.4, 0.3, 0.6))
"""In order: (100, 0.4), (200, 0.6), then a point that shows less for more (400), then (800, 0.8)."""


def recall_at_tokens(curve: Curve, tokens: float) -> float | None:
    read = float(recall_at(np.array([curve.tokens]), np.array([curve.recall]), np.array([tokens]))[0])
    return None if np.isnan(read) else read


def tokens_at_recall(curve: Curve, recall: float) -> float | None:
    read = float(tokens_at(np.array([curve.tokens]), np.array([curve.recall]), np.array([recall]))[0])
    return None if np.isnan(read) else read


@pytest.mark.parametrize(
    ("tokens", "recall"),
    [(0, 0.0), (50, 0.2), (100, 0.4), (150, 0.5), (300, 0.6), (400, 0.6), (600, 0.7), (800, 0.8), (801, None)],
)
def test_recall_at_tokens(tokens: float, recall: float | None) -> None:
    assert recall_at_tokens(BENT, tokens) == (None if recall is None else pytest.approx(recall))


@pytest.mark.parametrize(
    ("recall", "tokens"), [(0, 0.0), (0.2, 50), (0.5, 150), (0.6, 200), (0.7, 600), (0.8, 800), (0.81, None)]
)
def test_tokens_at_recall(recall: float, tokens: float | None) -> None:
    assert tokens_at_recall(BENT, recall) == (None if tokens is None else pytest.approx(tokens))


def test_of_two_points_at_the_same_tokens_the_better_counts() -> None:
    assert recall_at_tokens(Curve((100.0, 100.0), (0.2, 0.6)), 100) == pytest.approx(0.6)
    assert recall_at_tokens(Curve((100.0, 100.0), (0.6, 0.2)), 100) == pytest.approx(0.6)


def _pair(seed: int = 0, gain: float = 0.1) -> Pair:
    """A baseline at one budget, and a method that shows ``gain`` more of each question in half of its tokens."""
    random = np.random.default_rng(seed)
    base = random.uniform(0.3, 0.7, size=(1, 60))
    tokens = np.full((1, 60), 2000.0)
    method = Results(np.vstack([tokens / 2, tokens]), np.vstack([base, base]) + gain)
    return Pair(method, Results(tokens, base), [f"doc {n % 12}" for n in range(60)])


def test_pairing_leaves_a_constant_gain_without_doubt() -> None:
    gain = recall_difference(_pair())
    assert (gain.value, gain.low, gain.high) == pytest.approx((0.1, 0.1, 0.1))
    ratio = token_ratio(_pair())
    mean = _pair().baseline.recall.mean()
    assert ratio.value == pytest.approx(0.5 * mean / (mean + 0.1))
    assert ratio.low is not None
    assert ratio.high is not None
    assert 0.3 < ratio.low < (ratio.value or 0) < ratio.high < 0.5
    assert ratio == token_ratio(_pair())


def test_several_sets_are_averaged() -> None:
    assert recall_difference(_pair(0, 0.1), _pair(1, 0.3)).value == pytest.approx(0.2)
    both, one = token_ratio(_pair(0), _pair(1)), token_ratio(_pair(0))
    assert both.value == pytest.approx(((one.value or 0) + (token_ratio(_pair(1)).value or 0)) / 2)
    assert (both.high or 0) - (both.low or 0) < (one.high or 0) - (one.low or 0)
    assert recall_difference() == Estimate(None)


def test_the_interval_is_that_of_a_plain_loop() -> None:
    pair = _pair()
    random, values = np.random.default_rng(7), []
    clusters = np.array(pair.clusters)
    names = list(dict.fromkeys(pair.clusters))
    for drawn in random.integers(0, 12, size=(300, 12)):
        rows = np.concatenate([np.flatnonzero(clusters == names[n]) for n in drawn])
        curve = Results(pair.method.tokens[:, rows], pair.method.recall[:, rows]).curve
        values.append((tokens_at_recall(curve, float(pair.baseline.recall[0, rows].mean())) or np.inf) / 2000)
    found = token_ratio(pair, draws=300)
    assert found.low == pytest.approx(np.quantile(values, 0.025, method="lower"))
    assert found.high == pytest.approx(np.quantile(values, 0.975, method="higher"))


def test_a_recall_out_of_reach_has_no_ratio_and_no_upper_end() -> None:
    never = token_ratio(_pair(gain=-0.1))
    assert never == Estimate(None, None, None)
    base = Results(np.full((1, 40), 1000.0), np.full((1, 40), 0.5))
    mixed = Results(np.full((1, 40), 900.0), 0.5 + np.tile([0.22, -0.18], 20)[None])  # 0.02 more in the mean
    ratio = token_ratio(Pair(mixed, base, list(range(40))))
    assert ratio.value is not None
    assert ratio.low is not None
    assert ratio.high is None


def test_tokens_beyond_the_curve_have_no_difference() -> None:
    pair = _pair()
    short = Results(pair.method.tokens / 4, pair.method.recall)
    assert recall_difference(Pair(short, pair.baseline, pair.clusters)) == Estimate(None, None, None)


def test_rates() -> None:
    method = np.array([1.0, 1.0, 1.0, 0.0] * 10)
    baseline = np.array([1.0, 0.0, 1.0, 0.0] * 10)
    each = list(range(40))
    ratio = rate_ratio(Rates(method, baseline, each))
    assert ratio.value == pytest.approx(1.5)
    assert ratio.low is not None
    assert ratio.high is not None
    assert 1.0 < ratio.low < 1.5 < ratio.high < 3.0
    assert rate_ratio(Rates(method, np.zeros(40), each)) == Estimate(None, None, None)
    assert rate_ratio(Rates(method, baseline, ["one document"] * 40)) == Estimate(1.5)


def test_questions_must_match_and_be_defined() -> None:
    pair = _pair()
    with pytest.raises(ValueError, match="same questions"):
        Pair(pair.method, pair.baseline, pair.clusters[1:])
    with pytest.raises(ValueError, match="without evidence"):
        Results(pair.baseline.tokens, pair.baseline.recall * np.nan)
    with pytest.raises(ValueError, match=r"\(1, 60\) and"):
        Results(pair.baseline.tokens, pair.baseline.recall[:, :-1])
