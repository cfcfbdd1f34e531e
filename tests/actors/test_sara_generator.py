"""SARA's generator on real Serve, asked by the SDK that runs use: batches, refusals, and no port."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from okralong.actors.cluster import remove_apps, run_apps
from okralong.actors.models import HandleTransport, sara_generator_app
from okralong.actors.planner import ADDRESS
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.openai import open_client
from okralong.pipelines.sara.artifact import served_generator
from okralong.pipelines.sara.config import SaraConfig
from tests.fakes.tiny_llama import write_tiny_llama
from tests.sara.compressors import random_compressor

CALLS = 12


def parts(rows: int) -> list[dict[str, Any]]:
    data = np.random.default_rng(rows).normal(size=(rows, 32)).astype("<f4").tobytes()
    vectors = {"type": "vectors", "rows": rows, "data": base64.b64encode(data).decode()}
    return [{"type": "text", "text": "Compressed:"}, vectors, {"type": "text", "text": "\nSay more."}]


def test_calls_that_come_together_are_answered_together(ray_cluster: None, tmp_path: Path) -> None:
    tiny = write_tiny_llama(tmp_path / "tiny", window=512)
    folder = random_compressor(tmp_path / "c", hidden=32, generator=str(tiny))
    config = SaraConfig(compressor=str(folder), max_batch=6, batch_wait_s=0.5, precision="float32")
    (handle,) = run_apps({"generator-under-test": sara_generator_app(config, str(tiny), 400)})
    try:
        asyncio.run(_ask(handle, served_generator(folder, str(tiny)).name))
    finally:
        remove_apps(["generator-under-test"])


async def _ask(handle: Any, name: str) -> None:
    async with open_client(LlmConfig(), Connection(ADDRESS, "none", 120.0, HandleTransport(handle))) as client:
        ask: Any = client.chat.completions.create
        assert [model.id async for model in client.models.list()] == [name]

        async def say(rows: int) -> Any:
            return await ask(model=name, messages=[{"role": "user", "content": parts(rows)}], max_tokens=4)

        alone = await say(3)
        replies = await asyncio.gather(*(say(1 + number % 5) for number in range(CALLS)))
        assert replies[2].choices[0].message.content == alone.choices[0].message.content
        counted = [reply.usage.prompt_tokens for reply in replies[:5]]
        assert counted == list(range(counted[0], counted[0] + 5)), "a vector is a token"
        assert {reply.usage.completion_tokens for reply in replies} <= {1, 2, 3, 4}
        sizes = await handle.stats.remote()
        assert sum(size * count for size, count in sizes.items()) == CALLS + 1
        assert max(sizes) == 6
        broken = [{"type": "vectors", "rows": 2, "data": parts(1)[1]["data"]}]
        with pytest.raises(openai.BadRequestError, match="holds 128 bytes; 2 rows of 32 float32 numbers"):
            await ask(model=name, messages=[{"role": "user", "content": broken}])
        with pytest.raises(openai.NotFoundError, match="no model 'gpt' here"):
            await ask(model="gpt", messages=[{"role": "user", "content": "Hi"}])
        with pytest.raises(openai.BadRequestError, match="window holds 400 in total"):
            await ask(model=name, messages=[{"role": "user", "content": "word " * 600}])
