"""Send requests in a bare loop over AsyncOpenAI: the least that they can cost.

    python -m benchmarks.nightly.bare REQUESTS URL IN_FLIGHT

REQUESTS contains a request's parameters per line. Prints processor and wall-clock seconds of the loop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import openai


async def _ask(requests: list[dict[str, Any]], url: str, in_flight: int) -> None:
    places = asyncio.Semaphore(in_flight)
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600) as client:

        async def one(request: dict[str, Any]) -> None:
            async with places:
                reply = await client.chat.completions.create(**request)
                if not reply.choices:
                    raise SystemExit("A reply had no choice.")

        await asyncio.gather(*(one(request) for request in requests))


def main() -> None:
    requests = [json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    started, began = time.process_time(), time.monotonic()
    asyncio.run(_ask(requests, sys.argv[2], int(sys.argv[3])))
    print(json.dumps({"processor_s": time.process_time() - started, "clock_s": time.monotonic() - began}))


if __name__ == "__main__":
    main()
