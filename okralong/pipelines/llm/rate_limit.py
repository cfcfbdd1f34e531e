"""Enforce an account's rate limits exactly, on the client's side: pure logic, without threads or a clock.

``Limiter`` is the state of one endpoint and model: permits in flight, requests and tokens per minute (``Quota``), and
the pause after a 429. It also learns limits from the headers of replies (``read_headers``). ``now`` is
always in seconds of one monotonic clock.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S = 1.0  # project default
"""Seconds of pause after a 429 that states no time. It doubles with each 429 that follows soon, up to
``LONGEST_PAUSE_S``."""
LONGEST_PAUSE_S = 60.0
MINUTE_S = 60.0
WINDOW_S = 61.0  # project default
"""Length of the window in seconds: more than a minute, because requests may arrive closer together than they were
admitted."""
SLOT_S = 0.1  # project default
"""Length of a slot in seconds. Admissions within a slot are stored as one number, and leave the window together."""
LAG_S = 1.0  # project default
"""The most seconds between the admission of a request and its arrival at the server; the intent is written in
between."""
SLICE_S = 1.0
"""Length of a slice in seconds. Servers may enforce a minute's limit in slices: OpenAI's guide mentions 60,000 a minute
as 1,000 a second."""
LONG_SLACK = 0.02  # project default
"""A request of a whole slice or more waits longer by this share of its time, since the time from permit to arrival
varies."""
OTHERS_GO_ON = 0.03  # project default
"""Share of the limit that is left to other clients of the account, in addition to their observed use."""
RESET_SLACK_S = 1.0  # project default
"""The use of other clients counts until this many seconds after the reset that the server states."""

_COUNT: Final = re.compile(r"[0-9]{1,15}")
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_SECONDS: Final = re.compile(_NUMBER)
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:ms|us|µs|ns|d|h|m|s))+")
_PART: Final = re.compile(rf"({_NUMBER})(ms|us|µs|ns|d|h|m|s)")
_UNITS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests and tokens per minute (None: unlimited), and the most concurrent requests."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_in_flight: int = 64


def stricter(one: Limits, other: Limits) -> Limits:
    """Return the stricter limits of two, field by field."""
    return Limits(
        _least(one.requests_per_minute, other.requests_per_minute),
        _least(one.tokens_per_minute, other.tokens_per_minute),
        min(one.max_in_flight, other.max_in_flight),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return min((limit for limit in (one, other) if limit is not None), default=None)


@dataclass(frozen=True, slots=True)
class _Held:
    granted: float
    ends: float
    tokens: int


class Limiter:
    """The state of one (endpoint, model).

    *Window*: admissions in any minute never exceed the limit. A request counts with its prompt plus ``max_tokens``, as
    at the server, and the use by other clients of the account, as the headers of replies show it, counts too. *Pace*:
    admissions are spread evenly, because servers also enforce a minute's limit in slices of a second.

    A 429 pauses all requests for the stated time and halves the number that may be in flight. Replies gradually restore
    it.
    """

    def __init__(self, limits: Limits, first_permit: int = 1) -> None:
        """Start with unused limits. Permits are numbered from ``first_permit``, to differ from an earlier limiter's."""
        self.limits = limits
        self._requests = Quota(limits.requests_per_minute)
        self._tokens = Quota(limits.tokens_per_minute)
        self._allowed = float(limits.max_in_flight)
        self._permits: dict[int, _Held] = {}
        self._ends: list[tuple[float, int]] = []  # a heap; it still contains released permits
        self._next_permit = first_permit
        self._blocked_until = -math.inf
        self._slowed_at = -math.inf
        self._pause = FIRST_PAUSE_S
        self._calm_after = -math.inf

    def join(self, now: float, limits: Limits) -> None:
        """Apply the limits of another job. Admissions of the last minute still count.

        While requests of an earlier job are in flight, the stricter limits of both apply, and halving after a 429 stays
        in effect. Limits stated by the server are kept, since they are the account's.
        """
        self._forget_ended(now)
        alone = not self._permits
        self.limits = limits if alone else stricter(self.limits, limits)
        self._requests.relimit(now, self.limits.requests_per_minute)
        self._tokens.relimit(now, self.limits.tokens_per_minute)
        most = float(self.limits.max_in_flight)
        self._allowed = most if alone else min(self._allowed, most)

    def refusal(self, tokens: int) -> str | None:
        """Return why a request of ``tokens`` can never be admitted, because it exceeds a minute's limit; else None."""
        if tokens <= self._tokens.limit:
            return None
        named = "the endpoint's limit of tokens per minute" if self._tokens.named_by_server else "llm.tokens_per_minute"
        return (
            f"A request of {tokens} tokens (prompt and longest reply) is larger than {named} = "
            f"{self._tokens.limit:.0f}, so the endpoint would never accept it. Raise that limit if the account "
            "allows it, or show less context."
        )

    def reserve(self, now: float, tokens: int, expires_s: float) -> tuple[float, int]:
        """Return ``(wait, permit)``. If wait is 0, the request may be sent now and holds ``permit`` until released.

        Otherwise nothing was reserved: try again after ``wait`` seconds or a release, whichever comes first. A permit
        that is not released, because its holder was killed, expires after ``expires_s`` seconds. Call ``refusal``
        before.
        """
        self._forget_ended(now)
        if len(self._permits) >= self.allowed:
            return self._ends[0][0] - now, 0
        wait = max(self._blocked_until - now, self._requests.wait(now, 1), self._tokens.wait(now, tokens))
        if wait > 0:
            return wait, 0
        self._requests.take(now, 1)
        self._tokens.take(now, tokens)
        permit = self._next_permit
        self._next_permit += 1
        self._permits[permit] = _Held(now, now + expires_s, tokens)
        heapq.heappush(self._ends, (now + expires_s, permit))
        return 0.0, permit

    def observe(self, now: float, permit: int, headers: RateLimitHeaders) -> None:
        """Learn from the headers of the reply to the request that holds ``permit``. Call it before ``release``."""
        held = self._permits.get(permit)
        if held is not None:
            self._requests.observe(now, held.granted, 1, headers.requests, taken=headers.taken)
            self._tokens.observe(now, held.granted, held.tokens, headers.tokens, taken=headers.taken)
        if headers.slow_down:
            self.slow_down(now, headers.retry_after, None if held is None else held.granted)

    def release(self, permit: int, *, answered: bool = True, unsent: bool = False) -> None:
        """Release a permit; unknown and expired ones are ignored.

        ``answered`` means that the request succeeded, which undoes a part of the halving after a 429. ``unsent`` means
        that it was never sent, so that it does not count.
        """
        held = self._permits.pop(permit, None)
        if held is None:
            return
        if unsent:
            self._requests.refund(held.granted, 1)
            self._tokens.refund(held.granted, held.tokens)
        elif answered:
            self._allowed = min(float(self.limits.max_in_flight), self._allowed + 1 / self._allowed)

    def slow_down(self, now: float, retry_after: float | None, granted: float | None = None) -> None:
        """Pause all requests after a 429, for ``retry_after`` seconds, or if it is None for a growing time.

        All 429s of a burst count as one: those that arrive during the pause, and those that answer a request whose
        permit was ``granted`` before the pause, however late they arrive.
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
        """The number of permits that are held."""
        return len(self._permits)

    @property
    def allowed(self) -> int:
        """The number of permits that may currently be held: as configured, or less after a 429."""
        return int(self._allowed)

    def paused(self, now: float) -> float:
        """Return the remaining seconds of the pause after a 429."""
        return max(0.0, self._blocked_until - now)

    def _forget_ended(self, now: float) -> None:
        while self._ends and (self._ends[0][0] <= now or self._ends[0][1] not in self._permits):
            self._permits.pop(heapq.heappop(self._ends)[1], None)


@dataclass(slots=True)
class _Slot:
    number: int
    amount: int

    @property
    def start(self) -> float:
        return self.number * SLOT_S


class Quota:
    """One limit of a ``Limiter``, on requests or tokens per minute. ``limit`` is the configured one, or None.

    *Window*: admissions in any minute never exceed the smaller of the configured and the server's limit. *Others*: our
    admissions plus the use by other clients never exceed the server's limit. *Pace*: admissions are spread evenly,
    since a server may enforce the limit in slices of a second: after a pause at most half a slice is admitted at once,
    and a request of a whole slice waits until the rate has made up for all earlier ones.

    Admissions in the same tenth of a second are stored as one number, so there are at most 610 numbers.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._own = math.inf if limit is None else float(limit)
        self._server = math.inf
        self._window: deque[_Slot] = deque()
        self._past: deque[_Slot] = deque()  # slots that have left the window, to which a slow reply may still refer
        self._total = 0
        self._paid_at = -math.inf  # time at which the server's slice is fully available again
        self._others = 0
        self._others_until = -math.inf
        self._ceiling = math.inf  # the limit on us and other clients together
        self._heard_of = -math.inf
        self._largest_taken = 0

    @property
    def limit(self) -> float:
        """The limit per minute, infinite if neither the config nor the server states one."""
        return min(self._own, self._server)

    @property
    def named_by_server(self) -> bool:
        """True if ``limit`` is the server's and not the configured one."""
        return self._server < self._own

    def relimit(self, now: float, limit: int | None) -> None:
        """Change the configured limit."""
        self._change(now, math.inf if limit is None else float(limit), self._server)

    def wait(self, now: float, amount: int) -> float:
        """Return the seconds until ``amount``, which must not exceed ``limit``, may be admitted."""
        self._age(now)
        wait = max(0.0, self._paid_at - self._lead(amount) - now, self._freed(now, self._total + amount - self.limit))
        if self._others and now < self._others_until:
            # This rule ends at ``_others_until``, even if the limit has changed since.
            over = self._total + self._others + amount - self._ceiling
            wait = max(wait, min(self._freed(now, over), self._others_until - now))
        return wait

    def take(self, now: float, amount: int) -> None:
        """Admit ``amount``."""
        number = int(now // SLOT_S)
        if not self._window or self._window[-1].number != number:
            self._window.append(_Slot(number, 0))
        self._window[-1].amount += amount
        self._total += amount
        self._paid_at = max(self._paid_at, now) + self._takes(amount)

    def refund(self, at: float, amount: int) -> None:
        """Take back an admission at ``at`` that was never sent."""
        for slot in reversed(self._window):
            if slot.number == int(at // SLOT_S):
                slot.amount -= amount
                self._total -= amount
                self._paid_at = self._paid_at - self._takes(amount) if self._total else -math.inf
                return

    def observe(self, now: float, at: float, amount: int, said: LimitHeaders, *, taken: bool) -> None:
        """Learn about this limit from the headers of a reply; its request was admitted at ``at`` and took ``amount``.

        Replies may arrive out of order, so statements older than the latest one are ignored, and so is a limit that is
        smaller than an accepted request.
        """
        self._age(now)
        if taken:
            self._largest_taken = max(self._largest_taken, amount)
        if at < self._heard_of:
            return
        self._heard_of = at
        if said.limit is not None:
            if said.limit < self._largest_taken:
                return
            self._change(now, self._own, float(said.limit))
        known = self.limit if said.limit is None else float(said.limit)
        if said.remaining is None or said.remaining > known or known == math.inf or now - at > WINDOW_S:
            return
        # Use that exceeds all that we can have sent by then is by other clients, and counts from now on. If the server
        # refused the request, requests that we admitted after it do not count as ours.
        ours = self._admitted(at - MINUTE_S, at + (LAG_S if taken else 0.0))
        others = int(known) - said.remaining - ours
        self._others = others + math.ceil(known * OTHERS_GO_ON) if others > 0 else 0
        self._others_until = now + min(WINDOW_S, math.inf if said.reset_s is None else said.reset_s + RESET_SLACK_S)
        self._ceiling = known

    def _change(self, now: float, own: float, server: float) -> None:
        before = self.limit
        self._own, self._server = own, server
        if self._paid_at > now and before < math.inf:  # rescale the remaining time, to a minute at most
            self._paid_at = now + min(WINDOW_S, (self._paid_at - now) * before / self.limit)

    def _takes(self, amount: int) -> float:
        """Return the seconds that ``amount`` takes at the limit's rate."""
        return amount * WINDOW_S / self.limit

    def _lead(self, amount: int) -> float:
        """Return how many seconds before the slice is full ``amount`` may be admitted: half of what it leaves."""
        takes = self._takes(amount)
        return (SLICE_S - takes) / 2 if takes < SLICE_S else -LONG_SLACK * takes

    def _age(self, now: float) -> None:
        while self._window and self._window[0].start + WINDOW_S <= now:
            slot = self._window.popleft()
            self._total -= slot.amount
            self._past.append(slot)
        while self._past and self._past[0].start + 2 * WINDOW_S + LAG_S <= now:
            self._past.popleft()

    def _freed(self, now: float, excess: float) -> float:
        """Return the seconds until ``excess`` has left the window; infinite if the window has less."""
        if excess <= 0:
            return 0.0
        for slot in self._window:
            excess -= slot.amount
            if excess <= 0:
                return max(0.0, slot.start + WINDOW_S - now)
        return math.inf

    def _admitted(self, after: float, until: float) -> int:
        return sum(_between(self._past, after, until)) + sum(_between(self._window, after, until))


def _between(slots: Iterable[_Slot], after: float, until: float) -> Iterable[int]:
    return (slot.amount for slot in slots if after < slot.start + SLOT_S and slot.start <= until)


@dataclass(frozen=True, slots=True)
class LimitHeaders:
    """A limit as the server states it: per minute, what remains, and the seconds until all of it is available.

    A field that is missing or impossible is None.
    """

    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimitHeaders:
    """The limits in the headers of a reply, as they were when the server accepted or refused the request.

    OpenAI, Azure and many proxies send ``x-ratelimit-limit-requests``, ``-remaining-requests``, ``-reset-requests`` and
    the same for tokens. Some omit fields; some send -1, or 0 for an account without limits. Missing, negative and
    non-numeric values and limits of zero are ignored. So is the remainder of such a limit, and a remainder that is
    larger than its limit: a bucket may hold more than a minute's amount, and then it does not show the use by others.

    ``taken`` means that the server accepted the request, so that no limit is smaller. ``slow_down`` means that it asks
    for fewer requests (by a 429, or any ``Retry-After``) and, if it states a time, for none within ``retry_after``
    seconds.
    """

    requests: LimitHeaders = LimitHeaders()
    tokens: LimitHeaders = LimitHeaders()
    taken: bool = False
    slow_down: bool = False
    retry_after: float | None = None


NO_HEADERS: Final = RateLimitHeaders()
"""The headers of a request that has no reply or was never sent."""


def read_limit(headers: Mapping[str, str], what: str) -> LimitHeaders:
    """Read the three fields of ``what``, "requests" or "tokens"."""
    named = headers.get(f"x-ratelimit-limit-{what}", "")
    limit = _count(named) or None
    remaining = _count(headers.get(f"x-ratelimit-remaining-{what}", ""))
    if remaining is not None and named and (limit is None or remaining > limit):
        remaining = None
    return LimitHeaders(limit, remaining, duration(headers.get(f"x-ratelimit-reset-{what}", "")))


def read_headers(
    headers: Mapping[str, str], *, taken: bool, slow_down: bool = False, retry_after: float | None = None
) -> RateLimitHeaders:
    """Read the headers of a reply; their names must be in lower case."""
    return RateLimitHeaders(
        read_limit(headers, "requests"), read_limit(headers, "tokens"), taken, slow_down, retry_after
    )


def duration(text: str) -> float | None:
    """Return the seconds of "6ms", "1s", "1m2.3s", "1h0m2s" or a plain number; None for anything else."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _count(text: str) -> int | None:
    text = text.strip()
    return int(text) if _COUNT.fullmatch(text) else None
