"""What a batch's result file may hold: one line that nobody can read is one call's failure, and never the run's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.llm.batch_api import ResultLines, ResultReader
from okralong.pipelines.llm.config import EndpointConfig
from tests.llm.tools import a_call

DEEP = "[" * 100_000
READER = ResultReader(EndpointConfig(base_url="http://somewhere/v1", model="m"), "", count_tokens)


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
def test_a_usage_that_is_none_fails_the_call_alone(usage: Any) -> None:
    found = ResultLines.read([line("a", "Tarn", usage).encode()])
    assert READER.read(a_call(1), found, "a", 1.0)[0].status == "unknown"
