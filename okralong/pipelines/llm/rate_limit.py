"""When the next request may go out: the account's limits, kept exactly, with no thread and no clock of its own.

``Limiter`` is the state of one endpoint and model: permits in flight, requests and tokens per minute (``Quota``), and
the pause after a 429. What the server's replies say of its limits is read by ``read_headers`` and observed. Every
``now`` is in seconds of one clock that never goes back.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S = 1.0
"""Pause after a 429 that names no time; doubled for each that follows closely, up to the longest. Ours."""
LONGEST_PAUSE_S = 60.0
MINUTE_S = 60.0
WINDOW_S = 61.0
"""A minute and a second: requests admitted in order may arrive a little closer together. Ours."""
SLOT_S = 0.1
"""Admissions of this many seconds are counted together, and leave the window with the first of them. Ours."""
LAG_S = 1.0
"""A request reaches the server about so long after it was admitted, at most: its intent is written in between. Ours."""
SLICE_S = 1.0
"""Servers enforce a minute's limit in slices: OpenAI's guide names 60,000 a minute as 1,000 a second."""
LONG_SLACK = 0.02
"""What takes a whole slice or more waits this part of its time beyond the moment at which the slice is full again,
since requests do not all take the same time from their permit to the server. Ours."""
OTHERS_GO_ON = 0.03
"""Part of the limit that is left free for others beside what they used until now, once there are any. Ours."""
RESET_SLACK_S = 1.0
"""How much longer than the server's word what others used is counted. Ours."""

_COUNT: Final = re.compile(r"[0-9]{1,15}")
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_SECONDS: Final = re.compile(_NUMBER)
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:ms|us|µs|ns|d|h|m|s))+")
_PART: Final = re.compile(rf"({_NUMBER})(ms|us|µs|ns|d|h|m|s)")
_UNITS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


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
class _Held:
    granted: float
    ends: float
    tokens: int


