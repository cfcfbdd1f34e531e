"""Who writes sub-questions and next queries in the bench: the set itself, or a model.

The bench runs the real strategies, so a writer speaks through the generator's own roles and in the prompts' own
contracts. It is never asked for an answer: whoever asks for one hears "unanswerable".
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from okralong.pipelines.answering.prompts import parse_split, parse_step
from okralong.pipelines.core.tokens import CountTokens, count_tokens
from okralong.pipelines.core.types import Message

NO_ANSWER: Final = "Answer: unanswerable"

WRITTEN: Final = ("split", "step")
"""The roles in which queries are written."""

WINDOW: Final = 128_000
"""GPT-4o's window (paper section 4.2): wide enough that it cuts nothing, so the policy alone decides."""

LONGEST: Final = 380
"""Characters of a query that are asked; the parsers drop or cut what is longer than 400."""

_STEP: Final = re.compile(r"(?:^|/)step/(\d+)/")

Ask = Callable[[Sequence[Message], str], Awaitable[str]]
"""Sends messages for a role to a model; returns the reply's text."""


class Writer(Protocol):
    """What stands in for the generator."""

    @property
    def name(self) -> str:
        """What a reply says that it is from."""
        ...

    @property
    def window(self) -> int:
        """Tokens that a prompt and its reply may have together, a worked example taken off."""
        ...

    @property
    def demonstrate(self) -> bool:
        """Whether a worked example stands before each prompt."""
        ...

    def count(self, text: str) -> int:
        """The writer's own tokens of a text."""
        ...

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """The reply at a step of a question whose set knows these queries."""
        ...


class GoldWriter:
    """Asks what the set says should be asked, one query a step. It never ends the steps before they are through; the
    method itself does when a look-up brings nothing new, and at the policy's bound.
    """

    name = "gold"
    window = WINDOW
    demonstrate = False

    def count(self, text: str) -> int:
        """See ``Writer``: o200k tokens."""
        return count_tokens(text)

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """See ``Writer``. A split reply holds all queries, a step's reply the one of its number."""
        if role == "split":
            return "\n".join(map(as_question, gold_queries))
        step = _STEP.search(path)
        if role == "step" and step is not None:
            number = int(step[1])
            query = as_question(gold_queries[number - 1]) if number <= len(gold_queries) else "none"
            return f"Evidence: none\nQuery: {query}\nAnswer: none"
        return NO_ANSWER


@dataclass
class ModelWriter:
    """A small model writes; ``ask`` sends it the prompts that an answer run would send, worked example included."""

    name: str
    ask: Ask
    window: int
    count: CountTokens
    demonstrate: bool = True

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """See ``Writer``."""
        return await self.ask(messages, role) if role in WRITTEN else NO_ANSWER


def as_question(query: str) -> str:
    """A query as both parsers give it back: one line of more than one word that ends in its only question mark.

    A title that they would take for a bullet ("B. Traven"), for nothing ("No More") or for a remark (one word) is asked
    for in words.
    """
    line = " ".join(query.replace("?", " ").split())[:LONGEST].rstrip(".!: ") or " ".join(query.split())
    plain = f"{line}?"
    survives = parse_split(plain, "", 1) == [plain] and parse_step(f"Query: {plain}\nAnswer: none").query == plain
    return plain if survives else f"What is {line}?"
