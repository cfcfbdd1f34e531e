"""Batches under way: handed in, watched, collected; and those of an earlier process, found again.

An attempt is in the journal before its batch is created. So whatever dies, the run's folder knows which attempts went
out with which wave, and the endpoint's list, by the metadata of each batch, knows what became of the wave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from okralong.pipelines.answering.llm.batch.item import BatchAnswer, BatchItem, InRealtime, Missed, custom_id
from okralong.pipelines.answering.llm.batch.past import Past, batch_row
from okralong.pipelines.answering.llm.batch.refusal import Refusal, read_refusal
from okralong.pipelines.answering.llm.batch.remote import BatchEndpoint, RemoteBatch, RemoteFaultError
from okralong.pipelines.answering.llm.batch.results import ResultLines, ResultReader, unanswered
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import Call, Outcome
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.faults import Fault
from okralong.pipelines.answering.llm.ports import LedgerClient
from okralong.pipelines.core.types import BrokenError, EndpointError, OkraError

logger = logging.getLogger(__name__)

GIVE_UP_AFTER: Final = 8
"""Looks at a batch in a row that brought nothing, after which the endpoint counts as down. Ours."""
SURE_S: Final = 30.0
"""Age of a wave from which on the endpoint's list is believed when it has no batch for it. Ours."""
AT_A_TIME: Final = 1000
"""Ledger calls of one wave that wait beside each other. Ours."""
SLOWER: Final = 1.5
"""By which factor the pauses between two looks at a batch grow. Ours."""


class Tower(Protocol):
    """Whom the flights report to."""

    def answer(self, call: Call, got: BatchAnswer | Exception) -> None:
        """An attempt is over, and the ledger knows."""
        ...

    def refused(self, refusal: Refusal, requests: int, tokens: int) -> None:
        """A batch of that size was too much."""
        ...

    def halt(self, error: OkraError) -> None:
        """No batch can be asked for any more, or looked at."""
        ...

    def changed(self) -> None:
        """A batch is over."""
        ...

    def note(self, text: str) -> None:
        """Something that the user may want to know."""
        ...


@dataclass(eq=False)
class Flight:
    """One wave on its way. ``calls`` by the names of their lines, in the file's order unless it was ``adopted``."""

    wave: int
    calls: dict[str, Call]
    tokens: int = 0
    batch_id: str = ""
    adopted: bool = False


