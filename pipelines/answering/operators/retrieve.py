"""Retrieval as a strategy asks for it: both retrievers, fused, thresholded, chosen from, cut to the plan's size."""

from __future__ import annotations

from okralong.pipelines.answering.operators.choose import choose
from okralong.pipelines.answering.operators.fuse import fuse_by
from okralong.pipelines.answering.operators.select import select, within_tokens
from okralong.pipelines.answering.operators.surroundings import beside, lift
from okralong.pipelines.answering.tools import Retriever, Tools
from okralong.pipelines.core.types import Candidates, Hit, Plan, RetrieverScores


async def assembled_retrieval(tools: Tools, step: str, query: str, plan: Plan) -> list[Hit]:
    """The chunks that ``plan`` shows for ``query``, the most important first.

    Steps: ``step``, ``step/wide`` where the policy ranks chunks in their surroundings, and ``step/select`` where it has
    a selection. Raises QuestionError when the question's scope names no document.
    """
    weights = plan.exact_weight, plan.semantic_weight
    k = max(plan.candidates, plan.count)
    fused, _ = await _ranked(tools, step, query, plan.granularity, k, weights, plan.neighbour_weight)
    selection = tools.policy.selection
    if selection.method == "none":
        return within_tokens(select(fused, plan.count, plan.threshold), plan.max_tokens)
    pool = select(fused, selection.pool, plan.threshold)
    # More than would fit even of the shortest ones need not be chosen, and each choice by a language model is dear.
    shortest = within_tokens(sorted(pool, key=lambda hit: hit.chunk.n_tokens), plan.max_tokens)
    chosen = await choose(tools, f"{step}/select", query, pool, min(plan.count, len(shortest)))
    return within_tokens(chosen, plan.max_tokens)


async def primary_retrieval(tools: Retriever, step: str, query: str) -> tuple[list[Hit], RetrieverScores]:
    """The few small chunks that the analyzer reads with the question (paper appendix B.3), and the retrievers' scores.

    No threshold here: the analyzer judges whether the chunks hold the evidence, so it must also see weak ones.
    """
    primary = tools.policy.primary
    k = max(tools.policy.fusion.candidates, primary.count)
    weights = primary.exact_weight, primary.semantic_weight
    fused, found = await _ranked(tools, step, query, primary.granularity, k, weights)
    return select(fused, primary.count, threshold=0.0), RetrieverScores.of(found)


async def _ranked(
    tools: Retriever,
    step: str,
    query: str,
    granularity: int,
    k: int,
    weights: tuple[float, float],
    neighbours: float = 0.0,
) -> tuple[list[Hit], Candidates]:
    """The fused candidates, lifted by their neighbours and surroundings where the plan and the policy say so.

    Beside them what the retrievers found at ``granularity``.
    """
    fusion = tools.policy.fusion
    found = await tools.retrieve(step, query, granularity=granularity, k=k)
    fused = fuse_by(fusion, found, *weights)
    if neighbours:
        fused = beside(fused, neighbours)
    around = fusion.surroundings
    if around is None or around.granularity <= granularity:
        return fused, found
    wide = await tools.retrieve(f"{step}/wide", query, granularity=around.granularity, k=k)
    return lift(fused, fuse_by(fusion, wide, *weights), around.weight), found
