"""One limiter per endpoint and model for the whole cluster, found by its name.

Two jobs on one cluster that call one account share its limits, so the actor is detached: it outlives the job that
happened to be first. It asks for no CPU and keeps a minute of numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import ray

from okralong.actors.cluster import NAMESPACE
from okralong.actors.ledger import plain_errors
from okralong.actors.metrics import LimiterMetrics
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.rate_limit import SILENT, Ask, Limits, Notice, Returned, Taken
from okralong.pipelines.llm.rate_limit_client import CoalescingLimiter, LocalLimiter
from okralong.pipelines.llm.records import Grant
from okralong.pipelines.models.weights import EMBEDDED

MAX_CONCURRENCY = 10_000
"""Processes that may wait at a time: each has one call that waits and one that gives back. Ours."""
GENERATION = 2
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

    async def acquire(self, tokens: int, lease_s: float) -> Grant:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        return await self._here().acquire(tokens, lease_s)

    async def release(self, lease: int, notice: Notice = SILENT, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``)."""
        await self._here().release(lease, notice, unsent=unsent)

    def _here(self) -> CoalescingLimiter:
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            self._by_loop[loop] = CoalescingLimiter(self._take, self._put_back)
        return self._by_loop[loop]

    async def _take(self, asks: Sequence[Ask]) -> Taken:
        taken: Taken = await plain_errors(self._actor.take.remote(asks))
        return taken

    async def _put_back(self, returned: Sequence[Returned]) -> None:
        await plain_errors(self._actor.put_back.remote(returned))
