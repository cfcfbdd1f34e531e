"""Summaries and paired differences as Markdown: a table a set, a row a system or cell, a column a metric."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow.parquet as pq

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.charts import Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.page import Report, Tile
from okralong.pipelines.reporting.rows import ACCURACY, COST, OPEN, STAGES, Figure, Row, figures, mean_over
from okralong.pipelines.reporting.run import BEGUN, archive_texts, facts, run_details
from okralong.pipelines.reporting.tables import (
    Better,
    Cell,
    Column,
    Table,
    confusion_table,
    kind_of,
    latency_table,
    number,
    question_table,
)
from okralong.pipelines.run.prepare import read_questions

NONE: Final = "-"
"""Stands where a figure is not defined, or an end of an interval cannot be told."""

SHOWN: Final[Mapping[str, str]] = {
    "f1": "F1",
    "em": "EM",
    "rouge_l": "ROUGE-L",
    "numeric": "number",
    "judge": "judge",
    "answer_recall": "answer recall",
    "evidence_recall": "evidence recall",
    "citation_precision": "citation precision",
    "weighted_tokens": "tokens",
    "alone_usd": "dollars alone",
    "seconds_total": "seconds",
}
"""The metrics on the page, by their heads; the Parquet and CSV files have all."""

ResultRow = Mapping[str, Any]

_WORDS: Final = (
    "Means over questions with 95 % intervals from a bootstrap over documents. Tokens are input + 4 x output, of a "
    "question; dollars alone are what the method costs when it shares no replies. A dash: not defined, or too few "
    "documents to tell."
)
_PAIRED_WORDS: Final = (
    "Means of differences on the same questions, with 95 % intervals from a bootstrap over documents; in brackets the "
    "p-value of a sign-flip test over documents after Holm's correction. Its families are all single sets, the mean "
    "over the sets, and the types, each for one metric. A dash: not defined, or too few documents to tell."
)


def summary_page(title: str, rows: Sequence[ResultRow]) -> str:
    """The page of rows of ``summary``."""
    parts = [f"# {title}", _WORDS]
    for name in _order(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name and not row["type"]]
        parts += [f"## {name or 'Mean over the sets'}", _grid(own, _system, _valued)]
        by_type = [row for row in rows if row["set"] == name and row["type"]]
        if by_type:
            parts += ["By type:", _grid(by_type, lambda row: f"{_system(row)}: {row['type']}", _valued)]
    return "\n\n".join(parts) + "\n"


def paired_page(title: str, rows: Sequence[ResultRow]) -> str:
    """The page of rows of ``paired``."""
    parts = [f"# {title}: paired differences", _PAIRED_WORDS]
    if not rows:
        parts.append("There is nothing to compare.")
    for other in _order((row["against_method"], row["against_variant"]) for row in rows):
        against = [row for row in rows if (row["against_method"], row["against_variant"]) == other]
        parts.append(f"## Less {_name(*other)}")
        for name, kind in _order((row["set"], bool(row["type"])) for row in against):
            own = [row for row in against if (row["set"], bool(row["type"])) == (name, kind)]
            head = name or ("Mean over the sets, by type" if kind else "Mean over the sets")
            parts += [f"### {head}", _grid(own, _system, _tested)]
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is of words, the others of figures."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def shown_number(value: float | None) -> str:
    """Three digits behind the point for shares, four significant ones for the rest, none for large figures."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"


def _grid(rows: Sequence[ResultRow], named: Callable[[ResultRow], str], shown: Callable[[ResultRow], str]) -> str:
    metrics = [metric for metric in SHOWN if any(row["metric"] == metric for row in rows)]
    cells: dict[str, dict[str, ResultRow]] = {}
    for row in rows:
        cells.setdefault(named(row), {})[row["metric"]] = row
    lines = []
    for name, by_metric in cells.items():
        n = max(row["n"] for row in by_metric.values())
        lines.append([name, f"{n:,}", *(shown(by_metric[m]) if m in by_metric else NONE for m in metrics)])
    return table(["", "questions", *(SHOWN[metric] for metric in metrics)], lines)


def _valued(row: ResultRow) -> str:
    return f"{shown_number(row['value'])}{_interval(row)}"


def _tested(row: ResultRow) -> str:
    difference = row["difference"]
    sign = "+" if difference is not None and difference > 0 else ""
    p = "" if row["p_holm"] is None else f" ({shown_number(row['p_holm'])})"
    return f"{sign}{shown_number(difference)}{_interval(row)}{p}"


