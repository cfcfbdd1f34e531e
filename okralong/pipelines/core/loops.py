"""Run coroutines from plain functions, and plain functions outside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

INLINE_CHARS: Final = 20_000
"""Longest text that is parsed on the event loop itself: it takes some milliseconds, about as long as a thread switch on
a busy machine; most replies and contexts are shorter. # project default"""


async def off_loop(chars: int, work: Callable[[], T]) -> T:
    """Return the result of ``work``, run in a thread if it processes more than ``INLINE_CHARS`` characters.

    Python switches threads every few milliseconds, but not within a regular expression: its input must be bounded and
    its time linear (``tests/answering/test_linear_time.py``).
    """
    return work() if chars <= INLINE_CHARS else await asyncio.to_thread(work)


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, also while an event loop is running in this thread.

    The coroutine then runs in its own loop and thread while this thread waits. Ctrl-C cancels it in both cases.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    loop = asyncio.new_event_loop()
    with ThreadPoolExecutor(1) as thread:
        task = loop.create_task(work)

        def run() -> T:
            asyncio.set_event_loop(loop)
            try:
                return loop.run_until_complete(task)
            finally:
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()

        running = thread.submit(run)
        try:
            return running.result()
        except KeyboardInterrupt:
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)
            raise
