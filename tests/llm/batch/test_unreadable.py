"""What a batch's result file may hold: one line that nobody can read is one call's failure, and never the run's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.llm.batch_results import Answered, ResultLines, ResultReader
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.usage import Bounds, Trust
from tests.llm.tools import a_call

DEEP = "[" * 100_000
BOUNDS = Bounds(9, 20)
READER = ResultReader(EndpointConfig(base_url="http://somewhere/v1", model="m"), "", count_tokens, Trust(8192))


def line(name: str, content: Any, usage: Any = None) -> str:
    message = {"role": "assistant", "content": content}
    usage = usage or {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    return json.dumps({"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None})


def outcome(content: Any) -> tuple[str, str]:
    found = ResultLines.read([line("a", content).encode()])
    told, _ = READER.read(a_call(1), found, "a", 1.0)
    return told.status, json.loads(told.reply)["reply"]["text"] if told.reply else ""


def test_brackets_in_brackets_are_one_line_that_cannot_be_read() -> None:
    found = ResultLines.read([f'{line("a", "Tarn")}\n{DEEP}\n{{"custom_id": "b", "response": {DEEP}\n'.encode()])
    assert (list(found.lines), found.unreadable) == (["a"], 2)
    assert READER.read(a_call(1), found, "a", 1.0)[0].status == "ok"
    assert READER.read(a_call(2), found, "b", 1.0)[0].status == "unknown"  # it may be one of those


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "Answer: "}, {"type": "text", "text": "Tarn"}], "Answer: Tarn"),
        ([{"type": "image"}, "Tarn", None], ""),
        ({"text": "Tarn"}, ""),
        (None, ""),
    ],
)
def test_a_reply_in_parts_is_their_text_and_what_else_it_may_be_is_empty(content: Any, text: str) -> None:
    assert outcome(content) == ("ok", text)


@pytest.mark.parametrize("usage", [{"prompt_tokens": "many"}, [1, 2], "none"])
def test_a_usage_that_is_none_is_counted_here(usage: Any) -> None:
    found = ResultLines.read([line("a", "Tarn", usage).encode()])
    told, _ = READER.read(a_call(1), found, "a", 1.0)
    assert (told.status, told.cost_usd) == ("ok", a_call(1).reserved_usd), "without the request, the reserve"
    told, _ = READER.read(a_call(1), found, "a", 1.0, BOUNDS)
    assert (told.status, told.usage.prompt_tokens) == ("ok", BOUNDS.prompt_tokens)
    assert "tokens were counted here" in told.error


HOSTILE = ["-1000000000", "true", '"5"', "5.5", "NaN"]
ENDLESS = ["72000", "1" + "0" * 30, "1e400", "1" * 6000]


@pytest.mark.parametrize("number", HOSTILE)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_count_of_tokens_that_cannot_be_true_is_counted_here(name: str, number: str) -> None:
    text = line("a", "Tarn", {"prompt_tokens": 5, "completion_tokens": 2, name: "HERE"}).replace('"HERE"', number)
    found = ResultLines.read([text.encode()])
    told, _ = READER.read(a_call(1), found, "a", 1.0, BOUNDS)
    assert told.status == "ok"
    assert 0 < told.cost_usd < 1e-3
    assert (told.usage.prompt_tokens, "cannot be true" in told.error) == (BOUNDS.prompt_tokens, True)


@pytest.mark.parametrize("number", ENDLESS)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_more_tokens_than_the_window_has_are_booked_that_far_and_need_a_decision(name: str, number: str) -> None:
    text = line("a", "Tarn", {"prompt_tokens": 5, "completion_tokens": 2, name: "HERE"}).replace('"HERE"', number)
    told, answer = READER.read(a_call(1), ResultLines.read([text.encode()]), "a", 1.0, BOUNDS)
    assert (told.status, getattr(told.usage, name), told.undecided) == ("ok", 8192, True)
    assert isinstance(answer, Answered)
    assert answer.raw.undecided
    assert told.held_usd == (pytest.approx((72_000 - 8192) / 1e6) if number == "72000" else 0.0)


@pytest.mark.parametrize("status", ["1e400", "-1", "1" + "0" * 30, '"200 OK"', "null", "[]"])
def test_a_status_that_is_none_leaves_the_call_unknown(status: str) -> None:
    text = line("a", "Tarn").replace('"status_code": 200', f'"status_code": {status}')
    told, _ = READER.read(a_call(1), ResultLines.read([text.encode()]), "a", 1.0, BOUNDS)
    assert (told.status, told.cost_usd) == ("unknown", a_call(1).reserved_usd)
    assert len(told.error) < 500


def test_names_and_texts_of_a_line_are_bounded() -> None:
    long = json.loads(line("a", "x" * 2_000_000))
    long["response"]["request_id"] = "r" * 2_000_000
    long["response"]["body"]["model"] = "m" * 2_000_000
    told, got = READER.read(a_call(1), ResultLines.read([json.dumps(long).encode()]), "a", 1.0, BOUNDS)
    assert isinstance(got, Answered)
    assert len(got.raw.reply.text) == BOUNDS.longest_text
    assert max(len(told.provider_request_id), len(told.snapshot), len(told.error)) <= 200
    assert told.overlong == ("ignored" in told.error)
