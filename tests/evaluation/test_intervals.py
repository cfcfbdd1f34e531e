"""The bootstrap over documents."""

from __future__ import annotations

import pytest

from okralong.lab.evidence.figures import clustered_mean
from okralong.pipelines.reporting.statistics import Estimate


def test_documents_are_drawn_and_not_questions() -> None:
    # Two documents whose questions all agree: a draw has both, or one of them twice, so the mean is 0, 0.5 or 1.
    assert clustered_mean([1.0] * 50 + [0.0] * 50, ["a"] * 50 + ["b"] * 50).interval == (0.0, 1.0)


def test_the_interval_is_seeded_and_holds_the_mean() -> None:
    values, clusters = [0.1, 0.9, 0.4, 0.6, 0.5, 0.3], ["a", "b", "c", "d", "e", "f"]
    first = clustered_mean(values, clusters, seed=1)
    assert first == clustered_mean(values, clusters, seed=1)
    assert first.value == pytest.approx(sum(values) / 6)
    assert first.interval is not None
    assert 0.1 < first.interval[0] < sum(values) / 6 < first.interval[1] < 0.9


def test_alike_questions_leave_no_doubt_and_one_document_no_interval() -> None:
    assert clustered_mean([1.0, 1.0], ["a", "b"]) == Estimate(1.0, 1.0, 1.0, 2)
    assert clustered_mean([0.2, 0.8], ["a", "a"]) == Estimate(0.5, None, None, 2)
    assert clustered_mean([], []) == Estimate(None, None, None, 0)
    with pytest.raises(ValueError, match="must be equal"):
        clustered_mean([0.2, 0.8], ["a"])
