"""Submit and watch batches and collect their results; resume those of an earlier process from the run's folder.

``BatchTracker`` reports the end of each attempt to its owner, the scheduler (``batch.py``).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import pyarrow.compute as pc

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import BrokenError, EndpointError, OkraError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.batch_api import (
    BatchApiError,
    BatchEndpoint,
    BatchItem,
    Refusal,
    read_refusal,
)
from okralong.pipelines.llm.batch_results import BatchAnswer, NoReply, ResultLines, ResultReader, UseRealtime
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.errors import ApiError
from okralong.pipelines.llm.journal import FragmentedTable, JournalRow, read_run_table, read_settled
from okralong.pipelines.llm.ports import LedgerPort
from okralong.pipelines.llm.prices import MILLION, Price
from okralong.pipelines.llm.providers.base import RemoteBatch
from okralong.pipelines.llm.records import Call, CallKey, Outcome, custom_id, row_from_json
from okralong.pipelines.llm.usage import Bounds

logger = logging.getLogger(__name__)

GIVE_UP_AFTER: Final = 8  # project default
"""After this many consecutive failed polls of a batch, the endpoint counts as down."""
LISTED_AFTER_S: Final = 30.0  # project default
"""If a list of batches lacks one, it is read once more after this many seconds; the second list is trusted."""
AT_A_TIME: Final = 1000  # project default
"""The most concurrent ledger calls per batch."""
POLL_GROWTH: Final = 1.5  # project default
"""Factor by which the interval between polls of a batch grows each time."""
BATCH: Final = "batch"
"""The kind of those journal rows that have the endpoint's id of a batch."""
INTENT_MARK: Final = '"mode":"batch"'
"""Text that the body of each intent for a batch contains, as ``intent_body`` writes it."""


@dataclass(eq=False)
class TrackedBatch:
    """One batch under way.

    ``calls`` maps the custom_id to the call, in the order of the input file unless an earlier process submitted the
    batch (``resumed``). ``bounds`` has the known bounds of their requests. ``began`` is the monotonic time in seconds
    at which this process took over the batch.
    """

    number: int
    calls: dict[str, Call]
    tokens: int = 0
    batch_id: str = ""
    resumed: bool = False
    bounds: dict[str, Bounds] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


class BatchOwner(Protocol):
    """What receives the reports of a tracker; implemented by ``BatchScheduler``."""

    def answer(self, call: Call, got: BatchAnswer | Exception) -> None:
        """Receive the answer to a settled attempt."""

    def refused(self, refusal: Refusal, requests: int, tokens: int) -> None:
        """Learn that a batch of ``requests`` requests was refused while ``tokens`` prompt tokens were under way."""

    def halt(self, error: OkraError) -> None:
        """Stop, because a batch can no longer be watched."""

    def ended(self) -> None:
        """Learn that a batch is over."""

    def note(self, text: str) -> None:
        """Keep a note for the user."""


