"""The limiter in this process: the pure one, with a clock and waiting added. First come, first served.

It serves callers one by one (``LimiterClient``) and processes by the block (``leases.py``). Processes take turns: each
gets leave for one request, then the next, so that one with a thousand callers does not starve one with a few.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.llm.leases import Ask, Returned, Taken
from okralong.pipelines.answering.llm.limiter import Limiter, Limits
from okralong.pipelines.answering.llm.ports import Grant
from okralong.pipelines.answering.llm.quota_headers import SILENT, Notice
from okralong.pipelines.core.types import QuestionError


@dataclass(eq=False, slots=True)
class _Turn:
    """One ``take`` in the line."""

    asks: deque[Ask]
    taken: Taken
    answer: asyncio.Future[Taken]


class LocalLimiter:
    """One (endpoint, model) within one event loop."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        # Leases that a limiter gave before it was started again are not among those of the new one.
        self._limiter = Limiter(limits, first_lease=time.time_ns())
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
        waiting = sum(len(turn.asks) for turn in self._line)
        paused = self._limiter.paused(self._clock())
        return {"in_flight": self.in_flight, "allowed": self._limiter.allowed, "waiting": waiting, "paused": paused}

    async def acquire(self, tokens: int, lease_s: float) -> Grant:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        start = self._clock()
        ask = Ask(next(self._tickets), tokens, lease_s)
        taken = await self.take([ask])
        if ask.ticket in taken.refused:
            raise QuestionError(taken.refused[ask.ticket])
        return Grant(taken.granted[ask.ticket], self._clock() - start)

    async def release(self, lease: int, notice: Notice = SILENT, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``)."""
        await self.put_back([Returned(lease, notice, unsent)])

    async def take(self, asks: Sequence[Ask]) -> Taken:
        """Leases for the first of these requests, as many as there are now; waits until there is one (see ``Take``)."""
        turn = _Turn(deque(asks), Taken(), asyncio.get_running_loop().create_future())
        self._line.append(turn)
        self._serve()
        try:
            return await turn.answer
        except asyncio.CancelledError:
            if turn in self._line:
                self._line.remove(turn)
            for lease in turn.taken.granted.values():  # granted, and nobody there to hear of it
                self._limiter.release(lease, unsent=True)
            self._serve()
            raise

    async def put_back(self, returned: Sequence[Returned]) -> None:
        """Take leases back, and what their replies say of the limits."""
        now = self._clock()
        for one in returned:
            self._limiter.hear(now, one.lease, one.notice)
            self._limiter.release(one.lease, answered=one.notice.taken, unsent=one.unsent)
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
            ask = turn.asks[0]
            refusal = self._limiter.refusal(ask.tokens)
            if refusal is None:
                wait, lease = self._limiter.reserve(now, ask.tokens, ask.lease_s)
                if wait > 0:
                    if self._line:  # those who were served already ask again, at the end of the line
                        self._alarm = asyncio.get_running_loop().call_later(wait, self._serve)
                    break
                turn.taken.granted[ask.ticket] = lease
            else:
                turn.taken.refused[ask.ticket] = refusal
            if line is self._line:
                served.append(turn)
            line.popleft()
            turn.asks.popleft()
            if turn.asks:
                again.append(turn)
        for turn in served:
            turn.answer.set_result(turn.taken)
