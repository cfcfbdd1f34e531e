"""Self-Route (Li et al. 2024): answer from the best chunks, and from the full text if they do not suffice.

The chunks do not suffice if the generator replies "unanswerable"; only then is the full text paid for. This is
OkraLong's precise mode without analysis and plan.

Differences from the paper:

- Chunks have 512 tokens, as in OkraLong's baselines; the paper's have 300 words.
- The prompts are ours and ask for quotations; "unanswerable" is the paper's word.
- A full text that exceeds the window is replaced by the best chunks that fit (policy ``full_text``); the paper
  truncates it.
"""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import answer_from_full_text, generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import FALLBACK_GRANULARITY, Count, MethodSection, Policy, Tokens
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs


class Section(MethodSection):
    """Self-Route's constants: the ``count`` best chunks of ``granularity`` tokens are shown first."""

    KEY = "self_route"
    granularity: Tokens = 512
    count: Count = 5


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    sizes = {policy.section(Section).granularity, FALLBACK_GRANULARITY}
    return Needs(granularities=tuple(sorted(sizes)), vectors=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer from the chunks, and after "unanswerable" from the full text.

    Steps: ``plan``, ``retrieve``, ``generate``, then those of ``answer_from_full_text``.
    """
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
