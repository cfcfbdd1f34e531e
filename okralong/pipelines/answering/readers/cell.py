"""Find typed answers in the retrieved chunks: in a statement's row, or else in the most probable span with a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT, AnswerType, typed_value
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.readers.reader import Reader, cross_encoder_reads
from okralong.pipelines.answering.readers.sentences import stated_in
from okralong.pipelines.answering.readers.span import read_nothing
from okralong.pipelines.answering.readers.spans import cited, level_of, line_around, probability, whole_words
from okralong.pipelines.answering.retrieve import pool
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Document, Hit
from okralong.pipelines.statements.amounts import has_cells
from okralong.pipelines.statements.choice import answer_of, choose, contradicts, with_unit
from okralong.pipelines.statements.periods import Span
from okralong.pipelines.statements.values import Context, spans_of

BOOLEAN: Final = AnswerType("boolean")


class Cell(Reader):
    """Answers questions with an answer type."""

    way = "value"
    stage = "after"
    workflows = ("linear", "extend")

    def fits(self, ask: Ask) -> bool:
        """Return whether the cross-encoder may answer and a value is wanted."""
        return cross_encoder_reads(ask) and ask.wanted != TEXT

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the value (see ``read_cell``). Questions for yes or no can only be refused."""
        if ask.wanted == BOOLEAN:
            return await read_nothing(ask.tools, "read", ask.question, pool([hits for _, hits in finds]))
        return await read_cell(ask.tools, ask.question, pool([hits for _, hits in finds]), ask.wanted)


async def read_cell(tools: Tools, question: str, hits: Sequence[Hit], wanted: AnswerType) -> Answer | None:
    """Return the typed answer found in chunks, with the scale and currency that the document states.

    If the scope is one document, a row whose label fits the question is preferred. Otherwise the most probable span
    with a value is used (``read_value_of``). Step: ``read``.
    """
    amount, gives = wanted.kind in AMOUNTS and not wanted.many, stated_in(question, wanted.kind)
    if amount and hits and tools.scope_size == 1:
        document = await tools.full_text(hits[0].chunk.doc_id)
        passages = [passage_of(hit) for hit in hits]
        spans = [(passage.start_char, passage.end_char) for passage in passages]
        row = await off_loop(len(document.text), partial(choose, question, wanted.kind, document, spans))
        if row is not None:
            read = answer_of(row, document)
            return replace(read, context=tuple(passages), way="row" if read.way == "cell" else read.way)
        if gives is not None:  # the reader ``Statement`` has already read all sentences of the document
            gives = _none_in
    found = await read_value_of(tools, "read", question, hits, wanted, gives)
    if found is None or not amount or not found.citations:
        return found
    document = await tools.full_text(found.citations[0].doc_id)
    return await off_loop(len(document.text), partial(_checked, question, wanted.kind, found, document))


def _checked(question: str, kind: str, answer: Answer, document: Document) -> Answer:
    """Return the answer with the unit of its cell; "unanswerable" if the cell is for another period or line item."""
    if contradicts(question, kind, answer, document):
        return Answer("unanswerable", UNANSWERABLE, context=answer.context)
    return with_unit(answer, document)


def _none_in(sentence: str) -> Span | None:
    return None


NEARLY: Final = 0.25  # project default
"""A span with a value is preferred to one without if it has at least this share of the best span's probability."""


async def read_value_of(
    tools: Tools,
    step: str,
    question: str,
    hits: Sequence[Hit],
    wanted: AnswerType,
    gives: Callable[[str], Span | None] | None = None,
) -> Answer | None:
    """Return the most probable span of the chunks with a value of the wanted type.

    If a span has no value (it may be a row's label), a value in its line is used. The answer is "unanswerable" if no
    chunk reaches the policy's ``read.threshold``.

    Args:
        tools: The tools of the question.
        step: Step of the reading.
        question: The question.
        hits: The chunks to read.
        wanted: The type of the answer.
        gives: Returns the amount that a sentence states for the question, or None. If given, other amounts in sentences
            are ignored, and the question is unanswerable if none remains.

    Returns:
        None if no span nearly as probable as the best one leads to a value, or if spans cannot have values of the type:
            a boolean is not written in texts, and a list is more than one span.
    """
    if wanted.many or wanted.kind not in (*AMOUNTS, "date", "period", "choices"):
        return None
    shown = tuple(passage_of(hit) for hit in hits)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    readings = await tools.read(step, question, [passage.text for passage in shown])
    if max(each.answerable or 0.0 for each in readings) < tools.policy.read.threshold:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    ranked = sorted(zip(shown, readings, strict=True), key=lambda pair: -probability(pair[1]))
    least = NEARLY * probability(ranked[0][1])
    likely = [(passage, reading) for passage, reading in ranked if probability(reading) >= least]
    for place in (_in_span, _in_line):
        for passage, reading in likely:
            span = whole_words(passage.text, reading.start, reading.end)
            for first, last in place(wanted, passage.text, *span):
                level = level_of(wanted.kind, passage.text, (first, last), question)
                begin, stop = line_around(passage.text, first, last)
                if gives is not None and not has_cells(passage.text[begin:stop]):
                    stated = gives(passage.text[begin:stop])
                    level = None if stated is None else (begin + stated[0], begin + stated[1])
                if level is None:
                    continue
                first, last = level
                if wanted.kind == "date":
                    first, last = _date_of_event(question, passage.text, begin, stop) or (first, last)
                context = Context(passage.text, first, last, question, verbatim=True)
                said = passage.text[first:last].strip()
                try:
                    value = typed_value(wanted, [(said, "", context)])
                except ValueError:
                    continue
                source = cited(passage, *line_around(passage.text, first, last))
                signals = {"span_probability": probability(reading), "value_in_span": float(place is _in_span)}
                return Answer("answered", said, (source,), context=shown, value=value, signals=signals)
    return None if gives is None else Answer("unanswerable", UNANSWERABLE, context=shown)


def _in_span(wanted: AnswerType, text: str, start: int, end: int) -> list[Span]:
    """Return the values of the type that overlap a span; a choice is the span itself."""
    if wanted.kind == "choices":
        return [(start, end)]
    return [span for span in spans_of(wanted.kind, text) if span[0] < end and span[1] > start][:1]


def _in_line(wanted: AnswerType, text: str, start: int, end: int) -> list[Span]:
    """Return the first value after a span in its line or sentence, or else the nearest one before it."""
    first, last = line_around(text, start, end)
    if wanted.kind == "choices":
        return [(first, last)]
    there = [span for span in spans_of(wanted.kind, text) if first <= span[0] and span[1] <= last]
    return [span for span in there if span[0] >= end][:1] or there[-1:]


_EVENT: Final = re.compile(
    r"\b(?:when|year|date|day|month)\b.*\b(?:was|were|is|been)\b.*?\b(?P<what>\w+ed)\s*\?\s*$", re.I
)


def _date_of_event(question: str, text: str, first: int, last: int) -> Span | None:
    """Return which of several dates in a line is that of the question's event, as in "founded in 1886", or None."""
    asked = _EVENT.search(question)
    if asked is None:
        return None
    dated = re.compile(rf"\b{re.escape(asked['what'])}\s(?:in|on|as\sof)\s(?:the\syear\s)?", re.IGNORECASE)
    done = dated.search(text, first, last)
    spans = [span for span in spans_of("date", text) if done and done.end() <= span[0] < last]
    return spans[0] if done and spans and spans[0][0] == done.end() else None
