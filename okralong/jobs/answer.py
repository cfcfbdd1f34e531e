"""The answer job: check everything, start what is needed, carry the questions, write the manifest last."""

from __future__ import annotations

import asyncio
import json
import math
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import RLock
from typing import Any, Final, TypeVar, get_args

from ray.exceptions import RayActorError
from rich.console import Console

from okralong.actors.cluster import connected, placement_notes
from okralong.actors.own_process import OwnModels, own_actors, unfit
from okralong.actors.planner import BatchSetup, RunActors, Stop, run_actors
from okralong.actors.retrieval import RetrievalNames
from okralong.jobs.generator import Generator, checked_anew, generator, weights_here
from okralong.jobs.options import Retriable
from okralong.jobs.run_folder import (
    BEGUN,
    RunResult,
    archive_of_run,
    begin,
    judged_otherwise,
    manifest,
    statuses,
    table,
)
from okralong.jobs.terminal import AnswerPanel, say_first, say_line
from okralong.pipelines.core.loops import run_coroutine
from okralong.pipelines.core.stopping import on_stop
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    EXIT_ENDPOINT,
    EXIT_FAILURES,
    EXIT_OK,
    EXIT_OVER_BUDGET,
    EXIT_STOPPED,
    GO_ON,
    Answer,
    ConfigError,
    OkraError,
    Question,
)
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.config import LlmConfig, read_deadline
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.llm.snapshots import drift, snapshot_rows
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.cited import archive_of
from okralong.pipelines.reporting.export import flat_answers, flat_row
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.matrix import MatrixRows
from okralong.pipelines.run.prepare import Prepared, Scoped, prepare, since_version
from okralong.pipelines.run.question_sources import Questions
from okralong.pipelines.run.rows import answer_row, artifacts_taken

T = TypeVar("T")

Finished = Callable[[Mapping[str, Any]], None]
"""Is told an answers row when it is written."""

POLL_S = 0.5
GRACE_S: Final = 20.0
"""How long calls in flight are waited for when a run is told to stop. Ours: most replies are there in that time."""
ENDING_S: Final = 5.0
"""How long questions may take beyond that to notice that they are to end. Ours."""
RETRIABLE: Final[tuple[str, ...]] = get_args(Retriable)


@dataclass(frozen=True)
class Shared:
    """What runs that execute concurrently share: a served generator, shards and models, and one interrupt that stops
    all of them."""

    served: Generator
    looking: RetrievalNames
    interrupt: Interrupt


@dataclass(frozen=True)
class Session:
    """What a warm session keeps for the runs that follow one another: ``models``, and ``served``, the generator of the
    config ``llm`` where that is served already (None: runs at an endpoint ask it themselves)."""

    models: OwnModels
    llm: LlmConfig
    served: Generator | None

    def generator(self, prepared: Prepared) -> Generator | None:
        """Return the served generator where it is the one that the run's config names, else None: the run brings its
        own, an endpoint.

        Raises DoesNotFit where the run needs another model, or another embedded generator, than the session has. An
        embedded one is compared by its weights too: a reader may have been trained anew since the session began, and a
        relative path names another file in another working directory.
        """
        if part := self.models.misfit(prepared):
            raise DoesNotFit(f"its {part} is another one than the run's")
        same = self.served is not None and prepared.llm == self.llm
        if prepared.llm.base_url != EMBEDDED:
            return self.served if same else None
        if self.served is None or not same or weights_here(prepared.llm) != self.served.weights:
            raise DoesNotFit("its generator is another one than the run's")
        return checked_anew(self.served)


class DoesNotFit(OkraError):
    """A run that a session cannot carry; the message is half a sentence that says why."""


