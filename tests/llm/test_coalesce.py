"""Permits in blocks: a thousand callers behind two messages, none lost when callers go, and turns among processes.

The actor is a ``LocalLimiter`` behind a slow and counted way; ``test_actors.py`` has the same over Ray.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.llm.rate_limit import Limits, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import CoalescingLimiter, LocalLimiter, PermitRequest, Permits, Release

DONE = RateLimitHeaders(taken=True)


@dataclass
class Way:
    """What lies between a process and the limiter: some time in each direction, and a count."""

    limiter: LocalLimiter
    delay_s: float = 0.002
    takes: int = 0
    returns: int = 0
    largest: int = 0
    order: list[int] = field(default_factory=list)

    async def acquire_many(self, requests: Sequence[PermitRequest]) -> Permits:
        self.takes += 1
        self.largest = max(self.largest, len(requests))
        await asyncio.sleep(self.delay_s)
        taken = await self.limiter.acquire_many(requests)
        await asyncio.sleep(self.delay_s)
        return taken

    async def release_many(self, returned: Sequence[Release]) -> None:
        self.returns += 1
        await asyncio.sleep(self.delay_s)
        await self.limiter.release_many(returned)

    def client(self) -> CoalescingLimiter:
        return CoalescingLimiter(self.acquire_many, self.release_many)


async def use(limiter: CoalescingLimiter, tokens: int = 10, hold_s: float = 0.01) -> None:
    permit = await limiter.acquire(tokens, 100)
    try:
        await asyncio.sleep(hold_s)
    finally:
        await limiter.release(permit, DONE)


async def settled(limiter: LocalLimiter) -> int:
    """Permits that are still held when everything that is on its way has arrived."""
    for _ in range(1_000):
        await asyncio.sleep(0.01)
        if not limiter.in_flight:
            break
    return limiter.in_flight


@pytest.mark.parametrize("callers", [100, 1000])
async def test_the_number_of_messages_is_that_of_the_blocks_and_not_of_the_callers(callers: int) -> None:
    way = Way(LocalLimiter(Limits(None, None, max_in_flight=1000)), delay_s=0.01)
    client = way.client()
    await asyncio.gather(*(use(client) for _ in range(callers)))
    assert way.takes <= 1 + -(-callers // 256)
    assert way.returns <= max(40, callers // 4)  # as many as fit into the time, which a busy machine prolongs
    assert way.largest <= 256
    assert await settled(way.limiter) == 0


async def test_a_thousand_callers_who_wait_for_few_places_share_their_messages() -> None:
    way = Way(LocalLimiter(Limits(None, None, max_in_flight=50)), delay_s=0.005)
    client = way.client()
    await asyncio.gather(*(use(client) for _ in range(1000)))
    assert way.takes + way.returns < 400  # one by one it would be two thousand
    assert await settled(way.limiter) == 0


async def test_callers_are_served_in_order_of_arrival() -> None:
    way = Way(LocalLimiter(Limits(None, None, max_in_flight=3)))
    client, order = way.client(), list[int]()

    async def one(number: int) -> None:
        permit = await client.acquire(10, 100)
        order.append(number)
        await client.release(permit, DONE)

    await asyncio.gather(*(one(number) for number in range(300)))
    assert order == list(range(300))


async def test_processes_take_turns_whatever_number_of_callers_each_has() -> None:
    limiter = LocalLimiter(Limits(None, None, max_in_flight=4))
    crowd, few = Way(limiter).client(), Way(limiter).client()
    done: list[str] = []

    async def one(client: CoalescingLimiter, name: str) -> None:
        await use(client, hold_s=0.002)
        done.append(name)

    many = [asyncio.create_task(one(crowd, "crowd")) for _ in range(400)]
    await asyncio.sleep(0.05)
    before = len(done)
    await asyncio.gather(*(one(few, "few") for _ in range(20)))
    assert done[before:].count("crowd") <= 60  # and not the hundreds that had come before
    await asyncio.gather(*many)
    assert await settled(limiter) == 0


async def test_a_caller_that_goes_leaves_no_lease_behind() -> None:
    limiter = LocalLimiter(Limits(None, None, max_in_flight=1))
    client = Way(limiter, delay_s=0.02).client()
    first = await client.acquire(10, 100)
    waiting = asyncio.create_task(client.acquire(10, 100))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await client.release(first, DONE)
    permit = await asyncio.wait_for(client.acquire(10, 100), 60)  # the one of the gone caller has come back
    assert limiter.in_flight == 1
    await client.release(permit, DONE)
    assert await settled(limiter) == 0


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_of_cancellations_leaks_no_lease_and_no_minute(seed: int) -> None:
    chance = random.Random(seed)
    limiter = LocalLimiter(Limits(6_000, None, max_in_flight=20))
    clients = [Way(limiter, delay_s=0.001 * number).client() for number in range(3)]
    tasks = [asyncio.create_task(use(chance.choice(clients), hold_s=0.005)) for _ in range(400)]
    for task in chance.sample(tasks, 350):
        if chance.random() < 0.3:
            await asyncio.sleep(chance.uniform(0, 0.002))
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await settled(limiter) == 0
    await asyncio.wait_for(asyncio.gather(*(use(client) for client in clients)), 60)


async def test_a_local_caller_that_goes_leaves_none_either() -> None:
    limiter = LocalLimiter(Limits(None, None, max_in_flight=5))
    held = [await limiter.acquire(10, 100) for _ in range(5)]
    tasks = [asyncio.create_task(limiter.acquire(10, 100)) for _ in range(50)]
    await asyncio.sleep(0)
    for permit in held:
        await limiter.release(permit, DONE)
    for task in tasks:  # the first five have leave in this moment, and do not know it yet
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)
    assert limiter.in_flight == 0
    assert await asyncio.wait_for(limiter.acquire(10, 100), 60)


async def test_a_request_that_no_minute_can_hold_is_refused_alone() -> None:
    client = Way(LocalLimiter(Limits(None, 1000))).client()
    ends = await asyncio.gather(*(client.acquire(tokens, 100) for tokens in (10, 2000, 20)), return_exceptions=True)
    assert isinstance(ends[1], QuestionError)
    assert "tokens_per_minute = 1000" in str(ends[1])
    assert not isinstance(ends[0], BaseException)
    assert not isinstance(ends[2], BaseException)


async def test_a_waiting_request_that_becomes_impossible_is_refused_and_does_not_wait_for_ever() -> None:
    limiter = LocalLimiter(Limits(None, None, max_in_flight=1))
    client = Way(limiter).client()
    first = await client.acquire(10, 100)
    waiting = asyncio.create_task(client.acquire(900, 100))
    await asyncio.sleep(0.02)
    limiter.join(Limits(None, 500))
    await client.release(first, DONE)
    with pytest.raises(QuestionError, match="500"):
        await asyncio.wait_for(waiting, 60)


async def test_a_limiter_that_is_gone_is_told_to_all_who_wait_and_not_to_those_who_come_later() -> None:
    limiter = LocalLimiter(Limits())
    broken = True

    async def acquire_many(requests: Sequence[PermitRequest]) -> Permits:
        if broken:
            raise ConnectionError("the limiter is gone")
        return await limiter.acquire_many(requests)

    client = CoalescingLimiter(acquire_many, limiter.release_many)
    ends = await asyncio.gather(*(client.acquire(10, 100) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(end, ConnectionError) for end in ends)
    broken = False
    assert await asyncio.wait_for(client.acquire(10, 100), 60)


async def test_a_429_of_one_process_slows_all_of_them_once() -> None:
    limiter = LocalLimiter(Limits(None, None, max_in_flight=16))
    one, other = Way(limiter).client(), Way(limiter).client()
    held = await asyncio.gather(*(one.acquire(10, 100) for _ in range(8)), *(other.acquire(10, 100) for _ in range(8)))
    limited = RateLimitHeaders(slow_down=True, retry_after=0.3)
    start = asyncio.get_running_loop().time()
    backs = [(one if at < 8 else other).release(permit, limited) for at, permit in enumerate(held)]
    await asyncio.gather(*backs)
    permits = [asyncio.create_task(other.acquire(10, 100)) for _ in range(16)]
    async with asyncio.timeout(60):
        while sum(permit.done() for permit in permits) < 8:  # noqa: ASYNC110 - none of them sets an event
            await asyncio.sleep(0.01)
    assert asyncio.get_running_loop().time() - start >= 0.3
    done, waiting = await asyncio.wait(permits, timeout=0.3)
    assert len(done) == 8  # halved once by sixteen
    for task in waiting:
        task.cancel()
