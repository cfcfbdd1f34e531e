"""From a run folder and the gold of its questions to rows of the table ``scores``. An error in a metric is raised."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, MetricError, Passage
from okralong.pipelines.evaluation.citation_precision import citation_precision
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion, Span
from okralong.pipelines.evaluation.datasets.values import Item
from okralong.pipelines.evaluation.evidence.measure import measure
from okralong.pipelines.evaluation.sweeps.config import CellName
from okralong.pipelines.evaluation.sweeps.gold_questions import GoldQuestion
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.prices import COLUMNS, bill
from okralong.pipelines.reporting.metrics import answer_marks

Text = Callable[[str], str]
"""The text of a document of the archive by its doc_id."""

ANALYSIS: Final = frozenset({"analyze"})
RETRIEVAL: Final = frozenset({"retrieve", "select"})
TOTAL: Final = "total"
"""Stages of ``answers.seconds``; any other stage is a role of the generator. Branches run beside each other, so stages
may add up to more than the total."""


@dataclass(frozen=True)
class Scored:
    """Rows of ``scores``, and the query_ids of the file that the run has not finished."""

    rows: list[dict[str, Any]]
    missing: list[str] = field(default_factory=list)


def score_rows(
    run: Folder, named: CellName, golds: Sequence[GoldQuestion], text: Text, judged: Mapping[str, float] | None = None
) -> Scored:
    """A row for each question that the run has finished, in the order of ``golds``.

    ``judged`` are the judge's marks by query_id. Raises InputError when the run was asked other words under one of the
    query_ids, MetricError when a metric cannot be worked out.
    """
    answers = {row["query_id"]: row for row in read_run_table(run, "answers").to_pylist()}
    attempts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_run_table(run, "ledger", ["query_id", *COLUMNS]).to_pylist():
        attempts[row["query_id"]].append(row)
    rows, missing = [], []
    for gold in golds:
        asked = gold.gold.question
        row = answers.get(asked.query_id)
        if row is None:
            missing.append(asked.query_id)
            continue
        if row["question"].strip() != asked.question.strip():
            raise InputError(
                f"{run.path} was asked other words under the query_id {asked.query_id!r} than the gold questions have. "
                "Score it with the questions file that it was asked."
            )
        try:
            rows.append(_row(named, gold, row, attempts[asked.query_id], text, (judged or {}).get(asked.query_id)))
        except Exception as error:
            raise MetricError(
                f"The question {asked.query_id!r} of {run.path} cannot be scored: {type(error).__name__}: {error}. No "
                "table was written, since a score that is left out would make the others wrong."
            ) from error
    return Scored(rows, missing)


def _row(
    named: CellName,
    gold: GoldQuestion,
    row: Mapping[str, Any],
    attempts: Sequence[Mapping[str, Any]],
    text: Text,
    judged: float | None,
) -> dict[str, Any]:
    question = gold.gold.question
    marks = answer_marks(gold.gold.dataset, row["status"], row["answer"] or "", question.answers)
    billed = bill(attempts)
    return {
        "cell": named.cell,
        "method": named.method,
        "set": named.set,
        "variant": named.variant,
        "seed": named.seed,
        "query_id": question.query_id,
        "cluster": f"{named.set}: {gold.cluster}",
        "type": question.type,
        "status": row["status"],
        "f1": marks.f1,
        "em": marks.em,
        "rouge_l": marks.rouge_l,
        "numeric": marks.numeric,
        "judge": judged,
        **_shown(gold, row, text),
        "prompt_tokens": row["prompt_tokens"] or 0,
        "completion_tokens": row["completion_tokens"] or 0,
        "weighted_tokens": row["weighted_tokens"] or 0,
        "billed_usd": billed.billed_usd,
        "alone_usd": billed.alone_usd,
        **_seconds(dict(row["seconds"] or ()), any(attempt["status"] == "cached" for attempt in attempts)),
    }


def _seconds(spent: Mapping[str, float], shared: bool) -> dict[str, float | None]:
    """By stage and in all. Of a question that another run's reply spared a wait nobody knows how long it takes."""
    rest = spent.keys() - ANALYSIS - RETRIEVAL - {TOTAL}
    stages = {"analysis": ANALYSIS, "retrieval": RETRIEVAL, "generation": rest, "total": {TOTAL}}
    return {
        f"seconds_{name}": None if shared else math.fsum(spent.get(stage, 0.0) for stage in held)
        for name, held in stages.items()
    }


def _shown(gold: GoldQuestion, row: Mapping[str, Any], text: Text) -> dict[str, float | None]:
    """Recalls of the context and the precision of citations; of a question that was not asked none is known."""
    if row["status"] == "over_budget":
        return dict.fromkeys(("answer_recall", "evidence_recall", "citation_precision"))
    context, citations = (_spans(row[name]) for name in ("context", "citations"))
    texts = {span.doc_id: text(span.doc_id) for span in (*context, *citations, *gold.evidence)}
    passages = [
        Passage(s.doc_id, s.start_char, s.end_char, texts[s.doc_id][s.start_char : s.end_char], 0, 0.0) for s in context
    ]
    asked = PooledQuestion(Item(gold.gold, ()), (), gold.evidence, ())
    shown = measure(asked, passages, texts)
    return {
        "answer_recall": shown.answer_recall,
        "evidence_recall": shown.evidence_recall,
        "citation_precision": citation_precision(citations, gold.evidence, texts),
    }


def _spans(rows: Sequence[Mapping[str, Any]] | None) -> list[Span]:
    return [Span(row["doc_id"], row["start_char"], row["end_char"]) for row in rows or ()]
