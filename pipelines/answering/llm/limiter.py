"""When the next request may go out: the account's limits, kept exactly, with no thread and no clock of its own.

Two rules hold together. The *window* rule: what was admitted in any minute never passes the limit, counted as the
server counts it, prompt plus ``max_tokens`` at admission; what others use of the account, as the replies' headers tell,
counts as well. The *pace* rule: admissions are spread evenly, because servers also enforce a minute's limit in slices
of a second. A 429 stops everyone until its time is over, and halves the number of requests in flight once; each reply
then gives a little of it back.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from okralong.pipelines.answering.llm.quota import Quota
from okralong.pipelines.answering.llm.quota_headers import Notice

FIRST_PAUSE_S = 1.0
"""Pause after a 429 that names no time; doubled for each that follows closely, up to the longest. Ours."""
LONGEST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens per minute (None: unlimited), and the most requests at a time."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_in_flight: int = 64


def stricter(one: Limits, other: Limits) -> Limits:
    """Limits that keep both; None, which knows no limit, gives way."""
    return Limits(
        _least(one.requests_per_minute, other.requests_per_minute),
        _least(one.tokens_per_minute, other.tokens_per_minute),
        min(one.max_in_flight, other.max_in_flight),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Lease:
    granted: float
    ends: float
    tokens: int


class Limiter:
    """The state of one (endpoint, model). Every ``now`` is in seconds of one clock that never goes back."""

    def __init__(self, limits: Limits, first_lease: int = 1) -> None:
        """Leases are numbered from ``first_lease``, so that one limiter's are never taken for its predecessor's."""
        self.limits = limits
        self._requests = Quota(limits.requests_per_minute)
        self._tokens = Quota(limits.tokens_per_minute)
        self._allowed = float(limits.max_in_flight)
        self._leases: dict[int, _Lease] = {}
        self._ends: list[tuple[float, int]] = []  # a heap; leases that were released are still in it
        self._next_lease = first_lease
        self._blocked_until = -math.inf
        self._slowed_at = -math.inf
        self._pause = FIRST_PAUSE_S
        self._calm_after = -math.inf

    def join(self, now: float, limits: Limits) -> None:
        """A job comes with limits of its own, which hold from now on; what was admitted in the last minute counts.

        While another's requests are in flight its limits are kept as well, the stricter of each, and so is a 429's
        halving, until a job comes that finds nothing in flight. What the server named stays known: it is the account's.
        """
        self._forget_ended(now)
        alone = not self._leases
        self.limits = limits if alone else stricter(self.limits, limits)
        self._requests.relimit(now, self.limits.requests_per_minute)
        self._tokens.relimit(now, self.limits.tokens_per_minute)
        most = float(self.limits.max_in_flight)
        self._allowed = most if alone else min(self._allowed, most)

    def refusal(self, tokens: int) -> str | None:
        """Why no minute can hold a request of that size all by itself; None when one can."""
        if tokens <= self._tokens.limit:
            return None
        named = (
            "the limit of tokens per minute that the endpoint names"
            if self._tokens.named_by_server
            else "llm.tokens_per_minute"
        )
        return (
            f"A request of {tokens} tokens (prompt and longest reply) is larger than {named} = "
            f"{self._tokens.limit:.0f}, so the endpoint would never take it. Raise that limit if the account allows "
            "it, or show less context."
        )

    def reserve(self, now: float, tokens: int, lease_s: float) -> tuple[float, int]:
        """``(wait, lease)``: with wait 0 the request may go out now and holds ``lease`` until released.

        Otherwise nothing was taken: ask again after ``wait`` seconds or a release, whichever comes first. A lease that
        nobody releases (its holder was killed) ends by itself after ``lease_s``. ``tokens`` that have a ``refusal``
        must not be asked for.
        """
        self._forget_ended(now)
        if len(self._leases) >= self.allowed:
            return self._ends[0][0] - now, 0
        wait = max(self._blocked_until - now, self._requests.wait(now, 1), self._tokens.wait(now, tokens))
        if wait > 0:
            return wait, 0
        self._requests.take(now, 1)
        self._tokens.take(now, tokens)
        lease = self._next_lease
        self._next_lease += 1
        self._leases[lease] = _Lease(now, now + lease_s, tokens)
        heapq.heappush(self._ends, (now + lease_s, lease))
        return 0.0, lease

    def hear(self, now: float, lease: int, notice: Notice) -> None:
        """What the reply to the request that holds ``lease`` says of the limits. Comes before its release."""
        held = self._leases.get(lease)
        if held is not None:
            self._requests.hear(now, held.granted, 1, notice.requests, taken=notice.taken)
            self._tokens.hear(now, held.granted, held.tokens, notice.tokens, taken=notice.taken)
        if notice.slow_down:
            self.slow_down(now, notice.retry_after, None if held is None else held.granted)

    def release(self, lease: int, *, answered: bool = True, unsent: bool = False) -> None:
        """The request is over. An unknown or ended lease is fine.

        ``answered``: the endpoint did what it was asked, so a 429's halving is undone by a little. ``unsent``: it never
        went out, so it does not count against the minute.
        """
        held = self._leases.pop(lease, None)
        if held is None:
            return
        if unsent:
            self._requests.refund(held.granted, 1)
            self._tokens.refund(held.granted, held.tokens)
        elif answered:
            self._allowed = min(float(self.limits.max_in_flight), self._allowed + 1 / self._allowed)

    def slow_down(self, now: float, retry_after: float | None, granted: float | None = None) -> None:
        """A 429 came: hold everyone for ``retry_after`` seconds, or for a growing pause where none was named.

        The many of one burst count once: those that come while everyone is held already, and those to requests that
        were ``granted`` leave before the last slowing, however late they come.
        """
        first_of_burst = now >= self._blocked_until and (granted is None or granted > self._slowed_at)
        if now > self._calm_after:
            self._pause = FIRST_PAUSE_S
        pause = self._pause if retry_after is None else retry_after
        if first_of_burst or retry_after is not None:
            self._blocked_until = max(self._blocked_until, now + pause)
        if first_of_burst:
            self._slowed_at = now
            self._allowed = max(1.0, self._allowed / 2)
            self._pause = min(LONGEST_PAUSE_S, self._pause * 2)
            self._calm_after = self._blocked_until + 2 * self._pause

    @property
    def in_flight(self) -> int:
        """Leases that are held."""
        return len(self._leases)

    @property
    def allowed(self) -> int:
        """Leases that may be held at a time now: the config's number, less after a 429."""
        return int(self._allowed)

    def paused(self, now: float) -> float:
        """Seconds for which everyone is still held after a 429."""
        return max(0.0, self._blocked_until - now)

    def _forget_ended(self, now: float) -> None:
        while self._ends and (self._ends[0][0] <= now or self._ends[0][1] not in self._leases):
            self._leases.pop(heapq.heappop(self._ends)[1], None)
