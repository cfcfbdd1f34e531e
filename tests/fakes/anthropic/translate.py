"""A request of the Messages API in OpenAI's form, a chat completion and errors in Anthropic's.

Unknown fields are refused as Anthropic refuses them. Not modelled, and refused the same way: tools, and blocks that are
no text.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.endpoint.problems import Problem
from tests.fakes.endpoint.scenario import Model

_FIELDS: Final = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "stream", "stop_sequences", "temperature", "top_p"),
        *("thinking", "output_config", "service_tier"),
    }
)
_FINISHED: Final = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_PIECE: Final = 5
"""Characters of an event's text."""


class Wrong(Problem):
    """A request that is refused in Anthropic's own words."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as a chat request's ``body``, and the ``marked`` messages, up to the last mark for the cache."""

    body: dict[str, Any]
    marked: list[tuple[str, str]]


def as_chat(body: Mapping[str, Any], models: Mapping[str, Model]) -> Asked:
    """Read a request. Raises Problem for what Anthropic refuses."""
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise Wrong(f"{name}: Field required")
    model = models.get(str(body["model"]))
    if model is None:
        raise Problem(404, f"model: {body['model']}")
    for field in body:
        if field not in _FIELDS:
            raise Wrong(f"{field}: Extra inputs are not permitted")
        if field in model.refuses:
            raise Wrong(model.refuses[field])
    _check_thinking(body, model)
    messages: list[tuple[str, str]] = []
    marked: list[tuple[str, str]] = []
    for role, content in _contents(body):
        for text, mark in _blocks(role, content):
            if messages and messages[-1][0] == role and role != "system":
                messages[-1] = (role, messages[-1][1] + text)
            else:
                messages.append((role, text))
            if mark:
                marked = list(messages)
    chat: dict[str, Any] = {
        "model": body["model"],
        "messages": [{"role": role, "content": content} for role, content in messages],
        "max_completion_tokens": body["max_tokens"],
        "stream": bool(body.get("stream")),
    }
    chat |= {name: body[name] for name in ("temperature", "top_p", "thinking") if name in body}
    form = (body.get("output_config") or {}).get("format")
    if form is not None:
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            raise Wrong("output_config.format.schema: Field required")
        chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": form["schema"]}}
    return Asked(chat, marked)


def _check_thinking(body: Mapping[str, Any], model: Model) -> None:
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        if not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
            raise Wrong("`max_tokens` must be greater than `thinking.budget_tokens`, which must be at least 1024.")
        if "temperature" in body and body["temperature"] != 1:
            raise Wrong("`temperature` may only be set to 1 when thinking is enabled.")
    if body["max_tokens"] > model.max_completion_tokens:
        raise Wrong(
            f"max_tokens: {body['max_tokens']} > {model.max_completion_tokens}, which is the maximum allowed number "
            f"of output tokens for {body['model']}"
        )


def _contents(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if body.get("system"):
        yield "system", body["system"]
    if not isinstance(body["messages"], list) or not body["messages"]:
        raise Wrong("messages: at least one message is required")
    for number, message in enumerate(body["messages"]):
        if message.get("role") not in ("user", "assistant"):
            raise Wrong(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        yield message["role"], message.get("content")
    if body["messages"][-1]["role"] == "assistant":
        raise Wrong("This model does not support assistant message prefill.")


def _blocks(role: str, content: Any) -> Iterator[tuple[str, bool]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for block in blocks or []:
        if block.get("type") != "text" or not block.get("text"):
            raise Wrong(f"messages: text content blocks must be non-empty ({role})")
        mark = block.get("cache_control")
        if mark is not None and mark.get("type") != "ephemeral":
            raise Wrong("cache_control.type: Input should be 'ephemeral'")
        yield block["text"], mark is not None


def as_message(chat: Mapping[str, Any]) -> dict[str, Any]:
    """A chat completion as Anthropic sends it."""
    choice, usage = chat["choices"][0], chat["usage"]
    told = usage["prompt_tokens_details"]
    read, written = told["cached_tokens"], told["cache_write_tokens"]
    thought = usage["completion_tokens_details"]["reasoning_tokens"]
    message = choice["message"]
    blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": "", "signature": "c2ln"}] if thought else []
    if message["content"]:
        blocks.append({"type": "text", "text": message["content"]})
    reason, details = _FINISHED[choice["finish_reason"]], None
    if message["refusal"]:
        reason, details = "refusal", {"type": "refusal", "category": None, "explanation": message["refusal"]}
    return {
        "id": f"msg_{uuid.uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": chat["model"],
        "content": blocks,
        "stop_reason": reason,
        "stop_details": details,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"] - read - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"thinking_tokens": thought},
            "service_tier": "standard",
        },
    }


def events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as the events of a stream; only the last delta has all of the usage."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "stop_details": None}
    start["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        kind = block["type"]
        yield {"type": "content_block_start", "index": index, "content_block": {**block, kind: ""}}
        deltas = [{"type": "signature_delta", "signature": "c2ln"}]
        if kind == "text":
            text = block["text"]
            pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {name: message[name] for name in ("stop_reason", "stop_details", "stop_sequence")}
    counts = {name: usage[name] for name in ("output_tokens", "output_tokens_details")}
    yield {"type": "message_delta", "delta": ended, "usage": counts}
    yield {"type": "message_stop"}


def event_bytes(event: Mapping[str, Any]) -> bytes:
    """An event as it goes over the wire."""
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def as_error(problem: Problem, request_id: str) -> tuple[int, dict[str, Any]]:
    """The status and the body with which Anthropic says what OpenAI would say by ``problem``."""
    status, message = problem.status, str(problem)
    if problem.code == "insufficient_quota":
        status = 402
        message = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
    elif problem.code == "invalid_api_key":
        message = "invalid x-api-key"
    elif problem.code == "context_length_exceeded":
        message = "prompt is too long: 210000 tokens > 200000 maximum"
    elif problem.body["error"]["param"] == "response_format":
        message = "output_config.format: this model does not support structured outputs."
    elif status == 503:
        status, message = 529, "Overloaded"
    elif status == 429:
        message = "This request would exceed your organization's rate limit. Please try again later."
    told = {"type": _TYPES.get(status, "api_error"), "message": message}
    return status, {"type": "error", "error": told, "request_id": request_id}
