from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, OverBudget, Usage
from okralong.pipelines.llm.frames import read_segment
from okralong.pipelines.llm.journal import JournalRow, RunLog
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import Call, unknown
from tests.llm.tools import a_call, paid, rows, statuses


async def test_many_calls_share_a_commit(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    await asyncio.gather(*(ledger.intend(a_call(n)) for n in range(200)))
    segment = read_segment(Folder.of(tmp_path).at("journal"), 1, "journal")
    assert segment is not None
    assert len(segment[1]) <= 3
    assert len(rows(tmp_path, "journal")) == 200
    await ledger.close()


async def test_an_answers_row_goes_with_the_next_commit_that_is_needed_or_by_itself(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    row = {"question": "?", "status": "answered", "answer": "12.5"}
    ended = asyncio.create_task(ledger.finish({"query_id": "q-1", **row}))
    await asyncio.sleep(0)
    await ledger.intend(a_call(1, query_id="q-2"))
    assert await ended is not None
    segments = [read_segment(Folder.of(tmp_path).at("journal"), 1, table) for table in ("answers", "journal")]
    assert [len(found[1]) for found in segments if found] == [1, 1]
    payload = (tmp_path / "journal" / "log-000000001.frames").read_bytes()
    assert await ledger.finish({"query_id": "q-2", **row}) is not None
    assert (tmp_path / "journal" / "log-000000001.frames").read_bytes() != payload
    assert [found["query_id"] for found in rows(tmp_path, "answers")] == ["q-1", "q-2"]
    await ledger.close()


async def test_a_watch_that_fails_stops_no_call_and_loses_no_reply(tmp_path: Path) -> None:
    class Failing:
        def intended(self, call: Call) -> None:
            raise KeyError(call.call_id)

        settled = finished = intended

        def close(self) -> None:
            raise OSError

    ledger = RunLedger(Folder.of(tmp_path), 1.0, watches=[Failing()])
    await ledger.intend(a_call(1))
    await ledger.settle(paid(a_call(1), 0.05))
    assert await ledger.reply("q", "generate", 1) is not None
    assert await ledger.finish({"query_id": "q", "question": "?", "status": "answered", "answer": "1"}) is not None
    await ledger.close()
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}


async def test_after_a_crash_an_intent_is_unknown_and_a_reply_is_paid(
    tmp_path: Path,
) -> None:
    run = Folder.of(tmp_path)
    ledger = RunLedger(run, 10.0)
    for number in range(3):
        await ledger.intend(a_call(number))
    await ledger.settle(paid(a_call(0), 0.05))
    await ledger.settle(paid(a_call(1), 0.04))
    ledger.abandon()
    RunLog.open(run).close()
    (part,) = run.at("ledger").names(".parquet")  # as if the process had died between the journal's file and this one
    run.at("ledger").write_table(part, run.at("ledger").read_table(part).slice(0, 1))

    for _ in range(2):  # the second start finds everything settled
        ledger = RunLedger(run, 10.0)
        totals = await ledger.totals()
        assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.09, 0.1])
        assert totals.calls == 2
        assert totals.usage == Usage(20, 4, 6)
        await ledger.close()
    assert statuses(tmp_path) == {"call-0": ("ok", 0.05), "call-1": ("ok", 0.04), "call-2": ("unknown", 0.1)}
    assert rows(tmp_path, "ledger")[1]["tags"] == [("team", "night")]

    ledger = RunLedger(run, 10.0)
    await ledger.settle(paid(a_call(2), 0.02))  # its sender lived on, and now tells
    await ledger.settle(paid(a_call(2), 0.02))  # twice
    totals = await ledger.totals()
    assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.11, 0.0])
    await ledger.close()
    assert statuses(tmp_path)["call-2"] == ("ok", 0.02)


