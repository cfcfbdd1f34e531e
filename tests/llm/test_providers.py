"""What holds for calls to Claude and to Gemini alike, through their SDKs, at an endpoint with a bill of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.answering.answer_types import KINDS
from okralong.pipelines.answering.prompts.typed import reply_schema
from okralong.pipelines.core.types import EndpointError, OverBudget, ReplyError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import check_endpoint
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree
from tests.llm.provider_run import CALLS, CLAUDE, GEMINI, IN_FLIGHT, Maker
from tests.llm.tools import all_bytes, ask, client_over, rows

pytestmark = pytest.mark.parametrize("maker", [CLAUDE, GEMINI], ids=lambda maker: maker.provider)


@pytest.fixture
def server(maker: Maker, endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({"models": {maker.model: {"rates": maker.rates}}})
    monkeypatch.setenv(maker.key_env, maker.key)
    return endpoint_process


async def test_errors_that_pass_are_retried_each_with_its_row(
    tmp_path: Path, maker: Maker, server: EndpointProcess
) -> None:
    server.change({"script": ["unavailable", "server_error", "rate_limited", "reset", "bad_gateway"]})
    async with client_over(tmp_path, maker.config(maker.at(server), max_attempts=7)) as (client, _):
        reply = await client.complete("q", "generate", "generate", ask("Hello"))
    assert reply.text == "An answer to: Hello"
    overloaded = 529 if maker is CLAUDE else 503
    assert [(row["status"], row["http_status"]) for row in rows(tmp_path, "ledger")] == [
        *[("failed", overloaded), ("failed", 500), ("failed", 429), ("unknown", 0), ("unknown", 502)],
        ("ok", 200),
    ]
    settled = sum(row["cost_usd"] for row in rows(tmp_path, "ledger") if row["status"] == "ok")
    assert settled < float(server.bill_usd) < sum(row["cost_usd"] for row in rows(tmp_path, "ledger"))
    assert len(server.received("chat")) == 6, "the SDK adds no attempt of its own"


OPTIONAL = {"type": "object", "properties": {"rise": {"type": ["number", "null"], "minimum": 0}}, "required": ["rise"]}
UNTYPED: dict[str, Any] = {"type": "object", "properties": {"anything": {}}, "required": ["anything"]}


@pytest.mark.parametrize("answer_type", [*KINDS[1:], "list of money", json.dumps(OPTIONAL), json.dumps(UNTYPED)])
async def test_every_answer_type_is_sent_as_a_schema(
    tmp_path: Path, maker: Maker, server: EndpointProcess, answer_type: str
) -> None:
    answer_type = f'{answer_type} ["rose", "fell"]' if answer_type == "choices" else answer_type
    async with client_over(tmp_path, maker.config(maker.at(server)), reply_schema=reply_schema) as (client, _):
        await client.complete("q", "generate", "generate", ask("Hi"), answer_type=answer_type)
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["ok"]
    agree(tmp_path, server)


async def test_a_minutes_limit_is_waited_for_and_a_used_up_account_stops_the_run(
    tmp_path: Path, maker: Maker, server: EndpointProcess
) -> None:
    wait_s = 1.0 if maker is CLAUDE else 0.7  # Anthropic's header has whole seconds
    server.change({"faults": [{"kind": "rate_limited", "retry_after_s": wait_s, "times": 1}]})
    used_up = {
        CLAUDE: r"quota of the account .* is used up .*credit balance is too low",
        GEMINI: r"asks to wait \d{3,5} s \(429: You exceeded your current quota",
    }
    async with client_over(tmp_path, maker.config(maker.at(server))) as (client, _):
        began = time.monotonic()
        await client.complete("q", "generate", "generate", ask("Hello"))
        assert time.monotonic() - began >= wait_s
        server.change({"faults": [{"kind": "insufficient_quota"}]})
        with pytest.raises(EndpointError, match=used_up[maker]):
            await client.complete("r", "generate", "generate", ask("Again"))
    assert len(server.received("chat")) == 3
    agree(tmp_path, server)


async def test_a_wrong_key_and_an_unknown_model_are_named(
    tmp_path: Path, maker: Maker, server: EndpointProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = maker.config(maker.at(server))
    other = config.model_copy(update={"model": "none-such"})
    assert (await check_endpoint(config)).state == "ready"
    assert (await check_endpoint(other)).state == "unknown_model"
    server.change({"keys": [f"{maker.key[:4]}-the-only-key-0123456789"]})
    assert (await check_endpoint(config)).state == "wrong_key"
    async with client_over(tmp_path / "a", config) as (client, _):
        with pytest.raises(EndpointError, match=f"refuses the key in the environment variable {maker.key_env}"):
            await client.complete("q", "generate", "generate", ask("Hello"))
    server.change({"keys": []})
    async with client_over(tmp_path / "b", other) as (client, _):
        with pytest.raises(EndpointError, match="does not know the model 'none-such'"):
            await client.complete("q", "generate", "generate", ask("Hello"))
    assert maker.key.encode() not in all_bytes(tmp_path)
    monkeypatch.delenv(maker.key_env)
    official = LlmConfig(provider=maker.provider, model=maker.model, price=maker.price)
    assert official.base_url == maker.official
    assert (await check_endpoint(official)).state == "no_key"


async def test_refusals_and_empty_and_cut_replies_are_told_and_paid(
    tmp_path: Path, maker: Maker, server: EndpointProcess
) -> None:
    server.change({"script": ["refusal", "content_filter", "empty_content", "length"]})
    told = {CLAUDE: ["refused to answer: I'm sorry", "refused to answer"], GEMINI: ["content filter"] * 2}
    async with client_over(tmp_path, maker.config(maker.at(server))) as (client, _):
        for query_id, said in zip("abc", [*told[maker], "sent an empty reply"], strict=True):
            with pytest.raises(ReplyError, match=said):
                await client.complete(query_id, "generate", "generate", ask(query_id))
        assert (await client.complete("d", "generate", "generate", ask("d"))).finish_reason == "length"
    agree(tmp_path, server)


async def test_the_cap_is_never_exceeded(tmp_path: Path, maker: Maker, server: EndpointProcess) -> None:
    cap = 0.004 if maker is CLAUDE else 0.02
    config = maker.config(maker.at(server), max_in_flight=8)
    async with client_over(tmp_path, config, cap_usd=cap) as (client, _):
        calls = (client.complete(f"q{n}", "generate", "generate", ask(f"question {n} " * 30)) for n in range(40))
        got = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(each) for each in got if isinstance(each, BaseException)} == {OverBudget}
    assert 0 < float(server.bill_usd) <= cap
    agree(tmp_path, server)


def test_after_a_kill_only_calls_in_flight_are_paid_for_again(
    tmp_path: Path, maker: Maker, server: EndpointProcess
) -> None:
    server.change({"hold_after": IN_FLIGHT + 1})
    command = [sys.executable, "-m", "tests.llm.provider_run", maker.provider, str(tmp_path), maker.at(server)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    killed = subprocess.Popen(command, env=environment, cwd=CHECKOUT)
    while len(server.received("chat")) < IN_FLIGHT + 2:
        assert killed.poll() is None
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    server.change({"hold_after": None})
    assert subprocess.run(command, env=environment, cwd=CHECKOUT, timeout=300, check=False).returncode == 0
    ledger = rows(tmp_path, "ledger")
    settled = sum(row["cost_usd"] for row in ledger if row["status"] == "ok")
    lost = [row for row in ledger if row["status"] == "unknown"]
    assert len({row["query_id"] for row in rows(tmp_path, "answers")}) == CALLS
    assert 1 <= len(lost) <= IN_FLIGHT
    assert len(server.received("chat")) <= CALLS + len(lost)
    assert settled - 1e-12 <= float(server.bill_usd) <= sum(row["cost_usd"] for row in ledger) + 1e-12
