"""Answer with the span or sentence of the retrieved chunks that is most probable according to the cross-encoder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from okralong.pipelines.answering.answer_kinds import YES_NO, kind_asked
from okralong.pipelines.answering.answer_types import TEXT
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.context import passage_of, passages_to_read
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.readers.reader import Reader, cross_encoder_reads
from okralong.pipelines.answering.readers.spans import LONGEST_LINE, cited, span_answer
from okralong.pipelines.answering.retrieve import pool
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.sentences import sentence_ends
from okralong.pipelines.core.types import Answer, Hit

SURER: Final = 0.1  # project default
"""Two sentences are preferred to the best single one if the answer is more probable in them by at least this much."""
SHORTEST_SENTENCE: Final = 20  # project default
"""Fewest characters of a sentence that may be an answer."""
MOST_SENTENCES: Final = 150  # project default
"""The most sentences read for one question, those of the best chunks first."""
_PARAGRAPH_END: Final = re.compile(r"\n\s*\n\s*")


class Span(Reader):
    """Answers questions without an answer type. Those for yes or no it can only refuse: no span says that."""

    way = "span"
    stage = "after"
    workflows = ("linear", "extend")

    def fits(self, ask: Ask) -> bool:
        """Return whether the cross-encoder may answer and text is wanted."""
        return cross_encoder_reads(ask) and ask.wanted == TEXT

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the best sentence for an abstractive question, the best span for others. Step: ``read``."""
        hits = pool([hits for _, hits in finds])
        if kind_asked(ask.question) == YES_NO:
            return await read_nothing(ask.tools, "read", ask.question, hits)
        if ask.is_one_of(["abstractive"]):
            return replace(await read_sentence(ask.tools, "read", ask.question, hits), way="sentence")
        return await read_span(ask.tools, "read", ask.question, hits)


async def read_nothing(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer | None:
    """Return "unanswerable" if no chunk reaches the policy's ``read.threshold``, else None."""
    shown = await passages_to_read(hits, tools)
    readings = await tools.read(step, question, [passage.shown_text for passage in shown]) if shown else []
    if max((each.answerable or 0.0 for each in readings), default=0.0) >= tools.policy.read.threshold:
        return None
    return Answer("unanswerable", UNANSWERABLE, context=shown)


async def read_span(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer:
    """Return the most probable span of the chunks that is of the kind asked for, citing its line or sentence.

    The answer is "unanswerable" if no chunk reaches the policy's ``read.threshold``, or if no such span is nearly as
    probable as the best one.
    """
    shown = await passages_to_read(hits, tools)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    readings = await tools.read(step, question, [passage.shown_text for passage in shown])
    found = span_answer(shown, readings, kind_asked(question), question)
    # Any passage may show that there is an answer, but only one with a span shows where it is.
    if max(each.answerable or 0.0 for each in readings) < tools.policy.read.threshold or not found.answer:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    return found


async def read_sentence(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer:
    """Return the sentence of the chunks that most probably answers a question such as "why ...".

    Each sentence is read alone and together with the one before it in the paragraph, which may say what "it" is. The
    pair is preferred if it is more probable by ``SURER``. The answer is "unanswerable" if no sentence reaches the
    policy's ``read.threshold``.
    """
    shown = tuple(passage_of(hit) for hit in hits)
    alone = [(passage, *place) for passage in shown for place in _sentences(passage.text)][:MOST_SENTENCES]
    if not alone:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    two = [
        (passage, start, stop)
        for (passage, start, end), (other, begin, stop) in pairwise(alone)
        if passage is other and not _PARAGRAPH_END.search(passage.text[end:begin])
    ]
    places = alone + two
    readings = await tools.read(step, question, [passage.text[start:end] for passage, start, end in places])
    sure = [(each.answerable or 0.0) - SURER * (n >= len(alone)) for n, each in enumerate(readings)]
    best = max(range(len(places)), key=lambda n: (sure[n], readings[n].relevance))
    if (readings[best].answerable or 0.0) < tools.policy.read.threshold:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    source = cited(*places[best])
    signals = {"span_probability": readings[best].answerable or 0.0}
    return Answer("answered", " ".join(source.quote.split()), (source,), context=shown, signals=signals)


def _sentences(text: str) -> list[tuple[int, int]]:
    # A line may end within a sentence, but a paragraph does not.
    ends = sorted({*sentence_ends(text), *(match.end() for match in _PARAGRAPH_END.finditer(text)), len(text)})
    places = [(start, start + len(text[start:end].rstrip())) for start, end in pairwise([0, *ends])]
    return [(start, min(end, start + LONGEST_LINE)) for start, end in places if end - start >= SHORTEST_SENTENCE]
