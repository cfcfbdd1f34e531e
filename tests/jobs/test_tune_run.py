"""``okralong tune`` over made-up reports: searched on one side of the split, reported on the other, called again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from okralong.lab.sweeps.schemas import SCORES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from okralong.pipelines.samples.questions import generate, write_sample
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import call, endpoint
from tests.jobs.warm import without_ray

pytestmark = pytest.mark.slow

RULES = {"seed": 1, "rules": [{"sources": ["sample"], "shares": {"tune": 0.5, "test": 0.5}, "why": "generated"}]}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Six reports, those of one company on one side of the split."""
    folder = tmp_path / "data"
    write_sample(generate(reports=6, questions=12, seed=7, words=1_500), folder)
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(RULES))
    options = ["--catalog", "sample_datasets.yaml", "--rules", tmp_path / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", folder, "--out", folder / "split", *options)
    assert code == 0, said
    return folder


def test_values_are_chosen_on_one_side_and_reported_on_the_other(
    tmp_path: Path,
    data: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tune = {
        "title": "Fewer chunks",
        "method": "std_rag",
        "policy": "policy/paper.yaml",
        "grid": {"std_rag.count": [1, 2]},
        "metric": "weighted_tokens",
        "overrides": endpoint(reader) | {"confidence": "none"},
        "sets": [{"name": "sample", "part": "all"}],
        "every": True,
        "budget_usd": 1.0,
        "catalog": "sample_datasets.yaml",
        "split": str(data / "split" / "manifest.parquet"),
    }
    (tmp_path / "tune.yaml").write_text(yaml.safe_dump(tune))
    out = tmp_path / "out"
    given = ["tune", tmp_path / "tune.yaml", "--data", data, "--out", out, "--work", tmp_path / "work", "--yes"]
    with without_ray():  # cells of few questions are carried in this process; test_evaluate.py has those on Ray
        code, said = call(monkeypatch, capsys, *given)
    assert code == 0, said
    assert "chosen on tune: std_rag.count = 1" in said
    assert yaml.safe_load((out / "chosen.yaml").read_text())["std_rag"]["count"] == 1
    assert "std_rag.count = 1 (chosen)" in (out / "search.md").read_text()
    sides = {}
    for part, variants in (("search", {"point000", "point001"}), ("report", {"base", "chosen"})):
        rows = pq.read_table(out / part / "scores", schema=SCORES).to_pylist()
        assert {row["variant"] for row in rows} == variants
        assert (out / part / "manifest.json").is_file()
        files = (out / part / "sets").rglob("questions.jsonl")
        questions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        sides[part] = {name for row in questions for name in row["documents"]}, {row["query_id"] for row in questions}
        assert {row["query_id"] for row in rows} == sides[part][1]
    for searched, reported in zip(sides["search"], sides["report"], strict=True):
        assert searched
        assert reported
        assert not searched & reported, "neither a question nor a document stands on both sides"
    assert "chosen" in (out / "report" / "paired.md").read_text()
    # The report may spend what the search left, and both together what was billed.
    runs = [run for part in ("search", "report") for run in (out / part / "cells").iterdir()]
    ledgers = [row for run in runs for row in table(Folder.of(run), "ledger")]
    assert sum(row["cost_usd"] for row in ledgers) == pytest.approx(reader.bill_usd)
    asked = len(reader.received)
    with without_ray():
        code, said = call(monkeypatch, capsys, *given)
    assert (code, said.count("every cell is finished")) == (0, 2), said
    assert len(reader.received) == asked
