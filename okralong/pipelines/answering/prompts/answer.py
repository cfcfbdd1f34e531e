"""The answer prompt and the parser of its replies.

Contract of a reply::

    Evidence: [2] "exact words of passage 2"
    Answer: 4.2 million euros

or ``Answer: unanswerable``. The evidence comes first, because a model that has just copied the words answers from them.
With the calculator, a calculation is answered by a formula such as ``=12.5 - 10 %``, which ``calculate`` evaluates.

The short contract is for models that do not follow the full one: ``4.2 million euros [2]``, or ``unanswerable``. The
cited words are found afterwards (``citations.best_line``).

One parser reads both. A reply that violates the contract is an answer without evidence; only an empty reply is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from okralong.pipelines.answering.answer_types import SCHEMA, TEXT, AnswerType
from okralong.pipelines.answering.languages import language_name
from okralong.pipelines.answering.prompt_text import (
    JSON_BEGUN,
    REFERENCES,
    THOUGHT_TAG,
    Evidence,
    cut_at_labels,
    first_json,
    framed_prompt,
    label_pattern,
    parse_evidence,
    same_words,
    strip_thought,
    take_references,
)
from okralong.pipelines.answering.prompts.typed import TYPED_FORMULA, TYPED_INSTRUCTIONS, short_form, typed_prompt
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.types import Message, Passage, ReplyError

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
"""The instructions for calculations without the calculator and with it."""

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
"""Unfinished answers, as small models write them."""
_LEAD_IN = re.compile(
    r"^(?:(?:sure|certainly|of course|okay|ok|yes, here)\b[^\n:.!]{0,60}[!:.]\s+(?=\S))?"
    r"(?:(?:here(?:'s|\u2019s| is| are)|below is)\b[^\n:]{0,80}:\s+(?=\S))?"
    r"(?:(?:according to|based (?:up)?on|from)\s+(?:the\s+)?(?:(?:given|provided|numbered|above)\s+)?"
    r"(?:passages?|context|documents?|text|information)(?:\s+(?:provided|given|above))?(?:\s*\[?\d{1,3}\]?)?,\s+(?=\S))?",
    re.IGNORECASE,
)
"""Polite phrases before an answer."""
_SPEAKER = re.compile(r"^(?:assistant|response|output|reply|result|a)\s*[:\uff1a]\s*(?=\S)", re.IGNORECASE)
_ASKED_AND_SAID = re.compile(r"\AQ\s*[:.]\s*(?P<asked>[^\n]+)\n+\s*A\s*[:.]", re.IGNORECASE)
_WITHIN_LINE = re.compile(r"(?<=[.!?\"\u201d\])])[ \t]+(?=(?:final\s+)?answer\s*[:\uff1a])", re.IGNORECASE)
"""The position before the label "Answer" within a line."""
_CONCLUDES = re.compile(r"\banswer\s+is\b\s*+:?+\s*+(?=\S)", re.IGNORECASE)
_BOXED = re.compile(r"\A\$*\\boxed\{(.*)\}\$*\.?\Z", re.DOTALL)
_IN_JSON = re.compile(
    r'\A[^{]{0,80}\{.*?"(?:final_?)?answer"\s*:\s*(?:"(?P<text>(?:[^"\\]|\\.)*)|(?P<bare>[^\s",}\]]+))',
    re.DOTALL | re.IGNORECASE,
)
"""An answer in a JSON object, which may be truncated."""
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
    """The answer's text (``UNANSWERABLE`` if the evidence is missing), and the claimed sources."""

    answer: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def unanswerable(self) -> bool:
        """True if the model says that the passages do not contain the answer."""
        return self.answer == UNANSWERABLE

    @property
    def only_number(self) -> bool:
        """True if the answer is only the number of a passage, such as "[2]"."""
        return REFERENCES.fullmatch(self.answer) is not None


def answer_prompt(
    question: str,
    passages: Sequence[Passage],
    calculator: bool = False,
    short: bool = False,
    wanted: AnswerType = TEXT,
    language: str = ENGLISH,
) -> list[Message]:
    """Return the messages that ask for an answer from ``passages``.

    Args:
        question: The question.
        passages: The passages to show.
        calculator: Whether to ask for a formula where a calculation is needed.
        short: Whether to use the short contract.
        wanted: The type of the answer. A typed reply is one JSON object, unless the contract is short (``read_typed``).
        language: The language of the question, in which an answer in words is requested.
    """
    said = answer_in(language, wanted)
    if wanted != TEXT and (not short or wanted.kind == SCHEMA):
        instructions = TYPED_INSTRUCTIONS.format(calculation=f"{TYPED_FORMULA}\n" if calculator else "")
        return typed_prompt(instructions + said, question, passages, wanted)
    if short:
        instructions = SHORT_INSTRUCTIONS.format(calculation=f"{FORMULA}\n" if calculator else "")
        if wanted != TEXT:
            told = f"{question.strip()}\nAnswer with {short_form(wanted)}."
            return framed_prompt(instructions + said, told, passages)
    else:
        instructions = ANSWER_INSTRUCTIONS.format(calculation=FORMULA if calculator else RESULT)
    return framed_prompt(instructions + said, question, passages)


