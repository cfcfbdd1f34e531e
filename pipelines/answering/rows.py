"""From an answer to the one row that a question has in the ``answers`` table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from okralong.pipelines.core.codec import encode
from okralong.pipelines.core.types import Answer, Question


def answer_row(
    question: Question, doc_ids: tuple[str, ...], answer: Answer, strategy: str, seconds: Mapping[str, float]
) -> dict[str, Any]:
    """The row without calls, tokens and cost, which the ledger fills in from what it has written."""
    return {
        "query_id": question.query_id,
        "question": question.question,
        "doc_ids": list(doc_ids),
        "status": answer.status,
        "answer": answer.answer,
        "cited": bool(answer.citations),
        "citations": [_span(each) for each in answer.citations],
        "analysis": encode(answer.analysis) if answer.analysis else None,
        "plan": encode(answer.plan) if answer.plan else None,
        "context": [_span(each) for each in answer.context],
        "context_tokens": sum(passage.n_tokens for passage in answer.context),
        "strategy": strategy,
        "seconds": sorted(seconds.items()),
        "error": answer.error,
    }


def _span(each: Any) -> dict[str, Any]:
    return {"doc_id": each.doc_id, "start_char": each.start_char, "end_char": each.end_char}
