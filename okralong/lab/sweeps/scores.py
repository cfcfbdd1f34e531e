"""Score a run with the gold data of its questions, as rows of the table ``scores``. Errors in metrics are raised."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any, Final

from okralong.lab.datasets.base import Item
from okralong.lab.datasets.erc import ERC
from okralong.lab.datasets.pooling import PooledQuestion, Span
from okralong.lab.evidence.measure import measure
from okralong.lab.sweeps.challenge import page_mark, value_mark
from okralong.lab.sweeps.config import CellName
from okralong.lab.sweeps.gold_questions import GoldQuestion
from okralong.lab.sweeps.judge import MARKS
from okralong.lab.sweeps.metrics import citation_precision
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, MetricError, Passage
from okralong.pipelines.llm.bill import ARTIFACT, COLUMNS, bill
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import USED
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.sources import spans_of
from okralong.pipelines.run.rows import artifacts_taken

Text = Callable[[str], str]
"""A function that returns the text of a document of the archive by its doc_id."""

JUDGED: Final = "judge"
"""The column of the judge's verdict, and the prefix of the columns of its marks."""
ANALYSIS: Final = frozenset({"analyze"})
RETRIEVAL: Final = frozenset({"retrieve", "select"})
TOTAL: Final = "total"
"""The stages in ``answers.seconds`` that are not a role of the generator.

Branches run concurrently, so the sum of the stages may exceed the total."""
TIMES: Final = ("started_at", "latency_s", "first_token_s")
"""The columns of the ledger from which the time to the first token is derived."""


def score_rows(
    run: Folder,
    named: CellName,
    golds: Sequence[GoldQuestion],
    text: Text,
    judged: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
    indexing_s: Callable[[int], float] | None = None,
) -> list[dict[str, Any]]:
    """Return a row for each question that the run has finished, in the order of ``golds``.

    ``judged`` has the judge's values with each seed, by query_id and name (``judge`` for verdicts, and the four marks);
    a row has their means. ``indexing_s`` returns the seconds to index so many characters.

    Raises InputError if the run was asked another question under a query_id, MetricError if a metric cannot be
    computed.
    """
    answers = {row["query_id"]: row for row in read_run_table(run, "answers").to_pylist()}
    attempts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_run_table(run, "ledger", ["query_id", *COLUMNS, *TIMES]).to_pylist():
        attempts[row["query_id"]].append(row)
    rows: list[dict[str, Any]] = []
    for gold in golds:
        asked = gold.gold.question
        row = answers.get(asked.query_id)
        if row is None:
            continue
        if row["question"].strip() != asked.question.strip():
            raise InputError(
                f"{run.path} was asked another question under the query_id {asked.query_id!r} than the gold questions "
                "have. Score it with the questions file that it was asked."
            )
        try:
            said = _said((judged or {}).get(asked.query_id, {}))
            marks = _row(named, gold, row, attempts[asked.query_id], text, said)
            marks["seconds_indexing"] = None
            if indexing_s is not None and row["doc_ids"]:
                marks["seconds_indexing"] = indexing_s(sum(len(text(doc_id)) for doc_id in row["doc_ids"]))
            rows.append(marks)
        except Exception as error:
            raise MetricError(
                f"The question {asked.query_id!r} of {run.path} cannot be scored: {type(error).__name__}: {error}. No "
                "table was written, because omitting a score would bias the others."
            ) from error
    return rows


