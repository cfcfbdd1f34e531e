"""The estimate job end to end: nothing asked without a pilot, and nothing of the pilot asked twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET, ConfigError
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import call, config_file, endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

PILOT = 5


@pytest.mark.soak  # test_escalate.py has an estimate that asks nobody and whose range holds
def test_an_estimate_asks_nobody_and_its_range_holds(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    questions = sample_folder / "questions.jsonl"
    found = okralong.estimate(sample_archive, questions, **endpoint(reader))
    assert reader.received == []
    assert (found.questions, found.asked, found.exit_code) == (18, 0, 0)
    # tests/answering/estimate/test_coverage.py has the other strategies, without Ray.
    answer(sample_archive, questions, tmp_path, **endpoint(reader))
    usd = found.strategies["okralong"].total.usd
    assert usd.low <= reader.bill_usd <= usd.high


def test_a_pilot_is_part_of_the_run_and_is_paid_once(
    plain_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    own_process: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions, run, figures = sample_folder / "questions.jsonl", tmp_path / "run", tmp_path / "out" / "figures.json"
    config = config_file(tmp_path, reader)
    shared = ("--questions", questions, "--config", config, "--run", run, "--tag", "team=night")
    code, said = call(monkeypatch, capsys, "estimate", plain_archive, *shared, "--pilot", PILOT, "--json", figures)
    assert code == 0, said
    data = json.loads(figures.read_text())
    answers = table(Folder.of(run), "answers")
    assert len(answers) == data["asked"] == PILOT
    assert data["asked_usd"] == pytest.approx(reader.bill_usd)
    assert f"{PILOT} of the questions are already answered; the figures include their ${reader.bill_usd:.4f}" in said
    assert {json.loads(row["plan"])["workflow"] for row in answers} == {"linear", "extend", "split", "step"}
    assert Folder.of(run).read_manifest() is None, "the run is not complete"
    pilot_calls = len(reader.received)
    code, again = call(monkeypatch, capsys, "estimate", plain_archive, *shared)
    assert code == 0, again
    assert len(reader.received) == pilot_calls, "what the run holds is learned from without a pilot, too"
    ended = answer(plain_archive, questions, run, config=config, tags={"team": "night"})
    assert ended.exit_code == 0
    ledger = table(Folder.of(run), "ledger")
    assert len(ledger) == len(reader.received) == len({(row["query_id"], row["path"]) for row in ledger})
    assert {dict(row["tags"])["team"] for row in ledger} == {"night"}
    usd = data["strategies"]["okralong"]["total"]["usd"]
    # The interval is one of 95 %, and the questions are so alike that it is some tenths of a percent wide.
    assert 0.98 * usd["low"] <= reader.bill_usd <= 1.02 * usd["high"]


@pytest.mark.soak  # a run keeps to it in test_answer_run.py
def test_a_pilot_keeps_to_the_budget_and_says_so(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    given: dict[str, Any] = {"strategy": "std_rag", "budget_usd": 0.02, **endpoint(reader)}
    found = okralong.estimate(sample_archive, sample_folder / "questions.jsonl", run=tmp_path / "run", pilot=8, **given)
    assert found.exit_code == EXIT_OVER_BUDGET
    assert "budget" in found.stopped
    assert 0 < found.asked < 8
    assert reader.bill_usd <= 0.02
    assert list(found.strategies) == ["std_rag", "okralong", "long_context"]


def test_a_folder_of_another_set_up_is_refused(
    sample_archive: Path, sample_folder: Path, run_rows: dict[str, Any], reader: FakeOpenAI
) -> None:
    questions, run = sample_folder / "questions.jsonl", run_rows["folder"].path
    with pytest.raises(ConfigError, match="begun with another set-up"):
        okralong.estimate(sample_archive, questions, run=run, pilot=2, **endpoint(reader))
    assert reader.received == []


def test_a_local_model_is_counted_in_its_own_tokens_without_starting_it(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, own_process: None
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join((sample_folder / "questions.jsonl").read_text().splitlines(keepends=True)[:4]))
    told = {"analyzer.kind": "rules", "reranker.model": tiny_cross_encoder()}
    found = okralong.estimate(plain_archive, few, **told)
    total = found.strategies["okralong"].total
    assert found.model.lower().startswith("smollm2-135m-instruct")  # the name alone, also where a folder is served
    assert total.usd.high == 0
    assert total.prompt_tokens.expected > 4 * 500
