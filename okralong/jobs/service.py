"""A service over an archive: questions of many callers, answered in the run of the day under one cap.

One process answers, as ``LocalHost`` does: a second one could not write the same run. Questions that are asked twice at
the same time share one answer. A question that nobody waits for any more is abandoned: nothing further is sent for it,
and its calls in flight end and are kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from okralong.actors.generator import generator
from okralong.actors.host import WarmHost
from okralong.actors.local_models import LoadedModels, LocalModels
from okralong.actors.planner import Stop, asked_as
from okralong.jobs.day_run import DayRun, days_folder, spent_usd
from okralong.pipelines.answering.offline import OfflineGenerator
from okralong.pipelines.answering.question_tools import Ports
from okralong.pipelines.archive.versions import Location, latest_version
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OkraError, Question, QuestionError
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.shared_budget import Share, SharedBudget
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.cited import cited
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, Scopes, prepare
from okralong.pipelines.serving.asked import (
    AskRequest,
    Event,
    Refused,
    answer_data,
    caller_of,
    citation,
    plan_event,
    query_id_of,
    retrieved_spans,
)
from okralong.pipelines.serving.night import NightAnswers
from okralong.pipelines.serving.search import find, found_rows
from okralong.pipelines.serving.tokens import Caller, Tokens

logger = logging.getLogger(__name__)

SERVICE: Final = "an okralong service"
"""Who holds the lock of a service's folder."""
SAMPLE: Final = "What is it?"
"""``prepare`` checks a run with its questions; those of a service come later."""
RETRIEVALS_SHOWN: Final = 4
"""Events ``sources`` of a question, at most. # project default"""
RETRY_S: Final = 30
"""Seconds after which a service that cannot answer now may be asked again. # project default"""


