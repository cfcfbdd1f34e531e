"""The report of one run, from its tables, its archive and, where they are given, the gold answers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from statistics import median
from typing import Any, Final

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.intervals import joined_by_documents
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.prices import COLUMNS, bill
from okralong.pipelines.reporting.charts import Groups, Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.details import detail_of
from okralong.pipelines.reporting.estimates import Figure, figures
from okralong.pipelines.reporting.journal_steps import journal_steps
from okralong.pipelines.reporting.pack import compact
from okralong.pipelines.reporting.question_table import kind_of, question_table
from okralong.pipelines.reporting.report import Report, Tile
from okralong.pipelines.reporting.rows import ACCURACY, COST, Row, run_row
from okralong.pipelines.reporting.sources import evidence_recall, evidence_span, spans_of
from okralong.pipelines.reporting.standard_tables import calls_table, confusion_table, latency_table
from okralong.pipelines.reporting.table import Cell, Column, Table, number, written
from okralong.pipelines.reporting.texts import archive_texts

BEGUN: Final = "run.json"
ALL: Final = "all questions"
CALL_COLUMNS: Final = [*COLUMNS, "query_id", "role", "queue_s", "latency_s"]


def run_report(run: Folder, golds: Mapping[str, Question], details: int) -> Report:
    """The report of a run, finished or not. ``golds`` are questions with gold answers by query_id, where known.

    ``details`` bounds the questions that can be opened; the others have a line in the table.
    """
    begun = json.loads(run.read_bytes(BEGUN))
    answers = sorted(read_run_table(run, "answers").to_pylist(), key=lambda row: str(row["query_id"]))
    ledger = read_run_table(run, "ledger", CALL_COLUMNS).to_pylist()
    rows = run_rows(answers, ledger, golds)
    text_of, missing = archive_texts(begun)
    groups = by_type(rows)
    matrix = confusion(ALL, rows)
    panels = [Panel("by question type", {n: figures(g, [*ACCURACY, *COST]) for n, g in groups.items()}, compares=False)]
    manifest = run.read_manifest()
    notes = [missing] if missing else []
    if manifest is None:
        notes.append("The run is not complete: this is what it had when the report was made.")
    elif manifest.get("bad_rows"):
        notes.append(f"{manifest['bad_rows']} rows of the questions file could not be asked; failures has the reasons.")
    if not any("f1" in row.measures for row in rows):
        notes.append("No gold answers are known here, so nothing says whether an answer is right (see --questions).")
    confused = confusion_table([matrix] if matrix else [])
    return Report(
        kind="run",
        title=f"Run {'/'.join(PurePosixPath(run.path).parts[-2:])}",
        facts=facts(begun, manifest),
        tiles=tiles(rows, ledger, panels[0].points[ALL] if rows else {}),
        panels=panels,
        tables=[
            group_table("types", "By question type", "Type", groups),
            group_table("workflows", "By workflow", "Workflow", by_workflow(rows)),
            latency_table({ALL: rows} | {name: g for name, g in by_workflow(rows).items() if name != ALL}, "Workflow"),
            calls_table(ledger),
        ],
        latency=latency(groups),
        mix=workflow_mix(by_analysed(rows)),
        confusions=[matrix] if matrix else [],
        rows=rows,
        details=run_details(run, answers[:details], golds, text_of),
        files_only=[question_table(rows), *([confused] if confused else [])],
        notes=notes,
        setup=setup(manifest or begun),
    )


def run_rows(
    answers: Sequence[Mapping[str, Any]], ledger: Sequence[Mapping[str, Any]], golds: Mapping[str, Question]
) -> list[Row]:
    """A row for each answer, in their order. Those that a chain of shared documents joins are drawn together."""
    calls: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in ledger:
        calls[call["query_id"]].append(call)
    shares = any(call["status"] == "cached" for call in ledger)
    clusters = joined_by_documents([tuple(each["doc_ids"] or ()) or (f"#{each['query_id']}",) for each in answers])
    return [
        run_row(
            answer,
            golds.get(answer["query_id"]),
            bill(calls[answer["query_id"]]).alone_usd if shares else None,
            _recall(answer, golds.get(answer["query_id"])),
            cluster,
        )
        for answer, cluster in zip(answers, clusters, strict=True)
    ]


def run_details(
    run: Folder, answers: Sequence[Mapping[str, Any]], golds: Mapping[str, Question], text_of: Any
) -> list[str]:
    """The details of the answers as JSON, in their order. Documents are read one after the other, each once."""
    steps = journal_steps(run, frozenset(answer["query_id"] for answer in answers))
    found = [""] * len(answers)
    for at in sorted(range(len(answers)), key=lambda n: sorted(answers[n]["doc_ids"] or ())):
        answer = answers[at]
        query_id = answer["query_id"]
        held = json.loads(steps.pop(query_id, "[]"))
        found[at] = compact(detail_of(answer, golds.get(query_id), held, text_of))
    return found


def by_type(rows: Sequence[Row]) -> Groups:
    """All questions, then those of each type: the gold one where it is known, else the analyzer's."""
    return _grouped(rows, {row.query_id: row.type or row.analysed for row in rows}, TYPES)


