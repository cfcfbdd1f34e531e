"""Answer the questions of an open run: distribute them to planners, show progress, stop in order."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ray.exceptions import RayActorError
from rich.console import Console

from okralong.actors.host import OpenRun
from okralong.actors.planner import Stop
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.remaining import QuestionPace
from okralong.jobs.terminal import AnswerPanel, say_line
from okralong.pipelines.core.stopping import on_stop
from okralong.pipelines.core.types import EXIT_STOPPED, GO_ON, Answer, OkraError, Question
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.ports import LedgerPort, SchedulerPort
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.llm.snapshots import drift, snapshot_rows
from okralong.pipelines.run.prepare import Scoped
from okralong.pipelines.run.questions import BadQuestion
from okralong.pipelines.run.rows import answer_row

Finished = Callable[[Mapping[str, Any]], None]
"""Called with each answers row when it is written, in the thread of the run."""

POLL_S: Final = 0.5
"""Seconds between two updates of the progress display."""
ENDING_S: Final = 5.0
"""Seconds that a stopped run's questions may take to end after the calls in flight. # project default"""
BUSY: Final = 0.7
"""Share of a core that a planner uses when another is started. # project default: above it calls wait for it"""
GROW_EVERY_S: Final = 5.0
"""Polling interval of the planners, in seconds. # project default: a planner takes two to start"""
MOST_PLANNERS: Final = 16
"""# project default: each lists the archive's documents, about 1 kB per document, in addition to some 200 MiB"""


@dataclass(frozen=True)
class Work:
    """The work left in a run.

    Attributes:
        questions: Questions to answer.
        unscoped: Questions whose scope names no document, each with the reason.
        bad: Unusable rows.
        in_flight: Number of questions answered at the same time.
        strategy: Name of the strategy.
    """

    questions: Sequence[Scoped]
    unscoped: Sequence[tuple[Question, str]]
    bad: Sequence[BadQuestion]
    in_flight: int
    strategy: str


def drive(
    run: OpenRun,
    work: Work,
    panel: AnswerPanel,
    console: Console,
    interrupt: Interrupt | None = None,
    finished: Finished | None = None,
) -> tuple[Stop | None, dict[str, Any]]:
    """Answer all questions; return why the run had to stop, if so, and the ledger's totals.

    At the first Ctrl-C or SIGTERM, or when ``interrupt`` is fired, the run sends nothing more and waits for calls in
    flight; at the second it stops at once.

    Raises:
        KeyboardInterrupt: The run was stopped, in the main thread.
        CancelledError: The run was stopped, in another thread.
    """
    interrupt = interrupt or Interrupt()
    with on_stop(interrupt.fire):
        try:
            driver = _Driver(run, work, panel, console, interrupt.grace_s, finished or (lambda _: None))
            stop, totals = run.execute(interrupt.of(driver.carry_all()))
            return stop, totals
        except asyncio.CancelledError:
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt from None
            raise