_IN_LANGUAGE: Final = (
    "\nWrite the answer in {language}, with numbers as the passages write them. Copy quotations in the language of "
    "their passage. The labels and the word unanswerable stay in English."
)


def answer_in(language: str, wanted: AnswerType = TEXT) -> str:
    """Return the words that request an answer in a language; "" for English and for values that are not words."""
    if language == ENGLISH or wanted.kind not in (TEXT.kind, SCHEMA):
        return ""
    return _IN_LANGUAGE.format(language=language_name(language))


def parse_answer(reply: str, question: str = "") -> ParsedAnswer:
    """Parse a reply under either contract, and any other reply that is not empty.

    The first label "Answer" outside a quotation counts, since a quoted document may contain one; if all are inside,
    because a quotation was never closed, the last one counts. If there is none, the answer is the text before the first
    label, or else an explanation, or else the evidence quoted before the reply was truncated, or else the conclusion of
    the thoughts. A ``question`` that the reply repeats is removed.

    Raises:
        ReplyError: The reply has no content.
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
    """Return whether a reply that reached its limit was truncated within the answer.

    The answer is complete if something follows it: the end of the line under the ``short`` contract, another part of
    the reply under the full one, or the end of a JSON object under either.
    """
    text = strip_thought(reply)
    if first_json(text, "{") is not None:
        return False
    if JSON_BEGUN.match(text.lstrip()):
        return True
    unlabelled, sections = cut_at_labels(_ANSWER_LABEL, _WITHIN_LINE.sub("\n", text))
    labelled = [at for at, (label, said) in enumerate(sections) if label.endswith("answer") and said]
    said = sections[labelled[0]][1] if labelled else unlabelled if short else ""
    rest = sections[labelled[0] + 1 :] if labelled else sections
    line_ended = "\n" in reply[len(reply.rstrip()) :] or (short and "\n" in said)
    return not said or not (rest or line_ended)


def _candidates(unlabelled: str, sections: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield _answer(sections)
    yield unlabelled
    for label, section in sections:
        if not label.endswith("answer") and not label.startswith(_EVIDENCE_LABELS):
            yield section.partition("\n")[2] if label == "question" else section


def _bare_answer(text: str, question: str) -> str:
    """Return a part of a reply without the text that small models write around an answer."""
    text = text.strip()
    first, _, rest = text.partition("\n")
    if question and rest.strip() and same_words(first) == same_words(question):
        text = rest.strip()
    text = clean(_LEAD_IN.sub("", _SPEAKER.sub("", text), count=1))
    return "" if _NOTHING.fullmatch(text) or not any(char.isalnum() for char in text) else text


def _in_json(text: str) -> tuple[str, list[str]] | None:
    """Return the answer and the evidence in a JSON object, or None if the reply is not one."""
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
    """Return the conclusion, or else the last line, of a reply that reached its limit within its thoughts."""
    thought = THOUGHT_TAG.sub("", reply)
    if thought == reply:
        return ""
    conclusions = list(_CONCLUDES.finditer(thought))
    text = thought[conclusions[-1].end() :].partition("\n")[0] if conclusions else ""
    lines = [line for line in thought.splitlines() if any(char.isalnum() for char in line)]
    return clean(text) or (clean(lines[-1]) if lines else "")


def _answer(sections: Sequence[tuple[str, str]]) -> str:
    """Return the text under the Answer label that counts, or ""."""
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
    """Return ``answer`` without markdown, a LaTeX box, wrapping quote marks and a leading "the answer is"."""
    answer = _ANSWER_IS.sub("", answer.strip().strip("*`").strip())
    boxed = _BOXED.match(answer)
    answer = boxed[1] if boxed is not None else answer.strip("*`").strip()
    if len(answer) > 1 and answer[0] in '"“' and answer[-1] in '"”' and not set(answer[1:-1]) & set('"“”'):
        answer = answer[1:-1]
    return answer.strip()


def says_unanswerable(answer: str) -> bool:
    """Return whether ``answer`` is "unanswerable" or an obvious variant, such as "not answerable".

    A vague "I do not know" counts as an answer.
    """
    return _UNANSWERABLE.fullmatch(answer.strip(" \t\n.!*_\"'`()[]<>")) is not None
