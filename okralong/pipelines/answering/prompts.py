"""The prompts of the method, the contracts of their replies, and their parsers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, Final

from okralong.pipelines.answering.answer_types import AMOUNTS, SCHEMA, TEXT, AnswerType
from okralong.pipelines.answering.prompt_text import (
    MOST_CLAIMS,
    REFERENCES,
    THOUGHT_TAG,
    Evidence,
    cut_at_labels,
    framed_prompt,
    label_pattern,
    neutralise,
    parse_evidence,
    strip_thought,
    take_references,
)
from okralong.pipelines.core.types import Message, Passage, ReplyError

# The answer prompt. Contract of a reply::
#
#     Evidence: [2] "exact words of passage 2"
#     Answer: 4.2 million euros
#
# or ``Answer: unanswerable``. The evidence comes first, since a model that has just copied the words answers from
# them. With the calculator on, a calculation is answered by a formula such as ``=12.5 - 10 %``, which
# ``calculate`` works out.
#
# The short contract is for models that keep to no form: ``4.2 million euros [2]``, or ``unanswerable``. Which words of
# the passage are cited is then found here (``citations.best_line``).
#
# One parser reads both, and whatever else says something: a reply that breaks the contract is an answer without
# evidence, and only one that says nothing is an error.

ANSWER_INSTRUCTIONS = """Reply in this form:
Evidence: [n] "exact words copied from passage n"
Answer: the shortest complete answer
Write one Evidence line for each passage you used. {calculation}
If the passages do not hold the answer, reply only: Answer: unanswerable"""

RESULT = "For a calculation, give the result as the answer."
FORMULA = (
    "For a calculation, do not work it out: answer with an equals sign, the expression in bare figures from the "
    "passages, and the unit, like Answer: =(12.5 - 10) / 10 * 100 %"
)
"""What stands in the instructions for a calculation: without the calculator, and with it."""

UNANSWERABLE = "unanswerable"

SHORT_INSTRUCTIONS = """Answer the question in as few words as possible, then write the number of the passage \
that says so, like this: 41 million [2]
{calculation}If the passages do not hold the answer, reply only: unanswerable"""

_ANSWER_LABEL = label_pattern(
    r"(?:(?:final|short|direct|correct)\s+)?answer|evidence|sources?|citations?|quotes?|question"
    r"|explanation|reasoning|rationale|justification|note"
)
_EVIDENCE_LABELS = ("evidence", "source", "citation", "quote")
_ANSWER_IS = re.compile(
    r"^(?:so,?\s+|thus,?\s+|therefore,?\s+)?the\s+(?:(?:final|correct)\s+)?answer\s+(?:to\s+(?:this|the)\s+question\s+)?is"
    r"\s*:?\s+",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"the (?:final )?answer(?: to (?:this|the) question)? is:?", re.IGNORECASE)
"""What small models write before they run dry."""
_LEAD_IN = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|yes, here)\b[^\n:.!]{0,60}[!:.]\s+(?=\S))?"
    r"(?:(?:here(?:'s|\u2019s| is| are)|below is)\b[^\n:]{0,80}:\s+(?=\S))?"
    r"(?:(?:according to|based (?:up)?on|from)\s+(?:the\s+)?(?:(?:given|provided|numbered|above)\s+)?"
    r"(?:passages?|context|documents?|text|information)(?:\s+(?:provided|given|above))?(?:\s*\[?\d{1,3}\]?)?,\s+(?=\S))?",
    re.IGNORECASE,
)
"""What polite models write before they answer."""
_SPEAKER = re.compile(r"^(?:assistant|response|output|reply|result|a)\s*[:\uff1a]\s*(?=\S)", re.IGNORECASE)
_ASKED_AND_SAID = re.compile(r"\AQ\s*[:.]\s*(?P<asked>[^\n]+)\n+\s*A\s*[:.]", re.IGNORECASE)
_WITHIN_LINE = re.compile(r"(?<=[.!?\"\u201d\])])[ \t]+(?=(?:final\s+)?answer\s*[:\uff1a])", re.IGNORECASE)
"""Before an Answer label that does not begin its line."""
_CONCLUDES = re.compile(r"\banswer\s+is\b\s*+:?+\s*+(?=\S)", re.IGNORECASE)
_BOXED = re.compile(r"\A\$*\\boxed\{(.*)\}\$*\.?\Z", re.DOTALL)
_IN_JSON = re.compile(
    r'\A[^{]{0,80}\{.*?"(?:final_?)?answer"\s*:\s*(?:"(?P<text>(?:[^"\\]|\\.)*)|(?P<bare>[^\s",}\]]+))',
    re.DOTALL | re.IGNORECASE,
)
"""An answer in a JSON object, which need not be whole."""
_JSON_EVIDENCE = re.compile(
    r'"(?:evidence|sources?|citations?|quotes?|passages?)"\s*:(?P<said>.*)', re.DOTALL | re.IGNORECASE
)
_ESCAPED = re.compile(r'\\(["\\/])')
_MARKS = '"\u201c\u201d\u201e\u00ab\u00bb'
"""Quote marks that open or close a quotation."""
_SUBJECT = r"(?:(?:the|this|your)\s+question|it|the\s+answer|this)\s+"
_SCOPE = r"(?:\s+(?:from|based|with|given|using|in|by)\b.*)?"
_NOT_THERE = (
    r"(?:(?:i'?m|i am)\s+sorry,?\s+(?:but\s+)?)?(?:unfortunately,?\s+)?(?:the|these|this)\s+"
    r"(?:(?:given|provided|numbered|above)\s+)?(?:passages?|context|documents?|text|information)(?:\s+(?:given|provided|above))?\s+"
    r"(?:does|do|did)(?:\s+not|n['\u2019]t)\s+(?:hold|contain|provide|include|give|have|state|mention)\s+"
    r"(?:the\s+answer|an\s+answer|(?:any\s+|enough\s+|sufficient\s+|the\s+)?(?:information|details|data)\b)[^.\n]*"
)
_UNANSWERABLE = re.compile(
    rf"(?:(?:{_SUBJECT}is\s+)?(?:un-?answerable|not\s+answerable)|(?:{_SUBJECT})(?:cannot|can't|can\s+not)\s+be\s+answered)"
    rf"{_SCOPE}|{_NOT_THERE}",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What the reply says: the answer's text (``UNANSWERABLE`` for missing evidence) and the sources it names."""

    answer: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def unanswerable(self) -> bool:
        """Whether the model said that the passages do not hold the answer."""
        return self.answer == UNANSWERABLE

    @property
    def only_number(self) -> bool:
        """Whether the answer is nothing but the number of a passage, such as "[2]"."""
        return REFERENCES.fullmatch(self.answer) is not None


