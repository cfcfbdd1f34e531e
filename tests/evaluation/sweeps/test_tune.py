"""Values are chosen on one side and reported on another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.lab.sweeps.config import SweepFolder, Tune, expand
from okralong.lab.sweeps.statistics import cells_of, summary_rows
from okralong.lab.sweeps.tuning import Point, choose, points_of
from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import ConfigError, InputError
from tests.evaluation.sweeps.invented_scores import cell

FILE = """
title: The town
grid: {factoid.count: [4, 6], fusion.threshold: [0.05, 0.1]}
sets: [{name: town, part: all}]
overrides: {analyzer.kind: rules}
budget_usd: 2.0
"""


def tune(**given: Any) -> Tune:
    return parse_config(Tune, FILE, "tune.yaml", given)


def test_every_combination_is_searched_and_the_chosen_one_reported_elsewhere(tmp_path: Path) -> None:
    search, report = tune().searching(), tune().reporting({"factoid.count": 4}, 1.5)
    assert (search.side, report.side) == ("tune", "test")
    plans = expand(search, SweepFolder(tmp_path))
    assert [(p.policy.factoid.count, p.policy.fusion.threshold) for p in plans] == [
        (4, 0.05),
        (4, 0.1),
        (6, 0.05),
        (6, 0.1),
    ]
    assert (search.budget_usd, report.budget_usd) == (2.0, 1.5)
    base, chosen = expand(report, SweepFolder(tmp_path))
    assert (base.named.variant, base.policy.factoid.count) == ("base", 6)
    assert (chosen.named.variant, chosen.policy.factoid.count) == ("chosen", 4)
    assert report.against == ["okralong/base"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"search": "test"}, "search and report are both test"),
        ({"search": "test", "report": "tune"}, "choose values on a side before the reported one"),
        ({"metric": "accuracy"}, "'accuracy' is not one of the metrics"),
        ({"most": {"tokens": 5.0}}, "'tokens' is not one of the metrics"),
        ({"grid": {"factoid.count": []}}, "grid.factoid.count has no value"),
        ({"grid": {"factoid.count": list(range(1, 300))}}, "299 combinations"),
        ({"girdle": 1}, "girdle is not a known key"),
    ],
)
def test_what_would_not_be_honest_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=r"tune\.yaml cannot be used") as refused:
        tune(**given)
    assert said in str(refused.value)


def point(name: str, f1: float, tokens: float, *, fits: bool = True) -> Point:
    return Point(name, {}, {"f1": f1, "weighted_tokens": tokens}, fits)


def test_the_best_that_keeps_to_the_bounds_is_chosen() -> None:
    points = [point("a", 0.5, 900), point("b", 0.7, 2000, fits=False), point("c", 0.6, 800), point("d", 0.6, 700)]
    assert choose(tune(), points).name == "d", "of equals the one with fewer tokens"
    assert choose(tune(metric="weighted_tokens"), points).name == "d", "fewer is better"
    with pytest.raises(InputError, match="None of the 1 combinations has f1 within weighted_tokens <= 500"):
        choose(tune(most={"weighted_tokens": 500.0}), [point("a", 0.5, 900, fits=False)])
    with pytest.raises(InputError, match="has judge"):
        choose(tune(metric="judge"), points)


def test_points_have_the_means_of_their_cells() -> None:
    rows = cell("okralong", "town all", {"q1": (1.0, "x"), "q2": (0.0, "y")}, variant="point000")
    rows += cell("okralong", "town all", {"q1": (1.0, "x"), "q2": (1.0, "y")}, variant="point001", weighted_tokens=300)
    first, second, *others = points_of(tune(most={"weighted_tokens": 200.0}), summary_rows(cells_of(rows)))
    assert (first.means["f1"], first.fits) == (0.5, True)
    assert (second.means["f1"], second.fits) == (1.0, False)
    assert first.values == {"factoid.count": 4, "fusion.threshold": 0.05}
    assert [other.fits for other in others] == [False, False], "what was not measured keeps to no bound"
