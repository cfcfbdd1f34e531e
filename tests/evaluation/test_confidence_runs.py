"""The endpoint of the runs for a confidence model: it refuses, or answers with what a function returns."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from benchmarks.confidence_runs import Complete, Said, endpoint, refuse


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _asked(complete: Complete) -> dict[str, Any]:
    with endpoint("small", complete, _free_port()) as address:
        body = {"model": "small", "messages": [{"role": "user", "content": "Who?"}], "max_tokens": 5}
        with urlopen(Request(f"{address}/chat/completions", json.dumps(body).encode(), method="POST")) as reply:
            found: dict[str, Any] = json.loads(reply.read())
            return found


def test_a_completion_has_its_text_and_usage() -> None:
    def complete(messages: Sequence[dict[str, str]], most: int) -> Said:
        return Said(f"{messages[0]['content']} {most}", 7, 3, "length")

    found = _asked(complete)
    assert found["choices"][0]["message"]["content"] == "Who? 5"
    assert found["choices"][0]["finish_reason"] == "length"
    assert found["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def test_without_a_generator_every_completion_is_refused() -> None:
    with pytest.raises(HTTPError) as refused:
        _asked(refuse)
    assert refused.value.code == 400
