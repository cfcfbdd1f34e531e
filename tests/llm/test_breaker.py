from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.llm.errors import ApiError
from okralong.pipelines.llm.router import STORM, Breaker

OVERLOADED = ApiError("failed", 503, "503", retry=True)
LIMITED = ApiError("failed", 429, "429", retry=True, whose="endpoint")
DOWN = ApiError("failed", 0, "down", retry=True, whose="endpoint")
REFUSED = ApiError("failed", 401, "the key is refused", retry=False, whose="endpoint")
TOO_LONG = ApiError("failed", 400, "too long", retry=False)


def storm(breaker: Breaker, now: float) -> None:
    for _ in range(STORM):
        breaker.failed(now, now, OVERLOADED)


def test_a_storm_opens_it_and_fewer_failures_do_not() -> None:
    breaker = Breaker(1.0, 8.0)
    for api_error in (OVERLOADED, OVERLOADED, TOO_LONG, OVERLOADED, OVERLOADED, LIMITED, LIMITED):
        breaker.failed(0.0, 0.0, api_error)
        assert breaker.ready(0.0)
    breaker.failed(0.0, 0.0, OVERLOADED)
    assert not breaker.ready(0.9)
    assert not breaker.out(0.9)
    assert breaker.ready(1.0)


def test_the_pause_grows_and_one_reply_ends_it() -> None:
    breaker = Breaker(1.0, 8.0)
    pauses, now = [], 0.0
    for _ in range(6):
        breaker.failed(now, now, DOWN)
        pauses.append(breaker.back_at - now)
        now = breaker.back_at
    assert pauses == [1, 2, 4, 8, 8, 8]
    breaker.answered()
    assert breaker.ready(0.0)
    breaker.failed(now, now, DOWN)
    assert breaker.back_at - now == 1


def test_the_failures_of_one_burst_make_the_pause_longer_once() -> None:
    breaker = Breaker(1.0, 8.0)
    for arrived in (1.0, 1.1, 1.2, 3.0, 9.0):  # all sent before it opened
        breaker.failed(arrived, 0.5, DOWN)
    assert breaker.back_at == 2.0


def test_after_a_pause_one_call_tries_it_and_nobody_follows() -> None:
    breaker = Breaker(1.0, 8.0)
    breaker.asked(0.0)
    assert breaker.ready(0.0)  # closed: all may go
    storm(breaker, 0.0)
    assert breaker.ready(1.5)
    breaker.asked(1.5)
    assert not breaker.ready(1.6)
    assert breaker.ready(3.5)  # whoever tried it never came back
    breaker.answered()
    assert breaker.ready(1.6)


def test_who_refuses_is_out_also_when_a_late_reply_comes() -> None:
    breaker = Breaker(1.0, 8.0)
    breaker.failed(0.0, 0.0, REFUSED)
    breaker.answered()
    assert breaker.out(1e9)
    assert breaker.back_at == math.inf
    assert breaker.why == "the key is refused"
    away = Breaker(1.0, 8.0)
    away.failed(0.0, 0.0, ApiError("failed", 429, "wait", retry=False, whose="endpoint", retry_after=400.0))
    assert away.out(399)
    assert away.ready(400)


faults = st.sampled_from([OVERLOADED, LIMITED, DOWN, TOO_LONG])


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 30), faults | st.none())))
def test_no_pause_is_longer_than_the_longest(steps: list[tuple[float, float, ApiError | None]]) -> None:
    breaker, now = Breaker(1.0, 8.0), 0.0
    for passed, took, api_error in steps:
        now += passed
        if api_error is None:
            breaker.answered()
            assert breaker.ready(now)
        else:
            breaker.failed(now, now - took, api_error)
        assert breaker.back_at <= now + 8.0
        assert not breaker.out(now)
