"""A run in batch mode, end to end on real Ray: the same answers as in real time, for half of the bill."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import PAPER
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

MODEL = "gpt-4o-2024-08-06"
SCENARIO: dict[str, Any] = {"models": {MODEL: {}}, "prompt_cache": {"enabled": False}}
BRISK = {"quiet_s": 2.0, "gather_s": 20.0, "poll_s": 0.1, "longest_poll_s": 0.5}


@pytest.fixture(scope="module")
def server(endpoint_process: EndpointProcess) -> EndpointProcess:
    return endpoint_process


def told(server: EndpointProcess, **batch: Any) -> dict[str, Any]:
    """Overrides of a run at ``server``; in batch mode where something is said of it."""
    given: dict[str, Any] = {
        "policy": PAPER,
        "analyzer.kind": "rules",
        "reranker.model": tiny_cross_encoder(),
        "llm.base_url": server.base_url,
        "llm.model": MODEL,
    }
    given |= {"llm.window": 128_000, "llm.tokenizer": "o200k_base"}
    return given | ({"llm.mode": "batch", "llm.batch": {**BRISK, **batch}} if batch else {})


def billed(run: Path) -> Decimal:
    return sum(
        (Decimal(repr(row["cost_usd"])) for row in table(Folder.of(run), "ledger") if row["status"] == "ok"), Decimal(0)
    )


def test_a_batch_run_answers_the_same_for_half_of_the_bill(
    ray_cluster: None,
    sample_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    server: EndpointProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions = sample_folder / "questions.jsonl"
    server.reset(SCENARIO)
    answer(sample_archive, questions, tmp_path / "realtime", **told(server))
    full = server.bill_usd
    server.reset(SCENARIO)
    result = answer(sample_archive, questions, tmp_path / "batch", **told(server, concurrency=100))
    half, state = server.bill_usd, server.state()
    assert half == full / 2
    assert state["bill"]["chat"]["calls"] == 0
    assert abs(billed(tmp_path / "batch") - half) < Decimal("1e-12")
    assert abs(billed(tmp_path / "realtime") - full) < Decimal("1e-12")

    run = Folder.of(tmp_path / "batch")
    ledger = table(run, "ledger")
    assert {(row["status"], row["mode"]) for row in ledger} == {("ok", "batch")}
    assert {row["batch_id"] for row in ledger} == set(state["batches"])
    assert len(state["batches"]) < len(ledger) / 3, "questions are in the air together"
    waves: dict[str, dict[str, int]] = {}
    for row in ledger:
        waves.setdefault(row["query_id"], {})[row["path"]] = row["wave"]
    workflows = Counter(row["plan"].split('"workflow":"')[1].split('"')[0] for row in table(run, "answers"))
    assert {"split", "step"} <= set(workflows), workflows
    assert all(len(set(steps.values())) == len(steps) for steps in waves.values()), "a plan advances wave by wave"
    said = {name: (row["answer"], row["calls"]) for row in table(run, "answers") if (name := row["query_id"])}
    assert said == {
        row["query_id"]: (row["answer"], row["calls"]) for row in table(Folder.of(tmp_path / "realtime"), "answers")
    }
    manifest = run.read_manifest()
    assert manifest is not None
    assert manifest["totals"]["batch_calls"] == len(ledger)
    assert manifest["totals"]["batch_usd"] == pytest.approx(float(half), abs=1e-12)
    assert result.exit_code == 0
    assert "requests went out as batch_" in capsys.readouterr().out


@pytest.mark.soak  # tests/llm/batch has each part of it
def test_a_revoked_key_stops_the_run_and_what_its_batch_did_is_collected_after_the_deadline(
    ray_cluster: None, sample_archive: Path, sample_folder: Path, tmp_path: Path, server: EndpointProcess
) -> None:
    """The first start loses its key at the first look at its batch; the second finds that its deadline has passed."""
    revoked = {"kind": "revoked_key", "where": "batches", "at": [2]}
    server.reset({**SCENARIO, "batches": {"requests_per_s": 0.5}, "faults": [revoked]})
    given = told(server, concurrency=100)
    questions, run = sample_folder / "questions.jsonl", Folder.of(tmp_path)
    result = answer(sample_archive, questions, tmp_path, **given)
    assert result.exit_code == 4
    assert "OPENAI_API_KEY" in result.stopped
    assert run.read_manifest() is None
    ledger = table(run, "ledger")
    assert {(row["status"], row["mode"]) for row in ledger} == {("unknown", "batch")}
    assert float(server.bill_usd) <= sum(row["cost_usd"] for row in ledger), "what nobody can look at is held"

    server.change({"revoked_keys": [], "faults": []})
    given = told(server, concurrency=100, deadline="0s")
    result = answer(sample_archive, questions, tmp_path, **given)
    assert result.exit_code == 0
    assert sum(result.statuses.values()) == 18
    ledger, bill = table(run, "ledger"), server.state()["bill"]
    replies = Counter(row["mode"] for row in ledger if row["status"] == "ok")
    assert replies == {"batch": bill["batch"]["calls"], "realtime": bill["chat"]["calls"]}
    assert set(server.state()["batches"].values()) <= {"cancelled", "completed"}
    assert not [row for row in ledger if row["status"] == "unknown"]
    paid = Counter((row["query_id"], row["path"]) for row in ledger if row["status"] == "ok")
    assert set(paid.values()) == {1}
    assert abs(billed(tmp_path) - server.bill_usd) < Decimal("1e-12")
