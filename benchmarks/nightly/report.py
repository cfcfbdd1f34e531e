"""Print the figures as Markdown, each with its goal."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.nightly.figures import Figures

MOST_CLOCK, MOST_PROCESSOR, MOST_GROWTH, LEAST_USED, MOST_REFUSED = 1.15, 3.0, 1.05, 0.95, 0.001
"""Limits relative to the wall-clock bound, the bare loop, the early memory, the tighter limit, the requests."""
ROLES_SHOWN = 8


@dataclass(frozen=True)
class Goal:
    """``seen`` against ``limit``, which it must not exceed (or must reach, with ``at_least``)."""

    what: str
    seen: float
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Return whether the goal is reached."""
        return self.seen >= self.limit if self.at_least else self.seen <= self.limit


def goals(runs: Sequence[Figures], peers: Mapping[int, Mapping[str, float]]) -> list[Goal]:
    """Return every goal of every run."""
    found: list[Goal] = []
    for run in runs:
        place = f"{run.in_flight} in flight"
        if run.used:
            tighter = max(run.used.values())
            found.append(Goal(f"{place}, limits: share of the tighter limit used", tighter, LEAST_USED, True))
            found.append(Goal(f"{place}, limits: share of requests refused with 429", run.refused, MOST_REFUSED))
            continue
        peer = _bare_a_call(run, peers)
        found.append(Goal(f"{place}: clock over latencies / places", run.clock_s / run.bounds.even, MOST_CLOCK))
        found.append(Goal(f"{place}: clock over list-scheduling bound", run.clock_s / run.bounds.listed, MOST_CLOCK))
        found.append(Goal(f"{place}: processor a call over a bare loop's", run.processor_a_call / peer, MOST_PROCESSOR))
        found.append(Goal(f"{place}: memory at the end over early", run.resident[1] / run.resident[0], MOST_GROWTH))
    return found


def report(
    command: str, latency: float, runs: Sequence[Figures], peers: Mapping[int, Mapping[str, float]], first_pass: str
) -> str:
    """Return the report. ``first_pass`` is the speed of the run without replay."""
    first = runs[0]
    lines = [
        "# A night's questions",
        "",
        f"`{command}`: {first.questions} questions, replies after a median of {latency:g} s, {os.cpu_count()} cores",
        "",
        "| goal | seen | limit | |",
        "|---|---|---|---|",
        *(_goal(goal) for goal in goals(runs, peers)),
        "",
        "| in flight | limits | calls | clock, s | bound, s: even, listed | most calls at once | "
        "processor ms a call: ours, bare loop, endpoint | memory GiB, early and last | limits used | refused |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_row(run, peers) for run in runs),
        "",
        f"Where nothing is replayed (queries embedded, chunks retrieved, replies at once): {first_pass}.",
        "",
    ]
    for run in runs:
        lines += [
            f"Processor seconds at {run.in_flight} in flight{', limited' if run.used else ''}, of "
            f"{run.processor_calls} calls in {run.processor_clock_s:.0f} s: {_spent(run)}.",
            "",
        ]
        lines += [f"Statuses: {run.statuses}; memory that grew most: {_grown(run)}.", ""]
    return "\n".join(lines)


def _bare_a_call(run: Figures, peers: Mapping[int, Mapping[str, float]]) -> float:
    """Return processor seconds per call of the bare loop."""
    return peers[run.in_flight]["processor_s"] / run.calls


def _goal(goal: Goal) -> str:
    sign = "≥" if goal.at_least else "≤"
    return f"| {goal.what} | {goal.seen:.4g} | {sign} {goal.limit:g} | {'met' if goal.met else '**missed**'} |"


def _row(run: Figures, peers: Mapping[int, Mapping[str, float]]) -> str:
    peer = _bare_a_call(run, peers)
    used = ", ".join(f"{name} {share:.3f}" for name, share in run.used.items()) or "-"
    spent = f"{run.processor_a_call * 1e3:.1f}, {peer * 1e3:.1f}, {run.endpoint_s / run.calls * 1e3:.1f}"
    return (
        f"| {run.in_flight} | {'yes' if run.used else 'no'} | {run.calls} | {run.clock_s:.1f} | {run.bounds.even:.1f}, "
        f"{run.bounds.listed:.1f} | {run.peak_in_flight} | {spent} | {run.resident[0]:.2f}, {run.resident[1]:.2f} | "
        f"{used} | {run.refused:.4f} |"
    )


def _spent(run: Figures) -> str:
    roles = list(run.processor.items())[:ROLES_SHOWN]
    clock = max(run.processor_clock_s, 1e-9)
    shares = ", ".join(f"{role} {seconds:.1f} ({seconds / clock:.0%} of a core)" for role, seconds in roles)
    return f"{shares}; before that, all processes together, {run.loaded_s:.0f}"


def _grown(run: Figures) -> str:
    return ", ".join(f"{role} {mebibytes:+.0f} MiB" for role, mebibytes in list(run.grown.items())[:4])
