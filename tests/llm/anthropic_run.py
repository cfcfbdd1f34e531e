"""A config for Claude at the scripted endpoint, and the process that the kill tests kill and start again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import Price
from tests.llm.batch.tools import BRISK, batch_run
from tests.llm.tools import ask, client_over

MODEL: Final = "claude-haiku-4-5"
RATES: Final = {"input": 1.0, "cached_input": 0.1, "output": 5.0, "cache_write": 1.25}
PRICE: Final = Price(**RATES, batch_discount=0.5, batch_caches=True)
CALLS: Final = 12


def claude_config(base_url: str, **changes: Any) -> LlmConfig:
    values = {"provider": "anthropic", "base_url": base_url, "model": MODEL, "price": PRICE, "timeout_s": 10.0}
    return LlmConfig(**{**values, "max_attempts": 4, **changes})


def batch_config(base_url: str, **changes: Any) -> LlmConfig:
    return claude_config(base_url, **{"mode": "batch", "batch": BRISK, **changes})


async def realtime(folder: Path, base_url: str) -> None:
    async with client_over(folder, claude_config(base_url, max_in_flight=4), cap_usd=1.0) as (client, ledger):
        done = await ledger.answered()

        async def one(query_id: str) -> None:
            reply = await client.complete(query_id, "generate", "generate", ask(f"answer to {query_id}"))
            row = {"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text}
            await ledger.finish(row)

        await asyncio.gather(*(one(f"q{n}") for n in range(CALLS) if f"q{n}" not in done))


async def in_batches(folder: Path, base_url: str) -> None:
    async with batch_run(folder, batch_config(base_url), cap_usd=1.0) as run:
        got = await run.ask(*(f"q{n}" for n in range(CALLS)))
        assert not [reply for reply in got if isinstance(reply, BaseException)], got


if __name__ == "__main__":
    asyncio.run((in_batches if sys.argv[3:] == ["batch"] else realtime)(Path(sys.argv[1]), sys.argv[2]))
