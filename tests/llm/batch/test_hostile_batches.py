"""Batch objects of an endpoint that says what no endpoint should: the run ends or goes on, and pays nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import EndpointError, Reply
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree, batch_config, batch_run

HARMLESS: list[dict[str, Any]] = [
    {"created_at": "yesterday"},
    {"created_at": 1e308},
    {"created_at": None},
    {"created_at": [1]},
    {"request_counts": "many"},
    {"request_counts": {"total": "x", "completed": -5, "failed": 10**30}},
    {"request_counts": [1, 2]},
    {"errors": "none"},
    {"errors": {"data": "none"}},
    {"errors": {"data": [1, None, {"code": ["x"], "message": 5, "line": "7"}]}},
    {"usage": {"input_tokens": -1}},
    {"model": "m" * 100_000},
]


@pytest.mark.parametrize("fields", HARMLESS, ids=lambda fields: str(fields)[:40])
async def test_a_field_that_nobody_needs_is_ignored(
    tmp_path: Path, server: EndpointProcess, fields: dict[str, Any]
) -> None:
    server.change({"batches": {"fields": fields}})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        assert all(isinstance(each, Reply) for each in await run.ask("a", "b"))
    assert len(server.state()["batches"]) == 1
    agree(tmp_path, server)


@pytest.mark.parametrize(
    "fields",
    [{"id": "b" * 100_000}, {"id": ""}, {"id": 7}, {"id": "../files"}, {"id": "a\nb"}, {"status": 5}, {"status": None}],
    ids=lambda fields: str(fields)[:20],
)
async def test_a_batch_that_nobody_could_look_at_ends_the_run_and_is_held(
    tmp_path: Path, server: EndpointProcess, fields: dict[str, Any]
) -> None:
    server.change({"batches": {"fields": fields}})
    async with batch_run(tmp_path, batch_config(server.base_url)) as run:
        for error in await run.ask("a", "b"):
            assert isinstance(error, EndpointError), error
            assert len(str(error)) < 1500
        notes = await run.scheduler.notes(0)
    assert all(len(note) < 1000 for note in notes)
    assert len(server.state()["batches"]) == 1, "it is not created again"
    agree(tmp_path, server, unknown=True)
