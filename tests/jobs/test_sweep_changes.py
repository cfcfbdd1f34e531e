"""A sweep that is changed between two calls: what was answered under another set-up is never taken for an answer under
this one, and questions that came in since are asked."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from okralong.lab.sweeps.schemas import SCORES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET
from okralong.pipelines.run.rows import table
from tests.conftest import NODE_KEY
from tests.evaluation.evidence.town import write_town
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import call, endpoint
from tests.jobs.warm import without_ray

pytestmark = pytest.mark.slow


def write_sweep(folder: Path, data: Path, server: FakeOpenAI, **more: object) -> Path:
    """One cell over the whole town."""
    sweep = {
        "title": "The town",
        "side": "all",
        "catalog": str(data / "catalog.yaml"),
        "overrides": {**endpoint(server), "policy": "policy/paper.yaml", "confidence": "none"},
        "sets": [{"name": "town", "part": "all"}],
        "methods": {"std_rag": {}},
        **more,
    }
    (folder / "town.yaml").write_text(yaml.safe_dump(sweep), encoding="utf-8")
    return folder / "town.yaml"


def test_a_finished_cell_is_neither_mistaken_for_another_nor_for_whole(
    tmp_path: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = write_town(tmp_path / "data"), tmp_path / "out"
    questions = data / "town" / "questions.json"
    every = json.loads(questions.read_text())

    def evaluate(**more: object) -> tuple[int, str]:
        sweep = write_sweep(tmp_path, data, reader, **more)
        given = ["--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
        with without_ray():
            return call(monkeypatch, capsys, "evaluate", sweep, *given)

    code, said = evaluate()
    assert code == 0, said
    asked = len(reader.received)
    scores = (out / "scores" / "part-000000001.parquet").read_bytes()
    code, said = evaluate(variants={"default": {"policy_overrides": {"std_rag.count": 2}}})
    assert (code, "was begun with another set-up" in said) == (2, True), said
    assert len(reader.received) == asked
    assert (out / "scores" / "part-000000001.parquet").read_bytes() == scores
    # A further question over the same documents.
    more = {**every[0], "_id": "more", "question": "In which town was the builder of Alder Mill born?"}
    questions.write_text(json.dumps([*every, more]))
    code, said = evaluate()
    assert code == 0, said
    assert len(pq.read_table(out / "scores", schema=SCORES)) == len(every) + 1
    assert len(reader.received) == asked + 1, "and the others are not asked again"


@pytest.mark.soak  # test_judge.py has the judge without a budget
def test_a_judge_that_the_budget_does_not_reach_hides_no_other_figure(
    ray_cluster: None,
    tmp_path: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", NODE_KEY)
    data, out = write_town(tmp_path / "data"), tmp_path / "out"
    judge = {"overrides": {**endpoint(reader), "llm.price": {"input": 9e3, "cached_input": 9e3, "output": 9e3}}}
    sweep = write_sweep(tmp_path, data, reader, judge=judge, budget_usd=1.0)
    given = ["--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
    code, said = call(monkeypatch, capsys, "evaluate", sweep, *given)
    assert (code, "is too small for the judge" in said) == (EXIT_OVER_BUDGET, True), said
    rows = pq.read_table(out / "scores", schema=SCORES).to_pylist()
    assert {row["status"] for row in rows} == {"answered"}
    assert all(row["f1"] is not None and row["judge"] is None for row in rows)
    assert not (out / "manifest.json").exists()
    assert table(Folder.of(next((out / "cells").iterdir()) / "judge"), "ledger") == []
