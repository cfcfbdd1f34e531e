"""The bounds that the nightly benchmark measures against."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.nightly.bounds import Bounds, bounds, critical_paths
from tests.fakes.endpoint.draws import draw_latency
from tests.fakes.endpoint.scenario import Latency


def test_questions_in_as_many_places_as_there_are() -> None:
    assert bounds([3.0, 1.0, 1.0, 1.0], 2) == Bounds(3.0, 3.0)
    assert bounds([1.0, 1.0, 1.0, 3.0], 2) == Bounds(3.0, 4.0)  # in this order the long one begins late
    assert bounds([2.0], 8) == Bounds(0.25, 2.0)


def test_a_critical_path_is_what_the_endpoint_drew_for_its_calls() -> None:
    latency = Latency(median_s=1.0)
    received = [
        {"where": "chat", "request_hash": "a", "request_id": "r1", "admitted_s": 0.0},
        {"where": "chat", "request_hash": "a", "request_id": "r0", "admitted_s": None},  # refused: nothing was drawn
        {"where": "chat", "request_hash": "a", "request_id": "r2", "admitted_s": 1.0},
        {"where": "chat", "request_hash": "b", "request_id": "r3", "admitted_s": 1.0},
    ]
    ledger = [
        {"query_id": "q2", "provider_request_id": "r1"},
        {"query_id": "q1", "provider_request_id": "r2"},
        {"query_id": "q1", "provider_request_id": "r3"},
        {"query_id": "q1", "provider_request_id": ""},
    ]
    answers = [
        {"query_id": query_id, "finished_at": datetime.fromtimestamp(end, UTC), "seconds": [("total", total)]}
        for query_id, end, total in (("q2", 9.0, 1.0), ("q1", 10.0, 5.0), ("q3", 11.0, 0.5))
    ]
    one, again, other = (draw_latency(latency, 7, *drawn) for drawn in (("a", 1), ("a", 2), ("b", 1)))
    assert critical_paths(answers, ledger, received, latency, 7) == [pytest.approx(again + other), one, 0.0]
