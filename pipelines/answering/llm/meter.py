"""Counting a prompt before it is sent, on the safe side, because a reserve that is too small would break the cap.

An endpoint may count more than we do: its chat template adds marks and perhaps a system prompt of its own, and its
vocabulary may not be the one that the config names. What it counted more is learnt from its replies.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Message

TOKENS_PER_MESSAGE = 8
"""Room for a chat template's marks around a message; OpenAI's take 4, ChatML 5. Ours, on the safe side."""
SHORT = 500
"""Below so many tokens an excess is taken for the template's, which is the same for every prompt. Ours."""


class PromptMeter:
    """Prompt tokens as the endpoint will count them, or a little more."""

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._extra = 0
        self._ratio = 1.0

    def plain(self, messages: Sequence[Message]) -> int:
        """Our own count, with room for the template."""
        return sum(map(self._one, messages)) + TOKENS_PER_MESSAGE

    def _one(self, message: Message) -> int:
        return self._count(message.content) + message.vector_rows + TOKENS_PER_MESSAGE

    def safe(self, plain: int) -> int:
        """What to reserve for a prompt of ``plain`` tokens."""
        return int(plain * self._ratio) + self._extra + 1

    def learn(self, plain: int, counted: int) -> None:
        """The endpoint counted ``counted`` tokens for a prompt of ``plain``."""
        if counted <= self.safe(plain):
            return
        if plain < SHORT:
            self._extra = max(self._extra, counted - plain)
        else:
            self._ratio = max(self._ratio, counted / plain)
