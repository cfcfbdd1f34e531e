"""One question of one cell as a report sees it: the row that every figure, picture and table is made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.answer_marks import answer_marks

ACCURACY: Final[Mapping[str, str]] = {
    "f1": "F1",
    "em": "Exact match",
    "rouge_l": "ROUGE-L",
    "numeric": "Numeric match",
    "judge": "Judge",
    "answer_recall": "Answer recall",
    "evidence_recall": "Evidence recall",
    "citation_precision": "Citation precision",
}
"""Measures of 0 to 1 where more is better, by their column in a sweep's ``scores``."""

COST: Final[Mapping[str, str]] = {
    "weighted_tokens": "Tokens (input + 4 x output)",
    "alone_usd": "US dollars, alone",
    "billed_usd": "US dollars, billed",
    "seconds_total": "Seconds",
}
"""Measures where less is better."""

STAGES: Final[Mapping[str, str]] = {
    "seconds_analysis": "analysis",
    "seconds_retrieval": "retrieval",
    "seconds_generation": "generation",
}
"""What a sweep knows of a question's time, beside its total."""

OPEN: Final = "over_budget"
"""The status of a question that the budget did not reach."""


@dataclass(frozen=True, slots=True)
class Row:
    """``method`` and ``dataset`` are "" in a run, which has one of each. ``type`` is gold, ``analysed`` the analyzer's
    word; either may be "". ``measures`` has those of ``ACCURACY`` and ``COST`` that are known. ``stages`` is wall time
    in seconds by stage. ``cluster`` names what the bootstrap draws together: the documents asked about.
    """

    query_id: str
    question: str = ""
    status: str = ""
    answer: str = ""
    type: str = ""
    analysed: str = ""
    workflow: str = ""
    cluster: str = ""
    method: str = ""
    dataset: str = ""
    cell: str = ""
    cited: bool = False
    measures: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)


def run_row(
    answer: Mapping[str, Any],
    gold: Question | None,
    alone_usd: float | None,
    evidence_recall: float | None,
    cluster: str,
) -> Row:
    """The row of an ``answers`` row. Without ``gold`` its accuracy is not known; a failed question scores 0, and of one
    that the budget did not reach nothing is known.

    ``alone_usd`` is what its calls would have cost without other runs' replies; None where there are no such replies.
    """
    asked = answer["status"] != OPEN
    seconds = dict(answer["seconds"] or ())
    measures = {
        "weighted_tokens": float(answer["weighted_tokens"] or 0),
        "billed_usd": float(answer["cost_usd"] or 0.0),
    }
    if alone_usd is not None:
        measures["alone_usd"] = alone_usd
    if "total" in seconds:
        measures["seconds_total"] = float(seconds["total"])
    if gold is not None:
        marks = answer_marks("", answer["status"] or "", answer["answer"] or "", gold.answers)
        known = {"f1": marks.f1, "em": marks.em, "numeric": marks.numeric}
        measures |= {name: mark for name, mark in known.items() if mark is not None}
    if evidence_recall is not None:
        measures["evidence_recall"] = evidence_recall
    return Row(
        query_id=answer["query_id"],
        question=answer["question"] or "",
        status=answer["status"] or "",
        answer=answer["answer"] or "",
        type="" if gold is None else gold.type,
        analysed=_said(answer["analysis"], "type"),
        workflow=_said(answer["plan"], "workflow"),
        cluster=cluster,
        cited=bool(answer["cited"]),
        measures=measures if asked else {},
        stages={stage: float(spent) for stage, spent in seconds.items() if asked and stage != "total"},
    )


def _said(body: str | None, key: str) -> str:
    return str(json.loads(body).get(key) or "") if body else ""
