"""Headers: adopted where they can be true, never a way past a limit, and no throughput lost to honest ones."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limiter, LimitHeaders, Limits, RateLimitHeaders
from tests.llm.test_limiter import busiest_minute

counts = st.none() | st.integers(0, 400) | st.integers(0, 300_000)
limit_headers = st.builds(
    LimitHeaders,
    limit=st.none() | st.integers(1, 400) | st.integers(1, 300_000),
    remaining=counts,
    reset_s=st.none() | st.floats(0, 1e6),
)
seen_headers = st.builds(RateLimitHeaders, limit_headers, limit_headers, taken=st.booleans())


@settings(max_examples=100, deadline=None)
@given(
    requests=st.none() | st.integers(30, 600),
    tokens=st.integers(10_000, 200_000),
    sizes=st.lists(st.integers(1, 9_000), min_size=1, max_size=20),
    said=st.lists(st.tuples(seen_headers, st.integers(0, 20)), min_size=1, max_size=30),
)
def test_whatever_the_headers_say_no_minute_passes_the_limits_and_work_goes_on(
    requests: int | None, tokens: int, sizes: list[int], said: list[tuple[RateLimitHeaders, int]]
) -> None:
    limiter = Limiter(Limits(requests, tokens, max_in_flight=50))
    now, admitted, held, refused = 0.0, list[tuple[float, int]](), deque[int](), 0
    while len(admitted) + refused < 300 and now < 7200:
        headers, late = said[(len(admitted) + refused) % len(said)]
        if held and len(held) > late:  # the replies come out of order
            permit = held.pop() if late % 2 else held.popleft()
            limiter.observe(now, permit, headers)
            limiter.release(permit, answered=headers.taken)
        size = sizes[(len(admitted) + refused) % len(sizes)]
        if limiter.refusal(size):  # the server's own limit is smaller
            refused += 1
            continue
        wait, permit = limiter.reserve(now, size, 100.0)
        assert wait < 200
        if wait > 0:
            now += wait
            continue
        admitted.append((now, size))
        held.append(permit)
    assert len(admitted) + refused == 300 or now >= 7200
    assert admitted
    assert requests is None or busiest_minute(admitted, weigh=False) <= requests
    assert busiest_minute(admitted, weigh=True) <= tokens


@pytest.mark.parametrize("raised", [LimitHeaders(limit=4), LimitHeaders(limit=4, reset_s=1.0), None])
def test_a_limit_that_is_raised_while_others_use_the_account_makes_nobody_wait_for_ever(
    raised: LimitHeaders | None,
) -> None:
    limiter = Limiter(Limits(None, 10_000 if raised else 3, max_in_flight=50))
    permits = [limiter.reserve(0.0, 1, 100.0)[1] for _ in range(2)]
    told = LimitHeaders(limit=3 if raised else None, remaining=0)
    limiter.observe(1.0, permits[0], RateLimitHeaders(tokens=told))
    if raised:
        limiter.observe(2.0, permits[1], RateLimitHeaders(tokens=raised))
    else:
        limiter.join(2.0, Limits(None, 10_000, max_in_flight=50))
        for permit in permits:
            limiter.release(permit)
        limiter.join(2.0, Limits(None, 10_000, max_in_flight=50))
    assert limiter.refusal(4) is None
    now = 2.0
    for _ in range(50):
        wait, permit = limiter.reserve(now, 4, 100.0)
        assert wait < 62
        now += wait
        if permit:
            break
    assert permit
    assert now < 130


@dataclass
class Server:
    """Keeps a minute of what came, ours and others', and says so in its headers; refuses what passes a limit."""

    requests: int
    tokens: int
    seen: deque[tuple[float, int]] = field(default_factory=deque)
    used: int = 0
    refused: int = 0

    def take(self, now: float, tokens: int) -> RateLimitHeaders:
        while self.seen and self.seen[0][0] <= now - 60:
            self.used -= self.seen.popleft()[1]
        fits = len(self.seen) < self.requests and self.used + tokens <= self.tokens
        if fits:
            self.seen.append((now, tokens))
            self.used += tokens
        left = (
            LimitHeaders(self.requests, self.requests - len(self.seen)),
            LimitHeaders(self.tokens, self.tokens - self.used),
        )
        return RateLimitHeaders(*left, taken=fits, slow_down=not fits, retry_after=None if fits else 1.0)


