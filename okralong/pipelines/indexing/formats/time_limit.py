"""Limit the processor time of a part of a parser's work, so that the rest of the document is kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooSlow(Exception):
    """The work took more processor time than it was allowed."""


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the body when this process has used ``seconds`` more of processor time.

    Without effect outside of the main thread, where Python delivers no signals. Parsers run in the main thread of a
    process of their own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def stop(_signal: int, _frame: FrameType | None) -> None:
        if running:
            raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
