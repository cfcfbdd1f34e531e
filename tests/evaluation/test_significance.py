"""Sign flips and Holm's correction, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from okralong.lab.sweeps.significance import holm, sign_flip_p


def test_all_flips_of_few_clusters_are_counted() -> None:
    # Sums of +-1 +-2 +-3: 6, 4, 2, 0 and their negatives, 0 twice; only 6 and -6 are as far from 0 as 6.
    assert sign_flip_p(np.array([[1.0], [2.0], [3.0]])) == pytest.approx([2 / 8])
    # The sum of 1, 2, -3 is 0, and every sum is as far from 0 as that.
    assert sign_flip_p(np.array([[1.0], [2.0], [-3.0]])) == pytest.approx([1.0])


def test_columns_are_tested_by_themselves_and_the_sign_of_the_sum_is_nothing() -> None:
    clusters = np.array([[1.0, -1.0, 0.1], [2.0, -2.0, 0.1], [3.0, -3.0, 0.1]])
    assert sign_flip_p(clusters) == pytest.approx([2 / 8] * 3)


def test_many_clusters_are_flipped_at_random_by_seed() -> None:
    sure = np.full((40, 1), 0.5)
    assert sign_flip_p(sure) == pytest.approx([1 / 10_000])
    doubtful = np.array([[0.5], [-0.5]] * 20) + 0.01
    first = sign_flip_p(doubtful, seed=3)
    assert first == sign_flip_p(doubtful, seed=3)
    assert 0.5 < first[0] <= 1.0


def test_one_cluster_tells_nothing() -> None:
    assert math.isnan(sign_flip_p(np.array([[1.0]]))[0])


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.03, 0.04: times 3, 2, 1 is 0.03, 0.06, 0.04, and none may be lower than the one before.
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    raised = holm([0.02, math.nan, 0.04])
    assert raised[0] == pytest.approx(0.04), "what could not be tested is no test"
    assert math.isnan(raised[1])
