"""The contracts of the replies as GBNF grammars, which llama.cpp's server keeps a reply to while it is written.

A grammar allows what the contract in the role's own file describes and nothing else, so the labels, the brackets and
the quote marks are there whatever the model would have written. Quotations are copies of the passages in the prompt
(``copying.py``); other words stay the model's own, within bounds, since a line may else grow for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from okralong.pipelines.answering.prompts.copying import evidence_rules
from okralong.pipelines.core.types import Message

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

ROLES: Final = frozenset(_GRAMMARS)
"""The roles whose replies have a grammar."""

_NOTHING_TO_QUOTE: Final = 'evidence ::= "Evidence: none"\n'


def grammar(role: str, messages: Sequence[Message]) -> str | None:
    """The grammar of the reply to a prompt of ``role``; None for one that has none, such as the analyzer's."""
    found = _GRAMMARS.get(role)
    if found is None or "evidence" not in found:
        return found
    return found + (evidence_rules(messages) or _NOTHING_TO_QUOTE)
