from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.llm.rate_limit import Limiter, Limits, RateLimitHeaders, stricter
from okralong.pipelines.llm.rate_limit_client import LocalLimiter


def saturate(limiter: Limiter, sizes: list[int], until: float) -> list[tuple[float, int]]:
    """Times and sizes of what is admitted when there is always a request waiting, on a clock of our own."""
    now, admitted, at = 0.0, [], 0
    while now < until:
        size = sizes[at % len(sizes)]
        wait, permit = limiter.reserve(now, size, 1e9)
        if wait > 0:
            now += wait
            continue
        limiter.release(permit)
        admitted.append((now, size))
        at += 1
    return admitted


def busiest_minute(admitted: list[tuple[float, int]], weigh: bool) -> int:
    most = total = first = 0
    for when, size in admitted:
        total += size if weigh else 1
        while admitted[first][0] <= when - 60:
            total -= admitted[first][1] if weigh else 1
            first += 1
        most = max(most, total)
    return most


@settings(max_examples=60, deadline=None)
@given(
    requests=st.integers(60, 600),
    tokens=st.integers(10_000, 200_000),
    sizes=st.lists(st.integers(1, 9_000), min_size=1, max_size=30),
)
def test_no_minute_ever_passes_either_limit(requests: int, tokens: int, sizes: list[int]) -> None:
    admitted = saturate(Limiter(Limits(requests, tokens)), sizes, until=200)
    assert busiest_minute(admitted, weigh=False) <= requests
    assert busiest_minute(admitted, weigh=True) <= tokens


@settings(max_examples=30, deadline=None)
@given(tokens=st.integers(20_000, 200_000), sizes=st.lists(st.integers(100, 500), min_size=1, max_size=30))
def test_a_saturated_limiter_reaches_95_percent_of_the_tokens(tokens: int, sizes: list[int]) -> None:
    admitted = saturate(Limiter(Limits(None, tokens)), sizes, until=300)
    assert sum(size for when, size in admitted if when >= 60) >= 0.95 * tokens * 4


@pytest.mark.parametrize("limit", [30, 60, 500, 3000])
def test_a_saturated_limiter_reaches_95_percent_of_the_requests(limit: int) -> None:
    admitted = saturate(Limiter(Limits(limit, None)), [1], until=300)
    assert sum(1 for when, _ in admitted if when >= 60) >= 0.95 * limit * 4
    assert busiest_minute(admitted, weigh=False) <= limit


def test_a_minute_is_not_spent_in_its_first_second() -> None:
    admitted = saturate(Limiter(Limits(600, None)), [1], until=60)
    assert sum(1 for when, _ in admitted if when < 1) <= 22


def test_in_flight_is_bounded_and_a_lost_lease_ends_by_itself() -> None:
    limiter = Limiter(Limits(None, None, max_in_flight=2))
    assert limiter.reserve(0.0, 1, 10)[0] == 0
    _, second = limiter.reserve(0.0, 1, 30)
    wait, _ = limiter.reserve(1.0, 1, 10)
    assert wait == 9
    assert limiter.in_flight == 2
    limiter.release(second)
    assert limiter.reserve(1.0, 1, 30)[0] == 0
    assert limiter.reserve(10.0, 1, 30)[0] == 0  # the first lease has ended


def test_many_429_of_one_burst_count_once_and_hold_everyone() -> None:
    limiter = Limiter(Limits(None, None, max_in_flight=8))
    permits = [limiter.reserve(0.0, 1, 100)[1] for _ in range(8)]
    for _ in permits:
        limiter.slow_down(0.0, None)
    for permit in permits:
        limiter.release(permit, answered=False)
    assert limiter.reserve(0.5, 1, 100)[0] == pytest.approx(0.5)
    free = [limiter.reserve(1.0, 1, 100)[0] == 0 for _ in range(8)]
    assert sum(free) == limiter.allowed == 4  # halved once