def _said(by_seed: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return the judge's columns of a row: means over seeds and, if there are several, the values of each seed."""
    names = {JUDGED: by_seed.get(JUDGED), **{f"{JUDGED}_{name}": by_seed.get(name) for name in MARKS}}
    several = {name: list(values) for name, values in names.items() if values is not None and len(values) > 1}
    means = {name: fmean(values) if values else None for name, values in names.items()}
    return {**means, "judge_seeds": sorted(several.items()) or None}


def _row(
    named: CellName,
    gold: GoldQuestion,
    row: Mapping[str, Any],
    attempts: Sequence[Mapping[str, Any]],
    text: Text,
    judged: Mapping[str, Any],
) -> dict[str, Any]:
    question = gold.gold.question
    marks = answer_marks(gold.gold.dataset, row["status"], row["answer"] or "", question.answers, Typed.of(row))
    billed = bill(attempts)
    return {
        **asdict(named),
        "query_id": question.query_id,
        "cluster": f"{named.set}: {gold.cluster}",
        "type": question.type,
        "status": row["status"],
        "replied_by": row["replied_by"],
        **asdict(marks),
        **judged,
        **_shown(gold, row, text),
        "prompt_tokens": row["prompt_tokens"] or 0,
        "completion_tokens": row["completion_tokens"] or 0,
        "weighted_tokens": row["weighted_tokens"] or 0,
        "billed_usd": billed.billed_usd,
        "alone_usd": billed.alone_usd,
        **_seconds(dict(row["seconds"] or ()), attempts),
    }


def indexing_row(run: Folder, named: CellName) -> dict[str, Any] | None:
    """Return a row on the artifacts of a cell (trees, graphs), which serve all its questions, or None.

    ``artifacts`` is their number, including those found in the archive; ``alone_usd`` is what they would have cost if
    nothing had been reused from other runs or the archive. The rows of questions do not include these costs.
    """
    ledger = read_run_table(run, "ledger", COLUMNS).to_pylist()
    made = [row for row in ledger if row["query_id"].startswith(ARTIFACT) and row["status"] in USED]
    taken, _ = artifacts_taken(run)
    if not made and not taken:
        return None
    held = [each.expense for each in taken]
    return {
        **asdict(named),
        "artifacts": len({row["query_id"] for row in made} | {each.query_id for each in taken}),
        "calls": len(made) + sum(each.calls for each in held),
        "prompt_tokens": sum(row["prompt_tokens"] for row in made) + sum(each.prompt_tokens for each in held),
        "completion_tokens": sum(row["completion_tokens"] for row in made)
        + sum(each.completion_tokens for each in held),
        "alone_usd": bill(made).alone_usd + math.fsum(each.cost_usd for each in held),
    }


def _seconds(spent: Mapping[str, float], attempts: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the seconds by stage, in total and to the last call's first token, and the completion tokens per second.

    They are None for a question that reused a reply of another run.
    """
    shared = any(attempt["status"] == "cached" for attempt in attempts)
    rest = spent.keys() - ANALYSIS - RETRIEVAL - {TOTAL}
    stages = {"analysis": ANALYSIS, "retrieval": RETRIEVAL, "generation": rest, "total": {TOTAL}}
    found: dict[str, float | None] = {
        f"seconds_{name}": None if shared else math.fsum(spent.get(stage, 0.0) for stage in held)
        for name, held in stages.items()
    }
    total, calls = found["seconds_total"], [attempt for attempt in attempts if attempt["status"] == "ok"]
    found |= {"seconds_first_token": None, "tokens_per_second": None}
    if not total or not calls:
        return found
    last = max(calls, key=lambda call: call["started_at"])
    if last["latency_s"] > total or (last["started_at"] - min(c["started_at"] for c in calls)).total_seconds() > total:
        return found  # a resumed question: its seconds are those since its last start
    if last["first_token_s"] is not None:
        found["seconds_first_token"] = max(0.0, total - (last["latency_s"] - last["first_token_s"]))
    found["tokens_per_second"] = sum(call["completion_tokens"] for call in calls) / total
    return found


def _shown(gold: GoldQuestion, row: Mapping[str, Any], text: Text) -> dict[str, float | None]:
    """Return the recalls of the context, and the marks of citations and value; None for a question not asked."""
    if row["status"] == "over_budget":
        return dict.fromkeys(("answer_recall", "evidence_recall", "citation_precision", "value_mark", "page_mark"))
    context, citations = ([Span(*span) for span in spans_of(row[name])] for name in ("context", "citations"))
    texts = {span.doc_id: text(span.doc_id) for span in (*context, *citations, *gold.evidence)}
    question, label = gold.gold.question, gold.gold.source_type
    passages = [
        Passage(s.doc_id, s.start_char, s.end_char, texts[s.doc_id][s.start_char : s.end_char], 0, 0.0) for s in context
    ]
    asked = PooledQuestion(Item(gold.gold, ()), (), gold.evidence, ())
    shown = measure(asked, passages, texts)
    return {
        "answer_recall": shown.answer_recall,
        "evidence_recall": shown.evidence_recall,
        "citation_precision": citation_precision(citations, gold.evidence, texts),
        "value_mark": value_mark(label, row, question.answers) if gold.gold.dataset == ERC else None,
        "page_mark": page_mark(citations, gold.pools),
    }
