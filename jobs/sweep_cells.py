"""Cells of a sweep beside each other: one generator, one set of models, shards of one archive, one purse."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from okralong.actors.cluster import connected
from okralong.actors.retrieval import RetrievalNames, SharedModels
from okralong.jobs.answer_run import RunResult, Shared, answer_prepared, reading_vectors
from okralong.jobs.generator import Generator, generator
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.run_folder import begun_alike, statuses
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET
from okralong.pipelines.lab.sweeps.config import CellPlan, Sweep
from okralong.pipelines.lab.sweeps.run import Purse, spent_usd
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared

OPEN = "over_budget"
"""The status of a question that is no end: a higher cap goes on with it."""


@dataclass(frozen=True)
class PreparedCell:
    """A cell with everything checked, and its run folder."""

    plan: CellPlan
    prepared: Prepared
    run: Path

    @property
    def may_go_on(self) -> bool:
        """Whether a question of it has no end: a budget kept it from being asked, or the set has more than it had.

        Raises ConfigError when its run was begun with another set-up, or asked other words under a query_id: its
        answers would be taken for those of this sweep.
        """
        folder = Folder.of(self.run)
        if not begun_alike(folder, self.prepared):
            return True
        ends = statuses(folder, self.prepared)
        asked = (*(each.question for each in self.prepared.questions), *(each for each, _ in self.prepared.unscoped))
        return any(ends.get(each.query_id, OPEN) == OPEN for each in asked)


@dataclass(frozen=True)
class CellEnd:
    """How a cell's run ended this time."""

    cell: str
    result: RunResult


@dataclass
class Hands:
    """What all cells of a sweep share while it runs."""

    sweep: Sweep
    purse: Purse
    models: SharedModels
    interrupt: Interrupt
    console: Console
    held: ExitStack
    generators: dict[str, Generator]

    @classmethod
    @contextmanager
    def of(cls, sweep: Sweep, key: str, purse: Purse, address: str | None, console: Console) -> Iterator[Hands]:
        """Connected to Ray for the time of the block; everything that was started ends with it."""
        with ExitStack() as held:
            held.enter_context(connected(address))
            models = SharedModels(key)
            held.callback(models.keep, [])
            yield cls(sweep, purse, models, Interrupt(), console, held, {})

    def generator(self, config: RunConfig) -> Generator:
        """The generator of a cell, served once for all cells that differ in nothing but the seed."""
        llm, compressor = config.llm, reading_vectors(config)
        key = f"{json.dumps(llm.model_dump(mode='json', exclude={'seed'}), sort_keys=True)} {compressor}"
        if key not in self.generators:
            served = self.held.enter_context(generator(llm, None, compressor))
            for note in served.notes:
                say_line(self.console, note, style="yellow")
            self.generators[key] = served
        served = self.generators[key]
        return replace(served, llm=served.llm.model_copy(update={"seed": llm.seed}))


def run_set(hands: Hands, cells: Sequence[PreparedCell], every: Sequence[PreparedCell]) -> list[CellEnd]:
    """Run the cells of one set over one archive; ``every`` cell of the sweep may share its replies.

    Cells that their share of the budget did not reach to the end go on one by one while others have left something.
    Raises what a cell raised, after all have been stopped.
    """
    hands.models.bring(cell.prepared for cell in cells)
    # One after the other before anything runs: each may start a server.
    served = [hands.generator(cell.prepared.config) for cell in cells]
    with hands.models.over([cell.prepared for cell in cells]) as looking:
        work = list(zip(cells, served, looking, strict=True))
        ends = _side_by_side(hands, work, every)
        for at, end in enumerate(ends):
            if end.result.exit_code == EXIT_OVER_BUDGET and (hands.purse.free_usd or 0.0) > 0.0:
                ends[at] = _one(hands, *work[at], every, sharers=1)
    return ends


Work = tuple[PreparedCell, Generator, RetrievalNames]


def _side_by_side(hands: Hands, work: Sequence[Work], every: Sequence[PreparedCell]) -> list[CellEnd]:
    """All of it, ``parallel`` at a time; none is begun any more when one could not go on."""
    ends: dict[str, CellEnd] = {}
    waiting = list(work)
    pool = ThreadPoolExecutor(hands.sweep.parallel, thread_name_prefix="okralong-cell")
    running: set[Future[CellEnd]] = set()
    try:
        while waiting or running:
            while waiting and len(running) < hands.sweep.parallel:
                sharers = min(len(waiting), hands.sweep.parallel - len(running))
                running.add(pool.submit(_one, hands, *waiting.pop(0), every, sharers))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                end = future.result()
                ends[end.cell] = end
                if end.result.stopped and end.result.exit_code != EXIT_OVER_BUDGET:
                    waiting.clear()
    except BaseException:
        hands.interrupt.fire()
        raise
    finally:
        pool.shutdown(wait=True)
    return [ends[cell.plan.named.cell] for cell, _, _ in work if cell.plan.named.cell in ends]


def _one(
    hands: Hands,
    cell: PreparedCell,
    served: Generator,
    looking: RetrievalNames,
    every: Sequence[PreparedCell],
    sharers: int,
) -> CellEnd:
    name = cell.plan.named.cell
    run = Folder.of(cell.run)
    cap = hands.purse.grant(name, sharers)
    try:
        config = cell.prepared.config.model_copy(update={"budget_usd": cap})
        prepared = replace(cell.prepared, config=config, replies_from=_sharing(hands.sweep, cell, every))
        quiet = Console(file=io.StringIO())  # bars of several runs would draw over each other
        shared = Shared(served, looking, hands.interrupt)
        result = answer_prepared(prepared, str(cell.run), console=quiet, shared=shared)
    finally:
        spent = spent_usd(run)
        hands.purse.settle(name, spent)
    ended = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items())) or "nothing was asked"
    say_line(hands.console, f"  {name}: {ended}; ${spent:.4f}")
    return CellEnd(name, result)


def _sharing(sweep: Sweep, cell: PreparedCell, every: Sequence[PreparedCell]) -> tuple[str, ...]:
    """The runs of the same set that have asked something already."""
    if not sweep.share_replies:
        return ()
    own = [each.run for each in every if each.plan.named.set == cell.plan.named.set and each.run != cell.run]
    return tuple(str(run) for run in own if (run / "journal").is_dir())
