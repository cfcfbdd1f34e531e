"""Estimate confidence: the probability that an answer is right.

The cross-encoder reads the question with each passage of the answer's context. What the run knows about the answer is
recorded as signals (``answering/signals.py``), and a model of them gives the probability
(``answering/confidence_model.py``). Not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.agreement import holds
from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.signal_names import known
from okralong.pipelines.answering.signals import reading_signals, scope_signals, text_signals
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Citation, Passage

AROUND_CITATION: Final = 900  # project default: some 450 tokens together
"""Characters read on each side of a citation in a long passage."""


async def with_confidence(tools: Tools, question: str, answer: Answer, step: str = "check") -> Answer:
    """Add the signals and the confidence to ``answer``, unless it has them.

    Nothing is added if the run's config has ``confidence: none``. Step: ``step``, one reading of the shown passages, if
    the run has a cross-encoder.
    """
    model = tools.confidence
    if model is None or "passages" in answer.signals or answer.status not in ("answered", "unanswerable"):
        return answer
    texts = [_judged(passage, answer.citations) for passage in answer.context]
    readings = await tools.read(step, question, texts) if texts and tools.reads else []
    wanted, size, named = AnswerType.of(tools.answer_type), tools.scope_size, tools.named(question)

    def signals() -> dict[str, float]:
        found = {**scope_signals(size, named, answer), **text_signals(question, wanted, answer, texts)}
        if readings:
            found |= reading_signals(question, answer, texts, readings)
        return known({**found, **answer.signals})

    answer = replace(answer, signals=await off_loop(len(answer.answer) + sum(map(len, texts)), signals))
    return answer if answer.confidence is not None else replace(answer, confidence=model.estimate(answer))


def _judged(passage: Passage, citations: Sequence[Citation]) -> str:
    """Return the part of a passage to judge.

    This is all of a short passage. For a long one it is the part around its first citation, or else its beginning,
    since the cross-encoder reads only a limited length.
    """
    text = passage.shown_text
    if len(text) <= 2 * AROUND_CITATION:
        return text
    at = min((each.start_char for each in citations if holds(passage, each)), default=passage.start_char)
    middle = max(passage.shown_at(at), AROUND_CITATION)
    return text[middle - AROUND_CITATION : middle + AROUND_CITATION]
