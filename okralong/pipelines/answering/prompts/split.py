"""The split prompt: divide a question about several things into a question about each (paper section 3.3)."""

from __future__ import annotations

import re

from okralong.pipelines.answering.languages import language_name
from okralong.pipelines.answering.prompt_text import neutralise, same_words, strip_thought
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.types import Message, ReplyError

SPLIT_INSTRUCTIONS = """\
Break the question into at most {limit} simpler ones, each answered by a single fact from a single \
source. Repeat names, years and measures in full in each. Write one question a line and nothing else.
Example: Who spent more on research in 2021, Alder or Birch?
How much did Alder spend on research in 2021?
How much did Birch spend on research in 2021?"""

_LIST_MARKS = r"[\s>#*_\-\u2013\u2022\u00b7\[\"'\u201c`]*"
_BULLET = re.compile(
    rf"^{_LIST_MARKS}(?:\(?\d{{1,2}}[.):]\s+|\(?[a-z][.)]\s+|(?:sub-?)?(?:question|query|q)\s*#?\d*\s*[:.)]\s*)?{_LIST_MARKS}",
    re.IGNORECASE,
)
_TRAIL = " \t*_\"'”`,;]"
_QUESTION_END = re.compile(r"(?<=\?)[\"'”]?[,;]?\s+(?=\S)|(?<=\uff1f)(?=\S)")
_LONGEST_LINE = 400  # project default
"""Most characters of a query; a longer line is prose."""


def split_prompt(question: str, limit: int, language: str = ENGLISH) -> list[Message]:
    """Return the messages that ask for at most ``limit`` sub-questions; ``language`` is that of the question."""
    instructions = SPLIT_INSTRUCTIONS.format(limit=limit)
    if language != ENGLISH:
        instructions += f"\nWrite the questions in {language_name(language)}."
    return [Message("system", instructions), Message("user", neutralise(question).strip())]


def parse_split(reply: str, question: str, limit: int) -> list[str]:
    """Return the sub-questions that ``read_split`` returns, or only ``question`` if the reply is unusable."""
    try:
        return read_split(reply, limit)
    except ReplyError:
        return [question]


def read_split(reply: str, limit: int) -> list[str]:
    """Return at most ``limit`` different sub-questions.

    If any line is a question, other lines (headings, remarks) are ignored.

    Raises:
        ReplyError: The reply has no line that can be a query.
    """
    pieces = [piece for line in strip_thought(reply).splitlines() for piece in _QUESTION_END.split(line)]
    usable = [line for line in map(_bare, pieces) if _usable(line)]
    asked = [line for line in usable if line.endswith(("?", "\uff1f"))]
    different: dict[str, str] = {}
    for line in asked or usable:
        different.setdefault(same_words(line), line)
    if not different:
        raise ReplyError("The reply holds no sub-question. One question a line was asked for, and nothing else.")
    return list(different.values())[:limit]


def _bare(line: str) -> str:
    return _BULLET.sub("", line.strip(), count=1).rstrip(_TRAIL).strip()


def _usable(line: str) -> bool:
    words = len(line.split()) > 1 or line.endswith("\uff1f") or (len(line) > 1 and not line.isascii())
    return words and not line.endswith((":", "\uff1a")) and len(line) <= _LONGEST_LINE
