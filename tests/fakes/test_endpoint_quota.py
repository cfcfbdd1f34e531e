from __future__ import annotations

import asyncio
import re
from itertools import pairwise
from typing import Any

import openai
import pytest

from tests.fakes.calls import chat, headers_of, tried, user
from tests.fakes.endpoint.durations import format_duration
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.endpoint.quota import Quota, retry_headers
from tests.fakes.endpoint.scenario import Limits

DURATION = re.compile(r"0s|\d{1,3}ms|(?:\d+h)?(?:\d+m)?\d{1,2}(?:\.\d{1,3})?s")


def limits(**changes: Any) -> Limits:
    return Limits(**{"requests_per_minute": 600, "tokens_per_minute": 60_000, **changes})


def busiest(entries: list[dict[str, Any]], window_s: float, amount: str | None = None) -> float:
    """The most requests, or the most of ``amount``, admitted in any stretch of ``window_s``."""
    admitted = [(entry["admitted_s"], entry[amount] if amount else 1) for entry in entries if entry["admitted_s"]]
    return max(sum(size for at, size in admitted if start <= at < start + window_s) for start, _ in admitted)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (0.0001, "1ms"), (0.006, "6ms"), (0.9999, "1s"), (1.2, "1.2s"), (8.64, "8.64s"), (59.9999, "1m0s"),
        (62.3, "1m2.3s"), (360, "6m0s"), (3661.5, "1h1m1.5s"), (86400, "24h0m0s"),
    ],
)  # fmt: skip
def test_durations_are_written_as_the_real_headers_write_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert DURATION.fullmatch(text) or "h" in text


def test_a_window_s_share_may_come_at_once_and_then_the_pace_holds() -> None:
    quota = Quota(limits(tokens_per_minute=None, refused_count=False), 0.0)
    assert [quota.admit(0.0, 1) for _ in range(10)] == [None] * 10
    refusal = quota.admit(0.0, 1)
    assert refusal is not None
    assert refusal.name == "requests"
    assert refusal.wait_s == pytest.approx(0.1)
    assert quota.admit(0.09, 1) is not None
    assert quota.admit(0.1, 1) is None
    assert quota.admit(0.15, 1) is not None
    admitted = sum(quota.admit(1 + n / 1000, 1) is None for n in range(60_000))
    assert 600 <= admitted <= 610


def test_a_whole_minute_may_be_the_window() -> None:
    quota = Quota(limits(tokens_per_minute=None, window_s=60.0), 0.0)
    assert [quota.admit(0.0, 1) for _ in range(600)] == [None] * 600
    assert quota.admit(0.0, 1) is not None


def test_tokens_are_paid_for_and_a_large_request_leaves_a_debt() -> None:
    quota = Quota(limits(requests_per_minute=None), 0.0)
    assert quota.admit(0.0, 30_000) is None
    assert quota.headers(0.0)["x-ratelimit-remaining-tokens"] == "30000"
    assert quota.headers(0.0)["x-ratelimit-reset-tokens"] == "30s"
    refusal = quota.admit(0.0, 500)
    assert refusal is not None
    assert refusal.wait_s == pytest.approx(29.5)
    assert quota.admit(29.5, 500) is None
    too_large = quota.admit(100.0, 60_001)
    assert too_large is not None
    assert too_large.wait_s is None


def test_refused_requests_count_too_but_not_for_ever() -> None:
    patient, eager = Quota(limits(), 0.0), Quota(limits(), 0.0)
    for _ in range(10):
        patient.admit(0.0, 1)
        eager.admit(0.0, 1)
    for n in range(100):
        eager.admit(n / 1000, 1)
    assert patient.admit(0.2, 1) is None
    assert eager.admit(0.2, 1) is not None
    assert eager.admit(1.4, 1) is None


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


async def test_a_prompt_may_be_estimated_by_its_characters(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"limits": {"tokens_per_minute": 1_000_000, "estimate": "characters"}})
    await chat(client, "x" * 401, max_tokens=50)
    assert server.received()[0]["reserved_tokens"] == 101 + 50


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


async def test_headers_follow_the_stores_and_each_model_has_its_own(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    assert not any(name.startswith("x-ratelimit") for name in await headers_of(client, "no limits"))
    models: dict[str, Any] = {"fake-model": {}, "other-model": {}}
    server.reset({"models": models, "limits": {"requests_per_minute": 100, "tokens_per_minute": 5000, "window_s": 60}})
    first = await headers_of(client, "hello", max_tokens=992)
    assert (first["x-ratelimit-limit-requests"], first["x-ratelimit-remaining-requests"]) == ("100", "99")
    assert (first["x-ratelimit-limit-tokens"], first["x-ratelimit-remaining-tokens"]) == ("5000", "4000")
    assert (first["x-ratelimit-reset-requests"], first["x-ratelimit-reset-tokens"]) == ("600ms", "12s")
    second = await headers_of(client, "hello", max_tokens=992)
    assert 3000 <= int(second["x-ratelimit-remaining-tokens"]) < 4000
    assert all(DURATION.fullmatch(second[f"x-ratelimit-reset-{name}"]) for name in ("requests", "tokens"))
    raw = await client.chat.completions.with_raw_response.create(model="other-model", messages=user("x"))
    assert raw.headers["x-ratelimit-remaining-requests"] == "99"


async def test_new_limits_hold_at_once(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    await asyncio.gather(*(chat(client, f"{n}") for n in range(20)))
    server.change({"limits": {"requests_per_minute": 6, "retry_after": "none"}})
    await chat(client, "one")
    with pytest.raises(openai.RateLimitError) as caught:
        await chat(client, "two")
    assert not {"retry-after", "retry-after-ms"} & set(caught.value.response.headers)
    assert caught.value.response.headers["x-ratelimit-limit-requests"] == "6"
