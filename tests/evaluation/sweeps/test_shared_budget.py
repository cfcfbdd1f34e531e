"""One budget over many cells: grants and what was spent never pass it together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from okralong.lab.sweeps.budget import SharedBudget, spent_before, spent_usd
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import Call, Outcome
from tests.evaluation.sweeps.invented_run import attempt, usual_run, write_run


def test_what_is_free_is_shared_and_what_is_left_comes_back() -> None:
    budget = SharedBudget(10.0, {})
    assert budget.grant("a", 2) == 5.0
    assert budget.grant("b", 1) == 5.0
    assert budget.free_usd == 0.0
    budget.settle("a", 1.0)
    assert budget.free_usd == pytest.approx(4.0)
    assert budget.grant("c", 1) == pytest.approx(4.0)
    budget.settle("b", 5.0)
    budget.settle("c", 4.0)
    assert budget.free_usd == 0.0


def test_a_cell_that_goes_on_keeps_what_it_has_spent() -> None:
    budget = SharedBudget(10.0, {"a": 3.0, "b": 2.0})
    assert budget.free_usd == 5.0
    assert budget.grant("a", 1) == 8.0, "a cap counts what the run has spent before"
    assert budget.free_usd == 0.0
    budget.settle("a", 7.5)
    assert budget.free_usd == pytest.approx(0.5)


def test_more_than_the_total_is_never_granted() -> None:
    budget = SharedBudget(1.0, {"a": 1.5})
    assert budget.free_usd == 0.0
    assert budget.grant("b", 1) == 0.0


def test_without_a_cap_there_is_none() -> None:
    budget = SharedBudget(None, {"a": 1.5})
    assert (budget.free_usd, budget.grant("a", 3)) == (None, None)


def test_what_a_folder_has_spent_counts_unknown_attempts_too(tmp_path: Path) -> None:
    lost = write_run(tmp_path / "lost", [], [attempt("sales", 1, "unknown", 0.5), attempt("sales", 2, "failed", 0.0)])
    spent = spent_before({"usual": usual_run(tmp_path / "usual"), "lost": lost})
    assert spent == {"usual": pytest.approx(0.0007), "lost": 0.5}


async def test_what_was_in_flight_when_a_run_was_killed_is_not_dealt_out_again(tmp_path: Path) -> None:
    run = Folder.of(tmp_path / "run")
    ledger = RunLedger(run, 10.0)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    call = Call("a", 1, "q", "generate", 0, "generate", "m", "hash", 2.5, 1.25, 10.0, 0.25, 0.0, at)
    await ledger.intend(call)
    paid = replace(call, call_id="b", request_hash="other")
    await ledger.intend(paid)
    await ledger.settle(Outcome(paid, "ok", 200, Usage(10, 0, 1), 0.05, 1.0, reply="{}"))
    ledger.abandon()  # as a kill does: its lock goes, and no row is written any more
    assert spent_usd(run) == pytest.approx(0.30)
    assert len(read_run_table(run, "ledger")) == 1
    assert SharedBudget(1.0, spent_before({"a": run})).free_usd == pytest.approx(0.70)
    await RunLedger(run, 1.0).close()
    assert len(read_run_table(run, "ledger")) == 2
    assert spent_usd(run) == pytest.approx(0.30), "the row that is written then is the same money"
