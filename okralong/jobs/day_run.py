"""A run without a fixed list of questions, open for a day of a service.

Like every run, it has a folder, a journal, a ledger and a gateway (``LocalHost``), so that ``okralong show`` and
``okralong report`` read it, and a killed process loses no reply that was paid for. It runs in its own thread with its
own event loop; the service calls the methods of ``DayRun`` from another loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow.compute as pc

from okralong.actors.host import OpenRun, RunStart, WarmHost
from okralong.actors.local_models import LoadedModels, LocalModels
from okralong.actors.planner import Planner, Stop, asked_as
from okralong.actors.question_journal import Watch
from okralong.jobs.answer import bill_sums
from okralong.jobs.drive import ENDING_S, sums
from okralong.jobs.run_folder import begin, manifest
from okralong.pipelines.answering.offline import OfflineGenerator
from okralong.pipelines.answering.question_tools import Ports
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.telemetry import started
from okralong.pipelines.core.types import EXIT_BROKEN, Question, QuestionError
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.llm.replay import FINAL
from okralong.pipelines.llm.shared_budget import SharedBudget
from okralong.pipelines.run.prepare import Prepared, Scopes
from okralong.pipelines.run.rows import BEGUN, table
from okralong.pipelines.serving.asked import ANSWER_KEYS, Refused
from okralong.pipelines.serving.search import find

T = TypeVar("T")

ROWS_KEPT: Final = 1_000
"""Answers rows kept in memory for repeated questions; others are read from the folder. # project default"""
SHOWN: Final = (*ANSWER_KEYS, "citations", "seconds")
"""Columns of an answers row that a repeated answer shows; context and analysis would be most of the memory."""
SPENT: Final = ["call_id", "attempt", "query_id", "status", "cost_usd"]


class _Quiet:
    """Shows no progress."""

    def phase(self, name: str, about: str = "") -> None:
        """See ``Progress``."""

    def note(self, text: str) -> None:
        """See ``Progress``."""


class Reading:
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
        """End the process and the thread of the filters, after those that wait."""
        self._filtering.submit(self._scopes.__exit__, None, None, None)
        self._filtering.shutdown(wait=False)


