"""The actors that all calls to the generator share: a run's gateway and batch scheduler, an endpoint's limiter.

Each is a class of ``pipelines/llm`` behind a Ray handle, so that a cap in dollars is one cap and a journal is one
journal, on whichever node a call is made. They ask for no CPU; they wait for disks and endpoints most of the time. When
the process of one dies Ray starts it again. The gateway then replays the run's folder: what was durable is known, what
was in flight is held as unknown. The scheduler resumes what the folder and the endpoint's list of batches say.

A cluster of a run's own has the limiters of its endpoints in the gateway. On a cluster that others may use, each
endpoint and model has one limiter for all, an actor of its own, which the gateways ask.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from weakref import WeakKeyDictionary

import ray

from okralong.actors.cluster import NAMESPACE, LedgerMetrics, LimiterMetrics, named_actor, plain_errors
from okralong.actors.messages import Address, GatewayClient, Inbox, Message, Replies
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import reserve_bytes
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit import NO_HEADERS, Limits, RateLimitHeaders
from okralong.pipelines.llm.rate_limit_client import CoalescingLimiter, LimiterClient, LocalLimiter
from okralong.pipelines.llm.records import Outcome
from okralong.pipelines.models.weights import EMBEDDED

LOCK_WAIT_S = 60.0
"""How long a new writer waits for that of a killed job to go. Ours."""
MAX_CONCURRENCY = 10_000
"""Calls that may wait for a commit or for room in the budget at a time. Ours."""
SCHEDULER_CONCURRENCY = 50_000
"""Calls that may wait for their batches at a time. Ours."""
GENERATION = 3
"""Raised whenever the limiter's methods change: a detached one outlives the okralong that started it. Ours."""


class ShownLedger(RunLedger):
    """A run's ledger that tells Ray's metrics."""

    def __init__(
        self,
        run: str,
        cap_usd: float | None,
        reopened: frozenset[str] = frozenset(),
        reserve: int = reserve_bytes(),
    ) -> None:
        super().__init__(Folder.of(run), cap_usd, lock_wait_s=LOCK_WAIT_S, reopened=reopened, reserve_bytes=reserve)
        self._metrics = LedgerMetrics()

    async def settle(self, outcome: Outcome) -> int:
        """Make the outcome of an attempt durable, and tell Ray's metrics once."""
        known = outcome.call.key in self._state.question(outcome.call.query_id).settled
        in_a_row = await super().settle(outcome)
        if not known:
            self._metrics.settled(outcome)
        return in_a_row

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write a question's answers row, and tell Ray's metrics once."""
        written = await super().finish(row)
        if written is not None:
            self._metrics.finished(str(row["status"]))
        return written


class ShownLimiter(LocalLimiter):
    """A limiter that tells Ray's metrics.

    After a restart of its process it has forgotten the last minute; the endpoint's headers, or its 429, then say so.
    """

    def __init__(self, limits: Limits, shown_as: str = "") -> None:
        super().__init__(limits)
        self._metrics = LimiterMetrics(shown_as)

    def _serve(self) -> None:
        super()._serve()
        self._metrics.show(**self.state())


@dataclass(frozen=True, slots=True)
class LimiterPlace:
    """Where the limiter of an endpoint is: in the gateway with ``limits``, or the cluster's actor of the name
    ``shared``. ``shown_as`` is the model, for the metrics.
    """

    limits: Limits
    shown_as: str
    shared: str | None = None

    def open(self) -> LimiterClient:
        """The limiter, for the process of the gateway."""
        return ShownLimiter(self.limits, self.shown_as) if self.shared is None else RayLimiter(named_actor(self.shared))


class GatewayActor:
    """A run's gateway: the methods of ``Gateway`` by ``post``, those of its ledger by ``books``."""

    def __init__(
        self,
        run: str,
        cap_usd: float | None,
        reopened: frozenset[str] = frozenset(),
        limiters: Sequence[LimiterPlace] = (),
        reserve: int = reserve_bytes(),
    ) -> None:
        """``limiters`` are those of the endpoints, in the order in which calls name them."""
        self._gateway = Gateway(ShownLedger(run, cap_usd, reopened, reserve), [place.open() for place in limiters])
        self._inbox = Inbox(self._gateway)

    async def post(self, sender: str, incarnation: str, messages: Sequence[Message], waiting: Sequence[int]) -> Replies:
        """Work on ``messages`` of a process (see ``Inbox.post``)."""
        return await self._inbox.post(sender, incarnation, messages, waiting)

    async def address(self) -> Address | None:
        """Where processes of this node reach ``post`` without Ray (see ``Inbox.address``)."""
        return await self._inbox.address(self.post)

    async def books(self, method: str, *arguments: Any) -> Any:
        """A method of the ``RunLedger``."""
        return await getattr(self._gateway.ledger, method)(*arguments)


