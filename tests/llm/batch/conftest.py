"""The session's endpoint process, reset for each test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from okralong.pipelines.llm import batch
from tests.fakes.endpoint.process import EndpointProcess

UNTIL = datetime.now(UTC) + timedelta(days=1)
"""A deadline that passes when a test says so (``pass_the_deadline``), and not while a machine stalls."""


@pytest.fixture
def server(endpoint_process: EndpointProcess, monkeypatch: pytest.MonkeyPatch) -> EndpointProcess:
    endpoint_process.reset({})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-of-the-batches-0123456789")
    return endpoint_process


@pytest.fixture
def pass_the_deadline(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Sets the clock of this process's schedulers two days ahead, which they then look at ten times a second."""
    now, ahead = batch._now_s, [0.0]
    monkeypatch.setattr(batch, "_now_s", lambda: now() + ahead[0])
    monkeypatch.setattr(batch, "CLOCK_CHECK_S", 0.1)
    return lambda: ahead.__setitem__(0, 2 * 86_400.0)
