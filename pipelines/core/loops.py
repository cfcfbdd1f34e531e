"""Running a coroutine from a plain function, also where an event loop runs already, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


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
