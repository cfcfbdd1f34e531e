"""The evaluate job: sets and archives made once, cells run beside each other under one budget, then scored.

Each cell is an ordinary run folder, so a sweep that was stopped goes on where every cell's own journal left it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from okralong.jobs.sweep_cells import CellEnd, Hands, PreparedCell, run_set
from okralong.jobs.sweep_judge import judge_cells, judge_config
from okralong.jobs.sweep_table import print_outline
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, EXIT_OVER_BUDGET, OverBudget
from okralong.pipelines.lab.evidence.bench import Bench
from okralong.pipelines.lab.sweeps.config import (
    CellPlan,
    Sweep,
    SweepFolder,
    as_system,
    compressors_by_set,
    expand,
    sizes_by_set,
)
from okralong.pipelines.lab.sweeps.outline import Outlay, Outline
from okralong.pipelines.lab.sweeps.results import write_results
from okralong.pipelines.lab.sweeps.run import (
    GoldQuestion,
    Material,
    Purse,
    build,
    read_gold_questions,
    read_material,
    score_rows,
    spent_before,
    write_cell_files,
    write_gold_labels,
)
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.rows import JUDGE

LOCK = "okralong evaluate"


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to. ``exit_code`` is the command's; ``stopped`` says why it could not go on, else ""."""

    folder: Path
    cells: int
    statuses: Mapping[str, int]
    written: Sequence[str]
    exit_code: int
    stopped: str = ""


@dataclass
class Expanded:
    """A sweep that may begin: its cells, its sets, and what it may cost."""

    sweep: Sweep
    folder: SweepFolder
    plans: list[CellPlan]
    material: Material
    outlays: dict[str, Outlay] = field(default_factory=dict)

    @property
    def finished(self) -> int:
        """Cells whose run is complete."""
        runs = (Folder.of(self.folder.cell(plan.named.cell)) for plan in self.plans)
        return sum(run.exists(MANIFEST) for run in runs)


def expand_sweep(sweep: Sweep, data: Path, out: Path, work: Path, console: Console) -> Expanded:
    """Check all, read the sets, and estimate; nothing is indexed and nothing is written.

    Raises ConfigError or InputError for a strategy, policy, config or set that cannot be had.
    """
    folder = SweepFolder(out.expanduser().resolve())
    plans = expand(sweep, folder)
    if sweep.judge is not None:
        judge_config(sweep.judge)
    material = read_material(sweep, data, work, lambda line: say_line(console, line))
    outline = Outline()
    outlays = {plan.named.cell: outline.of(plan, material.pooled[plan.named.set]) for plan in plans}
    return Expanded(sweep, folder, plans, material, outlays)


def show(expanded: Expanded, console: Console) -> None:
    """Print the cells and what they may cost."""
    print_outline(console, expanded.sweep, expanded.plans, expanded.outlays, expanded.finished)


def run_sweep(expanded: Expanded, *, address: str | None = None, console: Console | None = None) -> SweepResult:
    """Run what is not finished, score every cell, and write the tables; the manifest last, when all is complete.

    Raises OkraError before anything is spent when a part cannot be used, and MetricError when a score cannot be had.
    """
    console = console or Console()
    started = time.monotonic()
    folder = Folder.of(expanded.folder.path)
    with folder.locked(LOCK):
        folder.remove(MANIFEST)  # its presence means complete
        cells = _prepared(expanded, console)
        purse = Purse(expanded.sweep.budget_usd, spent_so_far(expanded.folder))
        ends = _run(expanded, cells, purse, address, console)
        stops = [end for end in ends if end.result.stopped and end.result.exit_code != EXIT_OVER_BUDGET]
        judged, unpaid = _judged(expanded, cells, purse) if not stops else ({}, "")
        rows = _scored(expanded, cells, judged)
        against = [as_system(name) for name in expanded.sweep.against]
        written = write_results(folder, expanded.sweep.title, rows, against, expanded.sweep.seed)
        statuses = Counter(str(row["status"]) for row in rows)
        complete = not stops and all(Folder.of(cell.run).exists(MANIFEST) for cell in cells)
        code, why = _outcome(expanded, statuses, stops, complete, unpaid)
        if complete and code != EXIT_OVER_BUDGET:
            folder.write_manifest(_manifest(expanded, statuses, time.monotonic() - started))
        return SweepResult(expanded.folder.path, len(cells), dict(statuses), written, code, why)


def spent_so_far(folder: SweepFolder) -> dict[str, float]:
    """Dollars by cell and by its judge: of all that ran in the folder, also those that the sweep names no more."""
    runs = {run.name: Folder.of(run) for run in folder.runs()}
    judges = {f"{name}/{JUDGE}": run.at(JUDGE) for name, run in runs.items()}
    return spent_before({**runs, **judges})


