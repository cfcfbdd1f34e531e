"""Search an archive as the first retrieval of a question does, without a generator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from okralong.pipelines.answering.models import Models
from okralong.pipelines.answering.offline import MemoryLog
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import Hit, Question
from okralong.pipelines.reporting.cited import cited
from okralong.pipelines.serving.asked import citation


async def find(ports: Ports, question: Question, doc_ids: tuple[str, ...], count: int) -> list[Hit]:
    """Return the ``count`` best chunks of the size in which the policy retrieves first, with the policy's weights.

    The generator of ``ports`` should be offline, which makes sure that nothing is paid for.
    """
    ports = replace(ports, policy=searchable(ports.policy, ports.models))
    primary = ports.policy.primary
    plan = replace(
        plain_plan(primary.granularity, count, "search"),
        candidates=max(ports.policy.fusion.candidates, count),
        exact_weight=primary.exact_weight,
        semantic_weight=primary.semantic_weight,
    )
    tools = QuestionTools.in_process(ports, question, doc_ids, MemoryLog())
    return await assembled_retrieval(tools, "search", question.question, plan)


def searchable(policy: Policy, models: Models) -> Policy:
    """Return the policy with only those steps for which the run has a model and the archive has chunks.

    A method that retrieves in its own way, such as ``budget_rag``, loads nothing else.
    """
    sizes = models.archive.granularities
    fusion, primary = policy.fusion, policy.primary
    changes: dict[str, Any] = {}
    if primary.granularity not in sizes:
        nearest = min(sizes, key=lambda size: abs(size - primary.granularity))
        changes["primary"] = primary.model_copy(update={"granularity": nearest})
    if fusion.surroundings is not None and fusion.surroundings.granularity not in sizes:
        changes["fusion"] = fusion.model_copy(update={"surroundings": None})
    if "reranker" not in models.parts:
        changes["rerank"] = policy.rerank.model_copy(update={"candidates": 0})
    return policy.model_copy(update=changes)


def found_rows(archive: Archive, hits: list[Hit], links: bool) -> list[dict[str, Any]]:
    """Return the JSON of chunks, each with its place and text. Reads the documents."""
    rows = []
    for hit in hits:
        chunk = hit.chunk
        span = {"doc_id": chunk.doc_id, "start_char": chunk.start_char, "end_char": chunk.end_char}
        place = citation(cited(archive, span), links, quote=False)
        rows.append(place | {"text": chunk.text, "score": hit.score, "chunk_id": chunk.chunk_id})
    return rows
