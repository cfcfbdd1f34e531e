"""Keeping the planners busy: so many questions in flight, progress on the terminal, and a stop that is a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from okralong.actors.crew import Crew
from okralong.actors.planner import Stop
from okralong.jobs.progress import AnswerBar
from okralong.pipelines.answering.preparation import Prepared, Scoped
from okralong.pipelines.answering.rows import answer_row
from okralong.pipelines.values import Answer, Question

POLL_S = 0.5


def drive(
    crew: Crew, todo: Sequence[Scoped], unscoped: Sequence[tuple[Question, str]], prepared: Prepared, console: Console
) -> tuple[Stop | None, dict[str, Any]]:
    """Carry all questions; why the run had to stop (or None), and the ledger's totals."""
    return asyncio.run(_drive(crew, todo, unscoped, prepared, console))


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
    places = asyncio.Semaphore(prepared.config.concurrency)

    async def carry(number: int, scoped: Scoped) -> None:
        nonlocal done
        async with places:
            if stops:
                return
            planner = crew.planners[number % len(crew.planners)]
            stop = await planner.answer.remote(scoped.question, scoped.doc_ids)
            done += 1
            if stop is not None:
                stops.append(stop)

    with AnswerBar(console, len(todo)) as bar:
        watch = asyncio.create_task(_watch(crew, bar, lambda: done))
        await asyncio.gather(*(carry(number, scoped) for number, scoped in enumerate(todo)))
        watch.cancel()
        totals = await crew.ledger.totals()
        bar.update(done, totals.usage.prompt_tokens + totals.usage.completion_tokens, totals.settled_usd)
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
    }


async def _watch(crew: Crew, bar: AnswerBar, done: Any) -> None:
    while True:
        totals = await crew.ledger.totals()
        bar.update(done(), totals.usage.prompt_tokens + totals.usage.completion_tokens, totals.settled_usd)
        await asyncio.sleep(POLL_S)
