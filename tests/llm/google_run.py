"""A config for Gemini at the scripted endpoint, and the process that the kill test kills and starts again."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import Price
from tests.llm.tools import ask, client_over

MODEL: Final = "gemini-test"
RATES: Final = {"input": 2.0, "cached_input": 0.2, "output": 12.0}
PRICE: Final = Price(**RATES)


def google_config(base_url: str, **changes: Any) -> LlmConfig:
    values = {"provider": "google", "base_url": base_url, "model": MODEL, "price": PRICE, "timeout_s": 10.0}
    return LlmConfig(**{**values, "max_attempts": 4, **changes})


async def main(folder: Path, base_url: str) -> None:
    async with client_over(folder, google_config(base_url, max_in_flight=4), cap_usd=1.0) as (client, ledger):
        done = await ledger.answered()

        async def one(query_id: str) -> None:
            reply = await client.complete(query_id, "generate", "generate", ask(f"answer to {query_id}"))
            row = {"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text}
            await ledger.finish(row)

        await asyncio.gather(*(one(f"q{n}") for n in range(12) if f"q{n}" not in done))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