class Flights:
    """All waves that are on their way. One event loop, nothing is locked."""

    def __init__(
        self, config: LlmConfig, remote: BatchEndpoint, ledger: LedgerClient, reader: ResultReader, tower: Tower
    ) -> None:
        self._config, self._remote, self._ledger, self._reader, self._tower = config, remote, ledger, reader, tower
        self.leaving = asyncio.Event()
        """Set when all batches are to be cancelled."""
        self._under_way: dict[asyncio.Task[None], Flight] = {}
        self._adopting: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def tokens(self) -> int:
        """Prompt tokens in batches that this process has handed in."""
        return sum(flight.tokens for flight in self._under_way.values())

    def launch(self, wave: int, items: Sequence[BatchItem]) -> None:
        """Hand in a wave, and answer its calls when it is over."""
        flight = Flight(wave, {}, sum(item.tokens for item in items))
        self._start(flight, self._fly(flight, items))

    def adopt(self, past: Past) -> None:
        """Find the batches of waves that an earlier process left, and answer their calls when they are over."""
        if past.since is not None:
            self._adopting = asyncio.get_running_loop().create_task(self._guarded(self._adopted(past, past.since)))

    async def finish(self) -> None:
        """Wait until nothing is under way."""
        if self._adopting is not None:
            await self._adopting
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def aclose(self) -> None:
        """Look after no batch any more; they go on where they are."""
        tasks = [*self._under_way, *([] if self._adopting is None else [self._adopting])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, flight: Flight, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._under_way[task] = flight
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._tower.changed()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A flight that breaks ends the run: its calls would wait for ever."""
        try:
            await work
        except OkraError as error:
            self._tower.halt(error)
        except Exception as error:
            logger.exception("a batch could not be looked after")
            said = f"{type(error).__name__}: {error}"
            self._tower.halt(BrokenError(f"A batch could not be looked after ({said}). Run the same command again."))

    async def _fly(self, flight: Flight, items: Sequence[BatchItem]) -> None:
        try:
            await self._hand_in(flight, items)
        except RemoteFaultError as error:
            await self._never_left(flight, error)
        else:
            await self._follow(flight)

    async def _hand_in(self, flight: Flight, items: Sequence[BatchItem]) -> None:
        closed_at = datetime.now(UTC)
        calls = [self._leaving_with(flight, item.call, closed_at) for item in items]
        lines: list[bytes] = []
        for start in range(0, len(calls), AT_A_TIME):
            some = calls[start : start + AT_A_TIME]
            intended = await asyncio.gather(*(self._ledger.intend(call) for call in some), return_exceptions=True)
            for call, item, failed in zip(some, items[start : start + AT_A_TIME], intended, strict=True):
                if isinstance(failed, Exception):
                    self._tower.answer(call, failed)
                else:
                    flight.calls[custom_id(call)] = replace(call, body="{}")  # durable, and large
                    lines.append(item.line(call))
        if not lines:
            return
        file_id = await self._remote.upload(b"".join(lines))
        batch = await self._remote.create(file_id, flight.wave, closed_at)
        flight.batch_id = batch.id
        await self._ledger.record([batch_row(flight.wave, batch.id)])
        self._tower.note(f"wave {flight.wave}: {len(flight.calls)} requests went out as {batch.id}")

    def _leaving_with(self, flight: Flight, call: Call, now: datetime) -> Call:
        return replace(call, wave=flight.wave, queue_s=(now - call.started_at).total_seconds(), started_at=now)

    async def _never_left(self, flight: Flight, error: RemoteFaultError) -> None:
        """No batch was made, or nobody knows."""
        fault = replace(error.fault, status="failed")
        if error.may_exist:
            # Neither settled nor asked again: the next start of the run looks for the batch.
            raise EndpointError(
                f"{fault.message} It was asked for a batch, and whether it has made one is not known: run the same "
                "command again, which looks for it."
            )
        await self._settle([(call, unanswered(call, fault)) for call in flight.calls.values()])
        if not fault.retry and not self._config.endpoints:
            raise EndpointError(fault.message)
        for call in flight.calls.values():
            self._tower.answer(call, Missed(fault) if fault.retry else InRealtime(fault.message))

    async def _follow(self, flight: Flight) -> None:
        """From a batch that exists to its results."""
        if not flight.calls:
            return
        try:
            batch = await self._ended(flight.batch_id)
            if batch.status == "failed":
                await self._refused(flight, batch)
            else:
                await self._collect(flight, batch)
        except RemoteFaultError as error:
            raise EndpointError(
                f"{error.fault.message} The batch {flight.batch_id} goes on there and is not lost: run the same "
                "command again to collect it."
            ) from None

    async def _ended(self, batch_id: str) -> RemoteBatch:
        """The batch when nothing more will come of it."""
        pause, failures, cancelled = self._config.batch.poll_s, 0, False
        while True:
            try:
                if self.leaving.is_set() and not cancelled:
                    await self._remote.cancel(batch_id)
                    cancelled, pause = True, self._config.batch.poll_s
                batch = await self._remote.look(batch_id)
                failures = 0
                if batch.ended:
                    return batch
            except RemoteFaultError as error:
                failures += 1
                if not error.fault.retry or failures == GIVE_UP_AFTER:
                    raise
            if cancelled:
                await asyncio.sleep(pause)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.leaving.wait()
            pause = min(self._config.batch.longest_poll_s, pause * SLOWER)

    async def _collect(self, flight: Flight, batch: RemoteBatch) -> None:
        files: list[bytes] = []
        gone = 0
        for file_id in (batch.output_file_id, batch.error_file_id):
            try:
                files += [] if file_id is None else [await self._remote.read(file_id)]
            except RemoteFaultError as error:
                if error.fault.http_status != 404:
                    raise
                gone += 1  # deleted by somebody: what it said of its requests, nobody knows
        found = await asyncio.to_thread(ResultLines.read, files)
        found = replace(found, unreadable=found.unreadable + gone)
        now = datetime.now(UTC)
        read = [
            (call, *self._reader.read(replace(call, batch_id=batch.id), found, name, _seconds(call.started_at, now)))
            for name, call in flight.calls.items()
        ]
        failed = await self._settle([(call, outcome) for call, outcome, _ in read])
        for call, _, got in read:
            self._tower.answer(call, failed.get(call.key, got))
        replies = sum(outcome.status == "ok" for _, outcome, _ in read)
        self._tower.note(f"wave {flight.wave}: {replies} of {len(read)} answered ({batch.status})")

    async def _refused(self, flight: Flight, batch: RemoteBatch) -> None:
        """The endpoint works on none of it."""
        refusal = read_refusal(batch.errors, len(flight.calls))
        said = f"{self._config.base_url} refused the batch ({refusal.message})."
        fault = Fault("failed", 400, said, retry=True)
        calls = list(flight.calls.values())
        await self._settle([(call, unanswered(replace(call, batch_id=batch.id), fault)) for call in calls])
        self._tower.note(f"wave {flight.wave}: refused: {refusal.message}")
        if refusal.reason == "all":
            raise EndpointError(
                f"{said} Nothing of it was billed. Mend what it names, or run the same command with --llm-mode "
                "realtime."
            )
        if refusal.reason != "lines":
            self._tower.refused(refusal, len(calls), self.tokens)
        for number, call in enumerate(calls, start=1):
            if refusal.reason == "lines" and number in refusal.lines and not flight.adopted:
                self._tower.answer(call, InRealtime(said))
            else:
                # A wave that gets smaller is no failure of its requests; of an adopted one the lines are not known.
                self._tower.answer(call, Missed(fault, counts=flight.adopted or len(calls) == 1))

    async def _adopted(self, past: Past, since: datetime) -> None:
        """Look after the batches that the folder or the endpoint's list knows for the open attempts."""
        missing = {wave: list(calls) for wave, calls in past.open.items()}
        for wave in list(missing):
            if wave in past.batch_ids:
                self._take_over(wave, missing.pop(wave), past.batch_ids[wave])
        for sure in (False, True):
            if not missing:
                return
            if sure:  # a batch that was being created when its process died may take a moment to be listed
                newest = max(call.started_at for calls in missing.values() for call in calls)
                await asyncio.sleep(max(0.0, SURE_S - _seconds(newest, datetime.now(UTC))))
            try:
                listed = await self._remote.of_this_run(since)
            except RemoteFaultError as error:
                raise EndpointError(
                    f"{error.fault.message} Batches of this run may be waiting there, so nothing else was asked."
                ) from None
            for wave in [wave for wave in missing if wave in listed]:
                self._take_over(wave, missing.pop(wave), listed[wave][0].id)
        fault = Fault("failed", 0, "no batch was made for it before its process ended", retry=True)
        calls = [call for calls in missing.values() for call in calls]
        await self._settle([(call, unanswered(call, fault)) for call in calls])
        for call in calls:
            self._tower.answer(call, Missed(fault, counts=False))

    def _take_over(self, wave: int, calls: Sequence[Call], batch_id: str) -> None:
        flight = Flight(wave, {custom_id(call): call for call in calls}, 0, batch_id, adopted=True)
        self._tower.note(f"wave {wave}: {len(calls)} requests are in {batch_id} since an earlier start")
        self._start(flight, self._follow(flight))

    async def _settle(self, outcomes: Sequence[tuple[Call, Outcome]]) -> dict[CallKey, Exception]:
        """Make outcomes durable; the errors of those that fit no table."""
        failed: dict[CallKey, Exception] = {}
        for start in range(0, len(outcomes), AT_A_TIME):
            some = outcomes[start : start + AT_A_TIME]
            done = await asyncio.gather(*(self._ledger.settle(each) for _, each in some), return_exceptions=True)
            failed |= {call.key: e for (call, _), e in zip(some, done, strict=True) if isinstance(e, Exception)}
        return failed


def _seconds(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
