"""LongLLMLingua (Jiang et al. 2024): a small language model shortens the 30 best chunks for the question, and the
generator answers once, from what is left.

Coarse: chunks are ranked by how likely each makes the question, the best stand first, and twice the target stays. Fine:
of each chunk the tokens that the question makes more likely stay, more of the better chunks', 2,000 tokens together.
Own code rather than the package ``llmlingua``, which fetches a vocabulary when it starts and needs the cache format of
older transformers.

Where this differs from the paper:

- The small model is the run's scorer, SmolLM2-135M unless told otherwise; the paper's is LLaMA-2-7B-Chat.
- A token's two likelihoods are measured within its chunk; the paper reads segments of 200 tokens behind what it has
  kept so far.
- How much the coarse part keeps is ours: twice the target. The authors' README keeps 100 tokens more than the target,
  which suits their short passages.
- Instruction and question are left whole; the paper shortens them a little.
- Subsequence recovery is the search for quotations: they are looked for in the whole chunks, and cited from there.
- The context of an answer is each stretch of a document that stayed; their tokens are counted as shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.operators.token_compression import compress, compressed_passages, kept_passages
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.strategies.plain import most_of, plain_plan
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Passage, Question

NEEDS_SCORER: Final = True


def granularities(policy: Policy) -> list[int]:
    """The chunk size that the archive must hold."""
    return [policy.longllmlingua.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, ``compress``, ``generate``."""
    policy, words = tools.policy.longllmlingua, question.question
    reason = f"LongLLMLingua: the {policy.candidates} best dense chunks, shortened to {policy.target_tokens} tokens"
    # A small model's tokens are not o200k's; twice as many are on the safe side.
    most = most_of(tools, [("generate", 2 * policy.target_tokens)])
    plan = plain_plan(policy.granularity, policy.candidates, reason, most=most)
    plan = await tools.record_plan("plan", plan)
    found = await tools.retrieve("retrieve", words, granularity=plan.granularity, k=plan.count)
    kept = await compress(tools, "compress", words, found.semantic[: plan.count], policy)
    whole = {hit.chunk.chunk_id: passage_of(hit) for hit, _ in kept}

    def sources(shown: Sequence[Passage]) -> list[Passage]:
        return [whole[passage.chunk_ids[0]] for passage in shown]

    order = [hit for hit, _ in kept]
    result = await generate(tools, "generate", words, compressed_passages(kept), order, cite_in=sources)
    return replace(result, plan=plan, context=kept_passages(kept, result.context))
