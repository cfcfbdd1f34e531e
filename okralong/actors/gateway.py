"""The actors that all calls to the generator share, and their clients.

A run has one gateway and, in batch mode, one batch scheduler; on a cluster that others may use, each endpoint has one
rate limiter for all runs, otherwise the limiters live in the gateway. Each actor wraps a class of ``pipelines/llm``, so
that the whole run has one budget and one journal, whichever node makes a call. They request no CPU: most of the time
they wait for disks and endpoints.

Ray restarts an actor whose process dies. The gateway then replays the run's folder; attempts that were in flight become
``unknown``. The scheduler resumes from the folder and the endpoint's list of batches.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import ray

from okralong.actors.cluster import NAMESPACE, LedgerMetrics, LimiterMetrics, named_actor, plain_errors
from okralong.actors.messages import Address, Inbox, Message, MessageClient, Replies
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.telemetry import TelemetrySetup
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.batch_api import BatchItem
from okralong.pipelines.llm.batch_results import BatchAnswer
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.call_telemetry import CallTelemetry
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import JournalRow, reserve_bytes
from okralong.pipelines.llm.ledger import LedgerWatch, RunLedger
from okralong.pipelines.llm.ports import NO_STEPS, Sendable, Steps
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limits, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import (
    CoalescingLimiter,
    LimiterClient,
    LocalLimiter,
    PermitRequest,
    Permits,
    Release,
)
from okralong.pipelines.llm.records import Call, CallKey, Outcome, Totals
from okralong.pipelines.models.weights import EMBEDDED

P = ParamSpec("P")
T = TypeVar("T")

LOCK_WAIT_S: Final = 60.0
"""Seconds that a new writer of a run waits for the lock of a killed one. # project default"""
MAX_CONCURRENCY: Final = 10_000
"""Calls that may wait for a commit or for budget at the same time. # project default"""
SCHEDULER_CONCURRENCY: Final = 50_000
"""Calls that may wait for their batches at the same time. # project default"""
GENERATION: Final = 3
"""Increment this when the limiter's methods change, since a detached actor outlives the okralong that started it."""


class ShownLimiter(LocalLimiter):
    """A limiter that updates Ray's metrics.

    After a restart, it learns about the last minute's requests only from the endpoint's headers or a 429.
    """

    def __init__(self, limits: Limits, shown_as: str = "") -> None:
        super().__init__(limits)
        self._metrics = LimiterMetrics(shown_as)

    def _serve(self) -> None:
        super()._serve()
        self._metrics.show(**self.state())


@dataclass(frozen=True, slots=True)
class LimiterPlace:
    """The place of an endpoint's limiter: the gateway, with ``limits``, or the cluster's actor named ``shared``.

    The metrics have the label ``shown_as``, which is the name of the model.
    """

    limits: Limits
    shown_as: str
    shared: str | None = None

    def open(self) -> LimiterClient:
        """Return the limiter, in the gateway's process."""
        return ShownLimiter(self.limits, self.shown_as) if self.shared is None else RayLimiter(named_actor(self.shared))


class GatewayActor:
    """A run's gateway. ``GatewayClient`` calls it through ``post``, ``LedgerClient`` through ``books``."""

    def __init__(
        self,
        run: str,
        cap_usd: float | None,
        reopened: frozenset[str] = frozenset(),
        limiters: Sequence[LimiterPlace] = (),
        reserve: int = reserve_bytes(),
        telemetry: TelemetrySetup | None = None,
        trust_usage: bool | None = None,
    ) -> None:
        """Open the run. ``limiters`` has those of the endpoints, in the order in which calls number them."""
        watches: list[LedgerWatch] = [LedgerMetrics()]
        if telemetry is not None:
            watches.append(CallTelemetry(telemetry.open(), owns=True))
        ledger = RunLedger(
            Folder.of(run),
            cap_usd,
            lock_wait_s=LOCK_WAIT_S,
            reopened=reopened,
            reserve_bytes=reserve,
            watches=watches,
            trust_usage=trust_usage,
        )
        self._gateway = Gateway(ledger, [place.open() for place in limiters])
        self._inbox = Inbox(self._gateway)

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        """Handle the messages of a process (see ``Inbox.post``)."""
        return await self._inbox.post(sender, incarnation, messages, waiting)

    async def address(self) -> Address | None:
        """Return where processes of this node reach ``post`` without Ray (see ``Inbox.address``)."""
        return await self._inbox.address(self.post)

    async def books(self, method: str, *arguments: Any) -> Any:
        """Call a method of the ``RunLedger``."""
        return await getattr(self._gateway.ledger, method)(*arguments)


