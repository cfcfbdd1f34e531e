"""A reply as the API sends it, with the usage that is charged."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any

from okralong.pipelines.core.types import Usage
from tests.fakes.endpoint.chat_call import ChatCall
from tests.fakes.endpoint.draws import draw
from tests.fakes.endpoint.fault_rule import FaultKind
from tests.fakes.endpoint.replies import FILLER, REFUSAL, reply_to
from tests.fakes.endpoint.scenario import Replies
from tests.fakes.endpoint.tokens import Ids, token_bytes, token_ids


@dataclass(frozen=True, slots=True)
class Completion:
    """``body`` is the response's JSON."""

    usage: Usage
    body: dict[str, Any]


def complete(
    call: ChatCall, replies: Replies, seed: int, cached: tuple[int, int], fault: FaultKind | None
) -> Completion:
    """The reply to ``call``, spoilt as ``fault`` says where that is one of the reply itself. ``cached`` are the tokens
    of the prompt that were read from the cache, and those that are written to it.

    A reply that runs into ``max_tokens`` is cut there and charged for exactly as many tokens.
    """
    text = "" if fault == "empty_content" else reply_to(call.prompt, replies, seed)
    limit = call.limit or call.model.max_completion_tokens
    thought = min(call.model.thought, limit)
    limit -= thought
    if fault == "length":
        text += FILLER * limit
    ids = token_ids(REFUSAL if fault == "refusal" else text)
    finish = "stop"
    if len(ids) > limit:
        ids, finish = ids[:limit], "length"
        text = token_bytes(ids).decode("utf-8", "ignore")
    if fault == "content_filter":
        ids, text, finish = ids[: len(ids) // 2], "", "content_filter"
    usage = Usage(len(call.ids), cached[0], len(ids) + thought, thought, cached[1])
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    if fault == "refusal":
        message |= {"content": None, "refusal": REFUSAL}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": _logprobs(ids, seed), "refusal": None}
        if call.logprobs and call.model.logprobs
        else None,
        "finish_reason": finish,
    }
    body = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": call.name,
        "choices": [choice],
        "usage": usage_fields(usage),
        "service_tier": "flex" if call.flex else "default",
        "system_fingerprint": "fp_fake",
    }
    return Completion(usage, body)


def events_of(body: dict[str, Any], with_usage: bool) -> bytes:
    """The body of a reply as a stream of events, a token each where they have log-probabilities, else five letters."""
    choice = body["choices"][0]
    message, entries = choice["message"], (choice["logprobs"] or {}).get("content") or []
    common = {name: value for name, value in body.items() if name not in ("choices", "usage")}
    text = message["content"] or ""
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    deltas: list[dict[str, Any]] = [{"delta": {"content": piece}} for piece in pieces]
    deltas += [{"delta": {}, "logprobs": {"content": [entry]}} for entry in entries]
    if message["refusal"]:
        deltas.append({"delta": {"refusal": message["refusal"]}})
    deltas.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    events = [{**common, "choices": [{"index": 0, "finish_reason": None, **delta}]} for delta in deltas]
    events += [{**common, "choices": [], "usage": body["usage"]}] if with_usage else []
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events) + b"data: [DONE]\n\n"


def usage_fields(usage: Usage) -> dict[str, Any]:
    """The ``usage`` object of a chat completion."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _logprobs(ids: Ids, seed: int) -> list[dict[str, Any]]:
    """One entry a token; the numbers mean nothing but are always the same for the same reply."""
    entries: list[dict[str, Any]] = []
    for place, token in enumerate(ids):
        raw = token_bytes([token])
        logprob = round(-draw(seed, "logprob", place, token), 6)
        entries.append(
            {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(raw), "top_logprobs": []}
        )
    return entries
