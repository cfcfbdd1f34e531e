"""What the cross-encoder says of answers: it reads one off the passages, and judges those that a generator gave.

Ours, not in the paper. Both rest on the same reading of question and passage: whether the answer is there, and where.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Citation, Hit, Passage, Reading

CONFIDENCE: Final = "confidence.json"
"""Beside a cross-encoder's weights: the fitted weights of the features."""

WEIGHTS: Final = (0.0, 1.0, 0.0, 0.0, 0.0)
"""Of the features of ``features`` and, first, the constant, where the cross-encoder has no fitted ones."""

LONGEST_LINE: Final = 400
"""Characters around an answer that are quoted as its source at most; ours."""


async def read_answer(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer:
    """The most probable span of the chunks as the answer, its line or sentence as citation; "unanswerable" where no
    chunk holds one with the policy's ``read.threshold``. Steps: ``step``.
    """
    shown = tuple(passage_of(hit) for hit in hits)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    readings = await tools.read(step, question, [passage.text for passage in shown])
    passage, reading = max(zip(shown, readings, strict=True), key=lambda pair: probability(pair[1]))
    sure = reading.answerable or 0.0
    text = passage.text[reading.start : reading.end].strip()
    if sure < tools.policy.read.threshold or not text:
        return Answer("unanswerable", UNANSWERABLE, context=shown, confidence=1.0 - sure)
    start, end = line_around(passage.text, reading.start, reading.end)
    at = passage.start_char
    source = Citation(passage.doc_id, at + start, at + end, passage.text[start:end])
    return Answer("answered", text, (source,), context=shown)


def probability(reading: Reading) -> float:
    """How probably the answer stands in the passage, at the place that the reading names."""
    return (reading.answerable or 0.0) * math.sqrt(reading.span or 0.0)


def line_around(text: str, start: int, end: int) -> tuple[int, int]:
    """The line that holds the characters, or of a long line the sentence; at most ``LONGEST_LINE`` around them."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    last = len(text) if last < 0 else last
    if last - first > LONGEST_LINE:
        first = max(first, text.rfind(". ", first, start) + 2 if ". " in text[first:start] else first)
        stop = text.find(". ", end, last)
        last = stop + 1 if stop >= 0 else last
        first, last = max(first, start - LONGEST_LINE), min(last, end + LONGEST_LINE)
    while first < start and text[first].isspace():
        first += 1
    return first, last


async def with_confidence(tools: Tools, question: str, answer: Answer, weights: Sequence[float] = WEIGHTS) -> Answer:
    """``answer`` with the probability that it is right, where it has none and there is something to judge it by.

    Steps: ``check``, one reading of the passages shown.
    """
    if answer.confidence is not None or not answer.context or answer.status not in ("answered", "unanswerable"):
        return answer
    readings = await tools.read("check", question, [passage.text for passage in answer.context])
    found = features(answer, readings)
    return replace(answer, confidence=sigmoid(sum(w * x for w, x in zip(weights, (1.0, *found), strict=True))))


def features(answer: Answer, readings: Sequence[Reading]) -> tuple[float, float, float, float]:
    """What an answer is judged by; ``readings`` are of the passages of its context.

    The logit of the best cited passage to hold an answer (of all shown ones where none is cited; of "unanswerable" the
    logit that none does), the F1 of the answer's words and those of that passage's most probable span, the share of the
    answer's words that stand in it, and 1 where a source is cited. Of "unanswerable" the last three are 0.
    """
    pairs = list(zip(answer.context, readings, strict=True))
    cited = [pair for pair in pairs if any(_holds(pair[0], each) for each in answer.citations)]
    passage, reading = max(cited or pairs, key=lambda pair: pair[1].answerable or 0.0)
    there = logit(reading.answerable or 0.0)
    if answer.status == "unanswerable":
        return -there, 0.0, 0.0, 0.0
    wanted = _words(answer.answer)
    span = _words(passage.text[max(0, reading.start) : max(0, reading.end)])
    shared, held = (wanted & span).total(), (wanted & _words(passage.text)).total()
    agreement = 2 * shared / max(1, wanted.total() + span.total())
    return there, agreement, held / max(1, wanted.total()), float(bool(cited))


def _holds(passage: Passage, citation: Citation) -> bool:
    return (
        passage.doc_id == citation.doc_id
        and citation.start_char < passage.end_char
        and citation.end_char > passage.start_char
    )


def _words(text: str) -> Counter[str]:
    return Counter("".join(char if char.isalnum() else " " for char in text.casefold()).split())


def logit(probability: float) -> float:
    """The logit of a probability, of one that is 0 or 1 that of a millionth from it."""
    sure = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(sure / (1 - sure))


def sigmoid(value: float) -> float:
    """The logistic function."""
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, value))))
