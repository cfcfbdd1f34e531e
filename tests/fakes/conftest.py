"""The session's endpoint process, reset for each test, and the real client to ask it with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import openai
import pytest

from tests.fakes.endpoint.process import EndpointProcess

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def server(endpoint_process: EndpointProcess) -> EndpointProcess:
    endpoint_process.reset({})
    return endpoint_process


@pytest.fixture
async def client(server: EndpointProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    """The real client, which repeats nothing by itself."""
    async with openai.AsyncOpenAI(base_url=server.base_url, api_key=KEY, max_retries=0, timeout=20) as client:
        yield client