def by_analysed(rows: Sequence[Row]) -> Groups:
    """All questions, then those that the analyzer took for each type."""
    return _grouped(rows, {row.query_id: row.analysed for row in rows}, TYPES)


def by_workflow(rows: Sequence[Row]) -> Groups:
    """All questions, then those of each workflow."""
    return _grouped(rows, {row.query_id: row.workflow for row in rows}, ("linear", "extend", "split", "step"))


def _grouped(rows: Sequence[Row], names: Mapping[str, str], order: Sequence[str]) -> Groups:
    held = {name for name in names.values() if name}
    ordered = [name for name in order if name in held] + sorted(held - set(order))
    return {ALL: rows} | {name: [row for row in rows if names[row.query_id] == name] for name in ordered}


def group_table(name: str, title: str, of: str, groups: Groups) -> Table:
    """Accuracy, cost and time of each group, with intervals."""
    shown = {group: figures(rows, [*ACCURACY, *COST]) for group, rows in groups.items()}
    held = {measure for found in shown.values() for measure in found}
    accuracy = [measure for measure in ACCURACY if measure in held]
    cost = [measure for measure in COST if measure in held]
    columns = [
        Column("group", of),
        Column("questions", "Questions", "count"),
        Column("answered", "Answered", "count"),
        Column("cited", "Cited", "count"),
        *(Column(measure, ACCURACY[measure], "share") for measure in accuracy),
        *(Column(measure, COST[measure], kind_of(measure)) for measure in cost),
    ]
    lines: list[list[Cell]] = []
    for group, rows in groups.items():
        answered = sum(row.status == "answered" for row in rows)
        found = shown[group]
        line: list[Cell] = [group, len(rows), answered, sum(row.cited for row in rows)]
        lines.append([*line, *(found.get(measure) for measure in (*accuracy, *cost))])
    note = "Means over questions, with 95 % intervals (bootstrap over documents). Questions that failed score 0."
    return Table(name, title, note, columns, lines)


def tiles(rows: Sequence[Row], ledger: Sequence[Mapping[str, Any]], means: Mapping[str, Figure]) -> list[Tile]:
    """What the run comes to."""
    billed = bill(ledger)
    answered = sum(row.status == "answered" for row in rows)
    found = [
        Tile("Questions", f"{len(rows):,}", f"{answered:,} answered, {sum(row.cited for row in rows):,} cited"),
    ]
    for measure in ("f1", "em", "evidence_recall"):
        if measure in means:
            value, interval = written(Column(measure, "", "share"), means[measure])
            found.append(Tile(ACCURACY[measure], value, interval and f"95 %: {interval}"))
    tokens = [row.measures["weighted_tokens"] for row in rows if "weighted_tokens" in row.measures]
    per_question = number("tokens", sum(tokens) / len(tokens) if tokens else None)
    found.append(Tile("Tokens a question", per_question, f"input + 4 x output; {sum(tokens):,.0f} in all"))
    alone = f"alone {number('usd', billed.alone_usd)}" if billed.shared else f"{billed.calls:,} calls"
    found.append(Tile("Billed", number("usd", billed.billed_usd), alone))
    seconds = [row.measures["seconds_total"] for row in rows if "seconds_total" in row.measures]
    if seconds:
        found.append(Tile("Median time", f"{median(seconds):,.1f} s", "a question, waiting included"))
    return found


def facts(begun: Mapping[str, Any], manifest: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """With what the run was made. Of places only their last part: a page travels further than a folder."""
    config = begun.get("config") or {}
    llm = config.get("llm") or {}
    analyzer = config.get("analyzer") or {}
    model = (manifest or {}).get("generator", {}).get("model") or llm.get("model") or ""
    found = [
        ("strategy", str(config.get("strategy") or "")),
        ("generator", PurePosixPath(str(model)).name),
        ("analyzer", f"{analyzer.get('kind', '')} {PurePosixPath(str(analyzer.get('adapter') or '')).name}".strip()),
        ("policy", PurePosixPath(str(config.get("policy") or "")).stem),
        ("archive", PurePosixPath(str(begun.get("archive") or "")).name),
        ("seed", str(llm.get("seed") if llm.get("seed") is not None else "")),
        ("okralong", str(((manifest or {}).get("versions") or {}).get("okralong") or "")),
    ]
    return [(name, value) for name, value in found if value]


def setup(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Config, policy, generator and versions as the manifest has them; of absolute paths the last part."""
    return {key: _public(manifest[key]) for key in ("config", "policy", "generator", "versions") if key in manifest}


def _public(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _public(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_public(each) for each in value]
    if isinstance(value, str):
        return PurePosixPath(value).name if value.startswith(("/", "~")) else value
    return value


def _recall(answer: Mapping[str, Any], gold: Question | None) -> float | None:
    marked = [span for each in (gold.evidence if gold else ()) if (span := evidence_span(each)) is not None]
    return evidence_recall(marked, spans_of(answer["context"]))
