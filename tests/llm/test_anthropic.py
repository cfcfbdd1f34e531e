"""Calls to Claude through the official SDK, over HTTP, at an endpoint with a bill of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    QUESTION_MARK,
    CallFailed,
    ConfigError,
    EndpointError,
    Message,
    Usage,
)
from okralong.pipelines.llm import completion
from okralong.pipelines.llm.abilities import abilities, has_batches
from okralong.pipelines.llm.completion import read_completion, receive
from okralong.pipelines.llm.config import LlmConfig, claude_generation
from okralong.pipelines.llm.endpoint import check_endpoint, open_provider, read_key
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.providers.anthropic import AnthropicDialect
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.fields import RequestFields
from okralong.pipelines.llm.rate_limit import LimitHeaders
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds, Trust
from tests.fakes.anthropic.translate import event_bytes
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree, batch_run
from tests.llm.provider_run import CLAUDE, DOCUMENT, SCHEMA, claude_batches
from tests.llm.tools import all_bytes, ask, client_over, rows

MODEL, RATES = CLAUDE.model, CLAUDE.rates
claude_config = CLAUDE.config


@pytest.fixture
def server(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({"models": {MODEL: {"rates": RATES}}})
    monkeypatch.setenv(CLAUDE.key_env, CLAUDE.key)
    return endpoint_process


def over(document: str, question: str) -> list[Message]:
    """A prompt whose document others share."""
    return [Message("system", "Answer from the document."), Message("user", f"{document}{QUESTION_MARK}{question}")]


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_thought_is_charged_as_output_and_the_key_stays_out_of_the_files(
    tmp_path: Path, server: EndpointProcess, stream: str
) -> None:
    server.reset({"models": {"claude-sonnet-5": {"rates": RATES, "thought": 30}}})
    config = claude_config(server.anthropic_url, model="claude-sonnet-5", stream=stream, reasoning_effort="low")
    async with client_over(tmp_path, config) as (client, _):
        reply = await client.complete("q", "generate", "generate", ask("Hello"))
    assert (reply.text, reply.model, reply.finish_reason) == ("An answer to: Hello", "claude-sonnet-5", "stop")
    (row,) = rows(tmp_path, "ledger")
    assert (row["reasoning_tokens"], row["service_tier"]) == (30, "standard")
    assert row["completion_tokens"] > 30
    assert row["provider_request_id"].startswith("req_")
    assert (row["first_token_s"] is not None) == (stream == "auto")
    agree(tmp_path, server)
    assert CLAUDE.key.encode() not in all_bytes(tmp_path)


async def test_a_shared_document_is_written_to_the_cache_once_and_then_read(
    tmp_path: Path, server: EndpointProcess
) -> None:
    async with client_over(tmp_path, claude_config(server.anthropic_url)) as (client, _):
        questions = (client.complete(f"q{n}", "full", "full_text", over(DOCUMENT, f"{n}?")) for n in range(6))
        await asyncio.gather(*questions)
        await client.complete("alone", "full", "full_text", over(DOCUMENT.replace("boats", "cars"), "How many?"))
        short = (client.complete(f"s{n}", "full", "full_text", over(DOCUMENT[:8000], f"{n}?")) for n in range(3))
        await asyncio.gather(*short)
    ledger = rows(tmp_path, "ledger")
    written = [row["cache_write_tokens"] for row in ledger if row["cache_write_tokens"]]
    read = [row["cached_tokens"] for row in ledger if row["cached_tokens"]]
    assert (len(written), len(read)) == (1, 5)
    assert {*written, *read} == {written[0]}
    assert written[0] > 2000
    whole = [row["prompt_tokens"] for row in ledger if row["cached_tokens"] or row["cache_write_tokens"]]
    assert min(whole) > written[0], "our prompt counts all of its tokens"
    agree(tmp_path, server)


async def test_no_prefix_is_marked_if_the_config_says_so(tmp_path: Path, server: EndpointProcess) -> None:
    async with client_over(tmp_path, claude_config(server.anthropic_url, prompt_cache_key="never")) as (client, _):
        for number in range(3):
            await client.complete(f"q{number}", "full", "full_text", over(DOCUMENT, f"{number}?"))
    assert {row["cache_write_tokens"] + row["cached_tokens"] for row in rows(tmp_path, "ledger")} == {0}
    agree(tmp_path, server)


async def test_prompts_are_reserved_with_what_claude_counts_more(tmp_path: Path, server: EndpointProcess) -> None:
    async with client_over(tmp_path, claude_config(server.anthropic_url)) as (client, _):
        assert client.meter.safe(1000) == 1351
        await client.complete("q0", "step", "generate", ask("Which city?"))
        assert client.meter.safe(1000) == 1351, "fewer tokens than reserved are no reason to reserve less"


async def test_a_model_is_known_by_its_name_without_the_date(server: EndpointProcess) -> None:
    server.change({"models": {f"{MODEL}-20251001": {"rates": RATES}}})  # Anthropic does not list the shorter name
    assert (await check_endpoint(claude_config(server.anthropic_url))).state == "ready"


async def test_a_prompt_that_does_not_fit_is_told(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"script": ["context_length"]})
    async with client_over(tmp_path, claude_config(server.anthropic_url)) as (client, _):
        with pytest.raises(CallFailed, match="does not fit the window"):
            await client.complete("big", "generate", "generate", ask("big"))
    agree(tmp_path, server)


async def test_refused_fields_are_left_out_from_then_on(tmp_path: Path, server: EndpointProcess) -> None:
    refused = {"temperature": "`temperature` is deprecated for this model."}
    server.reset({"models": {MODEL: {"rates": RATES, "refuses": refused, "json_schemas": False}}})
    schema = {"reply_schema": lambda _: json.dumps(SCHEMA)}
    async with client_over(tmp_path, claude_config(server.anthropic_url), **schema) as (client, _):
        for number in range(3):
            await client.complete(f"q{number}", "generate", "generate", ask("Hi"), answer_type="text")
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["failed", "failed", "ok", "ok", "ok"]
    agree(tmp_path, server)


async def test_claude_at_bedrock_has_no_schemas_models_and_batches(
    tmp_path: Path, server: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, bedrock = f"anthropic.{MODEL}", "https://bedrock-mantle.eu-central-1.api.aws/anthropic/v1"
    server.reset({"models": {model: {"rates": RATES, "json_schemas": False}}, "only_messages": True})
    with pytest.raises(ConfigError, match=r"api\.aws/anthropic/v1 needs a key, and .* AWS_BEARER_TOKEN_BEDROCK is not"):
        read_key(claude_config(bedrock, api_key_env="AWS_BEARER_TOKEN_BEDROCK"))
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", CLAUDE.key)
    here = {"model": model, "api_key_env": "AWS_BEARER_TOKEN_BEDROCK"}
    config = claude_config(f"{server.anthropic_url}/v1", **here)
    status = await check_endpoint(config)
    assert (status.ok, status.state) == (True, "unchecked")
    assert await has_batches(config) is False
    schema = {"reply_schema": lambda _: json.dumps(SCHEMA)}
    async with client_over(tmp_path, config, **schema) as (client, _):
        for number in range(2):
            await client.complete(f"q{number}", "generate", "generate", ask("Hi"), answer_type="text")
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["failed", "ok", "ok"]
    agree(tmp_path, server)
    async with batch_run(tmp_path / "batch", claude_batches(config.base_url, **here), cap_usd=1.0) as run:
        (got,) = await run.ask("q0")
    assert isinstance(got, EndpointError)
    assert "If it has no batches, run the same command with --llm-mode realtime" in str(got)
    assert len(server.received("chat")) == 3


async def test_a_reply_that_ignores_its_limit_is_aborted(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"replies": {"overlong": 60.0, "piece_s": 0.001, "pieces": 100}})
    config = claude_config(server.anthropic_url, max_completion_tokens={"generate": 20})
    async with client_over(tmp_path, config) as (client, _):
        reply = await client.complete("q", "generate", "generate", ask("Hello"))
    assert reply.finish_reason == "length"
    row, rest = rows(tmp_path, "ledger")
    assert 20 < row["completion_tokens"] < 600
    assert "aborted" in row["error"]
    assert rest["status"] == "unknown"


async def test_limits_of_input_and_output_are_learned_from_the_first_reply(
    tmp_path: Path, server: EndpointProcess
) -> None:
    server.change({"limits": {"tokens_per_minute": 100_000, "output_tokens_per_minute": 20_000}})
    async with client_over(tmp_path, claude_config(server.anthropic_url)) as (client, _):
        await client.complete("q", "generate", "generate", ask("Hello"))
        provider = client.router.routes[0].provider
        assert provider.permit_tokens(1000, 400) == 2000, "a fiftieth of either limit"
    assert server.received("chat")[0]["status"] == 200


def test_headers_of_limits_are_read() -> None:
    provider = open_provider(claude_config("http://a.example"), Connection("http://a.example", "k"))
    name, date = "anthropic-ratelimit", "Sat, 28 Nov 2026 20:00:00 GMT"
    headers = {f"{name}-requests-limit": "50", f"{name}-requests-remaining": "49", "date": date}
    headers |= {f"{name}-input-tokens-limit": "30000", f"{name}-output-tokens-limit": "6000"}
    headers |= {f"{name}-requests-reset": "2026-11-28T20:00:12Z", f"{name}-input-tokens-reset": "soon"}
    assert provider.permit_tokens(1000, 100) == 1100
    read = provider.rate_limits(headers, taken=True)
    assert (read.requests, read.tokens) == (LimitHeaders(50, 49, 12.0), LimitHeaders(30_000, None, None))
    assert (provider.permit_tokens(1000, 100), provider.permit_tokens(1000, 400)) == (1000, 2000)


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-haiku-4-5", None, {"temperature": 0.0}),
        ("claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-opus-4-6", None, {"temperature": 0.0}),
        ("claude-opus-4-6", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("claude-opus-4-8", None, {}),
        ("claude-sonnet-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", "none", {"thinking": {"type": "between_tools"}}),
        ("claude-fable-5-1", "minimal", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ],
)
def test_each_version_is_asked_as_it_wants_to_be(model: str, effort: str | None, sent: dict[str, Any]) -> None:
    config = claude_config("http://a.example", model=model)
    provider = open_provider(config, Connection("http://a.example", "k"))
    request = LlmRequest(
        model, "http://a.example", tuple(ask("Hi")), 9000, stop=("X",), seed=3, reasoning_effort=effort
    )
    body = provider.body(request, RequestFields(wire=provider.wire))
    assert body == {
        "model": model,
        "max_tokens": 9000,
        "system": "Answer in a word.",
        "messages": [{"role": "user", "content": "Hi"}],
        "stop_sequences": ["X"],
        **sent,
    }


def test_versions_are_read_from_names() -> None:
    names = ["claude-3-5-haiku-latest", "claude-opus-4-20250514", "claude-haiku-4-5-20251001", "claude-sonnet-5"]
    assert [claude_generation(name) for name in [*names, "claude-mythos-preview", "ours"]] == [
        *[(3, 5), (4, 0), (4, 5), (5, 0), (9, 0), (9, 0)],
    ]


def test_prices_and_defaults_follow_from_the_provider() -> None:
    config = LlmConfig(provider="anthropic", model="claude-sonnet-5-5")
    assert (config.base_url, config.api_key_env) == ("https://api.anthropic.com", "ANTHROPIC_API_KEY")
    assert config.room_for_thought == 8192
    assert claude_config("http://a.example").room_for_thought == 0
    table = PriceTable.load()
    price = table.price("claude-haiku-4-5-20251001")
    assert (price.input, price.cached_input, price.cache_write, price.output) == (1.0, 0.1, 1.25, 5.0)
    assert price.in_batch().cached_input == 0.05
    assert table.price("claude-haiku-5-5").rates(100_001).output == 2.5
    assert "provider" not in LlmConfig().model_dump()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"base_url": "embedded", "model": "m"}, "llm.provider is anthropic, and llm.base_url or llm.model is embed"),
        ({"model": "m", "api_version": "1"}, "llm.api_version belongs to Azure"),
        ({"model": "m", "service_tier": "flex"}, "llm.service_tier is flex, which llm.provider anthropic does not"),
        ({"model": "m", "constrained": True}, "llm.constrained is true, and llm.provider anthropic takes no gram"),
        ({"model": "claude-opus-5-5", "reasoning_effort": "none"}, "claude-opus-5-5 always thinks"),
    ],
)
def test_impossible_combinations_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LlmConfig(provider="anthropic", **given)


async def test_what_the_endpoint_can_do_is_found_out(server: EndpointProcess) -> None:
    server.change({"replies": {"rules": [{"text": '{"city_named": "Paris"}'}]}})
    config = claude_config(server.anthropic_url)
    found = await abilities(config, config)
    assert (found.json_schema, found.logprobs, found.streams, found.batches) == ("kept", False, True, True)
    assert await has_batches(config) is True


class _Streamed:
    """A stream of events, as ``receive`` takes it."""

    headers: ClassVar[dict[str, str]] = {"content-type": "text/event-stream"}

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event_bytes(event)
            await asyncio.sleep(0)


def _begun() -> dict[str, Any]:
    prompt = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 7}
    return {"type": "message_start", "message": {"model": MODEL, "usage": {**prompt, "output_tokens": 1}}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def _ended(reason: str, usage: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


async def _read(*events: dict[str, Any], max_tokens: int = 100) -> RawReply:
    bounds = Bounds(20, max_tokens)
    received = await receive(_Streamed(*events), bounds, count_tokens, AnthropicDialect())
    return read_completion(received, bounds, MODEL, count_tokens, Trust(8192))


async def test_a_refusal_before_the_first_token_is_charged_by_its_usage() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "This could enable harm."}
    raw = await _read(_begun(), _ended("refusal", {"output_tokens": 0}, stop_details=why), {"type": "message_stop"})
    assert (raw.reply.usage, raw.counted_here, raw.refusal) == (Usage(22, 5, 0, 0, 7), False, "This could enable harm.")


@pytest.mark.parametrize(
    ("begun", "ended", "booked"),
    [
        ({"cache_read_input_tokens": -700}, {"output_tokens": 20}, (785, 20)),
        ({"cache_creation_input_tokens": -(10**30)}, {"output_tokens": 20}, (785, 20)),
        ({"cache_read_input_tokens": 3000}, {"output_tokens": -20}, (3785, 2)),
        ({"cache_read_input_tokens": "many"}, {"output_tokens": 4000}, (785, 4000)),
    ],
)
async def test_a_wrong_part_of_a_usage_lowers_no_other(
    begun: dict[str, Any], ended: dict[str, Any], booked: tuple[int, int]
) -> None:
    usage = {"input_tokens": 785, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 1}
    start = {"type": "message_start", "message": {"model": MODEL, "usage": usage | begun}}
    raw = await _read(start, _text("Two words"), _ended("end_turn", ended), {"type": "message_stop"})
    assert (raw.reply.usage.prompt_tokens, raw.reply.usage.completion_tokens) == booked
    assert ("cannot be true" in raw.note) == any(
        isinstance(each, int) and each < 0 for each in (begun | ended).values()
    )


async def test_an_endless_usage_is_booked_up_to_the_window_and_needs_a_decision() -> None:
    raw = await _read(_begun(), _text("Two words"), _ended("end_turn", {"output_tokens": 10**30}))
    assert (raw.reply.usage.prompt_tokens, raw.reply.usage.completion_tokens, raw.undecided) == (22, 8192, True)


async def test_a_stream_without_the_usage_of_its_end_is_counted_here() -> None:
    raw = await _read(_begun(), _text("Two words"), _ended("end_turn", {}), {"type": "message_stop"})
    assert (raw.counted_here, raw.reply.usage.completion_tokens) == (True, count_tokens("Two words"))


async def test_an_aborted_stream_is_charged_for_the_prompt_that_its_beginning_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(completion, "ABORT_GRACE_S", 0.0)
    raw = await _read(_begun(), *[_text("word " * 50)] * 40, max_tokens=4)
    assert "aborted" in raw.note
    assert replace(raw.reply.usage, completion_tokens=0) == Usage(22, 5, 0, 0, 7)
    assert raw.reply.usage.completion_tokens > 4
