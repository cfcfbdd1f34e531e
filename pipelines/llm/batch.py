"""A call that may wait for its reply: asked at the desk, wave after wave, until it is answered or better off alone."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import ArchiveError, BrokenError, EndpointError, OkraError, Usage
from okralong.pipelines.llm.batch_api import (
    Answered,
    BatchAnswer,
    BatchApiError,
    BatchEndpoint,
    BatchItem,
    InRealtime,
    NoReply,
    Refusal,
    RemoteBatch,
    ResultLines,
    ResultReader,
    batch_call_id,
    chat_body,
    custom_id,
    read_refusal,
    unanswered,
)
from okralong.pipelines.llm.config import BatchConfig, LlmConfig
from okralong.pipelines.llm.journal import READ_TRIES, ROW_KEYS, FragmentedTable, JournalRow, read_run_table
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.records import Call, CallKey, LedgerClient, Outcome, row_from_json
from okralong.pipelines.llm.reply import RawReply, from_journal
from okralong.pipelines.llm.request import LlmRequest, PromptMeter
from okralong.pipelines.llm.routing import ApiError, best_effort


class BatchSchedulerClient(Protocol):
    """The one desk of a run."""

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """The reply of a batch, once it is paid for and durable; or why there is none. It may take a day.

        Whoever asks for a call that is under way already, in this process or since an earlier one, waits with it.
        Raises OverBudget, EndpointError or BrokenError.
        """
        ...


class BatchCaller:
    """Calls of one generator by way of a desk."""

    def __init__(self, config: LlmConfig, scheduler: BatchSchedulerClient, price: Price, meter: PromptMeter) -> None:
        """``price`` is the first endpoint's, which is where batches go."""
        self._config, self._scheduler, self._meter = config, scheduler, meter
        self._price = price

    async def reply(self, request: LlmRequest, call: Call) -> RawReply | None:
        """The reply, None when it is to be asked for in real time.

        Raises OverBudget, EndpointError, BrokenError, or CallFailed where no further attempt would help.
        """
        plain = self._meter.plain(request.messages)
        item = self._item(request, call, self._meter.safe(plain))
        failures = 0
        while failures < self._config.batch.max_failures:
            got = await self._scheduler.ask(item)
            if isinstance(got, Answered):
                self._meter.learn(plain, got.raw.reply.usage.prompt_tokens)
                return got.raw
            if isinstance(got, InRealtime):
                return None
            if got.api_error.final and self._others:
                return None
            if not got.api_error.retry:
                raise got.api_error.error()
            failures += got.counts
        return None

    @property
    def _others(self) -> Sequence[object]:
        return self._config.endpoints

    def _item(self, request: LlmRequest, call: Call, tokens: int) -> BatchItem:
        price = self._price.in_batch()
        call = replace(
            call,
            call_id=batch_call_id(call.query_id, call.path, call.sample, call.request_hash),
            endpoint=self._config.base_url,
            model=self._config.model,
            input_usd_per_million=price.input,
            cached_usd_per_million=price.cached_input,
            output_usd_per_million=price.output,
            reserved_usd=price.cost(Usage(tokens, 0, request.max_tokens)),
            mode="batch",
        )
        return BatchItem(call, chat_body(request, self._config.max_tokens_field, self._config.model), tokens)


# --------
# Which requests make a wave, and when it is closed. Pure: every ``now`` is in seconds of one clock.
#
# It does not wait for questions that are still looking things up: nobody knows which of them will ask. A wave closes
# when it has become quiet, so a straggler goes with the next one, whose batch runs beside the first.

