"""Call a served model with a reader adapter over HTTP, and measure its speed."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import openai

from okralong.lab.evidence.writers import KeptReplies
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import with_demonstration
from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.request import LlmRequest


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with its duration in seconds, from sending to the last byte.

    ``read`` and ``written`` are (tokens, milliseconds) that the server spent on reading and writing, as llama.cpp
    reports them, or (0, 0.0). Cached tokens do not count as read.
    """

    text: str
    seconds: float
    read: tuple[int, float] = (0, 0.0)
    written: tuple[int, float] = (0, 0.0)


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of some replies: seconds per answer, and tokens read and written per second (None: unknown)."""

    seconds: float
    read: float | None
    written: float | None


def speed_of(replies: Sequence[Said]) -> Speed:
    """Return the speed of at least one reply."""

    def rate(parts: Sequence[tuple[int, float]]) -> float | None:
        spent = sum(milliseconds for _, milliseconds in parts)
        return 1000 * sum(tokens for tokens, _ in parts) / spent if spent else None

    seconds = sum(said.seconds for said in replies) / len(replies)
    return Speed(seconds, rate([said.read for said in replies]), rate([said.written for said in replies]))


@dataclass(frozen=True)
class Asker:
    """A served model with a reader adapter, called with one prompt at a time.

    ``llm`` is its complete config; ``identity`` identifies weights and engine.
    """

    llm: LlmConfig
    client: openai.OpenAI
    identity: str

    def remembered(self, kept: KeptReplies, role: str, messages: Sequence[Message]) -> str:
        """Return the text of ``ask``, or a stored reply of the same model, so that interrupted reports resume."""
        request = self._request(role, messages)
        key = hashlib.sha256(f"{self.identity}|{request.canonical()}".encode()).hexdigest()
        found = kept.get(key)
        if found is None:
            found = self.ask(role, messages).text
            kept.keep(key, found)
        return found

    def ask(self, role: str, messages: Sequence[Message]) -> Said:
        """Return the reply to a prompt of ``role``."""
        request = self._request(role, messages)
        started = time.perf_counter()
        reply = self.client.chat.completions.create(**request.parameters())
        seconds = time.perf_counter() - started
        read, written = _timings(reply)
        text = reply.choices[0].message.content or ""
        return Said(text, seconds, read, written)

    def _request(self, role: str, messages: Sequence[Message]) -> LlmRequest:
        return LlmRequest(
            model=self.llm.model,
            base_url=self.llm.base_url,
            messages=tuple(with_demonstration(messages, role) if self.llm.demonstrations else messages),
            max_tokens=self.llm.completion_limit(role),
            temperature=0.0,
            seed=self.llm.seed,
            grammar=grammar(role, messages) if self.llm.constrained else None,
        )


def _timings(reply: Any) -> tuple[tuple[int, float], tuple[int, float]]:
    """Return (tokens, milliseconds) of reading and of writing, from llama.cpp's extension of the protocol."""
    said = (reply.model_extra or {}).get("timings") or {}
    read = int(said.get("prompt_n", 0)), float(said.get("prompt_ms", 0.0))
    return read, (int(said.get("predicted_n", 0)), float(said.get("predicted_ms", 0.0)))


Serve = Callable[[LlmConfig], AbstractContextManager[Asker]]
"""A function that serves the model of an ``llm`` section for the duration of a context."""