def start_gateway(
    run: str,
    cap_usd: float | None,
    reopened: frozenset[str] = frozenset(),
    limiters: Sequence[LimiterPlace] = (),
    reserve: int = reserve_bytes(),
    telemetry: TelemetrySetup | None = None,
    trust_usage: bool | None = None,
    **options: Any,
) -> Any:
    """Start the gateway of a run and return its handle, for ``GatewayClient`` and ``LedgerClient``.

    The actor ends with the job that started it. Its first call raises LockedError, ArchiveError or BrokenError if the
    run cannot be opened.

    Args:
        run: Path or URI of the run folder, as the actor's node sees it.
        cap_usd: The budget, if any.
        reopened: query_ids of the questions to answer again.
        limiters: Those of the endpoints, in order.
        reserve: Bytes kept free for a full disk (see ``RunLedger``).
        telemetry: Where spans and metrics go, if anywhere.
        trust_usage: ``llm.trust_usage`` (see ``RunLedger``).
        options: Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_CONCURRENCY}
    remote: Any = ray.remote(GatewayActor)
    given = run, cap_usd, reopened, tuple(limiters), reserve, telemetry, trust_usage
    return remote.options(num_cpus=0, **revived, **options).remote(*given)


class GatewayClient:
    """Calls a gateway's actor from one process (see ``GatewayPort``).

    An actor with several concurrency groups has an event loop for each. Callers of the same loop share messages.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, MessageClient] = WeakKeyDictionary()

    async def ask(
        self, call: Call, tokens: int, expires_s: float, limiter: int = 0, steps: Steps = NO_STEPS
    ) -> Sendable:
        """See ``Gateway.ask``."""
        return await self._call(Gateway.ask, call, tokens, expires_s, limiter, steps)

    async def reserve(self, call: Call, steps: Steps = NO_STEPS) -> None:
        """See ``Gateway.reserve``."""
        await self._call(Gateway.reserve, call, steps)

    async def acquire(self, limiter: int, tokens: int, expires_s: float) -> int:
        """See ``Gateway.acquire``."""
        return await self._call(Gateway.acquire, limiter, tokens, expires_s)

    async def give_back(self, limiter: int, permit: int) -> None:
        """See ``Gateway.give_back``."""
        await self._call(Gateway.give_back, limiter, permit)

    async def intend(self, call: Call, limiter: int, permit: int) -> bool:
        """See ``Gateway.intend``."""
        return await self._call(Gateway.intend, call, limiter, permit)

    async def came(
        self, outcome: Outcome, headers: RateLimitHeaders = NO_HEADERS, unsent: bool = False, steps: Steps = NO_STEPS
    ) -> int:
        """See ``Gateway.came``."""
        return await self._call(Gateway.came, outcome, headers, unsent, steps)

    async def record(self, query_id: str, steps: Steps) -> None:
        """See ``Gateway.record``."""
        await self._call(Gateway.record, query_id, steps)

    async def begin(self, query_id: str) -> list[JournalRow] | None:
        """See ``Gateway.begin``."""
        return await self._call(Gateway.begin, query_id)

    async def known(self, query_id: str) -> list[JournalRow]:
        """See ``Gateway.known``."""
        return await self._call(Gateway.known, query_id)

    async def spent(self, query_id: str) -> tuple[int, Usage, float]:
        """See ``RunLedger.spent``."""
        return await self._call(Gateway.spent, query_id)

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """See ``RunLedger.reply``."""
        return await self._call(Gateway.reply, query_id, path, sample)

    async def finish(self, row: Mapping[str, Any], rows: Sequence[JournalRow] = ()) -> Mapping[str, Any] | None:
        """See ``Gateway.finish``."""
        return await self._call(Gateway.finish, row, rows)

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """See ``RunLedger.fail``."""
        await self._call(Gateway.fail, item, stage, error_type, message)

    async def release(self, query_id: str) -> bool:
        """See ``RunLedger.release``."""
        return await self._call(Gateway.release, query_id)

    async def _call(
        self, method: Callable[Concatenate[Gateway, P], Awaitable[T]], *arguments: P.args, **named: P.kwargs
    ) -> T:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = MessageClient(self._actor)
        result: T = await self._by_loop[loop].call(method.__name__, *arguments, **named)
        return result


