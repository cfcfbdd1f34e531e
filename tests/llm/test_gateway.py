"""Two messages a call: what is durable when each is answered, what is given back, and messages that come twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import BrokenError, OverBudget, QuestionError
from okralong.pipelines.llm.frames import read_segment
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.ports import Steps
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import unsent
from tests.llm.tools import a_call, paid, rows, statuses

PLAN = JournalRow("q", "plan", "plan", "{}")
RETRIEVAL = JournalRow("q", "retrieve", "retrieval", "{}")


def gateway_over(run: Path, cap_usd: float | None = 1.0, limits: Limits | None = None) -> tuple[Gateway, LocalLimiter]:
    limiter = LocalLimiter(limits or Limits(None, 1000, max_in_flight=1))
    return Gateway(RunLedger(Folder.of(run), cap_usd), [limiter]), limiter


def kinds(run: Path) -> list[str]:
    return [row["kind"] for row in rows(run, "journal")]


async def test_the_steps_of_a_question_are_durable_with_its_first_intent_in_one_commit(tmp_path: Path) -> None:
    gateway, limiter = gateway_over(tmp_path)
    await gateway.ask(a_call(1), 10, 60, steps=Steps((RETRIEVAL, PLAN), 0.3))
    assert kinds(tmp_path) == ["retrieval", "plan", "request"]
    segment = read_segment(Folder.of(tmp_path).at("journal"), 1, "journal")
    assert segment is not None
    assert len(segment[1]) == 1
    assert (await gateway.ledger.totals()).reserved_usd == pytest.approx(0.3)
    assert limiter.in_flight == 1
    await gateway.came(paid(a_call(1), 0.05))
    assert limiter.in_flight == 0
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}
    await gateway.finish({"query_id": "q", "question": "?", "status": "answered", "answer": "x"}, [PLAN])
    assert kinds(tmp_path) == ["retrieval", "plan", "request", "reply"]
    assert await gateway.begin("q") is None
    await gateway.ledger.close()


async def test_messages_that_come_twice_count_once(tmp_path: Path) -> None:
    gateway, limiter = gateway_over(tmp_path)
    for _ in range(2):
        await asyncio.gather(*(gateway.ask(a_call(1), 10, 60, steps=Steps((PLAN,), 0.3)) for _ in range(2)))
    assert (limiter.in_flight, kinds(tmp_path)) == (1, ["plan", "request"])
    for _ in range(2):
        await gateway.came(paid(a_call(1), 0.05))
    await gateway.ask(a_call(1), 10, 60, steps=Steps((PLAN,), 0.3))  # comes late, after its own end
    assert kinds(tmp_path) == ["plan", "request", "reply"]
    assert (await gateway.ledger.totals()).settled_usd == pytest.approx(0.05)
    await gateway.ledger.close()
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}


async def test_a_gateway_that_is_started_anew_is_asked_again_and_told_the_outcome(tmp_path: Path) -> None:
    gateway, _ = gateway_over(tmp_path)
    await gateway.ask(a_call(1), 10, 60, steps=Steps((PLAN,), 0.3))
    gateway.ledger.abandon()  # killed: the call goes on, and so do those who ask
    gateway, limiter = gateway_over(tmp_path)
    assert (await gateway.ledger.totals()).unknown_usd == pytest.approx(0.1)
    await gateway.ask(a_call(1), 10, 60, steps=Steps((PLAN,), 0.3))  # its answer was lost
    await gateway.came(paid(a_call(1), 0.05))
    totals = await gateway.ledger.totals()
    assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.05, 0.0])
    assert (limiter.in_flight, kinds(tmp_path)) == (0, ["plan", "request", "reply"])
    await gateway.ledger.close()


async def test_what_cannot_be_sent_leaves_nothing_reserved_and_no_permit(tmp_path: Path) -> None:
    gateway, limiter = gateway_over(tmp_path)
    with pytest.raises(QuestionError, match="tokens_per_minute"):
        await gateway.ask(a_call(1), 2000, 60)
    with pytest.raises(OverBudget):
        await gateway.ask(a_call(2, usd=2.0), 10, 60, steps=Steps((PLAN,)))
    assert (await gateway.ledger.totals()).reserved_usd == 0
    assert limiter.in_flight == 0
    await gateway.finish({"query_id": "q", "question": "?", "status": "over_budget", "answer": ""})
    assert kinds(tmp_path) == ["plan"], "the plan is kept for the next try"
    await gateway.ledger.close()


@pytest.mark.parametrize("how", ["cancelled", "given up", "put down"])
async def test_a_wait_that_is_ended_gives_all_back(tmp_path: Path, how: str) -> None:
    gateway, limiter = gateway_over(tmp_path)
    await gateway.ask(a_call(1, "other"), 10, 60)
    waits = asyncio.create_task(gateway.ask(a_call(2), 10, 60))
    await asyncio.sleep(0.05)
    assert not waits.done()
    assert (await gateway.ledger.totals()).reserved_usd == pytest.approx(0.2)
    if how == "cancelled":
        waits.cancel()
    elif how == "given up":
        await gateway.came(unsent(a_call(2), "cancelled"), unsent=True)
    else:
        assert await gateway.begin("q") == []
    with pytest.raises(asyncio.CancelledError if how == "cancelled" else BrokenError):
        await waits
    await asyncio.sleep(0.01)
    assert (await gateway.ledger.totals()).reserved_usd == pytest.approx(0.1)
    await gateway.came(paid(a_call(1, "other"), 0.05))
    await asyncio.wait_for(gateway.ask(a_call(3), 10, 60), 60)  # the place is free
    assert limiter.in_flight == 1
    await gateway.ledger.close()


async def test_an_end_that_overtakes_its_beginning_leaves_no_permit_and_nothing_reserved(tmp_path: Path) -> None:
    gateway, limiter = gateway_over(tmp_path)
    await gateway.came(unsent(a_call(1), "cancelled"), unsent=True)
    with pytest.raises(BrokenError, match="was cancelled"):
        await gateway.ask(a_call(1), 10, 60)
    assert (limiter.in_flight, (await gateway.ledger.totals()).reserved_usd) == (0, 0)
    await gateway.came(unsent(a_call(1), "cancelled"), unsent=True)
    await gateway.begin(a_call(1).query_id)  # the question is taken up again
    await gateway.ask(a_call(1), 10, 60)
    assert limiter.in_flight == 1
    await gateway.came(paid(a_call(1), 0.05))
    await gateway.ledger.close()
