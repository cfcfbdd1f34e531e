"""How long a phase still takes: from the work that is left, at the pace so far, or unknown."""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

WATCHED_S: Final = 5.0  # project default
"""Minimum time that a pace is measured before it is believed."""
WINDOW_S: Final = 60.0  # project default
"""Minimum window of a pace; in a long phase the window is the last half."""
LEAST_SHARE: Final = 0.01  # project default
"""Minimum share of the work that must be done before it is believed."""
SETTLES_S: Final = 10.0  # project default
"""Time constant with which the shown time follows the computed one."""


class Pace:
    """The pace of a phase, in any unit of work (tokens, bytes, questions)."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()
        self._began = 0.0

    def note(self, done: float, now: float) -> None:
        """Record the work that is done. The first record begins the measuring: what came before was preparation."""
        if not self._seen:
            self._began = now
        if self._seen and done <= self._seen[-1][1]:
            return
        self._seen.append((now, done))
        window = max(WINDOW_S, (now - self._began) / 2)
        while len(self._seen) > 2 and now - self._seen[1][0] > window:
            self._seen.popleft()

    def rate(self, now: float) -> float:
        """Return the work per second, or 0 while unknown."""
        if len(self._seen) < 2:
            return 0.0
        (start, before), (_, last) = self._seen[0], self._seen[-1]
        return max(0.0, last - before) / max(now - start, 1e-3)

    def seconds_left(self, total: float, now: float) -> float | None:
        """Return the time for the rest of ``total``, or None while it cannot be estimated."""
        rate = self.rate(now)
        if not rate or now - self._began < WATCHED_S:
            return None
        done = self._seen[-1][1]
        if done - self._seen[0][1] < LEAST_SHARE * total and now - self._began < WINDOW_S:
            return None
        return max(0.0, total - done) / rate


class Countdown:
    """The remaining time as shown: it runs down, and follows a changed estimate without jumping."""

    def __init__(self) -> None:
        self._shown: float | None = None
        self._at = 0.0

    def show(self, seconds_left: float | None, now: float) -> str:
        """Return "about 4 min", or "" while the time is unknown."""
        if seconds_left is None:
            self._shown = None
            return ""
        if self._shown is None:
            self._shown = seconds_left
        else:
            passed = now - self._at
            self._shown = max(0.0, self._shown - passed)
            self._shown += (seconds_left - self._shown) * (1 - math.exp(-passed / SETTLES_S))
        self._at = now
        return about(self._shown)


def about(seconds: float) -> str:
    """Format an estimate with as many digits as it deserves: "under 10 s", "about 40 s", "about 4 min"."""
    if seconds < 10:
        return "under 10 s"
    if seconds < 55:
        return f"about {5 * math.ceil(seconds / 5)} s"
    if seconds < 3570:
        return f"about {max(1, round(seconds / 60))} min"
    tenths = max(6, round(seconds / 600))
    return f"about {tenths // 6} h {tenths % 6 * 10} min" if tenths % 6 else f"about {tenths // 6} h"


# --------
# Questions: a run's first answers are its fastest, so the pace of finished questions says little about the others.

CALLS: Final[Mapping[str, float]] = {"linear": 1.0, "extend": 1.0, "split": 4.0, "step": 4.0, "precise": 2.0}
"""Expected calls by workflow before any question was finished, about those of ``configs/estimate.yaml``. # project
default"""
LEAST_FINISHED: Final = 2  # project default

Running = Mapping[tuple[str, int], int]
"""Numbers of running questions by workflow ("" while it is not planned) and number of calls that they have made."""


class QuestionPace:
    """Estimates the rest of a run from the plans of its questions.

    A question that is under way counts by the calls that its workflow still needs, one without a plan by the mix of the
    workflows planned so far, and both by the seconds that questions of that workflow took. The sum is divided by the
    number of questions that ran at the same time.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._began: dict[str, float] = {}
        self._first: float | None = None
        self._busy_s = 0.0
        self._finished: dict[str, list[tuple[float, int]]] = {}

    def begin(self, query_id: str, now: float) -> None:
        """Record that a question is under way."""
        self._first = now if self._first is None else self._first
        self._began[query_id] = now

    def end(self, query_id: str, row: Mapping[str, Any] | None, now: float) -> None:
        """Record that a question is finished, with its answers row if it has one."""
        spent = now - self._began.pop(query_id, now)
        self._busy_s += spent
        plan = json.loads(row["plan"]) if row and row.get("plan") else {}
        calls = int((row or {}).get("calls") or 0)
        self._finished.setdefault(str(plan.get("workflow") or ""), []).append((spent, calls))

    def seconds_left(self, running: Running, now: float) -> float | None:
        """Return the expected time until all questions are finished, or None while it cannot be estimated."""
        done = sum(map(len, self._finished.values()))
        if self._first is None or done < LEAST_FINISHED or now - self._first < WATCHED_S:
            return None
        planned = Counter({workflow: len(ended) for workflow, ended in self._finished.items()})
        residuals: list[tuple[float, int]] = []
        for (workflow, calls), count in running.items():
            if workflow:
                planned[workflow] += count
                expected = max(self._calls(workflow), 1.0)
                residuals.append((self._seconds(workflow) * max(expected - calls, 0.5) / expected, count))
        mean = sum(self._seconds(workflow) * count for workflow, count in planned.items()) / planned.total()
        # The plan of the others is unknown, whether they are under way or not.
        others = max(0, self._total - done - sum(count for _, count in residuals))
        left = mean * others + sum(seconds * count for seconds, count in residuals)
        ages = sum(now - began for began in self._began.values())
        at_once = max(1.0, (self._busy_s + ages) / max(now - self._first, 1e-3))
        slowest = max((seconds for seconds, _ in residuals), default=0.0)
        # At the end some slots are empty while the slowest question runs: half of its time on average.
        tail = max(self._seconds(workflow) for workflow in planned) / 2 * (1 - 1 / at_once) if others else 0.0
        return max(left / at_once + tail, slowest)

    def _calls(self, workflow: str) -> float:
        """Return the mean calls of a workflow; the expectation counts as one observation."""
        ended = self._finished.get(workflow, [])
        return (CALLS.get(workflow, 1.0) + sum(calls for _, calls in ended)) / (1 + len(ended))

    def _seconds(self, workflow: str) -> float:
        """Return the mean seconds of a workflow's questions; without any, those of the others by expected calls."""
        ended = self._finished.get(workflow)
        if ended:
            return sum(spent for spent, _ in ended) / len(ended)
        known = [(spent, max(self._calls(name), 1.0)) for name, held in self._finished.items() for spent, _ in held]
        a_call = sum(spent for spent, _ in known) / max(sum(calls for _, calls in known), 1.0)
        return a_call * max(self._calls(workflow), 1.0)
