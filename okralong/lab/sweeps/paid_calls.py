"""Make paid calls outside a run, by a client whose journal and ledger are in a folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from okralong.actors.generator import StartedGenerator
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.run.config import RunConfig


@asynccontextmanager
async def paid_client(
    config: RunConfig, served: StartedGenerator, folder: Folder, cap_usd: float | None
) -> AsyncIterator[tuple[LlmClient, RunLedger]]:
    """Open a client for the served generator, and its ledger. Calls that the folder has recorded are not paid again."""
    ledger = RunLedger(folder, cap_usd, trust_usage=served.llm.trust_usage)
    llm = served.llm
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in llm.all_endpoints])
    client = LlmClient(llm, gateway, PriceTable.load(config.prices), address=served.address, tags=config.tags)
    try:
        yield client, ledger
    finally:
        await client.aclose()
        await ledger.close()
