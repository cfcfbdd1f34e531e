"""Batch mode: requests wait at the scheduler of their run, batch after batch, until they are answered or asked alone.

``BatchScheduler.ask`` is the way of one request: cost reserved, put into a batch (``BatchBuilder``), intent durable,
file and batch created, watched and collected (``BatchTracker``), outcome durable, caller answered. An attempt is in the
journal before its batch is created. So whatever dies, the run's folder knows which attempts went out with which batch
(``ResumeState``), and the endpoint's list, by the metadata of each batch, knows what became of it.

Batches are numbered within their run; the tables call the number ``wave``. One event loop, nothing is locked.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow.compute as pc

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import BrokenError, EndpointError, OkraError
from okralong.pipelines.llm.batch_api import (
    Answered,
    BatchAnswer,
    BatchApiError,
    BatchEndpoint,
    BatchItem,
    NoReply,
    Refusal,
    RemoteBatch,
    ResultLines,
    ResultReader,
    UseRealtime,
    custom_id,
    read_refusal,
)
from okralong.pipelines.llm.config import BatchConfig, LlmConfig
from okralong.pipelines.llm.journal import FragmentedTable, JournalRow, read_run_table, read_settled
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import CallKey, Price
from okralong.pipelines.llm.records import Call, Outcome, row_from_json
from okralong.pipelines.llm.reply import from_journal
from okralong.pipelines.llm.routing import ApiError, best_effort

logger = logging.getLogger(__name__)

CLOCK_CHECK_S: Final = 60.0
"""How often the clock on the wall is compared with the deadline, whatever it does meanwhile. Ours."""
NOTES_KEPT: Final = 1000
MEGABYTE: Final = 1_000_000
LINE_OVERHEAD: Final = 150
"""Bytes of a line around a request's body, rounded up. Ours."""
GIVE_UP_AFTER: Final = 8
"""Looks at a batch in a row that brought nothing, after which the endpoint counts as down. Ours."""
LISTED_AFTER_S: Final = 30.0
"""Age of a batch from which on the endpoint's list is believed when it does not have it. Ours."""
AT_A_TIME: Final = 1000
"""Ledger calls of one batch that wait beside each other. Ours."""
POLL_GROWTH: Final = 1.5
"""By which factor the pauses between two looks at a batch grow. Ours."""
BATCH: Final = "batch"
"""Kind of the journal's rows that say what the endpoint called a batch."""
INTENT_MARK: Final = '"mode":"batch"'
"""Stands in the body of every intent of an attempt in a batch, as ``intent_body`` writes it."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """The attempt by which a call is being answered now, and the future that all who ask for it wait for."""

    key: CallKey
    answer: asyncio.Future[BatchAnswer]


class BatchScheduler:
    """The one place of a run where requests wait for a batch. ``actors/llm.py`` puts it behind a Ray handle."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: RunLedger,
        run_id: str,
        load_state: Callable[[], ResumeState],
        until: datetime | None = None,
        backoff: tuple[float, float] = (1.0, 30.0),
        price: Price | None = None,
    ) -> None:
        """``run_id`` marks the run's batches; ``load_state`` reads its folder once the ledger has replayed it; from
        ``until`` on nothing is handed in any more; ``backoff`` is ``BatchEndpoint``'s; ``price`` is the first
        endpoint's, where it has rates by the length of a prompt.

        Raises ConfigError when the key is needed and missing.
        """
        self._config, self._ledger, self._until, self._load_state = config, ledger, until, load_state
        self._remote = BatchEndpoint(config, run_id, backoff)
        self._tracker = BatchTracker(config, self._remote, ledger, self, price.in_batch() if price else None)
        self._builder = BatchBuilder(config.batch)
        self._waiting: dict[str, _Waiting] = {}
        self._attempts: dict[str, int] = {}
        self._batches = 0
        self._token_limit = float(config.batch.enqueued_tokens or "inf")
        self._hold_until = -1.0
        self._hold_s = config.batch.poll_s
        self._ended = ""  # why no batch is made any more
        self._halted: OkraError | None = None
        self._wake = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._notes: list[str] = []

    async def ready(self) -> None:
        """Resume what an earlier process left. Every other method does so first."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """The reply of a batch, once it is paid for and durable; or why there is none. It may take a day.

        Whoever asks for a call that is under way already, in this process or since an earlier one, waits with it.
        Raises OverBudget, EndpointError or BrokenError.
        """
        await self.ready()
        if self._halted is not None:
            raise self._halted
        call_id = item.call.call_id
        waiting = self._waiting.get(call_id)
        if waiting is None:
            before = self._attempts.get(call_id, 0)
            if before and (known := await self._known(item.call)) is not None:
                return known
            if call_id in self._waiting:  # somebody else has asked meanwhile
                return await asyncio.shield(self._waiting[call_id].answer)
            if self._is_late():
                return UseRealtime(self._ended)
            # The journal has the prompt with the first attempt.
            call = replace(item.call, attempt=before + 1, body=item.call.body if not before else "{}")
            waiting = self._wait_for(call)
            await self._enqueue(replace(item, call=call))
        return await asyncio.shield(waiting.answer)

    async def stop(self, why: str) -> None:
        """The run stops: whoever waits is told so. The batches go on, and a later start of the run collects them."""
        self.halt(EndpointError(why))

    async def drain(self) -> None:
        """The run is over: end the batches that nobody waits for any more, and settle what they did."""
        await self.ready()
        self._end_batches("The run is over.", tell=len(self._tracker) > 0)
        await self._tracker.finish()
        if self._halted is not None:
            raise self._halted

    async def notes(self, start: int) -> list[str]:
        """What there is to tell the user, from the ``start``-th note on."""
        return self._notes[start:]

    async def aclose(self) -> None:
        """Look after nothing any more."""
        await self._tracker.aclose()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._remote.aclose()

    async def _start(self) -> None:
        await self._ledger.totals()  # it has replayed the folder when it answers
        state = await asyncio.to_thread(self._load_state)
        self._attempts, self._batches = dict(state.attempts), state.batches
        for call in sorted((call for calls in state.open.values() for call in calls), key=lambda each: each.attempt):
            self._wait_for(call)
        self._tracker.resume(state)
        self._working = asyncio.get_running_loop().create_task(self._work())

    async def _known(self, call: Call) -> Answered | None:
        """The reply to an earlier attempt, whose caller died before it was told."""
        row = await self._ledger.reply(call.query_id, call.path, call.sample)
        same = row is not None and row.request_hash == call.request_hash
        return Answered(from_journal(row.body)) if row is not None and same else None

    def _wait_for(self, call: Call) -> _Waiting:
        answer: asyncio.Future[BatchAnswer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody need be there to read it
        waiting = self._waiting[call.call_id] = _Waiting(call.key, answer)
        return waiting

    async def _enqueue(self, item: BatchItem) -> None:
        """Reserve its cost and let it wait for the next batch. Whoever asks for the same call now waits with it."""
        call = item.call
        self._attempts[call.call_id] = call.attempt
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd, True)
        except Exception as error:
            self.answer(call, error)
            return
        if self._is_late() or self._halted is not None:
            await self._turn_away([item])
            return
        self._builder.add(item, time.monotonic())
        self._wake.set()

    async def _work(self) -> None:
        try:
            await self._build_and_launch()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            self.halt(BrokenError(f"No batch can be made ({said}). Run the same command again."))
            raise

    async def _build_and_launch(self) -> None:
        while True:
            self._wake.clear()
            if self._is_late():
                await self._turn_away(self._builder.clear())
            now = time.monotonic()
            at = max(self._builder.due_at, self._hold_until)
            if at <= now:
                room = self._token_limit - self._tracker.tokens
                items = self._builder.next_batch(room, alone=not len(self._tracker))
                if items:
                    self._batches += 1
                    self._tracker.launch(self._batches, items)
                    continue
                at = now + CLOCK_CHECK_S  # no room: a batch that ends wakes us
            # Not wait_for, which may lose a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(at - now, self._seconds_left(), CLOCK_CHECK_S))):
                    await self._wake.wait()

    def _seconds_left(self) -> float:
        if self._until is None or self._ended:
            return CLOCK_CHECK_S
        return (self._until - datetime.now(UTC)).total_seconds()

    def _is_late(self) -> bool:
        """Whether the deadline has passed; then all batches are to be cancelled."""
        if not self._ended and self._until is not None and datetime.now(UTC) >= self._until:
            deadline = f"The deadline for batches ({self._until.astimezone():%Y-%m-%d %H:%M:%S %Z}) has passed:"
            since = deadline if self._config.mode == "batch" else "The run goes on in real time:"
            self._end_batches(
                f"{since} batches under way are cancelled, and what they have not answered is asked alone."
            )
        return bool(self._ended)

    def _end_batches(self, why: str, *, tell: bool = True) -> None:
        if not self._ended:
            self._ended = why
            if tell:
                self.note(why)
        self._tracker.cancelling.set()
        self._wake.set()

    async def _turn_away(self, items: list[BatchItem]) -> None:
        """They go with no batch: what they have reserved is free again."""
        api_error = ApiError("failed", 0, f"never sent: {self._ended or self._halted}", retry=True)
        for item in items:
            await best_effort(self._ledger.settle(api_error.outcome(item.call)))
            self.answer(item.call, UseRealtime(self._ended))

    # What the tracker reports.

    def answer(self, call: Call, got: BatchAnswer | Exception) -> None:
        """An attempt is over, and the ledger knows: tell who waits for it; nobody need."""
        waiting = self._waiting.get(call.call_id)
        if waiting is None or waiting.key != call.key:
            return
        del self._waiting[call.call_id]
        if waiting.answer.done():
            return
        if isinstance(got, Exception):
            waiting.answer.set_exception(got)
        else:
            waiting.answer.set_result(got)

    def refused(self, refusal: Refusal, requests: int, tokens: int) -> None:
        """A batch of that size was too much: send less at a time, and not at once."""
        if refusal.reason == "large":
            self._builder.max_requests = max(1, requests // 2)
            return
        self._token_limit = max(1.0, min(self._token_limit, tokens) / 2)
        self._hold_until = time.monotonic() + self._hold_s
        self._hold_s = min(self._config.batch.longest_poll_s, 2 * self._hold_s)

    def halt(self, error: OkraError) -> None:
        """No batch can be asked for any more, or looked at: whoever waits, now or later, gets the error."""
        if self._halted is not None:
            return
        self._halted = error
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
        self._waiting.clear()
        self._builder.clear()

    def ended(self) -> None:
        """A batch is over: there may be room for another."""
        self._wake.set()

    def note(self, text: str) -> None:
        """Something that the user may want to know."""
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)


class BatchBuilder:
    """Requests that wait for the next batch, in the order in which they came, and when it is closed.

    It does not wait for questions that are still looking things up: nobody knows which of them will ask. A batch is
    closed when no request has come for a while, so a late one goes with the next, which runs beside the first. Pure:
    every ``now`` is in seconds of one clock.
    """

    def __init__(self, config: BatchConfig) -> None:
        self._quiet_s, self._gather_s = config.quiet_s, config.gather_s
        self.max_requests = config.max_requests
        self._max_bytes = config.max_megabytes * MEGABYTE
        self._waiting: deque[tuple[BatchItem, float, int]] = deque()  # with its time of arrival and its bytes
        self._bytes = 0
        self._last = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: BatchItem, now: float) -> None:
        """One more request."""
        size = len(item.body) + LINE_OVERHEAD
        self._waiting.append((item, now, size))
        self._bytes += size
        self._last = now

    @property
    def due_at(self) -> float:
        """When the batch is closed if nothing more comes; infinite while there is nothing in it."""
        if not self._waiting:
            return math.inf
        if len(self._waiting) >= self.max_requests or self._bytes >= self._max_bytes:
            return -math.inf
        return min(self._last + self._quiet_s, self._waiting[0][1] + self._gather_s)

    def next_batch(self, room: float = math.inf, *, alone: bool = True) -> list[BatchItem]:
        """The requests of a batch, those that came first, up to the limits and ``room`` prompt tokens.

        One that is larger than the room, or than a whole batch, goes by itself, if it is the first and nothing else is
        under way (``alone``): the endpoint then says what it thinks of it.
        """
        taken: list[BatchItem] = []
        bytes_taken, tokens = 0, 0
        while self._waiting and len(taken) < self.max_requests:
            item, _, size = self._waiting[0]
            no_room = tokens + item.tokens > room
            full = no_room or bytes_taken + size > self._max_bytes
            if full and (taken or (no_room and not alone)):
                break
            self._waiting.popleft()
            taken.append(item)
            bytes_taken += size
            tokens += item.tokens
            if full:
                break
        self._bytes -= bytes_taken
        return taken

    def clear(self) -> list[BatchItem]:
        """All of them, for whom there will be no batch."""
        left = [item for item, _, _ in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return left


@dataclass(eq=False)
class TrackedBatch:
    """One batch under way. ``calls`` by the names of their lines, in the file's order unless an earlier process handed
    it in (``resumed``)."""

    number: int
    calls: dict[str, Call]
    tokens: int = 0
    batch_id: str = ""
    resumed: bool = False


class BatchTracker:
    """Batches under way: handed in, watched, collected; and those of an earlier process, found again."""

    def __init__(
        self,
        config: LlmConfig,
        remote: BatchEndpoint,
        ledger: RunLedger,
        scheduler: BatchScheduler,
        price: Price | None = None,
    ) -> None:
        self._config, self._remote, self._ledger, self._scheduler = config, remote, ledger, scheduler
        self._reader = ResultReader(config, remote.key, token_counter(config.tokenizer), price)
        self.cancelling = asyncio.Event()
        """Set when all batches are to be cancelled."""
        self._under_way: dict[asyncio.Task[None], TrackedBatch] = {}
        self._resuming: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def tokens(self) -> int:
        """Prompt tokens in batches that this process has handed in."""
        return sum(batch.tokens for batch in self._under_way.values())

    def launch(self, number: int, items: Sequence[BatchItem]) -> None:
        """Hand in a batch, and answer its calls when it is over."""
        batch = TrackedBatch(number, {}, sum(item.tokens for item in items))
        self._track(batch, self._hand_in_and_follow(batch, items))

    def resume(self, state: ResumeState) -> None:
        """Find the batches that an earlier process left, and answer their calls when they are over."""
        if state.since is not None:
            work = self._guarded(self._find_again(state, state.since))
            self._resuming = asyncio.get_running_loop().create_task(work)

    async def finish(self) -> None:
        """Wait until nothing is under way."""
        if self._resuming is not None:
            await self._resuming
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def aclose(self) -> None:
        """Look after no batch any more; they go on where they are."""
        tasks = [*self._under_way, *([] if self._resuming is None else [self._resuming])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _track(self, batch: TrackedBatch, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._under_way[task] = batch
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._scheduler.ended()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """An error here ends the run: the batch's calls would wait for ever."""
        try:
            await work
        except OkraError as error:
            self._scheduler.halt(error)
        except Exception as error:
            logger.exception("a batch could not be looked after")
            said = f"{type(error).__name__}: {error}"
            self._scheduler.halt(
                BrokenError(f"A batch could not be looked after ({said}). Run the same command again.")
            )

    async def _hand_in_and_follow(self, batch: TrackedBatch, items: Sequence[BatchItem]) -> None:
        try:
            await self._hand_in(batch, items)
        except BatchApiError as error:
            await self._not_created(batch, error)
        else:
            await self._follow(batch)

    async def _hand_in(self, batch: TrackedBatch, items: Sequence[BatchItem]) -> None:
        """Intents durable, file uploaded, batch created, its id recorded."""
        closed_at = datetime.now(UTC)
        lines: list[bytes] = []
        for start in range(0, len(items), AT_A_TIME):
            some = items[start : start + AT_A_TIME]
            calls = [
                replace(
                    item.call,
                    wave=batch.number,
                    queue_s=(closed_at - item.call.started_at).total_seconds(),
                    started_at=closed_at,
                )
                for item in some
            ]
            intended = await asyncio.gather(*(self._ledger.intend(call) for call in calls), return_exceptions=True)
            for call, item, failed in zip(calls, some, intended, strict=True):
                if isinstance(failed, Exception):
                    self._scheduler.answer(call, failed)
                else:
                    batch.calls[custom_id(call)] = replace(call, body="{}")  # durable, and large
                    lines.append(item.line(call))
        if not lines:
            return
        file_id = await self._remote.upload(b"".join(lines))
        batch.batch_id = (await self._remote.create(file_id, batch.number, closed_at)).id
        named = json.dumps({"wave": batch.number, "batch_id": batch.batch_id})
        await self._ledger.record([JournalRow("", f"batches/{batch.number}", BATCH, named)])
        self._scheduler.note(f"batch {batch.number}: {len(batch.calls)} requests went out as {batch.batch_id}")

    async def _not_created(self, batch: TrackedBatch, error: BatchApiError) -> None:
        """No batch was made, or nobody knows."""
        api_error = replace(error.api_error, status="failed")
        if error.may_exist:
            # Neither settled nor asked again: the next start of the run looks for the batch.
            raise EndpointError(
                f"{api_error.message} A batch was requested, and it is unknown whether it was created. Run the same "
                "command again: it looks for the batch first."
            )
        await self._settle([(call, api_error.outcome(call)) for call in batch.calls.values()])
        if not api_error.retry and not self._config.endpoints:
            raise EndpointError(api_error.message)
        for call in batch.calls.values():
            self._scheduler.answer(call, NoReply(api_error) if api_error.retry else UseRealtime(api_error.message))

    async def _follow(self, batch: TrackedBatch) -> None:
        """From a batch that exists to its results."""
        if not batch.calls:
            return
        try:
            remote = await self._ended(batch.batch_id)
            if remote.status == "failed":
                await self._refused(batch, remote)
            else:
                await self._collect(batch, remote)
        except BatchApiError as error:
            raise EndpointError(
                f"{error.api_error.message} The batch {batch.batch_id} goes on there and is not lost: run the same "
                "command again to collect it."
            ) from None

    async def _ended(self, batch_id: str) -> RemoteBatch:
        """The batch when nothing more will come of it."""
        pause, failures, cancelled = self._config.batch.poll_s, 0, False
        while True:
            try:
                if self.cancelling.is_set() and not cancelled:
                    await self._remote.cancel(batch_id)
                    cancelled, pause = True, self._config.batch.poll_s
                remote = await self._remote.look(batch_id)
                failures = 0
                if remote.ended:
                    return remote
            except BatchApiError as error:
                failures += 1
                if not error.api_error.retry or failures == GIVE_UP_AFTER:
                    raise
            if cancelled:
                await asyncio.sleep(pause)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.cancelling.wait()
            pause = min(self._config.batch.longest_poll_s, pause * POLL_GROWTH)

    async def _collect(self, batch: TrackedBatch, remote: RemoteBatch) -> None:
        files: list[bytes] = []
        gone = 0
        for file_id in (remote.output_file_id, remote.error_file_id):
            try:
                files += [] if file_id is None else [await self._remote.read(file_id)]
            except BatchApiError as error:
                if error.api_error.http_status != 404:
                    raise
                gone += 1  # deleted by somebody: what it said of its requests, nobody knows
        found = await asyncio.to_thread(ResultLines.read, files)
        found = replace(found, unreadable=found.unreadable + gone)
        now = datetime.now(UTC)
        read = [
            (call, *self._reader.read(replace(call, batch_id=remote.id), found, name, _seconds(call.started_at, now)))
            for name, call in batch.calls.items()
        ]
        failed = await self._settle([(call, outcome) for call, outcome, _ in read])
        for call, _, got in read:
            self._scheduler.answer(call, failed.get(call.key, got))
        replies = sum(outcome.status == "ok" for _, outcome, _ in read)
        self._scheduler.note(f"batch {batch.number}: {replies} of {len(read)} answered ({remote.status})")

    async def _refused(self, batch: TrackedBatch, remote: RemoteBatch) -> None:
        """The endpoint works on none of it."""
        refusal = read_refusal(remote.errors, len(batch.calls))
        said = f"{self._config.base_url} refused the batch ({refusal.message})."
        api_error = ApiError("failed", 400, said, retry=True)
        calls = list(batch.calls.values())
        await self._settle([(call, api_error.outcome(replace(call, batch_id=remote.id))) for call in calls])
        self._scheduler.note(f"batch {batch.number}: refused: {refusal.message}")
        if refusal.reason == "all":
            raise EndpointError(
                f"{said} Nothing of it was billed. Correct what it names, or run the same command with --llm-mode "
                "realtime."
            )
        if refusal.reason != "lines":
            self._scheduler.refused(refusal, len(calls), self.tokens)
        for number, call in enumerate(calls, start=1):
            if refusal.reason == "lines" and number in refusal.lines and not batch.resumed:
                self._scheduler.answer(call, UseRealtime(said))
            else:
                # A batch that gets smaller is no failure of its requests; of a resumed one the lines are not known.
                self._scheduler.answer(call, NoReply(api_error, counts=batch.resumed or len(calls) == 1))

    async def _find_again(self, state: ResumeState, since: datetime) -> None:
        """Look after the batches that the folder or the endpoint's list knows for the open attempts."""
        missing = {number: list(calls) for number, calls in state.open.items()}
        for number in state.batch_ids.keys() & missing.keys():
            self._take_over(number, missing.pop(number), state.batch_ids[number])
        for second_look in (False, True):
            if not missing:
                return
            if second_look:  # a batch that was being created when its process died may take a moment to be listed
                newest = max(call.started_at for calls in missing.values() for call in calls)
                await asyncio.sleep(max(0.0, LISTED_AFTER_S - _seconds(newest, datetime.now(UTC))))
            try:
                listed = await self._remote.of_this_run(since)
            except BatchApiError as error:
                raise EndpointError(
                    f"{error.api_error.message} The endpoint may hold batches of this run, so no new request was sent. "
                    "Run the same command again."
                ) from None
            for number in listed.keys() & missing.keys():
                self._take_over(number, missing.pop(number), listed[number][0].id)
        api_error = ApiError("failed", 0, "no batch was made for it before its process ended", retry=True)
        calls = [call for calls in missing.values() for call in calls]
        await self._settle([(call, api_error.outcome(call)) for call in calls])
        for call in calls:
            self._scheduler.answer(call, NoReply(api_error, counts=False))

    def _take_over(self, number: int, calls: Sequence[Call], batch_id: str) -> None:
        batch = TrackedBatch(number, {custom_id(call): call for call in calls}, 0, batch_id, resumed=True)
        self._scheduler.note(f"batch {number}: {len(calls)} requests are in {batch_id} since an earlier start")
        self._track(batch, self._follow(batch))

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