class _Driver:
    def __init__(
        self, run: OpenRun, work: Work, panel: AnswerPanel, console: Console, grace_s: float, finished: Finished
    ) -> None:
        self._run, self._work, self._console = run, work, console
        self._grace_s, self._finished = grace_s, finished
        self._pace = QuestionPace(len(work.questions))
        self._watch = ProgressWatch(run.ledger, run.scheduler, panel, console, self._pace)
        self._slots = asyncio.Semaphore(work.in_flight)
        self._carried_by = Counter[int]()
        self._begun: set[str] = set()
        self._stops: list[Stop] = []
        self._done = 0

    async def carry_all(self) -> tuple[Stop | None, dict[str, Any]]:
        await self._fail_unusable()
        self._begun = await self._run.ledger.begun()
        watching = asyncio.create_task(self._watch.go_on(lambda: self._done))
        growing = asyncio.create_task(grow(self._run, self._questions_wait))
        carried = [asyncio.create_task(self._carry(scoped)) for scoped in by_scope(self._work.questions)]
        try:
            if carried:
                await asyncio.wait(carried, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            growing.cancel()
            self._stops.append(Stop(f"Stopped. {GO_ON}", EXIT_STOPPED))
            await self._halt()
            await asyncio.wait(carried, timeout=ENDING_S)
            raise
        for task in carried:
            if task.done():
                task.result()
        await self._drain_batches()
        watching.cancel()
        growing.cancel()
        totals = await self._watch.look(self._done)
        return (self._stops[0] if self._stops else None), sums(totals)

    async def _fail_unusable(self) -> None:
        ledger = self._run.ledger
        for row in self._work.bad:
            await ledger.fail(row.query_id, "questions", "QuestionError", row.message)
        for question, why in self._work.unscoped:
            await ledger.fail(question.query_id, "scope", "QuestionError", why)
            failed = Answer("failed", "", error=why)
            await ledger.finish(answer_row(question, question.doc_ids, failed, self._work.strategy, {}))

    async def _carry(self, scoped: Scoped) -> None:
        async with self._slots:
            if self._stops:
                return
            planners = self._run.planners
            turn = min(range(len(planners)), key=lambda number: self._carried_by[number])
            self._carried_by[turn] += 1
            query_id, ended = scoped.question.query_id, None
            self._pace.begin(query_id, time.monotonic())
            try:
                ended = await planners[turn].answer(scoped.question, scoped.doc_ids, query_id not in self._begun)
            finally:
                self._carried_by[turn] -= 1
                self._pace.end(query_id, None if isinstance(ended, Stop) else ended, time.monotonic())
            self._done += 1
            if isinstance(ended, Stop):
                self._stops.append(ended)
                if self._run.scheduler is not None:  # a call that waits for a batch would delay the stop by hours
                    await self._run.scheduler.stop(ended.message)
            elif ended is not None:
                self._finished(ended)

    def _questions_wait(self) -> bool:
        return len(self._work.questions) - self._done > self._work.in_flight

    async def _drain_batches(self) -> None:
        if self._run.scheduler is not None and not self._stops:
            try:
                await self._run.scheduler.drain()
            except OkraError as error:
                self._stops.append(Stop(str(error), error.exit_code))

    async def _halt(self) -> None:
        """Send nothing more, and wait for the calls in flight."""
        why = f"The run was stopped. {GO_ON}"
        in_flight = await _sum(planner.halt(why) for planner in self._run.planners)
        if self._run.scheduler is not None:
            await self._run.scheduler.stop(why)
        if not in_flight:
            return
        self._say(
            f"Stopping: waiting up to {self._grace_s:g} s for {counted(in_flight, 'call')} in flight. "
            "Press Ctrl-C again to stop at once."
        )
        lost = await _sum(planner.drain(self._grace_s) for planner in self._run.planners)
        if lost:
            self._say(
                f"{in_flight - lost:,} of {counted(in_flight, 'reply')} arrived and "
                f"{agreeing(in_flight - lost, 'is')} kept. {lost:,} did not and may still be billed, so "
                "the ledger has them as unknown, at their maximum cost.",
                "yellow",
            )
        else:
            self._say(
                f"All {in_flight} replies arrived and are kept." if in_flight > 1 else "The reply arrived and is kept."
            )

    def _say(self, text: str, style: str = "") -> None:
        say_line(self._console, text, style=style)


def by_scope(questions: Sequence[Scoped]) -> list[Scoped]:
    """Group the questions by scope, in order of first appearance.

    Prompts that show the same documents then arrive while the endpoint still has these in its cache.
    """
    places: dict[tuple[str, ...], int] = {}
    for scoped in questions:
        places.setdefault(tuple(scoped.doc_ids), len(places))
    return sorted(questions, key=lambda scoped: places[tuple(scoped.doc_ids)])


async def _sum(counts: Iterable[Awaitable[int]]) -> int:
    """Return the sum of the planners' counts; one that died counts as 0."""
    said = await asyncio.gather(*counts, return_exceptions=True)
    return sum(each for each in said if isinstance(each, int))


def sums(totals: Totals) -> dict[str, Any]:
    """Return the totals in the manifest's form."""
    return {
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


class ProgressWatch:
    """Shows the run's progress, and prints each message for the user once."""

    def __init__(
        self,
        ledger: LedgerPort,
        scheduler: SchedulerPort | None,
        panel: AnswerPanel,
        console: Console,
        pace: QuestionPace | None = None,
    ) -> None:
        self._pace = pace
        self._ledger, self._scheduler, self._panel, self._console = ledger, scheduler, panel, console
        self._warned = False
        self._heard = 0

    async def look(self, done: int) -> Totals:
        """Update the terminal; return the ledger's totals."""
        totals = await self._ledger.totals()
        tokens = totals.usage.prompt_tokens + totals.usage.completion_tokens
        # A batch takes as long as its endpoint likes.
        timed = self._pace if self._scheduler is None else None
        left = None if timed is None else timed.seconds_left(totals.running, time.monotonic())
        self._panel.update(done, tokens, totals.settled_usd, left)
        if not self._warned and (warning := drift(totals.snapshots)) is not None:
            self._warned = True
            say_line(self._console, warning, style="yellow")
        notes = [] if self._scheduler is None else await self._scheduler.notes(self._heard)
        self._heard += len(notes)
        for note in notes:
            say_line(self._console, note)
        return totals

    async def go_on(self, done: Callable[[], int]) -> None:
        """Update the terminal until cancelled."""
        while True:
            await self.look(done())
            await asyncio.sleep(POLL_S)


def busy(spent_s: Sequence[float], seconds: float, idle_cores: float) -> bool:
    """Return whether a further planner would help: each uses most of a core, and a core is idle.

    ``spent_s`` are the planners' processor seconds in the last ``seconds``.
    """
    return bool(spent_s) and min(spent_s) > BUSY * seconds and idle_cores >= 1


async def grow(run: OpenRun, goes_on: Callable[[], bool]) -> None:
    """Start further planners while the current ones cannot keep up, questions wait, and a core is free."""
    spent, cores, at = [0.0], _idle_seconds(), time.monotonic()
    while run.more is not None and len(run.planners) < MOST_PLANNERS:
        await asyncio.sleep(GROW_EVERY_S)
        if not goes_on():
            return
        with suppress(RayActorError):  # it is being restarted, or the run ends
            before, spent = spent, await asyncio.gather(*(planner.spent() for planner in run.planners))
            now, idle = time.monotonic(), _idle_seconds()
            took = [after - former for former, after in zip(before, spent, strict=False)]
            free = (idle - cores) / (now - at)
            cores, at = idle, now
            if len(before) == len(spent) and busy(took, GROW_EVERY_S, free):
                planner = run.more()
                await planner.ready()
                run.planners.append(planner)


def _idle_seconds() -> float:
    """Return the total idle seconds of this machine's cores; 0 if the system does not report them."""
    with suppress(OSError):
        words = Path("/proc/stat").read_text(encoding="ascii").split()
        return int(words[4]) / os.sysconf("SC_CLK_TCK")
    return 0.0
