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

RECORDED = {
    0: (
        '{"type":"extractive","pattern":"same","evidence":true,"type_probabilities":{"extractive":0.333333333'
        '3333333,"abstractive":0.6666666666666666},"pattern_probabilities":{"same":1.0},"evidence_probability'
        '":0.30000000000000004,"analyzer":"rules"}'
    ),
    1: (
        '{"workflow":"split","granularity":150,"count":5,"candidates":20,"exact_weight":3.0,"semantic_weight"'
        ':2.0,"threshold":0.1,"extension_tokens":0,"recover_tables":true,"max_sub_questions":4,"sub_question_'
        'count":5,"max_steps":3,"escalate":false,"reasons":["because"],"max_tokens":null,"sub_question_tokens'
        '":null,"neighbour_weight":0.0,"most":null,"escalate_under":0.0,"escalate_to":null}'
    ),
    3: (
        '{"text":"na\\u00efve \\u2603 \\ud83d","model":"m","usage":{"prompt_tokens":3,"cached_tokens":1,"complet'
        'ion_tokens":2,"reasoning_tokens":0,"cache_write_tokens":0},"finish_reason":"stop","cost_usd":1e-07,"'
        'latency_s":0.25,"queue_s":0.0,"token_logprobs":[-0.1,-Infinity],"system_fingerprint":"","tokens":[]}'
    ),
    7: (
        '{"status":"answered","answer":"42","citations":[{"doc_id":"d","start_char":1,"end_char":2,"quote":"q'
        '"}],"analysis":null,"plan":null,"context":[{"doc_id":"d","start_char":0,"end_char":9,"text":"t","n_t'
        'okens":1,"score":1.0,"chunk_ids":[],"origin":"retrieved","shown":[]}],"error":"","confidence":null,"'
        'value":null,"escalated":"","first_confidence":null,"replied_by":[],"way":"","signals":{}}'
    ),
}
"""Bodies that releases before ``TypeAdapter`` wrote, by the place in ``VALUES``."""


@pytest.mark.parametrize("place", RECORDED)
def test_bodies_of_earlier_releases_are_read_and_written_to_the_byte(place: int) -> None:
    value = VALUES[place]
    assert encode(value) == RECORDED[place]
    assert decode(type(value), RECORDED[place]) == value


@pytest.mark.parametrize("sections", ["null", '[{"doc_id":"a","score":1.0}]'])
def test_the_chosen_sections_of_a_plan_of_an_earlier_release_are_ignored(sections: str) -> None:
    assert decode(Plan, f'{RECORDED[1][:-1]},"sections":{sections}}}') == VALUES[1]


def test_a_passage_of_an_earlier_release_shows_its_text() -> None:
    earlier = RECORDED[7].replace(',"shown":[]', "")
    assert decode(Answer, earlier) == VALUES[7]


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        decode(Usage, '{"prompt_tokens":1,"nothing":2}')


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
