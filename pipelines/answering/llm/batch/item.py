"""One request of a wave: how it stands in a batch's file, and the name by which its reply is known again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.llm.calls import Call
from okralong.pipelines.answering.llm.faults import Fault
from okralong.pipelines.answering.llm.replies import RawReply
from okralong.pipelines.answering.llm.request import LlmRequest

CHAT_URL: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request that waits for a wave. ``body`` is what a chat request would hold, as JSON; ``tokens`` its prompt's,
    on the safe side. The desk gives ``call`` its attempt.
    """

    call: Call
    body: str
    tokens: int

    def line(self, call: Call) -> bytes:
        """Its line of the batch's file, as the attempt ``call``."""
        name = json.dumps(custom_id(call))
        return f'{{"custom_id":{name},"method":"POST","url":"{CHAT_URL}","body":{self.body}}}\n'.encode()


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply came, is paid for and durable."""

    raw: RawReply


@dataclass(frozen=True, slots=True)
class Missed:
    """A batch brought no reply, for a reason that another wave may cure where ``fault.retry``.

    ``counts``: whether it is one of the failures after which a request is asked in real time.
    """

    fault: Fault
    counts: bool = True


@dataclass(frozen=True, slots=True)
class InRealtime:
    """No batch will answer it any more: ask in real time."""

    why: str


BatchAnswer = Answered | Missed | InRealtime


def batch_call_id(query_id: str, path: str, sample: int, request_hash: str) -> str:
    """The same for the same call in every process, so that a run that asks again finds what it asked before."""
    parts = json.dumps([query_id, path, sample, request_hash], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def custom_id(call: Call) -> str:
    """The name of an attempt within its batch. (OpenAI asks for at most 64 characters.)"""
    return f"{call.call_id}-{call.attempt}"


def chat_body(request: LlmRequest, max_tokens_field: str, model: str) -> str:
    """The JSON of the chat request."""
    parameters = request.parameters(max_tokens_field, model)
    extra = parameters.pop("extra_body", {})
    return json.dumps(parameters | extra, separators=(",", ":"))
