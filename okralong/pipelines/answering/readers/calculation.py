"""Compute plainly worded calculations over figures that code finds in one document."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.readers.named import LONGEST_QUESTION, named_document
from okralong.pipelines.answering.readers.reader import Reader
from okralong.pipelines.answering.readers.statement import stated_in_document
from okralong.pipelines.answering.readers.two_years import amounts_of_years
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Document
from okralong.pipelines.statements.arithmetic import calculation_of, worked_out
from okralong.pipelines.statements.periods import YEAR


class Calculation(Reader):
    """Computes percentage changes, differences, ratios and averages, without look-ups or calls."""

    way = "calculation"

    def fits(self, ask: Ask) -> bool:
        """Return whether the policy enables calculations by code."""
        return ask.tools.reads_answers and ask.tools.policy.read.calculations

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the result (see ``read_calculation``)."""
        found = await read_calculation(ask.tools, ask.question)
        if found is None or (ask.wanted.kind in ("percent", "number") and not ask.wanted.many):
            return found
        return replace(found, value=None)  # of another type, or of none


async def read_calculation(tools: Tools, question: str) -> Answer | None:
    """Return the result, or None if the question states no calculation or an operand is not found."""
    wanted = calculation_of(question) if len(question) <= LONGEST_QUESTION else None
    if wanted is None:
        return None
    asked = [await named_document(tools, operand) for operand in wanted.operands]
    ones = [one for one in asked if one is not None]
    if len(ones) < len(asked):
        return None
    # Each operand may name the report of its year; the last report states both years alike.
    ones = [(ones[-1][0], question) for _, question in ones] if wanted.operation != "ratio" else ones
    if len({document.doc_id for document, _ in ones}) > 1:
        return None
    found = [await asyncio.to_thread(_operand, *one) for one in ones]
    answers = [answer for answer in found if answer is not None]
    if len(answers) < len(found) and wanted.operation != "ratio":
        document, measure = ones[-1]
        years = [YEAR.findall(operand)[-1] for operand in wanted.operands]
        stated = await asyncio.to_thread(amounts_of_years, measure, years, document)
        answers = list(stated or ())
    return worked_out(wanted, answers) if len(answers) == len(found) else None


def _operand(document: Document, question: str) -> Answer | None:
    found = (stated_in_document(document, question, kind) for kind in ("money", "number", "percent"))
    return next((answer for answer in found if answer is not None and answer.status == "answered"), None)
