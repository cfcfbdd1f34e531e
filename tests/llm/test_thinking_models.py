"""Models that think before they answer: the fields that they refuse, their room for thought, its cost and reserve."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.types import EndpointError, OverBudget, ReplyError
from okralong.pipelines.llm.config import CompletionLimits, thinks
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import ask, client_over, config_for, further, rows

NO_TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) is supported."
)
NO_MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
NO_SEED = "[{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted', 'input': 0}]"


def test_names_of_models_that_think_are_known() -> None:
    for name in ("o3", "o4-mini", "o1-2024-12-17", "gpt-5", "gpt-5.1-mini", "gpt-6-sol", "openai/gpt-oss-20b"):
        assert thinks(name), name
    for name in ("gpt-4o", "gpt-4.1-nano", "gpt-5-chat-latest", "olmo-2", "o365", "qwen3", "our-gpt-50"):
        assert not thinks(name), name


async def test_what_is_refused_is_left_out_from_then_on_and_paid_for_once(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.refuses = {"temperature": NO_TEMPERATURE, "max_tokens": NO_MAX_TOKENS, "seed": NO_SEED}
        config = config_for(server, top_p=0.5)
        async with client_over(tmp_path, config) as (client, _):
            for number in range(3):
                await client.complete(f"q{number}", "generate", "generate", ask("how much"))
        sent = [set(one.body) & {"temperature", "max_tokens", "max_completion_tokens", "seed", "top_p"}
                for one in server.received]  # fmt: skip
        assert [one.status for one in server.received] == [400, 400, 400, 200, 200, 200]
        assert sent[-3:] == [{"max_completion_tokens", "top_p"}] * 3
        ledger = rows(tmp_path, "ledger")
        assert [row["status"] for row in ledger] == ["failed"] * 3 + ["ok"] * 3
        assert sum(row["cost_usd"] for row in ledger) == pytest.approx(server.bill_usd, abs=1e-12)
        async with client_over(tmp_path, config) as (client, _):
            await client.complete("q0", "generate", "generate", ask("how much"))
        assert len(server.received) == 6, "a reply is known whether or not the fields were sent"


async def test_each_endpoint_is_told_apart(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        first.refuses = {"temperature": NO_TEMPERATURE}
        config = config_for(first, endpoints=[further(second, model="fake-model")], max_in_flight=1)
        async with client_over(tmp_path, config) as (client, _):
            await client.complete("q", "generate", "generate", ask("how much"))
        assert ["temperature" in one.body for one in first.received] == [True, False]
        assert second.received == []


async def test_thought_has_room_and_is_in_the_ledger(tmp_path: Path) -> None:
    with FakeOpenAI(models=["gpt-5"]) as server:
        server.thought = 700
        config = config_for(server, model="gpt-5", reasoning_effort="low", window=32_000)
        async with client_over(tmp_path, config) as (client, ledger):
            reply = await client.complete("q", "generate", "generate", ask("how much"))
            assert (await ledger.totals()).usage.reasoning_tokens == 700
        (one,) = server.received
        assert one.body["reasoning_effort"] == "low"
        assert one.body["max_completion_tokens"] == CompletionLimits().generate + 4096
        assert reply.usage.reasoning_tokens == 700
        assert reply.usage.completion_tokens > 700
        (row,) = rows(tmp_path, "ledger")
        assert (row["reasoning_tokens"], row["completion_tokens"]) == (700, reply.usage.completion_tokens)
        assert row["cost_usd"] == pytest.approx(server.bill_usd, abs=1e-12)
        assert row["reserved_usd"] >= (CompletionLimits().generate + 4096) * 10.0 / 1e6
        async with client_over(tmp_path, config) as (_, ledger):
            assert (await ledger.totals()).usage.reasoning_tokens == 700


async def test_a_cap_that_cannot_hold_the_thought_sends_nothing(tmp_path: Path) -> None:
    with FakeOpenAI(models=["o3"]) as server:
        async with client_over(tmp_path, config_for(server, model="o3"), cap_usd=0.05) as (client, _):
            with pytest.raises(OverBudget):
                await client.complete("q", "generate", "generate", ask("how much"))
        assert server.received == []


async def test_thought_that_takes_all_the_room_says_so(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.thought = 10**6
        async with client_over(tmp_path, config_for(server, reasoning_tokens=100)) as (client, _):
            with pytest.raises(
                ReplyError, match=r"356 completion tokens.*356 of them in thought.*llm\.reasoning_tokens"
            ):
                await client.complete("q", "generate", "generate", ask("how much"))


@pytest.mark.parametrize(
    ("field", "said", "remedy"),
    [
        ("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort", "Set llm.reasoning_effort"),
        (
            "logprobs",
            "You are not allowed to request logprobs: 'logprobs' is not supported.",
            "works with the log-prob",
        ),
    ],
)
async def test_a_field_that_the_run_needs_stops_it_with_its_remedy(
    tmp_path: Path, field: str, said: str, remedy: str
) -> None:
    with FakeOpenAI() as server:
        server.refuses = {field: said}
        async with client_over(tmp_path, config_for(server, reasoning_effort="high")) as (client, _):
            with pytest.raises(EndpointError, match=remedy):
                await client.complete("q", "generate", "generate", ask("how much"), logprobs=True)
        assert len(server.received) == 1
