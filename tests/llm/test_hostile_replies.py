"""What a reply says of itself is believed only where it can be true: counts, lengths, names and headers."""

from __future__ import annotations

import asyncio
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import EndpointError, OverBudget
from okralong.pipelines.llm.budget import Budget
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.completion import (
    NoCompletion,
    Received,
    parse,
    read_completion,
)
from okralong.pipelines.llm.errors import FOREVER_S, retry_after
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import JournalRow, RunLog
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import NAME_CHARS, intent_body, reply_body
from okralong.pipelines.llm.usage import OVERLONG, SLACK, Bounds, Trust
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import PRICE, a_call, all_bytes, ask, client_over, config_for, paid, rows, until

IMPOSSIBLE: list[Any] = [-1_000_000_000, -1, math.nan, 1.5, True, "12", None, [12], {"a": 1}]
LIMITS = {"generate": 20}


@pytest.mark.parametrize("streams", [True, False])
async def test_a_usage_that_cannot_be_true_is_counted_here_and_never_learnt(tmp_path: Path, streams: bool) -> None:
    """Whatever a reply reports, the ledger's sum is near the true bill, and the cap holds."""
    told = [{name: value} for value in IMPOSSIBLE for name in ("prompt_tokens", "completion_tokens")]
    with FakeOpenAI(troubles=[Trouble(usage=each) for each in told]) as server:
        server.streams = streams
        async with client_over(tmp_path, config_for(server), cap_usd=0.5) as (client, ledger):
            for number, _ in enumerate(told):
                await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}?"))
            totals = await ledger.totals()
            assert await _reserve_of_a_call(client) < 0.01
        assert server.bill_usd <= totals.settled_usd <= 1.6 * server.bill_usd
    found = rows(tmp_path, "ledger")
    assert {row["status"] for row in found} == {"ok"}
    assert all("cannot be true" in row["error"] for row in found)
    assert all(0 < row["prompt_tokens"] < 100 for row in found)


async def _reserve_of_a_call(client: Any) -> float:
    return float(client.price.most(client.meter.safe(100), 256))


async def test_parts_of_a_usage_are_never_larger_than_the_whole(tmp_path: Path) -> None:
    told = [{"prompt_tokens_details": {"cached_tokens": each}, "completion_tokens_details": 1} for each in (10**9, -5)]
    with FakeOpenAI(troubles=[Trouble(usage=each) for each in told]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            replies = [await client.complete(f"q{at}", "generate", "generate", ask("What?")) for at in range(2)]
    prompt = server.received[0].prompt_tokens
    assert [(each.usage.prompt_tokens, each.usage.cached_tokens) for each in replies] == [(prompt, prompt), (prompt, 0)]


@pytest.mark.parametrize("streams", [True, False])
async def test_names_are_bounded_and_other_types_are_no_names(tmp_path: Path, streams: bool) -> None:
    names = {"model": "m" * 2_000_000, "system_fingerprint": ["x"], "service_tier": 7}
    with FakeOpenAI(troubles=[Trouble(names=names)]) as server:
        server.streams = streams
        async with client_over(tmp_path, config_for(server)) as (client, _):
            reply = await client.complete("q", "generate", "generate", ask("What?"))
    assert len(reply.model) == NAME_CHARS
    (row,) = rows(tmp_path, "ledger")
    assert len(row["snapshot"]) == NAME_CHARS
    assert (row["system_fingerprint"], row["service_tier"]) == ("", "")


@pytest.mark.parametrize(
    "body",
    [
        '{"choices": null}',
        '{"choices": [null]}',
        "[]",
        "7",
        '"text"',
        "[" * 100_000,
        '{"error": {"message": "Provider returned error"}}',
        "<html>",
    ],
)
def test_what_is_no_completion_says_what_it_is(body: str) -> None:
    with pytest.raises(NoCompletion) as caught:
        parse(body)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "message",
    [{"content": 7}, {"content": [7, {"text": None}]}, "text", None, {"content": "x", "reasoning_content": ["y"]}],
)
def test_a_message_of_any_shape_is_read(message: Any) -> None:
    body = {"choices": [{"message": message, "logprobs": {"content": [{"token": 1}]}, "finish_reason": {}}]}
    raw = read_completion(Received(body), Bounds(10, 20), "m", count_tokens, Trust(8192))
    assert raw.reply.model == "m"
    assert raw.reply.token_logprobs == ()
    assert raw.counted_here