@dataclass
class Outcome:
    ours: list[tuple[float, int]]
    refused: int


def run(limiter: Limiter, server: Server, size: int, until: float, others: float = 0.0, seed: int = 1) -> Outcome:
    """Plenty of callers on a clock of our own: requests arrive up to a second late, replies 1 to 20 seconds later.
    ``others`` is the share of the requests' limit that somebody else sends, evenly.
    """
    chance = random.Random(seed)
    # (when, kind, lease); kind 0 arrives at the server, 1 is its reply, 2 somebody else's request.
    events: list[tuple[float, int, int]] = [(0.0, 2, 0)] if others else []
    seen_headers: dict[int, RateLimitHeaders] = {}
    outcome = Outcome([], 0)
    now = 0.0
    while now < until:
        while events and events[0][0] <= now:
            when, kind, permit = heapq.heappop(events)
            if kind == 0:
                seen_headers[permit] = server.take(when, size)
                outcome.refused += seen_headers[permit].slow_down
                heapq.heappush(events, (when + chance.uniform(1, 20), 1, permit))
            elif kind == 1:
                limiter.observe(now, permit, seen_headers[permit])
                limiter.release(permit, answered=seen_headers.pop(permit).taken)
            else:
                server.take(when, size)
                heapq.heappush(events, (when + 60 / (server.requests * others), 2, 0))
        wait, permit = limiter.reserve(now, size, 1000.0)
        if wait > 0:
            now = min(now + wait, events[0][0] if events else until)
            continue
        outcome.ours.append((now, size))
        heapq.heappush(events, (now + chance.uniform(0, 1), 0, permit))
    return outcome


@pytest.mark.parametrize("limits", [Limits(None, None, 4000), Limits(5000, 10**6, 4000), Limits(600, 10**6, 4000)])
@pytest.mark.parametrize(("requests", "tokens"), [(600, 300_000), (600, 100_000), (120, 60_000)])
def test_the_servers_tighter_limit_is_reached_to_95_percent_and_never_passed(
    limits: Limits, requests: int, tokens: int
) -> None:
    limiter, size = Limiter(limits), 400
    # Before the first reply nobody knows a limit that the config does not name.
    _, first = limiter.reserve(0.0, 1, 100)
    limiter.observe(0.0, first, Server(requests, tokens).take(0.0, 1))
    limiter.release(first)
    outcome = run(limiter, Server(requests, tokens), size, until=400)
    assert outcome.refused == 0
    assert busiest_minute(outcome.ours, weigh=False) <= requests
    assert busiest_minute(outcome.ours, weigh=True) <= tokens
    steady = [one for one in outcome.ours if 100 <= one[0] < 400]
    assert len(steady) >= 0.95 * min(requests, tokens / size) * 5


def test_what_others_use_of_the_account_slows_us_down_before_a_429_does() -> None:
    told, untold = Limiter(Limits(600, None, 4000)), Limiter(Limits(600, None, 4000))
    with_headers = run(told, Server(600, 10**9), 1, until=400, others=0.4)

    class Silent(Server):
        def take(self, now: float, tokens: int) -> RateLimitHeaders:
            headers = super().take(now, tokens)
            return RateLimitHeaders(taken=headers.taken, slow_down=headers.slow_down, retry_after=headers.retry_after)

    without = run(untold, Silent(600, 10**9), 1, until=400, others=0.4)
    assert with_headers.refused < 0.2 * without.refused
    steady = [one for one in with_headers.ours if one[0] >= 100]
    assert len(steady) >= 0.9 * 0.6 * 600 * 5


def heard(limiter: Limiter, now: float, size: int, headers: RateLimitHeaders, later: float = 0.0) -> None:
    wait, permit = limiter.reserve(now, size, 100)
    assert wait == 0
    limiter.observe(now + later, permit, headers)
    limiter.release(permit)


