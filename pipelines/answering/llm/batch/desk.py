"""The desk where requests wait for a batch: one for a run. It gathers waves, hands them in, and answers who waits.

The Ray actor in ``actors/batch_desk.py`` is this class behind a handle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from okralong.pipelines.answering.llm.batch.flights import Flights
from okralong.pipelines.answering.llm.batch.gathering import Gathering
from okralong.pipelines.answering.llm.batch.item import Answered, BatchAnswer, BatchItem, InRealtime
from okralong.pipelines.answering.llm.batch.past import Past
from okralong.pipelines.answering.llm.batch.refusal import Refusal
from okralong.pipelines.answering.llm.batch.remote import BatchEndpoint
from okralong.pipelines.answering.llm.batch.results import ResultReader, unanswered
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import Call
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.faults import Fault
from okralong.pipelines.answering.llm.ports import LedgerClient
from okralong.pipelines.answering.llm.replies import from_journal
from okralong.pipelines.answering.llm.router import quietly
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import BrokenError, EndpointError, OkraError

LOOK_AGAIN_S: Final = 60.0
"""How often the clock on the wall is compared with the deadline, whatever it does meanwhile. Ours."""
NOTES_KEPT: Final = 1000


@dataclass(eq=False, slots=True)
class _Open:
    """The attempt by which a call is being answered now, and the future that all who ask for it wait for."""

    key: CallKey
    answer: asyncio.Future[BatchAnswer]


class BatchDesk:
    """See ``BatchDeskClient`` for what the methods promise."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: LedgerClient,
        run_id: str,
        load_past: Callable[[], Past],
        until: datetime | None = None,
        backoff: tuple[float, float] = (1.0, 30.0),
    ) -> None:
        """``run_id`` marks the run's batches; ``load_past`` reads its folder once the ledger has replayed it; from
        ``until`` on nothing is handed in any more.

        Raises ConfigError when the key is needed and missing.
        """
        self._config, self._ledger, self._until, self._load_past = config, ledger, until, load_past
        self._remote = BatchEndpoint(config, run_id, backoff)
        reader = ResultReader(config, self._remote.key, token_counter(config.tokenizer))
        self._flights = Flights(config, self._remote, ledger, reader, self)
        self._gathering = Gathering(config.batch)
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
        """What a batch answers, when it has (see ``BatchDeskClient``)."""
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
        self._leave("The run is over.", tell=len(self._flights) > 0)
        await self._flights.finish()
        if self._halted is not None:
            raise self._halted

    async def notes(self, start: int) -> list[str]:
        """What there is to tell the user, from the ``start``-th note on."""
        return self._notes[start:]

    async def aclose(self) -> None:
        """Look after nothing any more."""
        await self._flights.aclose()
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
            self._gathering.most = max(1, requests // 2)
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
        self._gathering.take_all()

    def changed(self) -> None:
        """There may be room for another wave."""
        self._wake.set()

    def note(self, text: str) -> None:
        """Keep it for the user."""
        if len(self._notes) < NOTES_KEPT:
            self._notes.append(text)

    async def _start(self) -> None:
        await self._ledger.totals()  # it has replayed the folder when it answers
        past = await asyncio.to_thread(self._load_past)
        self._attempts, self._waves = dict(past.attempts), past.waves
        for call in sorted((call for calls in past.open.values() for call in calls), key=lambda each: each.attempt):
            self._wait_for(call)
        self._flights.adopt(past)
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
        self._gathering.add(item, time.monotonic())
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
                await self._turn_away(self._gathering.take_all())
            now = time.monotonic()
            at = max(self._gathering.due_at, self._hold_until)
            if at <= now:
                room = self._room - self._flights.tokens
                items = self._gathering.take(room, alone=not len(self._flights))
                if items:
                    self._waves += 1
                    self._flights.launch(self._waves, items)
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
        self._flights.leaving.set()
        self._wake.set()

    async def _turn_away(self, items: list[BatchItem]) -> None:
        """They go with no wave: what they have reserved is free again."""
        fault = Fault("failed", 0, f"never sent: {self._late or self._halted}", retry=True)
        for item in items:
            await quietly(self._ledger.settle(unanswered(item.call, fault)))
            self.answer(item.call, InRealtime(self._late))
