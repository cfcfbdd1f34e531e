"""The Files and Batches of an endpoint, each call tried again while that may help, and batches found by their run."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import openai

from okralong.pipelines.answering.llm.batch.item import CHAT_URL
from okralong.pipelines.answering.llm.batch.refusal import BatchError
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.endpoint import open_client, read_key
from okralong.pipelines.answering.llm.faults import Fault, classify, scrub

T = TypeVar("T")

RUN_KEY: Final = "okralong_run"
WAVE_KEY: Final = "okralong_wave"
"""Of a batch's metadata: the run's id, and the wave's number in it."""
PAGE: Final = 100
CLOCKS_APART: Final = timedelta(hours=1)
"""How far this machine's clock and the endpoint's may differ. Ours."""
TRANSFER_S: Final = 1800.0
"""Longest pause within the transfer of a file; 200 MB take minutes. Ours."""
ENDED: Final = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the endpoint tells of it."""

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[BatchError, ...] = ()
    done: int = 0
    total: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ENDED


class RemoteFaultError(Exception):
    """A call that brought nothing after all attempts. ``fault.retry`` is False when no attempt could.

    ``may_exist``: whether what was to be created may be there all the same.
    """

    def __init__(self, fault: Fault, *, may_exist: bool = False) -> None:
        super().__init__(fault.message)
        self.fault, self.may_exist = fault, may_exist


class BatchEndpoint:
    """The batches of one account at the first endpoint of ``config``."""

    def __init__(self, config: LlmConfig, run_id: str, backoff: tuple[float, float] = (1.0, 30.0)) -> None:
        """``run_id`` marks this run's batches; ``backoff`` first and longest pause between two attempts, in seconds.

        Raises ConfigError when the key is needed and missing.
        """
        self.key = read_key(config)
        self._config, self._run_id = config, run_id
        self._first, self._longest = backoff
        self._http = open_client(config, config.base_url, self.key, config.timeout_s)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def upload(self, content: bytes) -> str:
        """The id of a new input file."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        made = await self._try(lambda: files.create(file=("requests.jsonl", content), purpose="batch"))
        return str(made.id)

    async def create(self, file_id: str, wave: int, since: datetime) -> RemoteBatch:
        """A new batch for ``wave``; after a fault the one that was made all the same, if the list has it.

        ``since`` is when the wave was closed.
        """
        marks = {RUN_KEY: self._run_id, WAVE_KEY: str(wave)}
        last: RemoteFaultError | None = None
        for attempt in range(self._config.max_attempts):
            if last is not None:
                await asyncio.sleep(self._pause(attempt, last.fault))
                if made := await self._made(wave, since):
                    return made
            try:
                return await self._try(lambda: self._create(file_id, marks), attempts=1)
            except RemoteFaultError as error:
                if not error.fault.retry:
                    raise
                last = error
        await asyncio.sleep(self._pause(1, None))
        if made := await self._made(wave, since):
            return made
        assert last is not None  # there is at least one attempt
        raise last

    async def of_this_run(self, since: datetime) -> dict[int, list[RemoteBatch]]:
        """The run's batches that were created ``since`` then, by wave, the oldest first."""
        return await self._try(lambda: self._listed(since))

    async def look(self, batch_id: str) -> RemoteBatch:
        """The batch as it is now. One attempt: whoever watches it looks again anyway."""

        async def looked() -> RemoteBatch:
            return _read(await self._http.batches.retrieve(batch_id))

        return await self._try(looked, attempts=1)

    async def cancel(self, batch_id: str) -> None:
        """Ask for its end; it comes some minutes later, and what was done by then is kept. Too late is fine."""

        async def cancelled() -> None:
            try:
                await self._http.batches.cancel(batch_id)
            except (openai.ConflictError, openai.BadRequestError):  # it has ended, or is about to
                return

        await self._try(cancelled)

    async def read(self, file_id: str) -> bytes:
        """The content of a file."""
        files = self._http.with_options(timeout=TRANSFER_S).files

        async def content() -> bytes:
            return (await files.content(file_id)).content

        return await self._try(content)

    async def _create(self, file_id: str, marks: dict[str, str]) -> RemoteBatch:
        batch = await self._http.batches.create(
            input_file_id=file_id, endpoint=CHAT_URL, completion_window="24h", metadata=marks
        )
        return _read(batch)

    async def _made(self, wave: int, since: datetime) -> RemoteBatch | None:
        try:
            return next(iter((await self.of_this_run(since)).get(wave, [])), None)
        except RemoteFaultError as error:
            raise RemoteFaultError(error.fault, may_exist=True) from None

    async def _listed(self, since: datetime) -> dict[int, list[RemoteBatch]]:
        oldest = (since - CLOCKS_APART).timestamp()
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        async for batch in self._http.batches.list(limit=PAGE):  # the newest first
            if batch.created_at < oldest:
                break
            marks = batch.metadata or {}
            if marks.get(RUN_KEY) == self._run_id and str(marks.get(WAVE_KEY)).isdigit():
                found[int(marks[WAVE_KEY])].insert(0, _read(batch))
        return dict(found)

    async def _try(self, work: Callable[[], Awaitable[T]], attempts: int | None = None) -> T:
        most = self._config.max_attempts if attempts is None else attempts
        for attempt in range(1, most + 1):
            try:
                return await work()
            except Exception as error:
                fault = self._fault(error)
            if not fault.retry or attempt == most:
                break
            await asyncio.sleep(self._pause(attempt, fault))
        raise RemoteFaultError(fault)

    def _pause(self, attempt: int, fault: Fault | None) -> float:
        if fault is not None and fault.retry_after is not None:
            return fault.retry_after
        return min(self._longest, self._first * 2.0 ** (attempt - 1))

    def _fault(self, error: Exception) -> Fault:
        """What went wrong; what no further attempt can mend is the endpoint's, and ends the run."""
        where = self._config
        said = scrub(str(error), self.key)[:500]
        if not isinstance(error, openai.APIError):
            message = f"{where.base_url} answered with something that is neither a batch nor a file ({said})."
            return Fault("unknown", 200, message, retry=True, whose="endpoint")
        if isinstance(error, openai.NotFoundError):
            message = (
                f"{where.base_url} knows no such file or batch ({said}). If it has no Batch API (/files and /batches), "
                "run the same command with --llm-mode realtime."
            )
            return Fault("failed", 404, message, retry=False, whose="endpoint")
        fault = classify(error, where.base_url, where.model, where.api_key_env, self.key)
        return replace(fault, whose="endpoint")


def _read(batch: Any) -> RemoteBatch:
    told = (batch.errors.data or []) if batch.errors is not None else []
    counts = batch.request_counts
    return RemoteBatch(
        id=batch.id,
        status=batch.status,
        output_file_id=batch.output_file_id,
        error_file_id=batch.error_file_id,
        errors=tuple(BatchError(str(each.code), str(each.message), each.line) for each in told),
        done=0 if counts is None else counts.completed + counts.failed,
        total=0 if counts is None else counts.total,
    )
