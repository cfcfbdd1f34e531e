"""A question that stops without an end: what it held is free, what it had in flight is unknown, who waited goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OverBudget
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from tests.llm.tools import a_call, paid, rows, statuses


async def test_a_released_question_frees_its_reserve_and_wakes_who_waits(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.release("never heard of")
    await ledger.admit("a", 0.9)
    waiting = asyncio.create_task(ledger.admit("b", 0.5))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await ledger.release("a")
    await asyncio.wait_for(waiting, 60)
    assert (await ledger.totals()).reserved_usd == pytest.approx(0.5)
    assert await ledger.answered() == {}
    await ledger.close()


async def test_what_a_dead_planner_left_does_not_hold_up_the_next(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.admit("a", 0.5)
    await ledger.admit("b", 0.2)
    await ledger.reserve(a_call(1, "a", 0.05).key, "a", 0.05)  # was in the limiter's queue
    await ledger.intend(a_call(2, "a", 0.1))  # was sent
    lost = asyncio.create_task(ledger.reserve(a_call(3, "a", 0.9).key, "a", 0.9))  # waited for room
    await asyncio.sleep(0.02)
    await ledger.release("a")  # the question is taken up again
    assert statuses(tmp_path) == {"call-2": ("unknown", 0.1)}
    totals = await ledger.totals()
    assert [totals.reserved_usd, totals.unknown_usd] == pytest.approx([0.2, 0.1])
    with pytest.raises(OverBudget, match="ended while it waited"):
        await asyncio.wait_for(lost, 60)
    await asyncio.wait_for(ledger.admit("a", 0.5), 60)
    with pytest.raises(OverBudget):  # all that is left waits here, so it is refused and does not wait for ever
        await asyncio.wait_for(asyncio.gather(ledger.admit("a", 0.8), ledger.admit("b", 0.8)), 60)
    await ledger.settle(paid(a_call(2, "a", 0.1), 0.04))  # its sender lived on after all
    await ledger.close()
    assert statuses(tmp_path) == {"call-2": ("ok", 0.04)}
    assert [row["kind"] for row in rows(tmp_path, "journal")] == ["request", "reply"]


async def test_a_reserve_alone_is_not_remembered_and_an_intent_takes_it_again(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.reserve(a_call(1).key, "q", 0.1)
    ledger.abandon()  # the ledger's process dies while its client waits for the limiter
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    assert (await ledger.totals()).unknown_usd == 0
    await ledger.intend(a_call(1))
    await ledger.intend(a_call(1))
    assert (await ledger.totals()).reserved_usd == pytest.approx(0.1)
    assert len(rows(tmp_path, "journal")) == 1
    await ledger.close()


async def test_a_row_that_cannot_be_written_fails_its_own_question_only(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    await ledger.record([JournalRow("a\ud83d", "p", "plan", '"\ud83d"')])
    ends = await asyncio.gather(
        ledger.record([JournalRow("b", "p", "plan", "{}")]),
        ledger.finish({"query_id": "c", "status": "answered", "citations": 7}),
        ledger.finish({"query_id": "d", "status": "answered", "answer": "x"}),
        return_exceptions=True,
    )
    assert [type(end) for end in ends] == [type(None), ValueError, dict]
    await ledger.record([JournalRow("e", "p", "plan", "{}")])
    await ledger.close()
    assert [row["query_id"] for row in rows(tmp_path, "journal")] == ["a?", "b", "e"]
    assert [row["query_id"] for row in rows(tmp_path, "answers")] == ["d"]
