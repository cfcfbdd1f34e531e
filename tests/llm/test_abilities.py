"""What an endpoint has of the protocol, as a few short calls show it."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.types import EndpointError
from okralong.pipelines.llm.abilities import abilities, has_batches
from okralong.pipelines.llm.config import EndpointConfig
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import config_for


async def test_an_endpoint_that_has_nearly_all_of_it() -> None:
    with FakeOpenAI(rules=[(lambda messages: True, '{"city_named": "Paris"}')]) as server:
        found = await abilities(config_for(server), config_for(server))
        assert (found.left_out, found.logprobs, found.json_schema, found.usage_told) == ((), True, "kept", True)
        assert (found.tier, found.batches, found.calls) == ("default", False, 3)
        assert found.usage.prompt_tokens == sum(one.prompt_tokens for one in server.received)
        assert found.said() == "limits replies by max_tokens, answers at the tier default; no batches"


async def test_what_is_refused_ignored_or_not_told_is_named() -> None:
    with FakeOpenAI() as server:
        server.refuses = {
            "seed": "Unknown name 'seed': Cannot find field.",
            "max_tokens": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        }
        server.gives_logprobs, server.thought = False, 20
        found = await abilities(config_for(server, reasoning_tokens=100), config_for(server))
        assert (found.left_out, found.limit_field, found.thought) == (("seed",), "max_completion_tokens", 20)
        assert (found.logprobs, found.json_schema, found.calls) == (False, "ignored", 3)
        assert "thinks (20 tokens" in found.said()
        server.takes_schemas = False
        server.refuses |= {"logprobs": "logprobs is not enabled for this model: 'logprobs'"}
        again = await abilities(config_for(server, reasoning_tokens=100), config_for(server))
        assert (again.json_schema, again.logprobs, again.calls) == ("refused", False, 1)
        assert "no seed, no log-probabilities, JSON schema refused" in again.said()


async def test_an_endpoint_that_answers_nothing_says_why() -> None:
    trouble = Trouble(500, message="down for the night")
    with FakeOpenAI(troubles=[trouble]) as server, pytest.raises(EndpointError, match="down for the night"):
        await abilities(config_for(server), config_for(server))


async def test_batches_are_known_without_a_call(endpoint_process: EndpointProcess) -> None:
    endpoint_process.reset({})
    assert await has_batches(EndpointConfig(base_url=endpoint_process.base_url, model="fake-model")) is True
    assert await has_batches(EndpointConfig(base_url="http://127.0.0.1:9/v1", model="m")) is None
    assert endpoint_process.state()["bill"]["chat"]["calls"] == 0
