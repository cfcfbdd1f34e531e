"""Calls to Gemini through the official SDK, over HTTP, at an endpoint with a bill of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    CallFailed,
    ConfigError,
    CutShort,
    EndpointError,
    Message,
    ReplyError,
    Usage,
)
from okralong.pipelines.llm.completion import Received, parse, read_completion
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import open_provider
from okralong.pipelines.llm.prices import LongRates, PriceTable
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.fields import RequestFields
from okralong.pipelines.llm.providers.gemini import GeminiDialect
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds, Trust
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree
from tests.llm.provider_run import GEMINI
from tests.llm.tools import all_bytes, ask, client_over, rows

MODEL, PRICE, RATES, KEY = GEMINI.model, GEMINI.price, GEMINI.rates, GEMINI.key
google_config = GEMINI.config
SCHEMA = json.dumps({"name": "answer", "strict": True, "schema": {"type": "object"}})


@pytest.fixture
def server(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({"models": {MODEL: {"rates": RATES}}})
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    return endpoint_process


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_thought_and_cached_tokens_are_charged_as_billed(
    tmp_path: Path, server: EndpointProcess, stream: str
) -> None:
    server.reset({"models": {MODEL: {"rates": RATES, "thought": 30}}})
    config = google_config(server.google_url, stream=stream, reasoning_effort="low")
    same = "The same beginning. " * 400
    async with client_over(tmp_path, config) as (client, _):
        for number in range(3):
            messages = [Message("system", same), Message("user", f"Question {number}?")]
            reply = await client.complete(f"q{number}", "generate", "generate", messages)
            assert reply.text == f"An answer to: Question {number}?"
            assert (reply.model, reply.finish_reason, reply.usage.reasoning_tokens) == (MODEL, "stop", 30)
    ledger = rows(tmp_path, "ledger")
    assert [row["cached_tokens"] > 1024 for row in ledger] == [False, True, True]
    assert {row["reasoning_tokens"] for row in ledger} == {30}
    assert all(row["completion_tokens"] > 30 for row in ledger)
    agree(tmp_path, server)
    assert KEY.encode() not in all_bytes(tmp_path)
    assert {entry["path"] for entry in server.received("chat")} == {
        f"/v1beta/models/{MODEL}:{'streamGenerateContent' if stream == 'auto' else 'generateContent'}"
    }


async def test_a_long_prompt_is_charged_at_its_own_rates(tmp_path: Path, server: EndpointProcess) -> None:
    twice = {name: 2 * rate for name, rate in RATES.items()}
    server.reset({"models": {MODEL: {"rates": RATES, "long_above": 200, "long_rates": twice}}})
    price = PRICE.model_copy(update={"longer": [LongRates(above=200, **twice)]})
    async with client_over(tmp_path, google_config(server.google_url, price=price)) as (client, _):
        for text in ("short", "word " * 300):
            await client.complete(text, "generate", "generate", ask(text))
    assert [row["input_usd_per_million"] for row in rows(tmp_path, "ledger")] == [RATES["input"], twice["input"]]
    agree(tmp_path, server)


async def test_thought_that_fills_the_limit_is_told(tmp_path: Path, server: EndpointProcess) -> None:
    server.reset({"models": {MODEL: {"rates": RATES, "thought": 1000}}})
    async with client_over(tmp_path, google_config(server.google_url)) as (client, _):
        with pytest.raises(CutShort, match=r"was cut off in its thought.*llm\.reasoning_tokens"):
            await client.complete("q", "generate", "generate", ask("Hello"))
    agree(tmp_path, server)


async def test_a_refused_schema_is_left_out_and_one_that_must_be_kept_fails(
    tmp_path: Path, server: EndpointProcess
) -> None:
    server.reset({"models": {MODEL: {"rates": RATES, "json_schemas": False}}})
    given: dict[str, Any] = {"reply_schema": lambda answer_type: SCHEMA}
    async with client_over(tmp_path / "auto", google_config(server.google_url), **given) as (client, _):
        for query_id in ("a", "b"):
            await client.complete(query_id, "generate", "generate", ask(query_id), answer_type="number")
    statuses = [row["http_status"] for row in rows(tmp_path / "auto", "ledger")]
    assert statuses == [400, 200, 200]
    always = google_config(server.google_url, json_schema="always")
    async with client_over(tmp_path / "always", always, **given) as (client, _):
        with pytest.raises(CallFailed, match=r"llm\.json_schema"):
            await client.complete("a", "generate", "generate", ask("a"), answer_type="number")


@pytest.mark.parametrize("stream", ["auto", "never"])
async def test_probabilities_of_tokens_spell_the_reply(tmp_path: Path, server: EndpointProcess, stream: str) -> None:
    async with client_over(tmp_path, google_config(server.google_url, stream=stream)) as (client, _):
        reply = await client.complete("q", "generate", "generate", ask("Hello"), logprobs=True)
    assert "".join(reply.tokens) == reply.text
    assert len(reply.token_logprobs) == len(reply.tokens) > 3
    assert all(-1 < number < 0 for number in reply.token_logprobs)


async def test_fields_that_a_model_refuses_are_left_out_or_named(tmp_path: Path, server: EndpointProcess) -> None:
    refuses = {
        "seed": "* GenerateContentRequest.generation_config.seed: seed is not supported",
        "thinkingConfig": "Thinking level MINIMAL is not supported for this model.",
    }
    server.reset({"models": {MODEL: {"rates": RATES, "refuses": refuses}}})
    async with client_over(tmp_path, google_config(server.google_url)) as (client, _):
        await client.complete("a", "generate", "generate", ask("a"))
    minimal = google_config(server.google_url, seed=None, reasoning_effort="minimal")
    async with client_over(tmp_path, minimal) as (client, _):
        with pytest.raises(EndpointError, match=r"Set llm\.reasoning_effort to a value that the model takes"):
            await client.complete("b", "generate", "generate", ask("b"))


async def test_an_overlong_reply_is_aborted_and_its_thought_is_counted(tmp_path: Path, server: EndpointProcess) -> None:
    model = {"rates": RATES, "thought": 5}
    server.reset({"models": {MODEL: model}, "replies": {"overlong": 20.0, "piece_s": 0.01, "pieces": 30}})
    config = google_config(server.google_url, max_completion_tokens={"generate": 40})
    async with client_over(tmp_path, config) as (client, _):
        reply = await client.complete("q", "generate", "generate", ask("Hello"))
    row, rest = rows(tmp_path, "ledger")
    assert reply.finish_reason == "length"
    assert (row["status"], row["reasoning_tokens"], rest["status"]) == ("ok", 5, "unknown")
    assert "aborted" in row["error"]
    for _ in range(3_600):  # the endpoint notices the abort a moment later
        (entry,) = server.received("chat")
        if entry["completion_tokens"]:
            break
        await asyncio.sleep(0.05)
    assert 0 <= entry["completion_tokens"] - row["completion_tokens"] <= 150, "what was written while the abort arrived"
    assert row["completion_tokens"] > 1.5 * 40


async def test_the_servers_limit_is_kept_when_it_is_configured(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"limits": {"requests_per_minute": 600}})
    config = google_config(server.google_url, requests_per_minute=500, max_in_flight=20)
    async with client_over(tmp_path, config) as (client, _):
        await asyncio.gather(*(client.complete(f"q{n}", "generate", "generate", ask(f"{n}")) for n in range(20)))
    assert {entry["status"] for entry in server.received("chat")} == {200}
    agree(tmp_path, server)


def test_a_missing_sdk_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "okralong.pipelines.llm.providers.google", raising=False)
    monkeypatch.setitem(sys.modules, "google.genai", None)
    config = google_config("http://127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"'\.\[google\]' in the checkout"):
        open_provider(config, Connection(config.base_url, KEY))


HOSTILE: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "no candidates": {"candidates": [], "usageMetadata": {"promptTokenCount": 9}},
    "no usage": {"candidates": [{"content": {"parts": [{"text": "Yes"}]}, "finishReason": "STOP"}]},
    "an impossible usage": {
        "candidates": [{"content": {"parts": [{"text": "Yes"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": -5, "candidatesTokenCount": -(10**12)},
    },
    "a tool": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}, "finishReason": "STOP"}]},
    "to be continued": {
        "candidates": [
            {"content": {"parts": [{"text": "Yes"}]}, "finishReason": "CONTINUATION", "continuationToken": "AAAA"}
        ],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
    },
    "a late error": {"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}},
}


@pytest.mark.parametrize(
    ("told", "booked"),
    [
        ({"candidatesTokenCount": 20, "thoughtsTokenCount": 3000}, 3020),
        ({"candidatesTokenCount": 20, "thoughtsTokenCount": -15}, 20),
        ({"candidatesTokenCount": 20, "totalTokenCount": 3105}, 3020),
        ({"candidatesTokenCount": 20, "thoughtsTokenCount": 10**30}, 8192),
        ({"thoughtsTokenCount": 3000}, 3000),
    ],
)
def test_hidden_thought_is_booked_and_a_wrong_part_lowers_nothing(told: dict[str, int], booked: int) -> None:
    usage = {"promptTokenCount": 85, **told}
    body = {"candidates": [{"content": {"parts": [{"text": "Yes"}]}}], "usageMetadata": usage}
    found = parse(json.dumps(body), GeminiDialect())
    raw = read_completion(Received(found), Bounds(80, 40), MODEL, count_tokens, Trust(8192))
    assert (raw.reply.usage.prompt_tokens, raw.reply.usage.completion_tokens) == (85, booked)
    assert raw.undecided == (booked == 8192)


@pytest.mark.parametrize(("name", "stream"), itertools.product(HOSTILE, ["auto", "never"]))
async def test_each_odd_reply_is_one_request_with_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, stream: str
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    requests: list[str] = []

    async def generate(request: web.Request) -> web.Response:
        requests.append(request.path)
        text = json.dumps(HOSTILE[name]) if name != "nothing" else ""
        if request.path.endswith(":streamGenerateContent"):
            return web.Response(text=f"data: {text}\r\n\r\n" if text else "", content_type="text/event-stream")
        return web.Response(text=text, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1beta/models/{model}", generate)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = google_config(f"http://127.0.0.1:{runner.addresses[0][1]}", stream=stream, max_attempts=1)
    try:
        async with client_over(tmp_path, config) as (client, _):
            if name in ("no usage", "an impossible usage", "to be continued"):
                assert (await client.complete("q", "generate", "generate", ask("Hello"))).text == "Yes"
            else:
                with pytest.raises((ReplyError, CallFailed)) as caught:
                    await client.complete("q", "generate", "generate", ask("Hello"))
                assert "no reason" not in str(caught.value)
                assert "/v1" not in str(caught.value)
    finally:
        await runner.cleanup()
    assert len(requests) == len(rows(tmp_path, "ledger")) == 1


def test_the_table_prices_gemini_with_its_tiers_and_batches() -> None:
    price = PriceTable.load().price("gemini-2.5-pro")
    assert price.cost(Usage(200_000, 100_000, 1000)) == pytest.approx(0.125 + 0.0125 + 0.01)
    assert price.cost(Usage(200_001, 0, 1000)) == pytest.approx(200_001 * 2.5e-6 + 0.015)
    assert price.in_batch().cost(Usage(200_000, 100_000, 1000)) == pytest.approx(0.0625 + 0.0125 + 0.005)


@pytest.mark.parametrize(
    ("model", "effort", "room", "thinking"),
    [
        ("gemini-2.5-flash", "none", 0, {"thinking_budget": 0}),
        ("gemini-2.5-pro", "high", 25_000, {"thinking_budget": 24_576}),
        ("gemini-3.8-flash", "low", 4096, {"thinking_level": "LOW"}),
        ("gemini-3.1-pro-preview", None, 8192, None),
        ("gemini-2.5-flash-lite", None, 0, None),
    ],
)
def test_effort_becomes_a_budget_or_a_level(
    model: str, effort: str | None, room: int, thinking: dict[str, Any] | None
) -> None:
    config = LlmConfig(provider="google", model=model, reasoning_effort=effort)
    provider = open_provider(config, Connection(config.base_url, KEY))
    request = LlmRequest(model, config.base_url, tuple(ask("Hello")), 100, reasoning_effort=effort)
    assert config.room_for_thought == room
    assert provider.body(request, RequestFields()).get("thinking_config") == thinking
