"""Leases in blocks: what the processes of a cluster and the one limiter of an endpoint say to each other.

A process asks for all its callers at once (``take``) and hears as soon as some have leave; it gives back what ended
since in one message (``put_back``). So the number of messages does not grow with the callers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from okralong.pipelines.answering.llm.quota_headers import SILENT, Notice


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for leave, of ``tokens`` (prompt and most completion tokens). Its lease ends by itself after
    ``lease_s`` seconds. ``ticket`` is the asking process's own number for it.
    """

    ticket: int
    tokens: int
    lease_s: float


@dataclass(slots=True)
class Taken:
    """The answer to a ``take``: leases by ticket, and by ticket why no minute can hold a request. Never empty.

    A ticket in neither has no leave yet and is to be asked for again.
    """

    granted: dict[int, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Returned:
    """A lease that is given back (see ``LimiterClient.release``)."""

    lease: int
    notice: Notice = SILENT
    unsent: bool = False


Take = Callable[[Sequence[Ask]], Awaitable[Taken]]
"""Waits until the first of the asks, which stand in order of arrival, has leave or is refused."""
PutBack = Callable[[Sequence[Returned]], Awaitable[None]]
"""Gives leases back, in order."""
