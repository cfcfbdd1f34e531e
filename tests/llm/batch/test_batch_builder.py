from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.llm.batch import BatchBuilder
from okralong.pipelines.llm.batch_api import BatchItem
from okralong.pipelines.llm.config import BatchConfig
from okralong.pipelines.llm.providers.openai import OpenAiBatches
from okralong.pipelines.llm.records import custom_id
from tests.llm.tools import a_call


def item(number: int, tokens: int = 10, size: int = 100) -> BatchItem:
    return BatchItem(a_call(number), "x" * size, tokens)


def builder(**config: Any) -> BatchBuilder:
    return BatchBuilder(BatchConfig(**{"quiet_s": 10.0, "gather_s": 60.0, **config}))


def numbers(items: list[BatchItem]) -> list[int]:
    return [one.call.sample for one in items]


def test_a_wave_is_closed_when_it_has_become_quiet() -> None:
    waiting = builder()
    assert waiting.due_at == math.inf
    waiting.add(item(1), 100.0)
    assert waiting.due_at == 110.0
    waiting.add(item(2), 107.0)
    assert waiting.due_at == 117.0
    assert numbers(waiting.next_batch()) == [1, 2]
    assert waiting.due_at == math.inf


def test_or_when_its_first_request_has_waited_long_enough() -> None:
    waiting = builder()
    for second in range(0, 60, 5):
        waiting.add(item(second), float(second))
    assert waiting.due_at == 60.0


def test_or_at_once_when_it_is_as_large_as_a_batch_may_be() -> None:
    waiting = builder(max_requests=3)
    for number in range(7):
        waiting.add(item(number), 0.0)
    assert waiting.due_at == -math.inf
    assert [numbers(waiting.next_batch()) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    heavy = builder(max_megabytes=0.002)
    for number in range(4):
        heavy.add(item(number, size=700), 0.0)
    assert heavy.due_at == -math.inf
    assert [numbers(heavy.next_batch()) for _ in range(2)] == [[0, 1], [2, 3]]


def test_room_for_tokens_bounds_a_wave() -> None:
    waiting = builder()
    for number in range(4):
        waiting.add(item(number, tokens=40), 0.0)
    assert waiting.next_batch(30.0, alone=False) == []
    assert numbers(waiting.next_batch(90.0, alone=False)) == [0, 1]
    assert numbers(waiting.next_batch(30.0, alone=True)) == [2], "what fits no room goes by itself"
    assert numbers(waiting.clear()) == [3]
    assert len(waiting) == 0


@given(
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 3000)), max_size=40),
    st.integers(1, 10),
    st.floats(1, 200),
)
def test_nobody_is_lost_and_no_wave_is_too_large(sizes: list[tuple[int, int]], most: int, room: float) -> None:
    waiting = builder(max_requests=most, max_megabytes=0.003)
    for number, (tokens, size) in enumerate(sizes):
        waiting.add(item(number, tokens, size), float(number))
    seen: list[int] = []
    while len(waiting):
        wave = waiting.next_batch(room)
        assert wave
        assert len(wave) <= most
        assert len(wave) == 1 or sum(one.tokens for one in wave) <= room
        assert len(wave) == 1 or sum(len(one.body) for one in wave) <= 3000
        seen += numbers(wave)
    assert seen == list(range(len(sizes)))
    assert waiting.due_at == math.inf


def test_a_line_holds_the_body_as_it_is() -> None:
    batches = OpenAiBatches(openai.AsyncOpenAI(api_key="k"), "run", lambda _: None)
    assert batches.line(custom_id(replace(a_call(1), attempt=2)), '{"model":"m"}') == (
        b'{"custom_id":"call-1-2","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}\n'
    )


@pytest.mark.parametrize("wrong", [{"poll_s": 90.0}, {"quiet_s": 400.0}])
def test_pauses_must_grow(wrong: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="must not be below"):
        BatchConfig(**wrong)
