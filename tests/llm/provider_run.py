"""Claude and Gemini at the scripted endpoint, and the process that the kill tests kill and start again."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import Price
from tests.fakes.endpoint.process import EndpointProcess
from tests.llm.batch.tools import BRISK, batch_run
from tests.llm.tools import ask, client_over

SCHEMA: Final = {
    "name": "answer",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
DOCUMENT: Final = "The company sold 1,204 boats in the year. " * 420
"""About 5,000 tokens, more than the shortest prefix that Claude caches."""
CALLS: Final = 12
IN_FLIGHT: Final = 4


@dataclass(frozen=True, eq=False)
class Maker:
    """A provider with a protocol of its own, one model of it, and the key for it."""

    provider: str
    model: str
    price: Price
    rates: dict[str, float]
    key_env: str
    key: str
    official: str

    def config(self, base_url: str, **changes: Any) -> LlmConfig:
        values = {"provider": self.provider, "base_url": base_url, "model": self.model, "price": self.price}
        return LlmConfig(**{**values, "timeout_s": 10.0, "max_attempts": 4, **changes})

    def at(self, server: EndpointProcess) -> str:
        return server.anthropic_url if self is CLAUDE else server.google_url


_CLAUDE: Final = {"input": 1.0, "cached_input": 0.1, "output": 5.0, "cache_write": 1.25}
CLAUDE: Final = Maker(
    "anthropic",
    "claude-haiku-4-5",
    Price(**_CLAUDE, batch_discount=0.5, batch_caches=True),
    _CLAUDE,
    "ANTHROPIC_API_KEY",
    "sk-ant-secret-of-the-tests-0123456789",
    "https://api.anthropic.com",
)
_GEMINI: Final = {"input": 2.0, "cached_input": 0.2, "output": 12.0}
GEMINI: Final = Maker(
    "google",
    "gemini-test",
    Price(**_GEMINI),
    _GEMINI,
    "GEMINI_API_KEY",
    "AIza-secret-of-the-tests-0123456789",
    "https://generativelanguage.googleapis.com",
)
MAKERS: Final = {maker.provider: maker for maker in (CLAUDE, GEMINI)}


def claude_batches(base_url: str, **changes: Any) -> LlmConfig:
    return CLAUDE.config(base_url, **{"mode": "batch", "batch": BRISK, **changes})


async def realtime(folder: Path, config: LlmConfig) -> None:
    async with client_over(folder, config, cap_usd=1.0) as (client, ledger):
        done = await ledger.answered()

        async def one(query_id: str) -> None:
            reply = await client.complete(query_id, "generate", "generate", ask(f"answer to {query_id}"))
            row = {"query_id": query_id, "question": query_id, "status": "answered", "answer": reply.text}
            await ledger.finish(row)

        await asyncio.gather(*(one(f"q{n}") for n in range(CALLS) if f"q{n}" not in done))


async def in_batches(folder: Path, config: LlmConfig) -> None:
    async with batch_run(folder, config, cap_usd=1.0) as run:
        got = await run.ask(*(f"q{n}" for n in range(CALLS)))
        assert not [reply for reply in got if isinstance(reply, BaseException)], got


if __name__ == "__main__":
    provider, place, url, *batch = sys.argv[1:]
    if batch:
        asyncio.run(in_batches(Path(place), claude_batches(url)))
    else:
        asyncio.run(realtime(Path(place), MAKERS[provider].config(url, max_in_flight=IN_FLIGHT)))
