"""The answer prompt, its contract and its parser.

Contract of a reply, short enough for a model of 135M parameters::

    Evidence: [2] "exact words of passage 2"
    Answer: 4.2 million euros

or ``Answer: unanswerable``. The evidence comes first, since a model that has just copied the words answers from them.
With the calculator on, a calculation is answered by a formula such as ``=12.5 - 10 %``, which
``operators/calculate.py`` works out. The parser forgives a missing or oddly written label (then the whole reply is the
answer) and an answer that comes first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.prompts.evidence import Evidence, parse_evidence, take_references
from okralong.pipelines.answering.prompts.frame import framed_prompt
from okralong.pipelines.answering.prompts.labels import cut_at_labels, label_pattern, strip_thought
from okralong.pipelines.core.types import Message, Passage, ReplyError

INSTRUCTIONS = """Reply in this form:
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

_LABEL = label_pattern(r"(?:(?:final|short)\s+)?answer|evidence|sources?|citations?|quotes?")
_ANSWER_IS = re.compile(r"^the\s+(?:final\s+)?answer\s+is\s*:?\s+", re.IGNORECASE)
_NOTHING = re.compile(r"the (?:final )?answer(?: to (?:this|the) question)? is:?", re.IGNORECASE)
"""What small models write before they run dry."""
_MARKS = '"\u201c\u201d\u201e\u00ab\u00bb'
"""Quote marks that open or close a quotation."""
_SUBJECT = r"(?:(?:the|this|your)\s+question|it|the\s+answer|this)\s+"
_SCOPE = r"(?:\s+(?:from|based|with|given|using|in|by)\b.*)?"
_UNANSWERABLE = re.compile(
    rf"(?:(?:{_SUBJECT}is\s+)?(?:un-?answerable|not\s+answerable)|(?:{_SUBJECT})(?:cannot|can't|can\s+not)\s+be\s+answered)"
    rf"{_SCOPE}",
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


def answer_prompt(question: str, passages: Sequence[Passage], calculator: bool = False) -> list[Message]:
    """The messages that ask for an answer from ``passages``; with ``calculator``, for a formula where one is needed."""
    return framed_prompt(INSTRUCTIONS.format(calculation=FORMULA if calculator else RESULT), question, passages)


def parse_answer(reply: str) -> ParsedAnswer:
    """Read a reply.

    The first Answer label counts that does not stand inside a quotation, which a document may have written; where all
    do, since a mark was never closed, the last. Raises ReplyError when there is no answer in the reply at all.
    """
    unlabelled, sections = cut_at_labels(_LABEL, strip_thought(reply))
    answer, references = take_references(clean(_answer(sections) or unlabelled))
    if _NOTHING.fullmatch(answer):
        answer = ""
    if not answer:
        raise ReplyError(
            f"The reply holds no answer: {reply[:120]!r}. Give llm.max_completion_tokens more room if it was cut short."
        )
    if says_unanswerable(answer):
        return ParsedAnswer(UNANSWERABLE)
    evidence = [section for label, section in sections if not label.endswith("answer")]
    claims = tuple(claim for section in evidence for claim in parse_evidence(section))
    return ParsedAnswer(answer, tuple(dict.fromkeys(claims or references)))


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
    """Without markdown stars, wrapping quote marks and a leading "the answer is"."""
    answer = _ANSWER_IS.sub("", answer.strip().strip("*").strip())
    if len(answer) > 1 and answer[0] in '"“' and answer[-1] in '"”' and not set(answer[1:-1]) & set('"“”'):
        answer = answer[1:-1]
    return answer.strip()


def says_unanswerable(answer: str) -> bool:
    """Whether ``answer`` is the word "unanswerable" or an obvious way to say it, such as "not answerable" or "This
    question cannot be answered from the passages". A vague "I do not know" is an answer (a poor one), not this word.
    """
    return _UNANSWERABLE.fullmatch(answer.strip(" \t\n.!*_\"'`()[]<>")) is not None
