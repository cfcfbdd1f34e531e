"""Plain functions and event loops: a coroutine run from a function, and a function run outside of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

INLINE_CHARS: Final = 20_000
"""Text that is parsed on the event loop itself. project default: some milliseconds of a parser, about what a thread
costs on a busy machine; usual replies and contexts are shorter."""


async def off_loop(chars: int, work: Callable[[], T]) -> T:
    """What ``work`` returns, run in a thread where it goes over more than ``INLINE_CHARS`` characters of text.

    The loop goes on meanwhile, since a thread of Python code hands over every few milliseconds; a single regular
    expression does not, so that its text must be bounded and its time linear (``tests/answering/test_linear_time.py``).
    """
    return work() if chars <= INLINE_CHARS else await asyncio.to_thread(work)


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` returns. Beside a running event loop it gets a loop and a thread of its own, and this thread waits;
    Ctrl-C cancels it there as it does here."""
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
