"""``okralong evaluate`` over a set of one's own: shown before it runs, stopped half way, gone on with, and scored."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from okralong.lab.sweeps.schemas import SCORES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT, EXIT_OVER_BUDGET
from okralong.pipelines.run.rows import table
from tests.conftest import NODE_KEY
from tests.evaluation.evidence.town import write_town
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.jobs.conftest import call, endpoint
from tests.jobs.warm import without_ray

pytestmark = pytest.mark.slow

CELLS = 4


def write_sweep(folder: Path, data: Path, server: FakeOpenAI, **more: object) -> Path:
    sweep = {
        "title": "The town",
        "side": "test",
        "catalog": str(data / "catalog.yaml"),
        "split": str(data / "split" / "manifest.parquet"),
        "overrides": {**endpoint(server), "policy": "policy/paper.yaml", "confidence": "none"},
        "sets": [{"name": "town", "part": "all", "pool_tokens": 1000}],
        "methods": {"okralong": {}, "std_rag": {"variants": ["default"]}},
        "variants": {
            "default": {},
            "no orchestration": {
                "policy_overrides": {"workflow.multi-source": "linear", "workflow.multi-bridge": "linear"}
            },
            "gold": {"analyzer": "gold", "corrupted": 0.1},
        },
        "against": ["std_rag"],
        **more,
    }
    (folder / "town.yaml").write_text(yaml.safe_dump(sweep), encoding="utf-8")
    return folder / "town.yaml"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = write_town(tmp_path / "data")
    options = ["--catalog", folder / "catalog.yaml", "--rules", folder / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", folder, "--out", folder / "split", *options)
    assert code == 0, said
    return folder


def test_a_sweep_is_shown_before_it_runs_and_nobody_is_asked_twice(
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = write_sweep(tmp_path, data, reader, budget_usd=2.5)
    given = ["evaluate", sweep, "--data", data, "--out", tmp_path / "out", "--work", tmp_path / "work"]
    code, said = call(monkeypatch, capsys, *given, "--dry-run")
    assert code == 0, said
    assert f"The town: {CELLS} cells, 0 of them finished" in said
    assert "sets: town all (6 questions)" in said
    assert "the cap is $2.5" in said
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "Add --yes" in said) == (2, True)
    assert not (tmp_path / "out").exists()
    assert reader.received == []
    code, said = call(monkeypatch, capsys, *given[:2], "--data", tmp_path / "nowhere", *given[4:], "--dry-run")
    assert (code, "town/questions.json does not exist" in said) == (2, True)


def test_a_sweep_that_is_stopped_goes_on_to_the_single_question(
    ray_cluster: None,
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = reader.key = NODE_KEY
    monkeypatch.setenv("OPENAI_API_KEY", key)
    refused = [Trouble(401, "invalid_api_key", "Incorrect key")] * 50
    sweep, out = write_sweep(tmp_path, data, reader, share_replies=False), tmp_path / "out"
    given = ["evaluate", sweep, "--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
    reader.troubles = [*[None] * 5, *refused]
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "OPENAI_API_KEY" in said) == (EXIT_ENDPOINT, True), said
    assert not (out / "manifest.json").exists()
    paid = [
        row for run in (out / "cells").iterdir() for row in table(Folder.of(run), "ledger") if row["status"] == "ok"
    ]
    assert len(paid) == 5
    asked = len(reader.received)
    reader.troubles = []
    code, said = call(monkeypatch, capsys, *given)
    assert code == 0, said
    rows = pq.read_table(out / "scores", schema=SCORES).to_pylist()
    assert len(rows) == CELLS * 6
    assert {row["status"] for row in rows} <= {"answered", "unanswerable"}
    calls = sum(row["status"] == "ok" for run in (out / "cells").iterdir() for row in table(Folder.of(run), "ledger"))
    assert len(reader.received) - asked == calls - 5, "what was paid for is not asked again"
    assert sum(row["billed_usd"] for row in rows) == pytest.approx(reader.bill_usd, abs=1e-9)
    assert all(row["evidence_recall"] is not None for row in rows)
    said_gold = {row["query_id"]: row for row in rows if row["variant"] == "gold"}
    assert len(said_gold) == 6
    assert json.loads((out / "manifest.json").read_text())["cells"]
    for name in ("summary.csv", "summary.md", "summary.parquet", "paired.csv", "paired.md", "paired.parquet"):
        assert (out / name).is_file()
    assert "no orchestration" in (out / "paired.md").read_text()
    asked = len(reader.received)
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "every cell is finished" in said) == (0, True)
    assert len(reader.received) == asked
    cells = sorted((out / "cells").iterdir())
    code, said = call(monkeypatch, capsys, "compare", cells[0], cells[-1], "--worse-than", "1")
    assert code == 0, said


def test_a_sweep_of_few_questions_runs_in_its_own_process_side_by_side(
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Cells of two encoders of the same words, of a scorer and of a step-wise strategy, none of them on Ray."""

    def refused(address: str | None) -> None:
        raise AssertionError("the sweep asked for Ray")

    monkeypatch.setattr("okralong.lab.sweeps.cells.connected", refused)
    methods = {"std_rag": {"variants": ["default"]}, "okralong": {"variants": ["default", "words"]}}
    methods["longllmlingua"] = {"variants": ["few"]}
    variants = {
        "default": {},
        "words": {"overrides": {"analyzer.kind": "rules"}},
        "few": {"policy_overrides": {"longllmlingua.candidates": 2, "longllmlingua.granularity": 150}},
    }
    more = {"share_replies": False, "parallel": 3}
    scored = {"scorer": {"model": "embedded"}, "confidence": "none", **endpoint(reader)}
    sweep = write_sweep(tmp_path, data, reader, methods=methods, variants=variants, overrides=scored, **more)
    out = tmp_path / "out"
    with without_ray():
        code, said = call(
            monkeypatch, capsys, "evaluate", sweep, "--data", data, "--out", out, "--work", tmp_path / "work", "--yes"
        )
    assert code == 0, said
    rows = pq.read_table(out / "scores", schema=SCORES).to_pylist()
    assert len(rows) == 4 * 6
    assert {row["status"] for row in rows} <= {"answered", "unanswerable"}
    assert sum(row["billed_usd"] for row in rows) == pytest.approx(reader.bill_usd, abs=1e-9)
    runs = sorted((out / "cells").iterdir())
    assert len({len(table(Folder.of(run), "answers")) for run in runs}) == 1


