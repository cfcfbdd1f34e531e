"""Plain RAG under a token budget, the baseline for methods that compress (SARA section 3.1, S2: 512 and 1,024 tokens).

It shows the best chunks of 256 tokens by BM25 until the budget is used up, and truncates the last one after a word. The
budget limits the passages' o200k tokens. SARA's paper limits the input, but does not say what happens to the passage
that exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from okralong.pipelines.answering.context import most_that_fits, passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Budget, Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Passage, Question
from okralong.pipelines.methods.needs import Needs


class Section(MethodSection):
    """Constants of plain RAG under a budget.

    Of the ``candidates`` best chunks of ``granularity`` tokens by ``retriever`` ("exact" is BM25), as many are shown as
    fit into ``max_tokens``; the last one is truncated.
    """

    KEY = "budget_rag"
    granularity: Tokens = 256
    candidates: Count = 10
    retriever: Literal["exact", "semantic"] = "exact"
    max_tokens: Budget = 512


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    section = policy.section(Section)
    return Needs(granularities=(section.granularity,), vectors=section.retriever == "semantic")


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from the chunks, best first. Steps: ``plan``, ``retrieve``, ``generate``."""
    policy = tools.policy.section(Section)
    exact = float(policy.retriever == "exact")
    name = "BM25" if exact else "dense vectors"
    reason = f"plain RAG: the best chunks of {policy.granularity} tokens by {name}, {policy.max_tokens} tokens together"
    # Doubled to be safe, because the generator's tokenizer is not o200k.
    most = most_of(tools, [("generate", 2 * policy.max_tokens)])
    plan = plain_plan(policy.granularity, policy.candidates, reason, most=most)
    plan = replace(plan, exact_weight=exact, semantic_weight=1.0 - exact, max_tokens=policy.max_tokens)
    plan = await tools.record_plan("plan", plan)
    found = await tools.retrieve("retrieve", question.question, granularity=plan.granularity, k=plan.count)
    hits = (found.exact if exact else found.semantic)[: plan.count]
    shown = filled([passage_of(hit) for hit in hits], policy.max_tokens)
    kept: Sequence[Hit] = hits[: len(shown)]
    result = await generate(tools, "generate", question.question, shown, kept)
    return replace(result, plan=plan)


def filled(passages: Sequence[Passage], max_tokens: int) -> list[Passage]:
    """Return the first ``passages`` that fit into ``max_tokens`` o200k tokens; the last one is truncated."""
    shown: list[Passage] = []
    left = max_tokens
    for passage in passages:
        head = _head(passage, left)
        if not head.text.strip():
            break
        shown.append(head)
        left -= head.n_tokens
        if head.end_char < passage.end_char:
            break
    return shown


def _head(passage: Passage, max_tokens: int) -> Passage:
    """Truncate ``passage`` to the whole words that fit into ``max_tokens``."""
    if passage.n_tokens <= max_tokens:
        return passage
    longest = most_that_fits(len(passage.text), lambda length: count_tokens(passage.text[:length]) <= max_tokens)
    at = max((place for place in range(longest + 1) if passage.text[place : place + 1].isspace()), default=0)
    text = passage.text[:at]
    return replace(passage, text=text, end_char=passage.start_char + at, n_tokens=count_tokens(text))
