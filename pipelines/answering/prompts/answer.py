"""The answer prompt, its contract and its parser.

Contract of a reply, short enough for a model of 135M parameters::

    Answer: 4.2 million euros
    Evidence: [2] "exact words of passage 2"

or ``Answer: unanswerable``. The parser forgives a missing or oddly written label: then the whole reply is the answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.prompts.evidence import Evidence, parse_evidence, take_references
from okralong.pipelines.answering.prompts.frame import framed_prompt
from okralong.pipelines.errors import ReplyError
from okralong.pipelines.values import Message, Passage

INSTRUCTIONS = """Reply in this form:
Answer: the shortest complete answer
Evidence: [n] "exact words copied from passage n"
Write one Evidence line for each passage you used. For a calculation, give the result as the answer.
If the passages do not hold the answer, reply only: Answer: unanswerable"""

UNANSWERABLE = "unanswerable"

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"^[ \t>#*_-]*(?:(?P<answer>(?:final\s+|short\s+)?answer)|(?P<evidence>evidence|sources?|citations?|quotes?))"
    r"(?:\s*\d+)?[ \t*_]*:[ \t*_]*",
    re.MULTILINE | re.IGNORECASE,
)
_ANSWER_IS = re.compile(r"^the\s+(?:final\s+)?answer\s+is\s*:?\s+", re.IGNORECASE)
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


def answer_prompt(question: str, passages: Sequence[Passage]) -> list[Message]:
    """The messages that ask for an answer from ``passages``."""
    return framed_prompt(INSTRUCTIONS, question, passages)


def parse_answer(reply: str) -> ParsedAnswer:
    """Read a reply.

    The first Answer label counts, since a quotation further down may hold another. Raises ReplyError when there is no
    answer in the reply at all.
    """
    text = strip_thought(reply)
    answer, evidence = split_labels(text)
    if not answer and not evidence:
        answer = text.strip()
    answer, references = take_references(clean(answer))
    if not answer:
        raise ReplyError(
            f"The reply holds no answer: {reply[:120]!r}. Give llm.max_completion_tokens more room if it was cut short."
        )
    if says_unanswerable(answer):
        return ParsedAnswer(UNANSWERABLE)
    claims = tuple(claim for section in evidence for claim in parse_evidence(section))
    return ParsedAnswer(answer, tuple(dict.fromkeys(claims or references)))


def split_labels(text: str) -> tuple[str, list[str]]:
    """``(answer, evidence sections)``: what follows each label, up to the next one.

    Text before the first label is the answer when no Answer label comes.
    """
    labels = list(_LABEL.finditer(text))
    ends = [*(label.start() for label in labels[1:]), len(text)]
    sections = [(label, text[label.end() : end].strip()) for label, end in zip(labels, ends, strict=True)]
    answers = [section for label, section in sections if label["answer"] and section]
    evidence = [section for label, section in sections if label["evidence"] and section]
    unlabelled = text[: labels[0].start()].strip() if labels else text.strip()
    return (answers[0] if answers else unlabelled), evidence


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


def strip_thought(reply: str) -> str:
    """``reply`` without the <think> block that reasoning models put first."""
    return _THOUGHT.sub("", reply).strip()
