"""From the rows of a run to one mark sheet for each question."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from okralong.lab.datasets.gold import Gold, answer_recall
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.metrics import best, exact_match, numeric_match, token_f1

Text = Callable[[str], str]
"""The text of a document of the archive by its doc_id."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a question cost: the ledger's settled attempts (``calls``), and how many attempts did not end well."""

    calls: int = 0
    other_attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_s: float = 0.0
    queue_s: float = 0.0

    @property
    def weighted_tokens(self) -> int:
        """Input + 4 x output tokens (paper section 4.2)."""
        return self.prompt_tokens + 4 * self.completion_tokens


@dataclass(frozen=True, slots=True)
class Sheet:
    """One question of one run. Marks are 0 to 1; ``numeric`` and ``recall`` are None where they are not defined.

    ``context_tokens`` are o200k tokens of the last prompt's passages, ``seconds`` wall time by stage.
    """

    gold: Gold
    strategy: str
    status: str
    f1: float
    em: float
    numeric: float | None
    recall: float | None
    context_tokens: int
    cited: bool = False
    analyzed_type: str = ""
    workflow: str = ""
    spent: Spent = Spent()
    seconds: Mapping[str, float] = field(default_factory=dict)


def mark(gold: Gold, strategy: str, status: str, answer: str, shown: Sequence[str], context_tokens: int) -> Sheet:
    """The marks of an answer. Only status "answered" can earn F1, EM and the numeric mark; recall is of any status."""
    golds = gold.question.answers
    said = answer if status == "answered" else ""
    numeric = numeric_match(said, golds)
    return Sheet(
        gold,
        strategy,
        status,
        f1=best(token_f1, said, golds),
        em=best(exact_match, said, golds),
        numeric=None if numeric is None else float(numeric),
        recall=answer_recall(gold.parts, shown),
        context_tokens=context_tokens,
    )


def score_run(run: Folder, golds: Sequence[Gold], text: Text) -> list[Sheet]:
    """The sheets of a run's answers, in the order of ``golds``; questions that the run was not asked have none.

    Raises InputError when no question of the run is in ``golds``.
    """
    rows = {row["query_id"]: row for row in _rows(run, "answers")}
    spent = _spent(_rows(run, "ledger"))
    sheets = []
    for gold in golds:
        row = rows.get(gold.question.query_id)
        if row is None or row["question"].strip() != gold.question.question.strip():
            continue
        sheets.append(_sheet(gold, row, text, spent.get(gold.question.query_id, Spent())))
    if not sheets:
        raise InputError(
            f"{run.path}/answers holds {len(rows)} rows and none of them is a question of the gold file. "
            "Score a run that was asked the questions.jsonl written by python -m benchmarks.reports.prepare."
        )
    return sheets


def _sheet(gold: Gold, row: Mapping[str, Any], text: Text, spent: Spent) -> Sheet:
    shown = [text(span["doc_id"])[span["start_char"] : span["end_char"]] for span in row["context"] or ()]
    tokens = row["context_tokens"] or 0
    marks = mark(gold, row["strategy"], row["status"], row["answer"] or "", shown, tokens)
    return replace(
        marks,
        cited=bool(row["cited"]),
        analyzed_type=json.loads(row["analysis"])["type"] if row["analysis"] else "",
        workflow=json.loads(row["plan"])["workflow"] if row["plan"] else "",
        spent=spent,
        seconds=dict(row["seconds"] or ()),
    )


def _spent(ledger: Sequence[Mapping[str, Any]]) -> dict[str, Spent]:
    found: dict[str, Spent] = {}
    for row in ledger:
        so_far = found.get(row["query_id"], Spent())
        paid = row["status"] == "ok"
        found[row["query_id"]] = Spent(
            so_far.calls + paid,
            so_far.other_attempts + (not paid),
            so_far.prompt_tokens + (row["prompt_tokens"] or 0 if paid else 0),
            so_far.completion_tokens + (row["completion_tokens"] or 0 if paid else 0),
            so_far.latency_s + (row["latency_s"] or 0.0 if paid else 0.0),
            so_far.queue_s + (row["queue_s"] or 0.0 if paid else 0.0),
        )
    return found


def _rows(run: Folder, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_run_table(run, name).to_pylist()
    return rows
