"""The report of a sweep: methods side by side over data sets, from its scores, its summary and its cells' runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.charts import Panel, confusion, latency, workflow_mix
from okralong.pipelines.reporting.method_tables import measure_tables, paired_table, paper_table, type_table
from okralong.pipelines.reporting.page import Report, Tile
from okralong.pipelines.reporting.rows import ACCURACY, COST, Figure, Row, figures, mean_over
from okralong.pipelines.reporting.run import BEGUN, facts
from okralong.pipelines.reporting.sweep_rows import cell_folders, set_golds, sweep_details, sweep_rows
from okralong.pipelines.reporting.sweep_tables import Summary, labels_of, read_records, read_scores
from okralong.pipelines.reporting.tables import confusion_table, latency_table, number, question_table

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