def tokens(limit: int | None, remaining: int | None = None, reset_s: float | None = None) -> RateLimitHeaders:
    return RateLimitHeaders(tokens=LimitHeaders(limit, remaining, reset_s), taken=True)


def test_a_limit_is_adopted_lowered_and_raised_again() -> None:
    limiter = Limiter(Limits())
    heard(limiter, 0.0, 10, tokens(1000))
    assert "endpoint's limit of tokens per minute = 1000" in (limiter.refusal(1001) or "")
    heard(limiter, 10.0, 10, tokens(500))
    assert limiter.refusal(501)
    heard(limiter, 20.0, 10, NO_HEADERS)
    assert limiter.refusal(501)
    heard(limiter, 30.0, 10, tokens(2000))
    assert limiter.refusal(2000) is None


def test_the_servers_limit_wins_over_a_higher_one_of_the_config_and_never_lifts_a_lower_one() -> None:
    limiter = Limiter(Limits(None, 5000))
    assert "llm.tokens_per_minute = 5000" in (limiter.refusal(5001) or "")
    heard(limiter, 0.0, 10, tokens(1000))
    assert limiter.refusal(1001)
    heard(limiter, 10.0, 10, tokens(9000))
    assert limiter.refusal(5000) is None
    assert limiter.refusal(5001)
    limiter.join(11.0, Limits())
    assert limiter.refusal(9000) is None
    assert limiter.refusal(9001)


def test_a_limit_below_what_the_server_has_taken_is_not_believed_and_one_that_refuses_is() -> None:
    limiter = Limiter(Limits())
    heard(limiter, 0.0, 800, tokens(10, 3))
    assert limiter.refusal(5000) is None
    _, permit = limiter.reserve(100.0, 1000, 100)
    limiter.observe(100.0, permit, RateLimitHeaders(tokens=LimitHeaders(900, 900), slow_down=True, retry_after=0.0))
    assert limiter.refusal(1000)
    assert limiter.refusal(900) is None


def test_a_reply_that_describes_an_earlier_moment_changes_nothing() -> None:
    limiter = Limiter(Limits())
    _, slow = limiter.reserve(0.0, 10, 100)
    heard(limiter, 1.0, 10, tokens(1000, 980))
    limiter.observe(5.0, slow, tokens(50, 0))
    assert limiter.refusal(1000) is None
    assert limiter.reserve(5.0, 900, 100)[0] == 0


def test_what_others_used_counts_until_the_server_says_that_it_is_back() -> None:
    limiter = Limiter(Limits(None, 1000))
    heard(limiter, 0.0, 100, tokens(1000, 100, reset_s=30.0))  # 900 used, 800 of them by others, who go on
    assert limiter.reserve(10.0, 200, 100)[0] == pytest.approx(21)
    assert limiter.reserve(10.0, 70, 100)[0] == 0
    assert limiter.reserve(31.0, 200, 100)[0] == 0
    unbounded = Limiter(Limits(None, 1000))
    heard(unbounded, 0.0, 100, tokens(1000, 100))
    assert unbounded.reserve(10.0, 200, 100)[0] == pytest.approx(51)


def test_a_config_that_takes_a_share_of_the_account_is_not_held_by_what_the_others_take() -> None:
    limiter = Limiter(Limits(None, 500))
    heard(limiter, 0.0, 100, tokens(10_000, 4_000))
    assert limiter.reserve(20.0, 400, 100)[0] == 0


def test_what_we_sent_ourselves_is_never_taken_for_others() -> None:
    limiter = Limiter(Limits(None, 1000, max_in_flight=100))
    permits = [limiter.reserve(0.01 * number, 10, 100)[1] for number in range(10)]
    for number, permit in enumerate(reversed(permits)):  # the last one was taken first, and so on
        limiter.observe(3.0, permit, tokens(1000, 1000 - 10 * (number + 1)))
    assert limiter.reserve(70.0, 1000, 100)[0] == 0
    assert limiter.reserve(140.0, 900, 100)[0] == 0