def answer_questions(
    archive: str,
    questions: Questions,
    run: str,
    config: RunConfig,
    *,
    address: str | None = None,
    retry: frozenset[str] = frozenset(),
    changed_since: int | None = None,
    matrix: MatrixRows | None = None,
    console: Console | None = None,
    finished: Finished | None = None,
    interrupt: Interrupt | None = None,
    session: Session | None = None,
) -> RunResult:
    """Answer every question that has no answer in ``run`` yet, and those that ended in a way that ``retry`` names.

    What is over_budget goes on whether it is named or not. With ``changed_since``, a version, only questions whose
    documents changed since then are asked; with ``matrix`` each of them is asked of every document by itself, or of
    those that it names. Raises OkraError before anything is spent, DoesNotFit where a ``session`` cannot carry it.
    """
    console = console or Console()
    unknown = sorted(retry - set(RETRIABLE))
    if unknown:
        raise ConfigError(f"--retry takes {', '.join(RETRIABLE)}, not {', '.join(unknown)}. Correct the option.")
    prepared = prepare(archive_of_run(Folder.of(run), archive), questions, config, matrix)
    say_unusable(console, prepared)
    if changed_since is not None:
        whole = len(prepared.questions) + len(prepared.unscoped)
        prepared, diff = since_version(prepared, changed_since)
        left = len(prepared.questions) + len(prepared.unscoped)
        counts = f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.removed)} removed"
        say_line(console, f"since version {changed_since}: {counts}; {left} of {whole} questions rest on these")
        if not left:
            return RunResult(run, {}, EXIT_FAILURES if prepared.bad else EXIT_OK)
    return answer_prepared(
        prepared,
        run,
        address=address,
        retry=retry,
        console=console,
        finished=finished,
        interrupt=interrupt,
        session=session,
    )


def answer_prepared(
    prepared: Prepared,
    run: str,
    *,
    address: str | None = None,
    retry: frozenset[str] = frozenset(),
    console: Console | None = None,
    whole: bool = True,
    shared: Shared | None = None,
    finished: Finished | None = None,
    interrupt: Interrupt | None = None,
    session: Session | None = None,
) -> RunResult:
    """The same with everything checked. A part of a run that is not the ``whole`` leaves it without a manifest.

    With ``shared`` the process is connected to Ray already, and what is shared is used and left.
    """
    console = console or Console()
    started_at = time.monotonic()
    config = prepared.config
    folder = Folder.of(run)
    where = folder.path if folder.is_local else run
    with folder.locked("okralong answer"):
        begin(folder, prepared)
        before = statuses(folder, prepared)
        # over_budget is never an end: the same command with a higher cap goes on.
        done = {query_id for query_id, status in before.items() if status not in retry | {"over_budget"}}
        todo = [scoped for scoped in prepared.questions if scoped.question.query_id not in done]
        unscoped = [(question, why) for question, why in prepared.unscoped if question.query_id not in done]
        complete = folder.read_manifest() is not None
        if not todo and not unscoped and (complete or not whole):
            return _result(where, prepared)
        batches = batch_setup(folder, config.llm, complete)
        why = "it has batches to fetch" if batches else unfit(prepared, len(todo))
        alone = address is None and shared is None and not why
        if session is not None and why:
            raise DoesNotFit(why)
        there = shared.served if shared else session.generator(prepared) if session else None
        folder.remove(MANIFEST)  # its presence means complete, and this is not any more
        _describe(console, prepared, len(todo), len(done))
        if note := judged_otherwise(folder, prepared):
            say_line(console, note, style="yellow")
        logs = Path(folder.path) if folder.is_local else None
        reopened = frozenset(before) & {scoped.question.query_id for scoped in todo}
        # A question that is asked again wants another reply than the one that failed it, which other runs may have too.
        replies = () if retry - {"over_budget"} else prepared.replies_from
        looking = shared.looking if shared else None
        with ExitStack() as held:
            panel = held.enter_context(AnswerPanel(console, len(todo)))
            panel.phase("generator", "starts" if config.llm.base_url == EMBEDDED else "is asked whether it is there")
            models = session.models if session else OwnModels() if alone else None
            if models is not None and session is None:  # they are loaded while the generator starts
                held.callback(models.close)
                models.bring(prepared)
            served = there or held.enter_context(generator(prepared.llm, logs, reading_vectors(prepared), ahead=True))
            _check_logprobs(prepared, served)
            if models is not None:
                panel.phase("models", "are loaded, in this process")
                late = served.ready if served.ready is not None else served.address
                started = own_actors(prepared, where, served.llm, late, models, reopened, replies, served.weights)
            else:
                panel.phase("Ray", "starts" if address is None else f"at {address}")
                held.enter_context(connected(address))
                for note in placement_notes(config.placement):  # before it waits for them
                    say_line(console, note, style="yellow")
                panel.phase("models", "and index shards are loaded")
                listens = served.ready.result() if served.ready is not None else served.address
                started = run_actors(
                    prepared, where, served.llm, listens, reopened, replies, batches, looking, served.weights
                )
            actors = held.enter_context(started)
            for note in served.notes:
                say_line(console, note, style="yellow")
            interrupt = shared.interrupt if shared else interrupt
            stop, totals = drive(actors, todo, unscoped, prepared, panel, console, interrupt, finished)
            panel.phase("end", "the run is written" if models else "the run is written, models and Ray are stopped")
        if stop is not None:
            return _result(where, prepared, stop.message, stop.exit_code)
        if not whole:
            return _result(where, prepared)
        billed = bill(table(folder, "ledger", COLUMNS))
        totals |= {"alone_usd": billed.alone_usd, "shared_replies": billed.shared}
        totals |= {"batch_usd": billed.batch_usd, "batch_calls": billed.batch_calls}
        taken, _ = artifacts_taken(folder)
        spared = math.fsum(each.expense.cost_usd for each in taken)
        totals |= {"artifacts_taken": len(taken), "artifacts_taken_usd": spared}
        folder.write_manifest(manifest(prepared, served.facts, time.monotonic() - started_at, totals))
        return _result(where, prepared)