@dataclass(frozen=True)
class ServiceSetup:
    """What a service is given; it can be sent to another process.

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


def prepared_for(archive: str, config: RunConfig) -> Prepared:
    """Check archive and config, and return a run without questions. Raises OkraError."""
    return replace(prepare(archive, [SAMPLE], config), questions=[], unscoped=[], order=())


class _Reading:
    """One version of the archive: its scopes, and search without a generator."""

    def __init__(self, prepared: Prepared, models: LoadedModels) -> None:
        self.prepared = prepared
        self.archive = prepared.archive
        ports = Ports(LocalModels(prepared, models), OfflineGenerator(), prepared.policy, **asked_as(prepared.llm))
        self.find = partial(find, ports)
        self._scopes = Scopes(prepared.archive)
        # A thread of its own: a slow filter holds up the next ones, and nothing else that runs in threads.
        self._filtering = ThreadPoolExecutor(1, "filters")

    async def scope(self, question: Question) -> tuple[str, ...]:
        """Return the documents of a question. Raises Refused."""
        if not question.doc_ids and not question.where:
            return ()
        try:
            return await asyncio.wrap_future(self._filtering.submit(self._scopes.resolve, question))
        except QuestionError as error:
            raise Refused(422, "invalid_request", str(error)) from error

    def close(self) -> None:
        """End the process of the filters."""
        self._filtering.submit(self._scopes.__exit__, None, None, None)


class _Going:
    """A question that is being answered, and those who wait for it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.listeners = 0
        self.abandoned = False
        self._error: Refused | None = None
        self._changed = asyncio.Event()
        self.over = asyncio.Event()

    def push(self, event: Event) -> None:
        """Add an event."""
        self.events.append(event)
        self._wake()

    def end(self, error: Refused | None = None) -> None:
        """End it, perhaps with an error."""
        self._error = error
        self.over.set()
        self._wake()

    async def listen(self, timeout_s: float) -> AsyncIterator[Event]:
        """Yield all events, also earlier ones. Raises Refused if it ended with an error, or does not end in time."""
        seen, deadline = 0, time.monotonic() + timeout_s
        while True:
            changed = self._changed
            for event in self.events[seen:]:
                seen += 1
                yield event
            if self.over.is_set() and seen == len(self.events):
                break
            if changed is not self._changed:
                continue
            try:
                await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise Refused(
                    504,
                    "timeout",
                    f"There is no answer after {timeout_s:g} s. Send the same request again: paid replies are kept.",
                    RETRY_S,
                ) from None
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Service:
    """Implements ``ServicePort``. Its methods are called from one event loop."""

    def __init__(self, setup: ServiceSetup, tokens: Tokens) -> None:
        self._setup, self._config, self._tokens = setup, setup.config, tokens
        self._limits = setup.config.serve
        self._held = ExitStack()
        self._models = LoadedModels()
        self._slots = asyncio.Semaphore(setup.config.in_flight)
        self._choosing = asyncio.Lock()
        self._run: DayRun | None = None
        self._read_by: dict[DayRun, _Reading] = {}
        self._looked_at = 0.0
        self._going: dict[str, _Going] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._retired: set[DayRun] = set()
        self._closing = False
        self._has_lock = False
        self._night = NightAnswers(Folder.of(setup.night), self._limits.links) if setup.night else None

    async def open(self) -> None:
        """Load the models and open today's run. Raises OkraError if the archive or config cannot be used."""
        prepared = await asyncio.to_thread(prepared_for, self._setup.archive, self._config)
        self._held.callback(self._models.close)
        self._models.bring(prepared)
        served = None
        if self._config.llm.base_url == EMBEDDED:
            served = await asyncio.to_thread(self._held.enter_context, generator(prepared.llm, None))
        await asyncio.to_thread(self._models.wait)
        self._host = WarmHost(self._models, prepared.llm, served)
        self._reading = await asyncio.to_thread(_Reading, prepared, self._models)
        try:
            (await self._today()).leave()
        except Refused as error:  # search and the night's answers work without the endpoint
            logger.warning("The run of the day is not open yet: %s", error)

    async def close(self) -> None:
        """Send nothing more, wait for the calls in flight, and close the runs."""
        self._closing = True
        runs = [*self._retired, *([self._run] if self._run else [])]
        await asyncio.gather(*(run.close() for run in runs), return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._reading.close()
        await asyncio.to_thread(self._held.close)

    # Questions.

    async def ask(self, caller: Caller, asked: AskRequest, key: str = "") -> AsyncIterator[Event]:
        """See ``ServicePort``."""
        question = asked.to_question("question", self._limits.most_question_chars)
        run = await self._today()
        query_id = query_id_of(caller.name, asked, run.prepared.fingerprint, key)
        going: _Going | None = None
        try:
            if (going := await self._joinable(query_id)) is None:
                if (row := await run.finished(query_id)) is not None:
                    yield await self._answer_event(run, row, replayed=True)
                    return
                self._check_budget(run, caller)
                doc_ids = await self._read_by[run].scope(question)
                going = await self._joinable(query_id) or self._begin(
                    run, replace(question, query_id=query_id), doc_ids
                )
            going.listeners += 1
            try:
                async for event in going.listen(self._limits.timeout_s):
                    yield event
            finally:
                going.listeners -= 1
                if not going.listeners and not going.over.is_set():
                    going.abandoned = True
                    run.abandon(query_id)
        finally:
            run.leave()

    async def _joinable(self, query_id: str) -> _Going | None:
        """Return the same question if it is being answered. One that was abandoned is waited for."""
        while (going := self._going.get(query_id)) is not None and going.abandoned:
            await going.over.wait()
        return going

    def _begin(self, run: DayRun, question: Question, doc_ids: tuple[str, ...]) -> _Going:
        """Start to answer a question."""
        going = self._going[question.query_id] = _Going()
        run.enter()
        self._start(self._carry(run, question, doc_ids, going))
        return going

    async def _carry(self, run: DayRun, question: Question, doc_ids: tuple[str, ...], going: _Going) -> None:
        error: Refused | None = None
        shown = _Shown(going, run, self._limits.links)
        try:
            async with self._slots:
                if going.abandoned:
                    return
                ended = await run.answer(question, doc_ids, shown.watch)
            if isinstance(ended, Stop):
                raise Refused(503, "unavailable", ended.message, RETRY_S)
            row = ended if ended is not None else await run.finished(question.query_id)
            if row is None:
                raise Refused(500, "internal_error", "The question ended without an answer.")
            self._check_status(row)
            await shown.all(row)
            going.push(await self._answer_event(run, row, replayed=ended is None))
        except Refused as refused:
            error = refused
        except Exception as problem:
            logger.exception("question %s failed", question.query_id)
            error = Refused(500, "internal_error", f"{type(problem).__name__}; this is a bug. Paid replies are kept.")
        finally:
            if self._going.get(question.query_id) is going:
                del self._going[question.query_id]
            going.end(error)
            run.leave()

    def _check_status(self, row: Mapping[str, Any]) -> None:
        said = str(row["error"] or "").partition("\n")[0]
        if row["status"] == "over_budget":
            raise Refused(402, "budget_exhausted", said, cost_usd=row["cost_usd"])
        if row["status"] == "failed":
            raise Refused(502, "failed", said or "The question could not be answered.", cost_usd=row["cost_usd"])

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
        archive, links = run.prepared.archive, self._limits.links
        told = await asyncio.to_thread(
            lambda: [citation(cited(archive, span), links) for span in row["citations"] or ()]
        )
        return Event("answer", answer_data(row, told, replayed))

    # The run of the day.

    async def _today(self) -> DayRun:
        """Return the run of today over the newest version of the archive, for a request that leaves it at its end."""
        while True:
            # A task of its own: a client that leaves must not end the change of runs halfway.
            run: DayRun = await asyncio.shield(self._start(self._newest_run()))
            if run is self._run:
                run.enter()
                return run

    async def _newest_run(self) -> DayRun:
        async with self._choosing:
            if self._closing:
                raise Refused(503, "unavailable", "The service is stopping.", RETRY_S)
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            try:
                newer = await self._newer_version()
                retired = self._run
                if newer is not None:
                    self._reading = newer
                if retired is not None and (newer is not None or retired.day != day):
                    self._run = None
                    await self._retire(retired, wait=retired.day == day)
                if self._run is None:
                    self._run = await self._opened(day)
            except OkraError as error:
                raise Refused(503, "unavailable", str(error), RETRY_S) from error
            return self._run

    async def _opened(self, day: str) -> DayRun:
        prepared, base = self._reading.prepared, Folder.of(self._setup.folder)
        if not self._has_lock:  # another service with another config would write its own run under a cap of its own
            self._held.enter_context(base.locked(SERVICE))
            self._has_lock = True
        folder, others = days_folder(base, day, prepared.fingerprint)
        spent, rows = spent_usd(others)
        cap = None if self._config.budget_usd is None else max(0.0, self._config.budget_usd - spent)
        budget = SharedBudget(cap, self._cap_of, caller_of)
        budget.restore_shares(rows, reopened=False)
        run = DayRun(prepared, folder, day, self._host, budget, self._limits.grace_s)
        await run.open()
        self._read_by[run] = self._reading
        return run

    def _cap_of(self, name: str) -> float | None:
        return self._tokens.caps_usd.get(name, 0.0)

    async def _newer_version(self) -> _Reading | None:
        """Return a newer version of the archive, if there is one and no version was asked for."""
        now = asyncio.get_running_loop().time()
        place = Location.of(self._setup.archive)
        if place.version is not None or now < self._looked_at + self._limits.version_poll_s:
            return None
        self._looked_at = now
        newest = await asyncio.to_thread(latest_version, Folder.of(place.place))
        if newest is None or newest["version"] == self._reading.archive.version:
            return None
        prepared = await asyncio.to_thread(prepared_for, self._setup.archive, self._config)
        self._models.bring(prepared)
        await asyncio.to_thread(self._models.wait)
        return await asyncio.to_thread(_Reading, prepared, self._models)

    async def _retire(self, run: DayRun, *, wait: bool) -> None:
        """Close a run once its requests have ended.

        ``wait``: return when it is closed. Runs of one day share a cap, so that only one may send calls.
        """
        self._retired.add(run)

        async def end() -> None:
            await run.idle.wait()
            try:
                await run.close()
            except Exception:
                logger.exception("the run %s could not be closed", run.folder.path)
            self._retired.discard(run)
            if (reading := self._read_by.pop(run)) is not self._reading:
                reading.close()

        task = self._start(end())
        if wait:
            await task

    def _start(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What costs nothing.

    async def search(self, asked: AskRequest, count: int) -> list[dict[str, Any]]:
        """See ``ServicePort``."""
        question, reading = asked.to_question("search", self._limits.most_question_chars), self._reading
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
        run = self._shown_run
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
        status = "no generator" if self._shown_run is None else "ok"
        return {"status": status, "archive_version": self._reading.archive.version}

    @property
    def _shown_run(self) -> DayRun | None:
        """The run of the day, or while it changes, the one that ends."""
        return self._run or next(iter(self._retired), None)


_BESIDE: Final = ("/wide", "/named")
"""Ends of the paths of retrievals that only raise the scores of others."""


class _Shown:
    """Turns the steps of a question into events, in the loop of the service."""

    def __init__(self, going: _Going, run: DayRun, links: bool) -> None:
        self._going, self._archive, self._links = going, run.prepared.archive, links
        self._loop = asyncio.get_running_loop()
        self._sources: list[asyncio.Task[None]] = []
        self._planned = False

    def watch(self, row: JournalRow) -> None:
        """Take a step; called in the thread of the run."""
        if row.kind == "plan" or (row.kind == "retrieval" and not row.path.endswith(_BESIDE)):
            with suppress(RuntimeError):  # the service has ended
                self._loop.call_soon_threadsafe(self._take, row)

    def _take(self, row: JournalRow) -> None:
        if row.kind == "plan" and not self._planned:
            self._planned = True
            self._going.push(plan_event(row))
        elif row.kind == "retrieval" and len(self._sources) < RETRIEVALS_SHOWN:
            self._sources.append(asyncio.create_task(self._show(row.path, retrieved_spans(row))))

    async def all(self, row: Mapping[str, Any]) -> None:
        """Return when all events before the answer are there; sources may have been found by branches only."""
        if not self._sources and row["context"]:
            await self._show("context", list(row["context"]))
        await asyncio.gather(*self._sources, return_exceptions=True)

    async def _show(self, step: str, spans: list[dict[str, Any]]) -> None:
        told = await asyncio.to_thread(
            lambda: [citation(cited(self._archive, span), self._links, quote=False) for span in spans]
        )
        if not self._going.over.is_set():
            self._going.push(Event("sources", {"step": step, "sources": told}))


def _share(share: Share) -> dict[str, Any]:
    return {
        "spent_usd": share.spent_usd,
        "reserved_usd": share.reserved_usd,
        "daily_usd": share.cap_usd,
        "left_usd": share.left_usd,
    }
