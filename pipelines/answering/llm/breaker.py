"""Whether an endpoint is worth asking while there are others: a circuit breaker, with no clock of its own.

Closed, it is asked. Open, after a failed connection or a storm of errors, it is left alone for a growing pause; then
one call tries it, and closes it by a reply. Out, because it refused (key, model, quota), it is not asked again.
"""

from __future__ import annotations

import math

from okralong.pipelines.answering.llm.faults import Fault

STORM = 3
"""Failures in a row that open a breaker; a connection that never came about opens it at once. Ours."""


class Breaker:
    """The standing of one endpoint. Every ``now`` is in seconds of one clock that never goes back."""

    def __init__(self, first_pause_s: float, longest_pause_s: float) -> None:
        self.why = ""
        """What was wrong the last time, for people."""
        self._first, self._longest = first_pause_s, longest_pause_s
        self._pause = first_pause_s
        self._failures = 0
        self._opened_at = -math.inf
        self._open_until = -math.inf
        self._out_until = -math.inf

    def ready(self, now: float) -> bool:
        """Whether a call may go there."""
        return now >= self.back_at

    def out(self, now: float) -> bool:
        """Whether no call may go there, even where there is no other endpoint."""
        return now < self._out_until

    @property
    def back_at(self) -> float:
        """When it is worth asking again; infinite when never."""
        return max(self._open_until, self._out_until)

    def refuse(self, why: str, until: float = math.inf) -> None:
        """Put it out of use."""
        self.why = why
        self._out_until = until

    def asked(self, now: float) -> None:
        """A call goes there now. After a pause it is the trial, and nobody follows it before it is over."""
        if self._open_until > -math.inf:
            self._open_until = now + self._pause

    def answered(self) -> None:
        """It did what it was asked, or said what was wrong with the request."""
        self._failures = 0
        self._pause = self._first
        self._open_until = -math.inf

    def failed(self, now: float, sent_at: float, fault: Fault) -> None:
        """A call that was sent at ``sent_at`` brought a fault. Those of one burst make the pause longer once."""
        if fault.final:
            self.refuse(fault.message, math.inf if fault.retry_after is None else now + fault.retry_after)
            return
        if not fault.retry:
            self.answered()
            return
        self.why = fault.message
        if fault.http_status == 429 or sent_at < self._opened_at:  # the limiter sees to the first
            return
        self._failures += 1
        if fault.unreachable or self._failures >= STORM:
            self._opened_at = now
            self._open_until = now + self._pause
            self._pause = min(self._longest, 2 * self._pause)