@pytest.mark.parametrize(("digits", "booked"), [("9" * 5000, 8192), ("1e400", 8192), ("-1e400", 10), ("NaN", 10)])
def test_a_number_that_no_table_holds_is_read_as_impossible(digits: str, booked: int) -> None:
    body = json.dumps({"choices": [{"message": {"content": "Paris"}}], "usage": {"prompt_tokens": 0}})
    told = parse(body.replace('"prompt_tokens": 0', f'"prompt_tokens": {digits}'))
    raw = read_completion(Received(told), Bounds(10, 20), "m", count_tokens, Trust(8192))
    assert raw.reply.usage.prompt_tokens == booked


def test_headers_name_no_time_beyond_a_day() -> None:
    for said in ("1e400", "nan", "-1", "soon", "Fri, 31 Dec 99999 23:59:59 GMT", "Fri, 01 Jan 0001 00:00:00 -0000"):
        assert retry_after({"retry-after": said}) in (None, 0.0)
    for said in ("1e300", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"):
        assert retry_after({"retry-after": said}) in (FOREVER_S, None)


async def test_a_folder_that_an_impossible_usage_made_unreadable_opens_again(tmp_path: Path) -> None:
    """An earlier release wrote the reply and died at its ledger row; another settled minus 2,500 dollars."""
    log = RunLog.open(Folder.of(tmp_path))
    call = a_call(1, usd=0.25)
    outcome = paid(call, 1e25)
    body = json.loads(reply_body(outcome))
    body["call"]["prompt_tokens"] = 10**30
    log.append_step(JournalRow("q", "generate", "request", intent_body(call), 1, "h"))
    log.append_step(JournalRow("q", "generate", "reply", json.dumps(body), 1, "h"))
    log.commit()
    log.close()
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    assert (await ledger.totals()).settled_usd == 0.25
    await ledger.intend(a_call(2))
    await ledger.settle(paid(a_call(2), -2500.0))
    await ledger.close()
    again = RunLedger(Folder.of(tmp_path), 1.0)
    assert (await again.totals()).settled_usd == pytest.approx(0.35)
    await again.close()
    (row, _) = sorted(rows(tmp_path, "ledger"), key=lambda each: each["call_id"])
    assert (row["prompt_tokens"], row["cost_usd"]) == (0, 0.25)


# Replies that are longer than they were asked to be.


async def test_a_stream_that_ignores_its_limit_is_aborted(tmp_path: Path) -> None:
    """The endpoint writes 5,000 words where 20 tokens were asked for; it is left soon, and what came is charged."""
    text = "word " * 5000
    with FakeOpenAI(rules=[(lambda _: True, text)]) as server:
        server.writes, server.word_s, server.words_held = 1000.0, 0.002, 100
        async with client_over(tmp_path, config_for(server, max_completion_tokens=LIMITS)) as (client, _):
            reply = await client.complete("q", "generate", "generate", ask("What?"))
        await until(lambda: server.received[0].completion_tokens > 0)  # it notices the abort a moment later
    assert reply.finish_reason == "length"
    assert len(reply.text) <= Bounds(0, 20).longest_text
    row, rest = rows(tmp_path, "ledger")
    assert "aborted" in row["error"]
    assert (rest["status"], rest["call_id"]) == ("unknown", f"{row['call_id']}-rest")
    written = server.received[0].completion_tokens
    assert OVERLONG * 20 + SLACK < row["completion_tokens"] <= written < 1000
    assert row["completion_tokens"] >= 0.8 * written


async def test_a_long_reply_that_was_written_at_once_is_charged_in_full(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "word " * 2000)]) as server:
        server.writes = 1000.0
        async with client_over(tmp_path, config_for(server, max_completion_tokens=LIMITS)) as (client, ledger):
            await client.complete("q", "generate", "generate", ask("What?"))
            settled = (await ledger.totals()).settled_usd
        assert settled == pytest.approx(server.bill_usd, rel=0.01)


async def test_an_endpoint_that_refuses_streams_is_asked_for_whole_replies(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.refuses = {"stream": "Unrecognized request argument supplied: stream"}
        async with client_over(tmp_path, config_for(server)) as (client, _):
            for number in range(3):
                await client.complete(f"q{number}", "generate", "generate", ask("What?"))
        assert ["stream" in one.body for one in server.received] == [True, False, False, False]


async def test_reply_after_reply_over_its_limit_stops_the_run(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "word " * 500)]) as server:
        server.writes, server.streams = 1000.0, False
        async with client_over(tmp_path, config_for(server, max_completion_tokens=LIMITS)) as (client, _):
            for number in range(2):
                await client.complete(f"q{number}", "generate", "generate", ask("What?"))
            with pytest.raises(EndpointError, match=r"ignores the limit .* llm\.reasoning_tokens"):
                await client.complete("q2", "generate", "generate", ask("What?"))
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["ok"] * 3


