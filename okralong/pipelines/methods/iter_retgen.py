"""Iter-RetGen (Shao et al. 2023): what the generator answered is part of the next look-up's query, and what that finds
is answered from anew; the last answer counts.

An answer, also a wrong one, says what an answer looks like, and lies nearer to the passage that holds it than the
question does (their section 3).

Where this differs from the paper:

- Five dense chunks of 512 tokens a look-up; the paper's: five paragraphs.
- Of the reply, the answer and the words that it cites go into the next query; the paper's prompts have the generator
  reason step by step, and all of that goes there.
- It ends before the last iteration where a look-up finds the same chunks again: the next prompt would be the same.
- After "unanswerable" there is nothing to add to the query, so it ends there.
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
"""Characters of a query: the question, and the head of what was answered. Ours: the encoder reads 256 tokens."""


class Section(MethodSection):
    """Iter-RetGen: ``count`` chunks of ``granularity`` tokens for each look-up; at most ``iterations`` answers, each a
    part of the next look-up's query.
    """

    KEY = "iter_retgen"

    granularity: Tokens = 512
    count: Count = 5
    iterations: Rounds = 2


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    return Needs(
        granularities=(policy.section(Section).granularity,),
        vectors=True,
        unforeseen="each answer is part of the next look-up's query",
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, then ``iteration/1/retrieve`` and ``iteration/1/generate`` onward."""
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
    """The question, the answer and the words that it cites."""
    said = " ".join([question.strip(), found.answer, *(citation.quote for citation in found.citations)])
    return " ".join(said.split())[:LONGEST_QUERY]


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    most = most_of(tools, [("generate", policy.granularity * policy.count)] * policy.iterations)
    reason = f"Iter-RetGen: {policy.iterations} times the {policy.count} best dense chunks and an answer"
    return plain_plan(policy.granularity, policy.count, reason, workflow="step", max_steps=policy.iterations, most=most)
