"""The evaluate job: sets and archives made once, cells run beside each other under one budget, then judged and scored.

Each cell is an ordinary run folder, so a sweep that was stopped goes on where every cell's own journal left it.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from okralong.actors.cluster import connected
from okralong.actors.generator import StartedGenerator, generator, reading_vectors
from okralong.actors.host import Host, RayHost, WarmHost, why_ray
from okralong.actors.local_models import LoadedModels
from okralong.actors.retrieval import RetrievalNames, SharedModels
from okralong.jobs.answer import Starting, answer_prepared
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.run_folder import RunResult, begun_alike, statuses
from okralong.jobs.terminal import say_line, widen_plain
from okralong.lab.evidence.bench import Bench
from okralong.lab.sweeps.config import (
    DEFAULT,
    CellPlan,
    CompressedBy,
    JudgeConfig,
    Sweep,
    SweepFolder,
    as_system,
    expand,
    sizes_by_set,
    tables_by_cell,
)
from okralong.lab.sweeps.judge import MARKS, ToJudge, ToMark, judge, mark
from okralong.lab.sweeps.outline import CostEstimate, Outline, total
from okralong.lab.sweeps.results import write_results
from okralong.lab.sweeps.run import (
    GoldQuestion,
    Material,
    SharedBudget,
    build,
    indexing_row,
    read_gold_questions,
    read_material,
    score_rows,
    spent_before,
    spent_usd,
    write_cell_files,
    write_gold_labels,
)
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, EXIT_OVER_BUDGET, ConfigError, OverBudget, Question
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.metrics import UNANSWERABLE, best, exact_match
from okralong.pipelines.reporting.sources import spans_of
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare
from okralong.pipelines.run.questions import read_questions
from okralong.pipelines.run.rows import JUDGE, table

LOCK = "okralong evaluate"
OPEN = "over_budget"
"""The status of a question that is no end: a higher cap goes on with it."""


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
    costs: dict[str, CostEstimate] = field(default_factory=dict)
    judge: CostEstimate | None = None

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
    judging = judge_config(sweep.judge) if sweep.judge is not None else None
    material = read_material(sweep, data, work, lambda line: say_line(console, line))
    outline = Outline()
    costs = {plan.named.cell: outline.of(plan, material.pooled[plan.named.set]) for plan in plans}
    if sweep.judge is None or judging is None:
        return Expanded(sweep, folder, plans, material, costs)
    asked = [outline.judging(plan, material.pooled[plan.named.set], judging, sweep.judge) for plan in plans]
    return Expanded(sweep, folder, plans, material, costs, total(asked))


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
        budget = SharedBudget(expanded.sweep.budget_usd, spent_so_far(expanded.folder))
        ends = _run(expanded, cells, budget, address, console)
        stops = [end for end in ends if end.fatal]
        said, unpaid = _judge(expanded, cells, budget) if not stops else (Judged(), "")
        rows = _scored(expanded, cells, said)
        against = [as_system(name) for name in expanded.sweep.against]
        made = (indexing_row(Folder.of(cell.run), cell.plan.named) for cell in cells)
        indexing = [row for row in made if row is not None]
        sweep = expanded.sweep
        written = write_results(folder, sweep.title, sweep.words, rows, against, sweep.seed, indexing)
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


# --------
# Before anything is spent: what the cells may cost, and every cell checked.


def show(expanded: Expanded, console: Console) -> None:
    """Print a row for each method and variant over sets and seeds, and the whole, with what they may cost."""
    sweep, plans, costs = expanded.sweep, expanded.plans, expanded.costs
    widen_plain(console)
    grid = Table(title=f"{sweep.title}: {len(plans)} cells, {expanded.finished} of them finished", title_justify="left")
    for title in ("method", "variant"):
        grid.add_column(title, overflow="fold")
    for title in ("cells", "questions", "calls", "prompt", "completion", "dollars"):
        grid.add_column(title, justify="right", no_wrap=True)
    for method, variant in sweep.systems():
        own = [p for p in plans if (p.named.method, p.named.variant) == (method, variant)]
        _row(grid, method, "" if variant == DEFAULT else variant, [costs[p.named.cell] for p in own])
    if expanded.judge is not None:
        _row(grid, "the judge", "", [expanded.judge], cells="")
    grid.add_section()
    every = [costs[plan.named.cell] for plan in plans] + ([expanded.judge] if expanded.judge is not None else [])
    _row(grid, "all", "", every, cells=str(len(plans)))
    console.print(grid)
    sets = {plan.named.set: costs[plan.named.cell].questions for plan in plans}
    say_line(console, "sets: " + ", ".join(f"{name} ({questions:,} questions)" for name, questions in sets.items()))
    guessed = sorted({p.config.strategy for p in plans if not costs[p.named.cell].described})
    if guessed:
        say_line(console, f"- nothing is known of {', '.join(guessed)}; its figures are a wide guess")
    say_line(
        console,
        "- an outline without an index, from the sizes of policies and documents (configs/outline.yaml); no "
        "reply is counted as shared",
    )
    cap = "no cap" if sweep.budget_usd is None else f"the cap is ${sweep.budget_usd:g}"
    say_line(console, f"- budget over the whole sweep: {cap}")


def _row(grid: Table, method: str, variant: str, costs: Sequence[CostEstimate], cells: str | None = None) -> None:
    sum_ = total(costs)
    tokens = (f"{value:,.0f}" for value in (sum_.calls, sum_.prompt_tokens, sum_.completion_tokens))
    dollars = f"${sum_.usd:,.2f} [{sum_.low_usd:,.2f}, {sum_.high_usd:,.2f}]"
    count = str(len(costs)) if cells is None else cells
    grid.add_row(method, variant, count, f"{sum_.questions:,}", *tokens, dollars)


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


def _prepared(expanded: Expanded, console: Console) -> list[PreparedCell]:
    """Archives, files and every cell checked: a bad cell must not cost what the others before it cost."""
    sweep, folder, plans = expanded.sweep, expanded.folder, expanded.plans
    write_cell_files(folder, plans, expanded.material)
    sizes, tables = sizes_by_set(plans), tables_by_cell(plans)
    benches: dict[tuple[str, CompressedBy], Bench] = {}
    for chosen in sweep.sets:
        pooled = expanded.material.pooled[chosen.named]
        counts = f"{len(pooled.questions):,} questions, {len(pooled.documents):,} documents"
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
        asked, _ = read_questions(folder.questions(plan.chosen), strict=False)  # it holds gold in further columns
        prepared = prepare(location, asked, plan.config)
        cells.append(PreparedCell(plan, prepared, folder.cell(plan.named.cell)))
    return cells


# --------
# Cells beside each other: one generator, one set of models, shards of one archive, one budget.


@dataclass(frozen=True)
class CellEnd:
    """How a cell's run ended this time."""

    cell: str
    result: RunResult

    @property
    def fatal(self) -> bool:
        """Whether it stopped for a reason that would stop every other cell as well."""
        return bool(self.result.stopped) and self.result.exit_code != EXIT_OVER_BUDGET


