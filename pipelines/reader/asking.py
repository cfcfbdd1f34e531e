"""Asking a served reader the rows of a report, over HTTP, as a run would."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import openai

from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import with_demonstration
from okralong.pipelines.core.types import Message
from okralong.pipelines.evaluation.evidence.model_writer import KeptReplies
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.request import LlmRequest


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with what it took, in seconds from sending to the last byte.

    ``read`` and ``written`` are the tokens that the server really read and wrote with the milliseconds that each took,
    as llama.cpp says; (0, 0.0) from a server that does not. Tokens found in its cache are not read.
    """

    text: str
    seconds: float
    read: tuple[int, float] = (0, 0.0)
    written: tuple[int, float] = (0, 0.0)


@dataclass(frozen=True, slots=True)
class Speed:
    """Over some replies: seconds an answer, and tokens a second while reading and while writing (None: unknown)."""

    seconds: float
    read: float | None
    written: float | None


def speed_of(replies: Sequence[Said]) -> Speed:
    """The speed of at least one reply."""

    def rate(parts: Sequence[tuple[int, float]]) -> float | None:
        spent = sum(milliseconds for _, milliseconds in parts)
        return 1000 * sum(tokens for tokens, _ in parts) / spent if spent else None

    seconds = sum(said.seconds for said in replies) / len(replies)
    return Speed(seconds, rate([said.read for said in replies]), rate([said.written for said in replies]))


@dataclass(frozen=True)
class Asker:
    """A served reader. ``llm`` is settled as for a run, ``identity`` is that of weights and engine; questions are asked
    one after the other.
    """

    llm: LlmConfig
    client: openai.OpenAI
    identity: str

    def remembered(self, kept: KeptReplies, role: str, messages: Sequence[Message]) -> str:
        """The text of ``ask``, or what the same reader replied before: a report that was killed goes on."""
        request = self._request(role, messages)
        key = hashlib.sha256(f"{self.identity}|{request.canonical()}".encode()).hexdigest()
        found = kept.get(key)
        if found is None:
            found = self.ask(role, messages).text
            kept.keep(key, found)
        return found

    def ask(self, role: str, messages: Sequence[Message]) -> Said:
        """The reply to a prompt of ``role``."""
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
    """Tokens read and written with their milliseconds, from what llama.cpp's server adds to the protocol."""
    said = (reply.model_extra or {}).get("timings") or {}
    read = int(said.get("prompt_n", 0)), float(said.get("prompt_ms", 0.0))
    return read, (int(said.get("predicted_n", 0)), float(said.get("predicted_ms", 0.0)))
