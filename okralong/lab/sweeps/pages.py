"""Make the report page of a sweep, with methods side by side, from its scores, its summary and its cells' runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.lab.sweeps.config import CELLS, slug
from okralong.lab.sweeps.results import SCORES_FOLDER, read_scores
from okralong.lab.sweeps.statistics import System
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Question
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.charts import Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.cited import archive_of
from okralong.pipelines.reporting.details import run_details
from okralong.pipelines.reporting.page import Report, Tile
from okralong.pipelines.reporting.rows import (
    ACCURACY,
    COST,
    MEASURES,
    OPEN,
    STAGES,
    Row,
    figures,
    in_order,
    known_measures,
    mean_over,
    public,
    said,
)
from okralong.pipelines.reporting.run import facts
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.reporting.tables import (
    Better,
    Cell,
    Column,
    Table,
    confusion_tables,
    kind_of,
    latency_table,
    number,
    question_table,
)
from okralong.pipelines.run.questions import read_questions
from okralong.pipelines.run.rows import BEGUN

QUESTIONS: Final = "questions.jsonl"
"""The file with the questions and gold data of a set, in ``sets/SET`` below a sweep."""

Records = Sequence[Mapping[str, Any]]
"""Rows of a table of the sweep."""
Labels = Mapping[System, str]
"""The label of each pair of method and variant."""


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has a table of scores, as that of a sweep does."""
    return folder.exists(SCORES_FOLDER)


def make_report(sweep: Folder, details: int) -> Report:
    """Make the report of a sweep, finished or not. ``details`` is the most answers whose details can be opened.

    Raises InputError if the folder has no scores.
    """
    scores = read_scores(sweep)
    labels = _labels(scores)
    summary = Summary(_records(sweep, "summary"), labels)
    folders = _cell_folders(sweep, scores)
    rows = _sweep_rows(scores, labels, folders)
    sets = list(dict.fromkeys(row["set"] for row in scores))
    by_method = {label: [row for row in rows if row.method == label] for label in labels.values()}
    panels = _panels(by_method, sets, summary)
    opened, missing = _details(rows[:details], folders, _set_golds(sweep, sets))
    matrices = _confusions(by_method)
    notes = [missing] if missing else []
    lacking = {row["cell"] for row in scores} - set(folders)
    if lacking:
        cells = counted(len(lacking), "cell")
        notes.append(f"The run folders of {cells} are missing, so no question of these can be opened.")
    return Report(
        kind="sweep",
        title=f"Sweep {PurePosixPath(sweep.path).name}",
        facts=_common_facts(folders, scores),
        tiles=_tiles(rows, sets, by_method),
        panels=panels,
        tables=[
            _paper_table(panels),
            *_measure_tables(panels),
            *_type_tables(by_method, sets, summary),
            latency_table(by_method, "Method"),
            *_paired_tables(_records(sweep, "paired"), labels),
        ],
        latency=latency(by_method),
        mix=workflow_mix(by_method),
        confusions=matrices,
        rows=rows,
        details=opened,
        files_only=[question_table(rows), *confusion_tables(matrices)],
        notes=notes,
        setup={},
    )


# --------
# Read a sweep's folder: scores, summary with intervals, paired differences, and the run folders of the cells.


def _records(folder: Folder, name: str) -> Records:
    """Return the rows of ``name.parquet``, or none if it is missing."""
    file = f"{name}.parquet"
    return folder.read_table(file).to_pylist() if folder.exists(file) else []


def _labels(scores: Records) -> Labels:
    """Label the systems, in order. A label names the variant if the method has several."""
    systems = list(dict.fromkeys((row["method"], row["variant"]) for row in scores))
    count = Counter(method for method, _ in systems)
    return {(m, variant): f"{m} ({variant})" if count[m] > 1 else m for m, variant in systems}


class Summary:
    """The means and intervals that the sweep computed, which the report repeats."""

    def __init__(self, rows: Records, labels: Labels) -> None:
        self._figures: defaultdict[tuple[str, str, str, str], list[Estimate]] = defaultdict(list)
        for row in rows:
            label = labels.get((row["method"], row["variant"]))
            if label is not None and row["value"] is not None:
                figure = Estimate(row["value"], row["low"], row["high"], row["n"])
                self._figures[label, row["set"], row["type"], row["metric"]].append(figure)

    def figure(self, label: str, dataset: str, metric: str, kind: str = "") -> Estimate | None:
        """Return the figure of a method on a set ("": the mean over the sets), for a type ("": all).

        Returns None if the summary lacks it, or has one for each of several seeds.
        """
        found = self._figures.get((label, dataset, kind, metric), [])
        return found[0] if len(found) == 1 else None


