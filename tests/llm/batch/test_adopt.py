"""A run that ends before its batches: whatever it was doing, the next start collects them and pays nothing twice."""

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

from okralong.pipelines.core.types import Reply
from okralong.pipelines.llm import batch_tracker
from okralong.pipelines.llm.config import LlmConfig
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.conftest import UNTIL
from tests.llm.batch.killed_run import QUESTIONS as KILLED_QUESTIONS
from tests.llm.batch.tools import agree, attempts, batch_config, batch_run
from tests.llm.tools import rows

QUESTIONS = [f"q{number}" for number in range(8)]


def start(run: Path, server: EndpointProcess) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.llm.batch.killed_run", str(run), server.base_url],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110 - of another process, which sets no event here
            await asyncio.sleep(0.02)


async def left_behind(
    run: Path,
    server: EndpointProcess,
    holds: Callable[[], bool],
    *names: str,
    run_id: str = "run-1",
    config: LlmConfig | None = None,
) -> None:
    """Start a run and end it, as a stop does, at the moment when ``holds``."""
    async with batch_run(run, config or batch_config(server.base_url), run_id=run_id) as begun:
        asking = asyncio.create_task(begun.ask(*names))
        await wait_until(holds)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


def batches(server: EndpointProcess) -> dict[str, str]:
    found: dict[str, str] = server.state()["batches"]
    return found


@pytest.mark.parametrize("created", [1, 2])
def test_a_batch_that_nobody_recorded_is_adopted_after_a_kill(
    tmp_path: Path, server: EndpointProcess, created: int
) -> None:
    """The endpoint makes the batch and its answer never arrives; then ``kill -9``."""
    # Creating is the only POST there: 1 is the wave of the splits, and 2 that of the answers.
    hang = {"kind": "hang", "where": "batches", "contains": "POST /v1/batches"}
    server.change({"faults": [{**hang, "attempts": [created]}]})
    process = start(tmp_path, server)
    deadline = time.monotonic() + 180
    while len(batches(server)) < created and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert len(batches(server)) == created
    named = [row for row in rows(tmp_path, "journal") if row["kind"] == "batch"]
    assert len(named) == created - 1, "it was killed between creating and recording"
    server.change({"faults": []})
    assert start(tmp_path, server).wait(300) == 0
    assert len(batches(server)) == 2, "the same batches, not one more"
    assert server.state()["bill"]["batch"]["calls"] == 2 * KILLED_QUESTIONS
    assert len({row["query_id"] for row in rows(tmp_path, "answers")}) == KILLED_QUESTIONS
    assert {row["status"] for row in rows(tmp_path, "ledger")} == {"ok"}
    agree(tmp_path, server)


async def test_a_batch_that_goes_on_is_collected_by_the_next_start(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"requests_per_s": 4.0}})
    await left_behind(tmp_path, server, lambda: "in_progress" in batches(server).values(), *QUESTIONS)
    assert {row[2] for row in attempts(tmp_path)} == {"unknown"}
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert (await run.ledger.totals()).unknown_usd > 0, "and held until then"
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
        assert (await run.ledger.totals()).unknown_usd == 0
    assert len(batches(server)) == 1
    agree(tmp_path, server)


async def test_two_runs_never_adopt_each_others(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"requests_per_s": 4.0}})
    await left_behind(tmp_path / "one", server, lambda: "in_progress" in batches(server).values(), *QUESTIONS)
    async with batch_run(tmp_path / "two", batch_config(server.base_url), run_id="run-2") as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    assert len(batches(server)) == 2
    async with batch_run(tmp_path / "one", batch_config(server.base_url)) as run:
        await run.ask(*QUESTIONS)
    assert len(batches(server)) == 2
    paid = sum(row["cost_usd"] for folder in ("one", "two") for row in rows(tmp_path / folder, "ledger"))
    assert paid == pytest.approx(float(server.bill_usd), abs=1e-12)


async def test_what_nobody_asks_for_any_more_is_settled_as_billed(tmp_path: Path, server: EndpointProcess) -> None:
    await left_behind(tmp_path, server, lambda: "completed" in batches(server).values(), *QUESTIONS)
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        await run.ask("another")
        await run.scheduler.drain()
    assert [row[2] for row in attempts(tmp_path)] == ["ok"] * 9
    agree(tmp_path, server)


async def test_a_run_that_goes_on_in_real_time_fetches_what_is_done_and_cancels_the_rest(
    tmp_path: Path, server: EndpointProcess
) -> None:
    server.change({"batches": {"stop_after": 2}})
    await left_behind(tmp_path, server, lambda: server.state()["bill"]["batch"]["calls"] == 2, *QUESTIONS)
    async with batch_run(tmp_path, batch_config(server.base_url), until=datetime.now(UTC)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    bill = server.state()["bill"]
    assert list(batches(server).values()) == ["cancelled"]
    assert (bill["batch"]["calls"], bill["chat"]["calls"]) == (2, len(QUESTIONS) - 2)
    agree(tmp_path, server)


async def test_a_wave_that_never_became_a_batch_is_asked_again(
    tmp_path: Path, server: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_tracker, "LISTED_AFTER_S", 0.2)
    server.change({"faults": [{"kind": "hang", "where": "files", "billed": False, "times": 1}]})
    await left_behind(tmp_path, server, lambda: bool(server.received("files")), *QUESTIONS)
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    assert [row[1:3] for row in attempts(tmp_path)] == [(1, "failed"), (2, "ok")] * len(QUESTIONS)
    agree(tmp_path, server)


@pytest.mark.parametrize("kind", ["reset", "truncated_body", "malformed_json", "bad_gateway"])
async def test_a_batch_whose_creation_gave_no_answer_is_found_in_the_list(
    tmp_path: Path, server: EndpointProcess, kind: str
) -> None:
    lost: dict[str, Any] = {"kind": kind, "where": "batches", "contains": "POST", "times": 1}
    server.change({"faults": [lost]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    assert len(batches(server)) == 1
    agree(tmp_path, server)


@pytest.mark.parametrize("where", ["files", "batches"])
async def test_an_endpoint_that_errs_now_and_then_is_asked_again(
    tmp_path: Path, server: EndpointProcess, where: str
) -> None:
    server.change({"faults": [{"kind": "unavailable", "where": where, "at": [1, 3]}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
    assert len(batches(server)) == 1
    agree(tmp_path, server)


async def test_the_deadline_cancels_and_the_rest_is_asked_in_real_time(
    tmp_path: Path, server: EndpointProcess, pass_the_deadline: Callable[[], None]
) -> None:
    server.change({"batches": {"stop_after": 3, "cancelling_s": 0.3}})
    async with batch_run(tmp_path, batch_config(server.base_url), until=UNTIL) as run:
        asking = asyncio.create_task(run.ask(*QUESTIONS))
        await wait_until(lambda: server.state()["bill"]["batch"]["calls"] == 3)
        pass_the_deadline()
        got = await asking
        assert all(isinstance(one, Reply) for one in got), got
        assert all(isinstance(one, Reply) for one in await run.ask("later", "latest"))
        notes = await run.scheduler.notes(0)
    bill = server.state()["bill"]
    assert list(batches(server).values()) == ["cancelled"]
    assert (bill["batch"]["calls"], bill["chat"]["calls"]) == (3, len(QUESTIONS) - 3 + 2)
    assert any("deadline" in note for note in notes)
    agree(tmp_path, server)