@dataclass
class Running:
    """What all cells of a sweep share while it runs. ``every`` cell may share its replies with others of its set."""

    sweep: Sweep
    every: Sequence[PreparedCell]
    budget: SharedBudget
    console: Console
    held: ExitStack
    interrupt: Interrupt = field(default_factory=Interrupt)
    generators: dict[str, StartedGenerator] = field(default_factory=dict)

    def generator(self, prepared: Prepared) -> StartedGenerator:
        """The generator of a cell, served once for all cells that differ in nothing but the seed."""
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
        """The runs of the same set that have asked something already, whose replies the cell need not pay for."""
        if not self.sweep.share_replies:
            return ()
        own = [each.run for each in self.every if each.plan.named.set == cell.plan.named.set and each.run != cell.run]
        return tuple(str(run) for run in own if (run / "journal").is_dir())


def _run(
    expanded: Expanded, cells: Sequence[PreparedCell], budget: SharedBudget, address: str | None, console: Console
) -> list[CellEnd]:
    """Run the cells that have something left to do, archive by archive; no further one after a fatal end.

    Those that one process can carry come first, in this one: over Ray each would start a gateway and planners.
    """
    waiting = [cell for cell in cells if cell.may_go_on or not Folder.of(cell.run).exists(MANIFEST)]
    if not waiting:
        say_line(console, "every cell is finished; the tables are written anew")
        return []
    here: list[PreparedCell] = []
    on_ray: list[PreparedCell] = []
    for cell in waiting:
        (on_ray if address is not None or _needs_ray(cell) else here).append(cell)
    ends: list[CellEnd] = []
    with ExitStack() as held:
        running = Running(expanded.sweep, cells, budget, console, held)
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
        models = SharedModels(str(expanded.folder.path))
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
    """Whether a cell is not carried in this process: for what it is, or for batches that an earlier start left."""
    prepared = cell.prepared
    return bool(why_ray(prepared, len(prepared.questions)) or ResumeState.load(Folder.of(cell.run)).open)


