from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    CallFailed,
    ConfigError,
    EndpointError,
    OverBudget,
    QuestionError,
    ReplyError,
    StoppedError,
)
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limits, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from tests.fakes.openai_server import FakeOpenAI, Trouble, too_many
from tests.llm.tools import all_bytes, ask, client_over, config_for, rows, until

OVERLOADED = Trouble(503, "overloaded", "Try later.")


async def test_a_reply_is_paid_recorded_and_counted_to_the_cent(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda messages: "France" in messages[-1]["content"], "Paris")], cached_tokens=9) as server:
        async with client_over(tmp_path, config_for(server)) as (client, ledger):
            reply = await client.complete("q1", "generate", "generate", ask("Capital of France?"), logprobs=True)
            totals = await ledger.totals()
        assert (reply.text, reply.finish_reason, reply.token_logprobs) == ("Paris", "stop", (-0.25,))
        assert reply.usage.cached_tokens == 9
        assert reply.cost_usd == pytest.approx(server.bill_usd, abs=1e-12)
        assert totals.settled_usd == pytest.approx(server.bill_usd, abs=1e-12)
        assert totals.unknown_usd == totals.reserved_usd == 0
    (row,) = rows(tmp_path, "ledger")
    assert (row["status"], row["attempt"], row["http_status"]) == ("ok", 1, 200)
    assert row["provider_request_id"] == "chatcmpl-1"
    assert row["reserved_usd"] >= row["cost_usd"]
    assert [step["kind"] for step in rows(tmp_path, "journal")] == ["request", "reply"]


async def test_what_was_asked_before_is_replayed_and_something_else_is_asked(
    tmp_path: Path,
) -> None:
    with FakeOpenAI() as server:
        for _ in range(2):
            async with client_over(tmp_path, config_for(server)) as (client, ledger):
                first = await client.complete("q1", "a", "generate", ask("one"))
                assert await client.complete("q1", "a", "generate", ask("one")) == first
                assert (await ledger.totals()).calls == 1
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q1", "a", "generate", ask("two"))
            await client.complete("q1", "a", "generate", ask("two"), sample=1)
            await client.complete("q2", "a", "generate", ask("two"))
        assert len(server.received) == 4


@pytest.mark.parametrize(
    ("troubles", "statuses"),
    [
        ([OVERLOADED, Trouble(500)], ["failed", "failed", "ok"]),
        ([Trouble(408), Trouble(409)], ["failed", "failed", "ok"]),
        ([too_many(0.05)], ["failed", "ok"]),
        ([Trouble(502)], ["unknown", "ok"]),
        ([Trouble(reset=True, billed=True)], ["unknown", "ok"]),
        ([Trouble(garbage="<html>hello</html>")], ["unknown", "ok"]),
    ],
)
async def test_each_attempt_is_a_row_and_the_bill_lies_between(
    tmp_path: Path, troubles: list[Trouble], statuses: list[str]
) -> None:
    with FakeOpenAI(troubles=troubles) as server:
        async with client_over(tmp_path, config_for(server)) as (client, ledger):
            await client.complete("q1", "generate", "generate", ask("hello"))
            totals = await ledger.totals()
        assert totals.settled_usd - 1e-9 <= server.bill_usd <= totals.settled_usd + totals.unknown_usd + 1e-9
    ledger_rows = rows(tmp_path, "ledger")
    assert [row["status"] for row in ledger_rows] == statuses
    assert [row["attempt"] for row in ledger_rows] == list(range(1, len(statuses) + 1))
    assert len({row["call_id"] for row in ledger_rows}) == 1


