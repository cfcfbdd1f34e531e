"""Scoring a run folder: marks, sums of the ledger, groups, and a report that names no local path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.reports.gold_file import write_gold
from benchmarks.reports.score import main, score
from benchmarks.reports.scoring import score_run
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_USAGE, InputError
from okralong.pipelines.reporting.tables import markdown_table
from tests.evaluation.runs import GOLDS, TEXTS, write_archive, write_run


def test_each_question_gets_its_marks(tmp_path: Path) -> None:
    sheets = score_run(Folder.of(write_run(tmp_path / "run")), GOLDS, TEXTS.__getitem__)
    seen = [(s.f1, s.em, s.numeric, s.recall, s.workflow) for s in sheets]
    assert seen == [
        (1.0, 1.0, 1.0, 1.0, "linear"),
        (pytest.approx(2 / 3), 0.0, None, 0.0, "linear"),  # "Moss" of "Ida Moss", whose sentence was not shown
        (0.0, 0.0, 1.0, 0.5, ""),  # 937.5 is within 1 % of 938; one operand of two was shown
        (0.0, 0.0, None, None, ""),  # failed: what its row says is no answer
    ]
    first = sheets[0].spent
    assert (first.calls, first.other_attempts, first.prompt_tokens, first.completion_tokens) == (2, 1, 300, 30)
    assert (first.weighted_tokens, first.latency_s, first.queue_s) == (300 + 4 * 30, 1.0, 0.5)
    assert sheets[3].spent.calls == 0


def test_a_run_is_summed_up_by_type_and_dataset(tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    write_gold(gold, GOLDS)
    run = write_run(tmp_path / "run")
    scored = score(gold, str(write_archive(tmp_path / "archive")), [str(run)])
    summaries = scored["summaries"]["okralong"]
    assert list(summaries) == [
        "all",
        "type: arithmetic",
        "type: extractive",
        "dataset: finqa",
        "dataset: qasper",
        "dataset: tat-dqa",
    ]
    whole = summaries["all"]
    assert (whole["questions"], whole["statuses"]) == (4, {"answered": 3, "failed": 1})
    assert (whole["context_tokens"], whole["prompt_tokens"], whole["completion_tokens"]) == (12.5, 100, 10)
    assert (whole["weighted_tokens"], whole["calls"], whole["other_attempts"]) == (140, 1.0, 1)
    assert whole["f1"] == pytest.approx((1 + 2 / 3) / 4)
    assert (whole["em"], whole["numeric"], whole["numeric_defined"]) == (0.25, 1.0, 2)
    assert (whole["recall"], whole["recall_defined"], whole["recall_not_applicable"]) == (0.5, 3, 1)
    assert whole["f1_interval"] == (0.0, pytest.approx(5 / 6))  # two documents: of one all, of the other nothing
    assert whole["seconds"]["retrieve"] == {"questions": 2, "mean": 2.0, "median": 2.0}
    assert whole["seconds"]["total"] == {"questions": 3, "mean": 5.0, "median": 4.0}
    assert (whole["analyzed_types"], whole["workflows"]) == ({"extractive": 2}, {"linear": 2})
    assert whole["cited"] == 0.25
    assert summaries["dataset: qasper"]["numeric"] is None


def test_the_report_is_written_with_its_json_and_without_local_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, out = tmp_path / "gold.jsonl", tmp_path / "results" / "reports.md"
    write_gold(gold, GOLDS)
    archive = write_archive(tmp_path / "archive")
    runs = [str(write_run(tmp_path / name, strategy)) for name, strategy in (("a", "okralong"), ("b", "okralong"))]
    assert main([str(gold), str(archive), *runs, "--out", str(out)]) == 0
    page = out.read_text()
    assert page in capsys.readouterr().out
    assert "| okralong (a) | all | 4 | 3 answered, 1 failed | 0.417 [0.000, 0.833] | 0.250 | 1.000 (2) |" in page
    assert "| okralong (b) | total | 3 | 5.000 | 4.000 |" in page
    body = json.loads(out.with_suffix(".json").read_text())
    config = body["runs"]["okralong (a)"]["config"]
    assert config == {"strategy": "okralong", "window": 8192, "model": "small", "analyzer": "rules"}
    for text in (page, json.dumps(body)):
        assert str(tmp_path) not in text
        assert "/mnt/someone" not in text


def test_a_run_of_other_questions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(InputError, match="none of them is a question"):
        score_run(Folder.of(run), [], TEXTS.__getitem__)
    code = main([str(tmp_path / "gold.jsonl"), str(write_archive(tmp_path / "archive")), str(run)])
    assert code == EXIT_USAGE
    assert "does not exist" in capsys.readouterr().err


def test_a_cell_cannot_break_the_table() -> None:
    assert markdown_table(["a"], [["x|y\nz"]]) == "| a |\n| --- |\n| x\\|y z |"