class BatchTracker:
    """Submits and watches batches, collects their results, and finds those of an earlier process."""

    def __init__(
        self,
        config: LlmConfig,
        remote: BatchEndpoint,
        ledger: LedgerPort,
        owner: BatchOwner,
        price: Price | None = None,
    ) -> None:
        self._config, self._remote, self._ledger, self._owner = config, remote, ledger, owner
        self._reader = ResultReader(config, remote.key, token_counter(config.tokenizer), config.trust, price)
        self.cancelling = asyncio.Event()
        """Event that is set to cancel all batches."""
        self._under_way: dict[asyncio.Task[None], TrackedBatch] = {}
        self._resuming: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def tokens(self) -> int:
        """Number of prompt tokens in unfinished batches that this process submitted."""
        return sum(batch.tokens for batch in self._under_way.values())

    def launch(self, number: int, items: Sequence[BatchItem]) -> None:
        """Begin to submit a batch, whose calls are answered when it is over."""
        batch = TrackedBatch(number, {}, sum(item.tokens for item in items))
        self._track(batch, self._hand_in_and_follow(batch, items))

    def resume(self, state: ResumeState) -> None:
        """Begin to look for the batches of an earlier process, whose calls are answered when they are over."""
        if state.open:
            work = self._guarded(self._find_again(state))
            self._resuming = asyncio.get_running_loop().create_task(work)

    async def finish(self) -> None:
        """Wait until no batch is under way."""
        if self._resuming is not None:
            await self._resuming
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def aclose(self) -> None:
        """Stop watching; the batches go on at the endpoint."""
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
        self._owner.ended()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work``. If it raises, halt the owner, because the batch's calls would otherwise wait forever."""
        try:
            await work
        except OkraError as error:
            self._owner.halt(error)
        except Exception as error:
            logger.exception("a batch could not be watched")
            said = f"{type(error).__name__}: {error}"
            self._owner.halt(BrokenError(f"A batch could not be watched ({said}). Run the same command again."))

    async def _hand_in_and_follow(self, batch: TrackedBatch, items: Sequence[BatchItem]) -> None:
        try:
            await self._hand_in(batch, items)
        except BatchApiError as error:
            await self._not_created(batch, error)
        else:
            await self._follow(batch)

    async def _hand_in(self, batch: TrackedBatch, items: Sequence[BatchItem]) -> None:
        """Make the intents durable, upload the file, create the batch and record its id."""
        closed_at, now = datetime.now(UTC), time.monotonic()
        lines: list[bytes] = []
        for start in range(0, len(items), AT_A_TIME):
            some = items[start : start + AT_A_TIME]
            calls = [
                replace(item.call, wave=batch.number, queue_s=now - item.since, started_at=closed_at) for item in some
            ]
            intended = await asyncio.gather(*(self._ledger.intend(call) for call in calls), return_exceptions=True)
            for call, item, failed in zip(calls, some, intended, strict=True):
                if isinstance(failed, Exception):
                    self._owner.answer(call, failed)
                else:
                    batch.calls[custom_id(call)] = replace(call, body="{}")  # the body is durable by now, and large
                    if item.bounds is not None:
                        batch.bounds[custom_id(call)] = item.bounds
                    lines.append(self._remote.line(item, call))
        if not lines:
            return
        uploaded = await self._remote.upload(lines)
        batch.batch_id = (await self._remote.create(uploaded, batch.number, list(batch.calls.values()))).id
        named = json.dumps({"wave": batch.number, "batch_id": batch.batch_id})
        await self._ledger.record([JournalRow("", f"batches/{batch.number}", BATCH, named)])
        self._owner.note(f"batch {batch.number}: {counted(len(batch.calls), 'request')} went out as {batch.batch_id}")

    async def _not_created(self, batch: TrackedBatch, error: BatchApiError) -> None:
        """Answer the calls of a batch that was not created, or may not have been."""
        api_error = replace(error.api_error, status="failed")
        if error.may_exist:
            # Neither settle nor send the calls again: when the run starts again, it looks for the batch.
            raise EndpointError(
                f"{api_error.message} A batch was requested, but it is unknown whether it was created. Run the "
                "same command again; it looks for the batch first."
            )
        await self._settle([(call, api_error.outcome(call)) for call in batch.calls.values()])
        if not api_error.retry and not self._config.endpoints:
            raise EndpointError(api_error.message)
        for call in batch.calls.values():
            self._owner.answer(call, NoReply(api_error) if api_error.retry else UseRealtime(api_error.message))

    async def _follow(self, batch: TrackedBatch) -> None:
        """Watch an existing batch to its end, and collect its results."""
        if not batch.calls:
            return
        try:
            remote = await self._ended(batch.batch_id)
            if remote.status == "failed" and not remote.completed and remote.output_file_id is None:
                await self._refused(batch, remote)
            else:
                await self._collect(batch, remote)
        except BatchApiError as error:
            raise EndpointError(
                f"{error.api_error.message} The batch {batch.batch_id} goes on there and is not lost: run the same "
                "command again to collect it."
            ) from None

    async def _ended(self, batch_id: str) -> RemoteBatch:
        """Poll a batch until it has ended; return it."""
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
                files += [] if file_id is None else [await self._remote.read(file_id, len(batch.calls))]
            except BatchApiError as error:
                if error.api_error.http_status != 404:
                    raise
                gone += 1  # it was deleted, and its results are lost
        found = await asyncio.to_thread(ResultLines.read, files, self._remote.api.result)
        found = replace(found, unreadable=found.unreadable + gone)
        undone = _left_undone(remote, [found.lines[name] for name in batch.calls if name in found.lines])
        took_s = time.monotonic() - batch.began
        read = await asyncio.to_thread(
            lambda: [
                (
                    call,
                    *self._reader.read(
                        replace(call, batch_id=remote.id), found, name, took_s, batch.bounds.get(name), undone=undone
                    ),
                )
                for name, call in batch.calls.items()
            ]
        )
        failed = await self._settle([(call, outcome) for call, outcome, _ in read])
        for call, _, got in read:
            self._owner.answer(call, failed.get(call.key, got))
        replies = sum(outcome.status == "ok" for _, outcome, _ in read)
        self._owner.note(f"batch {batch.number}: {replies} of {len(read)} answered ({remote.status})")

    async def _refused(self, batch: TrackedBatch, remote: RemoteBatch) -> None:
        """Answer the calls of a batch that the endpoint refused as a whole."""
        refusal = read_refusal(remote.errors, len(batch.calls))
        said = f"{self._config.base_url} refused the batch ({refusal.message})."
        api_error = ApiError("failed", 400, said, retry=True)
        calls = list(batch.calls.values())
        await self._settle([(call, api_error.outcome(replace(call, batch_id=remote.id))) for call in calls])
        self._owner.note(f"batch {batch.number}: refused: {refusal.message}")
        if refusal.reason == "all":
            raise EndpointError(
                f"{said} Nothing of it was billed. Correct what it names, or run the same command with --llm-mode "
                "realtime."
            )
        if refusal.reason != "lines":
            self._owner.refused(refusal, len(calls), self.tokens)
        for number, call in enumerate(calls, start=1):
            if refusal.reason == "lines" and number in refusal.lines and not batch.resumed:
                self._owner.answer(call, UseRealtime(said))
            else:
                # If a batch is too large, its requests have not failed. Which line belongs to which call is unknown in
                # a resumed batch.
                self._owner.answer(call, NoReply(api_error, counts=batch.resumed or len(calls) == 1))

    async def _find_again(self, state: ResumeState) -> None:
        """Find the batches of open attempts in the run's folder or the endpoint's list, and track them."""
        missing = {number: list(calls) for number, calls in state.open.items()}
        for number in state.batch_ids.keys() & missing.keys():
            self._take_over(number, missing.pop(number), state.batch_ids[number], state.bounds)
        for second_look in (False, True):
            if not missing:
                return
            if second_look:  # a batch that was being created when its process died may not be listed at once
                self._owner.note(
                    f"The endpoint's list lacks {counted(len(missing), 'batch')} that an earlier start may have made."
                    f" It is read again in {LISTED_AFTER_S:.0f} s."
                )
                await asyncio.sleep(LISTED_AFTER_S)
            try:
                listed = await self._remote.of_this_run(missing)
            except BatchApiError as error:
                raise EndpointError(
                    f"{error.api_error.message} The endpoint may hold batches of this run, so no new request was sent. "
                    "Run the same command again."
                ) from None
            for number in listed.keys() & missing.keys():
                self._take_over(number, missing.pop(number), listed[number][0].id, state.bounds)
        api_error = ApiError("failed", 0, "its process ended before making a batch for it", retry=True)
        calls = [call for calls in missing.values() for call in calls]
        await self._settle([(call, api_error.outcome(call)) for call in calls])
        for call in calls:
            self._owner.answer(call, NoReply(api_error, counts=False))

    def _take_over(self, number: int, calls: Sequence[Call], batch_id: str, known: Mapping[str, Bounds]) -> None:
        batch = TrackedBatch(number, {custom_id(call): call for call in calls}, 0, batch_id, resumed=True)
        batch.bounds = {custom_id(call): known[call.request_hash] for call in calls if call.request_hash in known}
        requests = f"{counted(len(calls), 'request')} {agreeing(len(calls), 'is')}"
        self._owner.note(f"batch {number}: {requests} in {batch_id} since an earlier start")
        self._track(batch, self._follow(batch))

    async def _settle(self, outcomes: Sequence[tuple[Call, Outcome]]) -> dict[CallKey, Exception]:
        """Make outcomes durable; return the errors of those that do not fit their table."""
        failed: dict[CallKey, Exception] = {}
        for start in range(0, len(outcomes), AT_A_TIME):
            some = outcomes[start : start + AT_A_TIME]
            done = await asyncio.gather(*(self._ledger.settle(each) for _, each in some), return_exceptions=True)
            failed |= {call.key: e for (call, _), e in zip(some, done, strict=True) if isinstance(e, Exception)}
        return failed


