from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import pytest

from okralong.pipelines.core.types import CallFailed, EndpointError, OverBudget, Reply, ReplyError
from okralong.pipelines.llm.batch_api import BatchItem
from okralong.pipelines.llm.batch_results import Answered, BatchAnswer
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import HALF, agree, attempts, batch_config, batch_run, texts
from tests.llm.tools import all_bytes, ask, rows

QUESTIONS = [f"q{number}" for number in range(12)]


async def test_requests_that_come_together_go_in_one_batch_at_half_price(
    tmp_path: Path, server: EndpointProcess
) -> None:
    async with batch_run(tmp_path, batch_config(server.base_url), cap_usd=1.0) as run:
        replies = await run.ask(*QUESTIONS)
        assert texts(replies) == [f"An answer to: {name}" for name in QUESTIONS]
        totals = await run.ledger.totals()
        assert (totals.reserved_usd, totals.unknown_usd) == (0.0, 0.0)
        assert all(isinstance(reply, Reply) and reply.cost_usd > 0 for reply in replies)
        assert await run.ask(*QUESTIONS) == replies, "and are replayed from the journal after that"
    state = server.state()
    assert len(state["batches"]) == 1
    assert (state["bill"]["batch"]["calls"], state["bill"]["chat"]["calls"]) == (12, 0)
    agree(tmp_path, server)
    (batch_id,) = state["batches"]
    ledger = rows(tmp_path, "ledger")
    assert {(row["mode"], row["wave"], row["batch_id"], row["attempt"]) for row in ledger} == {
        ("batch", 1, batch_id, 1)
    }
    assert {(row["input_usd_per_million"], row["output_usd_per_million"]) for row in ledger} == {(1.25, 5.0)}
    assert all(row["reserved_usd"] >= row["cost_usd"] and row["provider_request_id"] for row in ledger)
    assert b"sk-test-of-the-batches" not in all_bytes(tmp_path)


async def test_steps_advance_wave_by_wave(tmp_path: Path, server: EndpointProcess) -> None:
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        for step in ("step/1", "step/2", "generate"):
            assert len(texts(await run.ask("a", "b", "c", path=step))) == 3
    assert [(row["path"], row["wave"]) for row in sorted(rows(tmp_path, "ledger"), key=lambda row: row["wave"])] == [
        (step, wave) for wave, step in enumerate(("step/1", "step/2", "generate"), start=1) for _ in range(3)
    ]
    agree(tmp_path, server)


async def test_a_wave_is_no_larger_than_a_batch_may_be(tmp_path: Path, server: EndpointProcess) -> None:
    async with batch_run(tmp_path, batch_config(server.base_url, {"max_requests": 5})) as run:
        await run.ask(*QUESTIONS)
    assert [len([row for row in rows(tmp_path, "ledger") if row["wave"] == wave]) for wave in (1, 2, 3)] == [5, 5, 2]
    agree(tmp_path, server)


