"""Standard RAG, the baseline of paper section 4.2: the top five chunks of 512 tokens by dense vectors, one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question

NEEDS_VECTORS: Final = True


def granularities(policy: Policy) -> list[int]:
    """The chunk size that the archive must hold. Said here, though the registry knows it of the strategies that ship:
    this file is where one of your own begins."""
    return [policy.std_rag.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, ``generate``. The chunks are shown as they are, best first."""
    size, count = tools.policy.std_rag.granularity, tools.policy.std_rag.count
    plan = plain_plan(size, count, f"standard RAG: the {count} best dense chunks of {size} tokens")
    plan = await tools.record_plan("plan", plan)
    hits = await dense_retrieval(tools, "retrieve", question.question, plan)
    result = await generate(tools, "generate", question.question, [passage_of(hit) for hit in hits], hits)
    return replace(result, plan=plan)
