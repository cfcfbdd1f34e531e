"""When the next request may go out: the account's limits, kept exactly, with no thread and no clock of its own.

Two rules hold together. The *window* rule: what was admitted in any minute never passes the limit, counted as the
server counts it, prompt plus ``max_tokens`` at admission. The *pace* rule: admissions are spread evenly, because
servers also enforce a minute's limit in slices of a second. A 429 stops everyone until its time is over, and halves the
number of requests in flight once; each reply then gives a little of it back.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 61.0
"""A minute and a second: requests admitted in order may arrive a little closer together. Ours."""
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


@dataclass(slots=True)
class _Quota:
    """One limit: what was admitted in the last window, and the time at which the pace allows more."""

    limit: float
    admitted: deque[tuple[float, float]] = field(default_factory=deque)
    total: float = 0.0
    next_at: float = -math.inf

    def wait(self, now: float, amount: float) -> float:
        while self.admitted and self.admitted[0][0] + WINDOW_S <= now:
            self.total -= self.admitted.popleft()[1]
        wait = max(0.0, self.next_at - now)
        excess = self.total + amount - self.limit
        if excess > 0:
            for when, size in self.admitted:
                excess -= size
                if excess <= 0:
                    wait = max(wait, when + WINDOW_S - now)
                    break
        return wait

    def take(self, now: float, amount: float) -> None:
        self.admitted.append((now, amount))
        self.total += amount
        # The pace may lag by a second, so that a late wake-up costs no throughput; the window rule still holds.
        self.next_at = max(self.next_at, now - 1.0) + amount * WINDOW_S / self.limit


class Limiter:
    """The state of one (endpoint, model). Every ``now`` is in seconds of one clock that never goes back."""

    def __init__(self, limits: Limits) -> None:
        self._requests = _Quota(math.inf)
        self._tokens = _Quota(math.inf)
        self._take(limits)
        self._leases: dict[int, float] = {}
        self._last_lease = 0
        self._blocked_until = -math.inf
        self._pause = FIRST_PAUSE_S
        self._calm_after = -math.inf

    def join(self, now: float, limits: Limits) -> None:
        """A job comes with limits of its own, which hold from now on; what was admitted in the last minute counts.

        While another's requests are in flight its limits are kept as well, the stricter of each, until a job comes
        that finds nothing in flight.
        """
        self._forget_ended(now)
        self._take(stricter(self.limits, limits) if self._leases else limits)

    def _take(self, limits: Limits) -> None:
        self.limits = limits
        self._requests.limit = limits.requests_per_minute or math.inf
        self._tokens.limit = limits.tokens_per_minute or math.inf
        self._allowed = float(limits.max_in_flight)

    def _forget_ended(self, now: float) -> None:
        for lease in [lease for lease, ends in self._leases.items() if ends <= now]:
            del self._leases[lease]

    def impossible(self, tokens: int) -> bool:
        """Whether a request of that size would pass the limit of a minute all by itself."""
        return tokens > self._tokens.limit

    def reserve(self, now: float, tokens: int, lease_s: float) -> tuple[float, int]:
        """``(wait, lease)``: with wait 0 the request may go out now and holds ``lease`` until released.

        Otherwise nothing was taken: ask again after ``wait`` seconds or a release, whichever comes first. A lease that
        nobody releases (its holder was killed) ends by itself after ``lease_s``.
        """
        self._forget_ended(now)
        if len(self._leases) >= int(self._allowed):
            return min(self._leases.values()) - now, 0
        wait = max(self._blocked_until - now, self._requests.wait(now, 1), self._tokens.wait(now, tokens))
        if wait > 0:
            return wait, 0
        self._requests.take(now, 1)
        self._tokens.take(now, tokens)
        self._last_lease += 1
        self._leases[self._last_lease] = now + lease_s
        return 0.0, self._last_lease

    def release(self, lease: int) -> None:
        """The request is over. An unknown or ended lease is fine."""
        if self._leases.pop(lease, None) is not None:
            self._allowed = min(float(self.limits.max_in_flight), self._allowed + 1 / self._allowed)

    def penalise(self, now: float, retry_after: float | None) -> None:
        """A 429 came: hold everyone for ``retry_after`` seconds, or for a growing pause where none was named.

        The many 429s of one burst count once.
        """
        first_of_burst = now >= self._blocked_until
        if now > self._calm_after:
            self._pause = FIRST_PAUSE_S
        pause = self._pause if retry_after is None else retry_after
        if first_of_burst or retry_after is not None:
            self._blocked_until = max(self._blocked_until, now + pause)
        if first_of_burst:
            self._allowed = max(1.0, self._allowed / 2)
            self._pause = min(LONGEST_PAUSE_S, self._pause * 2)
            self._calm_after = self._blocked_until + 2 * self._pause

    @property
    def in_flight(self) -> int:
        """Leases that are held."""
        return len(self._leases)
