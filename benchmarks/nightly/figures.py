"""The figures of one run, in the terms of the goals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.nightly.bounds import Bounds, began, bounds, critical_paths
from benchmarks.nightly.watch import Watch
from benchmarks.nightly.work import Work
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.endpoint.scenario import Latency


@dataclass(frozen=True)
class Figures:
    """One run of ``questions`` at ``in_flight``.

    ``clock_s`` is from the first question's start to the last one's end, ``whole_s`` the command's. ``processor`` is
    seconds by role and ``processor_calls`` the calls from the end of the early question to that of the last, when
    everything is loaded; ``loaded_s`` are all processor seconds before. ``resident`` are GiB at these two ends.
    ``used`` are the shares of the limits' throughput between the first and the last admission, ``refused`` the share of
    requests with 429.
    """

    questions: int
    statuses: dict[str, int]
    in_flight: int
    calls: int
    clock_s: float
    whole_s: float
    bounds: Bounds
    processor: dict[str, float]
    processor_calls: int
    processor_clock_s: float
    loaded_s: float
    endpoint_s: float
    resident: tuple[float, float]
    grown: dict[str, float]
    peak_in_flight: int
    per_minute: dict[str, float]
    used: dict[str, float]
    refused: float

    @property
    def processor_a_call(self) -> float:
        """Return processor seconds per call of all okralong processes."""
        return sum(self.processor.values()) / self.processor_calls


def figures(
    work: Work,
    run: str,
    seen: tuple[Watch, float],
    endpoint: EndpointProcess,
    scenario: Mapping[str, Any],
    in_flight: int,
    early: int,
    endpoint_s: float,
) -> Figures:
    """Return the figures of a run that just ended. ``early`` is the question at which memory is measured first."""
    watch, whole_s = seen
    answers, ledger = work.rows(run, "answers"), work.rows(run, "ledger")
    received = endpoint.received("chat")
    admitted = [entry for entry in received if entry["admitted_s"] is not None]
    first, last = min(map(began, answers)), max(answer["finished_at"].timestamp() for answer in answers)
    ends = sorted(answer["finished_at"].timestamp() for answer in answers)
    paths = critical_paths(answers, ledger, received, Latency(**scenario["latency"]), scenario["seed"])
    start, end = watch.at(ends[min(early, len(ends)) - 1]), watch.at(last)
    before, after = start.resident, end.resident
    settled = [row["started_at"].timestamp() + row["latency_s"] for row in ledger if row["status"] == "ok"]
    span = max(entry["admitted_s"] for entry in admitted) - min(entry["admitted_s"] for entry in admitted)
    tokens = sum(entry["reserved_tokens"] for entry in admitted)
    per_minute = {"requests": (len(admitted) - 1) / span * 60, "tokens": tokens / span * 60}
    named = {name: scenario.get("limits", {}).get(f"{name}_per_minute") for name in per_minute}
    grown = {role: (after.get(role, 0) - before.get(role, 0)) / 2**20 for role in before | after}
    return Figures(
        questions=len(answers),
        statuses=dict(Counter(answer["status"] for answer in answers)),
        in_flight=in_flight,
        calls=len(admitted),
        clock_s=last - first,
        whole_s=whole_s,
        bounds=bounds(paths, in_flight),
        processor=watch.between(start, end),
        processor_calls=max(1, sum(start.at < moment <= end.at for moment in settled)),
        processor_clock_s=end.at - start.at,
        loaded_s=sum(start.processor_s.values()),
        endpoint_s=endpoint_s,
        resident=(sum(before.values()) / 2**30, sum(after.values()) / 2**30),
        grown=dict(sorted(grown.items(), key=lambda pair: -abs(pair[1]))),
        peak_in_flight=endpoint.state()["counts"]["peak_in_flight"],
        per_minute=per_minute,
        used={name: per_minute[name] / limit for name, limit in named.items() if limit},
        refused=sum(entry["status"] == 429 for entry in received) / len(received),
    )