async def test_replies_over_their_limits_are_counted_over_all_planners_of_a_run(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "word " * 500)]) as server:
        server.writes, server.streams = 1000.0, False
        config = config_for(server, max_completion_tokens=LIMITS)
        async with client_over(tmp_path, config) as (first, ledger):
            second = LlmClient(config, Gateway(ledger, [LocalLimiter(config.limits)]))
            await first.complete("q0", "generate", "generate", ask("What?"))
            await second.complete("q1", "generate", "generate", ask("What?"))
            with pytest.raises(EndpointError, match="ignores the limit"):
                await first.complete("q2", "generate", "generate", ask("What?"))
            await second.aclose()
    assert len(server.received) == 3


@pytest.mark.parametrize("times", [10, 40])
@pytest.mark.parametrize("streams", [True, False])
async def test_the_cap_holds_though_every_reply_is_too_long(tmp_path: Path, times: int, streams: bool) -> None:
    """64 at a time, from the first call on: the cap is passed by one reply's excess at most."""
    with FakeOpenAI(rules=[(lambda _: True, "word " * 20 * times)]) as server:
        server.writes, server.streams = float(times), streams
        config = config_for(server, max_completion_tokens=LIMITS, max_in_flight=64, window=4096)
        reserve = PRICE.most(40, 20)
        cap = 30 * reserve

        async def one(number: int) -> None:
            await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}?"))

        async with client_over(tmp_path, config, cap_usd=cap) as (client, ledger):
            ends = await asyncio.gather(*(one(number) for number in range(200)), return_exceptions=True)
            settled = (await ledger.totals()).settled_usd
        assert all(end is None or isinstance(end, OverBudget | EndpointError) for end in ends)
        assert server.bill_usd <= cap + PRICE.most(0, 20 * times)
        assert settled == pytest.approx(server.bill_usd, rel=0.05)


async def test_64_at_a_time_pass_the_cap_by_no_more_than_the_documented_bound(tmp_path: Path) -> None:
    """Replies keep their limits until 64 are in flight; then all of them are ten times too long."""
    long = asyncio.Event()
    with FakeOpenAI(rules=[(lambda _: True, lambda _: "word " * (200 if long.is_set() else 3))], delay_s=0.2) as server:
        server.writes, server.streams = 10.0, False
        config = config_for(server, max_completion_tokens=LIMITS, max_in_flight=64, window=4096)
        cap = 0.05

        async def one(number: int) -> None:
            await client.complete(f"q{number}", "generate", "generate", ask(f"What is {number}?"))

        async with client_over(tmp_path, config, cap_usd=cap) as (client, _):
            await asyncio.gather(*(one(number) for number in range(80)))
            long.set()
            ends = await asyncio.gather(*(one(number) for number in range(80, 400)), return_exceptions=True)
        assert any(isinstance(end, EndpointError) for end in ends)
        assert server.bill_usd <= cap + 64 * PRICE.most(0, 9 * 20)


def test_after_a_long_reply_none_goes_before_all_are_over_and_then_one() -> None:
    budget = Budget(1.0)
    for number in range(8):
        assert budget.reserve(("a", number), "q", 0.01, most_usd=0.5) == (number == 0)
        if number == 0:
            budget.settle(("a", 0), 0.01)
            budget.reserve(("a", 0), "q", 0.01, most_usd=0.5)
            assert budget.reserve(("b", 0), "q", 0.01, most_usd=0.5)  # one reply has kept its limit
            assert not budget.reserve(("b", 1), "q", 0.01, most_usd=0.5)
            budget.settle(("b", 0), 0.1, overlong=True)
            assert not budget.reserve(("b", 1), "q", 0.01, most_usd=0.5)
            break
    budget.settle(("a", 0), 0.01)
    assert budget.reserve(("c", 0), "q", 0.01, most_usd=0.5)
    assert not budget.hopeless(0.08)
    assert budget.hopeless(0.09)  # it may cost ten times that


async def test_a_reply_of_20_mb_is_cut_and_delays_nobody(tmp_path: Path) -> None:
    slowest = 0.0

    async def heartbeat() -> None:
        nonlocal slowest
        while True:
            before = time.process_time()  # other processes on a busy machine do not count
            await asyncio.sleep(0.01)
            slowest = max(slowest, time.process_time() - before)

    with FakeOpenAI(troubles=[Trouble(names={"choices": [{"message": {"content": "7 " * 10_000_000}}]})]) as server:
        server.streams = False
        async with client_over(tmp_path, config_for(server)) as (client, _):
            beating = asyncio.create_task(heartbeat())
            reply = await client.complete("q", "generate", "generate", ask("What?"))
            beating.cancel()
    assert len(reply.text) == Bounds(0, 256).longest_text
    assert reply.finish_reason == "length"
    assert slowest < 2.0
    assert len(all_bytes(tmp_path)) < 1_000_000
