"""The batch scheduler on real Ray: killed while a batch is under way it comes back; stopped, it lets everyone go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from okralong.actors.cluster import NAMESPACE
from okralong.actors.gateway import (
    GatewayClient,
    LimiterPlace,
    SchedulerClient,
    start_batch_scheduler,
    start_gateway,
)
from okralong.pipelines.core.types import EndpointError, Reply
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.rate_limit import Limits
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import agree, batch_config
from tests.llm.tools import ask

QUESTIONS = [f"q{number}" for number in range(10)]


@pytest.fixture(scope="module")
def server() -> Iterator[EndpointProcess]:
    with EndpointProcess() as process:
        yield process


async def until_under_way(server: EndpointProcess) -> None:
    async with asyncio.timeout(180):
        while "in_progress" not in server.state()["batches"].values():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_a_scheduler_on_a_cluster(ray_cluster: None, tmp_path: Path, server: EndpointProcess, end: str) -> None:
    server.reset({"batches": {"requests_per_s": 0.0}})  # nothing is done before it is killed or stopped
    config = batch_config(server.base_url)
    name = f"test-ledger-{end}"
    ledger = start_gateway(str(tmp_path), 1.0, limiters=[LimiterPlace(Limits(), "")], name=name, namespace=NAMESPACE)
    ray.get(ledger.books.remote("totals"))
    actor = start_batch_scheduler(str(tmp_path), "run-1", config, name, None)
    scheduler = SchedulerClient(actor)
    client = LlmClient(config, GatewayClient(ledger), scheduler=scheduler)
    try:
        calls: list[Any] = [client.complete(q, "generate", "generate", ask(q)) for q in QUESTIONS]
        asking = asyncio.gather(*calls, return_exceptions=True)
        await until_under_way(server)
        if end == "killed":
            ray.kill(actor, no_restart=False)
            server.change({"batches": {"requests_per_s": 100.0}})
            assert all(isinstance(one, Reply) for one in await asking)
        else:
            async with asyncio.timeout(180):  # the endpoint knows of the batch a moment before the scheduler notes it
                while not await scheduler.notes(0):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.05)
            await scheduler.stop("Another question has stopped the run.")
            assert {type(one) for one in await asking} == {EndpointError}
            assert (await scheduler.notes(0))[0].startswith("batch 1: 10 requests went out as batch_")
    finally:
        await client.aclose()
        ray.get(ledger.books.remote("close"))
        for started in (actor, ledger):
            ray.kill(started)
    assert len(server.state()["batches"]) == 1
    assert server.state()["bill"]["chat"]["calls"] == 0
    agree(tmp_path, server, unknown=end == "stopped")
