"""The evidence lines of a reply as GBNF rules under which a quotation is a copy.

A small model that copies from a long prompt drops digits and runs words together. Under these rules it chooses where a
quotation begins and ends; each word in between is the next one of that passage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from okralong.pipelines.core.types import QUESTION_MARK, Message

STRIDE: Final = 20
"""A quotation may have this many words from wherever it begins, and at most twice as many; ours, as the quotations that
a reader learns from. A rule that counted for each place would make the grammar twenty times as large."""

_FRAME: Final = re.compile(r'<passage id="(\d+)" doc="[^"]*">\n(.*?)\n</passage>', re.DOTALL)


def evidence_rules(messages: Sequence[Message]) -> str | None:
    """The rule ``evidence`` and what it rests on, for a prompt as ``frame.framed_prompt`` makes it.

    None where the prompt shows no passage of which a word can be quoted.
    """
    shown = messages[-1].content.rpartition(QUESTION_MARK)[0]
    passages = {number: _stretches(text) for number, text in _FRAME.findall(shown)}
    rules = [rule for number, stretches in passages.items() for rule in _passage_rules(number, stretches)]
    choice = " | ".join(f'"{number}] \\"" q{number}' for number, stretches in passages.items() if stretches)
    return "\n".join([f'evidence ::= "Evidence: [" ({choice}) "\\""', *rules, ""]) if choice else None


def _stretches(text: str) -> list[list[str]]:
    """The words between the quote marks of a text, a list for each stretch that has any."""
    return [words for part in text.split('"') if (words := part.split())]


def _passage_rules(number: str, stretches: Sequence[Sequence[str]]) -> Iterator[str]:
    """``q`` is a quotation of the passage. Of each word there are two rules, in chains that end at other places."""
    starts = []
    for part, words in enumerate(stretches):
        for at, word in enumerate(words):
            early, late = (f"{chain}{number}-{part}-{at}" for chain in "ab")
            starts.append(early if at // STRIDE % 2 == 0 else late)
            for name, rest in ((early, at + 1), (late, at + 1 + STRIDE)):
                ends = at + 1 == len(words) or rest % (2 * STRIDE) == 0
                onwards = "" if ends else f' (" " {name.rpartition("-")[0]}-{at + 1})?'
                yield f"{name} ::= {json.dumps(word, ensure_ascii=False)}{onwards}"
    if starts:
        yield f"q{number} ::= {' | '.join(starts)}"
