"""A disk that is full: nobody uses what is not durable, what has arrived is kept, and with room it goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import BrokenError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.frames import RESERVE, numbers
from okralong.pipelines.llm.journal import (
    LEAST_RESERVE,
    MOST_RESERVE,
    JournalRow,
    RunLog,
    read_run_table,
    reserve_bytes,
)
from okralong.pipelines.llm.ledger import RunLedger
from tests.disks import Ballast, mounted, no_room
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import a_call, ask, client_over, config_for, paid, rows, statuses

QUESTIONS = 100
IN_FLIGHT = 16


def half_written(folder: Path) -> list[Path]:
    return list(folder.rglob("*.partial"))


async def answers_of(client: LlmClient, questions: int = QUESTIONS) -> list[str]:
    """What a run gets of its questions: "ok", or how it had to stop."""

    async def one(number: int) -> str:
        try:
            await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}? {'long ' * 200}"))
        except BrokenError as error:
            return "stopped" if "Free space on its disk" in str(error) else str(error)
        return "ok"

    return await asyncio.gather(*map(one, range(questions)))


async def until_asked(server: FakeOpenAI, number: int) -> None:
    while len(server.received) < number:  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.002)


def asked_of(server: FakeOpenAI) -> Counter[str]:
    return Counter(one.messages[-1]["content"].split("?")[0] for one in server.received)


@pytest.mark.parametrize(
    ("what", "moment"), [("bytes", 1), ("bytes", 50), ("bytes", 90), ("inodes", 1), ("inodes", 50)]
)
async def test_replies_that_arrive_at_a_full_disk_are_kept_and_paid_once(
    tmp_path: Path, what: str, moment: int
) -> None:
    with mounted(tmp_path / "disk", "size=12m", "nr_inodes=64") as disk, FakeOpenAI(delay_s=0.05) as server:
        config = config_for(server, max_in_flight=IN_FLIGHT)
        run = disk / "run"
        async with client_over(run, config, 10.0) as (client, ledger):
            running = asyncio.create_task(answers_of(client))
            await until_asked(server, moment)
            with Ballast(disk, what == "inodes"):
                ended = await running
                sent = len(server.received)
                assert rows(run, "ledger"), "it can be read while the disk is full"
                with suppress(OSError):  # of a run that ended before it missed the room: the log cannot become Parquet
                    await ledger.close()
        if what == "bytes" and moment < QUESTIONS / 2:
            assert "stopped" in ended
            assert sent < QUESTIONS
        assert not half_written(run)
        assert {row["status"] for row in rows(run, "ledger")} <= {"ok", "failed"}, "none is unknown"
        replies = read_run_table(Folder.of(run), "journal").to_pylist()
        assert sum(row["kind"] == "reply" for row in replies) == sent
        async with client_over(run, config, 10.0) as (client, ledger):
            assert set(await answers_of(client)) == {"ok"}
            totals = await ledger.totals()
        assert max(asked_of(server).values()) == 1, "paid twice"
        assert len(server.received) == QUESTIONS
        assert (totals.settled_usd, totals.unknown_usd) == (pytest.approx(server.bill_usd), 0.0)
        assert not numbers(Folder.of(run).at("journal"))
        assert not (run / "journal" / RESERVE).exists()


async def test_without_room_for_the_reserve_a_run_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=600k") as disk:
        with pytest.raises(BrokenError, match=r"disk cannot be written, and has no space for .* to keep replies"):
            RunLedger(Folder.of(disk), 1.0)
        assert not list(disk.rglob(RESERVE))


async def test_what_the_reserve_cannot_hold_is_unknown_as_without_one(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=3m") as disk:
        ledger = RunLedger(Folder.of(disk), 1.0, reserve_bytes=64 * 1024)
        for number in (1, 2):
            await ledger.intend(a_call(number))
        with Ballast(disk):
            await ledger.record([JournalRow("q", "a", "found", "x" * 250_000)])  # more than is left of the segment
            await ledger.settle(paid(a_call(1), 0.05))
            await ledger.close()
        assert statuses(disk) == {"call-1": ("ok", 0.05), "call-2": ("unknown", 0.1)}


async def test_what_cannot_be_written_is_refused_and_is_written_once_there_is_room(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.record([JournalRow("q", "plan", "plan", "{}")])
    await ledger.intend(a_call(1))
    with no_room():
        with pytest.raises(OSError, match="File too large"):
            await ledger.settle(paid(a_call(1), 0.05))
        with pytest.raises(BrokenError, match="File too large"):
            await ledger.intend(a_call(2))
    assert not half_written(tmp_path)
    assert [row["kind"] for row in rows(tmp_path, "journal")] == ["plan", "request"]
    await ledger.record([JournalRow("q", "retrieve", "retrieval", "{}")])
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}
    await ledger.close()
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}


async def test_a_run_whose_disk_stays_full_counts_the_call_as_unknown_when_it_is_opened_again(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.intend(a_call(1))
    with no_room():
        with pytest.raises(OSError, match="File too large"):
            await ledger.settle(paid(a_call(1), 0.05))
        with pytest.raises(OSError, match="File too large"):
            await ledger.close()
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    totals = await ledger.totals()
    assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.0, 0.1])
    await ledger.close()


def test_a_killed_runs_reserve_is_adopted_and_a_copy_of_the_folder_reads_the_same(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    RunLog.open(run, reserve_bytes=LEAST_RESERVE)._held.close()  # killed
    assert (tmp_path / "journal" / RESERVE).stat().st_size == LEAST_RESERVE
    log = RunLog.open(run, reserve_bytes=2 * LEAST_RESERVE)
    assert (tmp_path / "journal" / RESERVE).stat().st_size == 2 * LEAST_RESERVE
    log.close()
    assert not (tmp_path / "journal" / RESERVE).exists()


def test_the_reserve_holds_the_replies_in_flight_within_bounds() -> None:
    assert reserve_bytes(1, 64) == LEAST_RESERVE
    assert 3_000_000 < reserve_bytes(64, 640) < 4_000_000
    assert reserve_bytes(10_000, 640) == MOST_RESERVE
