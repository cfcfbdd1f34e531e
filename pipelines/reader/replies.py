"""Replies as a perfect reader would write them, each the other side of the parser that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.reader.quotes import Quote

NONE: Final = "none"


def answer_reply(answer: str, evidence: Sequence[Quote]) -> str:
    """See ``prompts/answer.py``."""
    return "\n".join([*map(_line, evidence), f"Answer: {answer}"])


def held_back_reply() -> str:
    """The reply where the passages do not hold the answer."""
    return f"Answer: {UNANSWERABLE}"


def step_reply(evidence: Sequence[Quote], query: str, answer: str) -> str:
    """See ``prompts/step.py``; an empty query or answer is said to be none."""
    found = [*map(_line, evidence)] or [f"Evidence: {NONE}"]
    return "\n".join([*found, f"Query: {query or NONE}", f"Answer: {answer or NONE}"])


def split_reply(queries: Sequence[str]) -> str:
    """See ``prompts/split.py``."""
    return "\n".join(queries)


def _line(quote: Quote) -> str:
    number, words = quote
    return f'Evidence: [{number}] "{words}"'
