"""Bounds of a run's duration, from the endpoint's latencies and the dependencies of its calls."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.fakes.endpoint.draws import draw_latency
from tests.fakes.endpoint.scenario import Latency


@dataclass(frozen=True)
class Bounds:
    """Lower bounds of a run in seconds.

    ``even`` if questions could be divided evenly over all places, ``listed`` if each place takes the next question in
    order as soon as it is free.
    """

    even: float
    listed: float


def critical_paths(
    answers: Sequence[Mapping[str, Any]],
    ledger: Iterable[Mapping[str, Any]],
    received: Iterable[Mapping[str, Any]],
    latency: Latency,
    seed: int,
) -> list[float]:
    """Return the seconds that the endpoint alone made each question take, in order of their start.

    A question's calls are sequential (branches only retrieve), so its critical path is their sum. Latencies are drawn
    again from seed, request and attempt, as the endpoint does.
    """
    drawn: dict[str, float] = {}
    attempts: dict[str, int] = {}
    for entry in received:
        if entry["where"] == "chat" and entry["admitted_s"] is not None:
            attempt = attempts[entry["request_hash"]] = attempts.get(entry["request_hash"], 0) + 1
            drawn[entry["request_id"]] = draw_latency(latency, seed, entry["request_hash"], attempt)
    paths: dict[str, float] = {}
    for row in ledger:
        paths[row["query_id"]] = paths.get(row["query_id"], 0.0) + drawn.get(row["provider_request_id"], 0.0)
    return [paths.get(row["query_id"], 0.0) for row in sorted(answers, key=began)]


def began(answer: Mapping[str, Any]) -> float:
    """Return when a question started, in seconds since the epoch."""
    return float(answer["finished_at"].timestamp()) - float(dict(answer["seconds"])["total"])


def bounds(paths: Sequence[float], places: int) -> Bounds:
    """Return the bounds of questions with these critical paths in that many places."""
    free = [0.0] * min(places, len(paths))
    for path in paths:
        heapq.heapreplace(free, free[0] + path)
    return Bounds(sum(paths) / places, max(free))