def _interval(row: ResultRow) -> str:
    return (
        ""
        if row["low"] is None and row["high"] is None
        else f" [{shown_number(row['low'])}, {shown_number(row['high'])}]"
    )


def _system(row: ResultRow) -> str:
    seed = row.get("seed")
    name = _name(row["method"], row["variant"])
    if row.get("type") and "against_method" in row:
        name = f"{name}: {row['type']}"
    return name if seed is None else f"{name}, seed {seed}"


def _name(method: str, variant: str) -> str:
    return method if variant == "default" else f"{method} ({variant})"


def _order(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


# --------
# From a sweep's scores and the run folders of its cells to the rows and details of a report.

RUNS: Final = ("cells", "runs")
"""Below a sweep, one or the other: the run folders of its cells, by the cell's name."""
QUESTIONS: Final = "questions.jsonl"
"""In ``sets/SET`` below a sweep, where it is there: the questions of a set with their gold."""


def cell_folders(sweep: Folder, scores: Sequence[Mapping[str, Any]]) -> dict[str, Folder]:
    """The run folders that are there, by cell. A cell's name leads to nowhere but below ``runs``."""
    cells = [cell for cell in dict.fromkeys(str(row["cell"]) for row in scores) if ".." not in cell.split("/")]
    places = ((cell, sweep.at(runs, cell)) for cell in cells for runs in RUNS)
    return {cell: place for cell, place in places if place.exists(BEGUN)}


def set_golds(sweep: Folder, names: Sequence[str]) -> dict[str, dict[str, Question]]:
    """Gold questions by set and query_id, of the sets whose questions lie with the sweep."""
    found = {}
    for name in names:
        folder = sweep.at("sets", "-".join(name.split()))  # the sweep's folder names hold no blanks
        if folder.exists(QUESTIONS):
            place = folder.at(QUESTIONS).path
            location = place if sweep.is_local else f"{sweep.filesystem.type_name}://{place}"
            found[name] = {question.query_id: question for question in read_questions(location)[0]}
    return found


def sweep_rows(
    scores: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str], folders: Mapping[str, Folder]
) -> list[Row]:
    """A row for each row of scores. The first question of every set comes first under all methods, then the second: so
    that a bound on details leaves whole questions, of all sets alike."""
    said = {cell: _said(folder) for cell, folder in folders.items()}
    rank: dict[tuple[str, str], int] = {}
    count: defaultdict[str, int] = defaultdict(int)
    for row in sorted(scores, key=lambda each: str(each["query_id"])):
        if (row["set"], row["query_id"]) not in rank:
            rank[row["set"], row["query_id"]] = count[row["set"]]
            count[row["set"]] += 1
    order = {label: at for at, label in enumerate(labels.values())}
    rows = [_row(row, labels, said.get(row["cell"], {}).get(row["query_id"], {})) for row in scores]
    return sorted(rows, key=lambda r: (rank[r.dataset, r.query_id], r.dataset, r.query_id, order[r.method], r.cell))


