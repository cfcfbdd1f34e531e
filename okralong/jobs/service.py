"""A service over an archive: answers the questions of many callers in the run of the day, under one cap.

It has one process, since a run has one writer. Equal questions that arrive at the same time share one answer. When no
caller waits for a question any more, it is abandoned: no further call is sent for it, and the replies to its calls in
flight are kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from okralong.actors.planner import Stop
from okralong.jobs.day_run import DayRun
from okralong.jobs.day_runs import DayRuns, unavailable
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_BROKEN, Question, QuestionError
from okralong.pipelines.llm.shared_budget import Share
from okralong.pipelines.reporting.cited import cited
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.serving.asked import (
    RETRY_S,
    AskRequest,
    Event,
    Refused,
    answer_data,
    check_answered,
    citation,
    query_id_of,
)
from okralong.pipelines.serving.night import NightAnswers
from okralong.pipelines.serving.progress import InProgress, StepEvents
from okralong.pipelines.serving.search import found_rows
from okralong.pipelines.serving.tokens import Caller, Tokens

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServiceSetup:
    """The settings of a service; they can be sent to another process.

    Attributes:
        archive: The archive, perhaps with a version.
        config: The config.
        folder: Absolute path of the folder for the days' runs and the audit log.
        night: Absolute place of a nightly's folder, or "".
        tokens: Absolute path of the file of tokens, or None.
        host: The address to listen on.
    """

    archive: str
    config: RunConfig
    folder: str
    night: str = ""
    tokens: str | None = None
    host: str = "127.0.0.1"


class Service:
    """Implements ``ServicePort``. Its methods are called from one event loop."""

    def __init__(self, setup: ServiceSetup, tokens: Tokens) -> None:
        self._limits, self._tokens = setup.config.serve, tokens
        folder = Folder.of(setup.folder)
        self._runs = DayRuns(setup.archive, setup.config, folder, lambda name: tokens.caps_usd.get(name, 0.0))
        self._slots = asyncio.Semaphore(setup.config.in_flight)
        self._asked: dict[str, InProgress] = {}
        self._night = NightAnswers(Folder.of(setup.night), self._limits.links) if setup.night else None

    async def __aenter__(self) -> Self:
        """See ``ServicePort``."""
        await self._runs.open()
        return self

    async def __aexit__(self, kind: Any, error: Any, at: Any) -> None:
        """See ``ServicePort``."""
        await self._runs.close()

    # Questions.

    async def ask(self, caller: Caller, asked: AskRequest, key: str = "") -> AsyncIterator[Event]:
        """See ``ServicePort``."""
        question = asked.to_question("question", self._limits.most_question_chars)
        timeout_s = self._limits.timeout_s
        deadline = time.monotonic() + timeout_s
        run: DayRun | None = None
        row: Mapping[str, Any] | None = None
        try:
            async with asyncio.timeout(timeout_s):
                run = await self._runs.enter()
                query_id = query_id_of(caller.name, asked, run.reading.prepared.fingerprint, key)
                doc_ids = await run.reading.scope(question)
                while (going := self._asked.get(query_id)) is not None and going.abandoned:
                    await going.over.wait()
                if going is None and (row := await run.finished(query_id)) is None:
                    self._check_budget(run, caller)
                    going = self._begin(run, replace(question, query_id=query_id), doc_ids)
            if going is None:
                assert row is not None
                yield await self._answer_event(run, row, replayed=True)
                return
            going.listeners += 1
            try:
                async for event in going.listen(deadline):
                    yield event
            finally:
                going.listeners -= 1
                if not going.listeners and not going.over.is_set():
                    going.abandoned = True
                    run.abandon(query_id)
        except TimeoutError:
            raise Refused(
                504,
                "timeout",
                f"There is no answer after {timeout_s:g} s. Send the same request again: paid replies are kept.",
                RETRY_S,
            ) from None
        finally:
            if run is not None:
                run.leave()

    def _begin(self, run: DayRun, question: Question, doc_ids: tuple[str, ...]) -> InProgress:
        """Start to answer a question."""
        going = self._asked[question.query_id] = InProgress()
        run.enter()
        self._runs.start(self._carry(run, question, doc_ids, going))
        return going

    async def _carry(self, run: DayRun, question: Question, doc_ids: tuple[str, ...], going: InProgress) -> None:
        error: Refused | None = None
        steps = StepEvents(going, run.reading.archive, self._limits.links)
        try:
            async with self._slots:
                if going.abandoned:
                    return
                ended = await run.answer(question, doc_ids, steps.watch)
            if isinstance(ended, Stop):
                if ended.exit_code == EXIT_BROKEN:
                    raise unavailable(ended.message)
                raise Refused(503, "unavailable", ended.message, RETRY_S)
            row = ended if ended is not None else await run.finished(question.query_id)
            if row is None:
                raise Refused(500, "internal_error", "The question ended without an answer.")
            check_answered(row)
            await steps.complete(row)
            going.push(await self._answer_event(run, row, replayed=ended is None))
        except Refused as refused:
            error = refused
        except asyncio.CancelledError:
            error = Refused(503, "unavailable", "The service is stopping. Paid replies are kept.", RETRY_S)
            raise
        except Exception as problem:
            logger.exception("question %s failed", question.query_id)
            error = Refused(500, "internal_error", f"{type(problem).__name__}; this is a bug. Paid replies are kept.")
        finally:
            if self._asked.get(question.query_id) is going:
                del self._asked[question.query_id]
            going.end(error)
            run.leave()

    def _check_budget(self, run: DayRun, caller: Caller) -> None:
        """Refuse a question for which nothing is left. Whether a call fits is decided before it is sent."""
        share = run.budget.share(caller.name)
        if share.cap_usd is not None and share.spent_usd >= share.cap_usd:  # what is only reserved may come back
            raise Refused(
                402,
                "budget_exhausted",
                f"The daily budget of {caller.name!r}, ${share.cap_usd:g}, is used up. Ask again tomorrow (UTC).",
            )
        if run.budget.cap_usd is not None and run.budget.hopeless(0.0):
            raise Refused(
                402, "budget_exhausted", "The service's budget of today is used up. Ask again tomorrow (UTC)."
            )

    async def _answer_event(self, run: DayRun, row: Mapping[str, Any], *, replayed: bool) -> Event:
        archive, links = run.reading.archive, self._limits.links
        told = await asyncio.to_thread(
            lambda: [citation(cited(archive, span), links) for span in row["citations"] or ()]
        )
        return Event("answer", answer_data(row, told, replayed))

    # What costs nothing.

    async def search(self, asked: AskRequest, count: int) -> list[dict[str, Any]]:
        """See ``ServicePort``."""
        question, reading = asked.to_question("search", self._limits.most_question_chars), self._runs.reading
        try:
            hits = await reading.find(question, await reading.scope(question), count)
        except QuestionError as error:
            raise Refused(422, "invalid_request", str(error)) from error
        return await asyncio.to_thread(found_rows, reading.archive, hits, self._limits.links)

    async def tonight(
        self, document: str = "", column: str = "", status: str = "", offset: int = 0, limit: int = 50
    ) -> dict[str, Any]:
        """See ``ServicePort``."""
        return await asyncio.to_thread(self._the_night.page, document, column, status, offset, limit)

    async def answer_of(self, query_id: str) -> dict[str, Any]:
        """See ``ServicePort``."""
        return await asyncio.to_thread(self._the_night.answer, query_id)

    @property
    def _the_night(self) -> NightAnswers:
        if self._night is None:
            raise Refused(404, "no_night", "This service was started without --night, so it has no answers of a night.")
        return self._night

    async def cost(self, caller: Caller) -> dict[str, Any]:
        """See ``ServicePort``."""
        run = self._runs.shown
        told: dict[str, Any] = {"day": None if run is None else run.day}
        if caller.sees_all:  # a path of this machine
            told["run"] = None if run is None else run.folder.path
        if run is not None:
            budget = run.budget
            whole = Share(budget.settled_usd + budget.unknown_usd, budget.reserved_usd, budget.cap_usd)
            told["service"] = _share(whole)
            names = sorted({*budget.spenders, *self._tokens.caps_usd}) if caller.sees_all else [caller.name]
            told["tokens"] = {name: _share(budget.share(name)) for name in names}
        if self._night is not None:
            told["night"] = await asyncio.to_thread(self._night.cost)
        return told

    async def facts(self) -> dict[str, Any]:
        """See ``ServicePort``."""
        status = "no generator" if self._runs.shown is None else "ok"
        return {"status": status, "archive_version": self._runs.reading.archive.version}


def _share(share: Share) -> dict[str, Any]:
    return {
        "spent_usd": share.spent_usd,
        "reserved_usd": share.reserved_usd,
        "daily_usd": share.cap_usd,
        "left_usd": share.left_usd,
    }