MEGABYTE = 1_000_000
LINE_OVERHEAD = 150
"""Bytes of a line around a request's body, rounded up. Ours."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    item: BatchItem
    since: float
    size: int


class BatchBuilder:
    """Requests that wait for a wave, in the order in which they came."""

    def __init__(self, config: BatchConfig) -> None:
        self._quiet_s, self._gather_s = config.quiet_s, config.gather_s
        self.most = config.max_requests
        self._most_bytes = config.max_megabytes * MEGABYTE
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._last = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: BatchItem, now: float) -> None:
        """One more request."""
        size = len(item.body) + LINE_OVERHEAD
        self._waiting.append(_Waiting(item, now, size))
        self._bytes += size
        self._last = now

    @property
    def due_at(self) -> float:
        """When the wave is closed if nothing more comes; infinite while there is none."""
        if not self._waiting:
            return math.inf
        if len(self._waiting) >= self.most or self._bytes >= self._most_bytes:
            return -math.inf
        return min(self._last + self._quiet_s, self._waiting[0].since + self._gather_s)

    def take(self, room: float = math.inf, *, alone: bool = True) -> list[BatchItem]:
        """The requests of a wave, those that came first, up to the limits and ``room`` prompt tokens.

        One that is larger than the room, or than a whole batch, goes by itself, if it is the first and nothing else is
        under way (``alone``): the endpoint then says what it thinks of it.
        """
        taken: list[BatchItem] = []
        size, tokens = 0, 0
        while self._waiting and len(taken) < self.most:
            first = self._waiting[0]
            full = size + first.size > self._most_bytes or tokens + first.item.tokens > room
            if full and (taken or (tokens + first.item.tokens > room and not alone)):
                break
            self._waiting.popleft()
            taken.append(first.item)
            size += first.size
            tokens += first.item.tokens
            if full:
                break
        self._bytes -= size
        return taken

    def take_all(self) -> list[BatchItem]:
        """All of them, for whom there will be no wave."""
        left = [waiting.item for waiting in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return left


# --------
# What a run's folder says of its batches: which attempts went out with one and have no known end yet.

BATCH: str = "batch"
"""Kind of the journal's rows that name a wave's batch."""
_MARK = '"mode":"batch"'
"""Stands in the body of every intent of an attempt in a batch, as ``intent_body`` writes it."""


@dataclass(frozen=True)
class ResumeState:
    """``open`` are the attempts by wave; ``batch_ids`` what the endpoint called the waves' batches, where that was
    recorded; ``attempts`` the highest attempt of each call that has had one; ``waves`` the highest wave.
    """

    open: Mapping[int, list[Call]] = field(default_factory=dict)
    batch_ids: Mapping[int, str] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    waves: int = 0

    @property
    def since(self) -> datetime | None:
        """When the oldest open attempt went out."""
        return min((call.started_at for calls in self.open.values() for call in calls), default=None)

    @classmethod
    def load(cls, run: Folder) -> ResumeState:
        """The past of a run folder, read beside its writer. Raises ArchiveError for another schema version."""
        attempts: dict[str, int] = {}
        settled: set[CallKey] = set()
        waves = 0
        ledger = read_run_table(run, "ledger", ["call_id", "attempt", "status", "http_status", "mode", "wave"])
        for row in ledger.filter(pc.equal(ledger["mode"], "batch")).to_pylist():
            key = (row["call_id"], row["attempt"])
            attempts[key[0]] = max(attempts.get(key[0], 0), key[1])
            waves = max(waves, row["wave"])
            # Of an unknown attempt with a status the batch has told all that it will.
            if row["status"] != "unknown" or row["http_status"]:
                settled.add(key)
        batch_ids: dict[int, str] = {}
        calls: dict[CallKey, Call] = {}
        for row in _batch_rows(run):
            if row["kind"] == BATCH:
                said = json.loads(row["body"])
                batch_ids[said["wave"]] = said["batch_id"]
                waves = max(waves, said["wave"])
                continue
            call = _call(json.loads(row["body"])["call"], row["sample"])
            attempts[call.call_id] = max(attempts.get(call.call_id, 0), call.attempt)
            waves = max(waves, call.wave)
            if call.key not in settled:
                calls[call.key] = call
        by_wave: dict[int, list[Call]] = defaultdict(list)
        for call in calls.values():
            by_wave[call.wave].append(call)
        return cls(dict(by_wave), batch_ids, attempts, waves)


def batch_row(wave: int, batch_id: str) -> JournalRow:
    """The journal row that names the batch of a wave."""
    return JournalRow("", f"batches/{wave}", BATCH, json.dumps({"wave": wave, "batch_id": batch_id}))


def _batch_rows(run: Folder) -> Iterator[dict[str, Any]]:
    """Rows of kind batch, and requests that went out with one; of the bodies of one file at a time."""
    columns = ["kind", "sample", "body"]
    for _ in range(READ_TRIES):
        found: list[dict[str, Any]] = []
        try:
            journal = FragmentedTable(run.at("journal"), RUN_TABLES["journal"], ROW_KEYS["journal"], writer=False)
            for part in journal.batches(columns):
                intents = pc.and_(pc.equal(part["kind"], "request"), pc.match_substring(part["body"], _MARK))
                rows = part.filter(pc.or_(intents, pc.equal(part["kind"], BATCH)))
                found += [{**row, "body": _without_request(row)} for row in _rows(rows)]
        except FileNotFoundError:  # merged meanwhile
            continue
        yield from found
        return
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were read. Try again.")


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _without_request(row: Mapping[str, Any]) -> str:
    """The body without the prompt, which nobody needs to know a reply again."""
    body = json.loads(row["body"])
    body.pop("request", None)
    return json.dumps(body)


def _call(data: Mapping[str, Any], sample: int) -> Call:
    row = row_from_json(data)
    names = (
        *("call_id", "attempt", "query_id", "path", "role", "model", "request_hash", "input_usd_per_million"),
        *("cached_usd_per_million", "output_usd_per_million", "reserved_usd", "queue_s", "started_at"),
        *("endpoint", "mode", "wave", "batch_id"),
    )
    return Call(sample=sample, tags=dict(row["tags"]), **{name: row[name] for name in names})


# --------
# Batches under way: handed in, watched, collected; and those of an earlier process, found again.
#
# An attempt is in the journal before its batch is created. So whatever dies, the run's folder knows which attempts
# went out with which wave, and the endpoint's list, by the metadata of each batch, knows what became of the wave.

logger = logging.getLogger(__name__)

GIVE_UP_AFTER: Final = 8
"""Looks at a batch in a row that brought nothing, after which the endpoint counts as down. Ours."""
SURE_S: Final = 30.0
"""Age of a wave from which on the endpoint's list is believed when it has no batch for it. Ours."""
AT_A_TIME: Final = 1000
"""Ledger calls of one wave that wait beside each other. Ours."""
SLOWER: Final = 1.5
"""By which factor the pauses between two looks at a batch grow. Ours."""


