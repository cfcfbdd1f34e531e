"""Wait for permits to send: the limiter of this process, and a client for a limiter in another process.

``LocalLimiter`` adds a clock and waiting to the pure ``Limiter``. On a cluster it runs in an actor. There, the callers
in a process share ``acquire_many`` and ``release_many`` messages (``CoalescingLimiter``), so that the number of
messages does not grow with the number of callers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limiter, Limits, RateLimitHeaders

logger = logging.getLogger(__name__)

BLOCK = 256  # project default
"""The most requests in one ``acquire_many``. It is more than are granted at once, and still a small message."""


class LimiterClient(Protocol):
    """The limiter of one endpoint and model."""

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """Wait for a permit to send ``tokens`` (prompt and longest reply). It expires after ``expires_s`` seconds.

        Raises QuestionError if ``tokens`` exceeds the limit per minute.
        """
        ...

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """Release the permit of a request that ended or was never sent, with the rate limits of its reply."""
        ...


@dataclass(frozen=True, slots=True)
class PermitRequest:
    """A request for a permit (see ``LimiterClient.acquire``). ``ticket`` is the requesting process's number for it."""

    ticket: int
    tokens: int
    expires_s: float


@dataclass(slots=True)
class Permits:
    """The answer to an ``acquire_many``, never empty.

    It has permits and refusals (of requests that exceed the limit per minute) by ticket. Tickets that are in neither
    must be requested again.
    """

    granted: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Release:
    """The arguments of ``LimiterClient.release``."""

    permit: int
    headers: RateLimitHeaders = NO_HEADERS
    unsent: bool = False


class LocalLimiter:
    """The limiter of one (endpoint, model) within one event loop, first come, first served.

    Processes take turns, with one permit per turn, so that one with a thousand callers does not starve one with a few.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        # Permit numbers start at the time, because a restarted limiter must not reuse numbers of permits that are still
        # held.
        self._limiter = Limiter(limits, first_permit=time.time_ns())
        self._clock = clock
        self._line: deque[_Turn] = deque()
        self._alarm: asyncio.TimerHandle | None = None

    def join(self, limits: Limits) -> None:
        """Apply the limits of another job (see ``Limiter.join``)."""
        self._limiter.join(self._clock(), limits)
        self._serve()

    @property
    def in_flight(self) -> int:
        """The number of permits that are held."""
        return self._limiter.in_flight

    def state(self) -> dict[str, float]:
        """Return held and allowed permits, waiting requests and remaining seconds of the pause, for display."""
        waiting = sum(len(turn.requests) for turn in self._line)
        paused = self._limiter.paused(self._clock())
        return {"in_flight": self.in_flight, "allowed": self._limiter.allowed, "waiting": waiting, "paused": paused}

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """Wait for a permit (see ``LimiterClient``)."""
        answer = await self.acquire_many([PermitRequest(0, tokens, expires_s)])
        for why in answer.refused.values():
            raise QuestionError(why)
        return answer.granted[0]

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """Release a permit (see ``LimiterClient``)."""
        await self.release_many([Release(permit, headers, unsent)])

    async def acquire_many(self, requests: Sequence[PermitRequest]) -> Permits:
        """Return the available permits for the first ``requests``; wait until there is one, or a refusal."""
        turn = _Turn(deque(requests), Permits(), asyncio.get_running_loop().create_future())
        self._line.append(turn)
        self._serve()
        try:
            return await turn.answer
        except asyncio.CancelledError:
            if turn in self._line:
                self._line.remove(turn)
            for permit in turn.permits.granted.values():  # the caller is gone
                self._limiter.release(permit, unsent=True)
            self._serve()
            raise

    async def release_many(self, released: Sequence[Release]) -> None:
        """Release permits, with the rate limits of their replies."""
        now = self._clock()
        for one in released:
            self._limiter.observe(now, one.permit, one.headers)
            self._limiter.release(one.permit, answered=one.headers.taken, unsent=one.unsent)
        self._serve()

    def _serve(self) -> None:
        """Grant the available permits in rounds, one per turn, and set a timer for the next ones."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self._clock()
        served: list[_Turn] = []
        again: deque[_Turn] = deque()
        while line := self._line or again:
            turn = line[0]
            if turn.answer.done():  # it was just cancelled
                line.popleft()
                continue
            request = turn.requests[0]
            refusal = self._limiter.refusal(request.tokens)
            if refusal is None:
                wait, permit = self._limiter.reserve(now, request.tokens, request.expires_s)
                if wait > 0:
                    if self._line:  # served turns go back to the end of the queue
                        self._alarm = asyncio.get_running_loop().call_later(wait, self._serve)
                    break
                turn.permits.granted[request.ticket] = permit
            else:
                turn.permits.refused[request.ticket] = refusal
            if line is self._line:
                served.append(turn)
            line.popleft()
            turn.requests.popleft()
            if turn.requests:
                again.append(turn)
        for turn in served:
            turn.answer.set_result(turn.permits)


