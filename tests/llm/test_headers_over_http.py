"""What a real reply's headers do to the limiter of the client that got it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from okralong.pipelines.answering.grammars import ROLES as WITH_GRAMMAR
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import ANALYZE, CompletionLimits
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from tests.fakes.openai_server import FakeOpenAI, Trouble, too_many
from tests.llm.tools import ask, client_over, config_for


def says(what: str, limit: int, remaining: int, reset: str = "60s") -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{what}": str(limit),
        f"x-ratelimit-remaining-{what}": str(remaining),
        f"x-ratelimit-reset-{what}": reset,
    }


async def test_a_limit_that_a_reply_names_is_kept_from_then_on(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(headers=says("tokens", 400, 100))]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q1", "a", "generate", ask("hello"))
            with pytest.raises(QuestionError, match="endpoint's limit of tokens per minute = 400"):
                await client.complete("q2", "a", "generate", ask("hello " * 300))
        assert len(server.received) == 1


async def test_what_others_have_used_holds_everyone_until_it_is_back(tmp_path: Path) -> None:
    used_up = Trouble(headers=says("requests", 1000, 0, "200ms"))
    with FakeOpenAI(troubles=[used_up]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q0", "a", "generate", ask("hello"))
            start = time.monotonic()
            await asyncio.gather(*(client.complete(f"q{n}", "b", "generate", ask("hello")) for n in range(5)))
        assert 1.0 < min(one.at for one in server.received[1:]) - start < 30  # the reset, and our second on top


async def test_a_429_tells_its_limits_too_and_lies_change_nothing(tmp_path: Path) -> None:
    lies = {"x-ratelimit-limit-requests": "-1", "x-ratelimit-remaining-requests": "0", "x-ratelimit-limit-tokens": "0"}
    troubles = [Trouble(headers=lies), too_many(0.01, **says("tokens", 60_000, 60_000))]
    with FakeOpenAI(troubles=troubles) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            for n in range(3):
                await asyncio.wait_for(client.complete(f"q{n}", "a", "generate", ask("hello")), 60)
            with pytest.raises(QuestionError, match="limit of tokens per minute = 60000"):
                await client.complete("q", "b", "generate", ask("hello " * 60_000))


async def test_a_named_wait_of_an_overloaded_server_holds_everyone(tmp_path: Path) -> None:
    busy = Trouble(503, "overloaded", headers={"retry-after": "1"})
    with FakeOpenAI(troubles=[busy]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            first = asyncio.create_task(client.complete("q", "a", "generate", ask("hello")))
            await asyncio.sleep(0.4)
            await client.complete("other", "a", "generate", ask("hello"))
            await first
        assert min(one.at for one in server.received[1:]) - server.received[0].at >= 0.98


class _Recording(LocalLimiter):
    """The limiter, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__(Limits())
        self.asked: list[int] = []

    async def acquire(self, tokens: int, expires_s: float) -> int:
        self.asked.append(tokens)
        return await super().acquire(tokens, expires_s)


ROLES = tuple(CompletionLimits.model_fields)


def test_every_role_that_has_a_contract_has_a_limit() -> None:
    assert WITH_GRAMMAR | {ANALYZE} <= set(ROLES)


async def test_the_limiter_counts_the_longest_reply_of_each_role_as_the_server_does(tmp_path: Path) -> None:
    limits = CompletionLimits(generate=100, split=200, step=300, full_text=400, analyze=500)
    limiter, ledger = _Recording(), RunLedger(Folder.of(tmp_path), None)
    with FakeOpenAI() as server:
        client = LlmClient(config_for(server, max_completion_tokens=limits), Gateway(ledger, [limiter]))
        for role in ROLES:
            await client.complete("q", role, role, ask("hello"))
        sent = [one.body["max_tokens"] for one in server.received]
        prompts = {one.prompt_tokens for one in server.received}
        await client.aclose()
        await ledger.close()
    assert sent == [getattr(limits, role) for role in ROLES]
    (prompt,) = {asked - longest for asked, longest in zip(limiter.asked, sent, strict=True)}
    assert max(prompts) <= prompt <= 1.2 * max(prompts) + 16