class LedgerClient:
    """The ledger of a gateway elsewhere (see ``LedgerPort``): one message per call, for infrequent callers.

    It can be sent to other actors.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    async def begun(self) -> set[str]:
        """See ``RunLedger.begun``."""
        return await self._call(RunLedger.begun)

    async def totals(self) -> Totals:
        """See ``RunLedger.totals``."""
        return await self._call(RunLedger.totals)

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """See ``RunLedger.reply``."""
        return await self._call(RunLedger.reply, query_id, path, sample)

    async def record(self, rows: Sequence[JournalRow]) -> None:
        """See ``RunLedger.record``."""
        await self._call(RunLedger.record, rows)

    async def reserve(
        self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0
    ) -> None:
        """See ``RunLedger.reserve``."""
        await self._call(RunLedger.reserve, key, query_id, usd, waits, most_usd)

    async def outdated(self, keys: Sequence[CallKey]) -> set[CallKey]:
        """See ``RunLedger.outdated``."""
        return await self._call(RunLedger.outdated, keys)

    async def short(self) -> bool:
        """See ``RunLedger.short``."""
        return await self._call(RunLedger.short)

    async def intend(self, call: Call) -> None:
        """See ``RunLedger.intend``."""
        await self._call(RunLedger.intend, call)

    async def settle(self, outcome: Outcome) -> int:
        """See ``RunLedger.settle``."""
        return await self._call(RunLedger.settle, outcome)

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """See ``RunLedger.finish``."""
        return await self._call(RunLedger.finish, row)

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """See ``RunLedger.fail``."""
        await self._call(RunLedger.fail, item, stage, error_type, message)

    async def close(self) -> None:
        """See ``RunLedger.close``."""
        await self._call(RunLedger.close)

    async def _call(
        self, method: Callable[Concatenate[RunLedger, P], Awaitable[T]], *arguments: P.args, **named: P.kwargs
    ) -> T:
        found: T = await plain_errors(self._gateway.books.remote(method.__name__, *arguments, **named))
        return found


class BatchSchedulerActor(BatchScheduler):
    """The actor's class; its methods are those of ``BatchScheduler``."""

    def __init__(
        self, run: str, run_id: str, config: LlmConfig, gateway: str, until: datetime | None, price: Price | None
    ) -> None:
        folder, ledger = Folder.of(run), LedgerClient(named_actor(gateway))
        super().__init__(config, ledger, run_id, lambda: ResumeState.load(folder), until, price=price)


