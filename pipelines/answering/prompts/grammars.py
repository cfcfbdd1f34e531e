"""The contracts of the replies as GBNF grammars, which llama.cpp's server keeps a reply to while it is written.

A grammar allows what the contract in the role's own file describes and nothing else, so the labels, the brackets and
the quote marks are there whatever the model would have written. The words between them stay the model's own, within
bounds, since a line that may grow for ever ends at the token limit with its quote mark open.
"""

from __future__ import annotations

from typing import Final

EVIDENCE_LINES: Final = 3
"""Most evidence lines of a reply; ours."""

SUB_QUESTIONS: Final = 4
"""Most lines of a split; the default policy's limit."""

ANSWER_LENGTH: Final = 400
QUOTE_LENGTH: Final = 300
QUERY_LENGTH: Final = 200
"""Characters; ours: an answer, a quotation and a question of a length that a default limit has room for."""

_EVIDENCE = rf"""
evidence ::= "Evidence: [" [1-9] [0-9]? "] \"" [^"\n]{{1,{QUOTE_LENGTH}}} "\""
"""
_ANSWER = rf"""
answer ::= "Answer: " [^ \n] [^\n]{{0,{ANSWER_LENGTH - 1}}}
"""

_READ = rf"""
root ::= (evidence "\n"){{0,{EVIDENCE_LINES}}} answer
{_ANSWER}{_EVIDENCE}"""

GRAMMARS: Final[dict[str, str]] = {
    "generate": _READ,
    "full_text": _READ,
    "split": rf"""
root ::= question ("\n" question){{0,{SUB_QUESTIONS - 1}}}
question ::= [^ ?\n] [^?\n]{{0,{QUERY_LENGTH - 2}}} "?"
""",
    "step": rf"""
root ::= ("Evidence: none" | evidence ("\n" evidence){{0,{EVIDENCE_LINES - 1}}}) "\n" query "\n" answer
query ::= "Query: " [^ \n] [^\n]{{0,{QUERY_LENGTH - 1}}}
{_ANSWER}{_EVIDENCE}""",
}
"""By role. ``Answer: unanswerable`` and ``none`` are lines like any other. The analyzer's JSON has none here."""
