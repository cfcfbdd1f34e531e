"""The ledger and the limiter as Ray actors: one for all processes, with errors that arrive as they were raised."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from okralong.actors.cluster import NAMESPACE
from okralong.actors.llm import (
    LedgerActor,
    LimiterActor,
    RayLedger,
    RayLimiter,
    limiter_name,
    start_ledger,
    start_limiter,
)
from okralong.pipelines.core.types import OverBudget, QuestionError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.rate_limit import Ask, Limits, Notice, Returned, Taken
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import ask, config_for, rows

pytestmark = pytest.mark.slow


async def ask_all(handles: tuple[Any, Any], config: Any, names: list[str]) -> list[str]:
    client = LlmClient(config, RayLedger(handles[0]), RayLimiter(handles[1]))
    try:
        replies = await asyncio.gather(*(client.complete(name, "a", "generate", ask(name)) for name in names))
    finally:
        await client.aclose()
    return [reply.text for reply in replies]


def ask_in_a_worker(handles: tuple[Any, Any], config: Any, names: list[str]) -> list[str]:
    return asyncio.run(ask_all(handles, config, names))


async def test_workers_share_one_budget_one_journal_and_one_limiter(ray_cluster: None, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        config = config_for(server, requests_per_minute=600)
        handles = (start_ledger(str(tmp_path), 1.0), start_limiter(config, "tests"))
        assert start_limiter(config, "tests") == handles[1]
        remote: Any = ray.remote(num_cpus=0)(ask_in_a_worker)
        work = [[f"q{n}" for n in range(20)], [f"q{n}" for n in range(20, 40)]]
        answers = await asyncio.gather(*(remote.remote(handles, config, names) for names in work))
        assert sum(len(texts) for texts in answers) == 40
        times = [one.at for one in server.received]
        assert max(times) - min(times) > 1.5  # forty at ten a second, but for the first second's credit
        assert await ask_all(handles, config, work[0]) == answers[0]
        assert len(server.received) == 40
        ledger = RayLedger(handles[0])
        totals = await ledger.totals()
        assert totals.settled_usd == pytest.approx(server.bill_usd, abs=1e-12)
        await ledger.close()
        for actor in handles:
            ray.kill(actor)
    assert len(rows(tmp_path, "ledger")) == 40


async def test_errors_arrive_as_they_were_raised(ray_cluster: None, tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        config = config_for(server, tokens_per_minute=1000)
        ledger, limiter = start_ledger(str(tmp_path), 0.01, frozenset({"q"})), start_limiter(config, "tests")
        with pytest.raises(OverBudget) as refused:
            await RayLedger(ledger).admit("q", 0.02)
        assert type(refused.value) is OverBudget
        assert "Traceback" not in str(refused.value)
        await RayLedger(ledger).admit("stopped", 0.009)
        await RayLedger(ledger).release("stopped")
        await RayLedger(ledger).reserve(("call", 1), "other", 0.009)
        assert (await RayLedger(ledger).totals()).reserved_usd == pytest.approx(0.009)
        with pytest.raises(QuestionError, match="tokens_per_minute"):
            await RayLimiter(limiter).acquire(2000, 10)
        for actor in (ledger, limiter):
            ray.kill(actor)


async def test_an_embedded_model_has_a_limiter_for_each_job_and_an_endpoint_one_for_all(ray_cluster: None) -> None:
    embedded, endpoint = LlmConfig(max_in_flight=1), LlmConfig(base_url="http://127.0.0.1:9/v1", model="fake-model")
    limiters = [start_limiter(embedded, job) for job in ("first", "second")]
    named = [ray.get_actor(limiter_name(embedded, job), NAMESPACE) for job in ("first", "second")]
    assert named == limiters
    assert limiters[0] != limiters[1]
    for limiter in named:  # neither waits for the other's only place
        assert (await asyncio.wait_for(RayLimiter(limiter).acquire(10, 600), 60)).lease
    assert limiter_name(endpoint, "first") == limiter_name(endpoint, "second")
    for limiter in limiters:
        ray.kill(limiter)


class _Counted(LimiterActor):
    """The limiter's actor, which counts the messages that reach it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._messages = 0

    async def take(self, asks: Sequence[Ask]) -> Taken:
        self._messages += 1
        return await super().take(asks)

    async def put_back(self, returned: Sequence[Returned]) -> None:
        self._messages += 1
        await super().put_back(returned)

    async def seen(self) -> tuple[int, int]:
        return self._messages, self.in_flight


async def _use(limiter: RayLimiter, callers: int) -> None:
    async def one() -> None:
        grant = await limiter.acquire(10, 60)
        try:
            await asyncio.sleep(0.01)
        finally:
            await limiter.release(grant.lease, Notice(taken=True))

    gone = [asyncio.create_task(one()) for _ in range(callers // 5)]
    tasks = [asyncio.create_task(one()) for _ in range(callers)]
    await asyncio.sleep(0.01)
    for task in gone:
        task.cancel()
    await asyncio.gather(*tasks)


def _use_in_a_worker(actor: Any, callers: int) -> None:
    asyncio.run(_use(RayLimiter(actor), callers))


async def test_a_thousand_callers_of_two_processes_share_their_messages(ray_cluster: None) -> None:
    remote: Any = ray.remote(_Counted)
    actor = remote.options(num_cpus=0, max_concurrency=100).remote(Limits(None, None, max_in_flight=200))
    worker: Any = ray.remote(num_cpus=0)(_use_in_a_worker)
    await asyncio.gather(*(worker.remote(actor, 500) for _ in range(2)))
    messages, held = await actor.seen.remote()
    assert messages < 400  # one by one it would be two thousand
    assert held == 0
    ray.kill(actor)


class _WithPid(LedgerActor):
    async def pid(self) -> int:
        return os.getpid()


async def test_a_ledger_whose_process_is_killed_comes_back_with_what_was_durable(
    ray_cluster: None, tmp_path: Path
) -> None:
    with FakeOpenAI() as server:
        config = config_for(server)
        remote: Any = ray.remote(_WithPid)
        actor = remote.options(num_cpus=0, max_restarts=-1, max_task_retries=-1, max_concurrency=100).remote(
            str(tmp_path), 1.0
        )
        limiter = start_limiter(config, "tests")
        first = await ask_all((actor, limiter), config, ["q1", "q2"])
        pid = await actor.pid.remote()
        os.kill(pid, signal.SIGKILL)
        assert await ask_all((actor, limiter), config, ["q1", "q2"]) == first
        assert await actor.pid.remote() != pid
        assert len(server.received) == 2
        assert (await RayLedger(actor).totals()).settled_usd == pytest.approx(server.bill_usd, abs=1e-12)
        for one in (actor, limiter):
            ray.kill(one)
