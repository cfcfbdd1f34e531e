from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.codec import decode, encode
from okralong.pipelines.core.types import Analysis, Answer, Citation, Message, Passage, Plan, Reply, Usage

VALUES: list[Any] = [
    Analysis(
        "extractive", "same", True, {"extractive": 1 / 3, "abstractive": 2 / 3}, {"same": 1.0}, 0.1 + 0.2, "rules"
    ),
    Plan("split", 150, 5, 20, 3.0, 2.0, 0.1, 0, True, 4, 5, 3, False, ("because",)),
    Plan("linear", 150, 5, 20, 3.0, 2.0, 0.1, 0, True, 4, 5, 3, False, (), 700, 450),
    Reply("naïve ☃ \ud83d", "m", Usage(3, 1, 2), "stop", 1e-7, 0.25, 0.0, (-0.1, float("-inf"))),
    Passage("d", 0, 9, "some text", 3, 0.7, ("c1", "c2"), "merged"),
    Citation("d", 1, 2, "q"),
    Message("user", 'a "quoted" line\n\u2028'),
    Answer("answered", "42", (Citation("d", 1, 2, "q"),), None, None, (Passage("d", 0, 9, "t", 1, 1.0),), ""),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert decode(type(value), encode(value)) == value


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Reply,
        text=st.text(),
        model=st.text(),
        usage=st.builds(Usage),
        finish_reason=st.text(),
        cost_usd=st.floats(allow_nan=False),
        token_logprobs=st.lists(st.floats(allow_nan=False)).map(tuple),
    )
)
def test_any_reply_comes_back_to_the_last_digit(reply: Reply) -> None:
    assert decode(Reply, encode(reply)) == reply


def test_an_answer_with_all_its_parts_comes_back() -> None:
    full = dataclasses.replace(VALUES[7], analysis=VALUES[0], plan=VALUES[2])
    assert decode(Answer, encode(full)) == full


def test_the_json_of_something_else_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Plan"):
        decode(Plan, '{"nothing": 1}')
