"""Keeping the planners busy: so many questions in flight, progress on the terminal, and a stop that is a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ray.exceptions import RayActorError
from rich.console import Console

from okralong.actors.llm import RayBatchDesk
from okralong.actors.planner import Crew, Stop
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.progress import AnswerBar
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import EXIT_BROKEN, GO_ON, Answer, OkraError, Question
from okralong.pipelines.llm.ledger import drift, snapshot_rows
from okralong.pipelines.llm.records import LedgerClient, Totals
from okralong.pipelines.run.prepare import Prepared, Scoped
from okralong.pipelines.run.rows import answer_row

POLL_S = 0.5


def drive(
    crew: Crew,
    todo: Sequence[Scoped],
    unscoped: Sequence[tuple[Question, str]],
    prepared: Prepared,
    console: Console,
    interrupt: Interrupt | None = None,
) -> tuple[Stop | None, dict[str, Any]]:
    """Carry all questions; why the run had to stop (or None), and the ledger's totals.

    Raises CancelledError when the ``interrupt`` is fired: this is how a run in another thread than the main one is told
    of Ctrl-C.
    """
    work = _drive(crew, todo, unscoped, prepared, console)
    return asyncio.run(work if interrupt is None else interrupt.of(work))


async def _drive(
    crew: Crew, todo: Sequence[Scoped], unscoped: Sequence[tuple[Question, str]], prepared: Prepared, console: Console
) -> tuple[Stop | None, dict[str, Any]]:
    for row in prepared.bad:
        await crew.ledger.fail(row.query_id, "questions", "QuestionError", row.message)
    for question, why in unscoped:
        await crew.ledger.fail(question.query_id, "scope", "QuestionError", why)
        failed = Answer("failed", "", error=why)
        await crew.ledger.finish(answer_row(question, question.doc_ids, failed, prepared.config.strategy, {}))
    stops: list[Stop] = []
    done = 0
    places = asyncio.Semaphore(prepared.config.in_flight)

    async def carry(number: int, scoped: Scoped) -> None:
        nonlocal done
        async with places:
            if stops:
                return
            planner = crew.planners[number % len(crew.planners)]
            try:
                stop = await planner.answer.remote(scoped.question, scoped.doc_ids)
            except RayActorError as error:
                last = str(error).strip().splitlines()[-1]
                stop = Stop(f"A planner died more often than it is revived: {last} {GO_ON}", EXIT_BROKEN)
            done += 1
            if stop is not None:
                stops.append(stop)
                if crew.desk is not None:  # who waits for a batch would hold up the stop by hours
                    await crew.desk.stop(stop.message)

    with AnswerBar(console, len(todo)) as bar:
        watch = _Watch(crew.ledger, crew.desk, bar, console)
        watching = asyncio.create_task(watch.go_on(lambda: done))
        await asyncio.gather(*(carry(number, scoped) for number, scoped in enumerate(todo)))
        if crew.desk is not None and not stops:
            try:
                await crew.desk.drain()
            except OkraError as error:
                stops.append(Stop(str(error), error.exit_code))
        watching.cancel()
        totals = await watch.look(done)
    return (stops[0] if stops else None), {
        "statuses": dict(totals.questions),
        "calls": totals.calls,
        "prompt_tokens": totals.usage.prompt_tokens,
        "cached_tokens": totals.usage.cached_tokens,
        "completion_tokens": totals.usage.completion_tokens,
        "weighted_tokens": totals.usage.weighted_tokens,
        "settled_usd": totals.settled_usd,
        "unknown_usd": totals.unknown_usd,
        "failures": totals.failures,
        "snapshots": snapshot_rows(totals.snapshots),
    }


class _Watch:
    """Shows how far the run is, and says once what the user should know while it goes on."""

    def __init__(self, ledger: LedgerClient, desk: RayBatchDesk | None, bar: AnswerBar, console: Console) -> None:
        self._ledger, self._desk, self._bar, self._console = ledger, desk, bar, console
        self._warned = False
        self._heard = 0

    async def look(self, done: int) -> Totals:
        """Bring the terminal up to date; the ledger's totals."""
        totals = await self._ledger.totals()
        self._bar.update(done, totals.usage.prompt_tokens + totals.usage.completion_tokens, totals.settled_usd)
        if not self._warned and (warning := drift(totals.snapshots)) is not None:
            self._warned = True
            say_line(self._console, warning, style="yellow")
        notes = [] if self._desk is None else await self._desk.notes(self._heard)
        self._heard += len(notes)
        for note in notes:
            say_line(self._console, note)
        return totals

    async def go_on(self, done: Callable[[], int]) -> None:
        """Look again and again."""
        while True:
            await self.look(done())
            await asyncio.sleep(POLL_S)
