"""What the tests of the endpoint ask it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
from openai.types import Batch
from openai.types.chat import ChatCompletion

MODEL = "fake-model"
CHAT = "/v1/chat/completions"


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


async def chat(client: openai.AsyncOpenAI, text: str, **parameters: Any) -> ChatCompletion:
    arguments: dict[str, Any] = {"model": MODEL, "messages": user(text), **parameters}
    reply: ChatCompletion = await client.chat.completions.create(**arguments)
    return reply


async def headers_of(client: openai.AsyncOpenAI, text: str, **parameters: Any) -> dict[str, str]:
    raw = await client.chat.completions.with_raw_response.create(model=MODEL, messages=user(text), **parameters)
    return dict(raw.headers)


async def tried(client: openai.AsyncOpenAI, text: str, **parameters: Any) -> ChatCompletion | openai.APIError:
    """The reply, or the error instead of it."""
    try:
        return await chat(client, text, **parameters)
    except openai.APIError as error:
        return error


def line(custom_id: str, text: str = "hello", **changes: Any) -> dict[str, Any]:
    """A line of a batch's input."""
    body = {"model": MODEL, "messages": user(text), "max_tokens": 100}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **changes}


async def submit(client: openai.AsyncOpenAI, lines: list[Any], **parameters: Any) -> Batch:
    """A batch of ``lines``, of which strings stand in the file as they are."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    file = await client.files.create(file=("input.jsonl", "\n".join(texts).encode()), purpose="batch")
    arguments: Any = {"endpoint": CHAT, "completion_window": "24h", "input_file_id": file.id, **parameters}
    return await client.batches.create(**arguments)


async def until(client: openai.AsyncOpenAI, batch_id: str, *statuses: str) -> Batch:
    """The batch once it has one of ``statuses``."""
    async with asyncio.timeout(120):
        while True:
            batch = await client.batches.retrieve(batch_id)
            if batch.status in statuses:
                return batch
            await asyncio.sleep(0.02)


async def lines_of(client: openai.AsyncOpenAI, file_id: str | None) -> dict[str, dict[str, Any]]:
    """The lines of an output or error file by custom_id; none when there is no such file."""
    if file_id is None:
        return {}
    text = (await client.files.content(file_id)).text
    found = [json.loads(one) for one in text.splitlines()]
    assert len({one["custom_id"] for one in found}) == len(found)
    return {one["custom_id"]: one for one in found}
