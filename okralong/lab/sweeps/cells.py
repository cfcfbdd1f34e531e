"""Run the cells of a sweep concurrently, with shared generator, models and shards, under one budget."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from okralong.actors.cluster import connected
from okralong.actors.generator import StartedGenerator, generator, reading_vectors
from okralong.actors.host import Host, RayHost, WarmHost, why_ray
from okralong.actors.local_models import LoadedModels
from okralong.actors.retrieval import RetrievalNames, SharedModels
from okralong.jobs.answer import Starting, answer_prepared
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.run_folder import RunResult, begun_alike, statuses
from okralong.jobs.terminal import say_line
from okralong.lab.sweeps.budget import SharedBudget, spent_usd
from okralong.lab.sweeps.config import CellPlan, Sweep
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.run.prepare import Prepared

OPEN = "over_budget"
"""The status of questions that are resumed if the cap is raised."""


@dataclass(frozen=True)
class PreparedCell:
    """A cell whose run was checked and prepared, and its run folder."""

    plan: CellPlan
    prepared: Prepared
    run: Path

    @property
    def may_go_on(self) -> bool:
        """True if questions are left, because the budget was used up or because the set has grown.

        Raises ConfigError if its run was started with another config, or with other questions under the same query_ids,
        since these are not the answers of this sweep.
        """
        folder = Folder.of(self.run)
        if not begun_alike(folder, self.prepared):
            return True
        ends = statuses(folder, self.prepared)
        asked = (*(each.question for each in self.prepared.questions), *(each for each, _ in self.prepared.unscoped))
        return any(ends.get(each.query_id, OPEN) == OPEN for each in asked)


@dataclass(frozen=True)
class CellEnd:
    """How the run of a cell ended."""

    cell: str
    result: RunResult

    @property
    def fatal(self) -> bool:
        """True if the reason why it stopped applies to all other cells as well."""
        return bool(self.result.stopped) and self.result.exit_code != EXIT_OVER_BUDGET


@dataclass
class Running:
    """The state of a running sweep that its cells share.

    ``every`` has all cells; a cell may reuse the replies of others on the same set.
    """

    sweep: Sweep
    every: Sequence[PreparedCell]
    budget: SharedBudget
    console: Console
    held: ExitStack
    interrupt: Interrupt = field(default_factory=Interrupt)
    generators: dict[str, StartedGenerator] = field(default_factory=dict)

    def generator(self, prepared: Prepared) -> StartedGenerator:
        """Return the generator of a cell, which is served once for all cells that differ only in the seed."""
        llm, compressor = prepared.llm, reading_vectors(prepared)
        key = f"{json.dumps(llm.model_dump(mode='json', exclude={'seed'}), sort_keys=True)} {compressor}"
        if key not in self.generators:
            served = self.held.enter_context(generator(llm, None, compressor))
            for note in served.notes:
                say_line(self.console, note, style="yellow")
            self.generators[key] = served
        served = self.generators[key]
        return replace(served, llm=served.llm.model_copy(update={"seed": llm.seed}))

    def others(self, cell: PreparedCell) -> tuple[str, ...]:
        """Return the other runs on the same set that have a journal, whose replies the cell can reuse for free."""
        if not self.sweep.share_replies:
            return ()
        own = [each.run for each in self.every if each.plan.named.set == cell.plan.named.set and each.run != cell.run]
        return tuple(str(run) for run in own if (run / "journal").is_dir())


def run_cells(
    sweep: Sweep,
    folder: Path,
    cells: Sequence[PreparedCell],
    budget: SharedBudget,
    address: str | None,
    console: Console,
) -> list[CellEnd]:
    """Run the unfinished cells, archive by archive. After a fatal end, start no further cell.

    Cells that can run in this process come first, because on Ray each has to start a gateway and planners.
    """
    waiting = [cell for cell in cells if cell.may_go_on or not Folder.of(cell.run).exists(MANIFEST)]
    if not waiting:
        say_line(console, "every cell is finished; the tables are written again")
        return []
    here: list[PreparedCell] = []
    on_ray: list[PreparedCell] = []
    for cell in waiting:
        (on_ray if address is not None or _needs_ray(cell) else here).append(cell)
    ends: list[CellEnd] = []
    with ExitStack() as held:
        running = Running(sweep, cells, budget, console, held)
        own = LoadedModels()
        held.callback(own.close)
        for group in _by_archive(here):
            for cell in group:
                own.bring(cell.prepared)
            hosts = [lambda prepared, served: WarmHost(own, prepared.llm, served)] * len(group)
            ends += _run_archive(running, group, hosts)
            if any(end.fatal for end in ends):
                return ends
        if not on_ray:
            return ends
        held.enter_context(connected(address))
        models = SharedModels(str(folder))
        held.callback(models.keep, [])
        groups = _by_archive(on_ray)
        for at, group in enumerate(groups, 1):
            models.bring(cell.prepared for cell in group)
            with models.over([cell.prepared for cell in group]) as looking:
                ends += _run_archive(running, group, [partial(_on_ray, each) for each in looking])
            models.keep(cell.prepared for later in groups[at:] for cell in later)
            if any(end.fatal for end in ends):
                break
    return ends


def _needs_ray(cell: PreparedCell) -> bool:
    """Return whether a cell cannot run in this process, because of its size or because of unfinished batches."""
    prepared = cell.prepared
    return bool(why_ray(prepared, len(prepared.questions)) or ResumeState.load(Folder.of(cell.run)).open)


def _on_ray(retrieval: RetrievalNames, _: Prepared, served: StartedGenerator) -> Host:
    return RayHost(retrieval=retrieval, served=served)


def _by_archive(cells: Sequence[PreparedCell]) -> list[list[PreparedCell]]:
    """Group the cells by archive."""
    groups: dict[str, list[PreparedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.prepared.archive.location, []).append(cell)
    return list(groups.values())


HostOf = Callable[[Prepared, StartedGenerator], Host]
"""A function that returns the host for a cell and its generator."""
Work = tuple[PreparedCell, StartedGenerator, HostOf]


def _run_archive(running: Running, cells: Sequence[PreparedCell], hosts: Sequence[HostOf]) -> list[CellEnd]:
    """Run the cells over one archive.

    Cells whose share of the budget was too small are resumed one by one while dollars are left. Raises what a cell
    raised, after all cells have stopped.
    """
    # Generators are started one after the other, before anything runs, since each may start a server.
    served = [running.generator(cell.prepared) for cell in cells]
    work = list(zip(cells, served, hosts, strict=True))
    ends = _side_by_side(running, work)
    for at, end in enumerate(ends):
        if end.result.exit_code == EXIT_OVER_BUDGET and (running.budget.free_usd or 0.0) > 0.0:
            ends[at] = _run_cell(running, *work[at], sharers=1)
    return ends


def _side_by_side(running: Running, work: Sequence[Work]) -> list[CellEnd]:
    """Run ``parallel`` cells at a time. After a fatal end, start no further cell."""
    ends: dict[str, CellEnd] = {}
    waiting = list(work)
    parallel = running.sweep.parallel
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="okralong-cell")
    begun: set[Future[CellEnd]] = set()
    try:
        while waiting or begun:
            while waiting and len(begun) < parallel:
                sharers = min(len(waiting), parallel - len(begun))
                begun.add(pool.submit(_run_cell, running, *waiting.pop(0), sharers))
            done, begun = wait(begun, return_when=FIRST_COMPLETED)
            for end in (future.result() for future in done):
                ends[end.cell] = end
                if end.fatal:
                    waiting.clear()
    except BaseException:
        running.interrupt.fire()
        raise
    finally:
        pool.shutdown(wait=True)
    return [ends[cell.plan.named.cell] for cell, _, _ in work if cell.plan.named.cell in ends]


def _run_cell(running: Running, cell: PreparedCell, served: StartedGenerator, host_of: HostOf, sharers: int) -> CellEnd:
    """Run a cell with its share of the budget (for ``sharers`` see ``SharedBudget.grant``)."""
    name = cell.plan.named.cell
    cap = running.budget.grant(name, sharers)
    try:
        config = cell.prepared.config.model_copy(update={"budget_usd": cap})
        prepared = replace(cell.prepared, config=config, replies_from=running.others(cell))
        silent = Console(file=io.StringIO())  # the progress bars of several runs would overwrite each other
        starting = Starting(console=silent, interrupt=running.interrupt)
        result = answer_prepared(prepared, str(cell.run), starting, host_of(prepared, served))
    finally:
        spent = spent_usd(Folder.of(cell.run))
        running.budget.settle(name, spent)
    ended = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items())) or "nothing was asked"
    say_line(running.console, f"  {name}: {ended}; ${spent:.4f}")
    return CellEnd(name, result)
