"""Several endpoints: calls go where leave comes soonest, what is down or refuses is passed over, money stays exact."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import CallFailed, ConfigError, EndpointError, OverBudget, QuestionError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from tests.fakes.openai_server import FakeOpenAI, Trouble, too_many
from tests.llm.tools import PRICE, all_bytes, ask, client_over, config_for, further, rows, until

OVERLOADED = Trouble(503, "overloaded", "Try later.")
NO_QUOTA = Trouble(429, "insufficient_quota", "You exceeded your quota.")
DEAR = Price(input=25.0, cached_input=12.5, output=100.0)
PAUSES = (60.0, 600.0)


class Clock:
    """The clock of a client's breakers, which stands still until it is moved."""

    def __init__(self, client: LlmClient) -> None:
        self.now = 0.0
        client.router.clock = lambda: self.now


async def ask_all(client: LlmClient, questions: int, step: str = "a") -> list[str]:
    return [(await client.complete(f"q{n}", step, "generate", ask(f"hello {n}"))).text for n in range(questions)]


def served(run: Path, status: str = "ok") -> Counter[str]:
    return Counter(row["endpoint"] for row in rows(run, "ledger") if row["status"] == status)


def gone() -> str:
    with FakeOpenAI() as server:
        return server.base_url


async def test_the_first_is_asked_first_and_the_ledger_says_which_was(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second, price=DEAR)])
        async with client_over(tmp_path, config) as (client, ledger):
            await ask_all(client, 5)
            totals = await ledger.totals()
        assert (len(first.received), len(second.received)) == (5, 0)
        assert totals.settled_usd == pytest.approx(first.bill_usd, abs=1e-12)
    assert served(tmp_path) == {first.base_url: 5}
    row = rows(tmp_path, "ledger")[0]
    assert row["input_usd_per_million"] == PRICE.input
    assert row["reserved_usd"] > 9 * row["cost_usd"]  # set aside for the dearest that it could have gone to


async def test_one_that_is_down_at_the_start_is_passed_over_and_not_asked_again_by_each_call(tmp_path: Path) -> None:
    with FakeOpenAI(usd_per_million=(25.0, 12.5, 100.0)) as second:
        config = LlmConfig(
            base_url=gone(), model="fake-model", price=PRICE, endpoints=[further(second, price=DEAR)], timeout_s=5.0
        )
        async with client_over(tmp_path, config, backoff=(30.0, 60.0)) as (client, ledger):
            await ask_all(client, 10)
            totals = await ledger.totals()
        assert totals.settled_usd == pytest.approx(second.bill_usd, abs=1e-12)
        assert totals.unknown_usd == totals.reserved_usd == 0
    assert served(tmp_path, "failed") == {config.base_url: 1}
    assert served(tmp_path) == {second.base_url: 10}
    assert {row["output_usd_per_million"] for row in rows(tmp_path, "ledger") if row["status"] == "ok"} == {100.0}
    moved = [row["attempt"] for row in rows(tmp_path, "ledger") if row["query_id"] == "q0"]
    assert moved == [1, 2]


@pytest.mark.parametrize("trouble", ["key", "model", "quota", "wait"])
async def test_one_that_refuses_is_out_for_the_run_and_the_call_goes_on(tmp_path: Path, trouble: str) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second)])
        async with client_over(tmp_path, config) as (client, ledger):
            await ask_all(client, 5)
            if trouble == "key":
                first.key = "another"
            elif trouble == "model":
                first.models = ["renamed"]
            else:
                first.troubles = [NO_QUOTA if trouble == "quota" else too_many(4000)] * 50
            await ask_all(client, 10, "b")
            totals = await ledger.totals()
        assert (len(first.received), len(second.received)) == (6, 10)
        assert totals.settled_usd == pytest.approx(first.bill_usd + second.bill_usd, abs=1e-12)
    assert served(tmp_path) == {first.base_url: 5, second.base_url: 10}


async def test_a_crowd_that_waits_for_one_that_goes_out_moves_on_and_does_not_storm_it(tmp_path: Path) -> None:
    with FakeOpenAI(key="another", delay_s=0.05) as first, FakeOpenAI(delay_s=0.05) as second:
        config = config_for(first, max_in_flight=2, endpoints=[further(second, max_in_flight=2)])
        async with client_over(tmp_path, config) as (client, _):
            calls = [client.complete(f"q{n}", "a", "generate", ask("hello")) for n in range(30)]
            assert all(reply.text for reply in await asyncio.gather(*calls))
        assert len(first.received) <= 2
        assert len(second.received) == 30


