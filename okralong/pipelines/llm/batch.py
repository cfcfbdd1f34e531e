"""Batch mode: requests wait at the run's scheduler until a batch answers them or they are sent in real time.

``BatchScheduler.ask`` is the path of one request: reserve its cost, add it to a batch (``BatchBuilder``), make the
intent durable, upload the file and create the batch, watch and collect it (``BatchTracker``), make the outcome durable,
answer the caller. An attempt is in the journal before its batch is created. So after any crash the run's folder shows
which attempts are in which batch (``ResumeState``), and the batch itself is found by its metadata in the endpoint's
list of batches.

Batches are numbered within their run; the tables call the number ``wave``. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from okralong.pipelines.core.types import BrokenError, EndpointError, OkraError, OverBudget
from okralong.pipelines.llm.batch_api import BatchEndpoint, BatchItem, Refusal
from okralong.pipelines.llm.batch_results import Answered, BatchAnswer, UseRealtime
from okralong.pipelines.llm.batch_tracker import BatchTracker, ResumeState
from okralong.pipelines.llm.config import BatchConfig, LlmConfig
from okralong.pipelines.llm.errors import ApiError
from okralong.pipelines.llm.ports import LedgerPort
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.records import Call, CallKey, unsent
from okralong.pipelines.llm.reply import from_journal
from okralong.pipelines.llm.router import best_effort

CLOCK_CHECK_S: Final = 60.0  # project default
"""Longest interval in seconds between two checks of the deadline."""
NOTES_KEPT: Final = 1000
WAVES_WHEN_SHORT: Final = 3  # project default
"""The most consecutive batches, each smaller than the one before, that a run makes when its budget is short."""
MEGABYTE: Final = 1_000_000
LINE_OVERHEAD: Final = 150  # project default
"""Bytes of a line in addition to a request's body, rounded up."""


