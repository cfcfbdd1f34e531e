"""The limiter against a server that enforces a minute's limit in slices of a second, in a time of their own."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

import pytest

from okralong.pipelines.llm.rate_limit import Limiter, Limits
from tests.fakes.endpoint.quota import Quota as ServersQuota
from tests.fakes.endpoint.scenario import Limits as ServersLimits


@dataclass(frozen=True)
class Seen:
    """``refused`` is a share of the requests, ``throughput`` one of the limit that is the tighter one."""

    refused: float
    throughput: float


@dataclass(frozen=True)
class Minutes:
    """A run of some minutes. ``sizes`` are the least and the most tokens of a request; ``way_s`` the least and the most
    seconds from a leave to the server; ``stall_s`` is how late one leave in a hundred is given.
    """

    requests: int | None
    tokens: int | None
    sizes: tuple[int, int]
    way_s: tuple[float, float] = (0.02, 0.04)
    stall_s: float = 0.0
    in_flight: int = 256

    def run(self, seed: int = 0, seconds: float = 240.0) -> Seen:
        """Ask for as much as there is leave for."""
        chance = random.Random(seed)
        limiter = Limiter(Limits(self.requests, self.tokens, self.in_flight))
        server = ServersQuota(ServersLimits(requests_per_minute=self.requests, tokens_per_minute=self.tokens), 0.0)
        coming: list[tuple[float, int, bool, int, int]] = []
        admitted: list[tuple[float, int]] = []
        refused, number, now, size = 0, 0, 0.0, chance.randint(*self.sizes)
        while now < seconds:
            wait, permit = limiter.reserve(now, size, 600.0)
            if wait == 0:
                number += 1
                heapq.heappush(coming, (now + chance.uniform(*self.way_s), number, False, permit, size))
                size = chance.randint(*self.sizes)
                continue
            later = now + wait + chance.uniform(0.0, 0.01) + (self.stall_s if chance.random() < 0.01 else 0.0)
            if not coming or coming[0][0] > later:
                now = later
                continue
            at, _, answered, permit, tokens = heapq.heappop(coming)
            now = max(now, at)
            if answered:
                limiter.release(permit)
            elif (refusal := server.admit(at, tokens)) is None:
                admitted.append((at, tokens))
                number += 1
                heapq.heappush(coming, (at + chance.lognormvariate(0.0, 0.5), number, True, permit, tokens))
            else:
                refused += 1
                limiter.slow_down(now, refusal.wait_s)
                limiter.release(permit, answered=False)
        lasted = admitted[-1][0] - admitted[0][0]
        shares = [len(admitted) / (self.requests * lasted / 60)] if self.requests else []
        shares += [sum(tokens for _, tokens in admitted) / (self.tokens * lasted / 60)] if self.tokens else []
        return Seen(refused / (refused + len(admitted)), max(shares))


@pytest.mark.parametrize(
    "minutes",
    [
        Minutes(60, None, (1000, 1000), (0.02, 0.03)),
        Minutes(500, None, (1000, 1000)),
        Minutes(5000, None, (10, 10), (0.02, 0.3)),
        Minutes(None, 30_000, (1200, 1800)),
        Minutes(None, 90_000, (1400, 1600)),
        Minutes(None, 150_000, (100, 6000)),
        Minutes(None, 200_000, (1200, 1800), (0.02, 0.3)),
        Minutes(500, 500_000, (500, 3000), (0.02, 0.3)),
        Minutes(500, 500_000, (500, 3000), (0.02, 0.1), stall_s=1.0),
        Minutes(None, 2_000_000, (500, 3000), (0.02, 0.3), stall_s=1.0),
    ],
    ids=repr,
)
def test_all_of_a_limit_is_used_and_nothing_refused(minutes: Minutes) -> None:
    seen = minutes.run()
    assert seen.refused == 0
    assert 0.95 <= seen.throughput <= 1.0


def test_a_small_account_is_not_sent_two_requests_at_once_after_a_pause() -> None:
    limiter = Limiter(Limits(60, None, 8))
    assert limiter.reserve(100.0, 10, 60.0)[0] == 0
    assert limiter.reserve(100.0, 10, 60.0)[0] > 1.0
    assert limiter.reserve(110.0, 10, 60.0)[0] == 0
    assert limiter.reserve(110.0, 10, 60.0)[0] > 1.0


def test_a_large_one_sends_half_a_slice_at_once_after_a_pause() -> None:
    limiter = Limiter(Limits(None, 600_000, 1000))
    for start in (100.0, 200.0):
        at_once = 0
        while limiter.reserve(start, 100, 60.0)[0] == 0:
            at_once += 100
        assert 4_500 <= at_once <= 5_100
