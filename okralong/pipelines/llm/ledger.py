"""The ledger of a run, the only writer of its folder. ``replay.py`` restores its state after a restart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, BrokenError, EndpointError, OverBudget, Usage
from okralong.pipelines.llm.bill import ARTIFACT
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
    rest_of,
    unknown,
)
from okralong.pipelines.llm.replay import FINAL, replay
from okralong.pipelines.llm.snapshots import origin
from okralong.pipelines.llm.usage import UNDECIDED

logger = logging.getLogger(__name__)

COMMIT_DELAY_S = 0.002  # project default
"""Seconds for which a commit waits for further rows; rows that arrive while it is written go into the next one. A
commit takes 0.2 ms of processor time, whether it has one row or ten."""

ANSWER_DELAY_S = 0.02  # project default
"""Seconds for which an answers row waits for another commit that it can join. No call waits for this row, so it need
not have a commit of its own."""


class LedgerWatch(Protocol):
    """Receives what a ledger has made durable, each thing once. Its methods return at once; their errors are logged."""

    def intended(self, call: Call) -> None:
        """Note an attempt that is about to be sent."""
        ...

    def settled(self, outcome: Outcome) -> None:
        """Note the outcome of an attempt."""
        ...

    def finished(self, row: Mapping[str, Any]) -> None:
        """Note the answers row of a question."""
        ...

    def close(self) -> None:
        """Send what is left. This may take seconds and is called in a thread."""
        ...


class RunLedger:
    """The only writer of a run folder: the budget, the journal, and the group commit that makes both durable.

    A method that writes returns when its rows are durable, or raises ValueError if they do not fit their table. Rows
    that arrive within a few milliseconds share one commit. On a cluster, the ledger runs in an actor.
    """

    def __init__(
        self,
        run: Folder,
        cap_usd: float | None,
        *,
        lock_wait_s: float = 0.0,
        reopened: frozenset[str] = frozenset(),
        reserve_bytes: int = reserve_bytes(),
        watches: Sequence[LedgerWatch] = (),
        budget: Budget | None = None,
        trust_usage: bool | None = None,
    ) -> None:
        """Open the run, replay it, and write the ledger rows that the last process did not write before it ended.

        Args:
            run: The run's folder.
            cap_usd: The budget in US dollars, None for no cap.
            lock_wait_s: Seconds to wait for a killed run's writer to release its lock.
            reopened: The query_ids of finished questions to ask again (see ``replay``).
            reserve_bytes: Disk space reserved for replies that arrive when the disk is full.
            watches: Metrics and traces of the run.
            budget: A budget with further limits than ``cap_usd``, which is ignored then.
            trust_usage: ``llm.trust_usage``. With None, nothing is reserved while a person must decide on a usage.

        Raises:
            BrokenError: There is no room for the reserve.
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
        self._watches = tuple(watches)
        self._budget = Budget(cap_usd) if budget is None else budget
        self._budget.restore(self._state.settled_usd, self._state.unknown_usd)
        self._calls: dict[CallKey, Call] = {}
        self._overlong_in_a_row = 0
        self._undecided = trust_usage is None and self._state.undecided
        self._waiting: list[_Waiter] = []
        self._room = asyncio.Event()
        self._disk = asyncio.Lock()
        self._next_commit: asyncio.Task[Refused] | None = None
        self._needed = asyncio.Event()  # set if the next commit must not wait
        self._absorbing: asyncio.Task[None] | None = None
        self._closed = False

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """Return the last reply that is recorded for this step and sample, or None."""
        question = self._state.questions.get(query_id)
        return question.rows.get((path, sample, "reply")) if question else None

    async def lookup(self, query_id: str) -> list[JournalRow]:
        """Return the journal rows of an unfinished question, without requests: for each key the last row, in order."""
        question = self._state.questions.get(query_id)
        return list(question.rows.values()) if question else []

    async def spent(self, query_id: str) -> tuple[int, Usage, float]:
        """Return the number of calls with a reply, the tokens and the US dollars of an unfinished question.

        The dollars are what the calls would have cost without replies shared by other runs.
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
        """Append journal rows, which the next commit makes durable; existing rows are skipped."""
        for row in rows:
            if self._is_finished(row.query_id):  # the message came twice
                continue
            known = self._state.question(row.query_id).rows
            if known.get(row.key) != row:
                self._log.append_step(row)
                known[row.key] = row

    async def admit(self, query_id: str, reserve_usd: float) -> None:
        """Reserve US dollars for a question, waiting while others may release reserves. Raises OverBudget."""
        await self._make_room(query_id, reserve_usd, lambda: self._budget.admit(query_id, reserve_usd))

    async def reserve(
        self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0
    ) -> None:
        """Reserve the most that an attempt can cost (see ``Budget.reserve``), waiting as ``admit`` does.

        Nothing is written. This is called before the limiter, so that no call holds a permit while it waits for budget.
        Raises OverBudget, BrokenError if the disk has failed, and EndpointError while a usage is undecided.
        """
        self._log.check_disk()
        if self._undecided:
            raise EndpointError(UNDECIDED)
        if not self._budget.holds(key):  # true if the message came twice, even across a restart
            await self._make_room(query_id, usd, lambda: self._budget.reserve(key, query_id, usd, waits, most_usd))

    def may_go(self, key: CallKey) -> bool:
        """Return whether a reserved call may still be sent (see ``Budget.may_go``)."""
        return self._budget.may_go(key)

    async def outdated(self, keys: Sequence[CallKey]) -> set[CallKey]:
        """Release and return the unsent attempts that may not be sent (see ``may_go``) without a new reserve."""
        late = {key for key in keys if not self._budget.may_go(key)}
        for key in late:
            self.unreserve(key)
        return late

    async def short(self) -> bool:
        """Return whether the budget is too small for everything that waits for it."""
        return self._budget.lacks(sum(each.usd for each in self._waiting))

    def unreserve(self, key: CallKey) -> None:
        """Release the reserve of an attempt, unless it has an intent."""
        if key not in self._calls and not self._budget.in_doubt(key):
            self._budget.settle(key, 0.0)
            self._wake_waiting()

    async def intend(self, call: Call) -> None:
        """Make the intent of an attempt durable before it is sent, and reserve its cost if that was not done.

        Raises OverBudget, or if the disk has failed OSError or BrokenError; then there is no intent.
        """
        # The reserves of an earlier process are lost.
        await self.reserve(call.key, call.query_id, call.reserved_usd, call.mode == "batch", call.most_usd)
        if call.key not in self._calls and not self._budget.in_doubt(call.key):
            self._calls[call.key] = replace(call, body="{}")  # the request is in the journal
            body = intent_body(call, self._budget.held_usd(call.key))
            self._log.append_step(JournalRow(call.query_id, call.path, "request", body, call.sample, call.request_hash))
            self._tell(lambda watch: watch.intended(call))
        try:
            await self.durable(call.query_id)
            self._log.check_disk()
        except (OSError, BrokenError):
            self._calls.pop(call.key, None)
            raise

    async def settle(self, outcome: Outcome) -> int:
        """Make the outcome of an attempt and its reply durable, before the reply is used.

        If the attempt is settled already, only the status "unknown" is corrected. Returns how many replies of the run
        in a row were ``overlong``.
        """
        call = outcome.call
        question = self._state.question(call.query_id)
        if call.key in question.settled:
            return self._overlong_in_a_row
        step: JournalRow | None = None
        if outcome.status == "unknown":
            self._budget.hold_unknown(call.key, outcome.cost_usd)
            outcome = self._held_in_full(outcome)
        else:
            if outcome.unreported:
                unseen_usd = self._budget.unseen_usd(call.key, outcome.cost_usd)
                outcome = replace(outcome, held_usd=max(outcome.held_usd, unseen_usd))
            self._budget.settle(call.key, outcome.cost_usd, overlong=outcome.overlong)
        if outcome.status in USED:
            self._overlong_in_a_row = self._overlong_in_a_row + 1 if outcome.overlong else 0
            question.pay(ledger_row(outcome))
            self._state.calls += 1
            self._state.usage += outcome.usage
            self._state.snapshots[origin(ledger_row(outcome))] += 1
            if outcome.status == "cached":  # nothing was sent, so no intent recorded the request
                asked = intent_body(call)
                self._log.append_step(
                    JournalRow(call.query_id, call.path, "request", asked, call.sample, call.request_hash)
                )
            body = reply_body(outcome)
            step = JournalRow(call.query_id, call.path, "reply", body, call.sample, call.request_hash)
            self._log.append_step(step)
        self._calls.pop(call.key, None)
        self._log.append("ledger", ledger_row(outcome))
        if outcome.held_usd:
            rest = rest_of(outcome)
            self._budget.hold(rest.call.key, call.query_id, outcome.held_usd)
            self._log.append("ledger", ledger_row(rest))
        self._undecided = self._undecided or outcome.undecided
        self._wake_waiting()
        await self.durable(call.query_id)
        if step is not None:
            question.rows[step.key] = step
        self._tell(lambda watch: watch.settled(outcome))
        return self._overlong_in_a_row

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write the answers row of a question and release its reserve; its calls in flight become "unknown".

        Missing columns are filled in: US dollars and tokens from the ledger, ``replied_by`` from the last reply, and
        ``finished_at``. Returns the row as written, or None if the question was finished before.
        """
        query_id = str(row["query_id"])
        if self._is_finished(query_id):  # the message came twice: its cost is no longer known
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
        self._tell(lambda watch: watch.finished(written))
        return written

    async def release(self, query_id: str) -> bool:
        """Abandon a question and release its reserve; its calls in flight become "unknown".

        This is called when a question stops unfinished, or is resumed after its planner died; unknown ids are ignored.
        Returns False if the question is finished, because its planner died just after it wrote the answers row.
        """
        if self._end(query_id):
            await self.durable(query_id)
        return not self._is_finished(query_id)

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        row = {"id": item, "stage": stage, "error_type": error_type, "message": message, "at": datetime.now(UTC)}
        self._log.append("failures", row)
        self._state.failures += 1
        await self.durable(item)

    def over(self, call: Call) -> bool:
        """Return whether an attempt's reply is already known."""
        return call.key in self._state.question(call.query_id).settled

    async def begun(self) -> set[str]:
        """Return the unfinished questions that an earlier process started."""
        return set(self._state.questions)

    async def answered(self) -> dict[str, str]:
        """Return the status by query_id of every question with an answers row."""
        return dict(self._state.statuses)

    async def totals(self) -> Totals:
        """Return the sums over the run so far."""
        counts: dict[str, int] = {}
        for status in self._state.statuses.values():
            counts[status] = counts.get(status, 0) + 1
        budget = self._budget
        money = (budget.settled_usd, budget.unknown_usd, budget.reserved_usd, budget.cap_usd)
        snapshots = dict(self._state.snapshots)
        return Totals(
            counts, self._state.calls, self._state.usage, *money, self._state.failures, snapshots, self._running()
        )

    def _running(self) -> dict[tuple[str, int], int]:
        """Count the unfinished questions by the workflow of their plan and their number of calls."""
        found: Counter[tuple[str, int]] = Counter()
        for query_id, question in self._state.questions.items():
            if not (query_id.startswith(ARTIFACT) or self._is_finished(query_id)):
                plan = question.rows.get(("plan", 0, "plan"))
                found[str(json.loads(plan.body).get("workflow") or "") if plan else "", question.calls] += 1
        return dict(found)

    def abandon(self) -> None:
        """Release the lock without writing anything, as if the process had died."""
        self._log.abandon()

    async def close(self) -> None:
        """Write the remaining rows (calls in flight as "unknown"), merge the small files and release the lock.

        Closing twice is a no-op.
        """
        if self._closed:
            return
        for key, call in self._calls.items():
            self._budget.hold_unknown(key)
            lost = self._held_in_full(unknown(call, "the run was closed while this call was in flight"))
            self._log.append("ledger", ledger_row(lost))
        self._calls.clear()
        self._closed = True
        if self._absorbing is not None:
            await self._absorbing
        async with self._disk:
            await asyncio.to_thread(self._log.close)
        await asyncio.to_thread(self._tell, lambda watch: watch.close())

    def _tell(self, note: Callable[[LedgerWatch], None]) -> None:
        for watch in self._watches:
            try:
                note(watch)
            except Exception:
                logger.exception("%s failed; the run goes on", type(watch).__name__)

    async def _make_room(self, query_id: str, usd: float, attempt: Callable[[], bool]) -> None:
        """Repeat ``attempt`` until it succeeds; give up when no question or call is left that may release a reserve."""
        while not attempt():
            waiting = {query_id, *(other.query_id for other in self._waiting)}
            if self._budget.stuck(query_id, usd, waiting) or self._budget.hopeless(usd, query_id):
                raise OverBudget(self._budget.refusal(query_id, usd))
            waiter = _Waiter(query_id, usd)
            self._waiting.append(waiter)
            try:
                await self._room.wait()
            finally:
                self._waiting.remove(waiter)
            if waiter.ended:  # the question was closed, so that a reserve would never be used or released
                raise OverBudget(f"Question {query_id} ended while it waited for room in the budget.")

    def _is_finished(self, query_id: str) -> bool:
        """Return whether a question is finished and is not to be asked again, so that its steps need not be kept."""
        return self._state.statuses.get(query_id) in FINAL and query_id not in self._reopened

    def _end(self, query_id: str) -> bool:
        """Close a question in the budget. Return whether rows were appended for its calls in flight."""
        for key in self._budget.calls_of(query_id):
            if key not in self._calls:  # without an intent it was never sent
                self._budget.settle(key, 0.0)
        late = self._budget.close(query_id)
        for key in late:
            call = self._calls.pop(key)
            lost = self._held_in_full(unknown(call, "the question ended while this call was in flight"))
            self._log.append("ledger", ledger_row(lost))
        for waiter in self._waiting:
            waiter.ended = waiter.ended or waiter.query_id == query_id
        self._wake_waiting()
        return bool(late)

    def _held_in_full(self, lost: Outcome) -> Outcome:
        """Return the outcome with all that the budget holds: after an ignored limit, more than the call's reserve."""
        return replace(lost, cost_usd=max(lost.cost_usd, self._budget.held_usd(lost.call.key)))

    def _wake_waiting(self) -> None:
        """Wake all that wait for room in the budget."""
        self._room.set()
        self._room = asyncio.Event()

    async def durable(self, *query_ids: str, within_s: float = 0.0) -> None:
        """Wait until every row appended before this call is on disk.

        ``within_s`` is the number of seconds for which these rows may wait for another commit that they can join.
        Raises ValueError if a row of these questions does not fit its table.
        """
        if self._closed:
            raise ArchiveError("This run was closed while a question was still in progress. Run the command again.")
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
        """Convert the log to Parquet; commits go on in the next segment of the log."""
        async with self._disk:
            if self._closed:
                return
            sealed = self._log.seal()
        try:
            await asyncio.to_thread(self._log.absorb, sealed)
        except OSError as error:  # the log still has the rows, and commits report a full disk on their own
            logger.warning("The log could not be converted to Parquet and will be retried later: %s", error)


@dataclass(eq=False, slots=True)
class _Waiter:
    """A call or question that waits for room in the budget. ``ended`` is True if the question was closed meanwhile."""

    query_id: str
    usd: float
    ended: bool = False