def sweep_details(
    rows: Sequence[Row], folders: Mapping[str, Folder], golds: Mapping[str, Mapping[str, Question]]
) -> tuple[list[str], str]:
    """The details of the rows as JSON ("null" for a row without a run folder), and a sentence on archives that are
    missing, or ""."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if row.cell in folders:
            wanted[row.cell].append(at)
    found = ["null"] * len(rows)
    trouble = ""
    for cell, places in wanted.items():
        text_of, missing = archive_texts(json.loads(folders[cell].read_bytes(BEGUN)))
        trouble = trouble or missing
        held = {answer["query_id"]: answer for answer in read_run_table(folders[cell], "answers").to_pylist()}
        known = [at for at in places if rows[at].query_id in held]
        answers = [held[rows[at].query_id] for at in known]
        gold = golds.get(rows[places[0]].dataset, {})
        for at, detail in zip(known, run_details(folders[cell], answers, gold, text_of), strict=True):
            found[at] = detail
    return found, trouble


def _row(score: Mapping[str, Any], labels: Mapping[tuple[str, str], str], said: Mapping[str, Any]) -> Row:
    # What the budget did not reach has cost what it has cost, and says nothing else of the method.
    asked = score.get("status") != OPEN
    held = (*ACCURACY, *COST) if asked else [name for name in COST if name.endswith("_usd")]
    known = {name: float(score[name]) for name in held if score.get(name) is not None}
    return Row(
        query_id=str(score["query_id"]),
        question=said.get("question") or "",
        status=score.get("status") or said.get("status") or "",
        answer=said.get("answer") or "",
        type=score.get("type") or "",
        analysed=_word(said.get("analysis"), "type"),
        workflow=_word(said.get("plan"), "workflow"),
        cluster=score.get("cluster") or str(score["query_id"]),
        method=labels[score["method"], score.get("variant") or ""],
        dataset=str(score["set"]),
        cell=str(score["cell"]),
        cited=bool(said.get("cited")),
        measures=known,
        stages={stage: float(score[name]) for name, stage in STAGES.items() if asked and score.get(name) is not None},
    )


def _said(run: Folder) -> dict[str, dict[str, Any]]:
    columns = ["query_id", "question", "status", "answer", "cited", "analysis", "plan"]
    return {row["query_id"]: row for row in read_run_table(run, "answers", columns).to_pylist()}


def _word(body: str | None, key: str) -> str:
    return str(json.loads(body).get(key) or "") if body else ""


# --------
# Reading what a sweep left: its scores, its summary with intervals, its paired differences.

SCORES: Final = "scores"
NEEDED: Final = ("cell", "method", "set", "query_id")
"""Columns without which a table is no table of scores; every other one may be missing or null."""

Records = list[dict[str, Any]]


def is_sweep(folder: Folder) -> bool:
    """Whether the folder holds a table of scores."""
    return folder.exists(SCORES) or folder.exists(f"{SCORES}.parquet")


def read_scores(folder: Folder) -> Records:
    """The rows of the table of scores. Raises InputError when there is none, or it lacks a needed column."""
    rows = read_records(folder, SCORES)
    if not rows:
        raise InputError(f"{folder.path} has no scores yet. Let okralong evaluate finish at least one question.")
    lacks = [name for name in NEEDED if name not in rows[0]]
    if lacks:
        raise InputError(
            f"The scores in {folder.path} have no column {', '.join(lacks)}, so they cannot be told apart. Run "
            "okralong evaluate again with this version."
        )
    return rows


def read_records(folder: Folder, name: str) -> Records:
    """The rows of ``name.parquet``, or of all Parquet files of the folder ``name``; none when it is not there."""
    names = [f"{name}.parquet"] if folder.exists(f"{name}.parquet") else []
    if not names and folder.exists(name):
        names = [f"{name}/{file}" for file in folder.at(name).names(".parquet")]
    rows: Records = []
    for each in names:
        with folder.open(each) as file:
            rows += pq.ParquetFile(file).read().to_pylist()
    return rows


def labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """What each (method, variant) is called, in the order in which they come: the variant is named where the method has
    several."""
    systems = list(dict.fromkeys((row["method"], row.get("variant") or "") for row in rows))
    several = {method for method, count in Counter(method for method, _ in systems).items() if count > 1}
    return {(m, variant): f"{m} ({variant})" if m in several and variant else m for m, variant in systems}


class Summary:
    """The sweep's own means and intervals, which the report repeats rather than draws again."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str]) -> None:
        self._figures: dict[tuple[str, str, str, str], list[Figure]] = {}
        for row in rows:
            label = labels.get((row["method"], row.get("variant") or ""))
            if label is None or row["value"] is None:
                continue
            figure = Figure(row["value"], row.get("low"), row.get("high"), row.get("n") or 0)
            key = (label, row.get("set") or "", row.get("type") or "", row["metric"])
            self._figures.setdefault(key, []).append(figure)

    def figure(self, label: str, dataset: str, metric: str, kind: str = "") -> Figure | None:
        """The figure of a method on a set ("": mean over the sets) and type ("": all); None where the summary has none
        or one for each of several seeds."""
        found = self._figures.get((label, dataset, kind, metric), [])
        return found[0] if len(found) == 1 else None


# --------
# Tables with a line for each method, shaped as papers print them.

INTERVALS = "Means over questions with 95 % intervals, documents drawn; over sets every set weighs alike."


def main_accuracy(panels: Sequence[Panel]) -> str:
    """The measure that tables and pictures begin with: the first of ``ACCURACY`` that any point has."""
    held = {measure for panel in panels for point in panel.points.values() for measure in point}
    return next((measure for measure in ACCURACY if measure in held), "f1")


