"""What the tests of the LLM client share: a config for the fake endpoint, and a client over a run folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Message, Usage
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import Call, Outcome
from okralong.pipelines.llm.reply import SharedReplies
from tests.fakes.openai_server import FakeOpenAI

PRICE = Price(input=2.5, cached_input=1.25, output=10.0)


def config_for(server: FakeOpenAI, **changes: Any) -> LlmConfig:
    values = {"base_url": server.base_url, "model": "fake-model", "price": PRICE, "timeout_s": 5.0, "max_attempts": 4}
    return LlmConfig(**{**values, **changes})


def further(server: FakeOpenAI, **changes: Any) -> EndpointConfig:
    return EndpointConfig(**{"base_url": server.base_url, "model": "fake-model", "price": PRICE, **changes})


@asynccontextmanager
async def client_over(
    run: Path,
    config: LlmConfig,
    cap_usd: float | None = None,
    backoff: tuple[float, float] = (0.01, 0.05),
    shared: SharedReplies | None = None,
    **given: Any,
) -> AsyncIterator[tuple[LlmClient, RunLedger]]:
    ledger = RunLedger(Folder.of(run), cap_usd, trust_usage=config.trust_usage)
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in config.all_endpoints])
    client = LlmClient(config, gateway, backoff=backoff, shared=shared, **given)
    try:
        yield client, ledger
    finally:
        await client.aclose()
        await ledger.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another thread or process, or another task of this loop, brings about."""
    async with asyncio.timeout(180):
        while not holds():  # noqa: ASYNC110 - none of them sets an event
            await asyncio.sleep(0.005)


def ask(text: str) -> list[Message]:
    return [Message("system", "Answer in a word."), Message("user", text)]


def rows(run: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_run_table(Folder.of(run), table).to_pylist()
    return found


def all_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def a_call(number: int, query_id: str = "q", usd: float = 0.1, attempt: int = 1) -> Call:
    return Call(
        call_id=f"call-{number}", attempt=attempt, query_id=query_id, path="generate", sample=number, role="generate",
        model="m", request_hash="h", input_usd_per_million=1.0, cached_usd_per_million=1.0, output_usd_per_million=1.0,
        reserved_usd=usd, queue_s=0.0, started_at=datetime(2026, 1, 1, tzinfo=UTC), tags={"team": "night"},
    )  # fmt: skip


def paid(call: Call, usd: float) -> Outcome:
    return Outcome(call, "ok", 200, Usage(10, 2, 3), usd, 0.1, "id", "", '{"reply":{},"refusal":""}')


def statuses(run: Path) -> dict[str, tuple[str, float]]:
    return {row["call_id"]: (row["status"], row["cost_usd"]) for row in rows(run, "ledger")}
