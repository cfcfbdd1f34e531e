"""The one writer of a run on a cluster: ``RunLedger`` behind a Ray handle.

All rooms of a run, on whichever node, go through this actor, so that a cap in dollars is one cap and a journal is one
journal. It asks for no CPU; it waits for disks most of the time. When its process dies Ray starts it again, and it
replays the run's folder: what was durable is known, what was in flight is held as unknown.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import RayServeException

from okralong.actors.cluster import NAMESPACE, LedgerMetrics, LimiterMetrics, named_actor
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.batch import BatchScheduler, ResumeState
from okralong.pipelines.llm.batch_api import BatchAnswer, BatchItem
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limits, PermitRequest, Permits, RateLimitHeaders, Release
from okralong.pipelines.llm.rate_limit_client import CoalescingLimiter, LocalLimiter
from okralong.pipelines.llm.records import Call, CallKey, Outcome, Permit, Totals
from okralong.pipelines.models.weights import EMBEDDED

T = TypeVar("T")

LOCK_WAIT_S = 60.0
"""How long a new writer waits for that of a killed job to go. Ours."""
MAX_CONCURRENCY = 10_000
"""Calls that may wait for a commit or for room in the budget at a time. Ours."""


class LedgerActor(RunLedger):
    """The actor's class; its methods are those of ``LedgerClient``."""

    def __init__(self, run: str, cap_usd: float | None, reopened: frozenset[str] = frozenset()) -> None:
        super().__init__(Folder.of(run), cap_usd, lock_wait_s=LOCK_WAIT_S, reopened=reopened)
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


# --------
# The desk of a run on a cluster: ``BatchScheduler`` behind a Ray handle.
#
# It asks for no CPU; it waits for endpoints most of the time. When its process dies Ray starts it again, and it takes
# up what the run's folder and the endpoint's list of batches say.

SCHEDULER_CONCURRENCY = 50_000
"""Calls that may wait for their batches at a time. Ours."""


class BatchSchedulerActor(BatchScheduler):
    """The actor's class; its methods are those of ``BatchScheduler``."""

    def __init__(self, run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None) -> None:
        folder = Folder.of(run)
        super().__init__(config, RayLedger(named_actor(ledger)), run_id, lambda: ResumeState.load(folder), until)


def start_batch_scheduler(
    run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None, **options: Any
) -> Any:
    """The handle of a new desk for a run folder (path or URI that the actor's node sees), for ``RayBatchScheduler``.

    ``ledger`` is the name of the ledger; for the others see ``BatchScheduler``. ``options`` are Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": SCHEDULER_CONCURRENCY}
    remote: Any = ray.remote(BatchSchedulerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, run_id, config, ledger, until)


class RayBatchScheduler:
    """A ``BatchSchedulerClient`` that speaks to the actor, and what the driver of a run asks of it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """What a batch answers, when it has."""
        answer: BatchAnswer = await plain_errors(self._actor.ask.remote(item))
        return answer

    async def stop(self, why: str) -> None:
        """The run stops: whoever waits hears so."""
        await plain_errors(self._actor.stop.remote(why))

    async def drain(self) -> None:
        """The run is over: end what nobody waits for, and settle it."""
        await plain_errors(self._actor.drain.remote())

    async def notes(self, start: int) -> list[str]:
        """What there is to tell the user, from the ``start``-th note on."""
        return list(await plain_errors(self._actor.notes.remote(start)))


# --------
# Asking again what costs nothing: a replica on Ray Serve that dies takes its calls with it, and comes back.

REPLICA_RETRY_S: Final = 180.0
"""How long a replica may take to come back, loading of its model included, before the run stops. Ours."""
REPLICA_PAUSE_S: Final = 0.5
"""Between two tries. Ours."""
GONE: Final = (RayActorError, RayServeException)
"""What a call raises whose replica died, or that found none."""


async def retry_replica(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` brings, asked again while its replica is away; for calls that may be made twice.

    Raises the last error when the replica is not back in ``REPLICA_RETRY_S``.
    """
    deadline = asyncio.get_running_loop().time() + REPLICA_RETRY_S
    while True:
        try:
            return await plain_errors(ask())
        except GONE:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(REPLICA_PAUSE_S)


# --------
# One limiter per endpoint and model for the whole cluster, found by its name.
#
# Two jobs on one cluster that call one account share its limits, so the actor is detached: it outlives the job that
# happened to be first. It asks for no CPU and keeps a minute of numbers.

GENERATION = 3
"""Raised whenever the actor's methods change: a detached one outlives the okralong that started it. Ours."""


class LimiterActor(LocalLimiter):
    """The actor's class; its methods are the two messages of ``leases.py``.

    After a restart it has forgotten the last minute; the endpoint's headers, or its 429, would then say so.
    """

    def __init__(self, limits: Limits, shown_as: str = "") -> None:
        super().__init__(limits)
        self._metrics = LimiterMetrics(shown_as)

    def _serve(self) -> None:
        super()._serve()
        self._metrics.show(**self.state())

    async def set_limits(self, limits: Limits) -> None:
        """Take a further job's limits: those of the job that spoke last, or the stricter ones while it is not alone."""
        self.join(limits)


def limiter_name(config: EndpointConfig, job: str) -> str:
    """Its name in okralong's namespace. The embedded model belongs to its job, and so does its limiter."""
    shared = f"{config.base_url}\n{config.model}"
    owner = job if config.base_url == EMBEDDED else hashlib.sha256(shared.encode()).hexdigest()[:16]
    return f"rate-limiter-{GENERATION}-{owner}"


def start_limiter(config: EndpointConfig, job: str) -> Any:
    """The handle of the limiter of a configured endpoint, for ``RayLimiter``; it is found by ``limiter_name``.

    For an endpoint that others may use as well, the one that already runs on this cluster, told of the limits of
    ``config``. A call that its process loses is sent again when it is back. That of the embedded model ends with the
    ``job``, which keeps the handle.
    """
    revived = {"max_restarts": -1, "max_task_retries": -1}
    named = {"name": limiter_name(config, job), "namespace": NAMESPACE}
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": MAX_CONCURRENCY, **revived, **named}
    remote: Any = ray.remote(LimiterActor)
    if config.base_url == EMBEDDED:
        return remote.options(**options).remote(config.limits, config.model)
    actor = remote.options(lifetime="detached", get_if_exists=True, **options).remote(config.limits, config.model)
    ray.get(actor.set_limits.remote(config.limits))
    return actor


class RayLimiter:
    """The ``LimiterClient`` of one process, which speaks to the actor for all its callers.

    An actor of several concurrency groups has an event loop for each, so callers wait together with those of their own.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, CoalescingLimiter] = WeakKeyDictionary()

    async def acquire(self, tokens: int, expires_s: float) -> Permit:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        return await self._here().acquire(tokens, expires_s)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``)."""
        await self._here().release(permit, headers, unsent=unsent)

    def _here(self) -> CoalescingLimiter:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = CoalescingLimiter(self._acquire_many, self._release_many)
        return self._by_loop[loop]

    async def _acquire_many(self, asks: Sequence[PermitRequest]) -> Permits:
        taken: Permits = await plain_errors(self._actor.acquire_many.remote(asks))
        return taken

    async def _release_many(self, returned: Sequence[Release]) -> None:
        await plain_errors(self._actor.release_many.remote(returned))
