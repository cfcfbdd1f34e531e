"""A question that has an end and is asked again: nothing that was paid is forgotten, no bad reply is replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from tests.llm.tools import a_call, paid, rows, statuses

AGAIN = frozenset({"q"})


async def ended(run: Folder, status: str) -> None:
    """A run whose one question has a plan and a reply of $0.05, and ended so."""
    ledger = RunLedger(run, 1.0)
    await ledger.record([JournalRow("q", "plan", "plan", "{}")])
    await ledger.intend(a_call(1))
    await ledger.settle(paid(a_call(1), 0.05))
    await ledger.finish({"query_id": "q", "question": "?", "status": status, "answer": ""})
    await ledger.close()


async def known(ledger: RunLedger) -> list[tuple[str, int]]:
    return [(row.kind, row.sample) for row in await ledger.lookup("q")]


@pytest.mark.parametrize("status", ["failed", "unanswerable"])
async def test_the_reply_that_led_to_a_bad_end_is_asked_for_anew_and_its_cost_stays(
    tmp_path: Path, status: str
) -> None:
    run = Folder.of(tmp_path)
    await ended(run, status)
    ledger = RunLedger(run, 1.0, reopened=AGAIN)
    assert await known(ledger) == [("plan", 0)]
    assert await ledger.reply("q", "generate", 1) is None
    await ledger.intend(a_call(2))
    await ledger.settle(paid(a_call(2), 0.03))
    await ledger.intend(a_call(3))
    ledger.abandon()  # killed; the same command is run again

    ledger = RunLedger(run, 1.0, reopened=AGAIN)
    assert await known(ledger) == [("plan", 0), ("reply", 2)]
    totals = await ledger.totals()
    assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.08, 0.1])
    await ledger.finish({"query_id": "q", "question": "?", "status": "answered", "answer": "x"})
    await ledger.close()
    (answer,) = rows(tmp_path, "answers")
    assert (answer["status"], answer["calls"]) == ("answered", 2)
    assert answer["cost_usd"] == pytest.approx(0.08)
    assert statuses(tmp_path)["call-3"] == ("unknown", 0.1)


@pytest.mark.parametrize("reopened", [frozenset(), AGAIN])
async def test_what_a_killed_retry_had_in_flight_is_held_also_when_nobody_asks_again(
    tmp_path: Path, reopened: frozenset[str]
) -> None:
    run = Folder.of(tmp_path)
    await ended(run, "unanswerable")
    ledger = RunLedger(run, 1.0, reopened=AGAIN)
    await ledger.intend(a_call(2))
    ledger.abandon()
    for _ in range(2):
        ledger = RunLedger(run, 1.0, reopened=reopened)
        totals = await ledger.totals()
        assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.05, 0.1])
        assert await known(ledger) == ([("plan", 0)] if reopened else [])
        await ledger.close()


@pytest.mark.parametrize("status", ["answered", "over_budget"])
async def test_good_replies_are_replayed_when_a_question_is_reopened(tmp_path: Path, status: str) -> None:
    run = Folder.of(tmp_path)
    await ended(run, status)
    ledger = RunLedger(run, 1.0, reopened=AGAIN)
    assert await known(ledger) == [("plan", 0), ("reply", 1)]
    await ledger.close()
