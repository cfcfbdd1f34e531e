"""The journal of one question, as the planner that carries it sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from okralong.pipelines.core.types import Plan
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ports import GatewayPort, Steps

Watch = Callable[[JournalRow], None]
"""Called with each step of a question when it is recorded, and with those known from an earlier start."""


class QuestionJournal:
    """The steps of a question: those known when it was started, and those since.

    No call rests on a step before the question's next message to the gateway. So steps are not made durable one by one:
    they travel with that message, as does the reserve for the plan, and it returns when all of them are durable.
    """

    def __init__(
        self,
        gateway: GatewayPort,
        query_id: str,
        known: Sequence[JournalRow],
        reserve: Callable[[Plan], float],
        watch: Watch | None = None,
    ) -> None:
        """``reserve`` returns the most that a plan may cost, in US dollars; ``watch`` is called with each step."""
        self._gateway, self._query_id, self._reserve = gateway, query_id, reserve
        self._known = {(row.path, row.kind): row.body for row in known}
        self._replies = {(row.path, row.sample): row for row in known if row.kind == "reply"}
        self._rows: list[JournalRow] = []
        self._admit_usd: float | None = None
        self._flushing = asyncio.Lock()
        self._watch = watch
        if watch is not None:
            for row in known:
                watch(row)

    def reply(self, path: str, sample: int) -> JournalRow | None:
        """Return the reply that is known at a step, or None."""
        return self._replies.get((path, sample))

    def recorded(self, path: str, kind: str) -> str | None:
        """See ``StepLog``."""
        return self._known.get((path, kind))

    async def record(self, path: str, kind: str, body: str) -> None:
        """See ``StepLog``."""
        row = JournalRow(self._query_id, path, kind, body)
        self._rows.append(row)
        if self._watch is not None:
            self._watch(row)

    def add(self, rows: Sequence[JournalRow]) -> None:
        """Add the steps of a branch that has ended."""
        self._rows.extend(rows)

    async def admit(self, plan: Plan) -> None:
        """See ``StepLog``."""
        self._admit_usd = self._reserve(plan)

    def take(self) -> Steps:
        """Return what the next message must carry."""
        steps = Steps(tuple(self._rows), self._admit_usd)
        self._rows.clear()
        self._admit_usd = None
        return steps

    async def flush(self) -> None:
        """Return when all steps so far are durable. Raises OverBudget."""
        async with self._flushing:  # branches that start together wait for the one that takes the steps along
            if steps := self.take():
                await self._gateway.record(self._query_id, steps)
