"""Spans and metrics of a run's calls, made where the ledger settles them, so that both show the same calls.

Names follow OpenTelemetry's conventions for generative AI (semantic conventions 1.45); costs and batches have names
of our own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from okralong.pipelines.core.spans import (
    TEXT_CHARS,
    Span,
    SpanEvent,
    SpanPlace,
    nanoseconds,
    span_id,
    step_place,
)
from okralong.pipelines.core.telemetry import Telemetry
from okralong.pipelines.llm.records import USED, Call, Outcome
from okralong.pipelines.models.weights import EMBEDDED

PROVIDERS: Final = {
    "openai.azure.com": "azure.ai.openai",
    "openai.com": "openai",
    "anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "googleapis.com": "gcp.vertex_ai",
    "amazonaws.com": "aws.bedrock",
    "api.aws": "aws.bedrock",
    "mistral.ai": "mistral_ai",
    "groq.com": "groq",
    "deepseek.com": "deepseek",
    "x.ai": "x_ai",
    "cohere.com": "cohere",
    "perplexity.ai": "perplexity",
}
"""Values of ``gen_ai.provider.name`` by the end of a host's name."""


class CallTelemetry:
    """Watches a ledger (see ``LedgerWatch``): a span for each call, with its failed attempts as events, and metrics."""

    def __init__(self, telemetry: Telemetry, owns: bool = False) -> None:
        """``owns``: whether nothing else of this process sends by ``telemetry``, so that it ends with the ledger."""
        self._telemetry, self._owns = telemetry, owns
        self._failed: dict[str, dict[str, list[Outcome]]] = {}
        self._prompts: dict[str, str] = {}

    def intended(self, call: Call) -> None:
        """Keep the request until its reply arrives, if spans contain texts."""
        if self._telemetry.text and call.body != "{}":
            asked = json.loads(call.body).get("messages", [])
            self._prompts[call.call_id] = _messages((str(one["role"]), str(one["content"])) for one in asked)

    def settled(self, outcome: Outcome) -> None:
        """Count an attempt that has ended; send the call's span if it brought a reply."""
        call = outcome.call
        self._measure(outcome)
        if outcome.status in USED:
            self._send(outcome, self._failed.get(call.query_id, {}).pop(call.call_id, []))
        else:
            self._failed.setdefault(call.query_id, {}).setdefault(call.call_id, []).append(outcome)

    def finished(self, row: Mapping[str, Any]) -> None:
        """Count a question that has ended; send the spans of its calls without a reply."""
        self._telemetry.count("okralong.questions", 1, {"okralong.status": str(row["status"])})
        self._send_failed(str(row["query_id"]))

    def close(self) -> None:
        """Send the calls of questions that have not ended, and what is queued."""
        for query_id in list(self._failed):
            self._send_failed(query_id)
        if self._owns:
            self._telemetry.close()

    def _send_failed(self, query_id: str) -> None:
        for attempts in self._failed.pop(query_id, {}).values():
            self._send(attempts[-1], attempts[:-1])

    def _measure(self, outcome: Outcome) -> None:
        call, measured = outcome.call, self._telemetry
        model = {"gen_ai.request.model": call.model}
        measured.count(
            "okralong.llm.calls", 1, {**model, "okralong.status": outcome.status, "okralong.mode": call.mode}
        )
        if outcome.status != "ok":
            return
        named = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider_name(call.endpoint), **model}
        tokens = {"input": outcome.usage.prompt_tokens, "output": outcome.usage.completion_tokens}
        for kind, count in tokens.items():
            measured.observe("gen_ai.client.token.usage", count, {**named, "gen_ai.token.type": kind})
        measured.observe("gen_ai.client.operation.duration", outcome.latency_s, named)
        measured.count("okralong.llm.cost", outcome.cost_usd, model)

    def _send(self, outcome: Outcome, failed: list[Outcome]) -> None:
        """Send the span of a call, from its first attempt's wait to its last attempt's end."""
        call = outcome.call
        prompt = self._prompts.pop(call.call_id, "")
        question = self._telemetry.setup.question(call.query_id)
        if question is None:
            return
        last_sent = nanoseconds(call.started_at.timestamp())
        first = failed[0].call if failed else call
        start = nanoseconds(first.started_at.timestamp() - first.queue_s)
        events = [_retry(each) for each in failed]
        events.append(SpanEvent("okralong.sent", last_sent, {"okralong.waited_s": call.queue_s}))
        if outcome.first_token_s is not None:
            events.append(SpanEvent("okralong.first_token", last_sent + nanoseconds(outcome.first_token_s)))
        attributes = call_attributes(outcome)
        if self._telemetry.text:
            attributes |= _texts(outcome, prompt)
        self._telemetry.send(
            Span(
                f"chat {call.model}",
                SpanPlace(question.trace_id, span_id(question.trace_id, "call", call.call_id)),
                step_place(question, call.path),
                start,
                last_sent + nanoseconds(outcome.latency_s),
                attributes,
                events,
                error="" if outcome.status in USED else _kind(outcome),
                is_call=True,
            )
        )


