"""The limiter in this process: the pure one, with a clock and waiting added. First come, first served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from okralong.pipelines.answering.llm.limiter import Limiter, Limits
from okralong.pipelines.answering.llm.ports import Grant
from okralong.pipelines.errors import QuestionError


class LocalLimiter:
    """One (endpoint, model) within one event loop (see ``LimiterClient``)."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limiter = Limiter(limits)
        self._clock = clock
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    def join(self, limits: Limits) -> None:
        """Take a further job's limits (see ``Limiter.join``)."""
        self._limiter.join(self._clock(), limits)
        self._changed.set()

    async def acquire(self, tokens: int, lease_s: float) -> Grant:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        if self._limiter.impossible(tokens):
            raise QuestionError(
                f"A request of {tokens} tokens (prompt and longest reply) is larger than llm.tokens_per_minute = "
                f"{self._limiter.limits.tokens_per_minute}, so the endpoint would never take it. Raise that limit if "
                "the account allows it, or show less context."
            )
        start = self._clock()
        async with self._turn:
            while True:
                self._changed.clear()
                wait, lease = self._limiter.reserve(self._clock(), tokens, lease_s)
                if wait <= 0:
                    return Grant(lease, self._clock() - start)
                try:
                    await asyncio.wait_for(self._changed.wait(), wait)
                except TimeoutError:
                    continue

    async def release(self, lease: int) -> None:
        """The request is over."""
        self._limiter.release(lease)
        self._changed.set()

    async def penalise(self, retry_after: float | None) -> None:
        """The endpoint said 429."""
        self._limiter.penalise(self._clock(), retry_after)
