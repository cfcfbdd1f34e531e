"""The gateway to a run's budget, rate limits, journal and ledger. Each call sends it two messages.

``Gateway.ask`` returns once the cost is reserved, a permit is held, and the intent is durable together with all earlier
steps of the question. ``Gateway.came`` releases the permit, and returns once the outcome and its reply are durable.

``RunLedger`` and ``LimiterClient`` do the work, always in the order budget, permit, disk. Thus a call that waits for
budget holds no permit. A message may arrive twice: if the gateway's process dies while handling it, its successor
receives it again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from okralong.pipelines.core.types import BrokenError, StoppedError, Usage
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.ports import NO_STEPS, GatewayPort, Sendable, Steps
from okralong.pipelines.llm.rate_limit import NO_HEADERS, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import LimiterClient
from okralong.pipelines.llm.records import Call, CallKey, Outcome

logger = logging.getLogger(__name__)


class Gateway:
    """Budget, rate limits, journal and ledger of one run, for any number of callers on one event loop."""

    def __init__(self, ledger: RunLedger, limiters: Sequence[LimiterClient]) -> None:
        """Take the endpoints' ``limiters``, to which calls refer by position."""
        self.ledger = ledger
        self.limiters = list(limiters)
        self._permits: dict[CallKey, tuple[int, int]] = {}
        self._asking: dict[CallKey, tuple[str, asyncio.Task[Sendable]]] = {}
        self._given_up: dict[CallKey, str] = {}  # query_ids of attempts whose end arrived before their request
        self._abandoned: set[str] = set()

    async def ask(
        self, call: Call, tokens: int, expires_s: float, limiter: int = 0, steps: Steps = NO_STEPS
    ) -> Sendable:
        """Wait until an attempt may be sent and its intent and steps are durable.

        ``came`` for the same attempt ends the wait, even if it arrives before this message, which is possible in a
        threaded actor.

        Args:
            call: The attempt.
            tokens: Tokens that the endpoint counts against its limit: prompt and longest reply.
            expires_s: Seconds after which the permit expires, in case its holder has died.
            limiter: The position of the endpoint's limiter.
            steps: The question's steps that are not durable yet.

        Raises:
            OverBudget: The budget is used up. After any of these errors, neither reserve nor permit is held.
            QuestionError: The call exceeds the endpoint's tokens per minute.
            BrokenError: The question was released while the call waited.
            StoppedError: The question was abandoned.
        """
        self._check_abandoned(call.query_id)
        if self._given_up.pop(call.key, None) is not None:
            raise BrokenError(
                f"Question {call.query_id}: the attempt was cancelled before its request for permission arrived."
            )
        if call.key not in self._asking:  # a repeated message joins the wait of the first
            task = asyncio.create_task(self._ask(call, tokens, expires_s, limiter, steps))
            self._asking[call.key] = call.query_id, task
            task.add_done_callback(partial(self._asked, call.key))
        _, task = self._asking[call.key]
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise BrokenError(
                    f"Question {call.query_id} was released while a call waited for permission to be sent."
                ) from None
            task.cancel()
            raise

    async def _ask(self, call: Call, tokens: int, expires_s: float, limiter: int, steps: Steps) -> Sendable:
        if self.ledger.over(call):  # a repeated message, which arrived after the attempt's end
            return Sendable(0.0, datetime.now(UTC))
        await self._take(call.query_id, steps)
        await self.ledger.reserve(call.key, call.query_id, call.reserved_usd, most_usd=call.most_usd)
        asked_at = time.perf_counter()
        try:
            if call.key not in self._permits:
                permit = await self.limiters[limiter].acquire(tokens, expires_s)
                self._permits[call.key] = limiter, permit
            if not await self._may_still_go(call):
                return await self._ask(call, tokens, expires_s, limiter, NO_STEPS)
            sendable = Sendable(time.perf_counter() - asked_at, datetime.now(UTC))
            await self.ledger.intend(replace(call, queue_s=sendable.queue_s, started_at=sendable.started_at))
        except BaseException:
            await self._give_back(call.key, NO_HEADERS, unsent=True)
            self.ledger.unreserve(call.key)
            raise
        return sendable

    async def _may_still_go(self, call: Call) -> bool:
        """Return whether a call that waited for its permit may still be sent. If not, release permit and reserve."""
        if self.ledger.may_go(call.key):
            return True
        await self._give_back(call.key, NO_HEADERS, unsent=True)
        self.ledger.unreserve(call.key)
        return False

    async def reserve(self, call: Call, steps: Steps = NO_STEPS) -> None:
        """Do the first part of ``ask`` (budget), for a call that then chooses among several endpoints' limiters."""
        self._check_abandoned(call.query_id)
        await self._take(call.query_id, steps)
        await self.ledger.reserve(call.key, call.query_id, call.reserved_usd, most_usd=call.most_usd)

    async def acquire(self, limiter: int, tokens: int, expires_s: float) -> int:
        """Do the second part of ``ask`` (permit; see ``LimiterClient.acquire``)."""
        return await self.limiters[limiter].acquire(tokens, expires_s)

    async def give_back(self, limiter: int, permit: int) -> None:
        """Release a permit of ``acquire`` that was not used."""
        await self.limiters[limiter].release(permit, unsent=True)

    async def intend(self, call: Call, limiter: int, permit: int) -> bool:
        """Do the third part of ``ask`` (disk) with the chosen permit. Returns False if the call must start over."""
        self._permits[call.key] = limiter, permit
        if not await self._may_still_go(call):
            return False
        await self.ledger.intend(call)
        return True

    async def came(
        self, outcome: Outcome, headers: RateLimitHeaders = NO_HEADERS, unsent: bool = False, steps: Steps = NO_STEPS
    ) -> int:
        """Settle an attempt that has ended, or was abandoned before it was sent (``unsent``).

        ``headers`` has the rate limits that the reply states; they are applied at once, before the outcome is written.
        Waits until the outcome is durable. Returns the number of consecutive replies of the run, up to now, that
        ignored their limits and could not be aborted.
        """
        if (asking := self._asking.get(outcome.call.key)) is not None:
            asking[1].cancel()
        elif unsent and outcome.call.key not in self._permits:
            self._given_up[outcome.call.key] = outcome.call.query_id
        await self._give_back(outcome.call.key, headers, unsent=unsent)
        await self._take(outcome.call.query_id, steps)
        return await self.ledger.settle(outcome)

    async def record(self, query_id: str, steps: Steps) -> None:
        """Make steps durable at once, for use outside journal and ledger.

        Raises OverBudget.
        """
        await self._take(query_id, steps)
        await self.ledger.durable(query_id)

    async def begin(self, query_id: str) -> list[JournalRow] | None:
        """Return the journal rows of a question that starts or resumes, or None if it is finished.

        The question's reserve is released, and its calls in flight become unknown.
        """
        self._abandoned.discard(query_id)
        self._withdraw(query_id)
        return await self.ledger.lookup(query_id) if await self.ledger.release(query_id) else None

    async def known(self, query_id: str) -> list[JournalRow]:
        """Return the journal rows of a question that continues (see ``RunLedger.lookup``)."""
        return await self.ledger.lookup(query_id)

    async def spent(self, query_id: str) -> tuple[int, Usage, float]:
        """Return calls, tokens and dollars of a question (see ``RunLedger.spent``)."""
        return await self.ledger.spent(query_id)

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """Return the last reply recorded at a step (see ``RunLedger.reply``)."""
        return await self.ledger.reply(query_id, path, sample)

    async def finish(self, row: Mapping[str, Any], rows: Sequence[JournalRow] = ()) -> Mapping[str, Any] | None:
        """Write a question's answers row (see ``RunLedger.finish``), and its steps that are not durable yet."""
        self.ledger.note(rows)
        return await self.ledger.finish(row)

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures`` (see ``RunLedger.fail``)."""
        await self.ledger.fail(item, stage, error_type, message)

    async def release(self, query_id: str) -> bool:
        """Abandon a question (see ``RunLedger.release``)."""
        self._withdraw(query_id)
        return await self.ledger.release(query_id)

    def abandon(self, query_id: str) -> None:
        """Send nothing more for a question, until it begins again. Calls in flight go on until they are durable."""
        self._abandoned.add(query_id)
        self._withdraw(query_id)

    def _check_abandoned(self, query_id: str) -> None:
        if query_id in self._abandoned:
            raise StoppedError(f"Question {query_id} was abandoned; nothing more is sent for it.")

    def _withdraw(self, query_id: str) -> None:
        """Cancel the waiting calls of a question whose planner has died or stopped, and forget them."""
        self._given_up = {key: by for key, by in self._given_up.items() if by != query_id}
        for asked_by, task in list(self._asking.values()):
            if asked_by == query_id:
                task.cancel()

    def _asked(self, key: CallKey, task: asyncio.Task[Sendable]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the caller may be gone

    async def _take(self, query_id: str, steps: Steps) -> None:
        self.ledger.note(steps.rows)
        if steps.admit_usd is not None:
            await self.ledger.admit(query_id, steps.admit_usd)

    async def _give_back(self, key: CallKey, headers: RateLimitHeaders, *, unsent: bool) -> None:
        held = self._permits.pop(key, None)
        if held is None:
            return
        limiter, permit = held
        try:
            await self.limiters[limiter].release(permit, headers, unsent=unsent)
        except Exception as error:  # the permit expires
            logger.warning("A permit was not released: %s: %s", type(error).__name__, error)


class EndpointLimiter:
    """The limiter of one endpoint at a gateway, as a ``LimiterClient`` for calls that choose among several."""

    def __init__(self, gateway: GatewayPort, limiter: int) -> None:
        self._gateway, self._limiter = gateway, limiter

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """Wait for a permit (see ``LimiterClient``)."""
        return await self._gateway.acquire(self._limiter, tokens, expires_s)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """Release a permit that was not used. ``Gateway.came`` releases the permits of requests that were sent."""
        if not unsent or headers != NO_HEADERS:
            raise ValueError("the permit of a request that went out is given back with its outcome")
        await self._gateway.give_back(self._limiter, permit)