def call_attributes(outcome: Outcome) -> dict[str, Any]:
    """Return the attributes of a call's span, without any text."""
    call, usage = outcome.call, outcome.usage
    host = urlsplit(call.endpoint)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(call.endpoint),
        "gen_ai.request.model": call.model,
        "gen_ai.response.model": outcome.snapshot or None,
        "gen_ai.response.id": outcome.provider_request_id or None,
        "gen_ai.response.time_to_first_chunk": outcome.first_token_s,
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "server.address": host.hostname,
        "server.port": host.port,
        "http.response.status_code": outcome.http_status or None,
        "okralong.cost_usd": outcome.cost_usd,
        "okralong.role": call.role,
        "okralong.path": call.path,
        "okralong.call_id": call.call_id,
        "okralong.attempts": call.attempt,
        "okralong.status": outcome.status,
        "okralong.mode": call.mode,
        "okralong.queue_s": call.queue_s,
        "okralong.batch_id": call.batch_id or None,
        "okralong.wave": call.wave or None,
        "okralong.service_tier": outcome.service_tier or None,
    }


def provider_name(base_url: str) -> str:
    """Return the provider of an endpoint; "openai" for unknown servers, which speak its protocol."""
    if base_url in ("", EMBEDDED):
        return "okralong"
    host = urlsplit(base_url).hostname or ""
    known = (name for end, name in PROVIDERS.items() if host == end or host.endswith(f".{end}"))
    return next(known, "openai")


def _retry(failed: Outcome) -> SpanEvent:
    call = failed.call
    at = nanoseconds(call.started_at.timestamp() + failed.latency_s)
    told = {"okralong.attempt": call.attempt, "error.type": _kind(failed), "okralong.cost_usd": failed.cost_usd}
    return SpanEvent("okralong.retry", at, told)


def _kind(outcome: Outcome) -> str:
    """Return the kind of a failure, without its message, which may quote a prompt."""
    return str(outcome.http_status) if outcome.http_status >= 400 else outcome.status


def _texts(outcome: Outcome, prompt: str) -> dict[str, str]:
    replied = json.loads(outcome.reply).get("reply", {}).get("text") if outcome.reply else None
    found = {
        "gen_ai.input.messages": prompt,
        "gen_ai.output.messages": _messages([("assistant", replied)]) if replied else "",
        "okralong.error": outcome.error[:TEXT_CHARS],
    }
    return {name: text for name, text in found.items() if text}


def _messages(messages: Iterable[tuple[str, str]]) -> str:
    """Return messages in the conventions' JSON, each cut to ``TEXT_CHARS``."""
    said = [{"role": role, "parts": [{"type": "text", "content": text[:TEXT_CHARS]}]} for role, text in messages]
    return json.dumps(said, ensure_ascii=False)