def _now_s() -> float:
    """Return the seconds of a monotonic clock that also counts while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(eq=False, slots=True)
class _Waiting:
    """The current attempt of a call, and the future that all its callers await."""

    key: CallKey
    answer: asyncio.Future[BatchAnswer]


class BatchScheduler:
    """Holds a run's requests while they wait for a batch. On a cluster it runs in an actor."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: LedgerPort,
        run_id: str,
        load_state: Callable[[], ResumeState],
        until: datetime | None = None,
        backoff: tuple[float, float] = (1.0, 30.0),
        price: Price | None = None,
    ) -> None:
        """Prepare the scheduler. Its first call resumes the batches of an earlier process.

        Args:
            config: The run's generator.
            ledger: The run's ledger.
            run_id: The id in the metadata of the run's batches.
            load_state: Reads the run's folder, after the ledger has replayed it.
            until: The deadline, after which no more batches are created.
            backoff: As for ``BatchEndpoint``.
            price: The price at the first endpoint, if its rates depend on the prompt length.

        Raises:
            ConfigError: A required key is missing.
        """
        self._config, self._ledger, self._until, self._load_state = config, ledger, until, load_state
        self._late_at = math.inf if until is None else _now_s() + (until - datetime.now(UTC)).total_seconds()
        self._remote = BatchEndpoint(config, run_id, backoff, self.note)
        self._tracker = BatchTracker(config, self._remote, ledger, self, price.in_batch() if price else None)
        self._builder = BatchBuilder(config.batch)
        self._waiting: dict[str, _Waiting] = {}
        self._attempts: dict[str, int] = {}
        self._batches = 0
        self._token_limit = float(config.batch.enqueued_tokens or "inf")
        self._hold_until = -1.0
        self._hold_s = config.batch.poll_s
        self._ended = ""  # the reason why no more batches are made
        self._halted: OkraError | None = None
        self._wake = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._again: set[asyncio.Task[None]] = set()
        self._notes: list[str] = []
        self._asked: set[str] = set()  # questions that were in a batch
        self._short_waves = 0
        self._batch_ended = False

    async def ready(self) -> None:
        """Resume the batches of an earlier process. Every other method calls this first."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """Return a batch's reply once it is paid for and durable, or the reason why there is none. This may take a day.

        A call that this or an earlier process already started is joined, not sent again. Raises
        OverBudget, EndpointError or BrokenError.
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
            if call_id in self._waiting:  # another caller asked meanwhile
                return await asyncio.shield(self._waiting[call_id].answer)
            if self._is_late():
                return UseRealtime(self._ended)
            if self._used_up(item.call.query_id):
                return self._without_batch(item.call)
            # The journal already has the prompt, with the first attempt.
            call = replace(item.call, attempt=before + 1, body=item.call.body if not before else "{}")
            waiting = self._wait_for(call)
            await self._enqueue(replace(item, call=call, since=time.monotonic()))
        return await asyncio.shield(waiting.answer)

    async def stop(self, why: str) -> None:
        """Fail all waiting calls, because the run stops. The next start of the run collects the batches under way."""
        self.halt(EndpointError(why))

    async def drain(self) -> None:
        """At the end of a run, cancel the batches that no call waits for, and settle their costs."""
        await self.ready()
        self._end_batches("The run is over.", tell=len(self._tracker) > 0)
        await self._tracker.finish()
        if self._halted is not None:
            raise self._halted

    async def notes(self, start: int) -> list[str]:
        """Return the notes for the user from number ``start`` on."""
        return self._notes[start:]

    async def aclose(self) -> None:
        """Stop watching and building batches, and close the connections."""
        await self._tracker.aclose()
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._remote.aclose()

    async def _start(self) -> None:
        await self._ledger.totals()  # returns only after the ledger has replayed the folder
        state = await asyncio.to_thread(self._load_state)
        self._attempts, self._batches = dict(state.attempts), state.batches
        for call in sorted((call for calls in state.open.values() for call in calls), key=lambda each: each.attempt):
            self._wait_for(call)
        self._tracker.resume(state)
        self._working = asyncio.get_running_loop().create_task(self._work())

    async def _known(self, call: Call) -> Answered | None:
        """Return the reply to an earlier attempt whose caller died before receiving it."""
        row = await self._ledger.reply(call.query_id, call.path, call.sample)
        same = row is not None and row.request_hash == call.request_hash
        return Answered(from_journal(row.body)) if row is not None and same else None

    def _wait_for(self, call: Call) -> _Waiting:
        answer: asyncio.Future[BatchAnswer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may await it
        waiting = self._waiting[call.call_id] = _Waiting(call.key, answer)
        return waiting

    async def _enqueue(self, item: BatchItem) -> None:
        """Reserve the cost of a request and add it to the next batch."""
        call = item.call
        self._attempts[call.call_id] = call.attempt
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd, True, call.most_usd)
        except Exception as error:
            self.answer(call, error)
            return
        if self._used_up(call.query_id):  # the last wave ended while the request waited
            await self._give_up(call)
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
                    await self._launch(items)
                    continue
                at = now + CLOCK_CHECK_S  # no room: wait until a batch ends, which sets the event
            # ``wait_for`` is not used, because it may lose a cancellation that coincides with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(at - now, self._seconds_left(), CLOCK_CHECK_S))):
                    await self._wake.wait()

    async def _launch(self, items: list[BatchItem]) -> None:
        outdated = await self._ledger.outdated([item.call.key for item in items])
        for item in items:
            if item.call.key in outdated:  # a reply has ignored its limit since, so the reserve may be too small
                task = asyncio.get_running_loop().create_task(self._enqueue(item))
                self._again.add(task)
                task.add_done_callback(self._again.discard)
        for item in items:
            if self._used_up(item.call.query_id) and item.call.key not in outdated:
                await self._give_up(item.call)
        items = [item for item in items if item.call.key not in outdated and not self._used_up(item.call.query_id)]
        if not items:
            return
        new = {item.call.query_id for item in items} - self._asked
        short = bool(new) and (self._short_waves > 0 or await self._ledger.short())
        # Concurrent batches count as one wave. The next wave begins when one of them has released its reserves.
        if short and (self._batch_ended or not self._short_waves):
            self._short_waves += 1
            self._batch_ended = False
            if self._short_waves == WAVES_WHEN_SHORT:
                rest = "in real time" if self._until is not None else "not at all"
                self.note(
                    f"The budget has no room for all questions at once: this is the last of {WAVES_WHEN_SHORT} "
                    f"batches one after another, and questions without a place in it are asked {rest}."
                )
        self._asked |= new
        self._batches += 1
        self._tracker.launch(self._batches, items)

    async def _give_up(self, call: Call) -> None:
        await best_effort(self._ledger.settle(unsent(call, "no further batch was made")))
        try:
            self.answer(call, self._without_batch(call))
        except OverBudget as error:
            self.answer(call, error)

    def _used_up(self, query_id: str) -> bool:
        """Return whether a short budget allows no further wave, so that no more questions are put into batches."""
        return self._short_waves >= WAVES_WHEN_SHORT and query_id not in self._asked and self._batch_ended

    def _without_batch(self, call: Call) -> UseRealtime:
        """Return that a call is to be made in real time.

        Raises OverBudget if the config has no deadline: then the user did not accept the real-time price.
        """
        why = (
            f"The budget had no room for question {call.query_id} in {WAVES_WHEN_SHORT} batches one after another, and "
            "a further one would be small and may take a day."
        )
        if self._until is None:
            raise OverBudget(
                f"{why} Everything finished is kept; raise budget_usd and run the same command again, or give "
                "--deadline to have the rest asked in real time."
            )
        return UseRealtime(why)

    def _seconds_left(self) -> float:
        return CLOCK_CHECK_S if self._ended else self._late_at - _now_s()

    def _is_late(self) -> bool:
        """Return whether the deadline has passed; if so, cancel all batches."""
        if not self._ended and self._until is not None and _now_s() >= self._late_at:
            deadline = f"The deadline for batches ({self._until.astimezone():%Y-%m-%d %H:%M:%S %Z}) has passed:"
            since = deadline if self._config.mode == "batch" else "The run goes on in real time:"
            self._end_batches(
                f"{since} batches under way are cancelled, and calls that they did not answer are made in real time."
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
        """Release the reserves of requests that no batch will take, and send them in real time."""
        api_error = ApiError("failed", 0, f"never sent: {self._ended or self._halted}", retry=True)
        for item in items:
            await best_effort(self._ledger.settle(api_error.outcome(item.call)))
            self.answer(item.call, UseRealtime(self._ended))

    # Reports of the tracker (see ``BatchOwner``).

    def answer(self, call: Call, got: BatchAnswer | Exception) -> None:
        """Answer the callers that wait for a settled attempt, if there are any."""
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
        """Send smaller batches, or send them later, because a batch of this size was refused."""
        if refusal.reason == "large":
            self._builder.max_requests = max(1, requests // 2)
            return
        self._token_limit = max(1.0, min(self._token_limit, tokens) / 2)
        self._hold_until = time.monotonic() + self._hold_s
        self._hold_s = min(self._config.batch.longest_poll_s, 2 * self._hold_s)

    def halt(self, error: OkraError) -> None:
        """Raise ``error`` in every waiting and later call, because batches can no longer be made or watched."""
        if self._halted is not None:
            return
        self._halted = error
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(error)
        self._waiting.clear()
        self._builder.clear()

    def ended(self) -> None:
        """Note that a batch is over, so that another may fit."""
        self._batch_ended = True
        self._wake.set()

    def note(self, text: str) -> None:
        """Keep a note for the user."""
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)


class BatchBuilder:
    """Collects requests for the next batch, in order of arrival, and decides when to close it.

    A batch is closed when no request has arrived for a while. Later requests are put into the next batch, which runs
    concurrently. The builder does not wait for questions that are still retrieving, since they may make no call. It has
    no clock: every ``now`` is in seconds of one monotonic clock.
    """

    def __init__(self, config: BatchConfig) -> None:
        self._quiet_s, self._gather_s = config.quiet_s, config.gather_s
        self.max_requests = config.max_requests
        self._max_bytes = config.max_megabytes * MEGABYTE
        self._waiting: deque[tuple[BatchItem, float, int]] = deque()  # (item, time of arrival, bytes)
        self._bytes = 0
        self._last = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: BatchItem, now: float) -> None:
        """Add a request."""
        size = len(item.body) + LINE_OVERHEAD
        self._waiting.append((item, now, size))
        self._bytes += size
        self._last = now

    @property
    def due_at(self) -> float:
        """The time at which the batch is closed if no more requests arrive; infinite while it is empty."""
        if not self._waiting:
            return math.inf
        if len(self._waiting) >= self.max_requests or self._bytes >= self._max_bytes:
            return -math.inf
        return min(self._last + self._quiet_s, self._waiting[0][1] + self._gather_s)

    def next_batch(self, room: float = math.inf, *, alone: bool = True) -> list[BatchItem]:
        """Return the requests of a batch, in order of arrival, within the limits and ``room`` prompt tokens.

        A request that exceeds the room or the limits of a batch is sent alone if it is the first and no other batch is
        under way (``alone``). The endpoint then decides whether to accept it.
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
        """Remove and return all requests."""
        left = [item for item, _, _ in self._waiting]
        self._waiting.clear()
        self._bytes = 0
        return left
