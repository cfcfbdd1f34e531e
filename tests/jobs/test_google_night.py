"""A night at Gemini, in real time and in batches: checked, estimated and answered, exact to the server's own bill."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from okralong.jobs.doctor import examine
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import PAPER
from tests.jobs.warm import answer

MODEL = "gemini-3.8-flash"
RATES = {"input": 1.5, "cached_input": 0.15, "output": 7.5}
SCENARIO: dict[str, Any] = {
    "models": {MODEL: {"rates": RATES, "thought": 20}},
    "batches": {"cached_share": 1.0, "cached_prefixes": True},
}


@pytest.fixture
def google(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset(SCENARIO)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-test-of-the-night-0123456789")
    return endpoint_process


def test_doctor_checks_and_asks_the_endpoint(tmp_path: Path, google: EndpointProcess) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text(f"llm: {{provider: google, base_url: '{google.google_url}', model: {MODEL}, window: 1000000}}")
    found = {one.name: one for one in examine(str(config), None, ask=True)}
    assert (found["endpoint"].ok, found["price"].ok, found["protocol"].ok) == (True, True, True)
    said = found["protocol"].says
    assert said.startswith("limits replies by max_output_tokens, thinks (20 tokens before one word), has batches")
    assert f"${float(google.bill_usd):.6f}" in said


def test_a_nights_ledger_is_googles_bill(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, google: EndpointProcess
) -> None:
    assert_night(plain_archive, sample_folder, tmp_path, google, "realtime")
    assert google.state()["bill"]["batch"]["calls"] == 0


@pytest.mark.slow
def test_a_night_in_batches_is_billed_at_half_of_the_price(
    ray_cluster: None, plain_archive: Path, sample_folder: Path, tmp_path: Path, google: EndpointProcess
) -> None:
    assert_night(plain_archive, sample_folder, tmp_path, google, "batch")
    assert google.state()["bill"]["chat"]["calls"] == 0


def assert_night(archive: Path, sample: Path, folder: Path, google: EndpointProcess, mode: str) -> None:
    """Answer the sample's questions; the ledger is the bill, and a second start adds nothing to either."""
    given: dict[str, Any] = {
        "policy": PAPER,
        "analyzer.kind": "rules",
        "reranker.model": tiny_cross_encoder(),
        "llm": {
            "provider": "google",
            "base_url": google.google_url,
            "model": MODEL,
            "window": 1_000_000,
            "reasoning_effort": "low",
            "mode": mode,
            "batch": {"quiet_s": 1.0, "gather_s": 20.0, "poll_s": 0.1, "longest_poll_s": 0.5},
        },
        "budget_usd": 1.0,
    }
    questions, run = sample / "questions.jsonl", folder / "run"
    result = answer(archive, questions, run, **given)
    rows = table(Folder.of(run), "ledger")
    assert result.exit_code == 0
    assert len(table(Folder.of(run), "answers")) == 18
    assert {(row["status"], row["mode"], row["reasoning_tokens"]) for row in rows} == {("ok", mode, 20)}
    paid = sum((Decimal(repr(row["cost_usd"])) for row in rows), Decimal(0))
    assert abs(paid - google.bill_usd) < Decimal("1e-12")
    again = answer(archive, questions, run, **given)
    assert again.exit_code == 0
    assert abs(paid - google.bill_usd) < Decimal("1e-12"), "a second start pays nothing"