def answer_prompt(
    question: str,
    passages: Sequence[Passage],
    calculator: bool = False,
    short: bool = False,
    wanted: AnswerType = TEXT,
) -> list[Message]:
    """The messages that ask for an answer from ``passages``; with ``calculator``, for a formula where one is needed.

    ``short`` asks by the short contract; ``wanted`` is the type of the question, whose reply is one JSON object unless
    the contract is short (``read_typed``).
    """
    if wanted != TEXT and (not short or wanted.kind == SCHEMA):
        instructions = TYPED_INSTRUCTIONS.format(calculation=f"{TYPED_FORMULA}\n" if calculator else "")
        return _typed_prompt(instructions, question, passages, wanted)
    if short:
        instructions = SHORT_INSTRUCTIONS.format(calculation=f"{FORMULA}\n" if calculator else "")
        if wanted != TEXT:
            told = f"{question.strip()}\nAnswer with {short_form(wanted)}."
            return framed_prompt(instructions, told, passages)
    else:
        instructions = ANSWER_INSTRUCTIONS.format(calculation=FORMULA if calculator else RESULT)
    return framed_prompt(instructions, question, passages)


def parse_answer(reply: str, question: str = "") -> ParsedAnswer:
    """Read a reply to a prompt of either contract, and whatever else says something.

    The first Answer label counts that does not stand inside a quotation, which a document may have written; where all
    do, since a mark was never closed, the last. Without such a label the answer is what stands before any label, else
    an explanation, else the evidence that was quoted before the reply was cut short, else what the thoughts conclude.
    A ``question`` that the reply repeats is taken out. Raises ReplyError when the reply says nothing at all.
    """
    text = strip_thought(reply)
    found = _in_json(text)
    if found is not None:
        said, evidence = found
    else:
        text = _ASKED_AND_SAID.sub(lambda match: f"Question: {match['asked']}\nAnswer:", text)
        unlabelled, sections = cut_at_labels(_ANSWER_LABEL, _WITHIN_LINE.sub("\n", text))
        evidence = [section for label, section in sections if label.startswith(_EVIDENCE_LABELS)]
        said = next(filter(None, map(partial(_bare_answer, question=question), _candidates(unlabelled, sections))), "")
    claims = tuple(claim for section in evidence for claim in parse_evidence(section))
    answer, references = take_references(said)
    if not answer:
        answer = next((claim.quote for claim in claims if claim.quote), "") or " ".join(evidence).strip()
    if not answer:
        answer = _thoughts(reply)
    if not answer:
        raise ReplyError(
            f"The reply holds no answer: {reply[:120]!r}. Give llm.max_completion_tokens more room if it was cut short."
        )
    if says_unanswerable(answer):
        return ParsedAnswer(UNANSWERABLE)
    return ParsedAnswer(answer, tuple(dict.fromkeys(claims or references)))