def start_gateway(
    run: str,
    cap_usd: float | None,
    reopened: frozenset[str] = frozenset(),
    limiters: Sequence[LimiterPlace] = (),
    reserve: int = reserve_bytes(),
    **options: Any,
) -> Any:
    """The handle of a new gateway for a run folder (path or URI that the actor's node sees), for ``GatewayClient`` and
    ``ledger_client``.

    ``reopened`` are the query_ids that are asked again, ``reserve`` is bytes kept for a full disk (see ``RunLedger``).
    The actor ends with the job that started it. ``options`` are Ray's actor options. Its first call raises LockedError,
    ArchiveError or BrokenError when the run cannot be opened.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": MAX_CONCURRENCY}
    remote: Any = ray.remote(GatewayActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, cap_usd, reopened, tuple(limiters), reserve)


class BatchSchedulerActor(BatchScheduler):
    """The actor's class; its methods are those of ``BatchScheduler``."""

    def __init__(
        self, run: str, run_id: str, config: LlmConfig, ledger: str, until: datetime | None, price: Price | None
    ) -> None:
        folder, client = Folder.of(run), ledger_client(named_actor(ledger))
        super().__init__(config, client, run_id, lambda: ResumeState.load(folder), until, price=price)


def start_batch_scheduler(
    run: str,
    run_id: str,
    config: LlmConfig,
    ledger: str,
    until: datetime | None,
    price: Price | None = None,
    **options: Any,
) -> Any:
    """The handle of a new scheduler for a run folder (path or URI that the actor's node sees), for
    ``batch_scheduler_client``.

    ``ledger`` is the name of the ledger; for the others see ``BatchScheduler``. ``options`` are Ray's actor options.
    """
    revived: dict[str, Any] = {"max_restarts": -1, "max_task_retries": -1, "max_concurrency": SCHEDULER_CONCURRENCY}
    remote: Any = ray.remote(BatchSchedulerActor)
    return remote.options(num_cpus=0, **revived, **options).remote(run, run_id, config, ledger, until, price)


class LimiterActor(ShownLimiter):
    """The actor's class for an endpoint that several runs use; its methods are those of ``LocalLimiter``."""

    async def set_limits(self, limits: Limits) -> None:
        """Take a further job's limits: those of the job that spoke last, or the stricter ones while it is not alone."""
        self.join(limits)


def limiter_name(config: EndpointConfig) -> str:
    """The name, in okralong's namespace, of the limiter that an endpoint and model have on a cluster."""
    shared = f"{config.base_url}\n{config.model}"
    return f"rate-limiter-{GENERATION}-{hashlib.sha256(shared.encode()).hexdigest()[:16]}"


def start_limiter(config: EndpointConfig) -> Any:
    """The handle of the limiter of a configured endpoint, for ``RayLimiter``; it is found by ``limiter_name``.

    The one that already runs on this cluster, told of the limits of ``config``, or a new one, which stays: others may
    use the endpoint as well. A call that its process loses is sent again when it is back.
    """
    revived = {"max_restarts": -1, "max_task_retries": -1}
    named = {"name": limiter_name(config), "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    options: dict[str, Any] = {"num_cpus": 0, "max_concurrency": MAX_CONCURRENCY, **revived, **named}
    remote: Any = ray.remote(LimiterActor)
    actor = remote.options(**options).remote(config.limits, config.model)
    ray.get(actor.set_limits.remote(config.limits))
    return actor


def limiter_place(config: EndpointConfig, shared: bool) -> LimiterPlace:
    """The place of an endpoint's limiter. ``shared``: other runs may use the endpoint beside this one, from this
    cluster. The embedded model belongs to its run, and so does its limiter.
    """
    if not shared or config.base_url == EMBEDDED:
        return LimiterPlace(config.limits, config.model)
    start_limiter(config)
    return LimiterPlace(config.limits, config.model, limiter_name(config))


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


def gateway_client(actor: Any) -> Gateway:
    """The gateway behind the handle that ``start_gateway`` returns, for one process."""
    return cast(Gateway, GatewayClient(actor))


class _LedgerClient:
    """The ledger of a gateway elsewhere, each method a message of its own. It can be sent to other actors."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *arguments: plain_errors(self._actor.books.remote(name, *arguments))


def ledger_client(actor: Any) -> RunLedger:
    """The ledger of the gateway behind the handle that ``start_gateway`` returns: for those who ask seldom."""
    return cast(RunLedger, _LedgerClient(actor))


def batch_scheduler_client(actor: Any) -> BatchScheduler:
    """The scheduler behind the handle that ``start_batch_scheduler`` returns."""
    return cast(BatchScheduler, ActorClient(actor))
