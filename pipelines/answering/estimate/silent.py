"""A generator that is never asked: it counts the prompts that a strategy would send, and says as little as it can.

Its replies let a strategy take its shortest way: no sub-questions, no further step, no answer. So the prompts that it
sees are those that come whatever a real generator replies, or the first ones of their kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from okralong.pipelines.answering.estimate.forecast import Prompt
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Message, NobodyAsked, Plan, Reply, Usage
from okralong.pipelines.llm.config import ANALYZE

TOKENS_PER_MESSAGE: Final = 4
TOKENS_PER_PROMPT: Final = 3
"""What OpenAI's chat format adds: 3 tokens and the role around each message, and 3 that open the reply (OpenAI
cookbook, "How to count tokens with tiktoken"). What another endpoint adds is learned from a pilot."""

_STRUCTURED: Final = (ANALYZE, "split", "step")
"""Roles whose replies are read for more than an answer. All others hear that there is no answer."""


def prompt_tokens(messages: Sequence[Message], count: CountTokens) -> int:
    """The tokens that an endpoint will charge for a prompt."""
    each = (count(message.content) + message.vector_rows + TOKENS_PER_MESSAGE for message in messages)
    return sum(each) + TOKENS_PER_PROMPT


@dataclass
class SilentGenerator:
    """Ports of ``QuestionTools`` for one question; ``prompts`` are those that came, in order."""

    count: CountTokens
    prompts: list[Prompt] = field(default_factory=list)

    async def complete(
        self, query_id: str, path: str, role: str, messages: Sequence[Message], *, logprobs: bool = False
    ) -> Reply:
        """Count the prompt, say nothing of use. Raises NobodyAsked where more than an answer is wanted: the keyword
        rules then speak, and nothing further is looked up.
        """
        self.prompts.append(Prompt(role, prompt_tokens(messages, self.count)))
        if role in _STRUCTURED:
            raise NobodyAsked("Nobody was asked: this is an estimate.")
        return Reply(f"Answer: {UNANSWERABLE}", "none", Usage(), "stop", 0.0)

    async def admit(self, query_id: str, plan: Plan) -> None:
        """Every plan may go ahead: nothing is paid."""
