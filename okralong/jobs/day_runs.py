"""The runs of a service: one for each day and version of the archive, of which the newest takes questions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from okralong.actors.generator import generator
from okralong.actors.host import WarmHost
from okralong.actors.local_models import LoadedModels
from okralong.jobs.day_run import DayRun, Reading, days_folder, spent_usd
from okralong.pipelines.archive.versions import Location, latest_version
from okralong.pipelines.core.log import ROOT
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EndpointError, OkraError
from okralong.pipelines.llm.shared_budget import SharedBudget
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare
from okralong.pipelines.serving.asked import RETRY_S, Refused, caller_of
from okralong.pipelines.serving.audit import LOG, ServiceLog

T = TypeVar("T")

logger = logging.getLogger(__name__)

SERVICE: Final = "an okralong service"
"""Name of the holder of a folder's lock."""
SAMPLE: Final = "What is it?"
"""``prepare`` checks a run with its questions; those of a service come later."""


def prepared_for(archive: str, config: RunConfig) -> Prepared:
    """Check archive and config, and return a run without questions. Raises OkraError."""
    return replace(prepare(archive, [SAMPLE], config), questions=[], unscoped=[], order=())


def unavailable(why: str) -> Refused:
    """Log why a run cannot be used, and return the error for the client, without the paths of this machine."""
    logger.error("The run of the day cannot be used: %s", why)
    return Refused(503, "unavailable", f"The service cannot write its answers now; its {LOG} has the reason.", RETRY_S)


class DayRuns:
    """Opens and closes the runs of a service, each under what is left of the day's cap.

    Attributes:
        reading: The newest version of the archive.
    """

    reading: Reading

    def __init__(self, archive: str, config: RunConfig, folder: Folder, cap_of: Callable[[str], float | None]) -> None:
        """``cap_of`` returns the daily budget of a token."""
        self._archive, self._config, self._folder, self._cap_of = archive, config, folder, cap_of
        self._held = ExitStack()
        self._models = LoadedModels()
        self._choosing = asyncio.Lock()
        self._run: DayRun | None = None
        self._retired: set[DayRun] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looked_at = 0.0
        self._closing = False
        self._has_lock = False

    async def open(self) -> None:
        """Load the models and open today's run. Raises OkraError if the archive or config cannot be used."""
        prepared = await asyncio.to_thread(prepared_for, self._archive, self._config)
        self._held.callback(self._models.close)
        log = ServiceLog(Path(self._folder.path))
        logging.getLogger(ROOT).addHandler(log)
        self._held.callback(logging.getLogger(ROOT).removeHandler, log)
        try:
            self._models.bring(prepared)
            served = None
            if self._config.llm.base_url == EMBEDDED:
                served = await asyncio.to_thread(self._held.enter_context, generator(prepared.llm, None))
            await asyncio.to_thread(self._models.wait)
            self._host = WarmHost(self._models, prepared.llm, served)
            self.reading = await asyncio.to_thread(Reading, prepared, self._models)
        except BaseException:
            self._held.close()
            raise
        try:
            (await self.enter()).leave()
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
        self.reading.close()
        await asyncio.to_thread(self._held.close)

    @property
    def shown(self) -> DayRun | None:
        """The run of the day, or while it changes, the one that ends."""
        return self._run or next(iter(self._retired), None)

    async def enter(self) -> DayRun:
        """Return today's run over the newest version of the archive; the request calls ``leave`` at its end.

        Raises Refused if no run can be opened now.
        """
        while True:
            # A task of its own: a client that leaves must not end the change of runs halfway.
            run = await asyncio.shield(self.start(self._newest()))
            if run is self._run:
                run.enter()
                return run

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Return a task that ``close`` cancels."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _newest(self) -> DayRun:
        async with self._choosing:
            if self._closing:
                raise Refused(503, "unavailable", "The service is stopping.", RETRY_S)
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            before = self.reading
            try:
                self.reading = await self._newest_reading()
            except (OkraError, OSError) as error:  # the version before can still be asked
                logger.warning("The newest version of the archive cannot be read: %s", error)
            retired = self._run
            if retired is not None and (self.reading is not before or retired.day != day or retired.broken):
                self._run = None
                await self._retire(retired, wait=retired.day == day)
            elif self.reading is not before:
                self._close_unused(before)
            if self._run is None:
                try:
                    self._run = await self._opened(day)
                except EndpointError as error:
                    raise Refused(503, "unavailable", str(error), RETRY_S) from error
                except (OkraError, OSError) as error:
                    raise unavailable(str(error)) from error
            return self._run

    async def _newest_reading(self) -> Reading:
        """Return the newest version of the archive, looked for at intervals; the same one if a version was named."""
        now, place = asyncio.get_running_loop().time(), Location.of(self._archive)
        if place.version is not None or now < self._looked_at + self._config.serve.version_poll_s:
            return self.reading
        self._looked_at = now
        newest = await asyncio.to_thread(latest_version, Folder.of(place.place))
        if newest is None or newest["version"] == self.reading.archive.version:
            return self.reading
        prepared = await asyncio.to_thread(prepared_for, self._archive, self._config)
        self._models.bring(prepared)
        await asyncio.to_thread(self._models.wait)
        return await asyncio.to_thread(Reading, prepared, self._models)

    async def _opened(self, day: str) -> DayRun:
        if not self._has_lock:  # another service with another config would write its own run under a cap of its own
            self._held.enter_context(self._folder.locked(SERVICE))
            self._has_lock = True
        folder, others = days_folder(self._folder, day, self.reading.prepared.fingerprint)
        spent, rows = spent_usd(others)
        cap = None if self._config.budget_usd is None else max(0.0, self._config.budget_usd - spent)
        budget = SharedBudget(cap, self._cap_of, caller_of)
        budget.restore_shares(rows, reopened=False)
        run = DayRun(self.reading, folder, day, self._host, budget, self._config.serve.grace_s)
        await run.open()
        return run

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
            self._close_unused(run.reading)

        task = self.start(end())
        if wait:
            await task

    def _close_unused(self, reading: Reading) -> None:
        if all(reading is not run.reading for run in self._retired) and reading is not self.reading:
            reading.close()
