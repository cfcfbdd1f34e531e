"""An answer without any passage: what the generator knows by itself."""

from __future__ import annotations

from okralong.pipelines.answering.generate import calculate
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
from okralong.pipelines.answering.prompts.closed_book import closed_book_prompt
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer


async def answer_closed_book(tools: Tools, step: str, question: str) -> Answer:
    """One call, no context and no citation. Raises what ``Tools.complete`` raises."""
    reply = await tools.complete(step, closed_book_prompt(question, tools.calculator), role="generate")
    parsed = parse_answer(reply.text)
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE)
    return Answer("answered", calculate(parsed.answer) if tools.calculator else parsed.answer)
