"""The actors that all calls to the generator share: a run's ledger and batch scheduler, and the limiter of an endpoint.

Each is a class of ``pipelines/llm`` behind a Ray handle, so that a cap in dollars is one cap and a journal is one
journal, on whichever node a call is made. They ask for no CPU; they wait for disks and endpoints most of the time. When
the process of one dies Ray starts it again. The ledger then replays the run's folder: what was durable is known, what
was in flight is held as unknown. The scheduler resumes what the folder and the endpoint's list of batches say.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, cast
from weakref import WeakKeyDictionary

import ray

from okralong.actors.cluster import NAMESPACE, LedgerMetrics, LimiterMetrics, named_actor, plain_errors
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.batch import BatchScheduler, ResumeState
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limits, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import CoalescingLimiter, LocalLimiter
from okralong.pipelines.llm.records import Outcome
from okralong.pipelines.models.weights import EMBEDDED

LOCK_WAIT_S = 60.0
"""How long a new writer waits for that of a killed job to go. Ours."""
MAX_CONCURRENCY = 10_000
"""Calls that may wait for a commit or for room in the budget at a time. Ours."""
SCHEDULER_CONCURRENCY = 50_000
"""Calls that may wait for their batches at a time. Ours."""
GENERATION = 3
"""Raised whenever the actor's methods change: a detached one outlives the okralong that started it. Ours."""


class LedgerActor(RunLedger):
    """The actor's class; its methods are those of ``RunLedger``."""

    def __init__(self, run: str, cap_usd: float | None, reopened: frozenset[str] = frozenset()) -> None:
        super().__init__(Folder.of(run), cap_usd, lock_wait_s=LOCK_WAIT_S, reopened=reopened)
        self._metrics = LedgerMetrics()

    async def settle(self, outcome: Outcome) -> None:
        """Make the outcome of an attempt durable, and tell Ray's metrics once."""
        known = outcome.call.key in self._state.question(outcome.call.query_id).settled
        await super().settle(outcome)
        if not known:
            self._metrics.settled(outcome)

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write a question's answers row, and tell Ray's metrics once."""
        written = await super().finish(row)
        if written is not None:
            self._metrics.finished(str(row["status"]))
        return written


def start_ledger(run: str, cap_usd: float | None, reopened: frozenset[str] = frozenset(), **options: Any) -> Any:
    """The handle of a new ledger for a run folder (path or URI that the actor's node sees), for ``ledger_client``.

    ``reopened`` are the query_ids that are asked again (see ``RunLedger``). The actor ends with the job that started
    it. ``options`` are Ray's actor options. It raises LockedError or ArchiveError at its first call when the run cannot
    be opened.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_CONCURRENCY}
    remote: Any = ray.remote(LedgerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, cap_usd, reopened)


class BatchSchedulerActor(BatchScheduler):
    """The actor's class; its methods are those of ``BatchScheduler``."""

    def __init__(self, run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None) -> None:
        folder = Folder.of(run)
        super().__init__(config, ledger_client(named_actor(ledger)), run_id, lambda: ResumeState.load(folder), until)


def start_batch_scheduler(
    run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None, **options: Any
) -> Any:
    """The handle of a new scheduler for a run folder (path or URI that the actor's node sees), for
    ``batch_scheduler_client``.

    ``ledger`` is the name of the ledger; for the others see ``BatchScheduler``. ``options`` are Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": SCHEDULER_CONCURRENCY}
    remote: Any = ray.remote(BatchSchedulerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, run_id, config, ledger, until)


class LimiterActor(LocalLimiter):
    """The actor's class; its methods are those of ``LocalLimiter``.

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
        self._limiter = ActorClient(actor)
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, CoalescingLimiter] = WeakKeyDictionary()

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """Wait for a permit (see ``LimiterClient``)."""
        return await self._here().acquire(tokens, expires_s)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``)."""
        await self._here().release(permit, headers, unsent=unsent)

    def _here(self) -> CoalescingLimiter:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = CoalescingLimiter(self._limiter.acquire_many, self._limiter.release_many)
        return self._by_loop[loop]


class ActorClient:
    """An actor as an object with the methods of its class: awaitable, and raising errors as they were raised inside.

    It can be sent to other tasks and actors.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._actor, name)
        return lambda *arguments: plain_errors(method.remote(*arguments))


def ledger_client(actor: Any) -> RunLedger:
    """The ledger behind the handle that ``start_ledger`` returns."""
    return cast(RunLedger, ActorClient(actor))


def batch_scheduler_client(actor: Any) -> BatchScheduler:
    """The scheduler behind the handle that ``start_batch_scheduler`` returns."""
    return cast(BatchScheduler, ActorClient(actor))