def _on_ray(retrieval: RetrievalNames, _: Prepared, served: StartedGenerator) -> Host:
    return RayHost(retrieval=retrieval, served=served)


def _by_archive(cells: Sequence[PreparedCell]) -> list[list[PreparedCell]]:
    """The cells of each archive, in the order in which the archives come."""
    groups: dict[str, list[PreparedCell]] = {}
    for cell in cells:
        groups.setdefault(cell.prepared.archive.location, []).append(cell)
    return list(groups.values())


HostOf = Callable[[Prepared, StartedGenerator], Host]
"""Returns the host of a cell, with the generator that it shares with others."""
Work = tuple[PreparedCell, StartedGenerator, HostOf]


def _run_archive(running: Running, cells: Sequence[PreparedCell], hosts: Sequence[HostOf]) -> list[CellEnd]:
    """Run the cells over one archive.

    Cells that their share of the budget did not reach to the end go on one by one while others have left something.
    Raises what a cell raised, after all have been stopped.
    """
    # One after the other before anything runs: each may start a server.
    served = [running.generator(cell.prepared) for cell in cells]
    work = list(zip(cells, served, hosts, strict=True))
    ends = _side_by_side(running, work)
    for at, end in enumerate(ends):
        if end.result.exit_code == EXIT_OVER_BUDGET and (running.budget.free_usd or 0.0) > 0.0:
            ends[at] = _run_cell(running, *work[at], sharers=1)
    return ends


def _side_by_side(running: Running, work: Sequence[Work]) -> list[CellEnd]:
    """All of it, ``parallel`` at a time; none is begun any more after a fatal end."""
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
    """Run a cell under its share of the budget, of which ``sharers`` may be waiting for some."""
    name = cell.plan.named.cell
    cap = running.budget.grant(name, sharers)
    try:
        config = cell.prepared.config.model_copy(update={"budget_usd": cap})
        prepared = replace(cell.prepared, config=config, replies_from=running.others(cell))
        silent = Console(file=io.StringIO())  # bars of several runs would draw over each other
        starting = Starting(console=silent, interrupt=running.interrupt)
        result = answer_prepared(prepared, str(cell.run), starting, host_of(prepared, served))
    finally:
        spent = spent_usd(Folder.of(cell.run))
        running.budget.settle(name, spent)
    ended = ", ".join(f"{count} {status}" for status, count in sorted(result.statuses.items())) or "nothing was asked"
    say_line(running.console, f"  {name}: {ended}; ${spent:.4f}")
    return CellEnd(name, result)


# --------
# The judge of a sweep: the answers of each cell marked by a language model, with a ledger of its own in each cell.

