"""SARA (Jin et al. 2026): a few passages as text, many more as vectors in the generator's embedding space.

The candidates are the ten best chunks of 256 tokens (section 3.1, S1): by BM25 or, as in the paper's table 4, by dense
vectors or both, or reordered by a cross-encoder. Five of them are selected by how much each adds to the others
(algorithm 1), and shown as text in the order of selection. The others are shown as vectors, which the trained
compressor computed from embeddings of chunks or sentences at index time. Each has a separate line of four or five
tokens beside its vectors. ``text: 0`` with one candidate is xRAG's single vector.

Differences from the paper:

- The generator is SmolLM2-135M-Instruct and the sentence encoder all-MiniLM-L6-v2, which ship with okralong. The paper
  uses models of 4 to 24 billion parameters and SFR-Embedding.
- With the shipped compressor a chunk of 256 tokens becomes one vector. The paper compresses by sentence (Limitations):
  its prompt has several vectors per passage (table 7), each of one sentence's embedding, as with a compressor that was
  trained with ``unit: sentence``. The table separates them by commas.
- Selection compares chunks by unit vectors of their own embeddings; the paper does not specify this.
- The prompt is ours (``pipelines/sara/prompts.py``), modeled on the paper's table 7: each compressed chunk has a
  numbered line, and no "Judgment" is requested.
- The model is trained to answer, not to quote, so there are no citations. The context of an answer has the chunks shown
  as text.
- The dense retriever is the archive's encoder; the paper uses SFR-Embedding and the cross-encoder bge-reranker-v2-m3,
  which a run can use as its ``reranker``.
- A chunk whose text does not fit into ``max_tokens`` is shown as vectors. The paper limits the input to 512 or 1,024
  tokens without saying how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.answering.context import passage_of, prompt_fits
from okralong.pipelines.answering.cost_model import most_of
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Budget, Count, MethodSection, Policy, Share, Tokens
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
from okralong.pipelines.answering.retrieve import fuse, sort_hits
from okralong.pipelines.answering.select_evidence import choose
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Hit, Message, Passage, Plan, Question, TokenVectors
from okralong.pipelines.methods.needs import Needs
from okralong.pipelines.sara.prompts import Vectors, answer_prompt, to_messages

ROWS_AT_MOST: Final = 16
"""Vectors per chunk for which a plan reserves tokens. project default: the most in shipped configs."""


LINE: Final = 5
"""Tokens of a numbered line without its vectors: four or five in SmolLM2's vocabulary."""


