"""Iter-RetGen (Shao et al. 2023): each answer becomes part of the next query; the last answer is returned.

Even a wrong answer looks like an answer, so it is closer to the passage with the right one than the question is (their
section 3).

Differences from the paper:

- Each retrieval returns five dense chunks of 512 tokens; the paper uses five paragraphs.
- The answer and its quotations go into the next query; the paper uses the whole chain of thought.
- It stops early if a retrieval finds the same chunks again, since the next prompt would be the same.
- It stops after "unanswerable", which would not improve a query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Count, MethodSection, Policy, Rounds, Tokens
from okralong.pipelines.answering.retrieve import dense_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Plan, Question
from okralong.pipelines.methods.needs import Needs

LONGEST_QUERY: Final = 1200
"""The most characters of a query. project default: the encoder reads 256 tokens."""


class Section(MethodSection):
    """Iter-RetGen's constants: ``count`` chunks of ``granularity`` tokens each time, up to ``iterations`` answers."""

    KEY = "iter_retgen"
    granularity: Tokens = 512
    count: Count = 5
    iterations: Rounds = 2


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    size = policy.section(Section).granularity
    return Needs((size,), vectors=True, unforeseen="each answer is part of the next look-up's query")


async def answer(question: Question, tools: Tools) -> Answer:
    """Alternate retrieval and answers.

    Steps: ``plan``, then ``iteration/1/retrieve`` and ``iteration/1/generate`` onward.
    """
    words = question.question
    plan = await tools.record_plan("plan", _plan(tools))
    found = Answer("unanswerable", "")
    query, seen = words, set[frozenset[str]]()
    for number in range(1, plan.max_steps + 1):
        hits = await dense_retrieval(tools, f"iteration/{number}/retrieve", query, plan)
        chunks = frozenset(hit.chunk.chunk_id for hit in hits)
        if chunks in seen:
            break
        seen.add(chunks)
        shown = [passage_of(hit) for hit in hits]
        found = await generate(tools, f"iteration/{number}/generate", words, shown, hits)
        if found.status != "answered":
            break
        query = next_query(words, found)
    return replace(found, plan=plan)


def next_query(question: str, found: Answer) -> str:
    """Return the question, the answer and its quotations as one query."""
    said = " ".join([question.strip(), found.answer, *(citation.quote for citation in found.citations)])
    return " ".join(said.split())[:LONGEST_QUERY]


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    most = most_of(tools, [("generate", policy.granularity * policy.count)] * policy.iterations)
    reason = f"Iter-RetGen: {policy.iterations} times the {policy.count} best dense chunks and an answer"
    return plain_plan(policy.granularity, policy.count, reason, workflow="step", max_steps=policy.iterations, most=most)
