"""The end of a run on the terminal: a table of the questions, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from okralong.jobs.run_folder import table
from okralong.jobs.terminal import printable, say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import COLUMNS, PriceTable, bill
from okralong.pipelines.reporting.metrics import answer_marks

ROWS_SHOWN = 40
ANSWER_CHARS = 160
PLAIN_WIDTH = 160
"""Columns of the table where the output is no terminal, whose width is then not known."""
REFERENCE_MODEL = "gpt-4o-2024-08-06"
"""The paper's generator (appendix B.2): what the same tokens would cost there, for runs on a local model."""


def print_summary(
    console: Console, run: Folder, stopped: str, golds: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Print the questions of a run (the first ones of a long run) and its sums.

    ``golds`` are the gold answers by query_id, where the questions file gives any.
    """
    rows = sorted(table(run, "answers"), key=lambda row: str(row["query_id"]))
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    grid = Table(show_lines=False, expand=True)
    for title, ratio in (("question", 6), ("type", 2), ("workflow", 2), ("answer", 6), ("sources", 4)):
        grid.add_column(title, ratio=ratio, overflow="fold")
    grid.add_column("tokens", justify="right")
    grid.add_column("cost", justify="right")
    for row in rows[:ROWS_SHOWN]:
        grid.add_row(*_cells(row))
    console.print(grid)
    if len(rows) > ROWS_SHOWN:
        console.print(f"... and {len(rows) - ROWS_SHOWN} more in {run.path}/answers")
    usage = Usage(
        sum(row["prompt_tokens"] or 0 for row in rows),
        sum(row["cached_tokens"] or 0 for row in rows),
        sum(row["completion_tokens"] or 0 for row in rows),
    )
    statuses: dict[str, int] = {}
    for row in rows:
        statuses[row["status"]] = statuses.get(row["status"], 0) + 1
    cost = sum(row["cost_usd"] or 0.0 for row in rows)
    reference = PriceTable.load().price(REFERENCE_MODEL).cost(usage)
    sums = f"{usage.prompt_tokens:,} prompt + {usage.completion_tokens:,} completion tokens"
    ended = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    cited = sum(bool(row["cited"]) for row in rows)
    for line in (
        f"{ended}; {cited} cited; analyzer: {', '.join(sorted(_analyzers(rows))) or 'none'}",
        f"{sums} = {usage.weighted_tokens:,} weighted (input + 4 x output)",
        f"cost ${cost:.4f}; the same tokens at {REFERENCE_MODEL} prices: ${reference:.4f}",
        *_bill(run),
        *_score(rows, golds or {}),
        f"run folder: {run.path}; one question's whole way: okralong show {run.path} QUERY_ID",
    ):
        say_line(console, line)
    if stopped:
        say_line(console, f"stopped: {stopped}", style="red")


def _bill(run: Folder) -> list[str]:
    """What there is to say of shared replies, of batches and of tags; mostly nothing."""
    billed = bill(table(run, "ledger", COLUMNS))
    lines = []
    if billed.shared:
        lines.append(
            f"billed ${billed.billed_usd:.4f}; alone the run would have cost ${billed.alone_usd:.4f}: "
            f"{billed.shared} replies came from other runs"
        )
    if billed.batch_calls:
        lines.append(
            f"billed in batches ${billed.batch_usd:.4f} for {billed.batch_calls} calls, in real time "
            f"${billed.billed_usd - billed.batch_usd:.4f} for {billed.calls - billed.batch_calls}"
        )
    if billed.artifact_calls:
        lines.append(
            f"beside the questions ${billed.artifacts_usd:.4f} were billed for {billed.artifact_calls} calls that made "
            "what many of them share, such as a document's summaries"
        )
    if billed.by_tag:
        costs = ", ".join(f"{name}={value} ${cost:.4f}" for (name, value), cost in billed.by_tag.items())
        lines.append(f"billed by tag: {costs}")
    return lines


def _score(rows: list[dict[str, Any]], golds: Mapping[str, Sequence[str]]) -> list[str]:
    """How well the answers agree with the gold ones, marked as in the report: a failed question scores 0, and one that
    the budget did not reach counts nowhere. Nothing without golds.
    """
    marked = (answer_marks("", row["status"], row["answer"] or "", golds.get(row["query_id"]) or []) for row in rows)
    held = [(marks.f1, marks.em) for marks in marked if marks.f1 is not None and marks.em is not None]
    if not held:
        return []
    f1, exact = fmean(each[0] for each in held), fmean(each[1] for each in held)
    return [f"against the gold answers of {len(held)} questions: F1 {f1:.2f}, exact match {exact:.2f}"]


def _analyzers(rows: list[dict[str, Any]]) -> set[str]:
    return {json.loads(row["analysis"])["analyzer"] for row in rows if row["analysis"]}


def _text(words: str) -> Text:
    return Text(printable(words))


def _cells(row: dict[str, Any]) -> list[Any]:
    analysis = json.loads(row["analysis"]) if row["analysis"] else None
    plan = json.loads(row["plan"]) if row["plan"] else None
    answer = row["answer"] if row["status"] == "answered" else f"({row['status']}) {row['error'] or ''}".strip()
    cited = sorted({span["doc_id"] for span in row["citations"]})
    return [
        _text(f"{row['query_id']}  {row['question']}"),
        _text(analysis["type"] if analysis else "-"),
        _text(plan["workflow"] if plan else "-"),
        _text(answer if len(answer) <= ANSWER_CHARS else f"{answer[:ANSWER_CHARS]} ..."),
        _text(", ".join(cited) if cited else "uncited"),
        _text(f"{(row['prompt_tokens'] or 0) + (row['completion_tokens'] or 0):,}"),
        _text(f"${row['cost_usd'] or 0.0:.4f}"),
    ]
