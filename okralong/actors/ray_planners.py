"""The planners, gateway and batch scheduler of one run on Ray: their actors are started and stopped together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any
from zlib import crc32

import ray
from ray.exceptions import RayActorError, RayError

from okralong.actors.cluster import NAMESPACE, beside_this_process, is_private, named_actor, plain_errors
from okralong.actors.gateway import (
    GatewayClient,
    LedgerClient,
    SchedulerClient,
    limiter_place,
    start_batch_scheduler,
    start_gateway,
)
from okralong.actors.planner import BranchResult, GeneratorClients, Planner, PlannerSetup, Stop
from okralong.actors.retrieval import REVIVED, RetrievalNames, hold, started_retrieval, wait_for
from okralong.actors.serve_models import ServeModels
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.core.log import log_as_json
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.types import EXIT_BROKEN, GO_ON, Question
from okralong.pipelines.llm.journal import reserve_bytes
from okralong.pipelines.run.prepare import Prepared

BRANCHES_PER_QUESTION = 4
"""Slots for branches in a planner for each question it carries: a split has at most four sub-questions."""
SENDING_S = 10.0
"""Seconds that planners may take to send their last spans. # project default: more than each waits for a collector"""


@dataclass(frozen=True, slots=True)
class BatchSetup:
    """Settings of a run's batch scheduler.

    Attributes:
        run_id: Marks the run's batches at the endpoint.
        until: When to stop submitting batches; None for no deadline.
    """

    run_id: str
    until: datetime | None


@dataclass(frozen=True)
class ActorNames:
    """Names of a run's actors, by which one that Ray restarts finds the others again.

    Handles would be in the driver's memory, and Ray would warn of that at each run.

    Attributes:
        planners: The planners that execute branches.
        makers: The run's first planners, which make the documents' artifacts.
        retrieval: Shards and models.
        gateway: The gateway; its limiters are those of the generator's endpoints, then of the stronger one's.
        scheduler: The batch scheduler, if the run has one.
    """

    planners: tuple[str, ...]
    makers: tuple[str, ...]
    retrieval: RetrievalNames
    gateway: str
    scheduler: str | None = None


