"""CompAct (Yoon et al. 2024): the 30 best chunks, five at a time, are worked into one summary, which grows until the
generator finds it complete; the answer is read from the summary alone.

Thirty chunks in six rounds of five, and a reader that sees summary and evaluation, are the authors' settings
(``run_prompt.py``, their section 4.1; OkraLong's section 4.2 takes the same thirty).

Where this differs from the paper:

- The prompted variant: the generator compresses. The paper distils a Mistral-7B for it, whose tokens OkraLong's authors
  do not count; here each compression is a call like any other, and costs.
- Chunks of 512 tokens by dense retrieval; the paper's are passages of 100 words, so a segment here is four times as
  long.
- A summary may have ``llm.max_completion_tokens.compress`` tokens, 384 unless set; the authors allow 900.
- The answer has neither context nor citations, since what the reader saw stands in no document.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.operators.digest import answer_from_text, digest
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.strategies.plain import most_of, plain_plan
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Plan, Question

UNFORESEEN: Final = "it stops when the generator finds a summary complete"


def granularities(policy: Policy) -> list[int]:
    """The chunk size that the archive must hold."""
    return [policy.compact.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, those of ``operators/digest.py``, ``generate``."""
    plan = await tools.record_plan("plan", _plan(tools))
    found = await tools.retrieve("retrieve", question.question, granularity=plan.granularity, k=plan.count)
    hits = found.semantic[: plan.count]
    gathered = await digest(tools, question.question, hits, tools.policy.compact.segment)
    result = await answer_from_text(tools, "generate", question.question, gathered.text)
    return replace(result, plan=plan)


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.compact
    rounds = -(-policy.candidates // policy.segment)
    summary = tools.completion_limit("compress")
    calls = [("compress", policy.granularity * policy.segment + summary)] * rounds
    reason = f"CompAct: the {policy.candidates} best dense chunks, {policy.segment} at a time, into one summary"
    return plain_plan(
        policy.granularity,
        policy.candidates,
        reason,
        workflow="step",
        max_steps=rounds,
        most=most_of(tools, [*calls, ("generate", summary)]),
    )