class Limiter:
    """The state of one (endpoint, model).

    Two rules hold together. The *window* rule: what was admitted in any minute never passes the limit, counted as the
    server counts it, prompt plus ``max_tokens`` at admission; what others use of the account, as the replies' headers
    tell, counts as well. The *pace* rule: admissions are spread evenly, because servers also enforce a minute's limit
    in slices of a second. A 429 stops everyone until its time is over, and halves the number of requests in flight
    once; each reply then gives a little of it back.
    """

    def __init__(self, limits: Limits, first_permit: int = 1) -> None:
        """Permits are numbered from ``first_permit``, so that one limiter's are never taken for its predecessor's."""
        self.limits = limits
        self._requests = Quota(limits.requests_per_minute)
        self._tokens = Quota(limits.tokens_per_minute)
        self._allowed = float(limits.max_in_flight)
        self._permits: dict[int, _Held] = {}
        self._ends: list[tuple[float, int]] = []  # a heap; permits that were released are still in it
        self._next_permit = first_permit
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
        alone = not self._permits
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

    def reserve(self, now: float, tokens: int, expires_s: float) -> tuple[float, int]:
        """``(wait, permit)``: with wait 0 the request may go out now and holds ``permit`` until released.

        Otherwise nothing was taken: ask again after ``wait`` seconds or a release, whichever comes first. A permit that
        nobody releases (its holder was killed) ends by itself after ``expires_s``. ``tokens`` that have a ``refusal``
        must not be asked for.
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
        """What the reply to the request that holds ``permit`` says of the limits. Comes before its release."""
        held = self._permits.get(permit)
        if held is not None:
            self._requests.observe(now, held.granted, 1, headers.requests, taken=headers.taken)
            self._tokens.observe(now, held.granted, held.tokens, headers.tokens, taken=headers.taken)
        if headers.slow_down:
            self.slow_down(now, headers.retry_after, None if held is None else held.granted)

    def release(self, permit: int, *, answered: bool = True, unsent: bool = False) -> None:
        """The request is over. An unknown or ended permit is fine.

        ``answered``: the endpoint did what it was asked, so a 429's halving is undone by a little. ``unsent``: it never
        went out, so it does not count against the minute.
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
        """A 429 came: hold everyone for ``retry_after`` seconds, or for a growing pause where none was named.

        The many of one burst count once: those that come while everyone is held already, and those to requests that
        were ``granted`` a permit before the last slowing, however late they come.
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
        """Permits that are held."""
        return len(self._permits)

    @property
    def allowed(self) -> int:
        """Permits that may be held at a time now: the config's number, less after a 429."""
        return int(self._allowed)

    def paused(self, now: float) -> float:
        """Seconds for which everyone is still held after a 429."""
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
    """Requests per minute, or tokens per minute. ``limit`` is the config's, None where it names none.

    Admissions of the same tenth of a second are kept as one number, so that a minute is at most 610 of them, however
    many requests it holds. Three rules hold together. *Window*: what was admitted in any minute never passes the limit,
    which is the smaller of the config's and the server's. *Others*: what was admitted here and what others used of the
    account never pass the server's limit together. *Pace*: admissions are spread evenly over the minute, as a server
    that enforces it in slices of a second has to see them: after a pause at most half a slice goes out at once, and
    what takes a slice by itself waits until all that went before it is paid off.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._own = math.inf if limit is None else float(limit)
        self._server = math.inf
        self._window: deque[_Slot] = deque()
        self._past: deque[_Slot] = deque()  # has left the window; a slow reply may still be held against it
        self._total = 0
        self._paid_at = -math.inf  # when the server's slice is full again, if nothing more is admitted
        self._others = 0
        self._others_until = -math.inf
        self._ceiling = math.inf  # what those others and we have together
        self._heard_of = -math.inf
        self._largest_taken = 0

    @property
    def limit(self) -> float:
        """What a minute may hold; infinite where neither the config nor the server has named a limit."""
        return min(self._own, self._server)

    @property
    def named_by_server(self) -> bool:
        """Whether the limit that holds is the server's and not the config's."""
        return self._server < self._own

    def relimit(self, now: float, limit: int | None) -> None:
        """The config's limit from now on."""
        self._change(now, math.inf if limit is None else float(limit), self._server)

    def wait(self, now: float, amount: int) -> float:
        """Seconds until ``amount`` may be admitted, 0 for now; it must be no larger than ``limit``."""
        self._age(now)
        wait = max(0.0, self._paid_at - self._lead(amount) - now, self._freed(now, self._total + amount - self.limit))
        if self._others and now < self._others_until:
            # The rule ends with what others used; by then the limit may be another than the one that they left.
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
        """What was admitted at ``at`` was never sent, so the server has not counted it either."""
        for slot in reversed(self._window):
            if slot.number == int(at // SLOT_S):
                slot.amount -= amount
                self._total -= amount
                self._paid_at = self._paid_at - self._takes(amount) if self._total else -math.inf
                return

    def observe(self, now: float, at: float, amount: int, said: LimitHeaders, *, taken: bool) -> None:
        """The reply to a request of ``amount``, admitted at ``at``, says so much of this limit.

        Replies come out of order: one that describes an earlier moment than what is known changes nothing. A limit
        smaller than a request that the server has taken is not believed.
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
        # Whoever used more than all that we can have sent by then, it was not us. It counts as admitted now. Where the
        # server had no room left, what was sent after this request and came before it is no excuse.
        ours = self._admitted(at - MINUTE_S, at + (LAG_S if taken else 0.0))
        others = int(known) - said.remaining - ours
        self._others = others + math.ceil(known * OTHERS_GO_ON) if others > 0 else 0
        self._others_until = now + min(WINDOW_S, math.inf if said.reset_s is None else said.reset_s + RESET_SLACK_S)
        self._ceiling = known

    def _change(self, now: float, own: float, server: float) -> None:
        before = self.limit
        self._own, self._server = own, server
        if self._paid_at > now and before < math.inf:  # what is owed to the pace is an amount, at most a minute's
            self._paid_at = now + min(WINDOW_S, (self._paid_at - now) * before / self.limit)

    def _takes(self, amount: int) -> float:
        """Seconds of the limit's rate that ``amount`` uses up."""
        return amount * WINDOW_S / self.limit

    def _lead(self, amount: int) -> float:
        """How long before all is paid off ``amount`` may go out, in seconds: the half of what its slice has left."""
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
        """Seconds until ``excess`` of what was admitted has left the window; infinite when there is not so much."""
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
    """One limit in the server's words: per minute, what is left of it, and in how many seconds all of it is back.

    None is what the server did not say, or said unbelievably.
    """

    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class RateLimitHeaders:
    """What the headers of one reply say of the limits, at the moment when the server took the request or refused it.

    Each field is believed only where it can be true. OpenAI, Azure and many proxies send
    ``x-ratelimit-limit-requests``, ``-remaining-requests``, ``-reset-requests`` and the same for tokens. Some leave
    fields out; some send -1, or 0 for an account without limits. Whatever is absent, negative, not a number, or a limit
    of zero is as if it had not been sent. So is a remainder of such a limit, and one that is larger than its limit: a
    bucket may hold more than a minute's worth, which says nothing of who used what.

    ``taken``: the server accepted the request, so no limit is smaller than it. ``slow_down``: it asks for fewer
    requests (a 429, or any ``Retry-After``), and for none in the next ``retry_after`` seconds where it names a time.
    """

    requests: LimitHeaders = LimitHeaders()
    tokens: LimitHeaders = LimitHeaders()
    taken: bool = False
    slow_down: bool = False
    retry_after: float | None = None


NO_HEADERS: Final = RateLimitHeaders()
"""Of a request that had no reply, or was never sent."""


def read_limit(headers: Mapping[str, str], what: str) -> LimitHeaders:
    """The three fields of ``what``, "requests" or "tokens"."""
    named = headers.get(f"x-ratelimit-limit-{what}", "")
    limit = _count(named) or None
    remaining = _count(headers.get(f"x-ratelimit-remaining-{what}", ""))
    if remaining is not None and named and (limit is None or remaining > limit):
        remaining = None
    return LimitHeaders(limit, remaining, duration(headers.get(f"x-ratelimit-reset-{what}", "")))


def read_headers(
    headers: Mapping[str, str], *, taken: bool, slow_down: bool = False, retry_after: float | None = None
) -> RateLimitHeaders:
    """All that the headers of one reply say; their names are looked up in small letters."""
    return RateLimitHeaders(
        read_limit(headers, "requests"), read_limit(headers, "tokens"), taken, slow_down, retry_after
    )


def duration(text: str) -> float | None:
    """Seconds of "6ms", "1s", "1m2.3s", "1h0m2s" or a plain number; None for anything else, also what is negative."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _count(text: str) -> int | None:
    text = text.strip()
    return int(text) if _COUNT.fullmatch(text) else None