@pytest.mark.parametrize(("timeout_s", "slack_s"), [(0.3, 30.0), (10.0, -9.7)])
async def test_a_timeout_is_held_as_unknown(
    timeout_s: float, slack_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the wait for a reply, and of a call as a whole."""
    monkeypatch.setattr("okralong.pipelines.llm.realtime.CALL_SLACK_S", slack_s)
    with FakeOpenAI(troubles=[Trouble(delay_s=1.0)]) as server:
        async with client_over(tmp_path, config_for(server, timeout_s=timeout_s)) as (client, ledger):
            await client.complete("q1", "generate", "generate", ask("hello"))
            totals = await ledger.totals()
        assert totals.unknown_usd > 0
        assert totals.reserved_usd == 0


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "0.4"}, {"retry-after-ms": "400", "retry-after": "90"}, {"retry-after": "date"}],
)
async def test_the_wait_that_the_endpoint_names_is_kept_by_all(tmp_path: Path, headers: dict[str, str]) -> None:
    due = 0.0  # by a date it is a moment, which a stalled machine may have passed when the reply comes
    if headers["retry-after"] == "date":
        named = int(time.time() + 2.5)
        headers = {"retry-after": formatdate(named, usegmt=True)}
        due = time.monotonic() + named - time.time()
    with FakeOpenAI(troubles=[Trouble(429, "rate_limit_exceeded", headers=headers)]) as server:
        async with client_over(tmp_path, config_for(server, max_in_flight=1)) as (client, _):
            await asyncio.gather(*(client.complete(f"q{n}", "a", "generate", ask("hello")) for n in range(3)))
        times = [one.at for one in server.received]
    assert len(times) == 4
    assert times[1] >= (due or times[0] + 0.4) - 0.02
    assert times[1] - times[0] < 60


@pytest.mark.parametrize(
    ("trouble", "error", "said"),
    [
        (Trouble(429, "insufficient_quota", "You exceeded your quota."), EndpointError, "Add credit"),
        (too_many(4000), EndpointError, "4000 s"),
        (Trouble(403, "forbidden"), EndpointError, "OPENAI_API_KEY"),
        (Trouble(400, "context_length_exceeded", "too long"), CallFailed, "llm.window"),
        (Trouble(400, "content_filter"), CallFailed, "content filter"),
        (Trouble(400, "invalid_request"), CallFailed, "refused the request"),
        (Trouble(text=""), ReplyError, "empty reply"),
        (Trouble(text="", refusal="I will not."), ReplyError, "I will not"),
        (Trouble(finish_reason="content_filter"), ReplyError, "removed the reply"),
    ],
)
async def test_what_is_not_retried(tmp_path: Path, trouble: Trouble, error: type[Exception], said: str) -> None:
    with FakeOpenAI(troubles=[trouble]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, ledger):
            with pytest.raises(error, match=said):
                await client.complete("q1", "generate", "generate", ask("hello"))
            assert (await ledger.totals()).settled_usd == pytest.approx(server.bill_usd, abs=1e-12)
        assert len(server.received) == 1
        assert len(rows(tmp_path, "ledger")) == 1


async def test_an_unusable_reply_that_was_paid_is_not_bought_again(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(text="  ")]) as server:
        for _ in range(2):
            async with client_over(tmp_path, config_for(server)) as (client, _):
                with pytest.raises(ReplyError, match="empty"):
                    await client.complete("q1", "generate", "generate", ask("hello"))
        assert len(server.received) == 1


async def test_a_reply_cut_by_the_limit_is_a_reply(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "word " * 100)]) as server:
        config = config_for(server, max_completion_tokens={"generate": 10})
        async with client_over(tmp_path, config) as (client, _):
            reply = await client.complete("q1", "generate", "generate", ask("hello"))
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens <= 10


async def test_without_usage_the_tokens_are_counted_here_and_the_row_says_so(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(no_usage=True)]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            reply = await client.complete("q1", "generate", "generate", ask("hello"))
    assert reply.usage.prompt_tokens > 0
    assert "no usage" in rows(tmp_path, "ledger")[0]["error"]


async def test_an_endpoint_that_is_down_costs_nothing_and_stops_the_run(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        config = config_for(server)
    async with client_over(tmp_path, config) as (client, ledger):
        with pytest.raises(EndpointError, match="Start the server"):
            await client.complete("q1", "generate", "generate", ask("hello"))
        totals = await ledger.totals()
    assert totals.settled_usd == totals.unknown_usd == totals.reserved_usd == 0
    assert {row["status"] for row in rows(tmp_path, "ledger")} == {"failed"}


async def test_calls_that_exhaust_their_attempts_one_after_the_other_stop_the_run(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[OVERLOADED] * 12) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            for n in range(2):
                with pytest.raises(CallFailed, match="Tried 4 times"):
                    await client.complete(f"q{n}", "generate", "generate", ask("hello"))
            with pytest.raises(EndpointError, match="in a row"):
                await client.complete("q2", "generate", "generate", ask("hello"))


async def test_the_cap_is_never_passed_and_a_call_that_would_is_not_sent(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server), cap_usd=0.011) as (client, ledger):
            calls = [client.complete(f"q{n}", "generate", "generate", ask(f"hello {n}")) for n in range(200)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            totals = await ledger.totals()
        refused = [result for result in results if isinstance(result, OverBudget)]
        assert len(server.received) + len(refused) == 200
        assert len(server.received) > 20
        assert server.bill_usd <= 0.011
        assert totals.settled_usd == pytest.approx(server.bill_usd, abs=1e-12)


async def test_who_waits_for_money_holds_no_place_at_the_endpoint(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, max_in_flight=1), cap_usd=0.01) as (client, ledger):
            await ledger.admit("rich", 0.009)
            poor = asyncio.create_task(client.complete("poor", "a", "generate", ask("hello")))
            await asyncio.sleep(0.05)
            await asyncio.wait_for(client.complete("rich", "a", "generate", ask("hello")), 60)
            assert not poor.done()
            await ledger.release("rich")
            assert (await asyncio.wait_for(poor, 60)).text


async def test_a_call_that_gets_no_leave_gives_its_reserve_back_and_leaves_no_doubt(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, tokens_per_minute=300), cap_usd=1.0) as (client, ledger):
            first = await client.complete("q", "0", "generate", ask("hello"))
            queued = asyncio.create_task(client.complete("q", "1", "generate", ask("hello")))
            while not (await ledger.totals()).reserved_usd:  # noqa: ASYNC110 - a ledger sets no event
                await asyncio.sleep(0.01)
            queued.cancel()
            await asyncio.wait([queued])
            with pytest.raises(QuestionError, match="tokens_per_minute"):
                await client.complete("q", "2", "generate", ask("hello " * 200))
            totals = await ledger.totals()
        assert totals.reserved_usd == totals.unknown_usd == 0
        assert totals.settled_usd == pytest.approx(first.cost_usd)
        assert len(server.received) == 1
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["ok", "failed", "failed"]
    assert [row["kind"] for row in rows(tmp_path, "journal")] == ["request", "reply"]


class _LostLimiter(LocalLimiter):
    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        raise ConnectionError("the limiter is gone")


async def test_a_limiter_that_is_lost_takes_no_paid_reply_with_it(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[too_many(0.01)]) as server:
        ledger = RunLedger(Folder.of(tmp_path), None)
        client = LlmClient(config_for(server), Gateway(ledger, [_LostLimiter(Limits())]), backoff=(0.01, 0.05))
        assert (await client.complete("q1", "a", "generate", ask("hello"))).text
        await client.aclose()
        await ledger.close()
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["failed", "ok"]


async def test_a_cancelled_call_is_held_as_unknown(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.hold_after = 0
        async with client_over(tmp_path, config_for(server, timeout_s=120.0)) as (client, ledger):
            task = asyncio.create_task(client.complete("q1", "generate", "generate", ask("hello")))
            await until(lambda: len(server.received) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await ledger.totals()).unknown_usd > 0
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["unknown"]


@pytest.mark.parametrize(("grace_s", "lost", "status"), [(60.0, 0, "ok"), (0.05, 1, "unknown")])
async def test_a_halted_client_waits_for_what_is_in_flight_and_sends_nothing_more(
    tmp_path: Path, grace_s: float, lost: int, status: str
) -> None:
    with FakeOpenAI() as server:
        server.hold_after = 0
        async with client_over(tmp_path, config_for(server, max_in_flight=1, timeout_s=120.0)) as (client, ledger):
            sent = asyncio.create_task(client.complete("q1", "a", "generate", ask("hello")))
            await until(lambda: len(server.received) == 1)
            reserved = (await ledger.totals()).reserved_usd
            waiting = asyncio.create_task(client.complete("q2", "a", "generate", ask("hello")))
            while (await ledger.totals()).reserved_usd == reserved:  # noqa: ASYNC110 - a ledger sets no event
                await asyncio.sleep(0.01)
            assert client.halt("Enough.") == 1
            with pytest.raises(StoppedError, match="Enough"):
                await waiting
            assert not sent.done()
            if not lost:
                asyncio.get_running_loop().call_later(0.2, setattr, server, "hold_after", None)
            assert await client.drain(grace_s) == lost
            assert isinstance((await asyncio.gather(sent, return_exceptions=True))[0], StoppedError) == bool(lost)
            with pytest.raises(StoppedError, match="Enough"):
                await client.complete("q3", "a", "generate", ask("hello"))
            assert (await ledger.totals()).reserved_usd == 0
        assert len(server.received) == 1
    assert {row["query_id"]: row["status"] for row in rows(tmp_path, "ledger")} == {"q1": status, "q2": "failed"}


async def test_a_prompt_that_no_minute_can_hold_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, tokens_per_minute=100)) as (client, _):
            with pytest.raises(QuestionError, match="tokens_per_minute"):
                await client.complete("q1", "generate", "generate", ask("hello"))
        assert not server.received


async def test_the_limiter_paces_real_requests(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, requests_per_minute=1200)) as (client, _):
            started = time.monotonic()
            await asyncio.gather(*(client.complete(f"q{n}", "a", "generate", ask("hello")) for n in range(60)))
        last = max(one.at for one in server.received)
    assert 1.9 < last - started < 30  # sixty at twenty a second, but for the first second's credit


async def test_no_key_is_written_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-verysecret0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    with FakeOpenAI(key="another", rules=[(lambda _: True, f"Your key is {secret}")]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, ledger):
            with pytest.raises(EndpointError) as caught:
                await client.complete("q1", "generate", "generate", ask("hello"))
            server.key = secret
            reply = await client.complete("q2", "generate", "generate", ask(f"I typed {secret} by mistake"))
            assert secret not in repr(client) + repr(ledger) + repr(vars(client.config)) + reply.text
    assert secret not in str(caught.value)
    written = "".join(str(rows(tmp_path, table)) for table in ("ledger", "journal", "answers", "failures"))
    raw = all_bytes(tmp_path)
    assert "[key removed]" in written
    assert secret not in written
    assert secret.encode() not in raw


async def test_openai_without_a_key_and_a_model_without_a_price_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeOpenAI() as server:
        with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
            async with client_over(tmp_path / "a", config_for(server, base_url="https://api.openai.com/v1")):
                pass
        with pytest.raises(ConfigError, match="no price"):
            async with client_over(tmp_path / "b", config_for(server, price=None)):
                pass