class PlannerActor:
    """A ``Planner`` as a Ray actor.

    Questions and branches run in separate concurrency groups, so that a question that waits for its branches never
    takes their slots.
    """

    def __init__(self, setup: PlannerSetup, names: ActorNames) -> None:
        log_as_json(setup.run)
        context: Any = ray.get_runtime_context()
        gateway = GatewayClient(named_actor(names.gateway))
        models = ServeModels(names.retrieval)
        scheduler = None if names.scheduler is None else SchedulerClient(named_actor(names.scheduler))
        clients = GeneratorClients(setup, gateway, models.transport, scheduler)
        revived = bool(context.was_current_actor_reconstructed)
        telemetry = None if setup.telemetry is None else setup.telemetry.open()
        peers = RayPeers(names)
        self._planner = Planner(setup, gateway, models, clients, peers=peers, revived=revived, telemetry=telemetry)

    @ray.method(concurrency_group="control")
    async def ready(self) -> None:
        """See ``Planner``, here and below."""
        await self._planner.ready()

    @ray.method(concurrency_group="control")
    async def spent(self) -> float:
        """See ``Planner``."""
        return await self._planner.spent()

    @ray.method(concurrency_group="control")
    async def halt(self, why: str) -> int:
        """See ``Planner``."""
        return await self._planner.halt(why)

    @ray.method(concurrency_group="control")
    async def drain(self, grace_s: float) -> int:
        """See ``Planner``."""
        return await self._planner.drain(grace_s)

    @ray.method(concurrency_group="control")
    async def send_spans(self) -> None:
        """See ``Planner``."""
        await self._planner.send_spans()

    @ray.method(concurrency_group="questions")
    async def answer(
        self, question: Question, doc_ids: tuple[str, ...], new: bool = False
    ) -> Stop | Mapping[str, Any] | None:
        """See ``Planner``."""
        return await self._planner.answer(question, doc_ids, new)

    @ray.method(concurrency_group="branches")
    async def branch(self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str) -> BranchResult:
        """See ``Planner``."""
        return await self._planner.branch(question, doc_ids, branch, path)

    @ray.method(concurrency_group="branches")
    async def artifact(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        """See ``Planner``."""
        return await self._planner.artifact(key, doc_id, branch, version, roles)


class RayPeers:
    """The planners of a run as ``Peers`` of one of them."""

    def __init__(self, names: ActorNames) -> None:
        self._names = names
        self._planners: list[Any] = []
        self._turn = count()

    async def branch(self, question: Question, doc_ids: tuple[str, ...], branch: Branch, path: str) -> BranchResult:
        """Run a branch on the planner whose turn it is."""
        if not self._planners:
            self._planners = [named_actor(name) for name in self._names.planners]  # not before: they start together
        peer = self._planners[next(self._turn) % len(self._planners)]
        result: BranchResult = await plain_errors(peer.branch.remote(question, doc_ids, branch, path))
        return result

    async def artifact(self, key: str, doc_id: str, branch: Branch, version: int, roles: tuple[str, ...]) -> Any:
        """Get an artifact from the planner responsible for this key."""
        makers = self._names.makers
        owner = named_actor(makers[crc32(key.encode()) % len(makers)])
        return await plain_errors(owner.artifact.remote(key, doc_id, branch, version, roles))


class RayPlanner:
    """Calls a planner's actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def ready(self) -> None:
        """See ``Planner``, here and below."""
        await plain_errors(self._actor.ready.remote())

    async def answer(
        self, question: Question, doc_ids: tuple[str, ...], new: bool = False
    ) -> Stop | Mapping[str, Any] | None:
        """Answer one question; return a Stop if the planner died more often than Ray restarts it."""
        try:
            ended: Stop | Mapping[str, Any] | None = await plain_errors(
                self._actor.answer.remote(question, doc_ids, new)
            )
        except RayActorError as error:
            last = str(error).strip().splitlines()[-1]
            return Stop(f"A planner died more often than Ray restarts it: {last} {GO_ON}", EXIT_BROKEN)
        return ended

    async def spent(self) -> float:
        """See ``Planner``. Raises RayActorError while the planner is restarted, and after the run."""
        seconds: float = await plain_errors(self._actor.spent.remote())
        return seconds

    async def halt(self, why: str) -> int:
        """See ``Planner``."""
        in_flight: int = await plain_errors(self._actor.halt.remote(why))
        return in_flight

    async def drain(self, grace_s: float) -> int:
        """See ``Planner``."""
        lost: int = await plain_errors(self._actor.drain.remote(grace_s))
        return lost


@dataclass(frozen=True)
class RayActors:
    """The actors of an open run; ``more`` starts a further planner, if the run may have more."""

    planners: list[RayPlanner]
    ledger: LedgerClient
    scheduler: SchedulerClient | None
    more: Callable[[], RayPlanner] | None


@contextmanager
def run_actors(
    prepared: Prepared,
    setup: PlannerSetup,
    *,
    reopened: frozenset[str] = frozenset(),
    batches: BatchSetup | None = None,
    retrieval: RetrievalNames | None = None,
) -> Iterator[RayActors]:
    """Start shards, models, gateway, planners and, for ``batches``, a scheduler, and stop them with the block.

    Args:
        prepared: The run.
        setup: The planners' values; ``setup.run`` is absolute or a URI, since actors have their own working
            directories.
        reopened: The questions to answer again.
        batches: Settings of the batch scheduler, if the run needs one.
        retrieval: Shards and models that several runs share; they are left running.

    Raises:
        OkraError: A part cannot start.
        BrokenError: The run cannot be written at its end.
    """
    config, llm, run = prepared.config, setup.llm, setup.run
    tag = uuid.uuid4().hex[:8]
    planner_names = tuple(f"okralong-planner-{tag}-{number}" for number in range(config.planners or 1))
    gateway_name = f"okralong-gateway-{tag}"
    with ExitStack() as held:
        writer = {"name": gateway_name, "namespace": NAMESPACE, **config.placement.ledger.options()}
        endpoints = llm.all_endpoints + (llm.stronger.all_endpoints if llm.stronger else ())
        # Other runs may ask the same endpoint: on a shared cluster, or next to this run, sharing models.
        beside_others = retrieval is not None or not is_private()
        places = [limiter_place(endpoint, beside_others) for endpoint in endpoints]
        reserve = reserve_bytes(sum(one.max_in_flight for one in endpoints), llm.longest_reply)
        gateway = hold(
            held,
            start_gateway(
                run, config.budget_usd, reopened, places, reserve, setup.telemetry, llm.trust_usage, **writer
            ),
        )
        scheduler_name, scheduler = None, None
        if batches is not None:
            scheduler_name = f"okralong-batch-scheduler-{tag}"
            price = prepared.prices.price(llm.model, llm.price)
            options = {**writer, "name": scheduler_name}
            started = start_batch_scheduler(run, batches.run_id, llm, gateway_name, batches.until, price, **options)
            scheduler = hold(held, started)
        names = ActorNames(
            planners=planner_names,
            makers=planner_names,
            retrieval=retrieval or held.enter_context(started_retrieval(prepared, run, tag)),
            gateway=gateway_name,
            scheduler=scheduler_name,
        )
        per_planner = -(-config.in_flight // (config.planners or 1))
        groups = {"questions": per_planner, "branches": per_planner * BRANCHES_PER_QUESTION, "control": 2}
        with_options: Any = ray.remote  # its overloads do not know concurrency_groups
        remote = with_options(concurrency_groups=groups)(PlannerActor)
        place = config.placement.planners
        if setup.address is not None:  # the generator that the driver serves listens on its machine alone
            place = beside_this_process(place)
        anew: dict[str, Any] = {"namespace": NAMESPACE, "num_cpus": 0, **REVIVED, **place.options()}
        planners = [hold(held, remote.options(name=name, **anew).remote(setup, names)) for name in planner_names]
        later = (f"okralong-planner-{tag}-{number}" for number in count(len(planners)))

        def more() -> RayPlanner:
            name = next(later)
            new = remote.options(name=name, **anew).remote(setup, replace(names, planners=(name,)))
            planners.append(hold(held, new))
            return RayPlanner(new)

        schedulers = [] if scheduler is None else [scheduler]
        wait_for([gateway.books.remote("totals"), *(actor.ready.remote() for actor in [*schedulers, *planners])])
        batches_client = None if scheduler is None else SchedulerClient(scheduler)
        grows = config.planners is None and is_private()
        yield RayActors([*map(RayPlanner, planners)], LedgerClient(gateway), batches_client, more if grows else None)
        sending = [planner.send_spans.remote() for planner in planners] if setup.telemetry is not None else []
        _close(gateway, run)
        if sending:
            ray.wait(sending, num_returns=len(sending), timeout=SENDING_S)


def _close(gateway: Any, run: str) -> None:
    """Let the gateway write what is left. Raises BrokenError when it cannot."""
    try:
        ray.get(gateway.books.remote("close"))
    except (RayError, OSError) as error:
        raise not_written(f"The run folder {run}", getattr(error, "cause", None) or error) from error
