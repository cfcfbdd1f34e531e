"""From a run folder to rows of ``scores``, each figure worked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from okralong.lab.sweeps.gold_questions import read_gold_questions
from okralong.lab.sweeps.judge import MARKS
from okralong.lab.sweeps.metrics import METRICS
from okralong.lab.sweeps.schemas import SCORES
from okralong.lab.sweeps.scores import indexing_row, score_rows
from okralong.pipelines.core.types import InputError, MetricError
from tests.evaluation.sweeps.invented_run import (
    NAMED,
    TEXTS,
    answer,
    attempt,
    span,
    usual_run,
    write_questions,
    write_run,
)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, dict[str, Any]]:
    golds = read_gold_questions(write_questions(tmp_path))
    scored = score_rows(usual_run(tmp_path / "run"), NAMED, golds, TEXTS.__getitem__, {"sales": {"judge": [1.0]}})
    assert "late" not in {row["query_id"] for row in scored}
    kept = pa.Table.from_pylist(scored, schema=SCORES).to_pylist()
    assert kept == scored
    return {row["query_id"]: row for row in kept}


def test_the_marks_of_an_answer(rows: dict[str, dict[str, Any]]) -> None:
    sales, chair = rows["sales"], rows["chair"]
    assert (sales["f1"], sales["em"], sales["numeric"], sales["judge"]) == (1.0, 1.0, 1.0, 1.0)
    assert (chair["f1"], chair["em"], chair["numeric"], chair["judge"]) == (pytest.approx(2 / 3), 0.0, None, None)
    assert (sales["set"], sales["cell"], sales["type"]) == ("town", NAMED.cell, "extractive")
    assert sales["cluster"] == chair["cluster"] != rows["costs"]["cluster"]


def test_what_the_context_held_and_the_citations_met(rows: dict[str, dict[str, Any]]) -> None:
    sales, chair = rows["sales"], rows["chair"]
    assert (sales["answer_recall"], sales["evidence_recall"]) == (1.0, 1.0)
    assert sales["citation_precision"] == 0.5
    # "The chair i" of "The chair is Ida Moss.": 9 of 18 characters that are not white space.
    assert (chair["answer_recall"], chair["evidence_recall"]) == (0.0, 9 / 18)
    assert chair["citation_precision"] is None


def test_tokens_dollars_and_seconds(rows: dict[str, dict[str, Any]]) -> None:
    sales, chair = rows["sales"], rows["chair"]
    assert (sales["prompt_tokens"], sales["completion_tokens"], sales["weighted_tokens"]) == (200, 20, 280)
    assert sales["billed_usd"] == pytest.approx(0.00035)
    assert sales["alone_usd"] == pytest.approx(0.0007), "the reply that another run paid for, at its own price"
    assert (chair["seconds_analysis"], chair["seconds_retrieval"]) == (0.25, 1.5)
    assert (chair["seconds_generation"], chair["seconds_total"]) == (3.0, 4.0)
    assert (chair["seconds_first_token"], chair["tokens_per_second"]) == (3.0, 2.5)
    assert (sales["tokens_per_second"], chair["seconds_indexing"]) == (None, None)
    assert {sales[name] for name in METRICS if name.startswith("seconds")} == {None}, "it did not wait for that reply"


def test_the_time_to_index_its_documents(tmp_path: Path) -> None:
    golds = read_gold_questions(write_questions(tmp_path))
    run = usual_run(tmp_path / "run")
    scored = score_rows(run, NAMED, golds, TEXTS.__getitem__, indexing_s=lambda characters: characters / 100)
    by_id = {row["query_id"]: row["seconds_indexing"] for row in scored}
    assert by_id == {"sales": 0.5, "chair": 0.5, "costs": 0.25}


def test_a_resumed_question_has_no_speed(tmp_path: Path) -> None:
    golds = read_gold_questions(write_questions(tmp_path))
    late = answer("chair", answer="Moss", seconds=[("total", 0.25)])
    run = write_run(tmp_path / "run", [late], [attempt("chair", 1, "ok", 0.1)])
    (row,) = score_rows(run, NAMED, golds, TEXTS.__getitem__)
    assert (row["seconds_first_token"], row["tokens_per_second"]) == (None, None)


def test_a_question_that_the_budget_did_not_reach_has_no_marks(rows: dict[str, dict[str, Any]]) -> None:
    costs = rows["costs"]
    assert costs["status"] == "over_budget"
    marks = [name for name in METRICS if not name.endswith(("tokens", "usd")) and not name.startswith("seconds")]
    assert {costs[name] for name in marks} == {None}
    assert costs["prompt_tokens"] == 0


def test_the_four_marks_stand_in_columns_of_their_own(tmp_path: Path) -> None:
    golds = read_gold_questions(write_questions(tmp_path))
    marks = {"sales": {"relevance": [1.0], "correctness": [0.5], "similarity": [0.75]}}
    scored = score_rows(usual_run(tmp_path / "run"), NAMED, golds, TEXTS.__getitem__, marks)
    by_id = {row["query_id"]: row for row in scored}
    names = [f"judge_{name}" for name in MARKS]
    assert [by_id["sales"][name] for name in names] == [1.0, 0.5, 0.75, None]
    assert {by_id["chair"][name] for name in names} == {None}
    assert by_id["sales"]["judge_seeds"] is None


def test_of_several_seeds_stands_the_mean_and_what_each_said(tmp_path: Path) -> None:
    golds = read_gold_questions(write_questions(tmp_path))
    said = {"sales": {"judge": [1.0, 0.0, 1.0], "relevance": [1.0, 0.75, 0.5]}}
    scored = score_rows(usual_run(tmp_path / "run"), NAMED, golds, TEXTS.__getitem__, said)
    kept = {row["query_id"]: row for row in pa.Table.from_pylist(scored, schema=SCORES).to_pylist()}
    assert (kept["sales"]["judge"], kept["sales"]["judge_relevance"]) == (pytest.approx(2 / 3), 0.75)
    assert dict(kept["sales"]["judge_seeds"]) == {"judge": [1.0, 0.0, 1.0], "judge_relevance": [1.0, 0.75, 0.5]}
    assert kept["chair"]["judge_seeds"] is None


def test_what_was_written_once_is_counted_apart(tmp_path: Path) -> None:
    assert indexing_row(usual_run(tmp_path / "plain"), NAMED) is None
    rows = [
        attempt("sales", 1, "ok", 0.5),
        attempt("artifact/graphrag/alder", 1, "ok", 0.25, prompt=400, reply=40),
        attempt("artifact/graphrag/alder", 2, "failed", 0.0),
        attempt("artifact/graphrag/birch", 1, "cached", 0.0, prompt=1_000_000, reply=0),
    ]
    found = indexing_row(write_run(tmp_path / "run", [answer("sales", answer="1544")], rows), NAMED)
    assert found is not None
    assert (found["artifacts"], found["calls"]) == (2, 2)
    assert (found["prompt_tokens"], found["completion_tokens"]) == (1_000_400, 40)
    assert found["alone_usd"] == pytest.approx(0.25 + 2.5), "the reply that another run paid for, at its own price"


def test_an_error_in_a_metric_is_an_error(tmp_path: Path) -> None:
    golds = read_gold_questions(write_questions(tmp_path))
    gone = write_run(tmp_path / "gone", [answer("sales", answer="1544", context=[span("elsewhere", 0, 5)])], [])
    with pytest.raises(MetricError, match=r"'sales' of .* cannot be scored: KeyError: 'elsewhere'"):
        score_rows(gone, NAMED, golds, TEXTS.__getitem__)
    other = write_run(tmp_path / "other", [{**answer("sales"), "question": "Costs?"}], [])
    with pytest.raises(InputError, match="asked another question"):
        score_rows(other, NAMED, golds, TEXTS.__getitem__)


def test_every_metric_is_a_column() -> None:
    assert set(METRICS) <= set(SCORES.names)
