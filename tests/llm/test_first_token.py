"""The ledger has the time to the first token: of a stream as measured here, of a whole reply as its server tells it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.llm.completion import Received
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import ask, client_over, config_for, rows


async def called(run: Path, server: FakeOpenAI) -> dict[str, Any]:
    async with client_over(run, config_for(server)) as (client, _):
        await client.complete("q", "generate", "generate", ask("What?"))
    (row,) = rows(run, "ledger")
    return row


async def test_a_stream_is_timed_at_its_first_text(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.word_s = 0.1
        row = await called(tmp_path, server)
    assert 0 < row["first_token_s"] < row["latency_s"] - 0.1


@pytest.mark.parametrize(("told", "seconds"), [({"timings": {"prompt_ms": 0.5}}, 0.0005), ({}, None)])
async def test_a_whole_reply_may_tell(tmp_path: Path, told: dict[str, Any], seconds: float | None) -> None:
    with FakeOpenAI(troubles=[Trouble(names=told)]) as server:
        server.streams = False
        row = await called(tmp_path, server)
    assert row["first_token_s"] == seconds


@pytest.mark.parametrize(
    "told", [{"prompt_ms": 9_999}, {"prompt_ms": -1}, {"prompt_ms": math.nan}, {"prompt_ms": True}, 7]
)
def test_a_time_that_cannot_be_true_is_none(told: object) -> None:
    assert Received({"timings": told}).first_token_s(0.0, latency_s=1.0) is None
