"""Gemini's replies in the form of OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from okralong.pipelines.llm.completion import Dialect
from okralong.pipelines.llm.usage import added, mapping

FINISHED: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        "content_filter",
    ),
}
"""Google's reasons for the end of a reply, and OpenAI's name for each. Others stay, in lower case."""
TOO_LONG: Final = re.compile(r"token count .{0,40}exceeds the maximum", re.IGNORECASE)
"""Matches the refusal of a prompt that is longer than the model's window."""


class GeminiDialect(Dialect):
    """Translates Gemini's replies to OpenAI's.

    Tokens of thought are billed as output, but ``candidatesTokenCount`` excludes them. ``promptTokenCount`` includes
    the cached tokens. In a stream, each event repeats the usage so far.
    """

    def whole(self, found: object) -> object:
        """See ``Dialect``."""
        return _completion(found, "message") if isinstance(found, Mapping) and _is_reply(found) else found

    def event(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """See ``Dialect``."""
        return _completion(found, "delta") if _is_reply(found) else found


def _is_reply(found: Mapping[str, Any]) -> bool:
    return any(name in found for name in ("candidates", "promptFeedback", "usageMetadata"))


def _completion(found: Mapping[str, Any], message: str) -> dict[str, Any]:
    candidates = found.get("candidates")
    candidate = mapping(candidates[0]) if isinstance(candidates, list) and candidates else {}
    blocked = mapping(found.get("promptFeedback")).get("blockReason")
    reason = str(candidate.get("finishReason") or "")[:100]
    told: dict[str, Any] = {"model": found.get("modelVersion")}
    if (usage := _usage(mapping(found.get("usageMetadata")))) is not None:
        told["usage"] = usage
    if not candidate and not blocked and message == "delta":
        return told  # an event with nothing but the usage
    choice = {
        "index": 0,
        message: _message(mapping(candidate.get("content")).get("parts")),
        "finish_reason": "content_filter" if blocked else FINISHED.get(reason, reason.lower()),
        "logprobs": {"content": _logprobs(mapping(candidate.get("logprobsResult")).get("chosenCandidates"))},
    }
    return {**told, "choices": [choice]}


def _message(parts: object) -> dict[str, Any]:
    texts: dict[str, str] = {}
    called: list[dict[str, Any]] = []
    for part in map(mapping, parts if isinstance(parts, list) else []):
        name = "reasoning_content" if part.get("thought") else "content"
        if isinstance(part.get("text"), str):
            texts[name] = texts.get(name, "") + part["text"]
        if part.get("functionCall"):
            called.append({"function": {"name": mapping(part["functionCall"]).get("name")}})
    return {**texts, "tool_calls": called} if called else dict(texts)


def _usage(told: Mapping[str, Any]) -> dict[str, Any] | None:
    if "promptTokenCount" not in told:
        return None
    written, thought = (told.get(name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount"))
    return {
        "prompt_tokens": told["promptTokenCount"],
        "completion_tokens": added(written, thought),
        "total_tokens": told.get("totalTokenCount"),
        "prompt_tokens_details": {"cached_tokens": told.get("cachedContentTokenCount") or 0},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def _logprobs(chosen: object) -> list[dict[str, Any]]:
    found = map(mapping, chosen if isinstance(chosen, list) else [])
    return [{"token": each.get("token"), "logprob": each.get("logProbability")} for each in found]
