"""Which requests make a wave, and when it is closed. Pure: every ``now`` is in seconds of one clock.

It does not wait for questions that are still looking things up: nobody knows which of them will ask. A wave closes when
it has become quiet, so a straggler goes with the next one, whose batch runs beside the first.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from okralong.pipelines.answering.llm.batch.config import BatchConfig
from okralong.pipelines.answering.llm.batch.item import BatchItem

MEGABYTE = 1_000_000
LINE_OVERHEAD = 150
"""Bytes of a line around a request's body, rounded up. Ours."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    item: BatchItem
    since: float
    size: int


class Gathering:
    """Requests that wait for a wave, in the order in which they came."""

    def __init__(self, config: BatchConfig) -> None:
        self._quiet_s, self._gather_s = config.quiet_s, config.gather_s
        self.most = config.max_requests
        self._most_bytes = config.max_megabytes * MEGABYTE
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._last = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: BatchItem, now: float) -> None:
        """One more request."""
        size = len(item.body) + LINE_OVERHEAD
        self._waiting.append(_Waiting(item, now, size))
        self._bytes += size
        self._last = now

    @property
    def due_at(self) -> float:
        """When the wave is closed if nothing more comes; infinite while there is none."""
        if not self._waiting:
            return math.inf
        if len(self._waiting) >= self.most or self._bytes >= self._most_bytes:
            return -math.inf
        return min(self._last + self._quiet_s, self._waiting[0].since + self._gather_s)

    def take(self, room: float = math.inf, *, alone: bool = True) -> list[BatchItem]:
        """The requests of a wave, those that came first, up to the limits and ``room`` prompt tokens.

        One that is larger than the room, or than a whole batch, goes by itself, if it is the first and nothing else is
        under way (``alone``): the endpoint then says what it thinks of it.
        """
        taken: list[BatchItem] = []
        size, tokens = 0, 0
        while self._waiting and len(taken) < self.most:
            first = self._waiting[0]
            full = size + first.size > self._most_bytes or tokens + first.item.tokens > room
            if full and (taken or (tokens + first.item.tokens > room and not alone)):
                break
            self._waiting.popleft()
            taken.append(first.item)
            size += first.size
            tokens += first.item.tokens
            if full:
                break
        self._bytes -= size
        return taken

    def take_all(self) -> list[BatchItem]:
        """All of them, for whom there will be no wave."""
        left = [waiting.item for waiting in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return left
