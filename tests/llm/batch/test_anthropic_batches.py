"""Message batches through the official SDK: collected once, found again without metadata, billed exactly."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from okralong.pipelines.core.types import Reply
from okralong.pipelines.llm.providers import anthropic as adapter
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.conftest import UNTIL
from tests.llm.batch.tools import agree, attempts, batch_run, texts
from tests.llm.provider_run import CALLS, CLAUDE, SCHEMA
from tests.llm.provider_run import claude_batches as batch_config
from tests.llm.tools import rows

CREATE = "POST /anthropic/v1/messages/batches"
MODEL, RATES = CLAUDE.model, CLAUDE.rates
QUESTIONS = [f"q{number}" for number in range(6)]


@pytest.fixture
def claude(server: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    server.reset({"models": {MODEL: {"rates": RATES}}})
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-of-the-batches-0123456789")
    return server


def ids(server: EndpointProcess) -> list[str]:
    return list(server.state()["batches"])


async def test_a_batch_costs_half_and_each_request_is_paid_once(tmp_path: Path, claude: EndpointProcess) -> None:
    claude.reset({"models": {MODEL: {"rates": RATES, "thought": 7}}})
    async with batch_run(tmp_path, batch_config(claude.anthropic_url)) as run:
        got = await run.ask(*QUESTIONS)
    assert texts(got) == [f"An answer to: {each}" for each in QUESTIONS]
    ledger = rows(tmp_path, "ledger")
    assert {(row["mode"], row["status"], row["service_tier"]) for row in ledger} == {("batch", "ok", "batch")}
    assert {(row["output_usd_per_million"], row["reasoning_tokens"]) for row in ledger} == {(2.5, 7)}
    assert {row["batch_id"] for row in ledger} == set(ids(claude))
    names = {entry["custom_id"] for entry in claude.received("batch_item")}
    assert all(re.fullmatch(r"[0-9a-f]{32}-1-[0-9a-f]{12}", name) for name in names)
    agree(tmp_path, claude)


async def test_what_failed_or_expired_goes_into_the_next_batch(tmp_path: Path, claude: EndpointProcess) -> None:
    claude.change({"faults": [{"kind": "server_error", "where": "batch_item", "contains": "q1", "times": 1}]})
    async with batch_run(tmp_path, batch_config(claude.anthropic_url)) as run:
        got = await run.ask(*QUESTIONS)
        assert texts(got) == [f"An answer to: {each}" for each in QUESTIONS]
        claude.change({"batches": {"requests_per_s": 0.0, "window_s": 0.3}})
        asking = asyncio.create_task(run.ask("late"))
        while "expired" not in claude.state()["batches"].values():  # noqa: ASYNC110 - another process sets no event
            await asyncio.sleep(0.02)
        claude.change({"batches": {"requests_per_s": 1000.0, "window_s": 60.0}})
        assert texts(await asking) == ["An answer to: late"]
    found = attempts(tmp_path)
    assert [row[:3] for row in found if row[0] == "q1"] == [("q1", 1, "failed"), ("q1", 2, "ok")]
    assert [row[:3] for row in found if row[0] == "late"][:1] == [("late", 1, "failed")]
    agree(tmp_path, claude)


async def test_after_the_deadline_batches_are_cancelled_and_the_rest_is_asked(
    tmp_path: Path, claude: EndpointProcess, pass_the_deadline: Callable[[], None]
) -> None:
    claude.change({"batches": {"stop_after": 2}})
    async with batch_run(tmp_path, batch_config(claude.anthropic_url), until=UNTIL) as run:
        asking = asyncio.create_task(run.ask(*QUESTIONS))
        while claude.state()["bill"]["batch"]["calls"] < 2:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)
        pass_the_deadline()
        got = await asking
        assert texts(got) == [f"An answer to: {each}" for each in QUESTIONS]
    modes = {row["mode"] for row in rows(tmp_path, "ledger") if row["status"] == "ok"}
    assert modes == {"batch", "realtime"}
    agree(tmp_path, claude)


async def test_a_refused_schema_is_left_out_of_the_next_batch(tmp_path: Path, claude: EndpointProcess) -> None:
    claude.reset({"models": {MODEL: {"rates": RATES, "json_schemas": False}}})
    schema = {"reply_schema": lambda _: json.dumps(SCHEMA)}
    async with batch_run(tmp_path, batch_config(claude.anthropic_url), **schema) as run:
        got = await run.ask(*QUESTIONS, answer_type="text")
    assert texts(got) == [f"An answer to: {each}" for each in QUESTIONS]
    assert {row[1:3] for row in attempts(tmp_path)} == {(1, "failed"), (2, "ok")}
    agree(tmp_path, claude)


def test_after_a_kill_a_batch_that_nobody_recorded_is_found_again(tmp_path: Path, claude: EndpointProcess) -> None:
    claude.change({"faults": [{"kind": "hang", "where": "batches", "contains": CREATE, "times": 1}]})
    command = [
        sys.executable,
        "-m",
        "tests.llm.provider_run",
        "anthropic",
        str(tmp_path),
        claude.anthropic_url,
        "batch",
    ]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    killed = subprocess.Popen(command, env=environment, cwd=CHECKOUT)
    deadline = time.monotonic() + 180
    while not ids(claude) and time.monotonic() < deadline:
        assert killed.poll() is None
        time.sleep(0.02)
    killed.kill()
    killed.wait()
    assert [row for row in rows(tmp_path, "journal") if row["kind"] == "batch"] == []
    assert subprocess.run(command, env=environment, cwd=CHECKOUT, check=False).returncode == 0
    assert len(ids(claude)) == 1, "the same batch, not one more"
    assert claude.state()["bill"]["batch"]["calls"] == CALLS
    assert {row["status"] for row in rows(tmp_path, "ledger")} == {"ok"}
    agree(tmp_path, claude)


async def test_a_batch_under_way_that_nobody_recorded_is_waited_for(tmp_path: Path, claude: EndpointProcess) -> None:
    claude.change({"faults": [{"kind": "hang", "where": "batches", "contains": CREATE, "times": 1}]})
    claude.change({"batches": {"requests_per_s": 0.0}})
    async with batch_run(tmp_path, batch_config(claude.anthropic_url)) as begun:
        asking = asyncio.create_task(begun.ask(*QUESTIONS))
        while not ids(claude):  # noqa: ASYNC110 - of another process, which sets no event here
            await asyncio.sleep(0.02)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
    async with batch_run(tmp_path, batch_config(claude.anthropic_url)) as run:
        asking = asyncio.create_task(run.ask(*QUESTIONS))
        while "it is waited for" not in " ".join(await run.scheduler.notes(0)):  # noqa: ASYNC110 - notes set no event
            await asyncio.sleep(0.05)
        assert claude.state()["bill"]["batch"]["calls"] == 0
        claude.change({"batches": {"requests_per_s": 1000.0}})
        assert texts(await asking) == [f"An answer to: {each}" for each in QUESTIONS]
    assert len(ids(claude)) == 1
    agree(tmp_path, claude)


async def test_a_batch_that_is_not_created_waits_for_no_other_of_its_size(
    tmp_path: Path, claude: EndpointProcess
) -> None:
    claude.change({"batches": {"requests_per_s": 0.0}})
    async with batch_run(tmp_path, batch_config(claude.anthropic_url)) as run, asyncio.timeout(180):
        first = asyncio.create_task(run.ask(*QUESTIONS))
        while not ids(claude):  # noqa: ASYNC110 - of another process, which sets no event here
            await asyncio.sleep(0.02)
        claude.change({"faults": [{"kind": "server_error", "where": "batches", "contains": CREATE, "times": 1}]})
        second = asyncio.create_task(run.ask(*(f"later {each}" for each in QUESTIONS)))
        while len(ids(claude)) < 2:  # noqa: ASYNC110 - of another process, which sets no event here
            await asyncio.sleep(0.02)
        claude.change({"batches": {"requests_per_s": 1000.0}})
        assert texts(await first) == [f"An answer to: {each}" for each in QUESTIONS]
        assert texts(await second) == [f"An answer to: later {each}" for each in QUESTIONS]
    agree(tmp_path, claude)


async def test_two_runs_of_the_same_questions_never_take_each_others_batches(
    tmp_path: Path, claude: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "PAGE", 1)
    claude.change({"faults": [{"kind": "hang", "where": "batches", "contains": CREATE, "times": 2}]})
    for number in (1, 2):
        config = batch_config(claude.anthropic_url)
        async with batch_run(tmp_path / str(number), config, run_id=f"run-{number}") as begun:
            asking = asyncio.create_task(begun.ask(*QUESTIONS))
            while len(ids(claude)) < number:  # noqa: ASYNC110 - of another process, which sets no event here
                await asyncio.sleep(0.02)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
    of_run = {}
    for number in (1, 2):
        config = batch_config(claude.anthropic_url)
        async with batch_run(tmp_path / str(number), config, run_id=f"run-{number}") as run:
            got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
        of_run[number] = {row["batch_id"] for row in rows(tmp_path / str(number), "ledger")}
    assert [of_run[1], of_run[2]] == [{each} for each in ids(claude)]
    paid = sum(row["cost_usd"] for number in of_run for row in rows(tmp_path / str(number), "ledger"))
    assert paid == pytest.approx(float(claude.bill_usd), abs=1e-12)


async def test_the_cap_holds_in_batches(tmp_path: Path, claude: EndpointProcess) -> None:
    cap = 0.002
    async with batch_run(tmp_path, batch_config(claude.anthropic_url), cap_usd=cap) as run:
        await run.ask(*(f"q{number}" for number in range(30)))
    assert 0 < float(claude.bill_usd) <= cap
    agree(tmp_path, claude)
