"""Stopping runs from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final, TypeVar

T = TypeVar("T")

GRACE_S: Final = 20.0
"""Seconds that a stopped run waits for calls in flight. # project default: most replies arrive within that time"""


@dataclass
class Interrupt:
    """Stops runs in any thread, including those that signals such as Ctrl-C do not reach.

    ``fire`` cancels current and later work. The first time, a run waits up to ``grace_s`` for
    calls in flight; the second time it stops at once.
    """

    grace_s: float = GRACE_S
    fired: bool = False
    _running: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = field(default_factory=set)
    _lock: Any = field(default_factory=RLock)  # a signal may arrive while this thread holds it

    async def of(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``. Raises CancelledError if ``fire`` is called before it ends."""
        task = asyncio.ensure_future(work)
        entry = (asyncio.get_running_loop(), task)
        with self._lock:
            self._running.add(entry)
            if self.fired:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._running.discard(entry)

    def fire(self) -> None:
        """Cancel everything that runs, from any thread."""
        with self._lock:
            self.fired = True
            running = list(self._running)
        for loop, task in running:
            with suppress(RuntimeError):  # its loop has ended in the meantime
                loop.call_soon_threadsafe(task.cancel)
