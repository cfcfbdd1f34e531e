"""The gateway and a cluster's limiter as Ray actors: one for all processes, with errors as they were raised."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import ray

from okralong.actors.gateway import (
    GatewayActor,
    GatewayClient,
    LedgerClient,
    LimiterPlace,
    RayLimiter,
    limiter_place,
    start_gateway,
    start_limiter,
)
from okralong.actors.messages import Address, Message, Replies
from okralong.pipelines.core.types import OverBudget, QuestionError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.ports import Steps
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.records import unsent
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import a_call, ask, config_for, paid, rows

pytestmark = pytest.mark.slow


async def ask_all(gateway: Any, config: Any, names: list[str]) -> list[str]:
    client = LlmClient(config, GatewayClient(gateway))
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
        ledger = LedgerClient(gateway)
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
    ledger, asked = LedgerClient(gateway), GatewayClient(gateway)
    with pytest.raises(OverBudget) as refused:
        await asked.record("q", Steps(admit_usd=0.02))
    assert type(refused.value) is OverBudget
    assert "Traceback" not in str(refused.value)
    await asked.record("stopped", Steps(admit_usd=0.009))
    await asked.release("stopped")
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

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        self.posts += 1
        return await super().post(sender, incarnation, messages, waiting)

    async def seen(self) -> tuple[int, int]:
        return self.posts, self._gateway.limiters[0].in_flight  # type: ignore[attr-defined]


async def _use(actor: Any, first: int, callers: int) -> None:
    gateway = GatewayClient(actor)

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
    await LedgerClient(actor).close()
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
        gateway = GatewayClient(actor)
        held = a_call(1, usd=0.01)
        await gateway.ask(held, 10, 60)
        # For the only place, in two exchanges: the second may not name the first, which is then on its way.
        waits = []
        for number in (2, 3):
            waits.append(asyncio.create_task(gateway.ask(a_call(number, usd=0.01), 10, 60)))
            await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        # What its predecessor was told it is told again; one of the two has the place then.
        first_in, _ = await asyncio.wait_for(asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED), 60)
        await gateway.came(paid(held, 0.01))
        for number in sorted((2, 3), key=lambda number: waits[number - 2] not in first_in):
            assert (await asyncio.wait_for(waits[number - 2], 60)).queue_s >= 0
            await gateway.came(paid(a_call(number, usd=0.01), 0.0))
        assert await ask_all(actor, config, ["q1", "q2"]) == first
        assert await actor.pid.remote() != pid
        assert len(server.received) == 2
        totals = await LedgerClient(actor).totals()
        assert (totals.settled_usd, totals.unknown_usd) == pytest.approx((server.bill_usd + 0.01, 0.0), abs=1e-12)
        ray.kill(actor)


class _BothWays(GatewayActor):
    """The gateway's actor, which counts exchanges by the way they came."""

    by_ray = by_socket = 0

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        self.by_ray += 1
        return await super().post(sender, incarnation, messages, waiting)

    async def address(self) -> Address | None:
        return await self._inbox.address(self._post_by_socket)

    async def _post_by_socket(self, *arguments: Any) -> Replies:
        self.by_socket += 1
        return await super().post(*arguments)

    async def ways(self) -> tuple[int, int]:
        return self.by_ray, self.by_socket


def _both_ways(run: Path, max_in_flight: int) -> Any:
    remote: Any = ray.remote(_BothWays)
    places = [LimiterPlace(Limits(None, None, max_in_flight=max_in_flight), "m")]
    return remote.options(num_cpus=0, max_concurrency=100).remote(str(run), 1.0, frozenset(), places)


async def _reached(gateway: Any, actor: Any) -> None:
    """Until an exchange has gone by the socket."""
    for _ in range(200):
        await gateway.give_back(0, await gateway.acquire(0, 10, 60))
        if (await actor.ways.remote())[1]:
            return
    raise AssertionError("every exchange went by Ray")


async def test_after_the_first_messages_of_a_node_go_by_the_gateways_socket(ray_cluster: None, tmp_path: Path) -> None:
    actor = _both_ways(tmp_path, 10)
    gateway = GatewayClient(actor)
    await _reached(gateway, actor)
    by_ray, by_socket = await actor.ways.remote()
    with pytest.raises(OverBudget):  # errors arrive as they were raised, on this way too
        await gateway.ask(a_call(1, usd=2.0), 20, 10)
    call = a_call(2, usd=0.5)
    await gateway.ask(call, 20, 10)
    await gateway.came(paid(call, 0.25))
    assert (await LedgerClient(actor).totals()).settled_usd == pytest.approx(0.25)
    after = await actor.ways.remote()
    assert after[0] == by_ray
    assert after[1] >= by_socket + 3
    ray.kill(actor)


async def test_what_waits_when_the_socket_breaks_is_asked_by_ray(ray_cluster: None, tmp_path: Path) -> None:
    actor = _both_ways(tmp_path, 1)
    gateway: Any = GatewayClient(actor)
    await _reached(gateway, actor)
    by_ray, _ = await actor.ways.remote()
    permit = await gateway.acquire(0, 10, 60)
    waits = asyncio.create_task(gateway.acquire(0, 10, 60))  # for the only place
    await asyncio.sleep(0.2)
    assert not waits.done()
    next(iter(gateway._by_loop.values()))._connection.close()
    await asyncio.sleep(0.2)
    await gateway.give_back(0, permit)
    assert await asyncio.wait_for(waits, 30) != permit
    assert (await actor.ways.remote())[0] > by_ray
    ray.kill(actor)


async def test_what_only_ray_can_pickle_goes_by_ray_and_fails_no_other_caller(
    ray_cluster: None, tmp_path: Path
) -> None:
    actor = _both_ways(tmp_path, 1)
    gateway = GatewayClient(actor)
    await _reached(gateway, actor)

    class Tokens(int):
        """A class that pickle knows no name of."""

    by_ray, _ = await actor.ways.remote()
    permit = await gateway.acquire(0, 10, 60)
    waits = asyncio.create_task(gateway.acquire(0, 10, 60))
    await asyncio.sleep(0.05)
    also = asyncio.create_task(gateway.acquire(0, Tokens(10), 60))
    await asyncio.sleep(0.05)
    for waiter in (waits, also):
        await gateway.give_back(0, permit)
        permit = await asyncio.wait_for(waiter, 30)
    assert (await actor.ways.remote())[0] > by_ray
    ray.kill(actor)


class _Unpickled:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("known", [True, False], ids=["secret", "guessed"])
async def test_nothing_is_read_of_a_connection_without_the_secret(
    ray_cluster: None, tmp_path: Path, known: bool
) -> None:
    actor = _both_ways(tmp_path / "run", 1)
    address = await actor.address.remote()
    assert repr(address.secret) not in repr(address)
    reader, writer = await asyncio.open_unix_connection(address.path)
    frame = pickle.dumps((0, ("no exchange", _Unpickled(tmp_path / "read"))))
    secret = address.secret if known else bytes(len(address.secret))
    writer.write(secret + len(frame).to_bytes(8) + frame)
    ends = await asyncio.wait_for(reader.read(), 30)  # with the secret it is no exchange, and ends too, but it was read
    assert ends == b""
    assert (tmp_path / "read").exists() == known
    writer.close()
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
