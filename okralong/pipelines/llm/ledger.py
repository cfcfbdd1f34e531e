"""The ledger of a run, and what its folder says about its past: what is finished, what is known of the rest, what was
spent.

A call whose intent is in the journal and whose outcome is nowhere was in flight when its process ended. Nobody knows
whether it was billed, so it becomes a ledger row "unknown" that holds its full reserve.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, BrokenError, OverBudget, Usage
from okralong.pipelines.llm.budget import Budget
from okralong.pipelines.llm.journal import (
    JournalRow,
    Refused,
    RunLog,
    reserve_bytes,
)
from okralong.pipelines.llm.records import (
    USED,
    Call,
    CallKey,
    Outcome,
    Totals,
    intent_body,
    ledger_row,
    reply_body,
    unknown,
)
from okralong.pipelines.llm.replay import FINAL, replay
from okralong.pipelines.llm.snapshots import origin

logger = logging.getLogger(__name__)


COMMIT_DELAY_S = 0.002
"""How long a commit waits for further rows, in seconds. Ours: what comes while one is written goes with the next, and a
commit takes a fifth of a millisecond of a processor, whether it holds one row or ten."""

ANSWER_DELAY_S = 0.02
"""How long an answers row waits for a commit that others need at once, in seconds. Ours: no call waits for it, so it
is the one of a one-call question's three commits that can go with another's."""


class RunLedger:
    """The one writer of a run folder: the budget, the journal, and the group commit that makes both durable cheaply.

    A method that writes returns only when what it wrote is durable, or raises ValueError when what it was given fits no
    table. Requests that arrive within a few milliseconds share one commit. ``actors/llm.py`` puts it behind a Ray
    handle.
    """

    def __init__(
        self,
        run: Folder,
        cap_usd: float | None,
        *,
        lock_wait_s: float = 0.0,
        reopened: frozenset[str] = frozenset(),
        reserve_bytes: int = reserve_bytes(),
    ) -> None:
        """Open the run and replay it; the rows that the last process owed are written before anything else.

        ``reopened`` are the query_ids of questions that have an end and are asked again all the same (see ``replay``);
        ``reserve_bytes`` are kept for the replies that arrive when the disk is full. Raises BrokenError where there is
        no room for these.
        """
        self._log = RunLog.open(run, lock_wait_s, reserve_bytes)
        try:
            self._state = replay(self._log, reopened)
            for row in self._state.to_write:
                self._log.append("ledger", row)
            self._log.commit()
        except BaseException:
            self._log.abandon()
            raise
        self._reopened = set(reopened)
        self._budget = Budget(cap_usd)
        self._budget.restore(self._state.settled_usd, self._state.unknown_usd)
        self._calls: dict[CallKey, Call] = {}
        self._unstoppable = 0
        self._waiting: list[_Waiter] = []
        self._room = asyncio.Event()
        self._disk = asyncio.Lock()
        self._next_commit: asyncio.Task[Refused] | None = None
        self._needed = asyncio.Event()  # the next commit, at once
        self._absorbing: asyncio.Task[None] | None = None
        self._closed = False

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """The last reply recorded at that step, or None."""
        question = self._state.questions.get(query_id)
        return question.rows.get((path, sample, "reply")) if question else None

    async def lookup(self, query_id: str) -> list[JournalRow]:
        """The journal rows of an unfinished question (without requests), the last one of each key, in order."""
        question = self._state.questions.get(query_id)
        return list(question.rows.values()) if question else []

    async def spent(self, query_id: str) -> tuple[int, Usage, float]:
        """Of an unfinished question: the calls that brought a reply, their tokens, and what they had cost in US dollars
        if no other run had shared its replies.
        """
        question = self._state.question(query_id)
        return question.calls, question.usage, question.alone_usd

    async def record(self, rows: Sequence[JournalRow]) -> None:
        """Make journal rows durable."""
        for row in rows:
            self._log.append_step(row)
        await self.durable(*{row.query_id for row in rows})
        for row in rows:
            self._state.question(row.query_id).rows[row.key] = row

    def note(self, rows: Sequence[JournalRow]) -> None:
        """Append journal rows, which the next commit makes durable; rows that are there already are left out."""
        for row in rows:
            if self._has_its_end(row.query_id):  # the message came twice
                continue
            known = self._state.question(row.query_id).rows
            if known.get(row.key) != row:
                self._log.append_step(row)
                known[row.key] = row

    async def admit(self, query_id: str, reserve_usd: float) -> None:
        """Set a reserve aside, waiting for others to give back what they do not need. Raises OverBudget."""
        await self._make_room(query_id, reserve_usd, lambda: self._budget.admit(query_id, reserve_usd))

    async def reserve(
        self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0
    ) -> None:
        """Set the worst case of an attempt aside, waiting as ``admit`` does. Writes nothing. Raises OverBudget, and
        BrokenError once the disk has failed. ``waits`` and ``most_usd`` are as for ``Budget.reserve``.

        The limiter comes after it, so that nobody who waits for money holds a place at the endpoint.
        """
        self._log.check_disk()
        if not self._budget.holds(key):  # it does when the message was sent twice, also across a restart
            await self._make_room(query_id, usd, lambda: self._budget.reserve(key, query_id, usd, waits, most_usd))

    def may_go(self, key: CallKey) -> bool:
        """See ``Budget.may_go``."""
        return self._budget.may_go(key)

    async def outdated(self, keys: Sequence[CallKey]) -> set[CallKey]:
        """Give back what was reserved for those of these unsent attempts that may not go any more (see ``may_go``), and
        return them: they have to be reserved again.
        """
        late = {key for key in keys if not self._budget.may_go(key)}
        for key in late:
            self.unreserve(key)
        return late

    async def short(self) -> bool:
        """Return whether the budget has no room for all questions and calls together that wait."""
        return self._budget.lacks(sum(each.usd for each in self._waiting))

    def unreserve(self, key: CallKey) -> None:
        """Give back what ``reserve`` set aside for an attempt that will have no intent. One that has it is left."""
        if key not in self._calls and not self._budget.in_doubt(key):
            self._budget.settle(key, 0.0)
            self._make_known_that_room_may_be()

    async def intend(self, call: Call) -> None:
        """Make the intent of an attempt durable, before it is sent; reserves it when nobody did.

        Raises OverBudget, and OSError or BrokenError when the disk has failed: there is no intent then.
        """
        # A call that was reserved before this process was started anew is not held any more.
        await self.reserve(call.key, call.query_id, call.reserved_usd, call.mode == "batch", call.most_usd)
        if call.key not in self._calls and not self._budget.in_doubt(call.key):
            self._calls[call.key] = replace(call, body="{}")  # the request is in the journal
            body = intent_body(call)
            self._log.append_step(JournalRow(call.query_id, call.path, "request", body, call.sample, call.request_hash))
        try:
            await self.durable(call.query_id)
            self._log.check_disk()
        except (OSError, BrokenError):
            self._calls.pop(call.key, None)
            raise

    async def settle(self, outcome: Outcome) -> int:
        """Make the outcome of an attempt durable, with its reply, before the reply is used. Returns how many replies in
        a row, over the whole run, were ``unstoppable``.

        A second settlement of one attempt corrects an "unknown" and is else ignored.
        """
        call = outcome.call
        question = self._state.question(call.query_id)
        if call.key in question.settled:
            return self._unstoppable
        step: JournalRow | None = None
        if outcome.status == "unknown":
            self._budget.hold_unknown(call.key)
        else:
            self._budget.settle(call.key, outcome.cost_usd, overlong=outcome.overlong)
        if outcome.status in USED:
            self._unstoppable = self._unstoppable + 1 if outcome.unstoppable else 0
            question.pay(ledger_row(outcome))
            self._state.calls += 1
            self._state.usage += outcome.usage
            self._state.snapshots[origin(ledger_row(outcome))] += 1
            body = reply_body(outcome)
            step = JournalRow(call.query_id, call.path, "reply", body, call.sample, call.request_hash)
            self._log.append_step(step)
        self._calls.pop(call.key, None)
        self._log.append("ledger", ledger_row(outcome))
        self._make_known_that_room_may_be()
        await self.durable(call.query_id)
        if step is not None:
            question.rows[step.key] = step
        return self._unstoppable

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write the one answers row of a question and free what it had reserved; calls of it that are still in flight
        are held as unknown. Returns the row as it was written, None where the question had its end before.

        Columns of money and tokens that are missing in ``row`` are filled in from the ledger, and ``finished_at``, and
        ``replied_by`` by the last reply.
        """
        query_id = str(row["query_id"])
        if self._has_its_end(query_id):  # the message came twice: what it has cost is not known any more
            return None
        question = self._state.question(query_id)
        self._end(query_id)
        spent = {
            "calls": question.calls,
            "prompt_tokens": question.usage.prompt_tokens,
            "cached_tokens": question.usage.cached_tokens,
            "completion_tokens": question.usage.completion_tokens,
            "cost_usd": question.cost_usd,
            "weighted_tokens": question.usage.weighted_tokens,
            "replied_by": question.replied_by or None,
            "finished_at": datetime.now(UTC),
        }
        written = {**spent, **row}
        self._log.append("answers", written)
        await self.durable(query_id, within_s=ANSWER_DELAY_S)
        self._state.statuses[query_id] = str(row["status"])
        self._reopened.discard(query_id)
        if row["status"] in FINAL:
            self._state.questions.pop(query_id, None)
        return written

    async def release(self, query_id: str) -> bool:
        """Put a question down without an answers row: what it had reserved is free, its calls in flight are unknown.

        For a question that stops unfinished, or is taken up anew after its planner died. An unknown one is fine.
        Returns whether there is something left to do: False where its planner died just after the answers row.
        """
        if self._end(query_id):
            await self.durable(query_id)
        return not self._has_its_end(query_id)

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        row = {"id": item, "stage": stage, "error_type": error_type, "message": message, "at": datetime.now(UTC)}
        self._log.append("failures", row)
        self._state.failures += 1
        await self.durable(item)

    def over(self, call: Call) -> bool:
        """Whether an attempt brought a reply that is known."""
        return call.key in self._state.question(call.query_id).settled

    async def begun(self) -> set[str]:
        """The questions without an end of which something is known: they were taken up before."""
        return set(self._state.questions)

    async def answered(self) -> dict[str, str]:
        """Status by query_id of every question that has an answers row."""
        return dict(self._state.statuses)

    async def totals(self) -> Totals:
        """Sums over the run so far."""
        counts: dict[str, int] = {}
        for status in self._state.statuses.values():
            counts[status] = counts.get(status, 0) + 1
        budget = self._budget
        money = (budget.settled_usd, budget.unknown_usd, budget.reserved_usd, budget.cap_usd)
        snapshots = dict(self._state.snapshots)
        return Totals(counts, self._state.calls, self._state.usage, *money, self._state.failures, snapshots)

    async def close(self) -> None:
        """Write what is left, calls in flight as unknown, merge the small files, let go of the run. Twice is fine."""
        if self._closed:
            return
        for key, call in self._calls.items():
            self._budget.hold_unknown(key)
            self._log.append("ledger", ledger_row(unknown(call, "the run was closed while this call was in flight")))
        self._calls.clear()
        self._closed = True
        if self._absorbing is not None:
            await self._absorbing
        async with self._disk:
            await asyncio.to_thread(self._log.close)

    async def _make_room(self, query_id: str, usd: float, attempt: Callable[[], bool]) -> None:
        """Try until it fits. Waits only while somebody who does not wait may still give something back."""
        while not attempt():
            waiting = {query_id, *(other.query_id for other in self._waiting)}
            stuck = self._budget.open_questions <= waiting and not self._budget.calls_in_flight
            if stuck or self._budget.hopeless(usd, query_id):
                raise OverBudget(self._refusal(query_id, usd))
            waiter = _Waiter(query_id, usd)
            self._waiting.append(waiter)
            try:
                await self._room.wait()
            finally:
                self._waiting.remove(waiter)
            if waiter.ended:  # nobody would use what it reserves, and nobody would give it back
                raise OverBudget(f"Question {query_id} ended while it waited for room in the budget.")

    def _has_its_end(self, query_id: str) -> bool:
        """Whether a question is finished for good, and its steps are not kept any more."""
        return self._state.statuses.get(query_id) in FINAL and query_id not in self._reopened

    def _end(self, query_id: str) -> bool:
        """Close a question in the budget and wake who waits; whether rows were appended for calls in flight."""
        for key in self._budget.calls_of(query_id):
            if key not in self._calls:
                self._budget.settle(key, 0.0)  # without an intent it was never sent
        late = self._budget.close(query_id)
        for key in late:
            lost = unknown(self._calls.pop(key), "the question ended while this call was in flight")
            self._log.append("ledger", ledger_row(lost))
        for waiter in self._waiting:
            waiter.ended = waiter.ended or waiter.query_id == query_id
        self._make_known_that_room_may_be()
        return bool(late)

    def _make_known_that_room_may_be(self) -> None:
        self._room.set()
        self._room = asyncio.Event()

    def _refusal(self, query_id: str, usd: float) -> str:
        budget = self._budget
        return (
            f"Question {query_id} needs up to ${usd:.6f} more, which would pass budget_usd = {budget.cap_usd}: "
            f"${budget.settled_usd:.6f} are spent, ${budget.unknown_usd:.6f} are held for calls that may have been "
            f"billed, ${budget.reserved_usd:.6f} are reserved. Everything finished is kept; raise budget_usd and run "
            "the same command again."
        )

    async def durable(self, *query_ids: str, within_s: float = 0.0) -> None:
        """Return when every row appended before this call is on disk. Raises ValueError when one of these questions'
        rows fits no table. ``within_s`` is how long the commit may wait for another that is needed at once.
        """
        if self._closed:
            raise ArchiveError("This run was closed while a question was still being worked on. Run the command again.")
        if self._next_commit is None:
            self._needed = asyncio.Event()
            self._next_commit = asyncio.get_running_loop().create_task(self._commit(self._needed, within_s))
        if not within_s:
            self._needed.set()
        refused = await asyncio.shield(self._next_commit)
        for query_id in query_ids:
            if query_id in refused:
                raise refused[query_id]

    async def _commit(self, needed: asyncio.Event, within_s: float) -> Refused:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(needed.wait(), within_s or None)
        await asyncio.sleep(COMMIT_DELAY_S)
        async with self._disk:
            self._next_commit = None
            batch = self._log.take_pending()
            try:
                refused = await asyncio.to_thread(self._log.write, batch)
            except BaseException:
                self._log.restore(batch)
                raise
        if self._log.full and (self._absorbing is None or self._absorbing.done()):
            self._absorbing = asyncio.get_running_loop().create_task(self._absorb())
        return refused

    async def _absorb(self) -> None:
        """Make Parquet of the log so far. Commits go on meanwhile, in its next segment."""
        async with self._disk:
            if self._closed:
                return
            sealed = self._log.seal()
        try:
            await asyncio.to_thread(self._log.absorb, sealed)
        except OSError as error:  # the log still has it, and commits will say so themselves if the disk is full
            logger.warning("The log could not be made Parquet, and will be later: %s", error)


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call or an admission that waits for room; ``ended`` when its question was closed meanwhile."""

    query_id: str
    usd: float
    ended: bool = False
