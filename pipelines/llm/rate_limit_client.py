"""All callers of one process behind one message: the process's side of leases in blocks.

At most one ``take`` and one ``release_many`` are on their way at a time, however many callers wait; what comes meanwhile
goes with the next. Callers are served in order of arrival.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.llm.rate_limit import (
    NO_HEADERS,
    AcquireMany,
    Limiter,
    Limits,
    PermitRequest,
    Permits,
    RateLimitHeaders,
    Release,
    ReleaseMany,
)
from okralong.pipelines.llm.records import Permit

logger = logging.getLogger(__name__)

BLOCK = 256
"""Most callers in one ``take``: more than any answer to it serves at once, and a small message. Ours."""


@dataclass(frozen=True, eq=False, slots=True)
class _Caller:
    ask: PermitRequest
    permit: asyncio.Future[int]


class CoalescingLimiter:
    """A ``LimiterClient`` for any number of callers of one event loop, over the two messages of ``leases.py``.

    A caller that is cancelled while its ask is on the way gets no lease: it is given back as soon as it comes. An error
    of ``take`` is raised in every caller that it was for.
    """

    def __init__(self, acquire_many: AcquireMany, release_many: ReleaseMany) -> None:
        self._acquire_many, self._release_many = acquire_many, release_many
        self._tickets = itertools.count()
        self._callers: dict[int, _Caller] = {}  # by ticket, in order of arrival
        self._taking: asyncio.Task[None] | None = None
        self._ended: list[Release] = []
        self._next_post: asyncio.Task[None] | None = None  # takes along what is in ``_ended`` when its turn comes
        self._posts: set[asyncio.Task[None]] = set()
        self._one_post = asyncio.Lock()

    async def acquire(self, tokens: int, expires_s: float) -> Permit:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        caller = _Caller(PermitRequest(next(self._tickets), tokens, expires_s), loop.create_future())
        self._callers[caller.ask.ticket] = caller
        if self._taking is None:
            self._taking = loop.create_task(self._acquire_while_wanted())
        try:
            permit = await caller.permit
        except asyncio.CancelledError:
            self._callers.pop(caller.ask.ticket, None)
            if _came(caller.permit):  # in the same moment
                self._give_back([Release(caller.permit.result(), unsent=True)])
            raise
        return Permit(permit, time.perf_counter() - start)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``); returns when the limiter knows."""
        await asyncio.shield(self._give_back([Release(permit, headers, unsent)]))

    async def _acquire_while_wanted(self) -> None:
        try:
            await asyncio.sleep(0)  # callers of the same moment go together
            while self._callers:
                requests = [caller.ask for caller in islice(self._callers.values(), BLOCK)]
                try:
                    self._hand_out(await self._acquire_many(requests))
                except Exception as error:
                    for ask in requests:
                        self._fail(ask.ticket, error)
        finally:
            self._taking = None

    def _hand_out(self, taken: Permits) -> None:
        unwanted: list[Release] = []
        for ticket, permit in taken.granted.items():
            caller = self._callers.pop(ticket, None)
            if caller is None or caller.permit.done():
                unwanted.append(Release(permit, unsent=True))
            else:
                caller.permit.set_result(permit)
        for ticket, why in taken.refused.items():
            self._fail(ticket, QuestionError(why))
        if unwanted:
            self._give_back(unwanted)

    def _fail(self, ticket: int, error: Exception) -> None:
        caller = self._callers.pop(ticket, None)
        if caller is not None and not caller.permit.done():
            caller.permit.set_exception(error)

    def _give_back(self, ended: Sequence[Release]) -> asyncio.Task[None]:
        """The message that will take these along."""
        self._ended.extend(ended)
        if self._next_post is None:
            self._next_post = asyncio.get_running_loop().create_task(self._post())
            self._posts.add(self._next_post)
            self._next_post.add_done_callback(self._posted)
        return self._next_post

    async def _post(self) -> None:
        async with self._one_post:
            self._next_post = None
            ended, self._ended = self._ended, []
            await self._release_many(ended)

    def _posted(self, post: asyncio.Task[None]) -> None:
        self._posts.discard(post)
        if not post.cancelled() and (error := post.exception()) is not None:
            logger.warning("Leases were not given back, and end by themselves: %s: %s", type(error).__name__, error)


