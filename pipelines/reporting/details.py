"""All that a page holds of one question, as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.reporting.inert import bounded
from okralong.pipelines.reporting.sources import Span, evidence_span, sources, spans_of
from okralong.pipelines.reporting.steps import Step

ANSWER_CHARS: Final = 4_000
NAMES: Final = 50
"""Documents of a scope, or gold answers, that are listed. Ours."""
_PLAN_KEYS: Final = ("workflow", "granularity", "count", "exact_weight", "semantic_weight", "reasons")

Detail = dict[str, Any]


def detail_of(
    answer: Mapping[str, Any], gold: Question | None, steps: Sequence[Step], text_of: Callable[[str], str | None]
) -> Detail:
    """The detail of an ``answers`` row. ``text_of`` gives the text of a document of the archive, None if it cannot."""
    marked = [span for each in (gold.evidence if gold else ()) if (span := evidence_span(each)) is not None]
    context = spans_of(answer["context"])
    return {
        "scope": [bounded(doc_id, 200) for doc_id in (answer["doc_ids"] or ())[:NAMES]],
        "answer": bounded(answer["answer"] or "", ANSWER_CHARS),
        "error": bounded(answer["error"] or "", ANSWER_CHARS),
        "golds": [bounded(text, ANSWER_CHARS) for text in (gold.answers if gold else ())[:NAMES]],
        "context": len(context),
        "context_tokens": answer["context_tokens"],
        "calls": answer["calls"],
        "prompt_tokens": answer["prompt_tokens"],
        "completion_tokens": answer["completion_tokens"],
        "analysis": _analysis(answer["analysis"]),
        "plan": _plan(answer["plan"]),
        "seconds": [[stage, round(spent, 3)] for stage, spent in sorted(answer["seconds"] or ())],
        "sources": _sources(spans_of(answer["citations"]), marked, context, text_of),
        "steps": list(steps),
    }


def _analysis(body: str | None) -> dict[str, Any] | None:
    if not body:
        return None
    said = json.loads(body)
    fields = {
        "type": said.get("type_probabilities") or {},
        "pattern": said.get("pattern_probabilities") or {},
        "evidence": {"at hand": float(said.get("evidence_probability") or 0.0)},
    }
    return {
        "analyzer": bounded(said.get("analyzer", ""), 200),
        "odds": [[name, [[label, round(float(p), 4)] for label, p in odds.items()]] for name, odds in fields.items()],
    }


def _plan(body: str | None) -> dict[str, Any] | None:
    if not body:
        return None
    said = json.loads(body)
    return {key: said[key] for key in _PLAN_KEYS if key in said}


def _sources(
    cited: Sequence[Span], gold: Sequence[Span], context: Sequence[Span], text_of: Callable[[str], str | None]
) -> list[list[Any]]:
    return [
        [bounded(each.doc_id, 200), each.start_char, each.end_char, each.seen, [list(piece) for piece in each.pieces]]
        for each in sources(cited, gold, context, text_of)
    ]
