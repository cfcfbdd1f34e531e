"""The flex tier in real time: its price, its patience, and the standard tier where it has no capacity."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import ConfigError, OverBudget
from okralong.pipelines.llm.config import FlexConfig, LlmConfig
from okralong.pipelines.llm.prices import Price
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import ask, client_over, config_for, rows

PRICE = Price(input=2.5, cached_input=1.25, output=10.0, flex_discount=0.5)


def flexible(server: FakeOpenAI, **changes: Any) -> LlmConfig:
    flex = FlexConfig(attempts=3, pause_s=0.01)
    return config_for(server, **{"service_tier": "flex", "price": PRICE, "flex": flex, **changes})


async def asked(
    run: Path, config: LlmConfig, count: int = 1, cap_usd: float | None = None
) -> list[BaseException | Any]:
    async with client_over(run, config, cap_usd) as (client, _):
        calls = (client.complete(f"q{n}", "generate", "generate", ask(f"how much {n}")) for n in range(count))
        return await asyncio.gather(*calls, return_exceptions=True)


def tiers(server: FakeOpenAI) -> list[tuple[str | None, int]]:
    return [(one.body.get("service_tier"), one.status) for one in server.received]


async def test_a_reply_of_the_flex_tier_costs_its_price_and_was_reserved_at_the_standard_one(tmp_path: Path) -> None:
    with FakeOpenAI(cached_tokens=9) as server:
        await asked(tmp_path, flexible(server))
        assert tiers(server) == [("flex", 200)]
        (row,) = rows(tmp_path, "ledger")
        assert (row["service_tier"], row["input_usd_per_million"], row["cached_usd_per_million"]) == (
            "flex",
            1.25,
            0.625,
        )
        assert row["cost_usd"] == pytest.approx(server.bill_usd, abs=1e-12)
        assert row["reserved_usd"] >= 256 * 10.0 / 1e6


async def test_a_tier_that_is_full_is_asked_again_and_slows_nobody_down(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.flex_is_full = 2
        await asked(tmp_path, flexible(server))
        assert tiers(server) == [("flex", 429), ("flex", 429), ("flex", 200)]
        ledger = rows(tmp_path, "ledger")
        assert [(row["status"], row["cost_usd"] > 0) for row in ledger] == [("failed", False)] * 2 + [("ok", True)]
        assert max(row["queue_s"] for row in ledger) < 0.9, "a rate limit's 429 would hold everyone for a second"


async def test_after_its_attempts_the_standard_tier_answers_at_its_own_price(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.flex_is_full = 10**6
        await asked(tmp_path, flexible(server, max_attempts=1))
        assert tiers(server) == [("flex", 429)] * 3 + [("default", 200)]
        row = rows(tmp_path, "ledger")[-1]
        assert (row["status"], row["service_tier"], row["input_usd_per_million"]) == ("ok", "default", 2.5)
        assert row["cost_usd"] == pytest.approx(server.bill_usd, abs=1e-12)


async def test_who_waits_for_the_whole_time_goes_to_the_standard_tier_and_the_wait_stays_held(tmp_path: Path) -> None:
    flex = FlexConfig(attempts=1, timeout_s=0.2, pause_s=0.01)
    with FakeOpenAI(troubles=[Trouble(delay_s=1.0)]) as server:
        await asked(tmp_path, flexible(server, flex=flex, timeout_s=0.1))
        assert [tier for tier, _ in tiers(server)] == ["flex", "default"]
        assert [row["status"] for row in rows(tmp_path, "ledger")] == ["unknown", "ok"]


async def test_what_the_reply_names_is_charged_whatever_was_asked_for(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(service_tier="default"), Trouble(service_tier="flex")]) as server:
        await asked(tmp_path / "flex", flexible(server))
        await asked(tmp_path / "standard", flexible(server, service_tier="standard"))
        assert [tier for tier, _ in tiers(server)] == ["flex", "default"]
        charged = [rows(tmp_path / name, "ledger")[0]["input_usd_per_million"] for name in ("flex", "standard")]
        assert charged == [2.5, 1.25]


@pytest.mark.parametrize("full", [0, 5, 40, 10**6])
async def test_the_cap_holds_whichever_tier_answers(tmp_path: Path, full: int) -> None:
    cap = 0.02
    with FakeOpenAI() as server:
        server.flex_is_full = full
        got = await asked(tmp_path, flexible(server), count=30, cap_usd=cap)
        refused = [each for each in got if isinstance(each, OverBudget)]
        assert 0 < server.bill_usd <= cap
        assert len(refused) + sum(one.status == 200 for one in server.received) == 30
        assert sum(row["cost_usd"] for row in rows(tmp_path, "ledger")) == pytest.approx(server.bill_usd, abs=1e-12)


async def test_a_price_that_knows_no_flex_is_refused(tmp_path: Path) -> None:
    with FakeOpenAI() as server, pytest.raises(ConfigError, match="flex_discount"):
        await asked(tmp_path, config_for(server, service_tier="flex"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("service_tier: flex", "embedded model has no tiers"),
        ("{service_tier: flex, mode: batch, base_url: 'http://a/v1', model: m}", "flex does not lower"),
    ],
)
def test_a_tier_that_does_not_fit_the_run_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(LlmConfig, text, "answer.yaml")