def paper_table(panels: Sequence[Panel]) -> Table:
    """Accuracy and tokens of each method on each set and over all: the main table of a paper. The last column counts
    the pictures in which it stands on the Pareto frontier."""
    accuracy, cost = main_accuracy(panels), "weighted_tokens"
    columns = [Column("method", "Method")]
    for panel in panels:
        columns += [
            Column(f"{panel.name} {accuracy}", f"{panel.name}: {ACCURACY[accuracy]}", "share", "more"),
            Column(f"{panel.name} tokens", f"{panel.name}: tokens", "tokens", "less"),
        ]
    columns.append(Column("frontier", "On frontier"))
    rows: list[list[Cell]] = []
    for label in _labels(panels):
        line: list[Cell] = [label]
        for panel in panels:
            found = panel.points.get(label, {})
            line += [found.get(accuracy), found.get(cost)]
        on = sum(label in panel.frontier(accuracy, cost) for panel in panels)
        rows.append([*line, f"{on} of {len(panels)}"])
    return Table("methods", "Methods", f"{INTERVALS} Tokens are input + 4 x output.", columns, rows)


def measure_tables(panels: Sequence[Panel]) -> list[Table]:
    """One table for each measure: methods down, sets across."""
    held = {measure for panel in panels for point in panel.points.values() for measure in point}
    tables = []
    for measure, name in {**ACCURACY, **COST}.items():
        if measure not in held:
            continue
        better: Better = "more" if measure in ACCURACY else "less"
        columns = [Column("method", "Method")]
        columns += [Column(panel.name, panel.name, kind_of(measure), better) for panel in panels]
        rows = [[label, *(panel.points.get(label, {}).get(measure) for panel in panels)] for label in _labels(panels)]
        tables.append(Table(measure, name, INTERVALS, columns, rows))
    return tables


