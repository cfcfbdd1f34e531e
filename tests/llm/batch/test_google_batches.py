"""Batches at Google through the official SDK: exact to the last digit, and never paid twice after a kill."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.answering.prompts import reply_schema
from okralong.pipelines.core.types import EndpointError, Reply
from okralong.pipelines.llm import batch_tracker
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.conftest import UNTIL
from tests.llm.batch.killed_run import QUESTIONS as KILLED_QUESTIONS
from tests.llm.batch.tools import BatchRun, agree, attempts, batch_config, batch_run, texts
from tests.llm.provider_run import GEMINI
from tests.llm.tools import ask, rows

MODEL, PRICE, RATES = GEMINI.model, GEMINI.price, GEMINI.rates
QUESTIONS = [f"q{number}" for number in range(6)]
SCENARIO: dict[str, Any] = {"models": {MODEL: {"rates": RATES}}, "batches": {"cached_share": 1.0}}
HALF = PRICE.model_copy(update={"batch_discount": 0.5, "batch_cached_full": True})
CREATE = f"POST /v1beta/models/{MODEL}:batchGenerateContent"


@pytest.fixture
def google(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset(SCENARIO)
    monkeypatch.setenv("GEMINI_API_KEY", "AIza-test-of-the-batches-0123456789")
    return endpoint_process


def config_of(server: EndpointProcess, **changes: Any) -> LlmConfig:
    return batch_config(server.google_url, provider="google", model=MODEL, price=HALF, **changes)


def batches(server: EndpointProcess) -> dict[str, str]:
    found: dict[str, str] = server.state()["batches"]
    return found


async def left_behind(run: Path, server: EndpointProcess, holds: Callable[[], bool]) -> None:
    """Start a run and end it, as a stop does, at the moment when ``holds``."""
    async with batch_run(run, config_of(server)) as begun, asyncio.timeout(60):
        asking = asyncio.create_task(begun.ask(*QUESTIONS))
        while not holds():  # noqa: ASYNC110 - of another process, which sets no event here
            await asyncio.sleep(0.02)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


async def test_cached_and_thought_tokens_of_batches_are_charged_as_billed(
    tmp_path: Path, google: EndpointProcess
) -> None:
    model = {"rates": RATES, "thought": 9}
    google.change({"models": {MODEL: model}, "batches": {"cached_prefixes": True}})
    long = "The same beginning. " * 500
    async with batch_run(tmp_path, config_of(google, reasoning_effort="low")) as run:
        got = texts(await run.ask(*(f"{long}{name}" for name in QUESTIONS)))
    assert [text.startswith("An answer to: The same") for text in got] == [True] * len(QUESTIONS)
    ledger = rows(tmp_path, "ledger")
    assert sum(row["cached_tokens"] > 1024 for row in ledger) == len(QUESTIONS) - 1
    assert {row["reasoning_tokens"] for row in ledger} == {9}
    assert {(row["cached_usd_per_million"], row["input_usd_per_million"]) for row in ledger} == {(0.2, 1.0)}
    assert google.state()["bill"]["chat"]["calls"] == 0
    agree(tmp_path, google)


async def test_a_batch_asks_what_the_sdk_asks_in_real_time(tmp_path: Path, google: EndpointProcess) -> None:
    """The lines of a batch are written here, and the SDK writes requests in real time: they mean the same."""
    given: dict[str, Any] = {"stop": ["END"], "top_p": 0.9, "reasoning_effort": "low", "temperature": 0.5}
    for mode in ("batch", "realtime"):
        config = config_of(google, mode=mode, **given)
        async with batch_run(tmp_path / mode, config, reply_schema=reply_schema) as run:
            client = run.client if mode == "batch" else LlmClient(config, gateway_of(run), reply_schema=reply_schema)
            await client.complete("q0", "generate", "generate", ask("q0"), answer_type="money")
            await client.aclose()
    hashes = {entry["where"]: entry["request_hash"] for entry in google.received() if entry["request_hash"]}
    assert set(hashes) == {"batch_item", "chat"}
    assert len(set(hashes.values())) == 1


def gateway_of(run: BatchRun) -> Gateway:
    return Gateway(run.ledger, [LocalLimiter(run.client.config.limits)])


async def test_requests_that_fail_or_are_refused_in_a_batch_are_asked_again(
    tmp_path: Path, google: EndpointProcess
) -> None:
    fault = {"kind": "server_error", "where": "batch_item", "contains": "q1", "times": 1}
    google.change({"models": {MODEL: {"json_schemas": False}}, "faults": [fault]})
    async with batch_run(tmp_path, config_of(google), reply_schema=reply_schema) as run:
        got = await run.ask("q0", "q1", answer_type="money")
    assert [isinstance(one, Reply) for one in got] == [True, True], got
    assert [row[2] for row in attempts(tmp_path) if row[0] == "q0"] == ["failed", "ok"]
    assert [row[2] for row in attempts(tmp_path) if row[0] == "q1"] == ["failed", "failed", "ok"]
    agree(tmp_path, google)


@pytest.mark.parametrize("kind", ["reset", "bad_gateway"])
async def test_a_batch_whose_creation_gave_no_answer_is_found_by_its_name(
    tmp_path: Path, google: EndpointProcess, kind: str
) -> None:
    google.change({"faults": [{"kind": kind, "where": "batches", "contains": CREATE, "times": 1}]})
    async with batch_run(tmp_path, config_of(google)) as run:
        got = await run.ask(*QUESTIONS)
    assert all(isinstance(one, Reply) for one in got), got
    assert len(batches(google)) == 1
    agree(tmp_path, google)


def test_a_batch_that_nobody_recorded_is_adopted_after_a_kill(tmp_path: Path, google: EndpointProcess) -> None:
    """The endpoint makes the second batch and its answer never arrives; then ``kill -9``."""
    google.change({"faults": [{"kind": "hang", "where": "batches", "contains": CREATE, "attempts": [2]}]})
    command = [sys.executable, "-m", "tests.llm.batch.killed_run", str(tmp_path), google.google_url, MODEL]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    process = subprocess.Popen(command, cwd=CHECKOUT, env=environment)
    deadline = time.monotonic() + 180
    while len(batches(google)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert len(batches(google)) == 2
    assert len([row for row in rows(tmp_path, "journal") if row["kind"] == "batch"]) == 1
    google.change({"faults": []})
    assert subprocess.run(command, cwd=CHECKOUT, env=environment, timeout=180, check=False).returncode == 0
    assert len(batches(google)) == 2, "the same batches, not one more"
    assert google.state()["bill"]["batch"]["calls"] == 2 * KILLED_QUESTIONS
    assert len({row["query_id"] for row in rows(tmp_path, "answers")}) == KILLED_QUESTIONS
    assert {row["status"] for row in rows(tmp_path, "ledger")} == {"ok"}
    agree(tmp_path, google)


async def test_a_batch_that_goes_on_is_collected_by_the_next_start(tmp_path: Path, google: EndpointProcess) -> None:
    google.change({"batches": {"requests_per_s": 4.0}})
    await left_behind(tmp_path, google, lambda: "in_progress" in batches(google).values())
    async with batch_run(tmp_path, config_of(google)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    assert len(batches(google)) == 1
    agree(tmp_path, google)


async def test_the_deadline_cancels_and_what_the_batch_has_done_stays_held(
    tmp_path: Path, google: EndpointProcess
) -> None:
    """A cancelled batch shows no results, so its requests may have been billed: they are held, and asked again."""
    google.change({"batches": {"stop_after": 1}})
    await left_behind(tmp_path, google, lambda: google.state()["bill"]["batch"]["calls"] == 1)
    async with batch_run(tmp_path, config_of(google), until=datetime.now(UTC)) as run:
        got = await run.ask(*QUESTIONS)
    assert all(isinstance(one, Reply) for one in got), got
    assert list(batches(google).values()) == ["cancelled"]
    assert {row[2:4] for row in attempts(tmp_path)} == {("unknown", "batch"), ("ok", "realtime")}
    agree(tmp_path, google, unknown=True)


async def test_a_cancelled_batch_that_had_not_begun_costs_nothing(
    tmp_path: Path, google: EndpointProcess, pass_the_deadline: Callable[[], None]
) -> None:
    google.change({"batches": {"requests_per_s": 0}})
    async with batch_run(tmp_path, config_of(google), until=UNTIL) as run:
        asking = asyncio.create_task(run.ask(*QUESTIONS))
        while not batches(google):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)
        pass_the_deadline()
        got = await asking
    assert all(isinstance(one, Reply) for one in got), got
    assert {row[2:4] for row in attempts(tmp_path)} == {("failed", "batch"), ("ok", "realtime")}
    agree(tmp_path, google)


async def test_a_failed_batch_stops_the_run_with_googles_words(
    tmp_path: Path, google: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_tracker, "LISTED_AFTER_S", 0.2)
    google.change({"batches": {"max_requests": 2}})
    async with batch_run(tmp_path, config_of(google)) as run:
        got = await run.ask(*QUESTIONS)
    assert {type(one) for one in got} == {EndpointError}
    assert "exceeds the maximum of 2" in str(got[0])
    assert google.bill_usd == 0
    assert {row[2] for row in attempts(tmp_path)} == {"failed"}
