from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path

import openai
import pytest
from openai.types.chat import ChatCompletion

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import PriceTable
from tests.fakes.calls import MODEL, chat, tried
from tests.fakes.conftest import KEY
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.tools import ask, client_over

NANO = {"rates": {"input": 0.1, "cached_input": 0.025, "output": 0.4}}
LONG = "The board met and looked at the plans of the plant. " * 200
"""2,401 tokens; with a message's marks 2,408, of which 1,024 and ten times 128 can be cached."""


def usd_of(replies: list[ChatCompletion], fresh: str, cached: str, output: str) -> Decimal:
    """What ``replies`` cost, by the usage that each of them tells; dollars per million tokens."""
    total = Decimal(0)
    for reply in replies:
        usage = reply.usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        hit = usage.prompt_tokens_details.cached_tokens or 0
        total += (usage.prompt_tokens - hit) * Decimal(fresh)
        total += hit * Decimal(cached) + usage.completion_tokens * Decimal(output)
    return total / 1_000_000


def cached_in(reply: ChatCompletion) -> int:
    assert reply.usage is not None
    assert reply.usage.prompt_tokens_details is not None
    return reply.usage.prompt_tokens_details.cached_tokens or 0


async def test_the_bill_is_the_sum_of_all_replies_to_the_last_digit(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    server.reset({"models": {MODEL: {}, "nano": NANO}, "faults": [{"kind": "server_error", "share": 0.2}]})
    asked = [(f"{LONG[: 17 * n]} {n}", name) for n in range(150) for name in (MODEL, "nano")]
    outcomes = await asyncio.gather(*(tried(client, text, model=name) for text, name in asked))
    replies = [one for one in outcomes if isinstance(one, ChatCompletion)]
    assert len(replies) < 300
    expected = usd_of([one for one in replies if one.model == MODEL], "2.5", "1.25", "10")
    expected += usd_of([one for one in replies if one.model == "nano"], "0.1", "0.025", "0.4")
    assert server.bill_usd == expected
    billed = [Decimal(entry["billed_usd"]) for entry in server.received("chat") if entry["billed"]]
    assert len(billed) == len(replies)
    assert sum(billed) == expected


async def test_repeated_prefixes_are_cached_in_steps(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    assert count_tokens(LONG) == 2401
    short = "word " * 900
    for text, first, again in ((LONG, 0, 1024 + 10 * 128), (short, 0, 0)):
        assert cached_in(await chat(client, text)) == first
        assert cached_in(await chat(client, text)) == again
    shared = LONG[: len(LONG) * 3 // 4]
    tokens = 4 + count_tokens(shared)
    assert cached_in(await chat(client, f"{shared} But then the season came to its end.")) == tokens // 128 * 128
    assert cached_in(await chat(client, f"But first: {LONG}")) == 0


@pytest.mark.parametrize(
    ("kinds", "some_unknown"), [(("unavailable", "server_error"), False), (("reset", "bad_gateway", "hang"), True)]
)
async def test_the_product_s_own_ledger_agrees_with_the_bill(
    server: EndpointProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kinds: tuple[str, ...],
    some_unknown: bool,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    name = "gpt-4o-mini"
    rates = {key: getattr(PriceTable.load().price(name), key) for key in ("input", "cached_input", "output")}
    faults = [{"kind": kind, "share": 0.1, "hang_s": 0.3} for kind in kinds]
    latency = {"median_s": 0.02}
    server.reset({"keys": [KEY], "models": {name: {"rates": rates}}, "faults": faults, "latency": latency})
    config = LlmConfig(base_url=server.base_url, model=name, timeout_s=10.0, max_attempts=15)
    async with client_over(tmp_path, config) as (client, ledger):
        texts = [f"{LONG} {n}" for n in range(40)]
        await asyncio.gather(*(client.complete(f"q{n}", "a", "generate", ask(text)) for n, text in enumerate(texts)))
        totals = await ledger.totals()
    assert set(server.state()["counts"]["by_fault"]) == set(kinds)
    good = sum(Decimal(entry["billed_usd"]) for entry in server.received("chat") if entry["status"] == 200)
    assert totals.settled_usd == pytest.approx(float(good), abs=1e-12)
    assert totals.settled_usd - 1e-12 <= float(server.bill_usd) <= totals.settled_usd + totals.unknown_usd + 1e-12
    assert (totals.unknown_usd > 0) is (float(server.bill_usd) > float(good)) is some_unknown
    assert totals.reserved_usd == 0
