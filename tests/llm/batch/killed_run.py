"""The process that the kill test kills: questions of two steps through scheduler, client and ledger; run again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.llm.batch.tools import BatchRun, batch_config, batch_run
from tests.llm.provider_run import GEMINI
from tests.llm.tools import ask

QUESTIONS = 12


async def one(run: BatchRun, query_id: str) -> None:
    await run.ledger.release(query_id)
    await run.client.complete(query_id, "split", "split", ask(f"parts of {query_id}"))
    reply = await run.client.complete(query_id, "generate", "generate", ask(f"answer to {query_id}"))
    await run.ledger.finish({"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text})


async def main(folder: Path, base_url: str, *google: str) -> None:
    """Run at an endpoint of OpenAI's, or at Google's with the model ``google``."""
    changes: dict[str, Any] = {"provider": "google", "model": google[0]} if google else {}
    if google:
        changes["price"] = GEMINI.price.model_copy(update={"batch_discount": 0.5, "batch_cached_full": True})
    config = batch_config(base_url, timeout_s=600.0, **changes)
    async with batch_run(folder, config, cap_usd=1.0) as run:
        done = await run.ledger.answered()
        await asyncio.gather(*(one(run, f"q{n}") for n in range(QUESTIONS) if f"q{n}" not in done))
        await run.scheduler.drain()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
