"""The report of a run, from its tables, its archive and, if given, gold answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from statistics import fmean, median
from typing import Any, Final

from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import models_named
from okralong.pipelines.reporting.charts import WORKFLOWS, Groups, Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.cited import archive_of
from okralong.pipelines.reporting.details import run_details
from okralong.pipelines.reporting.export import flat_row
from okralong.pipelines.reporting.matrix import TAGGED_FACTS, Matrix
from okralong.pipelines.reporting.page import Report, Tile
from okralong.pipelines.reporting.page_pictures import DEFAULT_MEGABYTES, Drawn, PageMarks
from okralong.pipelines.reporting.rows import (
    ACCURACY,
    MEASURES,
    Row,
    figures,
    in_order,
    known_measures,
    public,
    replied_by,
    run_row,
)
from okralong.pipelines.reporting.searched import searched
from okralong.pipelines.reporting.sources import evidence_recall, gold_spans, spans_of
from okralong.pipelines.reporting.statistics import Estimate, joined_by_documents
from okralong.pipelines.reporting.tables import (
    Cell,
    Column,
    Table,
    confusion_tables,
    latency_table,
    measure_column,
    number,
    question_table,
    written,
)
from okralong.pipelines.run.corrections import Correction, corrections_of
from okralong.pipelines.run.rows import BEGUN, in_question_order

ALL: Final = "all questions"
TRAINED: Final = ("heads", "label_scorer")
"""The kinds of analyzers that have an adapter."""
CALL_COLUMNS: Final = [*COLUMNS, "query_id", "role", "queue_s", "latency_s"]


def run_report(
    run: Folder,
    golds: Mapping[str, Question],
    details: int,
    *,
    megabytes: float = DEFAULT_MEGABYTES,
    links: bool = True,
) -> Report:
    """Make the report of a run, finished or not.

    Args:
        run: The run folder.
        golds: Questions with gold answers by query_id.
        details: The most questions with details; the others only have a row in the table.
        megabytes: Maximum size of the pictures of cited pages; 0 for none.
        links: Whether to link to the source files.
    """
    begun = run.read_json(BEGUN)
    answers = in_question_order(run, read_run_table(run, "answers").to_pylist())
    ledger = read_run_table(run, "ledger", CALL_COLUMNS).to_pylist()
    corrections = corrections_of(run)
    rows = run_rows(answers, ledger, golds, corrections)
    archive, missing = archive_of(begun)
    marks = PageMarks()
    looked = searched(run, answers[:details], archive)
    drawn_marks = marks if megabytes > 0 else None
    opened = run_details(run, answers[:details], golds, archive, drawn_marks, corrections, looked, links=links)
    drawn = Drawn() if archive is None else marks.draw(archive, megabytes)
    groups = _grouped(rows, lambda row: row.type or row.analysed, TYPES)  # the gold type, if known
    workflows = _grouped(rows, lambda row: row.workflow, WORKFLOWS)
    matrix = confusion(ALL, rows)
    table = _matrix(answers, begun, archive, corrections)
    panel = Panel("by question type", {name: figures(own, [*MEASURES]) for name, own in groups.items()}, compares=False)
    manifest = run.read_manifest()
    notes = [*([missing] if missing else []), *drawn.notes, *(table.notes if table is not None else ())]
    if manifest is None:
        notes.append("The run was incomplete when this report was made.")
    elif manifest.get("bad_rows"):
        rejected = counted(manifest["bad_rows"], "row")
        notes.append(f"{rejected} of the questions file could not be asked; okralong failures lists why.")
    if table is not None and table.failures:
        count = len(table.failures)
        notes.append(
            f"{counted(count, 'check')} of the table failed; the cells are marked, and a table below lists them."
        )
    if corrections:
        opened_again = sum(bool(each.reopened) for each in corrections.values())
        notes.append(f"{counted(len(corrections), 'answer')} corrected by people, {opened_again:,} of them reopened.")
    if not any("f1" in row.measures for row in rows):
        notes.append("No gold answers are known, so the accuracy is unknown (see --questions).")
    return Report(
        kind="run",
        title=f"Run {'/'.join(PurePosixPath(run.path).parts[-2:])}",
        facts=facts(begun, manifest, answers),
        tiles=_tiles(rows, ledger, panel.points[ALL]),
        panels=[panel],
        tables=[
            _group_table("types", "By question type", "Type", groups),
            _group_table("workflows", "By workflow", "Workflow", workflows),
            latency_table(workflows, "Workflow"),
            _calls_table(ledger),
            *([_checks_table(table)] if table is not None and table.failures else []),
            *([_tagged_table(table)] if table is not None and table.tagged else []),
        ],
        latency=latency(groups),
        mix=workflow_mix(_grouped(rows, lambda row: row.analysed, TYPES)),
        confusions=[matrix] if matrix else [],
        rows=rows,
        details=opened,
        drawn=drawn,
        files_only=[question_table(rows), *confusion_tables([matrix] if matrix else [])],
        notes=notes,
        setup=_setup(manifest or begun),
        matrix=None if table is None else table.for_page({row["query_id"]: at for at, row in enumerate(answers)}),
    )


def _matrix(
    answers: Sequence[Mapping[str, Any]],
    begun: Mapping[str, Any],
    archive: Archive | None,
    corrections: Mapping[str, Correction],
) -> Matrix | None:
    """Return the matrix with its failed checks, or None if there is none."""
    cells = [flat_row(row, begun, None, corrections.get(row["query_id"])) for row in answers if row["asked_id"]]
    titles: dict[str, str] = {}
    if cells and archive is not None:
        known = archive.metadata().select(["doc_id", "title"]).to_pydict()
        titles = {doc_id: title for doc_id, title in zip(known["doc_id"], known["title"], strict=True) if title}
    made = Matrix.of(cells, begun.get("columns") or (), titles)
    rules = begun.get("checks") or ()
    if made is None or not rules:
        return made
    return made.checked(rules, archive)


def _checks_table(matrix: Matrix) -> Table:
    columns = [
        Column("doc_id", "Document"), Column("columns", "Columns"), Column("rule", "Rule"), Column("found", "Found")
    ]  # fmt: skip
    rows = [tuple(row.values()) for row in matrix.checks_table().to_pylist()]
    return Table("checks", "Failed checks", "Values that contradict each other; either may be wrong.", columns, rows)


def _tagged_table(matrix: Matrix) -> Table:
    heads = ("Document", "Column", "Result", "Value", "Tagged fact", "Concept", "Source of the fact")
    columns = [Column(name, head) for name, head in zip(TAGGED_FACTS.names, heads, strict=True)]
    rows = [tuple(row.values()) for row in matrix.tagged_table().to_pylist()]
    note = "Values beside the facts that their filers have tagged in XBRL. Nothing is overwritten."
    return Table("tagged_facts", "Tagged facts", note, columns, rows)


def run_rows(
    answers: Sequence[Mapping[str, Any]],
    ledger: Sequence[Mapping[str, Any]],
    golds: Mapping[str, Question],
    corrections: Mapping[str, Correction] | None = None,
) -> list[Row]:
    """Return a row per answer, in order. Answers linked by shared documents share a cluster."""
    calls: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for call in ledger:
        calls[call["query_id"]].append(call)
    known = corrections or {}
    shares = any(call["status"] == "cached" for call in ledger)
    clusters = joined_by_documents([tuple(each["doc_ids"] or ()) or (f"#{each['query_id']}",) for each in answers])
    return [
        run_row(
            answer,
            golds.get(answer["query_id"]),
            bill(calls[answer["query_id"]]).alone_usd if shares else None,
            evidence_recall(gold_spans(golds.get(answer["query_id"])), spans_of(answer["context"])),
            cluster,
            known[answer["query_id"]].state if answer["query_id"] in known else "",
        )
        for answer, cluster in zip(answers, clusters, strict=True)
    ]


def _grouped(rows: Sequence[Row], name_of: Callable[[Row], str], order: Sequence[str]) -> Groups:
    """Group all rows, then the rows of each name, with known names in ``order``."""
    names = in_order(filter(None, map(name_of, rows)), order)
    return {ALL: rows} | {name: [row for row in rows if name_of(row) == name] for name in names}


def _group_table(name: str, title: str, of: str, groups: Groups) -> Table:
    """Return accuracy, cost and time of each group with intervals."""
    shown = {group: figures(rows, [*MEASURES]) for group, rows in groups.items()}
    measures = known_measures(shown.values(), MEASURES)
    columns = [
        Column("group", of),
        *(Column(key, key.capitalize(), "count") for key in ("questions", "answered", "cited")),
        *map(measure_column, measures),
    ]
    lines: list[list[Cell]] = []
    for group, rows in groups.items():
        answered = sum(row.status == "answered" for row in rows)
        counts: list[Cell] = [len(rows), answered, sum(row.cited for row in rows)]
        lines.append([group, *counts, *map(shown[group].get, measures)])
    note = "Means over questions, with 95 % intervals (bootstrap over documents). Questions that failed score 0."
    return Table(name, title, note, columns, lines)


def _calls_table(ledger: Iterable[Mapping[str, Any]]) -> Table:
    """Summarize the ledger by role."""
    by_role: dict[str, list[Mapping[str, Any]]] = {}
    for row in ledger:
        by_role.setdefault(row["role"] or "", []).append(row)
    rows: list[Sequence[Cell]] = []
    for role, held in sorted(by_role.items()):
        ended = [row["status"] for row in held]
        good = [row for row in held if row["status"] == "ok"]
        rows.append(
            [
                role,
                len(held),
                *(ended.count(status) for status in ("ok", "cached", "failed", "unknown")),
                sum(row["prompt_tokens"] or 0 for row in good),
                sum(row["completion_tokens"] or 0 for row in good),
                float(sum(row["cost_usd"] or 0.0 for row in held)),
                fmean(row["queue_s"] or 0.0 for row in good) if good else None,
                fmean(row["latency_s"] or 0.0 for row in good) if good else None,
            ]
        )
    columns = [
        Column("role", "Role"),
        Column("attempts", "Attempts", "count"),
        *(Column(status, status, "count") for status in ("ok", "cached", "failed", "unknown")),
        Column("prompt_tokens", "Input tokens", "tokens"),
        Column("completion_tokens", "Output tokens", "tokens"),
        Column("cost_usd", "Cost", "usd"),
        Column("queue_s", "Mean queue, s", "seconds"),
        Column("latency_s", "Mean latency, s", "seconds"),
    ]
    return Table("calls", "Calls by role", "Attempts in the ledger; tokens of successful ones.", columns, rows)


def _tiles(rows: Sequence[Row], ledger: Sequence[Mapping[str, Any]], means: Mapping[str, Estimate]) -> list[Tile]:
    """Return the figures at the top of the page."""
    billed = bill(ledger)
    answered = sum(row.status == "answered" for row in rows)
    with_source = sum(row.cited for row in rows)
    found = [Tile("Questions", f"{len(rows):,}", f"{answered:,} answered, {with_source:,} cited")]
    for measure in ("f1", "em", "evidence_recall"):
        if measure in means:
            value, interval = written(measure_column(measure), means[measure])
            found.append(Tile(ACCURACY[measure], value, interval and f"95 %: {interval}"))
    tokens = [row.measures["weighted_tokens"] for row in rows if "weighted_tokens" in row.measures]
    per_question = number("tokens", sum(tokens) / len(tokens) if tokens else None)
    found.append(Tile("Tokens per question", per_question, f"input + 4 x output; {sum(tokens):,.0f} in total"))
    alone = (
        f"{number('usd', billed.alone_usd)} without shared replies" if billed.shared else counted(billed.calls, "call")
    )
    found.append(Tile("Billed", number("usd", billed.billed_usd), alone))
    seconds = [row.measures["seconds_total"] for row in rows if "seconds_total" in row.measures]
    if seconds:
        found.append(Tile("Median time", f"{median(seconds):,.1f} s", "per question, including waiting"))
    return found


def facts(
    begun: Mapping[str, Any], manifest: Mapping[str, Any] | None, answers: Iterable[Mapping[str, Any]] = ()
) -> list[tuple[str, str]]:
    """Return the run's set-up and replying models. Paths are shortened to their last part (``public``)."""
    config = begun.get("config") or {}
    llm = config.get("llm") or {}
    analyzer = config.get("analyzer") or {}
    kind, adapter = str(analyzer.get("kind") or ""), PurePosixPath(str(analyzer.get("adapter") or "")).name
    model = (manifest or {}).get("generator", {}).get("model") or llm.get("model") or ""
    found = [
        ("strategy", str(config.get("strategy") or "")),
        ("generator", PurePosixPath(str(model)).name),
        ("replied", models_named(public(name) for name, _ in replied_by(answers))),
        ("analyzer", f"{kind} {adapter if kind in TRAINED else ''}".strip()),
        ("policy", PurePosixPath(str(config.get("policy") or "")).stem),
        ("archive", PurePosixPath(str(begun.get("archive") or "")).name),
        ("seed", str(llm.get("seed") if llm.get("seed") is not None else "")),
        ("okralong", str(((manifest or {}).get("versions") or {}).get("okralong") or "")),
    ]
    return [(name, value) for name, value in found if value]


def _setup(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return config, policy, generator and versions of the manifest, after ``public``."""
    return {key: public(manifest[key]) for key in ("config", "policy", "generator", "versions") if key in manifest}
