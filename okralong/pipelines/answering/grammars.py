"""GBNF grammars of the prompts' contracts (the form of replies), which constrain a local server as it generates.

llama.cpp's server enforces them as they are; ``openvino_server`` leaves the length of lines to the token limit.

A grammar allows only what the contract of the role's prompt describes, so labels, brackets and quote marks are always
present. Quotations must be copies of the passages. Small models that copy from a long prompt drop digits and join
words; with a grammar they only choose where a quotation begins and ends. Other text is free, but its length is bounded,
since a line might otherwise never end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from okralong.pipelines.answering.answer_types import AMOUNTS, SCHEMA, AnswerType
from okralong.pipelines.answering.languages import language_of_text
from okralong.pipelines.answering.prompts.answer import FORMULA
from okralong.pipelines.answering.prompts.typed import TYPED_FORMULA
from okralong.pipelines.core.types import QUESTION_MARK, Message
from okralong.pipelines.statements.values import spans_of

STRIDE: Final = 20  # project default: as the quotations that a reader learns from
"""A quotation of up to this many words can begin at any word, and none is longer than twice this number.

A separate chain of rules for each first word would make the grammar twenty times as large."""

_FRAME: Final = re.compile(r'<passage id="(\d+)" doc="[^"]*">\n(.*?)\n</passage>', re.DOTALL)


def evidence_rules(messages: Sequence[Message], in_json: bool = False) -> str | None:
    """Return the rule ``evidence`` and its dependencies, for a prompt of ``framed_prompt``.

    The rule describes an evidence line or, with ``in_json``, an evidence object of the typed contract. Return None if
    no passage has a word to quote.
    """
    before, between, after = ('{"passage": ', ', "quote": "', '"}') if in_json else ("Evidence: [", '] "', '"')
    shown = ((number, text.replace("\\", "\\\\") if in_json else text) for number, text in _shown(messages))
    passages = {number: _stretches(text) for number, text in shown}
    rules = [rule for number, stretches in passages.items() for rule in _passage_rules(number, stretches)]
    quoted = (f"{_literal(number + between)} q{number}" for number, stretches in passages.items() if stretches)
    choice = " | ".join(quoted)
    return "\n".join([f"evidence ::= {_literal(before)} ({choice}) {_literal(after)}", *rules, ""]) if choice else None


def _shown(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return _FRAME.findall(messages[-1].content.rpartition(QUESTION_MARK)[0])


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _stretches(text: str) -> list[list[str]]:
    return [words for part in text.split('"') if (words := part.split())]


def _passage_rules(number: str, stretches: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rules for quotations of a passage: two per word, in two chains that end at different words."""
    starts = []
    for part, words in enumerate(stretches):
        for at, word in enumerate(words):
            early, late = (f"{chain}{number}-{part}-{at}" for chain in "ab")
            starts.append(early if at // STRIDE % 2 == 0 else late)
            for name, rest in ((early, at + 1), (late, at + 1 + STRIDE)):
                ends = at + 1 == len(words) or rest % (2 * STRIDE) == 0
                onwards = "" if ends else f' (" " {name.rpartition("-")[0]}-{at + 1})?'
                yield f"{name} ::= {_literal(word)}{onwards}"
    if starts:
        yield f"q{number} ::= {' | '.join(starts)}"


EVIDENCE_LINES: Final = 3  # project default
"""The most evidence lines of a reply."""

SUB_QUESTIONS: Final = 4
"""The most lines of a split: the default policy's limit."""

ANSWER_LENGTH: Final = 400
QUERY_LENGTH: Final = 200
DIGEST_LENGTH: Final = 1200
REASON_LENGTH: Final = 240  # project default
"""Most characters of an answer, a question, and CompAct's summary (of 200 words) and reason. The default reply limits
have room for them."""

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
"""Grammars by role, without the rule ``evidence``. They treat ``Answer: unanswerable`` and ``none`` as ordinary
lines."""

_READ_SHORT: Final = rf"""
root ::= "unanswerable" | [^ \n\[] [^\n\[]{{0,{ANSWER_LENGTH - 1}}} "[" [1-9] [0-9]? "]"
"""
_SHORT: Final = {**_GRAMMARS, "generate": _READ_SHORT, "full_text": _READ_SHORT}
"""Grammars under the short contract."""

ROLES: Final = frozenset(_GRAMMARS)
"""The roles whose replies have a grammar."""


def typed_grammar(wanted: AnswerType, messages: Sequence[Message], short: bool = False) -> str | None:
    """Return the grammar of a typed reply; None for a JSON schema.

    It allows only amounts, dates and periods that occur in the passages, because small models often write others, and
    formulas if the prompt asks for them.
    """
    if wanted.kind == SCHEMA:
        return None
    offered = list(wanted.choices) or _OFFERED.get(wanted.kind) or _values_shown(wanted.kind, messages)
    formula = wanted.kind in AMOUNTS and any(each in messages[0].content for each in (FORMULA, TYPED_FORMULA))
    if not short:
        return _typed_json(wanted, offered, formula, messages)
    values = [_literal(each) for each in offered] + ["formula"] * formula
    if not values and wanted.kind == "text":
        values = [rf"[^ \n\[;] [^\n\[;]{{0,{ANSWER_LENGTH - 1}}}"]
    more = f' ("; " value source){{0,{LIST_LENGTH - 1}}}' if wanted.many else ""
    rules = [f"value ::= {' | '.join(values)}", 'source ::= " [" [1-9] [0-9]? "]"', *[_FORMULA] * formula]
    root = f'root ::= "unanswerable" | value source{more}' if values else 'root ::= "unanswerable"'
    return "\n".join([root, *(rules if values else []), ""])


_FORMULA: Final = 'formula ::= "=" [0-9(] [0-9.,()+*/% -]{0,100} (" " [a-zA-Z]{1,20}){0,2}'
"""A calculation in figures, and its unit."""
PERIOD_LENGTH: Final = 40  # project default
"""The most characters of a period."""
LIST_LENGTH: Final = 20  # project default
"""The most values of a list."""
MOST_OFFERED: Final = 400  # project default
"""The most values that a grammar offers: the first ones in the passages."""
_OFFERED: Final = {"boolean": ["yes", "no"]}


def _typed_json(wanted: AnswerType, offered: Sequence[str], formula: bool, messages: Sequence[Message]) -> str:
    """Return the grammar of a typed reply under the full contract, a JSON object."""
    evidence = evidence_rules(messages, in_json=True)
    sources = f'(evidence (", " evidence){{0,{EVIDENCE_LINES - 1}}})?' if evidence else ""
    head, middle, last = map(_literal, ('{"evidence": [', '], "value": ', ', "period": '))
    values = [_literal(json.dumps(each, ensure_ascii=False)) for each in offered]
    values += [r'"\"" formula "\""'] * formula
    if not values and wanted.kind == "text":
        values = [_string(ANSWER_LENGTH)]
    nothing = _literal('{"values": []}' if wanted.many else json.dumps({"evidence": [], "value": None}))
    if not values:
        return f"root ::= {nothing}\n"
    root = f"root ::= {nothing} | one"
    if wanted.many:
        listed = _literal('{"values": [')
        root = f'root ::= {listed} (one (", " one){{0,{LIST_LENGTH - 1}}})? "]}}"'
    dated = wanted.kind in AMOUNTS
    one = f"{head} {sources} {middle} value" + (f" {last} period" if dated else "") + ' "}"'
    rules = [root, f"one ::= {one}", f"value ::= {' | '.join(values)}"]
    rules += [f"period ::= {_string(PERIOD_LENGTH)}"] * dated + [_FORMULA] * formula
    return "\n".join([*rules, evidence or ""])


def _string(chars: int) -> str:
    return rf'"\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt]){{0,{chars}}} "\""'


def _values_shown(kind: str, messages: Sequence[Message]) -> list[str]:
    """Return the distinct amounts, dates or periods in the passages, as written there; none for other kinds."""
    found: dict[str, None] = {}
    for _, text in _shown(messages):
        for start, end in spans_of(kind, text, language_of_text(text)):
            words = text[start:end].strip()
            if words and "\n" not in words:
                found.setdefault(words)
    marked = [each for each in found if _PERCENT.search(each)] if kind == "percent" else []
    return (marked or list(found))[:MOST_OFFERED]


_PERCENT: Final = re.compile(r"%|\bper\s?cent|\bpct|\bpp\b|\bbps?\b|\bbasis", re.IGNORECASE)
"""How an amount says that it is a percentage; bare cells are offered only where no amount says it."""


_NOTHING_TO_QUOTE: Final = 'evidence ::= "Evidence: none"\n'


def grammar(role: str, messages: Sequence[Message], answer_type: str = "", short: bool = False) -> str | None:
    """Return the grammar of the reply to a prompt; None for roles without one, such as the analyzer's.

    Args:
        role: The role of the call.
        messages: The prompt, whose passages may be quoted.
        answer_type: The type of the reply. A JSON schema has no grammar here: the server makes its own.
        short: Whether the prompt has the short contract.
    """
    if answer_type:
        return typed_grammar(AnswerType.of(answer_type), messages, short)
    found = (_SHORT if short else _GRAMMARS).get(role)
    if found is None or "evidence" not in found:
        return found
    return found + (evidence_rules(messages) or _NOTHING_TO_QUOTE)