async def test_an_item_that_fails_goes_with_the_next_wave_then_alone(tmp_path: Path, server: EndpointProcess) -> None:
    fails = {"kind": "server_error", "where": "batch_item"}
    server.change({"faults": [{**fails, "contains": "once", "times": 1}, {**fails, "contains": "always"}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert texts(await run.ask("good", "once", "always")) == [
            "An answer to: good", "An answer to: once", "An answer to: always",
        ]  # fmt: skip
    always = [("always", wave, "failed", "batch", wave) for wave in (1, 2, 3)]
    assert attempts(tmp_path) == sorted([
        *always, ("always", 1, "ok", "realtime", 0), ("good", 1, "ok", "batch", 1),
        ("once", 1, "failed", "batch", 1), ("once", 2, "ok", "batch", 2),
    ])  # fmt: skip
    agree(tmp_path, server)


async def test_what_no_further_attempt_would_help_fails_its_question(tmp_path: Path, server: EndpointProcess) -> None:
    refuse = [{"kind": "context_length", "where": "batch_item", "contains": "long"}]
    server.change({"faults": [*refuse, {"kind": "refusal", "where": "batch_item", "contains": "rude"}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        good, long, rude = await run.ask("good", "long", "rude")
    assert isinstance(good, Reply)
    assert isinstance(long, CallFailed)
    assert "llm.window" in str(long)
    assert isinstance(rude, ReplyError)
    assert len(rows(tmp_path, "ledger")) == 3
    agree(tmp_path, server)


async def test_what_an_expired_batch_left_goes_with_the_next(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"window_s": 1.0, "requests_per_s": 6.0}})
    async with batch_run(tmp_path, batch_config(server.base_url, {"max_failures": 20})) as run:
        assert len([one for one in await run.ask(*QUESTIONS) if isinstance(one, Reply)]) == 12
    state = server.state()
    assert "expired" in state["batches"].values()
    assert state["bill"]["batch"]["calls"] == 12
    assert state["bill"]["chat"]["calls"] == 0
    assert {row["error"].split(":")[0] for row in rows(tmp_path, "ledger") if row["status"] == "failed"} == {
        "batch_expired"
    }
    agree(tmp_path, server)


async def test_a_batch_whose_bill_nobody_knows_is_held(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"faults": [{"kind": "bad_gateway", "where": "batch_item", "contains": "lost", "times": 1}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert texts(await run.ask("lost")) == ["An answer to: lost"]
    assert [row[2] for row in attempts(tmp_path)] == ["unknown", "ok"]
    agree(tmp_path, server, unknown=True)


async def test_no_room_for_so_many_tokens_makes_smaller_waves(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"enqueued_tokens": 60, "requests_per_s": 50.0}})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert len([one for one in await run.ask(*QUESTIONS) if isinstance(one, Reply)]) == 12
    state = server.state()
    assert next(iter(state["batches"].values())) == "failed"
    assert state["bill"]["chat"]["calls"] == 0
    agree(tmp_path, server)


async def test_a_known_limit_of_tokens_is_never_met(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"enqueued_tokens": 120, "requests_per_s": 50.0}})
    async with batch_run(tmp_path, batch_config(server.base_url, {"enqueued_tokens": 120})) as run:
        await run.ask(*QUESTIONS)
    state = server.state()
    assert set(state["batches"].values()) == {"completed"}
    assert len(state["batches"]) > 1
    agree(tmp_path, server)


async def test_a_model_that_takes_no_batches_stops_the_run_and_costs_nothing(
    tmp_path: Path, server: EndpointProcess
) -> None:
    config = batch_config(server.base_url, model="no-batch-model")
    async with batch_run(tmp_path, config) as run:
        for error in await run.ask(*QUESTIONS):
            assert isinstance(error, EndpointError)
            assert "--llm-mode realtime" in str(error)
            assert "model_not_found" in str(error)
    assert server.bill_usd == 0
    agree(tmp_path, server)


@pytest.mark.parametrize("where", ["files", "batches"])
async def test_a_revoked_key_stops_the_run(tmp_path: Path, server: EndpointProcess, where: str) -> None:
    server.change({"faults": [{"kind": "revoked_key", "where": where}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        for error in await run.ask(*QUESTIONS):
            assert isinstance(error, EndpointError)
            assert "OPENAI_API_KEY" in str(error)
            assert "sk-test" not in str(error)
        assert isinstance((await run.ask("another"))[0], EndpointError)
    agree(tmp_path, server)
    assert b"sk-test-of-the-batches" not in all_bytes(tmp_path)


async def test_a_quota_that_runs_out_within_a_batch_stops_the_run(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"faults": [{"kind": "insufficient_quota", "where": "batch_item", "contains": "q7"}]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        got = dict(zip(QUESTIONS, await run.ask(*QUESTIONS), strict=True))
    assert isinstance(got.pop("q7"), EndpointError)
    assert all(isinstance(one, Reply) for one in got.values())
    agree(tmp_path, server)


async def test_the_cap_holds_over_batches(tmp_path: Path, server: EndpointProcess) -> None:
    async with batch_run(tmp_path, batch_config(server.base_url), cap_usd=0.006) as run:
        for name in QUESTIONS:
            await run.ledger.admit(name, 0.0)
        got = await run.ask(*QUESTIONS)
    assert {type(one) for one in got} <= {Reply, OverBudget}
    assert any(isinstance(one, Reply) for one in got)
    assert server.bill_usd <= Decimal("0.006")
    agree(tmp_path, server)


async def test_who_asks_again_for_what_has_come_is_not_made_to_pay(
    tmp_path: Path, server: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a planner does whose scheduler, or which itself, died between the reply and its hearing of it."""
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        kept: list[BatchItem] = []
        ask_scheduler = run.scheduler.ask

        async def listening(item: BatchItem) -> BatchAnswer:
            kept.append(item)
            return await ask_scheduler(item)

        monkeypatch.setattr(run.scheduler, "ask", listening)
        (reply,) = await run.ask("q")
        again = await ask_scheduler(kept[0])
        assert isinstance(again, Answered)
        assert again.raw.reply == reply
        beside = await asyncio.gather(*(run.client.complete("r", "a", "generate", ask("r")) for _ in range(3)))
        assert beside[0] == beside[1] == beside[2], "and who asks for the same at once shares one attempt"
    assert server.state()["bill"]["batch"]["calls"] == 2
    agree(tmp_path, server)


async def test_a_batch_that_may_exist_is_looked_for_by_the_next_start(tmp_path: Path, server: EndpointProcess) -> None:
    lost = {"kind": "reset", "where": "batches", "contains": "POST", "times": 1}
    down = {"kind": "unavailable", "where": "batches", "contains": "GET /v1/batches"}
    server.change({"faults": [lost, down]})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        for error in await run.ask("a", "b"):
            assert isinstance(error, EndpointError)
            assert "Run the same command again" in str(error)
    server.change({"faults": []})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert texts(await run.ask("a", "b")) == ["An answer to: a", "An answer to: b"]
    assert len(server.state()["batches"]) == 1
    agree(tmp_path, server)


async def test_cached_tokens_of_a_batch_are_charged_as_its_price_says(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"batches": {"cached_prefixes": True}})
    price = HALF.model_copy(update={"batch_caches": True})
    long = "The board met and looked at the plans of the plant. " * 200
    async with batch_run(tmp_path, batch_config(server.base_url, price=price)) as run:
        await run.ask(*(f"{long}{number}" for number in range(4)))
    ledger = rows(tmp_path, "ledger")
    assert sorted(row["cached_tokens"] > 0 for row in ledger) == [False, True, True, True]
    assert {row["cached_usd_per_million"] for row in ledger} == {0.625}
    agree(tmp_path, server)
