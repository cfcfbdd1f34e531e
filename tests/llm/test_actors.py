"""The gateway and a cluster's limiter as Ray actors: one for all processes, with errors as they were raised."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from okralong.actors.llm import (
    GatewayActor,
    LimiterPlace,
    Message,
    RayLimiter,
    Replies,
    gateway_client,
    ledger_client,
    limiter_place,
    start_gateway,
    start_limiter,
)
from okralong.pipelines.core.types import OverBudget, QuestionError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.records import unsent
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import a_call, ask, config_for, paid, rows

pytestmark = pytest.mark.slow


async def ask_all(gateway: Any, config: Any, names: list[str]) -> list[str]:
    client = LlmClient(config, gateway_client(gateway))
    try:
        replies = await asyncio.gather(*(client.complete(name, "a", "generate", ask(name)) for name in names))
    finally:
        await client.aclose()
    return [reply.text for reply in replies]


def ask_in_a_worker(gateway: Any, config: Any, names: list[str]) -> list[str]:
    return asyncio.run(ask_all(gateway, config, names))


async def test_workers_share_one_budget_one_journal_and_one_limiter(ray_cluster: None, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        config = config_for(server, requests_per_minute=600)
        gateway = start_gateway(str(tmp_path), 1.0, limiters=[limiter_place(config, shared=False)])
        remote: Any = ray.remote(num_cpus=0)(ask_in_a_worker)
        work = [[f"q{n}" for n in range(20)], [f"q{n}" for n in range(20, 40)]]
        answers = await asyncio.gather(*(remote.remote(gateway, config, names) for names in work))
        assert sum(len(texts) for texts in answers) == 40
        times = [one.at for one in server.received]
        assert max(times) - min(times) > 1.5  # forty at ten a second, but for the first second's credit
        assert await ask_all(gateway, config, work[0]) == answers[0]
        assert len(server.received) == 40
        ledger = ledger_client(gateway)
        totals = await ledger.totals()
        assert totals.settled_usd == pytest.approx(server.bill_usd, abs=1e-12)
        await ledger.close()
        ray.kill(gateway)
    assert len(rows(tmp_path, "ledger")) == 40


async def test_two_runs_of_a_cluster_share_the_limiter_of_an_endpoint(ray_cluster: None, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        config = config_for(server, requests_per_minute=600)
        places = [limiter_place(config, shared=True) for _ in range(2)]
        assert places[0] == places[1]
        gateways = [start_gateway(str(tmp_path / f"{n}"), 1.0, limiters=[places[n]]) for n in range(2)]
        names = [f"q{n}" for n in range(20)]
        await asyncio.gather(*(ask_all(gateway, config, names) for gateway in gateways))
        times = [one.at for one in server.received]
        assert len(times) == 40
        assert max(times) - min(times) > 1.5
        for actor in (*gateways, start_limiter(config)):
            ray.kill(actor)


async def test_errors_arrive_as_they_were_raised(ray_cluster: None, tmp_path: Path) -> None:
    gateway = start_gateway(str(tmp_path), 0.01, frozenset({"q"}), [LimiterPlace(Limits(None, 1000), "m")])
    ledger = ledger_client(gateway)
    with pytest.raises(OverBudget) as refused:
        await ledger.admit("q", 0.02)
    assert type(refused.value) is OverBudget
    assert "Traceback" not in str(refused.value)
    await ledger.admit("stopped", 0.009)
    await ledger.release("stopped")
    asked = gateway_client(gateway)
    for waits in (asked.acquire(0, 2000, 10), asked.ask(a_call(1, usd=0.001), 2000, 10)):
        with pytest.raises(QuestionError, match="tokens_per_minute"):
            await waits
    await ledger.reserve(("call", 1), "other", 0.009)
    assert (await ledger.totals()).reserved_usd == pytest.approx(0.009)
    with pytest.raises(OverBudget):
        await asked.ask(a_call(2, usd=0.02), 20, 10)
    ray.kill(gateway)


def test_the_limiter_of_an_embedded_model_is_its_runs_own(ray_cluster: None) -> None:
    embedded = LlmConfig(max_in_flight=1)
    assert limiter_place(embedded, shared=True) == LimiterPlace(embedded.limits, embedded.model)


class _Counted(GatewayActor):
    """The gateway's actor, which counts the messages that reach it."""

    posts = 0

    async def post(self, sender: str, life: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        self.posts += 1
        return await super().post(sender, life, messages, waiting)

    async def seen(self) -> tuple[int, int]:
        return self.posts, self._gateway.limiters[0].in_flight  # type: ignore[attr-defined]


async def _use(actor: Any, first: int, callers: int) -> None:
    gateway = gateway_client(actor)

    async def one(number: int) -> None:
        call = a_call(number, query_id=f"q-{number}")
        await gateway.ask(call, 10, 60)
        await asyncio.sleep(0.01)
        await gateway.came(paid(call, 0.0))

    async def gone(number: int) -> None:
        call = a_call(number, query_id=f"q-{number}")
        try:
            await gateway.ask(call, 10, 60)
        finally:
            await asyncio.shield(gateway.came(unsent(call, "cancelled"), unsent=True))

    cancelled = [asyncio.create_task(gone(first + callers + number)) for number in range(callers // 5)]
    tasks = [asyncio.create_task(one(first + number)) for number in range(callers)]
    await asyncio.sleep(0.01)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*tasks)
    await asyncio.gather(*cancelled, return_exceptions=True)


def _use_in_a_worker(actor: Any, first: int, callers: int) -> None:
    asyncio.run(_use(actor, first, callers))


async def test_a_thousand_callers_of_two_processes_share_their_messages(ray_cluster: None, tmp_path: Path) -> None:
    remote: Any = ray.remote(_Counted)
    limits = [LimiterPlace(Limits(None, None, max_in_flight=200), "m")]
    actor = remote.options(num_cpus=0, max_concurrency=100).remote(str(tmp_path), None, frozenset(), limits)
    worker: Any = ray.remote(num_cpus=0)(_use_in_a_worker)
    await asyncio.gather(*(worker.remote(actor, first, 500) for first in (0, 1000)))
    messages, held = await actor.seen.remote()
    assert messages < 400  # one by one it would be two thousand
    assert held == 0
    await ledger_client(actor).close()
    ray.kill(actor)
    assert sum(row["status"] == "ok" for row in rows(tmp_path, "ledger")) == 1000


class _WithPid(GatewayActor):
    async def pid(self) -> int:
        return os.getpid()


async def test_a_gateway_whose_process_is_killed_comes_back_with_what_was_durable(
    ray_cluster: None, tmp_path: Path
) -> None:
    with FakeOpenAI() as server:
        config = config_for(server, max_in_flight=1)
        remote: Any = ray.remote(_WithPid)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "max_concurrency": 100}
        places = [limiter_place(config, shared=False)]
        actor = remote.options(**options).remote(str(tmp_path), 1.0, frozenset(), places)
        first = await ask_all(actor, config, ["q1", "q2"])
        pid = await actor.pid.remote()
        gateway = gateway_client(actor)
        held = a_call(1, usd=0.01)
        await gateway.ask(held, 10, 60)
        waits = asyncio.create_task(gateway.ask(a_call(2, usd=0.01), 10, 60))  # for the only place
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        assert (await asyncio.wait_for(waits, 60)).queue_s >= 0  # what its predecessor was told it is told again
        await gateway.came(paid(held, 0.01))
        await gateway.came(paid(a_call(2, usd=0.01), 0.0))
        assert await ask_all(actor, config, ["q1", "q2"]) == first
        assert await actor.pid.remote() != pid
        assert len(server.received) == 2
        totals = await ledger_client(actor).totals()
        assert (totals.settled_usd, totals.unknown_usd) == pytest.approx((server.bill_usd + 0.01, 0.0), abs=1e-12)
        ray.kill(actor)


async def test_the_limiter_of_a_cluster_serves_blocks_of_callers(ray_cluster: None) -> None:
    limiter = start_limiter(LlmConfig(base_url="http://127.0.0.1:9/v1", model="fake-model", max_in_flight=2))
    asking = RayLimiter(limiter)
    permits = [await asyncio.wait_for(asking.acquire(10, 60), 60) for _ in range(2)]
    third = asyncio.create_task(asking.acquire(10, 60))
    await asyncio.sleep(0.2)
    assert not third.done()
    await asking.release(permits[0])
    assert await asyncio.wait_for(third, 60) not in permits
    ray.kill(limiter)