def reading_vectors(prepared: Prepared) -> Path | None:
    """The compressor whose generator a run's strategy needs; None where any generator will do."""
    return prepared.config.sara.folder() if prepared.strategy.needs.sara_generator else None


def _check_logprobs(prepared: Prepared, served: Generator) -> None:
    """Raises ConfigError when the strategy needs log-probabilities and the server that was started here has none."""
    if prepared.strategy.needs.logprobs and served.facts.get("engine") == "transformers":
        raise ConfigError(
            f"The strategy {prepared.strategy.name!r} works with the log-probabilities of the reply's tokens, and the "
            f"model {prepared.config.llm.model} is served here by transformers, which gives none. Set llm.base_url to "
            "an endpoint that does, llm.model to a .gguf file, which llama.cpp serves here, or choose another "
            "strategy. Nothing was spent."
        )


def _describe(console: Console, prepared: Prepared, todo: int, done: int) -> None:
    config = prepared.config
    columns = f", cells of {len(prepared.columns)} columns among them" if prepared.columns else ""
    console.print(
        f"{todo} questions to answer ({done} answered before, {len(prepared.unusable)} unusable rows{columns}) over "
        f"{prepared.manifest['documents']} documents (version {prepared.archive.version} of the archive)\n"
        f"strategy {config.strategy}, policy {prepared.policy.name}, analyzer {config.analyzer.kind}, generator "
        f"{', '.join(f'{one.model} at {one.base_url}' for one in config.llm.all_endpoints)}, budget "
        f"{'none' if config.budget_usd is None else f'${config.budget_usd}'}"
        f"{_mode(prepared)}{_second(prepared)}",
        highlight=False,
        markup=False,
    )


def say_unusable(console: Console, prepared: Prepared) -> None:
    """Print the first rows that cannot be asked, each with its reason."""
    say_first(console, prepared.unusable, "rows of the questions cannot be asked")


def _second(prepared: Prepared) -> str:
    """What is done with answers that are not trusted, and where none can be judged."""
    again, stronger = prepared.policy.escalate, prepared.llm.stronger
    if again is not None and prepared.strategy.needs.escalates:
        how = f"go to {stronger.model} at {stronger.base_url}" if stronger else "are asked for from the full text"
        return f"\nanswers of a confidence under {again.under:g} {how}"
    reranker = prepared.config.reranker
    if reranker.confidence and not reranker.reads_spans:
        return f"\nno answer gets a confidence: {reranker.model} only ranks"
    return ""


def _mode(prepared: Prepared) -> str:
    llm = prepared.config.llm
    if llm.mode != "batch":
        return ""
    deadline = llm.batch.deadline
    later = "without a deadline" if deadline is None else f"the rest in real time from {deadline} on"
    if prepared.prices.price(llm.model, llm.price).batch_discount:
        return f"\nin batches, {later}"
    return f"\nin batches, {later}; the price of {llm.model} knows no batch_discount, so they count in full"


def _result(run: str, prepared: Prepared, stopped: str = "", code: int = EXIT_OK) -> RunResult:
    counts = Counter(str(row["status"]) for row in table(Folder.of(run), "answers", ["status"]))
    if code == EXIT_OK and counts["over_budget"]:
        code = EXIT_OVER_BUDGET
        stopped = (
            f"The budget of ${prepared.config.budget_usd} is used up; {counts['over_budget']} questions are left "
            "over_budget. Raise budget_usd and run the same command: it goes on with those."
        )
    elif code == EXIT_OK and (counts["failed"] or prepared.bad):
        code = EXIT_FAILURES
    golds = {each.question.query_id: each.question.answers for each in prepared.questions}
    return RunResult(run, dict(counts), code, stopped, golds)