class Section(MethodSection):
    """SARA's constants.

    Of the ``candidates`` best chunks of ``granularity`` tokens, ``text`` are shown as text and the others as vectors.
    ``retriever`` ranks them: "exact" (BM25), "semantic" (dense vectors) or "hybrid" (both, fused with equal weights).
    The cross-encoder reorders the first ``rerank`` candidates (0: none).

    ``selection`` chooses the chunks shown as text: the best by retrieval ("none"), or greedily those that add most
    ("novelty", "csi"). Novelty is measured in ``space``; ``trade_off`` is the weight of relevance against it.
    ``max_tokens`` limits the tokens of texts and vectors (a vector counts as one). Without ``compression`` the other
    candidates are omitted.
    """

    KEY = "sara"
    granularity: Tokens = 256
    candidates: Count = 10
    text: Annotated[int, Field(ge=0, le=1000)] = 5
    selection: Literal["none", "novelty", "csi"] = "novelty"
    space: Literal["compressor", "encoder"] = "compressor"
    trade_off: Share = 0.0
    max_tokens: Budget | None = None
    compression: bool = True
    retriever: Literal["exact", "semantic", "hybrid"] = "exact"
    rerank: Annotated[int, Field(ge=0, le=500)] = 0

    @model_validator(mode="after")
    def _something_to_show(self) -> Self:
        if not self.compression and not self.text:
            raise ValueError("text is 0 and compression is false, so nothing would be shown")
        return self


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    section = policy.section(Section)
    return Needs(
        granularities=(section.granularity,),
        scorer=section.selection == "csi",
        compressor=section.selection == "novelty" and section.space == "compressor",
        reranker=section.rerank > 0,
        sara_generator=True,
    )


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer once from texts and vectors.

    Steps: ``plan``, ``retrieve``, ``rerank`` if the policy reranks, ``select``, ``generate``.
    """
    policy, words = tools.policy.section(Section), question.question
    plan = await tools.record_plan("plan", _plan(tools))
    pool = await _candidates(tools, words, plan)
    if not pool:
        return Answer("unanswerable", UNANSWERABLE, plan=plan)
    text = await _chosen(tools, words, pool)
    vectors = dict(zip(pool, await tools.compressed(pool), strict=True)) if policy.compression else {}
    text = _within_budget(text, vectors, policy.max_tokens)
    messages = _prompt(words, text, vectors)
    while text and not prompt_fits(messages, "generate", tools):
        text = text[:-1]
        messages = _prompt(words, text, vectors)
    reply = await tools.complete("generate", messages, role="generate")
    parsed = await off_loop(len(reply.text), partial(parse_answer, reply.text, words))
    context, by = tuple(map(passage_of, text)), (reply.model,)
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE, plan=plan, context=context, replied_by=by)
    return Answer("answered", parsed.answer, plan=plan, context=context, replied_by=by)


async def _candidates(tools: Tools, words: str, plan: Plan) -> list[Hit]:
    """Return the ``plan.count`` best chunks, best first."""
    policy = tools.policy.section(Section)
    k = max(plan.count, policy.rerank)
    found = await tools.retrieve("retrieve", words, granularity=plan.granularity, k=k)
    if policy.retriever == "hybrid":
        hits = fuse(found, plan.exact_weight, plan.semantic_weight)
    else:
        hits = list(found.exact if policy.retriever == "exact" else found.semantic)
    if policy.rerank and hits:
        first, rest = hits[: policy.rerank], hits[policy.rerank :]
        readings = await tools.read("rerank", words, [hit.chunk.text for hit in first])
        read = sort_hits([Hit(hit.chunk, each.relevance) for hit, each in zip(first, readings, strict=True)])
        hits = [*read, *rest]
    return hits[: plan.count]


async def _chosen(tools: Tools, words: str, pool: Sequence[Hit]) -> list[Hit]:
    """Return the chunks to show as text, most important first."""
    policy = tools.policy.section(Section)
    if policy.selection == "none" or not policy.text:
        return list(pool[: policy.text])
    return await choose(
        tools,
        "select",
        words,
        pool,
        policy.text,
        method=policy.selection,
        space=policy.space,
        trade_off=policy.trade_off,
    )


def _within_budget(text: Sequence[Hit], vectors: dict[Hit, TokenVectors], max_tokens: int | None) -> list[Hit]:
    """Return the first ``text`` chunks that fit beside the vectors of all other candidates."""
    kept = list(text)
    while kept and max_tokens is not None and _size(kept, vectors) > max_tokens:
        kept.pop()
    return kept


def _size(text: Sequence[Hit], vectors: dict[Hit, TokenVectors]) -> int:
    shown = {hit.chunk.chunk_id for hit in text}
    lines = sum(each.rows + LINE for hit, each in vectors.items() if hit.chunk.chunk_id not in shown)
    return sum(hit.chunk.n_tokens for hit in text) + lines


def _prompt(words: str, text: Sequence[Hit], vectors: dict[Hit, TokenVectors]) -> list[Message]:
    """Build the prompt: ``text`` as passages, the other candidates as vectors, most relevant first."""
    shown = {hit.chunk.chunk_id for hit in text}
    passages: list[Passage] = [passage_of(hit) for hit in text]
    compressed = [Vectors(each) for hit, each in vectors.items() if hit.chunk.chunk_id not in shown]
    return to_messages(answer_prompt(words, passages, compressed))


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.section(Section)
    rest = max(policy.candidates - policy.text, 0) if policy.compression else 0
    by = {"exact": "by BM25", "semantic": "by dense vectors", "hybrid": "by both retrievers"}[policy.retriever]
    if policy.rerank:
        by += f", the first {policy.rerank} ordered by the cross-encoder"
    reason = f"SARA: the {policy.candidates} best chunks {by}, {policy.text} as text and {rest} as vectors"
    # Doubled to be safe, because the generator's tokenizer is not o200k.
    shown = 2 * policy.text * policy.granularity + policy.candidates * ROWS_AT_MOST
    plan = plain_plan(policy.granularity, policy.candidates, reason, most=most_of(tools, [("generate", shown)]))
    exact, semantic = {"exact": (1.0, 0.0), "semantic": (0.0, 1.0), "hybrid": (1.0, 1.0)}[policy.retriever]
    return replace(plan, exact_weight=exact, semantic_weight=semantic, max_tokens=policy.max_tokens)
