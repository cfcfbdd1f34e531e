"""A sweep's report: methods side by side, from scores, summary and the cells' runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from okralong.jobs import report
from okralong.lab.sweeps.pages import make_report
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.page import Report
from okralong.pipelines.reporting.statistics import Estimate
from tests.reporting.made_sweep import write_sweep

QUESTIONS = 20
LABELS = ["okralong (default)", "okralong (no_tables)", "std_rag", "long_context"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweep") / "sweep", QUESTIONS)


@pytest.fixture(scope="module")
def made_report(sweep: Path) -> Report:
    return make_report(Folder.of(sweep), details=24)


def test_panels_are_the_mean_over_sets_and_each_set(made_report: Report) -> None:
    assert [panel.name for panel in made_report.panels] == ["mean over 2 sets", "alpha", "beta"]
    alpha = made_report.panels[1]
    assert list(alpha.points) == LABELS
    assert alpha.points["std_rag"]["f1"].value == 0.5
    assert "rouge_l" not in alpha.points["std_rag"]
    # no_tables costs less, and is right less often; the others cost more and are right less often than okralong.
    assert alpha.frontier("f1", "weighted_tokens") == ["okralong (no_tables)", "okralong (default)"]


def test_the_summary_of_the_sweep_goes_before_draws_of_ours(made_report: Report) -> None:
    over, alpha, beta = made_report.panels
    assert alpha.points[LABELS[0]]["f1"] == Estimate(0.8125, 0.7, 0.9, 20)
    assert over.points[LABELS[0]]["f1"] == Estimate(0.79, 0.7, 0.9, 20)
    assert beta.points[LABELS[0]]["f1"].value == pytest.approx(0.8)
    assert over.points[LABELS[2]]["f1"].value == pytest.approx(0.5)


def test_tables_have_a_line_for_each_method(made_report: Report) -> None:
    tables = {table.name: table for table in made_report.tables}
    assert {"methods", "f1", "em", "weighted_tokens", "alone_usd", "by_type", "latency", "paired"} <= set(tables)
    assert "rouge_l" not in tables
    assert [row[0] for row in tables["methods"].rows] == LABELS
    assert [row[-1] for row in tables["methods"].rows] == ["3 of 3", "3 of 3", "0 of 3", "0 of 3"]
    assert tables["paired"].rows[0][:5] == [LABELS[0], LABELS[2], "mean over sets", "F1", 0.3]
    assert [bar["label"] for bar in made_report.mix["bars"]] == LABELS[:3]
    assert [matrix["name"] for matrix in made_report.confusions] == ["okralong (default) and 2 more"]


def test_every_model_that_replied_in_a_cell_is_named(made_report: Report) -> None:
    (named,) = [value for name, value in made_report.facts if name == "replied"]
    assert set(named.split("; ")) == {row.replied_by for row in made_report.rows}


def test_details_are_of_whole_questions_of_all_sets_alike(made_report: Report) -> None:
    rows = made_report.rows[:24]
    assert [row.query_id for row in rows[:8]] == ["q00000"] * 8
    assert [row.dataset for row in rows[:8]] == ["alpha"] * 4 + ["beta"] * 4
    assert len(made_report.details) == 24
    opened = [json.loads(detail) for detail in made_report.details]
    assert [detail is None for detail in opened[:8]] == [False, False, False, True] * 2
    assert opened[0]["golds"] == ["1,544 thousand crowns"]
    assert opened[0]["sources"][0][4]
    assert any("2 cells" in note for note in made_report.notes)


def test_a_sweep_without_summary_or_runs_is_reported_too(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", 6, summary=False)
    shutil.rmtree(folder / "cells")
    found = make_report(Folder.of(folder), details=100)
    assert {json.loads(detail) for detail in found.details} == {None}
    assert found.rows[0].measures["f1"] == 1.0


def test_what_is_no_sweep_is_refused(tmp_path: Path, sweep: Path) -> None:
    (tmp_path / "scores").mkdir()
    with pytest.raises(InputError, match="has no scores yet"):
        report.write_report(str(tmp_path))
    with pytest.raises(InputError, match="--questions is for a run"):
        report.write_report(str(sweep), questions="questions.jsonl")