def ends_within_answer(reply: str, *, short: bool = False) -> bool:
    """Return whether a reply that ran into its limit ends before its answer does.

    It does not where something follows the answer: the end of a line under the ``short`` contract, a further part of
    the reply under the full one, the end of a JSON object under either.
    """
    text = strip_thought(reply)
    if _first_json(text, "{") is not None:
        return False
    if _BEGUN.match(text.lstrip()):
        return True
    unlabelled, sections = cut_at_labels(_ANSWER_LABEL, _WITHIN_LINE.sub("\n", text))
    labelled = [at for at, (label, said) in enumerate(sections) if label.endswith("answer") and said]
    said = sections[labelled[0]][1] if labelled else unlabelled if short else ""
    rest = sections[labelled[0] + 1 :] if labelled else sections
    line_ended = "\n" in reply[len(reply.rstrip()) :] or (short and "\n" in said)
    return not said or not (rest or line_ended)


def _candidates(unlabelled: str, sections: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The parts of a reply that may be its answer, the likeliest first."""
    yield _answer(sections)
    yield unlabelled
    for label, section in sections:
        if not label.endswith("answer") and not label.startswith(_EVIDENCE_LABELS):
            yield section.partition("\n")[2] if label == "question" else section


def _bare_answer(text: str, question: str) -> str:
    """One part of a reply without what small models write around an answer; empty where nothing else is there."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    if question and rest.strip() and same_words(first) == same_words(question):
        text = rest.strip()
    text = clean(_LEAD_IN.sub("", _SPEAKER.sub("", text), count=1))
    return "" if _NOTHING.fullmatch(text) or not any(char.isalnum() for char in text) else text


def _in_json(text: str) -> tuple[str, list[str]] | None:
    """The answer and the evidence of a reply that is a JSON object; None for one that is none."""
    found = _IN_JSON.match(text)
    if found is None:
        return None
    said = found["text"] if found["text"] is not None else found["bare"].strip("{[")
    plain = clean(_ESCAPED.sub(r"\1", said.replace("\\n", "\n")))
    evidence = _JSON_EVIDENCE.search(text[: found.start("text")] + text[found.end("text") :])
    shown = _ESCAPED.sub(r"\1", evidence["said"]) if evidence is not None else ""
    numbers = re.findall(r"(?<![\w.,])\d{1,3}(?![\w.,])", shown)
    return plain, [f"[{', '.join(numbers)}]"] if numbers and '"' not in shown.strip(' "]}') else [shown]


def _thoughts(reply: str) -> str:
    """What a reply that is nothing but thoughts concludes, or their last line: the limit came before the answer."""
    thought = THOUGHT_TAG.sub("", reply)
    if thought == reply:
        return ""
    conclusions = list(_CONCLUDES.finditer(thought))
    text = thought[conclusions[-1].end() :].partition("\n")[0] if conclusions else ""
    lines = [line for line in thought.splitlines() if any(char.isalnum() for char in line)]
    return clean(text) or (clean(lines[-1]) if lines else "")


def _answer(sections: Sequence[tuple[str, str]]) -> str:
    """The text under the Answer label that counts; empty where there is none."""
    marks = 0
    last = ""
    for label, section in sections:
        if label.endswith("answer") and section:
            last = section
            if marks % 2 == 0:
                return section
        marks += sum(section.count(mark) for mark in _MARKS)
    return last


def clean(answer: str) -> str:
    """Without markdown stars and back ticks, a LaTeX box, wrapping quote marks and a leading "the answer is"."""
    answer = _ANSWER_IS.sub("", answer.strip().strip("*`").strip())
    boxed = _BOXED.match(answer)
    answer = boxed[1] if boxed is not None else answer.strip("*`").strip()
    if len(answer) > 1 and answer[0] in '"“' and answer[-1] in '"”' and not set(answer[1:-1]) & set('"“”'):
        answer = answer[1:-1]
    return answer.strip()


def says_unanswerable(answer: str) -> bool:
    """Whether ``answer`` is the word "unanswerable" or an obvious way to say it, such as "not answerable" or "This
    question cannot be answered from the passages". A vague "I do not know" is an answer (a poor one), not this word.
    """
    return _UNANSWERABLE.fullmatch(answer.strip(" \t\n.!*_\"'`()[]<>")) is not None


# The typed answer: a question with an ``answer_type`` is answered by one JSON object. Contract of a reply::
#
#     {"evidence": [{"passage": 2, "quote": "exact words of passage 2"}], "value": "$(234,495) thousand",
#      "period": "FY2023"}
#
# ``value`` is null where the passages do not hold it. A list is ``{"values": [...]}`` of such objects, each with
# evidence of its own, empty where there is none. Amounts are asked for as they are written and turned into numbers here
# (``values.py``): a model that multiplies by a thousand may drop a digit. What the value must be stands behind the
# question, so that the questions of all types over the same passages share what comes before. ``reply_schema`` is the
# same as a JSON schema, for endpoints that keep to one, ``grammars.py`` for llama.cpp.
#
# Under the short contract the reply is ``$(234,495) thousand [2]``. One parser reads both, and lines.

TYPED_INSTRUCTIONS = """Reply with one JSON object in this form and nothing else:
{{"evidence": [{{"passage": n, "quote": "exact words copied from passage n"}}], "value": the answer}}
Give evidence for each passage you used. {calculation}What the value must be stands below the question.
If the passages do not hold the answer, the value is null."""

VALUE_MARK: Final = "\nThe value must be "
"""Stands between the question and what its value must be."""
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


def _typed_prompt(instructions: str, question: str, passages: Sequence[Passage], wanted: AnswerType) -> list[Message]:
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
    """What one value of a type must be, in words."""
    if wanted.kind == SCHEMA:
        return f"JSON that fits this JSON schema: {wanted.schema}"
    if wanted.kind == "choices":
        return f"one of these strings: {_listed(wanted.choices)}"
    return _VALUES[wanted.kind]


def short_form(wanted: AnswerType) -> str:
    """The same in the few words of the short contract."""
    one = f"one of {_listed(wanted.choices)}" if wanted.kind == "choices" else _SHORT_VALUES[wanted.kind]
    return f"{one}, or several of these with ; between them" if wanted.many else one


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(json.dumps(each, ensure_ascii=False) for each in choices)


def reply_schema(answer_type: str, short: bool = False) -> str | None:
    """The reply of a type as the ``json_schema`` of OpenAI's ``response_format``, in JSON: name, schema, and whether it
    keeps to what strict mode allows, which a question's own schema need not. None where the reply is no JSON, or the
    question's schema refers to its own top, which is another place here.
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


_REFERENCE: Final = re.compile(r'"\$(?:ref|dynamicRef)"\s*:\s*"([^"]*)"')


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class SaidValue:
    """One value as a reply says it: its words (of a schema JSON), the words of its period, and its sources."""

    said: str
    period: str = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def only_number(self) -> bool:
        """Whether it is nothing but the number of a passage, such as "[2]"."""
        return REFERENCES.fullmatch(self.said) is not None


def read_typed(reply: str, wanted: AnswerType, question: str = "") -> list[SaidValue]:
    """The values in a reply to a typed prompt; none where it says that the passages do not hold the answer.

    Read are the JSON object that is asked for, whatever stands around it, and for all types but a schema the lines of
    the other contracts as ``parse_answer`` reads them. Raises ReplyError when the reply says nothing that can be read.
    """
    text = strip_thought(reply)
    arrays = wanted.kind == SCHEMA and json.loads(wanted.schema).get("type") == "array"
    found = _first_json(text, "{[" if arrays else "{")
    ours = isinstance(found, Mapping) and (wanted.kind != SCHEMA or found.keys() <= _ENVELOPE)
    if isinstance(found, Mapping) and ours and found.keys() & _VALUE:
        items = _items(found, wanted.kind == SCHEMA)
        if len(items) > MOST_VALUES:
            raise ReplyError(f"The reply lists {len(items):,} values, more than {MOST_VALUES}.")
        return [one for each in items if (one := _said(each, wanted)) is not None]
    if wanted.kind == SCHEMA and found is not None:
        return [SaidValue(json.dumps(found, ensure_ascii=False))]
    if wanted.kind == SCHEMA or (found is None and _BEGUN.search(text)):
        if says_unanswerable(clean(text)) or _answers_nothing(reply, question):
            return []
        raise ReplyError("The reply holds no whole JSON object, and one was asked for.")
    parsed = parse_answer(reply, question)
    if parsed.unanswerable:
        return []
    parts = [part.strip() for part in re.split(r"[;\n]", parsed.answer)] if wanted.many else [parsed.answer]
    if len(parts) > MOST_VALUES:
        raise ReplyError(f"The reply lists {len(parts):,} values, more than {MOST_VALUES}.")
    return [SaidValue(part, evidence=parsed.evidence) for part in parts if part]


MOST_VALUES: Final = 200
"""Values of a list. project default: each is looked for in all passages; a grammar allows 20."""

_VALUE: Final = frozenset(("value", "values", "answer", "answers"))
_ENVELOPE: Final = _VALUE | {"evidence", "period"}


def _answers_nothing(reply: str, question: str) -> bool:
    try:
        return parse_answer(reply, question).unanswerable
    except ReplyError:
        return False


def _first_json(text: str, openings: str) -> Any:
    """The JSON that begins at the first of ``openings`` in a text; None where none does, or where it is cut short: what
    stands whole within it is no reply.
    """
    place = min((at for each in openings if (at := text.find(each)) >= 0), default=-1)
    if place < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, place)[0]
    except (ValueError, RecursionError):
        return None


_BEGUN: Final = re.compile(r"\{\s*\"|\A\{")
"""Where JSON was begun."""


def _items(found: Mapping[str, Any], whole: bool) -> list[Mapping[str, Any]]:
    """An object for each value: those of a list, or the one whose value may be a list with shared evidence, which is a
    ``whole`` where the value is a schema's.
    """
    listed = found.get("values", found.get("answers"))
    if not isinstance(listed, list):
        single = found.get("value", found.get("answer", listed))
        listed = single if isinstance(single, list) and not whole else [single]
    shared = {key: found[key] for key in ("evidence", "period") if key in found}
    return [
        each if isinstance(each, Mapping) and each.keys() & _VALUE else {"value": each, **shared} for each in listed
    ]


def _said(item: Mapping[str, Any], wanted: AnswerType) -> SaidValue | None:
    """What one object says; None for one without a value."""
    value = item.get("value", item.get("answer"))
    if value is None:
        return None
    if wanted.kind == SCHEMA:
        said = json.dumps(value, ensure_ascii=False)
    else:
        said = _plain_words(value)
        if not said or says_unanswerable(said):
            return None
    period = item.get("period")
    evidence = tuple(islice(dict.fromkeys(_claims(item.get("evidence"))), MOST_CLAIMS))
    return SaidValue(said, period.strip() if isinstance(period, str) else "", evidence)


def _plain_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"
    return str(value).strip() if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)


def _claims(said: Any) -> Iterator[Evidence]:
    """The sources of a value: objects with passage and quote, numbers of passages, or lines as of other contracts."""
    if isinstance(said, str):
        yield from parse_evidence(said)
    elif isinstance(said, int) and not isinstance(said, bool):
        yield Evidence(said, "")
    elif isinstance(said, Mapping):
        number = re.search(r"\d{1,4}", str(said.get("passage", said.get("id", ""))))
        quote = next((said[key] for key in ("quote", "words", "text") if isinstance(said.get(key), str)), "").strip()
        if number or quote:
            yield Evidence(int(number[0]) if number else 0, quote)
    elif isinstance(said, Sequence):
        for each in said:
            if isinstance(each, str | int | Mapping):  # lists within lists are no form of a source
                yield from _claims(each)


# The splitting prompt: a question about several things becomes a question about each (paper 3.3).

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
_QUESTION_END = re.compile(r"(?<=\?)[\"'”]?[,;]?\s+(?=\S)")
_LONGEST_LINE = 400
"""Characters; a longer line is prose that went astray, not a query. Ours."""


def split_prompt(question: str, limit: int) -> list[Message]:
    """The messages that ask for at most ``limit`` sub-questions."""
    return [Message("system", SPLIT_INSTRUCTIONS.format(limit=limit)), Message("user", neutralise(question).strip())]


def parse_split(reply: str, question: str, limit: int) -> list[str]:
    """``read_split``; ``question`` alone when the reply holds nothing that can be used."""
    try:
        return read_split(reply, limit)
    except ReplyError:
        return [question]


def read_split(reply: str, limit: int) -> list[str]:
    """At most ``limit`` different sub-questions.

    When any line is a question, lines that are none (headings, remarks) are left out. Raises ReplyError when no line
    can be looked up.
    """
    pieces = [piece for line in strip_thought(reply).splitlines() for piece in _QUESTION_END.split(line)]
    usable = [line for line in map(_bare, pieces) if _usable(line)]
    asked = [line for line in usable if line.endswith("?")]
    different: dict[str, str] = {}
    for line in asked or usable:
        different.setdefault(same_words(line), line)
    if not different:
        raise ReplyError("The reply holds no sub-question. One question a line was asked for, and nothing else.")
    return list(different.values())[:limit]


def same_words(query: str) -> str:
    """A form in which two queries that differ only in case, spacing or punctuation are equal."""
    return " ".join(re.findall(r"\w+", query.casefold()))


def _bare(line: str) -> str:
    return _BULLET.sub("", line.strip(), count=1).rstrip(_TRAIL).strip()


def _usable(line: str) -> bool:
    return len(line.split()) > 1 and not line.endswith(":") and len(line) <= _LONGEST_LINE


# The prompt of one step of reasoning (paper section 3.3).
#
# A step reads the passages gathered so far and replies with what they establish, what to look for next, and the answer
# if they already hold it. The reply is text of a model that has read documents: the next query goes to the retriever
# and nowhere else.

STEP_INSTRUCTIONS = """The question may need several look-ups, one after the other. Reply in this form:
Evidence: [n] "exact words copied from passage n" that help
Query: one question that looks up the next missing fact, or none
Answer: the shortest complete answer if the passages hold it, or none"""

_STEP_LABEL = label_pattern(r"evidence|(?:next[ \t_-]*)?(?:query|question)|(?:final[ \t]+)?answer")
_NO_ANSWER = re.compile(r"(?:none|n/?a|null|nil|not (?:yet )?(?:known|found|available))?", re.IGNORECASE)
"""Ways to say that there is no answer yet. "No" is not among them: it answers a yes-or-no question."""
_NO_QUERY = re.compile(rf"{_NO_ANSWER.pattern}|no(?:thing)?(?: (?:more|further).*)?", re.IGNORECASE)
_LONGEST_QUERY = 400
"""Characters of a next query that are kept; ours."""


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """``answer`` and ``query`` are empty when the reply gave none."""

    answer: str = ""
    query: str = ""
    evidence: tuple[Evidence, ...] = ()


def step_prompt(question: str, passages: Sequence[Passage]) -> list[Message]:
    """The messages of one step over the passages gathered so far."""
    return framed_prompt(STEP_INSTRUCTIONS, question, passages)


def parse_step(reply: str) -> ParsedStep:
    """``read_step``; all empty for a reply without any label."""
    try:
        return read_step(reply)
    except ReplyError:
        return ParsedStep()


def read_step(reply: str) -> ParsedStep:
    """Read a reply. The first label of each kind counts. A reply of one question and no label is the next query.

    "unanswerable" is no answer here: the next look-up may still find the evidence. Raises ReplyError when there is
    neither a label nor a question.
    """
    unlabelled, found = cut_at_labels(_STEP_LABEL, strip_thought(reply))
    if not found and unlabelled.endswith("?") and "\n" not in unlabelled:
        found = [("query", unlabelled)]
    sections: dict[str, str] = {}
    for label, section in found:
        kind = "answer" if label.endswith("answer") else "evidence" if label == "evidence" else "query"
        sections.setdefault(kind, section)
    if not sections:
        raise ReplyError("The reply has none of the lines Evidence, Query and Answer. These three were asked for.")
    answer, references = take_references(clean(_unless(_NO_ANSWER, sections.get("answer", ""))))
    if says_unanswerable(answer):
        answer = ""
    query = _unless(_NO_QUERY, sections.get("query", "").split("\n")[0])
    claims = parse_evidence(_unless(_NO_QUERY, sections.get("evidence", "")))
    return ParsedStep(answer, query[:_LONGEST_QUERY], claims or references)


def _unless(nothing: re.Pattern[str], text: str) -> str:
    """``text``, or the empty string where it only says that there is none."""
    return "" if nothing.fullmatch(text.strip(" \t\n.*_\"'`()[]<>-")) else text.strip()


# One worked example for each role, for small generators that do not follow a contract from its description alone.
#
# A demonstration costs 60 to 130 tokens a call, so it is shown only where ``llm.demonstrations`` asks for it. The
# paper shows one for splitting and for stepping to every generator (appendix, Tables 8 and 9); ours stand in the split
# prompt's own text, and here.

_YARD = "Fernhill sold 310 boats in 2021. Its yard in Oslo has 44 workers."
_CHIEF = "Mara Lind has led Fernhill since 2016."


def _passage(text: str) -> Passage:
    return Passage("fernhill-2021", 0, len(text), text, 0, 0.0)


def _turn(asked: Sequence[Message], reply: str) -> tuple[Message, Message]:
    return asked[-1], Message("assistant", reply)


_READ = _turn(
    answer_prompt("Who leads Fernhill?", [_passage(_YARD), _passage(_CHIEF)]),
    f'Evidence: [2] "{_CHIEF}"\nAnswer: Mara Lind',
)

DEMONSTRATIONS: dict[str, tuple[Message, Message]] = {
    "generate": _READ,
    "full_text": _READ,
    "split": _turn(
        split_prompt("Who sold more boats in 2021, Fernhill or Marrow Bay?", 4),
        "How many boats did Fernhill sell in 2021?\nHow many boats did Marrow Bay sell in 2021?",
    ),
    "step": _turn(
        step_prompt("Where did the leader of Fernhill study?", [_passage(_CHIEF)]),
        f'Evidence: [1] "{_CHIEF}"\nQuery: Where did Mara Lind study?\nAnswer: none',
    ),
}
"""By role: a question as the role's prompt puts it, and the reply that its contract wants."""

_READ_SHORT = (_READ[0], Message("assistant", "Mara Lind [2]"))
SHORT_DEMONSTRATIONS: dict[str, tuple[Message, Message]] = {
    **DEMONSTRATIONS,
    "generate": _READ_SHORT,
    "full_text": _READ_SHORT,
}
"""The same under the short contract."""


_SOLD = "How many boats did Fernhill sell in 2021?"
_COUNT = AnswerType("number")
_READ_TYPED = _turn(
    answer_prompt(_SOLD, [_passage(_YARD), _passage(_CHIEF)], wanted=_COUNT),
    '{"evidence": [{"passage": 1, "quote": "Fernhill sold 310 boats in 2021."}], "value": "310 boats", '
    '"period": "2021"}',
)
_READ_TYPED_SHORT = _turn(
    answer_prompt(_SOLD, [_passage(_YARD), _passage(_CHIEF)], short=True, wanted=_COUNT), "310 boats [1]"
)


def demonstrations(short: bool = False, wanted: AnswerType = TEXT) -> dict[str, tuple[Message, Message]]:
    """The examples by role, of the ``short`` contract or the full one, for questions of a type."""
    shown = SHORT_DEMONSTRATIONS if short else DEMONSTRATIONS
    if wanted == TEXT:
        return shown
    typed = _READ_TYPED_SHORT if short and wanted.kind != SCHEMA else _READ_TYPED
    return {**shown, "generate": typed, "full_text": typed}


def with_demonstration(
    messages: Sequence[Message], role: str, short: bool = False, wanted: AnswerType = TEXT
) -> list[Message]:
    """``messages`` with the role's example of ``demonstrations`` after the system message; as they are for a role that
    has none.
    """
    shown = demonstrations(short, wanted).get(role)
    return list(messages) if shown is None else [messages[0], *shown, *messages[1:]]
