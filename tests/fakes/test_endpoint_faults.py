from __future__ import annotations

import asyncio
import time

import aiohttp
import openai
import pytest

from tests.fakes.calls import MODEL, chat, tried, user
from tests.fakes.conftest import KEY
from tests.fakes.endpoint.process import EndpointProcess


@pytest.mark.parametrize(
    ("kind", "status", "code", "billed"),
    [
        ("server_error", 500, None, False),
        ("bad_gateway", 502, None, True),
        ("unavailable", 503, "overloaded", False),
        ("rate_limited", 429, "rate_limit_exceeded", False),
        ("insufficient_quota", 429, "insufficient_quota", False),
        ("revoked_key", 401, "invalid_api_key", False),
        ("context_length", 400, "context_length_exceeded", False),
    ],
)
async def test_an_error_status(
    server: EndpointProcess, client: openai.AsyncOpenAI, kind: str, status: int, code: str | None, billed: bool
) -> None:
    server.reset({"script": [kind]})
    with pytest.raises(openai.APIStatusError) as caught:
        await chat(client, "hello")
    assert (caught.value.status_code, caught.value.code) == (status, code)
    (entry,) = server.received()
    assert (entry["status"], entry["fault"], entry["billed"]) == (status, kind, billed)
    assert (server.bill_usd > 0) is billed
    if kind == "insufficient_quota":
        assert caught.value.type == "insufficient_quota"
    if kind == "revoked_key":
        assert KEY not in str(caught.value)
        assert KEY[-4:] in str(caught.value)
    else:
        assert (await chat(client, "hello")).choices


async def test_a_reset_breaks_the_connection_and_is_billed_unless_told(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"faults": [{"kind": "reset", "contains": "lost"}, {"kind": "reset", "billed": False}]})
    with pytest.raises(openai.APIConnectionError):
        await chat(client, "lost")
    paid = server.bill_usd
    assert paid > 0
    with pytest.raises(openai.APIConnectionError):
        await chat(client, "never done")
    assert server.bill_usd == paid
    assert [(entry["status"], entry["billed"]) for entry in server.received()] == [(0, True), (0, False)]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        with pytest.raises(aiohttp.ClientOSError, match="reset by peer"):
            await session.post(f"{server.base_url}/chat/completions", json={"model": MODEL, "messages": user("lost")})


async def test_a_hang_gives_nothing_until_the_client_leaves(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"faults": [{"kind": "hang", "at": [1]}, {"kind": "hang", "hang_s": 0.3, "at": [2]}]})
    with pytest.raises(openai.APITimeoutError):
        await chat(client.with_options(timeout=0.5), "hello")
    assert server.bill_usd > 0
    async with asyncio.timeout(60):
        while (counts := server.state()["counts"])["in_flight"]:
            assert counts["peak_in_flight"] == 1
            await asyncio.sleep(0.02)
    start = time.monotonic()
    with pytest.raises(openai.APIConnectionError):
        await chat(client, "hello")
    assert 0.25 < time.monotonic() - start < 60


async def test_bodies_that_are_none(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"script": ["truncated_body", "malformed_json"] * 2})
    with pytest.raises(openai.APIConnectionError):
        await chat(client, "hello")
    # What the SDK makes of broken JSON under a JSON content type is its decoder's error.
    with pytest.raises(ValueError, match=r"Unterminated string|Expecting|EOF"):
        await chat(client, "hello")
    url, body = f"{server.base_url}/chat/completions", {"model": MODEL, "messages": user("hello")}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as session:
        async with session.post(url, json=body) as response:
            assert response.status == 200
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        async with session.post(url, json=body) as response:
            text = await response.text()
            assert text.startswith('{"id": "chatcmpl-')
            assert len(text) == int(response.headers["content-length"])
    assert server.state()["bill"]["chat"]["calls"] == 4
    assert {entry["status"] for entry in server.received()} == {200}


async def test_replies_of_little_use_are_good_responses_and_are_billed(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"script": ["empty_content", "refusal", "length", "content_filter", None]})
    empty, refused, cut, filtered, good = [await chat(client, "hello", max_tokens=40) for _ in range(5)]
    assert (empty.choices[0].message.content, empty.choices[0].finish_reason) == ("", "stop")
    assert (refused.choices[0].message.content, refused.choices[0].finish_reason) == (None, "stop")
    assert refused.choices[0].message.refusal
    assert cut.choices[0].finish_reason == "length"
    assert cut.usage is not None
    assert cut.usage.completion_tokens == 40
    assert filtered.choices[0].finish_reason == "content_filter"
    assert good.choices[0].message.content
    assert server.state()["bill"]["chat"]["calls"] == 5


async def test_a_key_is_revoked_half_way(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"keys": [KEY, "sk-other-0123456789"], "faults": [{"kind": "revoked_key", "at": [11]}]})
    outcomes = await asyncio.gather(*(tried(client, f"{n}") for n in range(40)))
    assert sum(not isinstance(one, openai.APIError) for one in outcomes) == 10
    assert sum(isinstance(one, openai.AuthenticationError) for one in outcomes) == 30
    with pytest.raises(openai.AuthenticationError):
        await client.batches.list()
    other = client.with_options(api_key="sk-other-0123456789")
    assert (await chat(other, "still")).choices
    server.change({"revoked_keys": []})
    assert (await chat(client, "given back")).choices
    server.change({"revoked_keys": ["sk-other-0123456789"]})
    with pytest.raises(openai.AuthenticationError):
        await chat(other, "gone")
    with pytest.raises(openai.AuthenticationError):
        await chat(client.with_options(api_key="sk-never-known-0123"), "hello")
    assert server.state()["bill"]["chat"]["calls"] == 12


async def test_the_credit_runs_out_half_way(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"credit_usd": 0.001})
    outcomes = [await tried(client, "word " * 50) for _ in range(10)]
    spent = server.bill_usd
    good = [one for one in outcomes if not isinstance(one, openai.APIError)]
    assert 0 < len(good) < 10
    assert all(not isinstance(one, openai.APIError) for one in outcomes[: len(good)])
    last = outcomes[-1]
    assert isinstance(last, openai.RateLimitError)
    assert (last.code, last.type) == ("insufficient_quota", "insufficient_quota")
    assert "retry-after" not in last.response.headers
    assert float(spent) >= 0.001 > float(spent) * (len(good) - 1) / len(good)
    server.change({"credit_usd": None})
    assert (await chat(client, "paid in")).choices