def _came(permit: asyncio.Future[int]) -> bool:
    return permit.done() and not permit.cancelled() and permit.exception() is None


# --------
# The limiter in this process: the pure one, with a clock and waiting added. First come, first served.
#
# It serves callers one by one (``LimiterClient``) and processes by the block (``leases.py``). Processes take turns:
# each gets leave for one request, then the next, so that one with a thousand callers does not starve one with a few.


@dataclass(eq=False, slots=True)
class _Turn:
    """One ``take`` in the line."""

    requests: deque[PermitRequest]
    taken: Permits
    answer: asyncio.Future[Permits]


class LocalLimiter:
    """One (endpoint, model) within one event loop."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        # Leases that a limiter gave before it was started again are not among those of the new one.
        self._limiter = Limiter(limits, first_permit=time.time_ns())
        self._clock = clock
        self._line: deque[_Turn] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._tickets = itertools.count()

    def join(self, limits: Limits) -> None:
        """Take a further job's limits (see ``Limiter.join``)."""
        self._limiter.join(self._clock(), limits)
        self._serve()

    @property
    def in_flight(self) -> int:
        """Leases that are held."""
        return self._limiter.in_flight

    def state(self) -> dict[str, float]:
        """Leases held and allowed, requests that wait, and seconds of pause left, for those who watch."""
        waiting = sum(len(turn.requests) for turn in self._line)
        paused = self._limiter.paused(self._clock())
        return {"in_flight": self.in_flight, "allowed": self._limiter.allowed, "waiting": waiting, "paused": paused}

    async def acquire(self, tokens: int, expires_s: float) -> Permit:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        start = self._clock()
        ask = PermitRequest(next(self._tickets), tokens, expires_s)
        taken = await self.acquire_many([ask])
        if ask.ticket in taken.refused:
            raise QuestionError(taken.refused[ask.ticket])
        return Permit(taken.granted[ask.ticket], self._clock() - start)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``)."""
        await self.release_many([Release(permit, headers, unsent)])

    async def acquire_many(self, requests: Sequence[PermitRequest]) -> Permits:
        """Leases for the first of these requests, as many as there are now; waits until there is one (see ``AcquireMany``)."""
        turn = _Turn(deque(requests), Permits(), asyncio.get_running_loop().create_future())
        self._line.append(turn)
        self._serve()
        try:
            return await turn.answer
        except asyncio.CancelledError:
            if turn in self._line:
                self._line.remove(turn)
            for permit in turn.taken.granted.values():  # granted, and nobody there to hear of it
                self._limiter.release(permit, unsent=True)
            self._serve()
            raise

    async def release_many(self, returned: Sequence[Release]) -> None:
        """Take leases back, and what their replies say of the limits."""
        now = self._clock()
        for one in returned:
            self._limiter.observe(now, one.permit, one.headers)
            self._limiter.release(one.permit, answered=one.headers.taken, unsent=one.unsent)
        self._serve()

    def _serve(self) -> None:
        """Give what can be given now, one request a turn and round again, and set the alarm for the next."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now = self._clock()
        served: list[_Turn] = []
        again: deque[_Turn] = deque()
        while line := self._line or again:
            turn = line[0]
            if turn.answer.done():  # cancelled a moment ago
                line.popleft()
                continue
            ask = turn.requests[0]
            refusal = self._limiter.refusal(ask.tokens)
            if refusal is None:
                wait, permit = self._limiter.reserve(now, ask.tokens, ask.expires_s)
                if wait > 0:
                    if self._line:  # those who were served already ask again, at the end of the line
                        self._alarm = asyncio.get_running_loop().call_later(wait, self._serve)
                    break
                turn.taken.granted[ask.ticket] = permit
            else:
                turn.taken.refused[ask.ticket] = refusal
            if line is self._line:
                served.append(turn)
            line.popleft()
            turn.requests.popleft()
            if turn.requests:
                again.append(turn)
        for turn in served:
            turn.answer.set_result(turn.taken)