@settings(max_examples=60, deadline=None)
@given(
    arrivals=st.lists(st.floats(0, 300), min_size=1, max_size=64),
    waits=st.lists(st.none() | st.floats(0, 30), min_size=1, max_size=8),
)
def test_a_burst_of_429s_halves_once_however_late_they_come(arrivals: list[float], waits: list[float | None]) -> None:
    limiter = Limiter(Limits(None, None, max_in_flight=64))
    permits = [limiter.reserve(0.0, 1, 1000)[1] for _ in arrivals]
    for at, when in enumerate(sorted(arrivals)):
        headers = RateLimitHeaders(slow_down=True, retry_after=waits[at % len(waits)])
        limiter.observe(when, permits[at], headers)
        limiter.release(permits[at], answered=False)
    assert limiter.allowed == 32
    now = max(arrivals) + 60
    _, permit = limiter.reserve(now, 1, 1000)
    limiter.observe(now + 1, permit, RateLimitHeaders(slow_down=True))  # to one that was sent after the slowing
    assert limiter.allowed == 16


def test_what_never_went_out_does_not_count_against_the_minute() -> None:
    limiter = Limiter(Limits(10, 1000, max_in_flight=10))
    now = 0.0
    for _ in range(50):
        wait, permit = limiter.reserve(now, 900, 100)
        now += wait
        if not wait:
            limiter.release(permit, unsent=True)
    assert now < 1
    assert limiter.reserve(now, 900, 100)[0] == 0
    assert limiter.in_flight == 1


def test_leases_of_another_life_of_the_limiter_are_not_released() -> None:
    old = Limiter(Limits(max_in_flight=1), first_permit=10)
    new = Limiter(Limits(max_in_flight=1), first_permit=20)
    _, lost = old.reserve(0.0, 1, 10)
    assert new.reserve(0.0, 1, 10)[1] == 20
    new.release(lost)
    assert new.in_flight == 1


def test_the_named_wait_wins_and_the_unnamed_one_grows() -> None:
    limiter = Limiter(Limits())
    limiter.slow_down(0.0, 7.0)
    assert limiter.reserve(0.0, 1, 10)[0] == 7.0
    limiter.slow_down(8.0, None)
    assert limiter.reserve(8.0, 1, 10)[0] == 2.0
    limiter.slow_down(100.0, None)
    assert limiter.reserve(100.0, 1, 10)[0] == 1.0


def test_a_second_job_does_not_lift_the_limits_of_one_that_is_at_work() -> None:
    limiter = Limiter(Limits(60, None, max_in_flight=8))
    _, permit = limiter.reserve(0.0, 1, 100)
    limiter.join(1.0, Limits(None, 5000))
    assert limiter.limits == Limits(60, 5000, max_in_flight=8)
    limiter.slow_down(1.0, 0.0)
    limiter.join(1.0, Limits(None, 5000, max_in_flight=8))
    assert limiter.allowed == 4
    limiter.release(permit)
    limiter.join(2.0, Limits(500, None))  # nobody is at work: the job that comes knows best
    assert limiter.limits == Limits(500, None)
    assert limiter.reserve(2.0, 1, 10)[1]
    limiter.join(20.0, Limits())  # its lease has ended by itself
    assert limiter.limits == Limits()
    assert stricter(Limits(10, 20), Limits(20, 10)) == Limits(10, 10)


async def test_the_local_limiter_wakes_on_release_and_refuses_the_impossible() -> None:
    limiter = LocalLimiter(Limits(None, 1000, max_in_flight=1))
    first = await limiter.acquire(10, 100)
    second = asyncio.create_task(limiter.acquire(10, 100))
    await asyncio.sleep(0.05)
    assert not second.done()
    await limiter.release(first)
    permit = await asyncio.wait_for(second, 60)
    assert permit != first
    with pytest.raises(QuestionError, match="tokens_per_minute = 1000"):
        await limiter.acquire(1001, 100)
