"""Search an archive as the first retrieval of a question does, without a generator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from okralong.pipelines.answering.offline import MemoryLog
from okralong.pipelines.answering.organizer import plain_plan
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
    primary = ports.policy.primary
    plan = replace(
        plain_plan(primary.granularity, count, "search"),
        candidates=max(ports.policy.fusion.candidates, count),
        exact_weight=primary.exact_weight,
        semantic_weight=primary.semantic_weight,
    )
    tools = QuestionTools.in_process(ports, question, doc_ids, MemoryLog())
    return await assembled_retrieval(tools, "search", question.question, plan)


def found_rows(archive: Archive, hits: list[Hit], links: bool) -> list[dict[str, Any]]:
    """Return the JSON of chunks, each with its place and text. Reads the documents."""
    rows = []
    for hit in hits:
        chunk = hit.chunk
        span = {"doc_id": chunk.doc_id, "start_char": chunk.start_char, "end_char": chunk.end_char}
        place = citation(cited(archive, span), links, quote=False)
        rows.append(place | {"text": chunk.text, "score": hit.score, "chunk_id": chunk.chunk_id})
    return rows
