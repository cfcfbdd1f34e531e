"""The clocks of machine and endpoint are hours apart: batches are found all the same, and nobody waits for the gap."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from okralong.pipelines.core.types import Reply
from okralong.pipelines.llm import batch_tracker
from okralong.pipelines.llm.errors import retry_after
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.killed_run import QUESTIONS as KILLED_QUESTIONS
from tests.llm.batch.test_adopt import batches, left_behind, start
from tests.llm.batch.tools import agree, batch_config, batch_run
from tests.llm.tools import rows

HOURS = 3 * 3600.0
QUESTIONS = [f"q{number}" for number in range(8)]


@pytest.mark.parametrize("ahead_s", [-HOURS, HOURS])
def test_a_batch_that_nobody_recorded_is_adopted_whatever_the_clocks_say(
    tmp_path: Path, server: EndpointProcess, ahead_s: float
) -> None:
    hang = {"kind": "hang", "where": "batches", "contains": "POST /v1/batches", "attempts": [1]}
    server.change({"faults": [hang], "batches": {"clock_s": ahead_s}})
    process = start(tmp_path, server)
    deadline = time.monotonic() + 180
    while not batches(server) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert len(batches(server)) == 1
    server.change({"faults": []})
    began = time.monotonic()
    assert start(tmp_path, server).wait(300) == 0
    assert time.monotonic() - began < 300, "and not hours"
    assert len(batches(server)) == 2, "one of the splits and one of the answers"
    assert server.state()["bill"]["batch"]["calls"] == 2 * KILLED_QUESTIONS
    agree(tmp_path, server)


@pytest.mark.parametrize("ahead_s", [-HOURS, HOURS])
async def test_the_user_is_told_once_that_the_clocks_differ(
    tmp_path: Path, server: EndpointProcess, ahead_s: float
) -> None:
    server.change({"batches": {"clock_s": ahead_s}})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        await run.ask("a")
        await run.ask("b")
        told = [note for note in await run.scheduler.notes(0) if "clock" in note]
    assert len(told) == 1
    assert f"180 minutes {'behind' if ahead_s > 0 else 'ahead of'}" in told[0]
    assert all(0 <= row["queue_s"] < 60 and 0 <= row["latency_s"] < 60 for row in rows(tmp_path, "ledger"))


async def test_clocks_that_agree_are_not_spoken_of(tmp_path: Path, server: EndpointProcess) -> None:
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        await run.ask("a")
        assert not [note for note in await run.scheduler.notes(0) if "clock" in note]


async def test_a_clock_that_is_set_back_makes_no_rerun_wait(
    tmp_path: Path, server: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intents are three hours in the future by the clock of the rerun, and no batch was made for them."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(time.time() + HOURS, UTC)

    server.change({"faults": [{"kind": "hang", "where": "files", "billed": False, "times": 1}]})
    with monkeypatch.context() as clock:
        clock.setattr(batch_tracker, "datetime", Ahead)
        await left_behind(tmp_path, server, lambda: bool(server.received("files")), *QUESTIONS)
    monkeypatch.setattr(batch_tracker, "LISTED_AFTER_S", 0.2)
    began = time.monotonic()
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = await run.ask(*QUESTIONS)
        assert all(isinstance(one, Reply) for one in got), got
        assert any("read again in" in note for note in await run.scheduler.notes(0)), "the wait is not silent"
    assert time.monotonic() - began < 300, "and not hours"
    agree(tmp_path, server)


async def test_a_batch_behind_many_others_is_found(tmp_path: Path, server: EndpointProcess) -> None:
    hang = {"kind": "hang", "where": "batches", "contains": "POST /v1/batches", "times": 1}
    server.change({"faults": [hang], "batches": {"requests_per_s": 0.0}})
    await left_behind(tmp_path / "one", server, lambda: bool(batches(server)), "first")
    other = batch_config(server.base_url, {"max_requests": 1, "quiet_s": 0.05})
    names = [f"other{number}" for number in range(130)]
    await left_behind(
        tmp_path / "two", server, lambda: len(batches(server)) > 120, *names, run_id="run-2", config=other
    )
    made = len(batches(server))
    server.change({"faults": [], "batches": {"requests_per_s": 10_000.0}})
    async with batch_run(tmp_path / "one", batch_config(server.base_url)) as run:
        assert isinstance((await run.ask("first"))[0], Reply)
    assert len(batches(server)) == made, "it stands on the second page of the list"


def test_a_time_to_wait_until_is_read_by_the_clock_of_who_names_it() -> None:
    headers = {"date": "Fri, 27 Nov 2026 12:00:00 GMT", "retry-after": "Fri, 27 Nov 2026 12:00:07 GMT"}
    assert retry_after(headers) == 7.0