async def test_a_storm_of_errors_is_left_alone_for_a_while_and_then_tried_again(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[OVERLOADED] * 3) as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second)])
        async with client_over(tmp_path, config, backoff=PAUSES) as (client, _):
            clock = Clock(client)
            await ask_all(client, 4)
            assert (len(first.received), len(second.received)) == (3, 4)
            clock.now = 60.0
            await ask_all(client, 4, "b")
        assert (len(first.received), len(second.received)) == (7, 4)
    assert len(rows(tmp_path, "ledger")) == 11


async def test_a_recovering_endpoint_is_tried_by_one_call_and_not_by_the_crowd(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[OVERLOADED] * 40, delay_s=0.1) as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second)])
        async with client_over(tmp_path, config, backoff=PAUSES) as (client, _):
            clock = Clock(client)
            await ask_all(client, 3)
            clock.now = 60.0
            await asyncio.gather(*(client.complete(f"q{n}", "b", "generate", ask("hello")) for n in range(20)))
        assert len(first.received) == 4
        assert len(second.received) == 23


async def test_all_out_stops_the_run_and_names_each_and_why(tmp_path: Path) -> None:
    with FakeOpenAI(key="another") as first, FakeOpenAI(models=["renamed"]) as second, FakeOpenAI() as third:
        third.troubles = [None, NO_QUOTA]
        config = config_for(first, endpoints=[further(second), further(third)])
        async with client_over(tmp_path, config) as (client, _):
            await client.complete("q0", "a", "generate", ask("hello"))
            with pytest.raises(EndpointError) as stopped:
                await client.complete("q1", "a", "generate", ask("hello"))
            with pytest.raises(EndpointError, match="None of the 3"):
                await client.complete("q2", "a", "generate", ask("hello"))
        assert [len(server.received) for server in (first, second, third)] == [1, 1, 2]
    said = str(stopped.value)
    for server, why in ((first, "refuses the key"), (second, "does not know the model"), (third, "Add credit")):
        assert server.base_url in said
        assert why in said


async def test_all_down_is_tried_as_often_as_one_and_then_stops_the_run(tmp_path: Path) -> None:
    with FakeOpenAI() as second:
        config = LlmConfig(
            base_url=gone(), model="fake-model", price=PRICE, endpoints=[further(second)], max_attempts=3
        )
    async with client_over(tmp_path, config) as (client, ledger):
        with pytest.raises(EndpointError, match="Tried 3 times") as stopped:
            await client.complete("q", "a", "generate", ask("hello"))
        assert (await ledger.totals()).settled_usd == 0
    assert config.base_url in str(stopped.value)
    assert config.endpoints[0].base_url in str(stopped.value)
    assert 3 <= len(rows(tmp_path, "ledger")) <= 6


async def test_what_is_wrong_with_the_request_is_not_taken_elsewhere(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(400, "content_filter")]) as first, FakeOpenAI() as second:
        async with client_over(tmp_path, config_for(first, endpoints=[further(second)])) as (client, _):
            with pytest.raises(CallFailed, match="content filter"):
                await client.complete("q", "a", "generate", ask("hello"))
            await client.complete("q", "b", "generate", ask("hello"))
        assert (len(first.received), len(second.received)) == (2, 0)


async def test_a_429_sends_the_crowd_to_where_leave_comes_sooner(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[too_many(90.0)]) as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second)])
        async with client_over(tmp_path, config) as (client, _):
            start = time.monotonic()
            await ask_all(client, 8)
            assert time.monotonic() - start < 60
        assert (len(first.received), len(second.received)) == (1, 8)


