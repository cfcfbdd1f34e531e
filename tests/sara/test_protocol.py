"""Requests with vectors, read and checked: what is malformed gets one clear refusal."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from okralong.pipelines.core.types import VECTORS_PLACE, TokenVectors
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.sara.prompts import (
    MixedMessage,
    RefusedError,
    Text,
    Vectors,
    Written,
    completion,
    read_request,
    refusal,
    to_messages,
)

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
SENT = TokenVectors(ROWS.tobytes(), 3)


def body(**changes: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]} | changes).encode()


def part(**changes: Any) -> bytes:
    said = {"type": "vectors", "rows": 3, "data": base64.b64encode(ROWS.tobytes()).decode()} | changes
    return body(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, said]}])


def test_what_a_client_sends_is_what_is_read() -> None:
    mixed = [
        MixedMessage("system", (Text("Rules."),)),
        MixedMessage("user", (Text(f"One{VECTORS_PLACE}: "), Vectors(SENT), Text(" and "), Vectors(SENT), Text("?"))),
    ]
    request = LlmRequest("m", "embedded", tuple(to_messages(mixed)), 7, top_p=0.5, seed=3, stop=("\n",))
    asked = read_request(json.dumps(request.parameters()).encode(), "m", 4)
    assert (asked.max_tokens, asked.temperature, asked.top_p, asked.seed, asked.stop) == (7, 0.0, 0.5, 3, ("\n",))
    assert asked.messages[0] == mixed[0]
    content = asked.messages[1].content
    assert [each.text if isinstance(each, Text) else None for each in content] == ["One : ", None, " and ", None, "?"]
    assert all(np.array_equal(each.rows, ROWS) for each in content if isinstance(each, Vectors))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not JSON: maximum recursion"),
        (body(model="other"), "no model 'other' here; it is 'm'"),
        (body(messages=[]), "at least one message"),
        (body(messages=[{"role": "tool", "content": "x"}]), r"messages\[0\] needs a role"),
        (body(messages=[{"role": "user", "content": 3}]), r"messages\[0\].content must be a text or a list"),
        (body(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "part of type text or vectors"),
        (body(messages=[{"role": "user", "content": [{"type": "text"}]}]), "but no text"),
        (body(max_tokens=0), "max_tokens must be a number from 1"),
        (body(temperature="hot"), "temperature must be a number"),
        (body(stop=[1]), "stop must be a text or a list of texts"),
        (body(logprobs=True), "logprobs is not supported"),
        (body(grammar="root ::= x"), "grammar is not supported"),
        (body(n=2), "n is not supported"),
        (part(rows=0), r"messages\[0\].content\[1\] needs rows \(a count\)"),
        (part(rows=True), r"needs rows \(a count\)"),
        (part(data=None), r"needs rows \(a count\) and data"),
        (part(data="?!"), "is not base64"),
        (part(rows=2), "holds 48 bytes; 2 rows of 4 float32 numbers.*have 32"),
        (part(data=base64.b64encode(np.full(12, np.nan, np.float32).tobytes()).decode()), "not finite"),
    ],
)
def test_what_is_malformed_is_refused_in_one_sentence(sent: bytes, said: str) -> None:
    with pytest.raises(RefusedError, match=said) as refused:
        read_request(sent, "m", 4)
    assert refused.value.status in (400, 404)
    assert refusal(refused.value)["error"]["message"] == refused.value.message


def test_what_asks_for_nothing_is_taken() -> None:
    asked = read_request(body(logprobs=False, grammar=None, n=1, stop="x", top_p=None, seed=None), "m", 4)
    assert (asked.stop, asked.top_p, asked.seed) == (("x",), 1.0, 0)


def test_a_reply_has_the_protocols_form() -> None:
    said = completion("m", Written("Hello", 12, 3, "stop"))
    assert said["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}
    assert said["usage"] == {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