class DayRun:
    """An open run.

    Attributes:
        reading: The version of the archive that it answers from.
        folder: Its folder.
        day: Its UTC date, such as "2026-11-28".
        budget: Its cap, and those of the tokens.
        idle: Set while no request uses it.
    """

    def __init__(
        self, reading: Reading, folder: Folder, day: str, host: WarmHost, budget: SharedBudget, grace_s: float
    ) -> None:
        self.reading, self.folder, self.day, self.budget = reading, folder, day, budget
        self.idle = asyncio.Event()
        self._users = 0
        self._is_broken = False
        self._host, self._grace_s = host, grace_s
        self._rows: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._finished: set[str] = set()
        self._ready: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name=f"run-{folder.path}", daemon=True)

    async def open(self) -> None:
        """Open the run. Raises OkraError if that is impossible."""
        self._thread.start()
        await asyncio.wrap_future(self._ready)

    @property
    def broken(self) -> bool:
        """Whether it can answer no more, for example after a disk error; a reopened run may."""
        return self._is_broken or self._ended.done()

    def enter(self) -> None:
        """Count a request that uses the run."""
        self._users += 1
        self.idle.clear()

    def leave(self) -> None:
        """Count the end of a request."""
        self._users -= 1
        if not self._users:
            self.idle.set()

    async def close(self) -> None:
        """Send nothing more, wait for the calls in flight, and close the run."""
        with suppress(RuntimeError):  # its loop is closed already
            self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.wrap_future(self._ended)

    async def answer(
        self, question: Question, doc_ids: tuple[str, ...], watch: Watch
    ) -> Stop | Mapping[str, Any] | None:
        """Answer a question (see ``Planner.answer``). Cancelling this call does not cancel the question."""
        planner = self._opened.planners[0]
        assert isinstance(planner, Planner)
        ended = await self._there(planner.answer(question, doc_ids, watch=watch))
        if isinstance(ended, Stop):
            self._is_broken |= ended.exit_code == EXIT_BROKEN
        elif ended is not None:
            self._keep(ended)
        return ended

    def abandon(self, query_id: str) -> None:
        """Send nothing more for a question; its calls in flight end as usual."""
        if self._opened.gateway is not None:
            with suppress(RuntimeError):  # its loop is closed already
                self._loop.call_soon_threadsafe(self._opened.gateway.abandon, query_id)

    async def finished(self, query_id: str) -> Mapping[str, Any] | None:
        """Return the answers row of a question that is finished, or None."""
        if query_id not in self._finished:
            return None
        if query_id not in self._rows:
            self._keep(await asyncio.to_thread(self._read_row, query_id))
        self._rows.move_to_end(query_id)
        return self._rows[query_id]

    def _read_row(self, query_id: str) -> dict[str, Any]:
        rows = read_run_table(self.folder, "answers")
        found: list[dict[str, Any]] = rows.filter(pc.equal(rows["query_id"], query_id)).to_pylist()
        return found[0]

    def _keep(self, row: Mapping[str, Any]) -> None:
        if row["status"] in FINAL:
            self._finished.add(row["query_id"])
            self._rows[row["query_id"]] = {name: row[name] for name in SHOWN}
            if len(self._rows) > ROWS_KEPT:
                self._rows.popitem(last=False)

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, run in the loop of the run."""
        return await asyncio.shield(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop)))

    def _live(self) -> None:
        """Open the run, wait for its end, and close it; its thread's function."""
        started_at, prepared = time.monotonic(), self.reading.prepared
        try:
            with self.folder.locked("okralong serve"):
                begin(self.folder, prepared)
                self.folder.remove(MANIFEST)  # its presence means complete
                with ExitStack() as held:
                    telemetry = held.enter_context(started(prepared.config.telemetry, self.folder.path, "serve"))
                    start = RunStart(
                        prepared,
                        self.folder.path,
                        1,
                        replies_from=prepared.replies_from,
                        telemetry=telemetry,
                        budget=self.budget,
                    )
                    opened = held.enter_context(self._host.open_here(start, _Quiet()))
                    totals = opened.execute(self._serve(opened))
                told = sums(totals) | bill_sums(self.folder)
                written = manifest(prepared, opened.facts, time.monotonic() - started_at, told)
                self.folder.write_manifest(written | {"questions": sum(totals.questions.values())})
        except BaseException as error:
            self._fail(error)
        finally:
            if not self._ended.done():
                self._ended.set_result(None)

    def _fail(self, error: BaseException) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
        elif not self._ended.done():
            self._ended.set_exception(error)

    async def _serve(self, opened: OpenRun) -> Totals:
        self._loop, self._opened, self._stop = asyncio.get_running_loop(), opened, asyncio.Event()
        self.budget.restore_shares(table(self.folder, "ledger", SPENT))
        statuses = table(self.folder, "answers", ["query_id", "status"])
        self._finished.update(row["query_id"] for row in statuses if row["status"] in FINAL)
        self._ready.set_result(None)
        await self._stop.wait()
        (planner,) = opened.planners
        await planner.halt("The service stopped. Send the same request again later; paid replies are kept.")
        await planner.drain(self._grace_s)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), ENDING_S)
        return await opened.ledger.totals()


def spent_usd(folders: Sequence[Folder]) -> tuple[float, list[dict[str, Any]]]:
    """Return the US dollars spent, or perhaps billed, in runs, and their ledger rows."""
    rows = [row for folder in folders for row in table(folder, "ledger", SPENT)]
    return sum(row["cost_usd"] for row in rows if row["status"] in ("ok", "unknown")), rows


def days_folder(base: Folder, day: str, fingerprint: str) -> tuple[Folder, list[Folder]]:
    """Return the folder of a day's run with this fingerprint, and the day's others.

    A new version of the archive, or another config, begins a further run of the same day: 2026-11-28.2.
    """
    chosen: Folder | None = None
    others: list[Folder] = []
    number = 1
    while True:
        folder = base.at(day if number == 1 else f"{day}.{number}")
        if not folder.exists(BEGUN):
            return (chosen or folder), others
        if folder.read_json(BEGUN)["fingerprint"] == fingerprint:
            chosen = folder
        else:
            others.append(folder)
        number += 1