class TrackerEvents(Protocol):
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
class TrackedBatch:
    """One wave on its way. ``calls`` by the names of their lines, in the file's order unless it was ``adopted``."""

    wave: int
    calls: dict[str, Call]
    tokens: int = 0
    batch_id: str = ""
    adopted: bool = False


class BatchTracker:
    """All waves that are on their way. One event loop, nothing is locked."""

    def __init__(
        self,
        config: LlmConfig,
        remote: BatchEndpoint,
        ledger: LedgerClient,
        reader: ResultReader,
        events: TrackerEvents,
    ) -> None:
        self._config, self._remote, self._ledger, self._reader, self._events = config, remote, ledger, reader, events
        self.leaving = asyncio.Event()
        """Set when all batches are to be cancelled."""
        self._under_way: dict[asyncio.Task[None], TrackedBatch] = {}
        self._adopting: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def tokens(self) -> int:
        """Prompt tokens in batches that this process has handed in."""
        return sum(tracked.tokens for tracked in self._under_way.values())

    def launch(self, wave: int, items: Sequence[BatchItem]) -> None:
        """Hand in a wave, and answer its calls when it is over."""
        tracked = TrackedBatch(wave, {}, sum(item.tokens for item in items))
        self._start(tracked, self._fly(tracked, items))

    def adopt(self, state: ResumeState) -> None:
        """Find the batches of waves that an earlier process left, and answer their calls when they are over."""
        if state.since is not None:
            self._adopting = asyncio.get_running_loop().create_task(self._guarded(self._adopted(state, state.since)))

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

    def _start(self, tracked: TrackedBatch, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._under_way[task] = tracked
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._events.changed()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A flight that breaks ends the run: its calls would wait for ever."""
        try:
            await work
        except OkraError as error:
            self._events.halt(error)
        except Exception as error:
            logger.exception("a batch could not be looked after")
            said = f"{type(error).__name__}: {error}"
            self._events.halt(BrokenError(f"A batch could not be looked after ({said}). Run the same command again."))

    async def _fly(self, tracked: TrackedBatch, items: Sequence[BatchItem]) -> None:
        try:
            await self._hand_in(tracked, items)
        except BatchApiError as error:
            await self._never_left(tracked, error)
        else:
            await self._follow(tracked)

    async def _hand_in(self, tracked: TrackedBatch, items: Sequence[BatchItem]) -> None:
        closed_at = datetime.now(UTC)
        calls = [self._leaving_with(tracked, item.call, closed_at) for item in items]
        lines: list[bytes] = []
        for start in range(0, len(calls), AT_A_TIME):
            some = calls[start : start + AT_A_TIME]
            intended = await asyncio.gather(*(self._ledger.intend(call) for call in some), return_exceptions=True)
            for call, item, failed in zip(some, items[start : start + AT_A_TIME], intended, strict=True):
                if isinstance(failed, Exception):
                    self._events.answer(call, failed)
                else:
                    tracked.calls[custom_id(call)] = replace(call, body="{}")  # durable, and large
                    lines.append(item.line(call))
        if not lines:
            return
        file_id = await self._remote.upload(b"".join(lines))
        batch = await self._remote.create(file_id, tracked.wave, closed_at)
        tracked.batch_id = batch.id
        await self._ledger.record([batch_row(tracked.wave, batch.id)])
        self._events.note(f"wave {tracked.wave}: {len(tracked.calls)} requests went out as {batch.id}")

    def _leaving_with(self, tracked: TrackedBatch, call: Call, now: datetime) -> Call:
        return replace(call, wave=tracked.wave, queue_s=(now - call.started_at).total_seconds(), started_at=now)

    async def _never_left(self, tracked: TrackedBatch, error: BatchApiError) -> None:
        """No batch was made, or nobody knows."""
        api_error = replace(error.api_error, status="failed")
        if error.may_exist:
            # Neither settled nor asked again: the next start of the run looks for the batch.
            raise EndpointError(
                f"{api_error.message} It was asked for a batch, and whether it has made one is not known: run the same "
                "command again, which looks for it."
            )
        await self._settle([(call, unanswered(call, api_error)) for call in tracked.calls.values()])
        if not api_error.retry and not self._config.endpoints:
            raise EndpointError(api_error.message)
        for call in tracked.calls.values():
            self._events.answer(call, NoReply(api_error) if api_error.retry else InRealtime(api_error.message))

    async def _follow(self, tracked: TrackedBatch) -> None:
        """From a batch that exists to its results."""
        if not tracked.calls:
            return
        try:
            batch = await self._ended(tracked.batch_id)
            if batch.status == "failed":
                await self._refused(tracked, batch)
            else:
                await self._collect(tracked, batch)
        except BatchApiError as error:
            raise EndpointError(
                f"{error.api_error.message} The batch {tracked.batch_id} goes on there and is not lost: run the same "
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
            except BatchApiError as error:
                failures += 1
                if not error.api_error.retry or failures == GIVE_UP_AFTER:
                    raise
            if cancelled:
                await asyncio.sleep(pause)
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.leaving.wait()
            pause = min(self._config.batch.longest_poll_s, pause * SLOWER)

    async def _collect(self, tracked: TrackedBatch, batch: RemoteBatch) -> None:
        files: list[bytes] = []
        gone = 0
        for file_id in (batch.output_file_id, batch.error_file_id):
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
            (call, *self._reader.read(replace(call, batch_id=batch.id), found, name, _seconds(call.started_at, now)))
            for name, call in tracked.calls.items()
        ]
        failed = await self._settle([(call, outcome) for call, outcome, _ in read])
        for call, _, got in read:
            self._events.answer(call, failed.get(call.key, got))
        replies = sum(outcome.status == "ok" for _, outcome, _ in read)
        self._events.note(f"wave {tracked.wave}: {replies} of {len(read)} answered ({batch.status})")

    async def _refused(self, tracked: TrackedBatch, batch: RemoteBatch) -> None:
        """The endpoint works on none of it."""
        refusal = read_refusal(batch.errors, len(tracked.calls))
        said = f"{self._config.base_url} refused the batch ({refusal.message})."
        api_error = ApiError("failed", 400, said, retry=True)
        calls = list(tracked.calls.values())
        await self._settle([(call, unanswered(replace(call, batch_id=batch.id), api_error)) for call in calls])
        self._events.note(f"wave {tracked.wave}: refused: {refusal.message}")
        if refusal.reason == "all":
            raise EndpointError(
                f"{said} Nothing of it was billed. Mend what it names, or run the same command with --llm-mode "
                "realtime."
            )
        if refusal.reason != "lines":
            self._events.refused(refusal, len(calls), self.tokens)
        for number, call in enumerate(calls, start=1):
            if refusal.reason == "lines" and number in refusal.lines and not tracked.adopted:
                self._events.answer(call, InRealtime(said))
            else:
                # A wave that gets smaller is no failure of its requests; of an adopted one the lines are not known.
                self._events.answer(call, NoReply(api_error, counts=tracked.adopted or len(calls) == 1))

    async def _adopted(self, state: ResumeState, since: datetime) -> None:
        """Look after the batches that the folder or the endpoint's list knows for the open attempts."""
        missing = {wave: list(calls) for wave, calls in state.open.items()}
        for wave in list(missing):
            if wave in state.batch_ids:
                self._take_over(wave, missing.pop(wave), state.batch_ids[wave])
        for sure in (False, True):
            if not missing:
                return
            if sure:  # a batch that was being created when its process died may take a moment to be listed
                newest = max(call.started_at for calls in missing.values() for call in calls)
                await asyncio.sleep(max(0.0, SURE_S - _seconds(newest, datetime.now(UTC))))
            try:
                listed = await self._remote.of_this_run(since)
            except BatchApiError as error:
                raise EndpointError(
                    f"{error.api_error.message} Batches of this run may be waiting there, so nothing else was asked."
                ) from None
            for wave in [wave for wave in missing if wave in listed]:
                self._take_over(wave, missing.pop(wave), listed[wave][0].id)
        api_error = ApiError("failed", 0, "no batch was made for it before its process ended", retry=True)
        calls = [call for calls in missing.values() for call in calls]
        await self._settle([(call, unanswered(call, api_error)) for call in calls])
        for call in calls:
            self._events.answer(call, NoReply(api_error, counts=False))

    def _take_over(self, wave: int, calls: Sequence[Call], batch_id: str) -> None:
        tracked = TrackedBatch(wave, {custom_id(call): call for call in calls}, 0, batch_id, adopted=True)
        self._events.note(f"wave {wave}: {len(calls)} requests are in {batch_id} since an earlier start")
        self._start(tracked, self._follow(tracked))

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


# --------
# The desk where requests wait for a batch: one for a run. It gathers waves, hands them in, and answers who waits.
#
# The Ray actor in ``actors/llm.py`` is this class behind a handle.

LOOK_AGAIN_S: Final = 60.0
"""How often the clock on the wall is compared with the deadline, whatever it does meanwhile. Ours."""
NOTES_KEPT: Final = 1000


@dataclass(eq=False, slots=True)
class _Open:
    """The attempt by which a call is being answered now, and the future that all who ask for it wait for."""

    key: CallKey
    answer: asyncio.Future[BatchAnswer]


class BatchScheduler:
    """See ``BatchSchedulerClient`` for what the methods promise."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: LedgerClient,
        run_id: str,
        load_state: Callable[[], ResumeState],
        until: datetime | None = None,
        backoff: tuple[float, float] = (1.0, 30.0),
    ) -> None:
        """``run_id`` marks the run's batches; ``load_state`` reads its folder once the ledger has replayed it; from
        ``until`` on nothing is handed in any more.

        Raises ConfigError when the key is needed and missing.
        """
        self._config, self._ledger, self._until, self._load_state = config, ledger, until, load_state
        self._remote = BatchEndpoint(config, run_id, backoff)
        reader = ResultReader(config, self._remote.key, token_counter(config.tokenizer))
        self._tracker = BatchTracker(config, self._remote, ledger, reader, self)
        self._builder = BatchBuilder(config.batch)
        self._open: dict[str, _Open] = {}
        self._attempts: dict[str, int] = {}
        self._waves = 0
        self._room = float(config.batch.enqueued_tokens or "inf")
        self._hold_until = -1.0
        self._hold_s = config.batch.poll_s
        self._late = ""
        self._halted: OkraError | None = None
        self._wake = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._notes: list[str] = []

    async def ready(self) -> None:
        """Take up what an earlier process left. Every other method does so first."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """What a batch answers, when it has (see ``BatchSchedulerClient``)."""
        await self.ready()
        if self._halted is not None:
            raise self._halted
        call_id = item.call.call_id
        waiting = self._open.get(call_id)
        if waiting is None:
            before = self._attempts.get(call_id, 0)
            if before and (known := await self._known(item.call)) is not None:
                return known
            if call_id in self._open:  # somebody else has asked meanwhile
                return await asyncio.shield(self._open[call_id].answer)
            if self._is_late():
                return InRealtime(self._late)
            # The journal has the prompt with the first attempt.
            call = replace(item.call, attempt=before + 1, body=item.call.body if not before else "{}")
            waiting = self._wait_for(call)
            await self._take_in(replace(item, call=call))
        return await asyncio.shield(waiting.answer)

    async def stop(self, why: str) -> None:
        """The run stops: whoever waits hears so. The batches go on, and a later start of the run collects them."""
        self.halt(EndpointError(why))

    async def drain(self) -> None:
        """The run is over: end the batches that nobody waits for any more, and settle what they did."""
        await self.ready()
        self._leave("The run is over.", tell=len(self._tracker) > 0)
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

    def answer(self, call: Call, got: BatchAnswer | Exception) -> None:
        """Tell who waits for this attempt; nobody need."""
        waiting = self._open.get(call.call_id)
        if waiting is None or waiting.key != call.key:
            return
        del self._open[call.call_id]
        if waiting.answer.done():
            return
        if isinstance(got, Exception):
            waiting.answer.set_exception(got)
        else:
            waiting.answer.set_result(got)

    def refused(self, refusal: Refusal, requests: int, tokens: int) -> None:
        """Send less at a time, and not at once."""
        if refusal.reason == "large":
            self._builder.most = max(1, requests // 2)
            return
        self._room = max(1.0, min(self._room, tokens) / 2)
        self._hold_until = time.monotonic() + self._hold_s
        self._hold_s = min(self._config.batch.longest_poll_s, 2 * self._hold_s)

    def halt(self, error: OkraError) -> None:
        """Whoever waits, now or later, gets the error."""
        if self._halted is not None:
            return
        self._halted = error
        for waiting in self._open.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
        self._open.clear()
        self._builder.take_all()

    def changed(self) -> None:
        """There may be room for another wave."""
        self._wake.set()

    def note(self, text: str) -> None:
        """Keep it for the user."""
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)

    async def _start(self) -> None:
        await self._ledger.totals()  # it has replayed the folder when it answers
        state = await asyncio.to_thread(self._load_state)
        self._attempts, self._waves = dict(state.attempts), state.waves
        for call in sorted((call for calls in state.open.values() for call in calls), key=lambda each: each.attempt):
            self._wait_for(call)
        self._tracker.adopt(state)
        self._working = asyncio.get_running_loop().create_task(self._work())

    async def _known(self, call: Call) -> Answered | None:
        """The reply to an earlier attempt, whose caller died before it could hear it."""
        row = await self._ledger.reply(call.query_id, call.path, call.sample)
        same = row is not None and row.request_hash == call.request_hash
        return Answered(from_journal(row.body)) if row is not None and same else None

    async def _take_in(self, item: BatchItem) -> None:
        """Reserve its cost and let it wait for the next wave. Whoever asks for the same call now waits with it."""
        call = item.call
        self._attempts[call.call_id] = call.attempt
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd)
        except Exception as error:
            self.answer(call, error)
            return
        if self._is_late() or self._halted is not None:
            await self._turn_away([item])
            return
        self._builder.add(item, time.monotonic())
        self._wake.set()

    def _wait_for(self, call: Call) -> _Open:
        answer: asyncio.Future[BatchAnswer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody need be there to hear it
        waiting = self._open[call.call_id] = _Open(call.key, answer)
        return waiting

    async def _work(self) -> None:
        try:
            await self._gather_and_launch()
        except Exception as error:
            self.halt(
                BrokenError(f"No wave can be made ({type(error).__name__}: {error}). Run the same command again.")
            )
            raise

    async def _gather_and_launch(self) -> None:
        while True:
            self._wake.clear()
            if self._is_late():
                await self._turn_away(self._builder.take_all())
            now = time.monotonic()
            at = max(self._builder.due_at, self._hold_until)
            if at <= now:
                room = self._room - self._tracker.tokens
                items = self._builder.take(room, alone=not len(self._tracker))
                if items:
                    self._waves += 1
                    self._tracker.launch(self._waves, items)
                    continue
                at = now + LOOK_AGAIN_S  # no room: a batch that ends wakes us
            # Not wait_for, which may lose a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(at - now, self._seconds_left(), LOOK_AGAIN_S))):
                    await self._wake.wait()

    def _seconds_left(self) -> float:
        if self._until is None or self._late:
            return LOOK_AGAIN_S
        return (self._until - datetime.now(UTC)).total_seconds()

    def _is_late(self) -> bool:
        """Whether the deadline has passed; then all batches are to be cancelled."""
        if not self._late and self._until is not None and datetime.now(UTC) >= self._until:
            deadline = f"The deadline for batches ({self._until.astimezone():%Y-%m-%d %H:%M:%S %Z}) has passed:"
            since = deadline if self._config.mode == "batch" else "The run goes on in real time:"
            self._leave(f"{since} batches under way are cancelled, and what they have not answered is asked alone.")
        return bool(self._late)

    def _leave(self, why: str, *, tell: bool = True) -> None:
        if not self._late:
            self._late = why
            if tell:
                self.note(why)
        self._tracker.leaving.set()
        self._wake.set()

    async def _turn_away(self, items: list[BatchItem]) -> None:
        """They go with no wave: what they have reserved is free again."""
        api_error = ApiError("failed", 0, f"never sent: {self._late or self._halted}", retry=True)
        for item in items:
            await best_effort(self._ledger.settle(unanswered(item.call, api_error)))
            self.answer(item.call, InRealtime(self._late))
