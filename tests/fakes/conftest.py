"""One endpoint process for all of its tests, each of which resets it: a process takes a second, a reset nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import openai
import pytest

from tests.fakes.endpoint.process import EndpointProcess

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(scope="session")
def endpoint_process() -> Iterator[EndpointProcess]:
    with EndpointProcess() as process:
        yield process


@pytest.fixture
def server(endpoint_process: EndpointProcess) -> EndpointProcess:
    endpoint_process.reset({})
    return endpoint_process


@pytest.fixture
async def client(server: EndpointProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    """The real client, which repeats nothing by itself."""
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=KEY, max_retries=0, timeout=20) as client:
        yield client