def _cell_folders(sweep: Folder, scores: Records) -> dict[str, Folder]:
    """Return the existing run folders by cell. A name that would lead outside of ``cells`` is ignored."""
    cells = [cell for cell in dict.fromkeys(row["cell"] for row in scores) if ".." not in cell.split("/")]
    places = {cell: sweep.at(CELLS, cell) for cell in cells}
    return {cell: place for cell, place in places.items() if place.exists(BEGUN)}


def _set_golds(sweep: Folder, names: Sequence[str]) -> dict[str, dict[str, Question]]:
    """Return the gold questions, by set and query_id, of sets whose questions are in the sweep's folder."""
    found = {}
    for name in names:
        folder = sweep.at("sets", slug(name))
        if folder.exists(QUESTIONS):
            place = folder.at(QUESTIONS).path
            location = place if sweep.is_local else f"{sweep.filesystem.type_name}://{place}"
            found[name] = {question.query_id: question for question in read_questions(location, strict=False)[0]}
    return found


def _common_facts(folders: Mapping[str, Folder], scores: Records) -> list[tuple[str, str]]:
    """Return the settings that all cells have in common, the models that replied in any cell, and the seeds."""
    each = [facts(folder.read_json(BEGUN), folder.read_manifest(), scores) for folder in folders.values()]
    alike = [fact for fact in (each[0] if each else ()) if all(fact in other for other in each)]
    seeds = sorted({row["seed"] for row in scores if row["seed"] is not None})
    found = [(name, value) for name, value in alike if name not in ("strategy", "seed", "archive")]
    return found + ([("seeds", ", ".join(map(str, seeds)))] if seeds else [])


# --------
# The rows and details of the report.


def _sweep_rows(scores: Records, labels: Labels, folders: Mapping[str, Folder]) -> list[Row]:
    """Return the rows of the report: the first question of every set with all methods, then the second, and so on.

    So, if details are bounded, whole questions have them, spread evenly over the sets.
    """
    columns = ["query_id", "question", "answer", "cited", "analysis", "plan"]
    answers = {
        cell: {row["query_id"]: row for row in read_run_table(folder, "answers", columns).to_pylist()}
        for cell, folder in folders.items()
    }
    rank: dict[tuple[str, str], int] = {}
    count: Counter[str] = Counter()
    for dataset, query_id in sorted({(row["set"], row["query_id"]) for row in scores}):
        rank[dataset, query_id] = count[dataset]
        count[dataset] += 1
    order = {label: at for at, label in enumerate(labels.values())}
    rows = [_row(row, labels, answers.get(row["cell"], {}).get(row["query_id"], {})) for row in scores]
    return sorted(rows, key=lambda r: (rank[r.dataset, r.query_id], r.dataset, r.query_id, order[r.method], r.cell))


def _row(score: Mapping[str, Any], labels: Labels, answer: Mapping[str, Any]) -> Row:
    # A question for which the budget did not suffice has only a cost.
    asked = score["status"] != OPEN
    held = MEASURES if asked else [name for name in COST if name.endswith("_usd")]
    return Row(
        query_id=score["query_id"],
        question=answer.get("question") or "",
        status=score["status"] or "",
        answer=answer.get("answer") or "",
        type=score["type"] or "",
        analysed=said(answer.get("analysis"), "type"),
        workflow=said(answer.get("plan"), "workflow"),
        cluster=score["cluster"],
        method=labels[score["method"], score["variant"]],
        dataset=score["set"],
        cell=score["cell"],
        replied_by=public(score["replied_by"] or ""),
        cited=bool(answer.get("cited")),
        measures={name: float(score[name]) for name in held if score.get(name) is not None},
        stages={stage: float(score[name]) for name, stage in STAGES.items() if asked and score[name] is not None},
    )


