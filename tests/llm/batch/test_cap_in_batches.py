"""The cap in batch mode: few waves near it, few lines until limits are kept, and lines that the results leave out."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from okralong.pipelines.core.types import OverBudget, Reply
from okralong.pipelines.llm.budget import FIRST_LINES, LINES_PER_REPLY
from okralong.pipelines.llm.config import CompletionLimits, LlmConfig
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import BatchRun, agree, attempts, batch_config, batch_run
from tests.llm.tools import ask, rows

QUESTIONS = [f"q{number:02}" for number in range(40)]
LIMIT = 200
RESERVE = LIMIT * 5.0 / 1e6
"""US dollars of a reply of ``LIMIT`` tokens in a batch, beside which the prompts are small."""


def config(server: EndpointProcess, **batch: float) -> LlmConfig:
    return batch_config(server.base_url, batch, max_completion_tokens=CompletionLimits(generate=LIMIT))


async def one(run: BatchRun, query_id: str, admit_usd: float) -> Reply | OverBudget:
    """A question as a planner answers it: admitted for its plan, asked, finished."""
    try:
        await run.ledger.admit(query_id, admit_usd)
        reply = await run.client.complete(query_id, "generate", "generate", ask(query_id))
    except OverBudget as error:
        await run.ledger.release(query_id)
        return error
    await run.ledger.finish({"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text})
    return reply


async def all_of(run: BatchRun, admit_usd: float) -> list[Reply | OverBudget]:
    return await asyncio.gather(*(one(run, name, admit_usd) for name in QUESTIONS))


def sizes(run: Path) -> list[int]:
    waves = [row["wave"] for row in rows(run, "ledger") if row["wave"]]
    return [waves.count(wave) for wave in sorted(set(waves))]


@pytest.mark.parametrize("admit_usd", [0.0, 2.1 * RESERVE])
async def test_near_the_cap_three_batches_ask_what_fits(
    tmp_path: Path, server: EndpointProcess, admit_usd: float
) -> None:
    cap = 20 * max(admit_usd, 1.05 * RESERVE)
    async with batch_run(tmp_path, config(server), cap_usd=cap) as run:
        got = await all_of(run, admit_usd)
    assert len(server.state()["batches"]) <= 3, sizes(tmp_path)
    answered = [each for each in got if isinstance(each, Reply)]
    assert len(answered) >= 35, sizes(tmp_path)
    assert all("--deadline" in str(each) for each in got if isinstance(each, OverBudget))
    assert server.state()["bill"]["chat"]["calls"] == 0
    assert float(server.bill_usd) <= cap
    agree(tmp_path, server)


async def test_with_a_deadline_the_rest_is_asked_in_real_time(tmp_path: Path, server: EndpointProcess) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    cap = 6 * 1.05 * RESERVE
    async with batch_run(tmp_path, config(server, quiet_s=1.0), cap_usd=cap, until=until) as run:
        got = await all_of(run, 0.0)
    assert len(server.state()["batches"]) <= 3, sizes(tmp_path)
    assert server.state()["bill"]["chat"]["calls"] > 10
    assert sum(isinstance(each, Reply) for each in got) >= 35
    assert float(server.bill_usd) <= cap
    agree(tmp_path, server)


@pytest.mark.parametrize("times", [10.0, 40.0])
async def test_a_limit_that_is_ignored_passes_the_cap_by_the_excess_of_the_first_lines_at_most(
    tmp_path: Path, server: EndpointProcess, times: float
) -> None:
    server.change({"batches": {"overlong": times}})
    cap = 20 * 1.05 * RESERVE
    async with batch_run(tmp_path, config(server), cap_usd=cap) as run:
        got = await all_of(run, 0.0)
    paid = [row for row in rows(tmp_path, "ledger") if row["status"] == "ok"]
    excess = max(row["cost_usd"] - row["reserved_usd"] for row in paid)
    assert float(server.bill_usd) <= cap + FIRST_LINES * excess
    assert sizes(tmp_path)[0] == FIRST_LINES
    assert all("the limit of 200 tokens was ignored" in row["error"] for row in paid)
    assert any(isinstance(each, OverBudget) for each in got)
    agree(tmp_path, server)


async def test_a_limit_that_is_ignored_later_passes_it_by_the_excess_of_the_lines_under_way_at_most(
    tmp_path: Path, server: EndpointProcess
) -> None:
    cap = 20 * 1.05 * RESERVE
    async with batch_run(tmp_path, config(server), cap_usd=cap) as run:
        await asyncio.gather(*(one(run, f"early{number}", 0.0) for number in range(FIRST_LINES)))
        server.change({"batches": {"overlong": 10.0}})
        await all_of(run, 0.0)
    paid = [row for row in rows(tmp_path, "ledger") if row["status"] == "ok"]
    excess = max(row["cost_usd"] - row["reserved_usd"] for row in paid)
    second = sizes(tmp_path)[1]
    assert second <= LINES_PER_REPLY * FIRST_LINES
    assert float(server.bill_usd) <= cap + second * excess
    assert sum(sizes(tmp_path)[2:]) == 0, "nothing more is sent"
    agree(tmp_path, server)


async def test_an_ample_cap_makes_no_batch_smaller(tmp_path: Path, server: EndpointProcess) -> None:
    async with batch_run(tmp_path, config(server), cap_usd=100.0) as run:
        got = await all_of(run, 2.1 * RESERVE)
    assert sizes(tmp_path) == [40]
    assert all(isinstance(each, Reply) for each in got)


async def test_few_lines_at_first_are_no_lack_of_budget(tmp_path: Path, server: EndpointProcess) -> None:
    cap = 200 * RESERVE
    names = [f"many{number:03}" for number in range(80)]
    async with batch_run(tmp_path, config(server), cap_usd=cap) as run:
        for start in range(0, 80, 16):
            got = await asyncio.gather(*(one(run, name, 0.0) for name in names[start : start + 16]))
            assert all(isinstance(each, Reply) for each in got), got
    assert sizes(tmp_path) == [4, 12, 16, 16, 16, 16]


async def test_lines_that_were_billed_and_left_out_are_held(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"omit_every": 4}})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = await run.ask("a", "b", "c", "d")
        assert all(isinstance(each, Reply) for each in got)
    assert sorted(row[2] for row in attempts(tmp_path)) == ["ok"] * 4 + ["unknown"]
    assert server.state()["bill"]["batch"]["calls"] == 5
    agree(tmp_path, server, unknown=True)
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert (await run.ledger.totals()).unknown_usd > 0, "and held by the next start as well"
