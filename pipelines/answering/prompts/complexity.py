"""Adaptive-RAG's question to its classifier: how much retrieval does this question need? (Jeong et al. 2024, 3.2)

Contract of a reply: one of the letters A, B and C. The letters and what they stand for are the paper's; the words are
ours, since its classifier is a trained T5 that is never told.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from okralong.pipelines.answering.prompts import neutralise, strip_thought
from okralong.pipelines.core.types import Message, ReplyError

Complexity = Literal["A", "B", "C"]

INSTRUCTIONS: Final = """How much must be looked up to answer the question? Reply with one letter and nothing else:
A: nothing; it is answered from general knowledge
B: one thing; a single place holds the answer
C: several things, one after the other or side by side"""

_LETTER: Final = re.compile(
    r"\W*(?:(?:the[ ]+)?(?:answer|letter|label|class|category|option|complexity)\b(?:[ ]+is\b)?\W*)?"
    r"([ABC])(?:\W*\Z|\W*\n|[ ]*[:.)\]\-*])",
    re.IGNORECASE,
)


def complexity_prompt(question: str) -> list[Message]:
    """The messages that ask for the letter."""
    return [Message("system", INSTRUCTIONS), Message("user", f"Question: {neutralise(question).strip()}")]


def read_complexity(reply: str) -> Complexity:
    """Read a reply. Raises ReplyError when it does not begin with one of the letters, standing alone."""
    found = _LETTER.match(strip_thought(reply))
    if found is None:
        raise ReplyError(f"The reply is none of the letters A, B and C: {reply[:80]!r}. One of them was asked for.")
    letters: dict[str, Complexity] = {"A": "A", "B": "B", "C": "C"}
    return letters[found[1].upper()]