def batch_setup(folder: Folder, llm: LlmConfig, complete: bool, now: datetime | None = None) -> BatchSetup | None:
    """Whether this start of a run needs a batch scheduler: in batch mode, or to fetch what an earlier start left in
    batches.

    Real time is a deadline that has passed: what was handed in before is cancelled or fetched, and never asked twice.
    A deadline is kept in ``run.json`` as the moment that it first meant, so that "06:00" stays that morning when a
    killed run goes on after it. It is read anew when it is said in other words, or the run was ``complete`` before.
    """
    now = now or datetime.now(UTC)
    begun: dict[str, Any] = json.loads(folder.read_bytes(BEGUN))
    if llm.mode != "batch":
        if not begun.get("batches") or not ResumeState.load(folder).open:
            return None
        return BatchSetup(begun["run_id"], now)
    said = llm.batch.deadline
    kept = begun.get("deadline") or {}
    if said is None:
        deadline = None
    elif kept.get("said") == said and not complete:
        deadline = kept
    else:
        deadline = {"said": said, "at": read_deadline(said, now).isoformat()}
    run_id = str(begun.get("run_id") or uuid.uuid4().hex)
    known: dict[str, Any] = {"batches": True, "deadline": deadline, "run_id": run_id}
    if begun | known != begun:
        folder.write_bytes(BEGUN, json.dumps(begun | known, indent=2, sort_keys=True).encode())
    return BatchSetup(run_id, None if deadline is None else datetime.fromisoformat(deadline["at"]))


def drive(
    actors: RunActors,
    todo: Sequence[Scoped],
    unscoped: Sequence[tuple[Question, str]],
    prepared: Prepared,
    panel: AnswerPanel,
    console: Console,
    interrupt: Interrupt | None = None,
    finished: Finished | None = None,
) -> tuple[Stop | None, dict[str, Any]]:
    """Carry all questions; why the run had to stop (or None), and the ledger's totals.

    Each answers row that is written goes to ``finished``, called in the thread of the run.

    At the first Ctrl-C or SIGTERM, and when the ``interrupt`` is fired, nothing more is sent, calls in flight are
    waited for, and KeyboardInterrupt is raised, in another thread than the main one CancelledError; at once when the
    ``interrupt`` is fired again.
    """
    interrupt = interrupt or Interrupt()
    with on_stop(interrupt.fire):
        try:
            told = finished or (lambda _: None)
            work = _drive(actors, todo, unscoped, prepared, panel, console, interrupt.grace_s, told)
            return run_coroutine(interrupt.of(work))
        except asyncio.CancelledError:
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt from None
            raise


async def _drive(
    actors: RunActors,
    todo: Sequence[Scoped],
    unscoped: Sequence[tuple[Question, str]],
    prepared: Prepared,
    panel: AnswerPanel,
    console: Console,
    grace_s: float,
    finished: Finished,
) -> tuple[Stop | None, dict[str, Any]]:
    for row in prepared.bad:
        await actors.ledger.fail(row.query_id, "questions", "QuestionError", row.message)
    for question, why in unscoped:
        await actors.ledger.fail(question.query_id, "scope", "QuestionError", why)
        failed = Answer("failed", "", error=why)
        await actors.ledger.finish(answer_row(question, question.doc_ids, failed, prepared.strategy.name, {}))
    begun = await actors.ledger.begun()
    stops: list[Stop] = []
    done = 0
    places = asyncio.Semaphore(prepared.config.in_flight)
    carrying = Counter[int]()

    async def carry(scoped: Scoped) -> None:
        nonlocal done
        async with places:
            if stops:
                return
            turn = min(range(len(actors.planners)), key=lambda number: carrying[number])
            planner = actors.planners[turn]
            carrying[turn] += 1
            try:
                new = scoped.question.query_id not in begun
                ended = await planner.answer.remote(scoped.question, scoped.doc_ids, new)
                stop = ended if isinstance(ended, Stop) else None
                if ended is not None and stop is None:
                    finished(ended)
            except RayActorError as error:
                last = str(error).strip().splitlines()[-1]
                stop = Stop(f"A planner died more often than it is revived: {last} {GO_ON}", EXIT_BROKEN)
            finally:
                carrying[turn] -= 1
            done += 1
            if stop is not None:
                stops.append(stop)
                if actors.scheduler is not None:  # who waits for a batch would hold up the stop by hours
                    await actors.scheduler.stop(stop.message)

    watch = _Progress(actors.ledger, actors.scheduler, panel, console)
    watching = asyncio.create_task(watch.go_on(lambda: done))
    growing = asyncio.create_task(_grow(actors, lambda: len(todo) - done > prepared.config.in_flight))
    carried = [asyncio.create_task(carry(scoped)) for scoped in _by_scope(todo)]
    try:
        if carried:
            await asyncio.wait(carried, return_when=asyncio.FIRST_EXCEPTION)
    except asyncio.CancelledError:
        growing.cancel()
        stops.append(Stop(f"Stopped. {GO_ON}", EXIT_STOPPED))
        await _halt(actors, grace_s, console)
        await asyncio.wait(carried, timeout=ENDING_S)
        raise
    for task in carried:
        if task.done():
            task.result()
    if actors.scheduler is not None and not stops:
        try:
            await actors.scheduler.drain()
        except OkraError as error:
            stops.append(Stop(str(error), error.exit_code))
    watching.cancel()
    growing.cancel()
    totals = await watch.look(done)
    return (stops[0] if stops else None), {
        "statuses": dict(totals.questions),
        "calls": totals.calls,
        "prompt_tokens": totals.usage.prompt_tokens,
        "cached_tokens": totals.usage.cached_tokens,
        "completion_tokens": totals.usage.completion_tokens,
        "reasoning_tokens": totals.usage.reasoning_tokens,
        "weighted_tokens": totals.usage.weighted_tokens,
        "settled_usd": totals.settled_usd,
        "unknown_usd": totals.unknown_usd,
        "failures": totals.failures,
        "snapshots": snapshot_rows(totals.snapshots),
    }


