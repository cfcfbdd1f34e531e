"""Find amounts in the whole text of one document: the row or sentence that states them.

A row's label or a sentence's subject identifies the amount; a cross-encoder would have to choose among many figures.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.answer_kinds import kind_asked
from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.readers.cover import asks_period, asks_shares, cover_shares, report_period
from okralong.pipelines.answering.readers.named import LONGEST_QUESTION, named_document
from okralong.pipelines.answering.readers.reader import Reader
from okralong.pipelines.answering.readers.sentences import stated
from okralong.pipelines.core.types import Answer, Document
from okralong.pipelines.statements.amounts import UNKNOWN
from okralong.pipelines.statements.asked import line_item_of
from okralong.pipelines.statements.choice import Choice, allows, answer_of, choose
from okralong.pipelines.statements.times import time_of


class Statement(Reader):
    """Answers questions for one amount or a report's period, without look-ups or calls."""

    way = "stated"

    def fits(self, ask: Ask) -> bool:
        """Return whether the run answers without the generator."""
        return ask.tools.reads_answers

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return what the document states: see ``read_statement``, and ``read_line_item`` for answers as text."""
        return await (read_line_item(ask) if ask.wanted == TEXT else read_statement(ask))


async def read_statement(ask: Ask) -> Answer | None:
    """Return the amount or the period that the only (or the named) document states, or None."""
    wanted, question = ask.wanted, ask.question
    amount = wanted.kind in AMOUNTS and wanted.kind != "percent"
    own_period = wanted.kind == "period" and asks_period(question)
    if wanted.many or not (amount or own_period) or len(question) > LONGEST_QUESTION:
        return None
    one = await named_document(ask.tools, question)
    if one is None:
        return None
    document, plain = one
    if own_period:
        return await asyncio.to_thread(report_period, document)
    return await asyncio.to_thread(stated_in_document, document, plain, wanted.kind)  # up to a second


_TYPES: Final = {"money": "money", "per share": "money", "shares": "number", "count": "number"}
"""The answer type of a line item, by its kind. Other kinds are ratios, which reports state in many ways."""
_ASKED: Final = {"money": ("amount", "money"), "number": ("amount", "count")}
"""The kinds of answer that a question for such an amount asks for."""


async def read_line_item(ask: Ask) -> Answer | None:
    """Return the line item of the only (or the named) document that a question without an answer type asks for.

    The answer is the amount with its scale: "$14.8 billion". Return None if the question asks for anything more than a
    line item of the whole company, or if no cell or sentence states it alone.
    """
    if len(ask.question) > LONGEST_QUESTION or (one := await named_document(ask.tools, ask.question)) is None:
        return None
    document, plain = one
    item = line_item_of(plain)
    kind = None if item is None else _TYPES.get(item.kind)
    if kind is None or kind_asked(plain).name not in _ASKED[kind] or time_of(plain) is None:
        return None
    found = await asyncio.to_thread(stated_in_document, document, plain, kind)
    if found is None or found.status != "answered" or found.value is None:
        return None
    scale = found.value.scale
    said = found.answer if scale in ("", UNKNOWN) or scale in found.answer.casefold() else f"{found.answer} {scale}"
    return replace(found, answer=said, value=None)


def stated_in_document(document: Document, question: str, kind: str) -> Answer | None:
    """Return the amount of a kind that a document states, or None.

    The answer is "unanswerable", with the reason, if a statement's cell says that there is no value, or if several
    cells fit and no sentence decides between them.

    Args:
        document: The document to search.
        question: The question without the document's name.
        kind: One of ``AMOUNTS``.
    """
    if kind == "number" and asks_shares(question) and (shares := cover_shares(document)) is not None:
        return shares
    found = choose(question, kind, document)
    if isinstance(found, Choice):
        return answer_of(found, document)
    item = line_item_of(question)
    said = None if item is None else stated(question, kind, item, document)
    if found is None or (said is not None and allows(found, said.value)):
        return said
    return answer_of(found, document)