S = TypeVar("S")
Texts = Callable[[str], str]
"""The text of a document by its id."""
Runs = Mapping[str, tuple[Path, Sequence[GoldQuestion]]]
"""By cell: the run's folder, and its gold questions."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judge said with each seed, by cell and query_id: verdicts of 1 and 0, and SARA's four marks by their
    names."""

    verdicts: Sequence[Mapping[str, Mapping[str, float]]] = ()
    marks: Sequence[Mapping[str, Mapping[str, Mapping[str, float]]]] = ()

    def of(self, cell: str) -> dict[str, dict[str, list[float]]]:
        """Of a cell by query_id: what was said with each seed, the verdicts as ``judge``."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for verdicts in self.verdicts:
            for query_id, verdict in verdicts.get(cell, {}).items():
                found[query_id]["judge"].append(verdict)
        for marks in self.marks:
            for query_id, given in marks.get(cell, {}).items():
                for name, value in given.items():
                    found[query_id][name].append(value)
        return found


def _judge(expanded: Expanded, cells: Sequence[PreparedCell], budget: SharedBudget) -> tuple[Judged, str]:
    """The word of a judge that is paid out of the ``budget``: on all cells, with each seed for which it could be paid,
    and why not with the others.
    """
    said = expanded.sweep.judge
    if said is None:
        return Judged(), ""
    golds = _golds(expanded)
    runs = {cell.plan.named.cell: (cell.run, golds[cell.plan.named.set]) for cell in cells}
    config = judge_config(said)
    verdicts, paid = each_seed(partial(judge_cells, runs, config, budget), said.seeds)
    marks: list[dict[str, Mapping[str, Mapping[str, float]]]] = []
    if said.marks and paid:
        texts = {cell.plan.named.cell: _text_of(cell) for cell in cells}
        marks, paid = each_seed(partial(mark_cells, runs, texts, config, budget), said.seeds)
    if paid:
        return Judged(verdicts, marks), ""
    four = f", and the four marks of {len(marks)}" if said.marks else ""
    return Judged(verdicts, marks), (
        f"The budget of ${expanded.sweep.budget_usd} over the whole sweep does not reach for the judge, so the tables "
        f"have its verdicts with {len(verdicts)} of {said.seeds} seeds{four}. Raise budget_usd and run the same "
        "command: what arrived is kept."
    )


def each_seed(ask: Callable[[int], S], seeds: int) -> tuple[list[S], bool]:
    """What ``ask`` brings at each turn, as many as can be paid for, and whether all could."""
    found: list[S] = []
    for turn in range(seeds):
        try:
            found.append(ask(turn))
        except OverBudget:
            return found, False
    return found, True


def judge_config(said: JudgeConfig) -> RunConfig:
    """The answer config whose ``llm`` judges. Raises ConfigError when it cannot be used or names the embedded model."""
    config = load_config(RunConfig, said.answer, dict(said.overrides))
    if config.llm.base_url == EMBEDDED or config.llm.mode == "batch":
        raise ConfigError(
            "judge asks the embedded model, or in batches: the first is too small to judge, and the judge asks in real "
            "time. Set llm.base_url, llm.model and llm.mode: realtime in judge.overrides."
        )
    PriceTable.load(config.prices).price(config.llm.model, config.llm.price)
    return config


def judge_cells(runs: Runs, config: RunConfig, budget: SharedBudget, turn: int = 0) -> dict[str, Mapping[str, float]]:
    """Marks by cell and query_id: of answered questions with gold answers the judge's, of the others with an end 0, or
    1 where "unanswerable" is the gold answer. ``turn`` is added to the judge's seed, and to 0 where that is null.

    What it costs comes out of the ``budget``. Raises as ``judge`` does, and EndpointError when nobody can be asked.
    """
    found: dict[str, Mapping[str, float]] = {}
    with generator(_seeded(config.llm, turn), None) as served:
        for cell, (run, golds) in runs.items():
            ends = list(_ends(run, golds))
            right = {question.query_id: _rightly_unanswered(question, row) for question, row in ends}
            asked = [
                ToJudge(q.query_id, q.question, q.answers, row["answer"] or "") for q, row in ends if _answered(row)
            ]
            found[cell] = right | _asked_in(cell, run, config, served, budget, partial(judge, asked, turn=turn))
    return found


def mark_cells(
    runs: Runs, texts: Mapping[str, Texts], config: RunConfig, budget: SharedBudget, turn: int = 0
) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """SARA's four marks by cell, query_id and name: of answered questions with gold answers the judge's, of the others
    with an end 0, or 1 where "unanswerable" is the gold answer, without a mark for faithfulness.

    ``texts`` gives each cell's documents, in whose words the judge reads what the answer was given from. What it costs
    comes out of the ``budget``. Raises as ``judge_cells`` does.
    """
    found: dict[str, Mapping[str, Mapping[str, float]]] = {}
    with generator(_seeded(config.llm, turn), None) as served:
        for cell, (run, golds) in runs.items():
            ends = list(_ends(run, golds))
            unanswered = {
                question.query_id: dict.fromkeys(MARKS[:-1], _rightly_unanswered(question, row))
                for question, row in ends
                if not _answered(row)
            }
            asked = [
                ToMark(q.query_id, q.question, q.answers, row["answer"] or "", _context(row, texts[cell]))
                for q, row in ends
                if _answered(row)
            ]
            found[cell] = unanswered | _asked_in(cell, run, config, served, budget, partial(mark, asked, turn=turn))
    return found


def _seeded(llm: LlmConfig, turn: int) -> LlmConfig:
    return llm.model_copy(update={"seed": (llm.seed or 0) + turn}) if turn else llm


def _ends(run: Path, golds: Sequence[GoldQuestion]) -> Iterator[tuple[Question, Mapping[str, Any]]]:
    """The questions with gold answers that the run has asked to their end, with the ends."""
    columns = ["query_id", "status", "answer", "context", "citations"]
    rows = {row["query_id"]: row for row in table(Folder.of(run), "answers", columns)}
    for each in golds:
        question = each.gold.question
        row = rows.get(question.query_id)
        if row is not None and row["status"] != "over_budget" and question.answers:
            yield question, row


def _answered(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == "answered")


def _rightly_unanswered(question: Question, row: Mapping[str, Any]) -> float:
    # The answer of one that is unanswerable is that word, whatever text stands in its row.
    return float(row["status"] == UNANSWERABLE and best(exact_match, UNANSWERABLE, question.answers))


LONG = 4000
AROUND = 900
"""Characters of a passage that the judge is shown by its cited places first, and so many on each side of one; ours."""


def _context(row: Mapping[str, Any], text: Texts) -> tuple[str, ...]:
    """What an answer was given from: what it cites first, of long passages the places, then the rest. What stands in no
    document is not known.
    """
    cited = spans_of(row["citations"])
    first: list[tuple[str, int, int]] = []
    rest: list[tuple[str, int, int]] = []
    for doc_id, start, end in spans_of(row["context"]):
        inside = [(at, to) for doc, at, to in cited if doc == doc_id and start <= at < end]
        if end - start > LONG:
            first += [(doc_id, max(start, at - AROUND), min(end, to + AROUND)) for at, to in inside]
            rest.append((doc_id, start, end))
        else:
            (first if inside else rest).append((doc_id, start, end))
    shown = (text(doc_id)[start:end].strip() for doc_id, start, end in [*first, *rest])
    return tuple(words for words in shown if words)


def _asked_in(
    cell: str,
    run: Path,
    config: RunConfig,
    served: StartedGenerator,
    budget: SharedBudget,
    ask: Callable[[LlmClient, int], Awaitable[Mapping[str, S]]],
) -> dict[str, S]:
    """What ``ask`` finds by the judge's client, whose journal and ledger lie in the cell's folder."""
    folder, name = Folder.of(run / JUDGE), f"{cell}/{JUDGE}"
    budget.settle(name, spent_usd(folder))
    cap = budget.grant(name, 1)
    try:
        return asyncio.run(_ask(ask, config, served, folder, cap))
    finally:
        budget.settle(name, spent_usd(folder))


async def _ask(
    ask: Callable[[LlmClient, int], Awaitable[Mapping[str, S]]],
    config: RunConfig,
    served: StartedGenerator,
    folder: Folder,
    cap: float | None,
) -> dict[str, S]:
    ledger = RunLedger(folder, cap)
    llm = served.llm
    gateway = Gateway(ledger, [LocalLimiter(endpoint.limits) for endpoint in llm.all_endpoints])
    client = LlmClient(llm, gateway, PriceTable.load(config.prices), address=served.address, tags=config.tags)
    try:
        return dict(await ask(client, config.concurrency))
    except* Exception as group:
        raise group.exceptions[0] from None
    finally:
        await client.aclose()
        await ledger.close()


# --------
# Scores, and what the sweep came to.


def _golds(expanded: Expanded) -> Mapping[str, Sequence[GoldQuestion]]:
    return {chosen.named: read_gold_questions(expanded.folder.questions(chosen)) for chosen in expanded.sweep.sets}


def _scored(expanded: Expanded, cells: Sequence[PreparedCell], judged: Judged) -> list[dict[str, Any]]:
    """The rows of all cells, finished questions of unfinished ones among them."""
    rows: list[dict[str, Any]] = []
    golds = _golds(expanded)
    texts: dict[str, Texts] = {}
    for cell in cells:
        named = cell.plan.named
        text = texts.setdefault(named.set, _text_of(cell))
        rows += score_rows(Folder.of(cell.run), named, golds[named.set], text, judged.of(named.cell))
    return rows


def _text_of(cell: PreparedCell) -> Texts:
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
