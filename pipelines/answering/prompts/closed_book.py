"""The answer prompt without passages, for a route that looks nothing up. Its reply is read by ``prompts/answer.py``."""

from __future__ import annotations

from typing import Final

from okralong.pipelines.answering.prompts import FORMULA, RESULT, neutralise
from okralong.pipelines.core.types import QUESTION_MARK, Message

INSTRUCTIONS: Final = """You answer questions from what you know. Reply in this form:
Answer: the shortest complete answer
{calculation}
If you do not know it, reply only: Answer: unanswerable"""


def closed_book_prompt(question: str, calculator: bool = False) -> list[Message]:
    """The messages; with ``calculator``, a formula is asked for where one is needed."""
    instructions = INSTRUCTIONS.format(calculation=FORMULA if calculator else RESULT)
    return [
        Message("system", instructions),
        Message("user", f"{QUESTION_MARK.strip()} {neutralise(question).strip()}"),
    ]
