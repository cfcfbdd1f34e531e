"""Endpoints of several providers in one config: each speaks its own protocol, and the ledger is the bill of all."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from okralong.pipelines.core.types import QUESTION_MARK, Message
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.provider_run import CLAUDE, DOCUMENT, GEMINI, MAKERS, SCHEMA
from tests.llm.tools import PRICE, client_over, config_for, rows

OVERLOADED = Trouble(503, "overloaded", "Try later.")
QUESTIONS = [f"q{number}" for number in range(4)]


@pytest.fixture
def server(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({"models": {each.model: {"rates": each.rates} for each in MAKERS.values()}})
    for each in MAKERS.values():
        monkeypatch.setenv(each.key_env, each.key)
    return endpoint_process


def others(server: EndpointProcess) -> list[EndpointConfig]:
    return [
        EndpointConfig(provider=one.provider, base_url=one.at(server), model=one.model, price=one.price)
        for one in MAKERS.values()
    ]


async def ask_all(run: Path, config: LlmConfig) -> Counter[tuple[str, str]]:
    schema = {"reply_schema": lambda _: json.dumps(SCHEMA)}
    async with client_over(run, config, cap_usd=1.0, **schema) as (client, _):

        async def one(query_id: str) -> None:
            messages = [Message("system", "Answer."), Message("user", f"{DOCUMENT}{QUESTION_MARK}{query_id}?")]
            reply = await client.complete(query_id, "generate", "generate", messages, answer_type="text")
            assert reply.text

        await asyncio.gather(*map(one, QUESTIONS))
    return Counter((row["model"], row["status"]) for row in rows(run, "ledger"))


async def test_from_openai_to_claude_and_gemini(tmp_path: Path, server: EndpointProcess) -> None:
    with FakeOpenAI(troubles=[OVERLOADED] * 100) as first:
        claude, gemini = others(server)
        served = await ask_all(tmp_path / "claude", config_for(first, endpoints=[claude, gemini]))
        assert served[CLAUDE.model, "ok"] == len(QUESTIONS)
        served = await ask_all(tmp_path / "gemini", config_for(first, endpoints=[gemini]))
        assert served[GEMINI.model, "ok"] == len(QUESTIONS)
        assert served["fake-model", "ok"] == 0 < served["fake-model", "failed"]
        gone = config_for(first, base_url="http://127.0.0.1:9/v1", endpoints=[gemini])
        assert (await ask_all(tmp_path / "gone", gone))[GEMINI.model, "ok"] == len(QUESTIONS)
        paid = sum(row["cost_usd"] for run in ("claude", "gemini", "gone") for row in rows(tmp_path / run, "ledger"))
        assert paid == pytest.approx(float(server.bill_usd), abs=1e-12)


async def test_from_claude_to_openai(tmp_path: Path, server: EndpointProcess) -> None:
    server.change({"faults": [{"kind": "server_error", "where": "chat", "times": 100}]})
    with FakeOpenAI() as second:
        fallback = EndpointConfig(base_url=second.base_url, model="fake-model", price=PRICE)
        served = await ask_all(tmp_path, CLAUDE.config(server.anthropic_url, endpoints=[fallback]))
        assert served["fake-model", "ok"] == len(QUESTIONS)
        paid = sum(row["cost_usd"] for row in rows(tmp_path, "ledger"))
        assert paid == pytest.approx(second.bill_usd, abs=1e-12)


def test_a_fallback_that_thinks_has_room_for_it() -> None:
    def room(**fallback: str) -> int:
        return LlmConfig(base_url="https://api.openai.com/v1", model="gpt-4o", endpoints=[fallback]).room_for_thought

    assert room(provider="anthropic", model="claude-sonnet-5") == room(provider="google", model="gemini-2.5-pro") > 0
    assert room(provider="anthropic", model="claude-haiku-4-5") == 0