def _left_undone(remote: RemoteBatch, lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether requests without a line were certainly not processed.

    A completed batch has processed all requests. A cancelled or expired batch has processed as many as it counts; if it
    counts none, it never started.
    """
    if remote.status == "completed" or remote.completed is None:
        return False
    replies = sum(1 for line in lines if _status_of(line) == 200)
    return remote.completed <= replies


def _status_of(line: Mapping[str, Any]) -> object:
    response = line.get("response")
    return response.get("status_code") if isinstance(response, Mapping) else None


@dataclass(frozen=True)
class ResumeState:
    """The batches of a run, as read from its folder.

    Attributes:
        open: Attempts without a known outcome, by batch number.
        batch_ids: The endpoint's ids of the batches, as far as they were recorded, by batch number.
        attempts: The number of the last attempt of each call.
        batches: The highest batch number.
        bounds: The bounds of replies, by request hash.
    """

    open: Mapping[int, list[Call]] = field(default_factory=dict)
    batch_ids: Mapping[int, str] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    batches: int = 0
    bounds: Mapping[str, Bounds] = field(default_factory=dict)

    @classmethod
    def load(cls, run: Folder) -> ResumeState:
        """Read a run folder that another process may be changing. Raises ArchiveError for another schema version."""
        attempts: dict[str, int] = {}
        settled: set[CallKey] = set()
        batches = 0
        ledger = read_run_table(run, "ledger", ["call_id", "attempt", "status", "http_status", "mode", "wave"])
        for row in ledger.filter(pc.equal(ledger["mode"], "batch")).to_pylist():
            key = (row["call_id"], row["attempt"])
            attempts[key[0]] = max(attempts.get(key[0], 0), key[1])
            batches = max(batches, row["wave"])
            # An unknown attempt with an HTTP status is final: nothing more will be learned about it.
            if row["status"] != "unknown" or row["http_status"]:
                settled.add(key)
        batch_ids: dict[int, str] = {}
        calls: dict[CallKey, Call] = {}
        bounds: dict[str, Bounds] = {}
        for kind, sample, body in read_settled(run, "journal", _batch_rows):
            if kind == BATCH:
                batch_ids[body["wave"]] = body["batch_id"]
                batches = max(batches, body["wave"])
                continue
            call = _call(body["call"], sample)
            if body["bounds"] is not None:
                bounds[call.request_hash] = body["bounds"]
            attempts[call.call_id] = max(attempts.get(call.call_id, 0), call.attempt)
            batches = max(batches, call.wave)
            if call.key not in settled:
                calls[call.key] = call
        by_batch: dict[int, list[Call]] = defaultdict(list)
        for call in calls.values():
            by_batch[call.wave].append(call)
        wanted = {call.request_hash for call in calls.values()}
        return cls(dict(by_batch), batch_ids, attempts, batches, {key: bounds[key] for key in bounds.keys() & wanted})


def _batch_rows(journal: FragmentedTable) -> list[tuple[str, int, dict[str, Any]]]:
    """Return the kind, sample and body of the rows about batches: their ids, and intents without their prompts."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    for table in journal.read_fragments(["kind", "sample", "body"]):
        intents = pc.and_(pc.equal(table["kind"], "request"), pc.match_substring(table["body"], INTENT_MARK))
        for row in table.filter(pc.or_(intents, pc.equal(table["kind"], BATCH))).to_pylist():
            body = json.loads(row["body"])
            if row["kind"] != BATCH:
                body["bounds"] = _bounds(body.pop("request", None), body["call"])
            found.append((row["kind"], row["sample"], body))
    return found


def _bounds(request: Any, call: Mapping[str, Any]) -> Bounds | None:
    """Return the bounds of a request in the journal, or None for a later attempt, whose row has no request."""
    if not isinstance(request, Mapping) or not request.get("messages"):
        return None
    price = row_from_json(call)["input_usd_per_million"]
    most, limit = call["reserved_usd"] * MILLION, request["max_tokens"]
    tokens = int(max(0.0, most - limit * call["output_usd_per_million"]) / price) if price else 0
    return Bounds(tokens, limit)


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
