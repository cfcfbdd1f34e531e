"""Asking a served reader the rows of a report, over HTTP, as a run would."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import openai

from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.request import LlmRequest
from okralong.pipelines.answering.prompts.demonstrations import with_demonstration
from okralong.pipelines.answering.prompts.grammars import GRAMMARS
from okralong.pipelines.evaluation.evidence.model_writer import KeptReplies
from okralong.pipelines.values import Message


@dataclass(frozen=True, slots=True)
class Said:
    """A reply with what it took: tokens as the server counts them, seconds from sending to the last byte."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float


@dataclass(frozen=True)
class Asker:
    """A served reader. ``llm`` is settled as for a run, ``identity`` is that of weights and engine; questions are asked
    one after the other.
    """

    llm: LlmConfig
    client: openai.OpenAI
    identity: str

    def remembered(self, kept: KeptReplies, role: str, messages: Sequence[Message]) -> Said:
        """``ask``, or what the same reader replied before: a report that was killed goes on."""
        request = self._request(role, messages)
        key = hashlib.sha256(f"{self.identity}|{request.canonical()}".encode()).hexdigest()
        found = kept.get(key)
        if found is None:
            found = json.dumps(asdict(self.ask(role, messages)))
            kept.keep(key, found)
        return Said(**json.loads(found))

    def ask(self, role: str, messages: Sequence[Message]) -> Said:
        """The reply to a prompt of ``role``."""
        request = self._request(role, messages)
        started = time.perf_counter()
        reply = self.client.chat.completions.create(**request.parameters())
        seconds = time.perf_counter() - started
        usage = reply.usage
        return Said(reply.choices[0].message.content or "", usage.prompt_tokens, usage.completion_tokens, seconds)

    def _request(self, role: str, messages: Sequence[Message]) -> LlmRequest:
        return LlmRequest(
            model=self.llm.model,
            base_url=self.llm.base_url,
            messages=tuple(with_demonstration(messages, role) if self.llm.demonstrations else messages),
            max_tokens=self.llm.completion_limit(role),
            temperature=0.0,
            seed=self.llm.seed,
            grammar=GRAMMARS.get(role) if self.llm.constrained else None,
        )