async def test_both_limits_are_used_at_once(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        config = config_for(first, requests_per_minute=60, endpoints=[further(second, requests_per_minute=6000)])
        async with client_over(tmp_path, config) as (client, _):
            start = time.monotonic()
            await asyncio.gather(*(client.complete(f"q{n}", "a", "generate", ask("hello")) for n in range(40)))
            assert time.monotonic() - start < 20  # at the first alone it were forty seconds
        assert len(first.received) >= 1
        assert len(second.received) >= 20


async def test_a_prompt_goes_to_the_endpoint_whose_minute_can_hold_it(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        config = config_for(first, tokens_per_minute=300, endpoints=[further(second, tokens_per_minute=3000)])
        async with client_over(tmp_path, config) as (client, _):
            await client.complete("q0", "a", "generate", ask("hello " * 200))
            with pytest.raises(QuestionError, match="3000"):
                await client.complete("q1", "a", "generate", ask("hello " * 4000))
        assert (len(first.received), len(second.received)) == (0, 1)


async def test_the_cap_holds_at_the_dearest_that_may_be_asked_and_at_the_others_when_it_is_out(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI(key="another") as second:
        config = config_for(first, endpoints=[further(second, price=DEAR)])
        async with client_over(tmp_path, config, cap_usd=0.01) as (client, ledger):
            with pytest.raises(OverBudget):
                await client.complete("q0", "a", "generate", ask("hello"))
            client.router.routes[1].breaker.refuse("out")
            assert client.price == PRICE
            await client.complete("q1", "a", "generate", ask("hello"))
            assert (await ledger.totals()).settled_usd == pytest.approx(first.bill_usd, abs=1e-12)
        assert not second.received


async def test_a_reply_is_known_by_the_list_and_not_by_who_gave_it(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        config = config_for(first, endpoints=[further(second)])
        for key in (None, "another"):
            first.key = key
            async with client_over(tmp_path, config) as (client, _):
                await ask_all(client, 3)
        assert (len(first.received), len(second.received)) == (3, 0)
        async with client_over(tmp_path, config_for(first)) as (client, _):
            first.key = None
            await ask_all(client, 3)
        assert len(first.received) == 6


async def test_no_endpoints_key_is_written_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"FIRST_KEY": "sk-firstsecret0123456789", "SECOND_KEY": "tok_secondsecret0123456789"}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    both = " and ".join(keys.values())
    leaks: Any = [(lambda _: True, f"Your keys are {both}")]
    with FakeOpenAI(key="another") as first, FakeOpenAI(key=keys["SECOND_KEY"], rules=leaks) as second:
        second.snapshot = f"model-of-{keys['SECOND_KEY']}"
        second.system_fingerprint = keys["FIRST_KEY"]
        config = config_for(first, api_key_env="FIRST_KEY", endpoints=[further(second, api_key_env="SECOND_KEY")])
        async with client_over(tmp_path, config) as (client, ledger):
            reply = await client.complete("q", "a", "generate", ask(f"I typed {both}"))
            first.key, second.key = "another", "yet another"
            with pytest.raises(EndpointError) as stopped:
                await client.complete("q2", "a", "generate", ask("hello"))
            shown = repr(client) + repr(client.router.routes) + repr(await ledger.totals()) + str(stopped.value)
        assert second.received[0].authorization == f"Bearer {keys['SECOND_KEY']}"
    written = all_bytes(tmp_path).decode("latin-1") + str([rows(tmp_path, name) for name in ("ledger", "journal")])
    for key in keys.values():
        assert key not in shown + written + reply.text
    assert "[key removed]" in written


async def test_a_missing_key_puts_its_endpoint_out_and_no_key_at_all_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with FakeOpenAI() as server:
        azure = {"base_url": "https://x.openai.azure.com", "api_version": "2024-10-21", "api_key_env": "NO_SUCH_KEY"}
        async with client_over(tmp_path / "a", config_for(server, endpoints=[further(server, **azure)])) as (client, _):
            await ask_all(client, 2)
            server.key = "another"
            with pytest.raises(EndpointError, match="NO_SUCH_KEY is not set"):
                await client.complete("q", "b", "generate", ask("hello"))
        other = {**azure, "base_url": "https://y.openai.azure.com"}
        with pytest.raises(ConfigError, match="NO_SUCH_KEY is not set"):
            async with client_over(tmp_path / "b", config_for(server, **azure, endpoints=[further(server, **other)])):
                pass
        spare = further(server, model="deployment", price=None)
        with pytest.raises(ConfigError, match="no price for the model 'deployment'"):
            async with client_over(tmp_path / "c", config_for(server, endpoints=[spare])):
                pass


async def test_cancelled_callers_leave_no_lease_at_any_endpoint(tmp_path: Path) -> None:
    with FakeOpenAI(delay_s=0.05) as first, FakeOpenAI(delay_s=0.05) as second:
        config = config_for(first, max_in_flight=3, endpoints=[further(second, max_in_flight=3)])
        limiters = [LocalLimiter(Limits(None, None, 3)) for _ in range(2)]
        ledger = RunLedger(Folder.of(tmp_path), None)
        client = LlmClient(config, Gateway(ledger, limiters))
        calls = [asyncio.create_task(client.complete(f"q{n}", "a", "generate", ask("hello"))) for n in range(60)]
        await asyncio.sleep(0.4)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: [limiter.in_flight for limiter in limiters] == [0, 0])
        assert (await ledger.totals()).reserved_usd == 0
        assert (await asyncio.wait_for(client.complete("q", "b", "generate", ask("hello")), 60)).text
        await client.aclose()
        await ledger.close()