BUSY: Final = 0.7
"""The share of a core that a planner takes when another is started. Ours: above it calls wait for the planner."""
GROW_EVERY_S: Final = 5.0
"""Between two looks at the planners, in seconds. Ours: a planner takes two to start."""
MOST_PLANNERS: Final = 16
"""Ours: each lists the documents of the archive, about 1 kB a document, beside some 200 MiB."""


def busy(spent_s: Sequence[float], seconds: float, idle_cores: float) -> bool:
    """Whether a further planner would help: each has taken most of a core, and a core has nothing to do. ``spent_s``
    are their processor seconds in the last ``seconds``."""
    return bool(spent_s) and min(spent_s) > BUSY * seconds and idle_cores >= 1


async def _grow(actors: RunActors, goes_on: Callable[[], bool]) -> None:
    """Start further planners while those that there are cannot keep up, questions wait, and this machine has a core for
    one more."""
    spent, cores, at = [0.0], _core_seconds(), time.monotonic()
    while actors.more is not None and len(actors.planners) < MOST_PLANNERS:
        await asyncio.sleep(GROW_EVERY_S)
        if not goes_on():
            return
        with suppress(RayActorError):  # it is being revived, or the run ends
            before, spent = spent, await asyncio.gather(*(planner.spent.remote() for planner in actors.planners))
            now, idle = time.monotonic(), _core_seconds()
            took = [after - former for former, after in zip(before, spent, strict=False)]
            free = (idle - cores) / (now - at)
            cores, at = idle, now
            if len(before) == len(spent) and busy(took, GROW_EVERY_S, free):
                planner = actors.more()
                await planner.ready.remote()
                actors.planners.append(planner)


def _core_seconds() -> float:
    """Seconds that this machine's cores have had nothing to do, together; 0 where the system does not say."""
    with suppress(OSError):
        words = Path("/proc/stat").read_text(encoding="ascii").split()
        return int(words[4]) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _by_scope(todo: Sequence[Scoped]) -> list[Scoped]:
    """The questions of one scope after each other, in the order of their first ones: prompts that show the same
    documents come while the endpoint still has these in its cache.
    """
    places: dict[tuple[str, ...], int] = {}
    for scoped in todo:
        places.setdefault(tuple(scoped.doc_ids), len(places))
    return sorted(todo, key=lambda scoped: places[tuple(scoped.doc_ids)])


