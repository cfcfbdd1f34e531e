"""A question's end that is told twice, or that its planner does not live to see: nothing is forgotten or paid again."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.ledger import RunLedger
from tests.llm.tools import a_call, paid, rows

END = {"query_id": "q", "question": "?", "status": "answered", "answer": "x"}


async def finished(run: Folder, dies: bool) -> RunLedger:
    """The ledger of a run whose one question has its end, or the one that takes over where it ``dies``."""
    ledger = RunLedger(run, 1.0)
    await ledger.intend(a_call(1))
    await ledger.settle(paid(a_call(1), 0.05))
    await ledger.finish(END)
    if not dies:
        return ledger
    ledger.abandon()
    return RunLedger(run, 1.0)


@pytest.mark.parametrize("dies", [False, True])
async def test_an_answers_row_that_is_sent_again_keeps_its_sums(tmp_path: Path, dies: bool) -> None:
    """Ray sends a message again whose answer was lost with the ledger's process."""
    ledger = await finished(Folder.of(tmp_path), dies)
    await ledger.finish(END)
    await ledger.close()
    (row,) = rows(tmp_path, "answers")
    assert (row["calls"], row["cost_usd"]) == (1, pytest.approx(0.05))


@pytest.mark.parametrize("dies", [False, True])
async def test_a_planner_that_takes_up_a_finished_question_is_told(tmp_path: Path, dies: bool) -> None:
    """Its journal is not kept any more, so that it would ask, and pay for, everything again."""
    ledger = await finished(Folder.of(tmp_path), dies)
    assert not await ledger.release("q")
    assert await ledger.release("another")
    await ledger.close()


async def test_one_that_is_asked_again_is_open_until_its_new_end(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    ledger = RunLedger(run, 1.0)
    await ledger.finish({**END, "status": "unanswerable"})
    await ledger.close()
    ledger = RunLedger(run, 1.0, reopened=frozenset({"q"}))
    assert await ledger.release("q")
    await ledger.finish(END)
    assert not await ledger.release("q")
    await ledger.close()
    (row,) = rows(tmp_path, "answers")
    assert row["status"] == "answered"
