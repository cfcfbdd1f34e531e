"""The typed prompt: a question with an answer type is answered by one JSON object.

Contract of a reply::

    {"evidence": [{"passage": 2, "quote": "exact words of passage 2"}], "value": "$(234,495) thousand",
     "period": "FY2023"}

``value`` is null if the passages do not contain it. A list is ``{"values": [...]}`` of such objects, each with
evidence. Amounts are requested as they are written and converted later (``statements/values.py``), because a model that
multiplies by a thousand may drop a digit. The prompt states the form of the value after the question, so that prompts
for all types over the same passages share a prefix. ``reply_schema`` expresses the contract as a JSON schema, for
endpoints that support one, and ``grammars.py`` as a grammar for llama.cpp.

Under the short contract the reply is ``$(234,495) thousand [2]``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from okralong.pipelines.answering.answer_types import AMOUNTS, SCHEMA, TEXT, AnswerType
from okralong.pipelines.answering.prompt_text import framed_prompt
from okralong.pipelines.core.types import Message, Passage

TYPED_INSTRUCTIONS = """Reply with one JSON object in this form and nothing else:
{{"evidence": [{{"passage": n, "quote": "exact words copied from passage n"}}], "value": the answer}}
Give evidence for each passage you used. {calculation}What the value must be stands below the question.
If the passages do not hold the answer, the value is null."""

VALUE_MARK: Final = "\nThe value must be "
"""The text between the question and the form of its value."""
TYPED_FORMULA = (
    "For a calculation, do not work it out: the value is an equals sign, the expression in bare figures from the "
    'passages, and the unit, like "=(12.5 - 10) / 10 * 100 %".'
)
_SCALED = "the word of scale (thousand, million) that the passage or the head of its table gives"
_VALUES: Final[dict[str, str]] = {
    "text": "a string, the shortest complete answer",
    "number": "a string with one number as the passage writes it, with its sign or brackets, "
    f"{_SCALED}, and the word for what is counted",
    "money": "a string with one amount of money as the passage writes it, with its sign or brackets, its currency and "
    f'{_SCALED}, like "$(234,495) thousand"',
    "percent": 'a string with one percentage as the passage writes it, with its sign or brackets, like "(3.5) %"',
    "date": 'a string with one date, like "2023-06-30", or "2023-06" or "2023" where the passages say no more',
    "period": 'a string with one period of time, like "FY2023", "Q3 2024" or "3 months to 2024-09-30"',
    "boolean": '"yes" or "no"',
}
_PERIOD_TOO = ' Add "period", a string with the time that the value belongs to, like "FY2023", "" where none is said.'
_SHORT_VALUES: Final[dict[str, str]] = {
    "text": "a few words",
    "number": "one number",
    "money": "one amount of money",
    "percent": "one percentage",
    "date": "one date",
    "period": "one period of time",
    "boolean": "yes or no",
}


def typed_prompt(instructions: str, question: str, passages: Sequence[Passage], wanted: AnswerType) -> list[Message]:
    """Return the messages of a typed prompt, which states the form of the value after the question."""
    asked = f"{VALUE_MARK}{value_form(wanted)}."
    if wanted.kind in AMOUNTS:
        asked += _PERIOD_TOO
    if wanted.many:
        asked += (
            ' The answer is a list: reply {"values": [...]} with one object of the form above for each value, and with '
            "an empty list if the passages hold none."
        )
    return framed_prompt(instructions, f"{question.strip()}{asked}", passages)


def value_form(wanted: AnswerType) -> str:
    """Return the words that state the form of one value."""
    if wanted.kind == SCHEMA:
        return f"JSON that fits this JSON schema: {wanted.schema}"
    if wanted.kind == "choices":
        return f"one of these strings: {_listed(wanted.choices)}"
    return _VALUES[wanted.kind]


def short_form(wanted: AnswerType) -> str:
    """Return the words that state the form of one value under the short contract."""
    one = f"one of {_listed(wanted.choices)}" if wanted.kind == "choices" else _SHORT_VALUES[wanted.kind]
    return f"{one}, or several of these with ; between them" if wanted.many else one


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(json.dumps(each, ensure_ascii=False) for each in choices)


def reply_schema(answer_type: str, short: bool = False) -> str | None:
    """Return the ``json_schema`` of OpenAI's ``response_format`` for a typed reply, as JSON.

    ``strict`` is false for a question's own schema, which may use keywords that strict mode lacks. Return None if the
    reply is not JSON, or if the question's schema has references to its own root, which is not the root of the reply's
    schema.
    """
    wanted = AnswerType.of(answer_type)
    if wanted == TEXT or (short and wanted.kind != SCHEMA):
        return None
    shared: dict[str, Any] = {}
    value: dict[str, Any] = {"type": "string" if wanted.many else ["string", "null"]}
    if wanted.kind == SCHEMA:
        own = json.loads(wanted.schema)
        if any(not place.startswith(("#/$defs/", "#/definitions/")) for place in _REFERENCE.findall(wanted.schema)):
            return None
        shared = {key: own.pop(key) for key in ("$defs", "definitions") if key in own}
        own.pop("$schema", None)
        value = {"anyOf": [own, {"type": "null"}]}
    elif wanted.kind in ("choices", "boolean"):
        offered: list[str | None] = list(wanted.choices) or ["yes", "no"]
        value["enum"] = offered if wanted.many else [*offered, None]
    source = _object({"passage": {"type": "integer"}, "quote": {"type": "string"}})
    fields: dict[str, Any] = {"evidence": {"type": "array", "items": source}, "value": value}
    if wanted.kind in AMOUNTS:
        fields["period"] = {"type": "string"}
    reply = _object(fields)
    if wanted.many:
        reply = _object({"values": {"type": "array", "items": reply}})
    named = {"name": "answer", "strict": wanted.kind != SCHEMA, "schema": reply | shared}
    return json.dumps(named, ensure_ascii=False)


def reply_tokens(answer_type: str, short: bool = False) -> int | None:
    """Return the most tokens of a reply of a type, None if its type does not bound it: text, lists and JSON schemas.

    A longer reply is no value of the type: a small model may write to its limit, and an answer's limit is made for
    quotations and sentences.
    """
    wanted = AnswerType.of(answer_type)
    if wanted.many or wanted.kind not in _REPLY_TOKENS:
        return None
    longest = max((len(each.encode()) for each in wanted.choices), default=0)
    return _REPLY_TOKENS[wanted.kind] + longest // 2 + (0 if short else _EVIDENCE_TOKENS)


_REPLY_TOKENS: Final[dict[str, int]] = {
    "number": 64,
    "money": 64,
    "percent": 64,
    "date": 48,
    "period": 48,
    "boolean": 32,
    "choices": 32,
}
"""Tokens of a value with the number of its passage, or of a formula; SmolLM2 has a token for each digit."""
# project default
_EVIDENCE_TOKENS: Final = 288
"""Tokens of the rest of the JSON object: three quotations of some 30 words. # project default"""


_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef)"\s*:\s*"([^"]*)"')


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
