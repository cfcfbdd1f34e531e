"""One endpoint process for all tests of the batch room, each of which resets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.endpoint.process import EndpointProcess


@pytest.fixture(scope="session")
def batch_endpoint() -> Iterator[EndpointProcess]:
    with EndpointProcess() as process:
        yield process


@pytest.fixture
def server(batch_endpoint: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    batch_endpoint.reset({})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-batches-0123456789")
    return batch_endpoint