async def test_a_message_that_comes_twice_counts_once(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.intend(a_call(1, usd=0.6))
    await ledger.intend(a_call(1, usd=0.6))
    assert (await ledger.totals()).reserved_usd == pytest.approx(0.6)
    assert len(rows(tmp_path, "journal")) == 1
    await ledger.settle(unknown(a_call(1, usd=0.6), "reset"))
    await ledger.close()
    assert statuses(tmp_path) == {"call-1": ("unknown", 0.6)}


async def test_a_question_that_cannot_fit_is_refused_and_one_that_may_fit_later_waits(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    with pytest.raises(OverBudget, match="Raise budget_usd"):
        await ledger.admit("big", 1.5)
    await ledger.admit("a", 0.9)
    waiting = asyncio.create_task(ledger.admit("b", 0.5))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await ledger.finish({"query_id": "a", "question": "?", "status": "answered", "answer": "x"})
    await asyncio.wait_for(waiting, 60)
    await ledger.close()


async def test_two_questions_that_wait_for_each_other_do_not_wait_for_ever(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)

    await asyncio.gather(ledger.admit("a", 0.4), ledger.admit("b", 0.4))

    async def greedy(name: str) -> str:
        try:
            await ledger.intend(a_call(1 if name == "a" else 2, name, 0.7))
        except OverBudget:
            await ledger.finish({"query_id": name, "question": "?", "status": "over_budget", "answer": ""})
            return "refused"
        await ledger.settle(paid(a_call(1 if name == "a" else 2, name, 0.7), 0.3))
        await ledger.finish({"query_id": name, "question": "?", "status": "answered", "answer": "x"})
        return "answered"

    ends = await asyncio.wait_for(asyncio.gather(greedy("a"), greedy("b")), 60)
    assert sorted(ends) == ["answered", "refused"]
    assert (await ledger.answered()) == dict(
        zip(["a", "b"], [{"refused": "over_budget"}.get(e, e) for e in ends], strict=True)
    )
    await ledger.close()


async def test_an_answers_row_takes_its_sums_from_the_ledger_also_across_a_restart(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    ledger = RunLedger(run, None)
    await ledger.intend(a_call(1))
    await ledger.settle(paid(a_call(1), 0.05))
    await ledger.record([JournalRow("q", "plan", "plan", "{}"), JournalRow("other", "plan", "plan", "{}")])
    await ledger.close()

    ledger = RunLedger(run, None)
    assert {(row.path, row.sample, row.kind) for row in await ledger.lookup("q")} == {
        ("generate", 1, "reply"),
        ("plan", 0, "plan"),
    }
    await ledger.intend(a_call(2))
    await ledger.settle(paid(a_call(2), 0.03))
    await ledger.intend(a_call(3))
    await ledger.finish({"query_id": "q", "question": "?", "status": "answered", "answer": "x"})
    await ledger.fail("doc", "read", "DocumentError", "broken")
    assert await ledger.lookup("q") == []
    await ledger.close()
    (answer,) = rows(tmp_path, "answers")
    assert (answer["calls"], answer["prompt_tokens"], answer["weighted_tokens"]) == (2, 20, 20 + 4 * 6)
    assert answer["cost_usd"] == pytest.approx(0.08)
    assert statuses(tmp_path)["call-3"] == ("unknown", 0.1)

    ledger = RunLedger(run, None)
    totals = await ledger.totals()
    assert (totals.questions, totals.failures, totals.calls) == ({"answered": 1}, 1, 2)
    assert await ledger.lookup("q") == []
    assert len(await ledger.lookup("other")) == 1
    await ledger.close()


async def test_a_question_that_met_the_cap_keeps_its_journal_for_the_next_try(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), None)
    await ledger.record([JournalRow("q", "plan", "plan", '"old"'), JournalRow("q", "plan", "plan", '"new"')])
    await ledger.finish({"query_id": "q", "question": "?", "status": "over_budget", "answer": ""})
    await ledger.close()
    ledger = RunLedger(Folder.of(tmp_path), None)
    assert [row.body for row in await ledger.lookup("q")] == ['"new"']
    await ledger.finish({"query_id": "q", "question": "?", "status": "answered", "answer": "x"})
    await ledger.close()
    assert [row["status"] for row in rows(tmp_path, "answers")] == ["answered"]


async def test_a_failed_attempt_costs_nothing_and_a_closed_run_takes_no_more(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 0.1)
    for attempt in (1, 2):
        call = a_call(1, attempt=attempt)
        await ledger.intend(call)
        await ledger.settle(replace(unknown(call, "503", 503), status="failed", cost_usd=0.0))
    assert (await ledger.totals()).settled_usd == 0
    await ledger.close()
    with pytest.raises(ArchiveError, match="closed"):
        await ledger.record([JournalRow("q", "p", "plan", "{}")])
    assert [(row["attempt"], row["status"]) for row in rows(tmp_path, "ledger")] == [(1, "failed"), (2, "failed")]
