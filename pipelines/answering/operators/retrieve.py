"""Retrieval as a strategy asks for it: both retrievers, fused, thresholded, cut to the count of the plan."""

from __future__ import annotations

from okralong.pipelines.answering.operators.fuse import fuse
from okralong.pipelines.answering.operators.select import select
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.values import Hit, Plan


async def assembled_retrieval(tools: Tools, step: str, query: str, plan: Plan, count: int = 0) -> list[Hit]:
    """The chunks that ``plan`` shows for ``query``, best first; ``count`` other than 0 wins over the plan's.

    Raises QuestionError when the question's scope names no document.
    """
    count = count or plan.count
    candidates = await tools.retrieve(step, query, granularity=plan.granularity, k=max(plan.candidates, count))
    return select(fuse(candidates, plan.exact_weight, plan.semantic_weight), count, plan.threshold)


async def primary_retrieval(tools: Tools, step: str, query: str) -> list[Hit]:
    """The few small chunks that the analyzer reads with the question (paper appendix B.3).

    No threshold here: the analyzer judges whether the chunks hold the evidence, so it must also see weak ones.
    """
    primary = tools.policy.primary
    k = max(tools.policy.fusion.candidates, primary.count)
    candidates = await tools.retrieve(step, query, granularity=primary.granularity, k=k)
    return select(fuse(candidates, primary.exact_weight, primary.semantic_weight), primary.count, threshold=0.0)
