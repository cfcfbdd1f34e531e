"""A run in batch mode in this process: ledger, scheduler and client over the real endpoint process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Reply
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import BatchConfig, LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.tools import ask, rows

HALF = Price(input=2.5, cached_input=1.25, output=10.0, batch_discount=0.5)
BRISK = {"quiet_s": 0.15, "gather_s": 2.0, "poll_s": 0.05, "longest_poll_s": 0.1}


def batch_config(base_url: str, batch: dict[str, Any] | None = None, **changes: Any) -> LlmConfig:
    values = {"base_url": base_url, "model": "fake-model", "price": HALF, "timeout_s": 5.0, "max_attempts": 3}
    return LlmConfig(**{**values, "mode": "batch", "batch": BatchConfig(**{**BRISK, **(batch or {})}), **changes})


@dataclass
class BatchRun:
    ledger: RunLedger
    scheduler: BatchScheduler
    client: LlmClient

    async def ask(self, *texts: str, path: str = "generate", answer_type: str = "") -> list[Reply | BaseException]:
        """What became of these calls, asked beside each other; each is a question's of the same name."""
        calls = (self.client.complete(text, path, "generate", ask(text), answer_type=answer_type) for text in texts)
        return await asyncio.gather(*calls, return_exceptions=True)


@asynccontextmanager
async def batch_run(
    run: Path,
    config: LlmConfig,
    *,
    run_id: str = "run-1",
    cap_usd: float | None = None,
    until: datetime | None = None,
    **given: Any,
) -> AsyncIterator[BatchRun]:
    folder = Folder.of(run)
    ledger = RunLedger(folder, cap_usd)
    scheduler = BatchScheduler(config, ledger, run_id, lambda: ResumeState.load(folder), until, backoff=(0.02, 0.1))
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in config.all_endpoints])
    client = LlmClient(config, gateway, backoff=(0.01, 0.05), scheduler=scheduler, **given)
    try:
        yield BatchRun(ledger, scheduler, client)
    finally:
        await client.aclose()
        await scheduler.aclose()
        await ledger.close()


def texts(replies: list[Reply | BaseException]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else repr(reply) for reply in replies]


def attempts(run: Path) -> list[tuple[str, int, str, str, int]]:
    """Ledger rows as (question, attempt, status, mode, number of the batch), sorted."""
    return sorted(
        (row["query_id"], row["attempt"], row["status"], row["mode"], row["wave"]) for row in rows(run, "ledger")
    )


def agree(run: Path, server: EndpointProcess, unknown: bool = False) -> None:
    """The ledger and the endpoint's bill are the same to the cent (and further), or the bill lies within the doubt."""
    ledger = rows(run, "ledger")
    settled = sum((Decimal(repr(row["cost_usd"])) for row in ledger if row["status"] == "ok"), Decimal(0))
    held = sum((Decimal(repr(row["cost_usd"])) for row in ledger if row["status"] == "unknown"), Decimal(0))
    tiny = Decimal("1e-12")
    assert settled - tiny <= server.bill_usd <= settled + held + tiny
    if not unknown:
        assert held == 0
        assert abs(settled - server.bill_usd) <= tiny
