"""Runs with other analyzers than the rules: the generator itself, and heads that were trained a moment ago."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.lab.training.learners.fit import fit_recipe
from okralong.lab.training.recipe import Recipe
from okralong.pipelines.answering.analyzers.analysis import SYSTEM_PROMPT, format_reply
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import always, call, endpoint, quoting
from tests.jobs.warm import answer
from tests.training.questions import invented_examples

pytestmark = pytest.mark.slow


@pytest.fixture
def two_questions(sample_folder: Path, tmp_path: Path) -> Path:
    lines = (sample_folder / "questions.jsonl").read_text().splitlines()[:2]
    (tmp_path / "two.jsonl").write_text("\n".join(lines))
    return tmp_path / "two.jsonl"


def test_the_generator_analyses_and_is_paid_for_it(
    sample_archive: Path,
    two_questions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def sorts(messages: Messages) -> bool:
        return messages[0]["content"].startswith(SYSTEM_PROMPT)

    rules: list[Any] = [(sorts, format_reply("abstractive", "semantic", "no")), (always, quoting)]
    with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as server:
        given: dict[str, Any] = {**endpoint(server), "analyzer.kind": "llm"}
        answer(sample_archive, two_questions, tmp_path / "run", **given)
        bill, received = server.bill_usd, list(server.received)
    asked = [one for one in received if sorts(one.messages)]
    assert [one.body["response_format"] for one in asked] == [{"type": "json_object"}] * 2
    assert all("response_format" not in one.body for one in received if one not in asked)
    folder = Folder.of(tmp_path / "run")
    rows = table(folder, "answers")
    for row in rows:
        analysis = json.loads(row["analysis"])
        assert (analysis["type"], analysis["analyzer"]) == ("abstractive", "llm:gpt-4o-2024-08-06")
        plan = json.loads(row["plan"])
        assert (plan["granularity"], plan["count"]) == (150, 15)  # the scope of abstractive questions
    spent = [row for row in table(folder, "ledger") if row["role"] == "analyze" and row["status"] == "ok"]
    assert len(spent) == 2
    assert all(row["cost_usd"] > 0 for row in spent)
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(bill)
    code, said = call(monkeypatch, capsys, "show", tmp_path / "run", rows[0]["query_id"], "--all")
    assert code == 0
    assert "analysis by llm:gpt-4o-2024-08-06 of the question" in said


@pytest.mark.soak  # the shipped heads analyse in run_rows, and test_own_analyzer.py loads heads of one's own
def test_trained_heads_speak_with_their_probabilities(
    sample_archive: Path, two_questions: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    model = resolve_embedding_model("embedded")
    recipe = Recipe(kind="heads", learning_rate=0.01, epochs=2, batch_size=6, accumulation=1, hidden=16)
    fit_recipe(recipe, invented_examples(0, 5), invented_examples(5), model, tmp_path / "mine")
    given: dict[str, Any] = {**endpoint(reader), "analyzer.kind": "heads", "analyzer.adapter": str(tmp_path / "mine")}
    okralong.answer(sample_archive, two_questions, tmp_path / "run", **given)
    rows = table(Folder.of(tmp_path / "run"), "answers")
    analyses = [json.loads(row["analysis"]) for row in rows]
    assert {analysis["analyzer"] for analysis in analyses} == {"heads:mine"}
    assert all(0 < max(analysis["type_probabilities"].values()) < 1 for analysis in analyses)
    assert len({analysis["evidence_probability"] for analysis in analyses}) == 2
