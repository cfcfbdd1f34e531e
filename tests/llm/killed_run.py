"""The process that the kill test kills: twenty questions through the client and the ledger, one command, run again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from okralong.pipelines.llm.config import LlmConfig
from tests.llm.tools import PRICE, ask, client_over

QUESTIONS = 20


async def run(folder: Path, base_url: str) -> None:
    config = LlmConfig(base_url=base_url, model="fake-model", price=PRICE, max_in_flight=4)
    async with client_over(folder, config, cap_usd=1.0) as (client, ledger):
        done = await ledger.answered()

        async def one(query_id: str) -> None:
            await client.complete(query_id, "split", "split", ask(f"parts of {query_id}"))
            reply = await client.complete(query_id, "generate", "generate", ask(f"answer to {query_id}"))
            await ledger.finish(
                {"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text}
            )

        await asyncio.gather(*(one(f"q{n}") for n in range(QUESTIONS) if f"q{n}" not in done))


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))
