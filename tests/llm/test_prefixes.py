"""Prompts that begin alike: the first is answered before the others are sent, which find its prefix in the cache."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.request import PREFIX_CHARS, PREFIX_LASTS_S, PrefixTurns, prefix_key
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import PRICE, client_over, config_for, rows

REPORT = "The board met and looked at the plans of the plant. " * 200


def about(document: str, question: str) -> list[Message]:
    return [Message("system", "Answer in a word."), Message("user", f"{document}\n\nQuestion: {question}")]


async def asked(client: LlmClient, *prompts: list[Message]) -> list[BaseException | Any]:
    calls = (client.complete(f"q{n}", "generate", "generate", prompt) for n, prompt in enumerate(prompts))
    return await asyncio.gather(*calls, return_exceptions=True)


def test_prompts_share_a_key_where_their_beginnings_are_equal() -> None:
    keys = [prefix_key(about(REPORT, text)) for text in ("who", "what")]
    assert keys[0] == keys[1] is not None
    assert prefix_key(about(f"Another one. {REPORT}", "who")) != keys[0]
    assert prefix_key([Message("system", "Else."), *about(REPORT, "who")[1:]]) != keys[0]
    assert prefix_key(about(REPORT[: PREFIX_CHARS // 2], "who")) is None


async def test_a_night_of_questions_about_few_documents_reads_each_once(
    tmp_path: Path, endpoint_process: EndpointProcess
) -> None:
    endpoint_process.reset({"latency": {"median_s": 0.05}})
    prompts = [about(f"Report {number % 3}. {REPORT}", f"q{number}") for number in range(30)]
    async with client_over(tmp_path, config_for(endpoint_process)) as (client, _):  # type: ignore[arg-type]
        await asked(client, *prompts)
    cached = sorted(row["cached_tokens"] for row in rows(tmp_path, "ledger"))
    assert cached[:3] == [0, 0, 0]
    assert cached[3] > 2000
    assert sum(cached) / sum(row["prompt_tokens"] for row in rows(tmp_path, "ledger")) > 0.8


@pytest.mark.parametrize(("cached", "together"), [(1.25, 1), (2.5, 5)])
async def test_where_nothing_is_cheaper_from_a_cache_nobody_waits(
    tmp_path: Path, endpoint_process: EndpointProcess, cached: float, together: int
) -> None:
    endpoint_process.reset({"latency": {"median_s": 0.5, "sigma": 0.0}})
    config = config_for(endpoint_process, price=PRICE.model_copy(update={"cached_input": cached}))  # type: ignore[arg-type]
    async with client_over(tmp_path, config) as (client, _):
        first, *others = (about(REPORT, f"q{n}") for n in range(6))
        await asyncio.gather(asked(client, first), asked(client, *others[:4]))
    peak = endpoint_process.state()["counts"]["peak_in_flight"]
    assert peak == 4 if together == 1 else peak > 4
    arrived = [entry["at_s"] for entry in endpoint_process.received("chat")]
    assert (arrived[1] - arrived[0] >= 0.5) is (together == 1)


async def test_when_the_first_fails_the_next_takes_its_place(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(400, message="no such prompt")]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            got = await asked(client, *(about(REPORT, f"q{number}") for number in range(4)))
        assert sum(isinstance(each, Exception) for each in got) == 1
        assert [one.status for one in server.received] == [400, 200, 200, 200]


async def test_a_prefix_that_was_not_used_for_minutes_is_read_anew() -> None:
    now = 0.0
    turns = PrefixTurns(lambda: now)
    order: list[str] = []

    async def use(name: str, takes: int) -> None:
        async with turns.turn("key"):
            order.append(f"{name} begins")
            for _ in range(takes):
                await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(use("a", 3), use("b", 1), use("c", 1))
    assert order[:2] == ["a begins", "a ends"]
    now = PREFIX_LASTS_S + 1
    order.clear()
    await asyncio.gather(use("d", 3), use("e", 1))
    assert order[:2] == ["d begins", "d ends"]


@pytest.mark.parametrize(("said", "fields"), [("always", {"prompt_cache_key"}), ("auto", set()), ("never", set())])
async def test_the_key_is_sent_where_the_endpoint_has_it(tmp_path: Path, said: str, fields: set[str]) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, prompt_cache_key=said)) as (client, _):
            await asked(client, about(REPORT, "a"), about(REPORT, "b"), about("Short.", "c"))
        keys = [one.body.get("prompt_cache_key") for one in server.received]
        assert {"prompt_cache_key"} & set(server.received[0].body) == fields
        long = [key for one, key in zip(server.received, keys, strict=True) if len(one.messages[1]["content"]) > 100]
        assert len(set(long)) == 1
        assert [
            key for one, key in zip(server.received, keys, strict=True) if "Short." in one.messages[1]["content"]
        ] == [None]


async def test_an_endpoint_that_refuses_the_key_is_asked_without(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.refuses = {"prompt_cache_key": "Unrecognized request argument supplied: prompt_cache_key"}
        async with client_over(tmp_path, config_for(server, prompt_cache_key="always")) as (client, _):
            await asked(client, about(REPORT, "a"), about(REPORT, "b"))
        assert [one.status for one in server.received] == [400, 200, 200]


async def test_nobody_waits_for_a_first_one_that_is_held_up() -> None:
    turns, released = PrefixTurns(wait_s=0.05), asyncio.Event()

    async def first() -> None:
        async with turns.turn("key"):
            await released.wait()

    async def other() -> None:
        async with turns.turn("key"):
            released.set()

    await asyncio.gather(first(), other(), other())