def type_table(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> list[Table]:
    """Accuracy of each method by question type; none where no type is known."""
    held = {row.type for rows in by_method.values() for row in rows if row.type}
    kinds = [kind for kind in TYPES if kind in held] + sorted(held - set(TYPES))
    measures = [m for m in ACCURACY if any(m in row.measures for rows in by_method.values() for row in rows)]
    if not kinds or not measures:
        return []
    measure = measures[0]
    rows: list[list[Cell]] = []
    for label, all_rows in by_method.items():
        line: list[Cell] = [label]
        for kind in kinds:
            known = summary.figure(label, sets[0], measure, kind) if len(sets) == 1 else None
            own = [row for row in all_rows if row.type == kind]
            line.append(known or figures(own, [measure]).get(measure))
        rows.append(line)
    columns = [Column("method", "Method"), *(Column(kind, kind, "share", "more") for kind in kinds)]
    note = "Means over all questions of a type, whatever set they come from, with 95 % intervals, documents drawn."
    return [Table("by_type", f"{ACCURACY[measure]} by question type", note, columns, rows)]


def paired_table(rows: Sequence[Mapping[str, Any]], labels: Mapping[tuple[str, str], str]) -> Table | None:
    """The sweep's paired differences over all types, as it wrote them; None where it wrote none."""
    lines: list[list[Cell]] = []
    for row in rows:
        if row.get("type") or row["metric"] not in {**ACCURACY, **COST}:
            continue
        one = labels.get((row["method"], row.get("variant") or ""), str(row["method"]))
        other = labels.get((row["against_method"], row.get("against_variant") or ""), str(row["against_method"]))
        name = {**ACCURACY, **COST}[row["metric"]]
        figures_of = [row.get(key) for key in ("difference", "low", "high", "p", "p_holm")]
        lines.append([one, other, row.get("set") or "mean over sets", name, *figures_of, row.get("n")])
    columns = [
        Column("method", "Method"),
        Column("against", "Against"),
        Column("set", "Set"),
        Column("metric", "Measure"),
        Column("difference", "Difference", "number"),
        Column("low", "2.5 %", "number"),
        Column("high", "97.5 %", "number"),
        Column("p", "p", "share"),
        Column("p_holm", "p, Holm", "share"),
        Column("questions", "Questions", "count"),
    ]
    note = "A method less the other on the same questions; p with Holm's correction over the comparisons of a table."
    return Table("paired", "Paired differences", note, columns, lines) if lines else None


def _labels(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(label for panel in panels for label in panel.points))


# --------
# The report of a sweep: methods side by side over data sets, from its scores, its summary and its cells' runs.

MEASURES: Final = (*ACCURACY, *COST)


def sweep_report(sweep: Folder, details: int) -> Report:
    """The report of a sweep's folder, finished or not. ``details`` bounds the answers that can be opened.

    Raises InputError when the folder has no scores.
    """
    scores = read_scores(sweep)
    labels = labels_of(scores)
    summary = Summary(read_records(sweep, "summary"), labels)
    folders = cell_folders(sweep, scores)
    rows = sweep_rows(scores, labels, folders)
    sets = list(dict.fromkeys(str(row["set"]) for row in scores))
    by_method = {label: [row for row in rows if row.method == label] for label in labels.values()}
    panels = sweep_panels(by_method, sets, summary)
    opened, missing = sweep_details(rows[:details], folders, set_golds(sweep, sets))
    matrices = _confusions(by_method)
    paired = paired_table(read_records(sweep, "paired"), labels)
    confused = confusion_table(matrices)
    notes = [missing] if missing else []
    lacking = {str(row["cell"]) for row in scores} - set(folders)
    if lacking:
        notes.append(f"Of {len(lacking)} cells the run folders are not there, so their questions cannot be opened.")
    return Report(
        kind="sweep",
        title=f"Sweep {PurePosixPath(sweep.path).name}",
        facts=_common_facts(folders, scores),
        tiles=_tiles(rows, sets, by_method),
        panels=panels,
        tables=[
            paper_table(panels),
            *measure_tables(panels),
            *type_table(by_method, sets, summary),
            latency_table(by_method, "Method"),
            *([paired] if paired else []),
        ],
        latency=latency(by_method),
        mix=workflow_mix(by_method),
        confusions=matrices,
        rows=rows,
        details=opened,
        files_only=[question_table(rows), *([confused] if confused else [])],
        notes=notes,
        setup={},
    )


def sweep_panels(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> list[Panel]:
    """One panel a set, and before them the mean over the sets where there are several. Figures that the summary has
    are the summary's; others are drawn here."""
    panels = []
    for name in sets:
        points: dict[str, Mapping[str, Figure]] = {}
        for label, rows in by_method.items():
            held = [row for row in rows if row.dataset == name]
            known = {m: f for m in MEASURES if (f := summary.figure(label, name, m)) is not None}
            if held:
                points[label] = figures(held, [m for m in MEASURES if m not in known]) | known
        panels.append(Panel(name, points, compares=True))
    return panels if len(sets) < 2 else [_over_sets(by_method, sets, summary), *panels]


def _over_sets(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> Panel:
    points: dict[str, Mapping[str, Figure]] = {}
    for label, rows in by_method.items():
        groups = {name: [row for row in rows if row.dataset == name] for name in sets}
        known = {measure: summary.figure(label, "", measure) for measure in MEASURES}
        drawn = {m: f if f is not None else mean_over(groups, m) for m, f in known.items()}
        points[label] = {measure: figure for measure, figure in drawn.items() if figure is not None}
    return Panel(f"mean over {len(sets)} sets", points, compares=True)


def _confusions(by_method: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """One matrix for all methods that heard the same of their analyzer, named for the first."""
    found: dict[str, dict[str, Any]] = {}
    count: Counter[str] = Counter()
    for label, rows in by_method.items():
        matrix = confusion(label, rows)
        if matrix is not None:
            key = repr((matrix["labels"], matrix["counts"]))
            found.setdefault(key, matrix)
            count[key] += 1
    return [m | ({"name": f"{m['name']} and {count[k] - 1} more"} if count[k] > 1 else {}) for k, m in found.items()]


def _tiles(rows: Sequence[Row], sets: Sequence[str], by_method: Mapping[str, Sequence[Row]]) -> list[Tile]:
    questions = len({(row.dataset, row.query_id) for row in rows})
    answered = sum(row.status == "answered" for row in rows)
    found = [
        Tile("Methods", str(len(by_method)), f"on {len(sets)} {'set' if len(sets) == 1 else 'sets'}"),
        Tile("Questions", f"{questions:,}", f"{len({row.cluster for row in rows}):,} groups of documents"),
        Tile("Answers", f"{len(rows):,}", f"{answered:,} answered"),
    ]
    for measure, label, note in (
        ("billed_usd", "Billed", "what the endpoint charged"),
        ("alone_usd", "Alone", "had no cell shared its replies"),
    ):
        spent = [row.measures[measure] for row in rows if measure in row.measures]
        if spent:
            found.append(Tile(label, number("usd", sum(spent)), note))
    return found


def _common_facts(folders: Mapping[str, Folder], scores: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What all cells were made with alike, and the seeds."""
    each = [dict(facts(json.loads(f.read_bytes(BEGUN)), f.read_manifest())) for f in folders.values()]
    shared = [
        (name, value) for name, value in (each[0].items() if each else ()) if all(o.get(name) == value for o in each)
    ]
    seeds = sorted({row["seed"] for row in scores if row.get("seed") is not None})
    found = [(name, value) for name, value in shared if name not in ("strategy", "seed", "archive")]
    return found + ([("seeds", ", ".join(map(str, seeds)))] if seeds else [])
