"""The one writer of a run on a cluster: ``RunLedger`` behind a Ray handle.

All rooms of a run, on whichever node, go through this actor, so that a cap in dollars is one cap and a journal is one
journal. It asks for no CPU; it waits for disks most of the time. When its process dies Ray starts it again, and it
replays the run's folder: what was durable is known, what was in flight is held as unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import ray
from ray.exceptions import RayTaskError

from okralong.actors.metrics import LedgerMetrics
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.records import Call, CallKey, Outcome, Totals

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long a new writer waits for that of a killed job to go. Ours."""
MAX_CONCURRENCY = 10_000
"""Calls that may wait for a commit or for room in the budget at a time. Ours."""


class LedgerActor(RunLedger):
    """The actor's class; its methods are those of ``LedgerClient``."""

    def __init__(self, run: str, cap_usd: float | None, reopened: frozenset[str] = frozenset()) -> None:
        super().__init__(Folder.of(run), cap_usd, patience_s=PATIENCE_S, reopened=reopened)
        self._metrics = LedgerMetrics()

    async def settle(self, outcome: Outcome) -> None:
        """Make the outcome of an attempt durable, and tell Ray's metrics once."""
        known = outcome.call.key in self._state.question(outcome.call.query_id).settled
        await super().settle(outcome)
        if not known:
            self._metrics.settled(outcome)

    async def finish(self, row: Mapping[str, Any]) -> None:
        """Write a question's answers row, and tell Ray's metrics once."""
        known = self._has_its_end(str(row["query_id"]))
        await super().finish(row)
        if not known:
            self._metrics.finished(str(row["status"]))


def start_ledger(run: str, cap_usd: float | None, reopened: frozenset[str] = frozenset(), **options: Any) -> Any:
    """The handle of a new ledger for a run folder (path or URI that the actor's node sees), for ``RayLedger``.

    ``reopened`` are the query_ids that are asked again (see ``RunLedger``). The actor ends with the job that started
    it. ``options`` are Ray's actor options. It raises LockedError or ArchiveError at its first call when the run cannot
    be opened.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_CONCURRENCY}
    remote: Any = ray.remote(LedgerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, cap_usd, reopened)


class RayLedger:
    """A ``LedgerClient`` that speaks to the actor; it can be sent to other tasks and actors."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """The last reply recorded at that step, or None."""
        row: JournalRow | None = await self._call("reply", query_id, path, sample)
        return row

    async def lookup(self, query_id: str) -> list[JournalRow]:
        """The journal rows of an unfinished question."""
        return list(await self._call("lookup", query_id))

    async def record(self, rows: Sequence[JournalRow]) -> None:
        """Make journal rows durable."""
        await self._call("record", list(rows))

    async def admit(self, query_id: str, reserve_usd: float) -> None:
        """Set a reserve aside for a question's plan. Raises OverBudget."""
        await self._call("admit", query_id, reserve_usd)

    async def reserve(self, key: CallKey, query_id: str, usd: float) -> None:
        """Set the worst case of an attempt aside. Raises OverBudget."""
        await self._call("reserve", key, query_id, usd)

    async def intend(self, call: Call) -> None:
        """Make the intent of an attempt durable. Raises OverBudget."""
        await self._call("intend", call)

    async def settle(self, outcome: Outcome) -> None:
        """Make the outcome of an attempt durable."""
        await self._call("settle", outcome)

    async def finish(self, row: Mapping[str, Any]) -> None:
        """Write the one answers row of a question."""
        await self._call("finish", dict(row))

    async def release(self, query_id: str) -> bool:
        """Put a question down without an answers row; whether there is something left to do."""
        return bool(await self._call("release", query_id))

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        await self._call("fail", item, stage, error_type, message)

    async def answered(self) -> dict[str, str]:
        """Status by query_id of every question that has an answers row."""
        return dict(await self._call("answered"))

    async def totals(self) -> Totals:
        """Sums over the run so far."""
        totals: Totals = await self._call("totals")
        return totals

    async def close(self) -> None:
        """Write what is left, merge the small files, and let go of the run."""
        await self._call("close")

    def _call(self, method: str, *arguments: Any) -> Awaitable[Any]:
        return plain_errors(getattr(self._actor, method).remote(*arguments))


async def plain_errors(reference: Awaitable[T]) -> T:
    """Await a Ray call; an error raised inside is raised here as it was, without Ray's wrapping and traceback text."""
    try:
        return await reference
    except RayTaskError as error:
        raise error.cause from None
