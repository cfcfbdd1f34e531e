"""Run a sweep: prepare sets and archives, run the cells under one budget, then judge, score and write the results.

Each cell is an ordinary run folder, so an interrupted sweep resumes from every cell's journal.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.sets import Material
from okralong.lab.sweeps.budget import SharedBudget, spent_before
from okralong.lab.sweeps.cells import CellEnd, PreparedCell, run_cells
from okralong.lab.sweeps.config import (
    CellPlan,
    CompressedBy,
    Sweep,
    SweepFolder,
    as_system,
    expand,
    sizes_by_set,
    tables_by_cell,
)
from okralong.lab.sweeps.gold_questions import read_gold_questions
from okralong.lab.sweeps.index_times import Rates, index_rates, seconds_of
from okralong.lab.sweeps.judging import Judged, judge_config, judge_sweep
from okralong.lab.sweeps.material import build, read_material, write_cell_files, write_gold_labels
from okralong.lab.sweeps.outline import CostEstimate, Outline, total
from okralong.lab.sweeps.results import write_results
from okralong.lab.sweeps.scores import Text, indexing_row, score_rows
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, EXIT_OVER_BUDGET
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.questions import read_questions
from okralong.pipelines.run.rows import JUDGE

LOCK = "okralong evaluate"


@dataclass(frozen=True)
class SweepResult:
    """The outcome of a sweep. ``exit_code`` is that of the command; ``stopped`` is why it stopped early, or ""."""

    folder: Path
    cells: int
    statuses: Mapping[str, int]
    written: Sequence[str]
    exit_code: int
    stopped: str = ""


@dataclass
class Expanded:
    """A checked sweep: its cells, sets and expected cost."""

    sweep: Sweep
    folder: SweepFolder
    plans: list[CellPlan]
    material: Material
    costs: dict[str, CostEstimate] = field(default_factory=dict)
    judge: CostEstimate | None = None

    @property
    def finished(self) -> int:
        """The number of cells whose run is complete."""
        runs = (Folder.of(self.folder.cell(plan.named.cell)) for plan in self.plans)
        return sum(run.exists(MANIFEST) for run in runs)


def expand_sweep(sweep: Sweep, data: Path, out: Path, work: Path, console: Console) -> Expanded:
    """Check everything, read the sets, and estimate the cost, without indexing or writing anything.

    Sets whose files are missing are left out, and the sweep's ``words`` name them. Raises ConfigError or InputError for
    an unusable strategy, policy, config or set, or if all sets are missing.
    """
    folder = SweepFolder(out.expanduser().resolve())
    plans = expand(sweep, folder)
    judging = judge_config(sweep.judge) if sweep.judge is not None else None
    material = read_material(sweep, data, work, lambda line: say_line(console, line))
    if missing := [chosen.named for chosen in sweep.sets if chosen.named not in material.pooled]:
        there = [chosen for chosen in sweep.sets if chosen.named in material.pooled]
        words = f"{sweep.words.strip()} Left out, because their files are missing: {', '.join(missing)}.".strip()
        sweep = sweep.model_copy(update={"sets": there, "words": words})
        plans = [plan for plan in plans if plan.named.set in material.pooled]
    outline = Outline()
    costs = {plan.named.cell: outline.of(plan, material.pooled[plan.named.set]) for plan in plans}
    if sweep.judge is None or judging is None:
        return Expanded(sweep, folder, plans, material, costs)
    asked = [outline.judging(plan, material.pooled[plan.named.set], judging, sweep.judge) for plan in plans]
    return Expanded(sweep, folder, plans, material, costs, total(asked))


def run_sweep(expanded: Expanded, *, address: str | None = None, console: Console | None = None) -> SweepResult:
    """Run unfinished cells, score all cells, and write the tables. When all is complete, write the manifest last.

    Raises OkraError before anything is spent if a part is unusable, and MetricError if a score cannot be computed.
    """
    console = console or Console()
    started = time.monotonic()
    folder = Folder.of(expanded.folder.path)
    with folder.locked(LOCK):
        folder.remove(MANIFEST)  # it is present only if the sweep is complete
        cells = _prepared(expanded, console)
        budget = SharedBudget(expanded.sweep.budget_usd, spent_so_far(expanded.folder))
        ends = run_cells(expanded.sweep, expanded.folder.path, cells, budget, address, console)
        stops = [end for end in ends if end.fatal]
        rows, unpaid = _scored(expanded, cells, budget, judging=not stops)
        sweep = expanded.sweep
        against = [as_system(name) for name in sweep.against]
        made = (indexing_row(Folder.of(cell.run), cell.plan.named) for cell in cells)
        indexing = [row for row in made if row is not None]
        written = write_results(
            folder, sweep.title, sweep.words, rows, against, sweep.seed, indexing, times=not sweep.share_replies
        )
        statuses = Counter(str(row["status"]) for row in rows)
        complete = not stops and all(Folder.of(cell.run).exists(MANIFEST) for cell in cells)
        code, why = _outcome(expanded, statuses, stops, complete, unpaid)
        if complete and code != EXIT_OVER_BUDGET:
            folder.write_manifest(_manifest(expanded, statuses, time.monotonic() - started))
        return SweepResult(expanded.folder.path, len(cells), dict(statuses), written, code, why)


def spent_so_far(folder: SweepFolder) -> dict[str, float]:
    """Return the dollars spent by each cell and its judge, including cells that the sweep no longer has."""
    runs = {run.name: Folder.of(run) for run in folder.runs()}
    judges = {f"{name}/{JUDGE}": run.at(JUDGE) for name, run in runs.items()}
    return spent_before({**runs, **judges})


def _prepared(expanded: Expanded, console: Console) -> list[PreparedCell]:
    """Write archives and files, and check every cell, so that a bad cell is found before others cost anything."""
    sweep, folder, plans = expanded.sweep, expanded.folder, expanded.plans
    write_cell_files(folder, plans, expanded.material)
    sizes, tables = sizes_by_set(plans), tables_by_cell(plans)
    benches: dict[tuple[str, CompressedBy], Bench] = {}
    for chosen in sweep.sets:
        pooled = expanded.material.pooled[chosen.named]
        counts = f"{counted(len(pooled.questions), 'question')}, {counted(len(pooled.documents), 'document')}"
        say_line(console, f"{chosen.named}: {counts}, chunks of {', '.join(map(str, sizes[chosen.named]))} tokens")
    for plan in plans:
        at = (plan.named.set, tables[plan.named.cell])
        if at not in benches:
            benches[at] = build(expanded.material, plan.chosen, sizes[at[0]], sweep.embedding, at[1])
    for plan in {plan.named.set: plan for plan in plans if plan.config.analyzer.labels}.values():
        labels = folder.labels(plan.chosen)
        asyncio.run(write_gold_labels(labels, benches[plan.named.set, tables[plan.named.cell]], plan.policy))
    cells = []
    for plan in plans:
        location = benches[plan.named.set, tables[plan.named.cell]].retrievals.archive.location
        asked, _ = read_questions(folder.questions(plan.chosen), strict=False)  # it has columns of gold data, too
        prepared = prepare(location, asked, plan.config)
        cells.append(PreparedCell(plan, prepared, folder.cell(plan.named.cell)))
    return cells


def _scored(
    expanded: Expanded, cells: Sequence[PreparedCell], budget: SharedBudget, *, judging: bool
) -> tuple[list[dict[str, Any]], str]:
    """Return the score rows of all finished questions, and why the judge could not judge all of them, or ""."""
    sweep = expanded.sweep
    golds = {chosen.named: read_gold_questions(expanded.folder.questions(chosen)) for chosen in sweep.sets}
    by_set: dict[str, Text] = {}
    for cell in cells:
        by_set.setdefault(cell.plan.named.set, _text_of(cell))
    texts = {cell.plan.named.cell: by_set[cell.plan.named.set] for cell in cells}
    runs = {cell.plan.named.cell: (cell.run, golds[cell.plan.named.set]) for cell in cells}
    judged, unpaid = Judged(), ""
    if sweep.judge is not None and judging:
        judged, unpaid = judge_sweep(sweep.judge, runs, texts, budget)
    rates = _index_rates(expanded)
    rows: list[dict[str, Any]] = []
    for cell in cells:
        named, sizes = cell.plan.named, cell.plan.granularities
        indexing = partial(seconds_of, rates[named.set], sizes) if named.set in rates else None
        run, marks = Folder.of(cell.run), judged.of(named.cell)
        rows += score_rows(run, named, golds[named.set], texts[named.cell], marks, indexing)
    return rows, unpaid


def _index_rates(expanded: Expanded) -> dict[str, Rates]:
    """Return the measured times of indexing by set; {} if the sweep asks for none."""
    sweep, sizes = expanded.sweep, sizes_by_set(expanded.plans)
    if not sweep.index_times:
        return {}
    return {
        chosen.named: index_rates(
            expanded.folder.index_times(chosen),
            expanded.material.pooled[chosen.named],
            sizes[chosen.named],
            sweep.embedding,
            sweep.index_times,
        )
        for chosen in sweep.sets
    }


def _text_of(cell: PreparedCell) -> Text:
    archive = cell.prepared.archive
    return cache(lambda doc_id: archive.document(doc_id).text)


def _outcome(
    expanded: Expanded, statuses: Mapping[str, int], stops: Sequence[CellEnd], complete: bool, unpaid: str
) -> tuple[int, str]:
    if stops:
        first = stops[0]
        return first.result.exit_code, f"{first.cell}: {first.result.stopped}"
    if statuses.get("over_budget") or not complete:
        left = statuses.get("over_budget", 0)
        questions = f"{counted(left, 'question')} {agreeing(left, 'is')}"
        return EXIT_OVER_BUDGET, (
            f"The budget of ${expanded.sweep.budget_usd} over the whole sweep is used up; {questions} left "
            "over_budget. Raise budget_usd and run the same command: it resumes with those."
        )
    if unpaid:
        return EXIT_OVER_BUDGET, unpaid
    return (EXIT_FAILURES if statuses.get("failed") else EXIT_OK), ""


def _manifest(expanded: Expanded, statuses: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """Return the content of the manifest, without paths of this machine."""
    return {
        "title": expanded.sweep.title,
        "sweep": json.loads(expanded.sweep.model_dump_json()),
        "cells": [plan.named.cell for plan in expanded.plans],
        "statuses": dict(statuses),
        "seconds_last_session": round(seconds, 3),
    }
