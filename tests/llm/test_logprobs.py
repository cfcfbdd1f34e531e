"""Log-probabilities: with their tokens where an endpoint gives them, and one clear word where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import EndpointError, Message
from okralong.pipelines.llm.completion import Received, read_completion
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds, Trust
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import PRICE, ask, client_over, config_for, rows


async def test_tokens_come_with_their_texts_and_are_replayed(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "Paris it is")]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            reply = await client.complete("q1", "generate", "generate", ask("Capital?"), logprobs=True)
            plain = await client.complete("q2", "generate", "generate", ask("Capital?"))
        assert reply.tokens == ("Paris", " it", " is")
        assert reply.token_logprobs == (-0.25, -0.25, -0.25)
        assert (plain.tokens, plain.token_logprobs) == ((), ())
        async with client_over(tmp_path, config_for(server)) as (client, _):
            assert await client.complete("q1", "generate", "generate", ask("Capital?"), logprobs=True) == reply
    assert len(server.received) == 2, "the third was replayed"


async def test_an_endpoint_without_them_stops_the_run_and_is_not_asked_again(tmp_path: Path) -> None:
    with FakeOpenAI(rules=[(lambda _: True, "Paris")]) as server:
        server.gives_logprobs = False
        for _ in range(2):
            async with client_over(tmp_path, config_for(server)) as (client, _):
                with pytest.raises(EndpointError, match=r"log-probabilities.*Set llm\.base_url"):
                    await client.complete("q1", "generate", "generate", ask("Capital?"), logprobs=True)
                await client.complete("q2", "generate", "generate", ask("Capital?"))
    assert len(server.received) == 2
    assert [row["status"] for row in rows(tmp_path, "ledger")] == ["ok", "ok"], "what was paid for is in the ledger"


@pytest.mark.slow  # starts a process
async def test_the_scripted_endpoint_gives_the_bytes_of_each_token(tmp_path: Path) -> None:
    said = "Zürich 🏔 it is"
    scenario = {"replies": {"rules": [{"text": said}]}, "models": {"fake-model": {}, "mute": {"logprobs": False}}}
    with EndpointProcess(scenario) as server:
        config = LlmConfig(base_url=server.base_url, model="fake-model", price=PRICE)
        async with client_over(tmp_path, config) as (client, _):
            reply = await client.complete("q1", "generate", "generate", ask("Where?"), logprobs=True)
        assert "".join(reply.tokens) == reply.text == said
        assert len(reply.tokens) == len(reply.token_logprobs) == reply.usage.completion_tokens
        async with client_over(tmp_path / "mute", config.model_copy(update={"model": "mute"})) as (client, _):
            with pytest.raises(EndpointError, match="mute sent none"):
                await client.complete("q1", "generate", "generate", ask("Where?"), logprobs=True)


def test_a_character_of_several_tokens_is_part_of_the_last() -> None:
    snow = "☃".encode()
    tokens = [
        {"token": "a ", "logprob": -0.1, "bytes": list(b"a "), "top_logprobs": []},
        {"token": "\\xe2", "logprob": -0.2, "bytes": list(snow[:1]), "top_logprobs": []},
        {"token": "\\x98\\x83", "logprob": -0.3, "bytes": list(snow[1:]), "top_logprobs": []},
    ]
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "a ☃"},
        "logprobs": {"content": tokens},
    }
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    raw = read_completion(Received(body), Bounds(10, 16), "m", count_tokens, Trust(8192))
    assert raw.reply.tokens == ("a ", "", "☃")


def test_requests_from_before_are_known_again() -> None:
    request = LlmRequest("m", "http://a/v1", (Message("user", "Hi"),), 16)
    assert request.canonical() == (
        '{"api_version":null,"base_url":"http://a/v1","logprobs":false,"max_tokens":16,"messages":[{"content":"Hi",'
        '"role":"user"}],"model":"m","response_format":null,"sample":0,"seed":null,"stop":[],"temperature":0.0,'
        '"top_p":null}'
    )
