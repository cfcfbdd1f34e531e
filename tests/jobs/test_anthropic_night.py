"""A whole run at a scripted Anthropic endpoint: real time and batches, each exact to the endpoint's bill."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.fakes.endpoint.process import EndpointProcess
from tests.jobs.warm import answer

MODEL = "claude-sonnet-4-6"
"""It caches prompts as short as these; its price is the shipped table's."""
RATES = {"input": 3.0, "cached_input": 0.3, "output": 15.0, "cache_write": 3.75}
BRISK = {"quiet_s": 1.0, "gather_s": 10.0, "poll_s": 0.1, "longest_poll_s": 0.3}


def night(folder: Path, archive: Path, sample: Path, server: EndpointProcess, **more: Any) -> list[dict[str, Any]]:
    """A run over all questions; returns its ledger."""
    server.reset({"models": {MODEL: {"rates": RATES, "window": 200_000}}})
    given: dict[str, Any] = {
        "strategy": "long_context",
        "analyzer.kind": "rules",
        "confidence": "none",
        "llm.provider": "anthropic",
        "llm.base_url": server.anthropic_url,
        "llm.model": MODEL,
        "llm.window": 200_000,
        "budget_usd": 5.0,
    }
    result = answer(archive, sample / "questions.jsonl", folder, **given, **more)
    assert (result.exit_code, result.stopped) == (0, "")
    answers, ledger = (table(Folder.of(folder), name) for name in ("answers", "ledger"))
    assert len({row["query_id"] for row in answers}) == 18
    assert all(row["status"] in ("answered", "unanswerable") for row in answers)
    assert {row["status"] for row in ledger} == {"ok"}
    cost = sum((Decimal(repr(row["cost_usd"])) for row in ledger), Decimal(0))
    assert abs(cost - server.bill_usd) < Decimal("1e-12")
    return ledger


def test_a_night_at_claude_is_paid_as_billed(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, endpoint_process: EndpointProcess
) -> None:
    ledger = night(tmp_path, plain_archive, sample_folder, endpoint_process)
    assert {row["mode"] for row in ledger} == {"realtime"}
    assert sum(1 for row in ledger if row["cached_tokens"]) > 10, "questions over the same documents share their text"


@pytest.mark.slow
def test_a_night_in_batches_is_paid_as_billed(
    ray_cluster: None, plain_archive: Path, sample_folder: Path, tmp_path: Path, endpoint_process: EndpointProcess
) -> None:
    batch = {"llm.mode": "batch", "llm.batch": BRISK}
    ledger = night(tmp_path, plain_archive, sample_folder, endpoint_process, **batch)
    assert {row["mode"] for row in ledger} == {"batch"}
    assert {row["batch_id"] for row in ledger} == set(endpoint_process.state()["batches"])
