"""RAPTOR (Sarthi et al. 2024): summaries of clusters of chunks, and of clusters of summaries, stand beside the chunks;
the best of all, chunks and summaries alike, are shown up to 2,000 tokens (their "collapsed tree").

A document's tree is an artifact of the run: written when the first question needs it, by calls of their own in the
ledger, and then used by all. ``--replies-from`` takes it over into another run for nothing.

Where this differs from the paper:

- Vectors are reduced by PCA, not UMAP; the mixtures and their constants are the authors' (``operators/clusters.py``).
- Leaves are the archive's chunks of 150 tokens; the paper's have 100. Vectors are the archive's.
- One tree a document. For a scope of many documents the trees of those ``max_documents`` with the best leaves are used.
- Leaves compete by the retriever's ``candidates`` best, which is more than the shown tokens hold.
- A summary names no place in its document, so only leaves are cited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.operators.summary_tree import build_tree, summary_hits
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import sort_hits, within_tokens
from okralong.pipelines.answering.strategies.plain import most_of, plain_plan
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.types import Answer, Hit, Passage, Question

UNFORESEEN: Final = "the summaries of its documents must be written first"
SUMMARY: Final = "summary"


def granularities(policy: Policy) -> list[int]:
    """The chunk size of the leaves."""
    return [policy.raptor.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, each document's artifact ``raptor`` (``operators/summary_tree.py``), ``choose``,
    and ``generate``.
    """
    policy, words = tools.policy.raptor, question.question
    reason = f"RAPTOR: chunks and summaries of chunks, the best {policy.max_tokens} tokens of both"
    most = most_of(tools, [("generate", policy.max_tokens)])
    plan = plain_plan(policy.granularity, policy.candidates, reason, most=most)
    plan = await tools.record_plan("plan", plan)
    found = await tools.retrieve("retrieve", words, granularity=plan.granularity, k=plan.count)
    hits = found.semantic[: plan.count]
    arguments = {"layers": policy.layers, "cluster_tokens": policy.cluster_tokens, "granularity": plan.granularity}
    trees: dict[str, Any] = {}
    for doc_id in list(dict.fromkeys(hit.chunk.doc_id for hit in hits))[: policy.max_documents]:
        branch = Branch("tree", build_tree, {"doc_id": doc_id, **arguments})
        trees[doc_id] = await tools.artifact("raptor", doc_id, branch)

    async def choose() -> list[str]:
        (vector,) = await tools.embed([words])
        nodes = [*hits, *(hit for doc_id, tree in trees.items() for hit in summary_hits(doc_id, tree, vector))]
        return [hit.chunk.chunk_id for hit in within_tokens(sort_hits(nodes), policy.max_tokens)]

    known = {hit.chunk.chunk_id: hit for hit in hits}
    known |= {hit.chunk.chunk_id: hit for doc_id, tree in trees.items() for hit in summary_hits(doc_id, tree, ())}
    asked = {"question": words, "documents": {doc_id: len(tree) for doc_id, tree in trees.items()}}
    chosen = [known[chunk_id] for chunk_id in await tools.remember("choose", asked, choose)] if hits else []
    shown = [_passage(hit) for hit in chosen]
    result = await generate(tools, "generate", words, shown, chosen, cite_in=_leaves)
    return replace(result, plan=plan)


def _passage(hit: Hit) -> Passage:
    passage = passage_of(hit)
    return passage if hit.chunk.granularity else replace(passage, origin=SUMMARY)


def _leaves(shown: Sequence[Passage]) -> list[Passage]:
    return [replace(passage, text="") if passage.origin == SUMMARY else passage for passage in shown]