def _details(
    rows: Sequence[Row], folders: Mapping[str, Folder], golds: Mapping[str, Mapping[str, Question]]
) -> tuple[list[str], str]:
    """Return the details of rows as JSON ("null" without a run folder), and a sentence if an archive is missing."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(rows):
        if row.cell in folders:
            wanted[row.cell].append(at)
    found = ["null"] * len(rows)
    trouble = ""
    for cell, places in wanted.items():
        archive, missing = archive_of(folders[cell].read_json(BEGUN))
        trouble = trouble or missing
        held = {answer["query_id"]: answer for answer in read_run_table(folders[cell], "answers").to_pylist()}
        known = [at for at in places if rows[at].query_id in held]
        answers = [held[rows[at].query_id] for at in known]
        gold = golds.get(rows[places[0]].dataset, {})
        for at, detail in zip(known, run_details(folders[cell], answers, gold, archive), strict=True):
            found[at] = detail
    return found, trouble


# --------
# Tables with a row per method, as in papers.

INTERVALS = "Means over questions with 95 % intervals, documents drawn; over sets every set weighs alike."


def _main_accuracy(panels: Sequence[Panel]) -> str:
    """Return the main measure of tables and pictures: the first of ``ACCURACY`` that any point has."""
    return next(iter(known_measures(_points(panels), ACCURACY)), "f1")


def _paper_table(panels: Sequence[Panel]) -> Table:
    """Return a paper's main table: accuracy and tokens of each method on each set and over all.

    The last column is the number of panels in which the method is on the Pareto frontier.
    """
    accuracy, cost = _main_accuracy(panels), "weighted_tokens"
    columns = [Column("method", "Method")]
    for panel in panels:
        columns += [
            Column(f"{panel.name} {accuracy}", f"{panel.name}: {ACCURACY[accuracy]}", "share", "more"),
            Column(f"{panel.name} tokens", f"{panel.name}: tokens", "tokens", "less"),
        ]
    columns.append(Column("frontier", "On frontier"))
    rows: list[list[Cell]] = []
    for label in _names(panels):
        line: list[Cell] = [label]
        for panel in panels:
            found = panel.points.get(label, {})
            line += [found.get(accuracy), found.get(cost)]
        on = sum(label in panel.frontier(accuracy, cost) for panel in panels)
        rows.append([*line, f"{on} of {len(panels)}"])
    return Table("methods", "Methods", f"{INTERVALS} Tokens are input + 4 x output.", columns, rows)


def _measure_tables(panels: Sequence[Panel]) -> list[Table]:
    """Return a table per measure, with a row per method and a column per set."""
    tables = []
    for measure in known_measures(_points(panels), MEASURES):
        better: Better = "more" if measure in ACCURACY else "less"
        columns = [Column(panel.name, panel.name, kind_of(measure), better) for panel in panels]
        rows = [[label, *(panel.points.get(label, {}).get(measure) for panel in panels)] for label in _names(panels)]
        tables.append(Table(measure, MEASURES[measure], INTERVALS, [Column("method", "Method"), *columns], rows))
    return tables


def _type_tables(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> list[Table]:
    """Return a table with the accuracy of each method by question type; no table if no type is known."""
    every = [row for rows in by_method.values() for row in rows]
    kinds = in_order((row.type for row in every if row.type), TYPES)
    measures = known_measures((row.measures for row in every), ACCURACY)
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


def _paired_tables(rows: Records, labels: Labels) -> list[Table]:
    """Return the sweep's own paired differences over all types."""
    lines: list[list[Cell]] = []
    for row in rows:
        if row["type"] or row["metric"] not in MEASURES:
            continue
        one = labels.get((row["method"], row["variant"]), row["method"])
        other = labels.get((row["against_method"], row["against_variant"]), row["against_method"])
        told = [row[key] for key in ("difference", "low", "high", "p", "p_holm", "n")]
        lines.append([one, other, row["set"] or "mean over sets", MEASURES[row["metric"]], *told])
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
    return [Table("paired", "Paired differences", note, columns, lines)] if lines else []


def _points(panels: Sequence[Panel]) -> list[Mapping[str, Estimate]]:
    return [point for panel in panels for point in panel.points.values()]


def _names(panels: Sequence[Panel]) -> list[str]:
    return list(dict.fromkeys(label for panel in panels for label in panel.points))


def _panels(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> list[Panel]:
    """Return a panel per set, after one for the mean of several. Figures that the summary lacks are computed."""
    panels = []
    for name in sets:
        points: dict[str, Mapping[str, Estimate]] = {}
        for label, rows in by_method.items():
            held = [row for row in rows if row.dataset == name]
            known = {m: f for m in MEASURES if (f := summary.figure(label, name, m)) is not None}
            if held:
                points[label] = figures(held, [m for m in MEASURES if m not in known]) | known
        panels.append(Panel(name, points, compares=True))
    return panels if len(sets) < 2 else [_over_sets(by_method, sets, summary), *panels]


def _over_sets(by_method: Mapping[str, Sequence[Row]], sets: Sequence[str], summary: Summary) -> Panel:
    points: dict[str, Mapping[str, Estimate]] = {}
    for label, rows in by_method.items():
        groups = {name: [row for row in rows if row.dataset == name] for name in sets}
        known = {measure: summary.figure(label, "", measure) for measure in MEASURES}
        drawn = {m: f if f is not None else mean_over(groups, m) for m, f in known.items()}
        points[label] = {measure: figure for measure, figure in drawn.items() if figure is not None}
    return Panel(f"mean over {counted(len(sets), 'set')}", points, compares=True)


def _confusions(by_method: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Return the confusion matrices of analyzers: one for all methods whose analyses agree, named after the first."""
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