async def _halt(actors: RunActors, grace_s: float, console: Console) -> None:
    """Send nothing more, and wait for the calls in flight, so long."""
    why = f"The run was stopped. {GO_ON}"
    in_flight = await _sum(planner.halt.remote(why) for planner in actors.planners)
    if actors.scheduler is not None:
        await actors.scheduler.stop(why)
    if not in_flight:
        return
    calls = "1 call is" if in_flight == 1 else f"{in_flight} calls are"
    say_line(console, f"Stopping: {calls} in flight, waited for {grace_s:g} s at most. Ctrl-C again ends at once.")
    lost = await _sum(planner.drain.remote(grace_s) for planner in actors.planners)
    if lost:
        say_line(
            console,
            f"{in_flight - lost} of {in_flight} replies came and are kept. {lost} did not; nobody knows whether they "
            "are billed, so the ledger has them as unknown, at what they may cost at most.",
            style="yellow",
        )
    else:
        say_line(
            console, f"All {in_flight} replies came and are kept." if in_flight > 1 else "The reply came and is kept."
        )


async def _sum(counts: Iterable[Awaitable[int]]) -> int:
    """The sum of what planners say; one that died says nothing."""
    said = await asyncio.gather(*counts, return_exceptions=True)
    return sum(each for each in said if isinstance(each, int))


class _Progress:
    """Shows how far the run is, and says once what the user should know while it goes on."""

    def __init__(
        self, ledger: RunLedger, scheduler: BatchScheduler | None, panel: AnswerPanel, console: Console
    ) -> None:
        self._ledger, self._scheduler, self._panel, self._console = ledger, scheduler, panel, console
        self._warned = False
        self._heard = 0

    async def look(self, done: int) -> Totals:
        """Bring the terminal up to date; the ledger's totals."""
        totals = await self._ledger.totals()
        self._panel.update(done, totals.usage.prompt_tokens + totals.usage.completion_tokens, totals.settled_usd)
        if not self._warned and (warning := drift(totals.snapshots)) is not None:
            self._warned = True
            say_line(self._console, warning, style="yellow")
        notes = [] if self._scheduler is None else await self._scheduler.notes(self._heard)
        self._heard += len(notes)
        for note in notes:
            say_line(self._console, note)
        return totals

    async def go_on(self, done: Callable[[], int]) -> None:
        """Look again and again."""
        while True:
            await self.look(done())
            await asyncio.sleep(POLL_S)


@dataclass
class Interrupt:
    """Stops runs, also in other threads, which signals such as Ctrl-C do not reach: cancels what runs under it, and
    what would begin later. What is fired once waits ``grace_s`` at most for calls in flight, twice for none.
    """

    grace_s: float = GRACE_S
    fired: bool = False
    _running: set[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = field(default_factory=set)
    _lock: Any = field(default_factory=RLock)  # a signal may come while this thread holds it

    async def of(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns. Raises CancelledError when this is fired before it ends."""
        task = asyncio.ensure_future(work)
        entry = (asyncio.get_running_loop(), task)
        with self._lock:
            self._running.add(entry)
            if self.fired:
                task.cancel()
        try:
            return await task
        finally:
            with self._lock:
                self._running.discard(entry)

    def fire(self) -> None:
        """Cancel all of it, from any thread."""
        with self._lock:
            self.fired = True
            running = list(self._running)
        for loop, task in running:
            with suppress(RuntimeError):  # its loop has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)


def stream_answers(
    archive: str, questions: Questions, run: str, config: RunConfig, retry: frozenset[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Answer as ``answer_questions`` does, over the connected Ray, in a thread of its own; each answer as a row of the
    run's flat table when it is there, then those that the run had before.

    A consumer that leaves stops the run. Raises what ``answer_questions`` raises, and OkraError where it had to stop.
    """
    answers: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()
    interrupt = Interrupt()
    silent = Console(quiet=True)

    def work() -> RunResult:
        try:
            return answer_questions(
                archive,
                questions,
                run,
                config,
                retry=retry,
                console=silent,
                finished=answers.put,
                interrupt=interrupt,
            )
        finally:
            answers.put(None)

    folder, seen = Folder.of(run), set()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(work)
        try:
            flat = None
            while (row := answers.get()) is not None:
                flat = flat or _flattener(folder)
                seen.add(row["query_id"])
                yield flat(row)
            result = running.result()
        finally:
            interrupt.fire()  # without effect where it has ended
            with suppress(Exception, asyncio.CancelledError):
                running.result()
    for row in flat_answers(Folder.of(result.run)).to_pylist():
        if row["query_id"] not in seen:
            yield row
    if result.exit_code in (EXIT_ENDPOINT, EXIT_BROKEN):
        error = OkraError(result.stopped)
        error.exit_code = result.exit_code
        raise error


def _flattener(run: Folder) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    begun = json.loads(run.read_bytes(BEGUN))
    archive, _ = archive_of(begun)
    return partial(flat_row, begun=begun, archive=archive)
