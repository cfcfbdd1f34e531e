"""Areas under risk-coverage curves, on orders whose areas are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.confidence import Judged, area, areas, risks


def test_the_area_of_a_right_a_wrong_and_no_order() -> None:
    wrong = np.array([0.0, 0.0, 1.0, 1.0])
    sure = np.array([0.9, 0.8, 0.3, 0.2])
    coverage, risk = risks(sure, wrong)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk == pytest.approx([0, 0, 1 / 3, 0.5])
    best, random = area(sure, wrong)
    worst, same = area(-sure, wrong)
    assert random == same == 0.5
    assert best == pytest.approx((1 / 3 + 0.5) / 4)
    assert best < 0.5 < worst
    assert area(np.full(4, 0.7), wrong) == pytest.approx((0.5, 0.5)), "equal confidences tell nothing"


def test_weights_count_answers_more_than_once() -> None:
    sure, wrong = np.array([0.9, 0.5, 0.1]), np.array([0.0, 1.0, 0.0])
    twice = area(np.array([0.9, 0.9, 0.5, 0.1]), np.array([0.0, 0.0, 1.0, 0.0]))
    assert area(sure, wrong, np.array([2.0, 1.0, 1.0])) == pytest.approx(twice)


def test_intervals_hold_the_figure() -> None:
    random = np.random.default_rng(3)
    sure = random.random(200)
    wrong = (random.random(200) > sure).astype(np.float64)
    found = areas(Judged("run", sure, wrong, wrong, [f"d{n % 40}" for n in range(200)]), wrong)
    for each in found:
        assert each.interval is not None
        assert each.value is not None
        assert each.interval[0] <= each.value <= each.interval[1]
    assert found[2].interval is not None
    assert found[2].interval[1] < 1.0