@dataclass(eq=False, slots=True)
class _Turn:
    """A queued ``acquire_many``."""

    requests: deque[PermitRequest]
    permits: Permits
    answer: asyncio.Future[Permits]


class CoalescingLimiter:
    """A ``LimiterClient`` whose callers, on one event loop, share two messages at a time to a limiter elsewhere.

    At most one ``acquire_many`` and one ``release_many`` are under way at a time; requests that arrive meanwhile are
    part of the next message. Callers are served in order of arrival. A permit for a cancelled caller is released as
    soon as it arrives. An exception of ``acquire_many`` is raised in every caller of its message.
    """

    def __init__(
        self,
        acquire_many: Callable[[Sequence[PermitRequest]], Awaitable[Permits]],
        release_many: Callable[[Sequence[Release]], Awaitable[None]],
    ) -> None:
        """Take the methods of a remote ``LocalLimiter``."""
        self._acquire_many, self._release_many = acquire_many, release_many
        self._tickets = itertools.count()
        self._callers: dict[int, tuple[PermitRequest, asyncio.Future[int]]] = {}  # by ticket, in order of arrival
        self._acquiring: asyncio.Task[None] | None = None
        self._released: list[Release] = []
        self._next_post: asyncio.Task[None] | None = None  # the message that will send all of ``_released``
        self._posts: set[asyncio.Task[None]] = set()
        self._one_post = asyncio.Lock()

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """Wait for a permit (see ``LimiterClient``)."""
        loop = asyncio.get_running_loop()
        ticket = next(self._tickets)
        permit: asyncio.Future[int] = loop.create_future()
        self._callers[ticket] = PermitRequest(ticket, tokens, expires_s), permit
        if self._acquiring is None:
            self._acquiring = loop.create_task(self._acquire_while_wanted())
        try:
            return await permit
        except asyncio.CancelledError:
            self._callers.pop(ticket, None)
            if permit.done() and not permit.cancelled() and permit.exception() is None:  # granted just now
                self._post([Release(permit.result(), unsent=True)])
            raise

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """Release a permit (see ``LimiterClient``); return once the limiter has received it."""
        await asyncio.shield(self._post([Release(permit, headers, unsent)]))

    async def _acquire_while_wanted(self) -> None:
        try:
            await asyncio.sleep(0)  # let concurrent callers share a message
            while self._callers:
                requests = [request for request, _ in islice(self._callers.values(), BLOCK)]
                try:
                    self._hand_out(await self._acquire_many(requests))
                except Exception as error:
                    for request in requests:
                        self._fail(request.ticket, error)
        finally:
            self._acquiring = None

    def _hand_out(self, permits: Permits) -> None:
        unwanted: list[Release] = []
        for ticket, permit in permits.granted.items():
            _, caller = self._callers.pop(ticket, (None, None))
            if caller is None or caller.done():
                unwanted.append(Release(permit, unsent=True))
            else:
                caller.set_result(permit)
        for ticket, why in permits.refused.items():
            self._fail(ticket, QuestionError(why))
        if unwanted:
            self._post(unwanted)

    def _fail(self, ticket: int, error: Exception) -> None:
        _, caller = self._callers.pop(ticket, (None, None))
        if caller is not None and not caller.done():
            caller.set_exception(error)

    def _post(self, released: Sequence[Release]) -> asyncio.Task[None]:
        """Return the task of the message that will release these permits."""
        self._released.extend(released)
        if self._next_post is None:
            self._next_post = asyncio.get_running_loop().create_task(self._send())
            self._posts.add(self._next_post)
            self._next_post.add_done_callback(self._sent)
        return self._next_post

    async def _send(self) -> None:
        async with self._one_post:
            self._next_post = None
            released, self._released = self._released, []
            await self._release_many(released)

    def _sent(self, post: asyncio.Task[None]) -> None:
        self._posts.discard(post)
        if not post.cancelled() and (error := post.exception()) is not None:
            logger.warning("Permits were not released, and will expire: %s: %s", type(error).__name__, error)
