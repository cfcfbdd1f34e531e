"""Standard RAG, a baseline (paper, section 4.2): answer from the five best chunks of 512 tokens by dense vectors."""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs


class Section(MethodSection):
    """Standard RAG's constants: the ``count`` best chunks of ``granularity`` tokens."""

    KEY = "std_rag"
    granularity: Tokens = 512
    count: Count = 5


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the chunks, best first. Steps: ``plan``, ``retrieve``, ``generate``."""
    policy = tools.policy.section(Section)
    size, count = policy.granularity, policy.count
    plan = plain_plan(size, count, f"standard RAG: the {count} best dense chunks of {size} tokens")
    plan = await tools.record_plan("plan", plan)
    hits = await dense_retrieval(tools, "retrieve", question.question, plan)
    result = await generate(tools, "generate", question.question, [passage_of(hit) for hit in hits], hits)
    return replace(result, plan=plan)