@pytest.mark.soak  # above it is stopped after five replies
def test_a_sweep_that_is_stopped_before_its_first_answer_goes_on(
    ray_cluster: None,
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = reader.key = NODE_KEY
    monkeypatch.setenv("OPENAI_API_KEY", key)
    sweep, out = write_sweep(tmp_path, data, reader), tmp_path / "out"
    given = ["evaluate", sweep, "--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
    reader.troubles = [Trouble(401, "invalid_api_key", "Incorrect key")] * 50
    code, said = call(monkeypatch, capsys, *given)
    assert (code, "OPENAI_API_KEY" in said) == (EXIT_ENDPOINT, True), "before the first answer there is no page"
    reader.troubles = []
    code, said = call(monkeypatch, capsys, *given)
    assert code == 0, said


@pytest.mark.soak  # test_shared_budget.py deals the budget out, test_shared_runs.py shares replies
def test_one_budget_holds_over_all_cells_and_replies_are_shared(
    ray_cluster: None,
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variants = {"default": {}, "again": {}}
    methods = {"std_rag": {}}
    sweep = write_sweep(tmp_path, data, reader, variants=variants, methods=methods, parallel=1, budget_usd=0.02)
    out = tmp_path / "out"
    given = ["evaluate", sweep, "--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
    code, said = call(monkeypatch, capsys, *given)
    assert code == EXIT_OVER_BUDGET, said
    assert 0 < reader.bill_usd <= 0.02
    code, said = call(monkeypatch, capsys, *given, "--budget-usd", "5")
    assert code == 0, said
    rows = pq.read_table(out / "scores", schema=SCORES).to_pylist()
    assert {row["status"] for row in rows} <= {"answered", "unanswerable"}
    assert len(reader.received) == 6, "the second cell sends the same requests, and pays for none of them"
    alone = sum(row["alone_usd"] for row in rows)
    assert alone == pytest.approx(2 * reader.bill_usd, rel=1e-6)
