"""The session's endpoint process, reset for each test."""

from __future__ import annotations

import pytest

from tests.fakes.endpoint.process import EndpointProcess


@pytest.fixture
def server(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-batches-0123456789")
    return endpoint_process
