"""OkraLong in precise mode: the same, and the full text when the retrieved passages do not hold the answer."""

from __future__ import annotations

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.okralong import orchestrate


def granularities(policy: Policy) -> list[int]:
    """The chunk sizes that the archive must hold: the method's, and that of the full text's fallback."""
    return sorted({*policy.granularities(), policy.full_text.fallback_granularity})


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer by the plan, then from the full text if the reply is "unanswerable"."""
    return await orchestrate(question.question, tools, precise=True)
