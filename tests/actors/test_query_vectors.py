"""Vectors of queries that a process keeps: no query is embedded twice, and a failure is not kept."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from okralong.actors.serve_models import VECTORS_KEPT, QueryVectors
from okralong.pipelines.answering.models import Vectors


class Encoder:
    """Counts what it embeds, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[str] = []
        self._failures = failures

    async def __call__(self, query: str) -> Vectors:
        self.asked.append(query)
        await asyncio.sleep(0.01)
        if len(self.asked) <= self._failures:
            raise RuntimeError("away")
        return np.full(2, len(query), np.float32)


async def test_a_query_that_is_asked_for_at_once_and_later_is_embedded_once() -> None:
    encoder = Encoder()
    vectors = QueryVectors(encoder.__call__)
    found = await asyncio.gather(*(vectors(query) for query in ("one", "three", "one")))
    assert [float(each[0]) for each in found] == [3, 5, 3]
    assert (await vectors("three")).tolist() == [5, 5]
    assert encoder.asked == ["one", "three"]


async def test_a_failure_is_told_to_all_who_wait_and_tried_again_by_the_next() -> None:
    encoder = Encoder(failures=1)
    vectors = QueryVectors(encoder.__call__)
    told = await asyncio.gather(vectors("one"), vectors("one"), return_exceptions=True)
    assert [str(each) for each in told] == ["away", "away"]
    assert (await vectors("one")).tolist() == [3, 3]
    assert len(encoder.asked) == 2


async def test_who_gives_up_waiting_leaves_it_to_the_others() -> None:
    encoder = Encoder()
    vectors = QueryVectors(encoder.__call__)
    first, second = (asyncio.ensure_future(vectors("one")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await second).tolist() == [3, 3]
    assert encoder.asked == ["one"]


async def test_the_vector_that_was_not_asked_for_longest_goes_first() -> None:
    encoder = Encoder()
    vectors = QueryVectors(encoder.__call__)
    await asyncio.gather(vectors("first"), vectors("second"))
    await vectors("first")
    await asyncio.gather(*(vectors(f"q{number}") for number in range(VECTORS_KEPT - 1)))
    asked = len(encoder.asked)
    await vectors("first")
    assert len(encoder.asked) == asked
    await vectors("second")
    assert len(encoder.asked) == asked + 1


def test_event_loops_of_one_process_have_their_own() -> None:
    encoder = Encoder()
    vectors = QueryVectors(encoder.__call__)
    assert [asyncio.run(vectors("one")).tolist() for _ in range(2)] == [[3, 3], [3, 3]]
