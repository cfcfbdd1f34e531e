"""The contracts of the replies as GBNF grammars, which llama.cpp's server keeps a reply to while it is written.

A grammar allows what the contract of the role's prompt describes and nothing else, so the labels, the brackets and the
quote marks are there whatever the model would have written. Quotations are copies of the passages in the prompt: a
small model that copies from a long prompt drops digits and runs words together, and under these rules it chooses only
where a quotation begins and ends. Other words stay the model's own, within bounds, since a line may else grow for ever.
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
    """The rule ``evidence`` and what it rests on, for a prompt as ``framed_prompt`` makes it.

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


EVIDENCE_LINES: Final = 3
"""Most evidence lines of a reply; ours."""

SUB_QUESTIONS: Final = 4
"""Most lines of a split; the default policy's limit."""

ANSWER_LENGTH: Final = 400
QUERY_LENGTH: Final = 200
DIGEST_LENGTH: Final = 1200
REASON_LENGTH: Final = 240
"""Characters; ours: an answer, a question, CompAct's summary of 200 words and its reason, of a length that a default
limit has room for."""

_ANSWER = rf"""
answer ::= "Answer: " [^ \n] [^\n]{{0,{ANSWER_LENGTH - 1}}}
"""

_READ = rf"""
root ::= (evidence "\n"){{0,{EVIDENCE_LINES}}} answer
{_ANSWER}"""

_GRAMMARS: Final[dict[str, str]] = {
    "generate": _READ,
    "full_text": _READ,
    "split": rf"""
root ::= question ("\n" question){{0,{SUB_QUESTIONS - 1}}}
question ::= [^ ?\n] [^?\n]{{0,{QUERY_LENGTH - 2}}} "?"
""",
    "step": rf"""
root ::= ("Evidence: none" | evidence ("\n" evidence){{0,{EVIDENCE_LINES - 1}}}) "\n" query "\n" answer
query ::= "Query: " [^ \n] [^\n]{{0,{QUERY_LENGTH - 1}}}
{_ANSWER}""",
    "classify": "root ::= [ABC]\n",
    "compress": rf"""
root ::= "Summary: " [^ \n] [^\n]{{0,{DIGEST_LENGTH - 1}}} "\nEvaluation: " ("[COMPLETE]" | "[INCOMPLETE]") reason?
reason ::= " " [^ \n] [^\n]{{0,{REASON_LENGTH - 1}}}
""",
}
"""By role, but for the rule ``evidence``. ``Answer: unanswerable`` and ``none`` are lines like any other."""

_READ_SHORT: Final = rf"""
root ::= "unanswerable" | [^ \n\[] [^\n\[]{{0,{ANSWER_LENGTH - 1}}} "[" [1-9] [0-9]? "]"
"""
_SHORT: Final = {**_GRAMMARS, "generate": _READ_SHORT, "full_text": _READ_SHORT}
"""The same under the short contract."""

ROLES: Final = frozenset(_GRAMMARS)
"""The roles whose replies have a grammar."""

_NOTHING_TO_QUOTE: Final = 'evidence ::= "Evidence: none"\n'


def grammar(role: str, messages: Sequence[Message], short: bool = False) -> str | None:
    """The grammar of the reply to a prompt of ``role``, under the ``short`` contract or the full one; None for a role
    that has none, such as the analyzer's.
    """
    found = (_SHORT if short else _GRAMMARS).get(role)
    if found is None or "evidence" not in found:
        return found
    return found + (evidence_rules(messages) or _NOTHING_TO_QUOTE)