def _prepared(expanded: Expanded, console: Console) -> list[PreparedCell]:
    """Archives, files and every cell checked: a bad cell must not cost what the others before it cost."""
    sweep, folder, plans = expanded.sweep, expanded.folder, expanded.plans
    write_cell_files(folder, plans, expanded.material)
    sizes, compressors = sizes_by_set(plans), compressors_by_set(plans)
    benches: dict[str, Bench] = {}
    for chosen in sweep.sets:
        pooled = expanded.material.pooled[chosen.named]
        counts = f"{len(pooled.questions):,} questions, {len(pooled.documents):,} documents"
        say_line(console, f"{chosen.named}: {counts}, chunks of {', '.join(map(str, sizes[chosen.named]))} tokens")
        named = chosen.named
        benches[named] = build(expanded.material, chosen, sizes[named], sweep.embedding, compressors[named])
    for plan in {plan.named.set: plan for plan in plans if plan.config.analyzer.labels}.values():
        labels = folder.labels(plan.chosen)
        asyncio.run(write_gold_labels(labels, benches[plan.named.set], plan.policy))
    cells = []
    for plan in plans:
        location = benches[plan.named.set].retrievals.archive.location
        prepared = prepare(location, str(folder.questions(plan.chosen)), plan.config)
        cells.append(PreparedCell(plan, prepared, folder.cell(plan.named.cell)))
    return cells


def _run(
    expanded: Expanded, cells: Sequence[PreparedCell], purse: Purse, address: str | None, console: Console
) -> list[CellEnd]:
    waiting = [cell for cell in cells if cell.may_go_on or not Folder.of(cell.run).exists(MANIFEST)]
    if not waiting:
        say_line(console, "every cell is finished; the tables are written anew")
        return []
    ends: list[CellEnd] = []
    with Hands.of(expanded.sweep, str(expanded.folder.path), purse, address, console) as hands:
        for name in dict.fromkeys(cell.plan.named.set for cell in waiting):
            own = [cell for cell in waiting if cell.plan.named.set == name]
            waiting = [cell for cell in waiting if cell.plan.named.set != name]
            ends += run_set(hands, own, cells)
            hands.models.keep(cell.prepared for cell in waiting)
            if any(end.result.stopped and end.result.exit_code != EXIT_OVER_BUDGET for end in ends):
                break
    return ends


Marks = Mapping[str, Mapping[str, float]]
"""The judge's, by cell and query_id."""


def _judged(expanded: Expanded, cells: Sequence[PreparedCell], purse: Purse) -> tuple[Marks, str]:
    """The marks of a judge that is paid out of the ``purse``: of all cells, or none and why it could not be paid."""
    if expanded.sweep.judge is None:
        return {}, ""
    golds = _golds(expanded)
    runs = {cell.plan.named.cell: (cell.run, golds[cell.plan.named.set]) for cell in cells}
    try:
        return judge_cells(runs, judge_config(expanded.sweep.judge), purse), ""
    except OverBudget:
        return {}, (
            f"The budget of ${expanded.sweep.budget_usd} over the whole sweep does not reach for the judge, so the "
            "tables have no marks of it. Raise budget_usd and run the same command: verdicts that arrived are kept."
        )


def _golds(expanded: Expanded) -> Mapping[str, Sequence[GoldQuestion]]:
    return {chosen.named: read_gold_questions(expanded.folder.questions(chosen)) for chosen in expanded.sweep.sets}


def _scored(expanded: Expanded, cells: Sequence[PreparedCell], judged: Marks) -> list[dict[str, Any]]:
    """The rows of all cells, finished questions of unfinished ones among them."""
    rows: list[dict[str, Any]] = []
    golds = _golds(expanded)
    texts: dict[str, Callable[[str], str]] = {}
    for cell in cells:
        archive = cell.prepared.archive
        text = texts.setdefault(
            cell.plan.named.set, cache(lambda doc_id, archive=archive: archive.document(doc_id).text)
        )
        marks = judged.get(cell.plan.named.cell)
        rows += score_rows(Folder.of(cell.run), cell.plan.named, golds[cell.plan.named.set], text, marks).rows
    return rows


def _outcome(
    expanded: Expanded, statuses: Mapping[str, int], stops: Sequence[CellEnd], complete: bool, unpaid: str
) -> tuple[int, str]:
    if stops:
        first = stops[0]
        return first.result.exit_code, f"{first.cell}: {first.result.stopped}"
    if statuses.get("over_budget") or not complete:
        left = statuses.get("over_budget", 0)
        return EXIT_OVER_BUDGET, (
            f"The budget of ${expanded.sweep.budget_usd} over the whole sweep is used up; {left} questions are left "
            "over_budget. Raise budget_usd and run the same command: it goes on with those."
        )
    if unpaid:
        return EXIT_OVER_BUDGET, unpaid
    return (EXIT_FAILURES if statuses.get("failed") else EXIT_OK), ""


def _manifest(expanded: Expanded, statuses: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """What the sweep was, without the places of this machine."""
    return {
        "title": expanded.sweep.title,
        "sweep": json.loads(expanded.sweep.model_dump_json()),
        "cells": [plan.named.cell for plan in expanded.plans],
        "statuses": dict(statuses),
        "seconds_last_session": round(seconds, 3),
    }
