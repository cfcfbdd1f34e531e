from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import openai
import pytest

from tests.fakes.calls import chat, tried
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.endpoint.quota import Quota, retry_headers
from tests.fakes.endpoint.scenario import Limits


def limits(**changes: Any) -> Limits:
    return Limits(**{"requests_per_minute": 600, "tokens_per_minute": 60_000, **changes})


def busiest(entries: list[dict[str, Any]], window_s: float, amount: str | None = None) -> float:
    """The most requests, or the most of ``amount``, admitted in any stretch of ``window_s``."""
    admitted = [(entry["admitted_s"], entry[amount] if amount else 1) for entry in entries if entry["admitted_s"]]
    return max(sum(size for at, size in admitted if start <= at < start + window_s) for start, _ in admitted)


def test_the_headers_of_a_fresh_account_are_the_documented_ones() -> None:
    quota = Quota(limits(requests_per_minute=5000, tokens_per_minute=160_000), 0.0)
    quota.admit(0.0, 24)
    assert quota.headers(0.0) == {
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
        "x-ratelimit-limit-tokens": "160000",
        "x-ratelimit-remaining-tokens": "159976",
        "x-ratelimit-reset-tokens": "9ms",
    }
    assert retry_headers(0.352, "both") == {"retry-after": "1", "retry-after-ms": "352"}
    assert retry_headers(1.2, "seconds") == {"retry-after": "2"}
    assert retry_headers(1.2, "none") == {}


async def test_requests_per_minute_are_enforced_in_short_windows(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    # 120 a minute that lasts 4 s: 30 a second, of which a window of 2 of 60 seconds lets 4 through at once.
    server.reset({"limits": {"requests_per_minute": 120, "minute_s": 4.0, "window_s": 2.0, "refused_count": False}})
    outcomes = [await asyncio.gather(*(tried(client, f"{n}") for n in range(60))) for _ in range(4)]
    refused = [one for burst in outcomes for one in burst if isinstance(one, openai.RateLimitError)]
    entries = server.received("chat")
    assert sum(entry["admitted_s"] is not None for entry in entries) == 240 - len(refused) > 4
    assert refused
    for window_s in (0.01, 0.05, 0.2, 1.0, 4.0):
        assert busiest(entries, window_s) <= 30 * window_s + 4 + 1e-6
    for error in refused:
        assert (error.code, error.type, error.param) == ("rate_limit_exceeded", "requests", None)
        assert 0 < int(error.response.headers["retry-after-ms"]) <= 34
        assert error.response.headers["retry-after"] == "1"
        assert "Please try again in" in error.message
    assert {entry["status"] for entry in entries} == {200, 429}
    assert server.state()["bill"]["chat"]["calls"] == 240 - len(refused)


async def test_tokens_per_minute_count_the_prompt_and_max_tokens_at_admission(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"limits": {"tokens_per_minute": 6000, "minute_s": 4.0, "window_s": 12.0}})
    texts = [f"{n} " + "word " * 200 for n in range(40)]
    outcomes = await asyncio.gather(*(tried(client, text, max_tokens=300) for text in texts))
    refused = [one for one in outcomes if isinstance(one, openai.RateLimitError)]
    entries = server.received("chat")
    assert {error.type for error in refused} == {"tokens"}
    for entry in entries:
        if entry["admitted_s"] is not None:
            assert entry["reserved_tokens"] == entry["prompt_tokens"] + 300
    for window_s in (0.01, 0.1, 1.0):
        assert busiest(entries, window_s, "reserved_tokens") <= 1500 * window_s + 1200 + 1
    # What max_tokens reserved and the reply did not use is not given back.
    assert sum(entry["completion_tokens"] for entry in entries) < 1000
    with pytest.raises(openai.RateLimitError, match="Request too large") as caught:
        await chat(client, "word " * 50_000, max_tokens=16_000)
    assert "retry-after" not in caught.value.response.headers


async def test_who_waits_as_told_is_let_in(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"limits": {"requests_per_minute": 60}})
    await chat(client, "first")
    for n in range(2):
        with pytest.raises(openai.RateLimitError) as caught:
            await chat(client, f"at once {n}")
        await asyncio.sleep(int(caught.value.response.headers["retry-after-ms"]) / 1000)
        await chat(client, f"in time {n}")
    admitted = [entry["admitted_s"] for entry in server.received("chat") if entry["admitted_s"] is not None]
    assert min(later - earlier for earlier, later in pairwise(admitted)) >= 1 - 1e-6