def start_batch_scheduler(
    run: str,
    run_id: str,
    config: LlmConfig,
    gateway: str,
    until: datetime | None,
    price: Price | None = None,
    **options: Any,
) -> Any:
    """Start the batch scheduler of a run and return its handle, for ``SchedulerClient``.

    Args:
        run: Path or URI of the run folder, as the actor's node sees it.
        run_id: Marks the run's batches at the endpoint.
        config: The generator.
        gateway: Name of the gateway's actor.
        until: When to stop submitting batches; None for no deadline.
        price: Price of the first endpoint, if it depends on the length of a prompt.
        options: Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": SCHEDULER_CONCURRENCY}
    remote: Any = ray.remote(BatchSchedulerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, run_id, config, gateway, until, price)


class SchedulerClient:
    """The scheduler behind the handle that ``start_batch_scheduler`` returns (see ``SchedulerPort``)."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """See ``BatchScheduler.ask``."""
        answer: BatchAnswer = await plain_errors(self._actor.ask.remote(item))
        return answer

    async def stop(self, why: str) -> None:
        """See ``BatchScheduler.stop``."""
        await plain_errors(self._actor.stop.remote(why))

    async def drain(self) -> None:
        """See ``BatchScheduler.drain``."""
        await plain_errors(self._actor.drain.remote())

    async def notes(self, start: int) -> list[str]:
        """See ``BatchScheduler.notes``."""
        notes: list[str] = await plain_errors(self._actor.notes.remote(start))
        return notes


class LimiterActor(ShownLimiter):
    """The actor's class for an endpoint that several runs use; its methods are those of ``LocalLimiter``."""

    async def set_limits(self, limits: Limits) -> None:
        """Apply a further job's limits: the latest job's, or the stricter ones while several jobs run."""
        self.join(limits)


def limiter_name(config: EndpointConfig) -> str:
    """Return the name of the actor that limits an endpoint and model on a cluster."""
    shared = f"{config.base_url}\n{config.model}"
    return f"rate-limiter-{GENERATION}-{hashlib.sha256(shared.encode()).hexdigest()[:16]}"


def start_limiter(config: EndpointConfig) -> Any:
    """Start the limiter of an endpoint or find the running one; return its handle, for ``RayLimiter``.

    The actor gets the limits of ``config`` and stays alive after the job, since other runs may use the endpoint. Calls
    that its process loses are sent again when it is back.
    """
    revived = {"max_restarts": -1, "max_task_retries": -1}
    named = {"name": limiter_name(config), "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": MAX_CONCURRENCY, **revived, **named}
    remote: Any = ray.remote(LimiterActor)
    actor = remote.options(**options).remote(config.limits, config.model)
    ray.get(actor.set_limits.remote(config.limits))
    return actor


def limiter_place(config: EndpointConfig, shared: bool) -> LimiterPlace:
    """Return the place of an endpoint's limiter. ``shared``: whether other runs of this cluster may use the endpoint.

    The embedded model belongs to its run, and so does its limiter.
    """
    if not shared or config.base_url == EMBEDDED:
        return LimiterPlace(config.limits, config.model)
    start_limiter(config)
    return LimiterPlace(config.limits, config.model, limiter_name(config))


class RayLimiter:
    """The limiter's actor as a ``LimiterClient`` of one process; callers of one event loop share its messages."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, CoalescingLimiter] = WeakKeyDictionary()

    async def acquire(self, tokens: int, expires_s: float) -> int:
        """See ``LimiterClient.acquire``."""
        return await self._here().acquire(tokens, expires_s)

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """See ``LimiterClient.release``."""
        await self._here().release(permit, headers, unsent=unsent)

    def _here(self) -> CoalescingLimiter:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = CoalescingLimiter(self._acquire_many, self._release_many)
        return self._by_loop[loop]

    async def _acquire_many(self, requests: Sequence[PermitRequest]) -> Permits:
        permits: Permits = await plain_errors(self._actor.acquire_many.remote(requests))
        return permits

    async def _release_many(self, released: Sequence[Release]) -> None:
        await plain_errors(self._actor.release_many.remote(released))
