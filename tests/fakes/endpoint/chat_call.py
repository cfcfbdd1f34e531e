"""One chat request, read and judged as OpenAI judges it before the model is asked.

Not modelled, and refused by name: streaming, more than one choice, tools, and message contents that are no text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.endpoint.problems import Problem, context_length, invalid, missing, unknown_model
from tests.fakes.endpoint.prompts import Prompt, read_prompt
from tests.fakes.endpoint.scenario import Limits, Model
from tests.fakes.endpoint.tokens import Ids, PromptTokens

_ROLES = ("system", "developer", "user", "assistant")


@dataclass(frozen=True, slots=True)
class ChatCall:
    """``limit`` is the most completion tokens, None where the request names none; ``size`` the prompt's characters."""

    request_hash: str
    name: str
    model: Model
    prompt: Prompt
    ids: Ids
    size: int
    limit: int | None
    logprobs: bool
    flex: bool = False
    stream: bool = False
    stream_usage: bool = False

    def reserved(self, limits: Limits) -> int:
        """What the quota counts it for: the prompt and ``max_tokens``."""
        prompt = len(self.ids) if limits.estimate == "tokens" else -(-self.size // 4)
        return prompt + (self.limit or 0)

    def check_window(self) -> None:
        """Raises Problem when prompt and reply do not fit the model's window."""
        if len(self.ids) + (self.limit or 1) > self.model.window:
            raise context_length(self.model.window, len(self.ids), self.limit or 0)


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises Problem when it is none."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Problem(
            400, "We could not parse the JSON body of your request. The API expects a JSON payload, which this was not."
        )
    return body


def request_hash(body: Mapping[str, Any]) -> str:
    """Sha256 of the body's canonical JSON; whether the reply is streamed changes nothing in it."""
    body = {name: value for name, value in body.items() if name not in ("stream", "stream_options")}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_call(body: Mapping[str, Any], models: Mapping[str, Model], tokens: PromptTokens) -> ChatCall:
    """The request as the endpoint understands it. Raises Problem for what it refuses."""
    name = body.get("model")
    if not isinstance(name, str) or not name:
        raise Problem(400, "you must provide a model parameter")
    if name not in models:
        raise unknown_model(name)
    for unmodelled in ("tools", "functions"):
        if body.get(unmodelled):
            raise invalid(unmodelled, f"This endpoint is a fake that does not model '{unmodelled}'.")
    if body.get("n") not in (None, 1):
        raise invalid("n", "This endpoint is a fake that gives one choice.")
    messages = _messages(body)
    form = body.get("response_format") or {}
    if form == {"type": "json_object"}:
        _names_json(messages)
    if form.get("type") == "json_schema":
        _takes_schema(form.get("json_schema"), models[name])
    return ChatCall(
        request_hash=request_hash(body),
        name=name,
        model=models[name],
        prompt=read_prompt(messages),
        ids=tokens.of(messages),
        size=sum(len(content) for _, content in messages),
        limit=_limit(body, models[name]),
        logprobs=bool(body.get("logprobs")),
        flex=body.get("service_tier") == "flex",
        stream=bool(body.get("stream")),
        stream_usage=bool((body.get("stream_options") or {}).get("include_usage")),
    )


def _messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "messages" not in body:
        raise missing("messages")
    given = body["messages"]
    if not isinstance(given, list) or not given:
        raise invalid("messages", "Invalid 'messages': expected an array with at least one message.")
    messages: list[tuple[str, str]] = []
    for number, message in enumerate(given):
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in _ROLES:
            raise invalid(f"messages[{number}].role", f"Invalid value: '{role}'. Supported values are: {_ROLES}.")
        if not isinstance(content, str):
            raise invalid(f"messages[{number}].content", "Invalid type: expected a string.")
        messages.append((role, content))
    return messages


def _names_json(messages: list[tuple[str, str]]) -> None:
    if not any("json" in content.lower() for _, content in messages):
        raise Problem(
            400,
            "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
            param="messages",
        )


def _takes_schema(given: object, model: Model) -> None:
    if not model.json_schemas:
        raise invalid(
            "response_format",
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        )
    if not isinstance(given, dict) or not given.get("name") or not isinstance(given.get("schema"), dict):
        raise missing("response_format.json_schema.schema")


def _limit(body: Mapping[str, Any], model: Model) -> int | None:
    for param in ("max_completion_tokens", "max_tokens"):
        limit = body.get(param)
        if limit is None:
            continue
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise invalid(param, f"Invalid '{param}': integer below minimum value. Expected a value >= 1.")
        if limit > model.max_completion_tokens:
            raise invalid(
                param,
                f"{param} is too large: {limit}. This model supports at most {model.max_completion_tokens} completion "
                f"tokens, whereas you provided {limit}.",
            )
        return limit
    return None
