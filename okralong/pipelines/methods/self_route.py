"""Self-Route (Li et al. 2024): the generator answers from the best chunks if they suffice, and from the full text if it
says that they do not; so long contexts are paid for only where retrieval fails.

It is the decision of OkraLong's precise mode after plain retrieval: no analysis, no plan, five dense chunks.

Where this differs from the paper:

- Chunks of 512 tokens, as OkraLong's authors ran their baselines; the paper's have 300 words.
- The prompts are this package's, which ask for quotations too; the word that hands a question on is the paper's
  ("unanswerable").
- Where the full text does not fit the window, the best chunks that fit (``full_text``); the paper cuts the text.
"""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import answer_from_full_text, generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs


class Section(MethodSection):
    """Self-Route: the ``count`` best chunks of ``granularity`` tokens first, then the full text as ``full_text`` says
    where these do not hold the answer.
    """

    KEY = "self_route"

    granularity: Tokens = 512
    count: Count = 5


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    sizes = {policy.section(Section).granularity, policy.full_text.fallback_granularity}
    return Needs(granularities=tuple(sorted(sizes)), vectors=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, ``generate``, and after "unanswerable" those of ``answer_from_full_text``."""
    policy, words = tools.policy.section(Section), question.question
    chunks = f"the {policy.count} best dense chunks of {policy.granularity} tokens"
    reason = f'Self-Route: {chunks}, then the full text if the reply is "unanswerable"'
    plan = replace(plain_plan(policy.granularity, policy.count, reason), escalate=True)
    plan = await tools.record_plan("plan", plan)
    hits = await dense_retrieval(tools, "retrieve", words, plan)
    found = await generate(tools, "generate", words, [passage_of(hit) for hit in hits], hits)
    if found.status == "unanswerable":
        found = await answer_from_full_text(tools, words)
    return replace(found, plan=plan)