@dataclass(frozen=True)
class ResumeState:
    """What a run's folder says of its batches. ``open`` are the attempts without a known end, by batch; ``batch_ids``
    what the endpoint called the batches, where that was recorded; ``attempts`` the highest attempt of each call that
    has had one; ``batches`` the highest number of a batch.
    """

    open: Mapping[int, list[Call]] = field(default_factory=dict)
    batch_ids: Mapping[int, str] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    batches: int = 0

    @property
    def since(self) -> datetime | None:
        """When the oldest open attempt went out."""
        return min((call.started_at for calls in self.open.values() for call in calls), default=None)

    @classmethod
    def load(cls, run: Folder) -> ResumeState:
        """That of a run folder, read beside its writer. Raises ArchiveError for another schema version."""
        attempts: dict[str, int] = {}
        settled: set[CallKey] = set()
        batches = 0
        ledger = read_run_table(run, "ledger", ["call_id", "attempt", "status", "http_status", "mode", "wave"])
        for row in ledger.filter(pc.equal(ledger["mode"], "batch")).to_pylist():
            key = (row["call_id"], row["attempt"])
            attempts[key[0]] = max(attempts.get(key[0], 0), key[1])
            batches = max(batches, row["wave"])
            # Of an unknown attempt with a status the batch has told all that it will.
            if row["status"] != "unknown" or row["http_status"]:
                settled.add(key)
        batch_ids: dict[int, str] = {}
        calls: dict[CallKey, Call] = {}
        for kind, sample, body in read_settled(run, "journal", _batch_rows):
            if kind == BATCH:
                batch_ids[body["wave"]] = body["batch_id"]
                batches = max(batches, body["wave"])
                continue
            call = _call(body["call"], sample)
            attempts[call.call_id] = max(attempts.get(call.call_id, 0), call.attempt)
            batches = max(batches, call.wave)
            if call.key not in settled:
                calls[call.key] = call
        by_batch: dict[int, list[Call]] = defaultdict(list)
        for call in calls.values():
            by_batch[call.wave].append(call)
        return cls(dict(by_batch), batch_ids, attempts, batches)


def _batch_rows(journal: FragmentedTable) -> list[tuple[str, int, dict[str, Any]]]:
    """Kind, sample and body of the rows that name a batch, and of the intents of attempts that went out with one: these
    without the prompt, which nobody needs to know a reply again."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    for table in journal.read_fragments(["kind", "sample", "body"]):
        intents = pc.and_(pc.equal(table["kind"], "request"), pc.match_substring(table["body"], INTENT_MARK))
        for row in table.filter(pc.or_(intents, pc.equal(table["kind"], BATCH))).to_pylist():
            body = json.loads(row["body"])
            body.pop("request", None)
            found.append((row["kind"], row["sample"], body))
    return found


def _call(data: Mapping[str, Any], sample: int) -> Call:
    row = row_from_json(data)
    names = (
        *("call_id", "attempt", "query_id", "path", "role", "model", "request_hash", "input_usd_per_million"),
        *("cached_usd_per_million", "output_usd_per_million", "reserved_usd", "queue_s", "started_at"),
        *("endpoint", "mode", "wave", "batch_id"),
    )
    written = row.get("cache_write_usd_per_million")
    given = {name: row[name] for name in names}
    return Call(sample=sample, tags=dict(row["tags"]), cache_write_usd_per_million=written, **given)
