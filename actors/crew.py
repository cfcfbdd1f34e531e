"""The actors of one answer run, started together and stopped together."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import ray
from ray.exceptions import RayError

from okralong.actors.batch_desk import RayBatchDesk, start_batch_desk
from okralong.actors.cluster import NAMESPACE, beside_this_process
from okralong.actors.ledger import RayLedger, start_ledger
from okralong.actors.planner import Planner, PlannerSetup
from okralong.actors.rate_limiter import limiter_name, start_limiter
from okralong.actors.retrieval import REVIVED, RetrievalNames, hold, retrieval, wait_for
from okralong.pipelines.core.types import BrokenError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.methods.registry import settled
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.prepare import Prepared

BRANCHES_PER_QUESTION = 4
"""Places for branches in a planner, for each question that it carries (a split has at most four sub-questions)."""


@dataclass(frozen=True)
class Crew:
    """The planners of a run, the ledger that knows how far it is, and the desk where requests wait for batches."""

    planners: list[Any]
    ledger: RayLedger
    desk: RayBatchDesk | None = None


@dataclass(frozen=True, slots=True)
class DeskPlan:
    """What a desk is started with: ``run_id`` marks the run's batches; from ``until`` on nothing is handed in any more
    (None: no deadline).
    """

    run_id: str
    until: datetime | None


@contextmanager
def crew(
    prepared: Prepared,
    run: str,
    llm: LlmConfig,
    address: str | None,
    reopened: frozenset[str] = frozenset(),
    replies_from: tuple[str, ...] = (),
    batches: DeskPlan | None = None,
    looking: RetrievalNames | None = None,
) -> Iterator[Crew]:
    """Start shards, models, limiters, ledger, planners and, for ``batches``, a desk; stop them when the block ends,
    however it ends. Shards and models that several runs share are given as ``looking``, and left running.

    ``run`` is absolute or a URI, since actors have working directories of their own; ``address`` is where an embedded
    generator listens; ``reopened`` are questions that are asked again, ``replies_from`` runs that share their replies.
    Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    planner_names = tuple(f"okralong-planner-{tag}-{number}" for number in range(config.planners))
    ledger_name = f"okralong-ledger-{tag}"
    with ExitStack() as held:
        writer = {"name": ledger_name, "namespace": NAMESPACE, **config.placement.ledger.options()}
        ledger = hold(held, start_ledger(run, config.budget_usd, reopened, **writer))
        for endpoint in llm.all_endpoints:
            limiter = start_limiter(endpoint, tag)
            if endpoint.base_url == EMBEDDED:  # that of another may serve other runs of the cluster
                hold(held, limiter)
        desk_name, desk = None, None
        if batches is not None:
            desk_name = f"okralong-desk-{tag}"
            options = {**writer, "name": desk_name}
            desk = hold(held, start_batch_desk(run, batches.run_id, llm, ledger_name, batches.until, **options))
        setup = PlannerSetup(
            strategy=settled(config.strategy),
            policy=prepared.policy,
            llm=llm,
            prices=prepared.prices,
            address=address,
            tags=config.tags,
            replies_from=replies_from,
            planners=planner_names,
            retrieval=looking or held.enter_context(retrieval(prepared, run, tag)),
            ledger=ledger_name,
            limiters=tuple(limiter_name(endpoint, tag) for endpoint in llm.all_endpoints),
            desk=desk_name,
            run=run,
        )
        per_planner = -(-config.in_flight // config.planners)
        groups = {"questions": per_planner, "branches": per_planner * BRANCHES_PER_QUESTION, "control": 2}
        with_options: Any = ray.remote  # its overloads do not know concurrency_groups
        remote = with_options(concurrency_groups=groups)(Planner)
        place = config.placement.planners
        if address is not None:  # the generator that the driver serves listens on its machine alone
            place = beside_this_process(place)
        anew: dict[str, Any] = {"namespace": NAMESPACE, "num_cpus": 0, **REVIVED, **place.options()}
        planners = [hold(held, remote.options(name=name, **anew).remote(setup)) for name in planner_names]
        desks = [] if desk is None else [desk]
        wait_for([ledger.totals.remote(), *(actor.ready.remote() for actor in [*desks, *planners])])
        yield Crew(planners, RayLedger(ledger), None if desk is None else RayBatchDesk(desk))
        _close(ledger, run)


def _close(ledger: Any, run: str) -> None:
    """Let the ledger write what is left. Raises BrokenError when it cannot."""
    try:
        ray.get(ledger.close.remote())
    except (RayError, OSError) as error:
        cause = getattr(error, "cause", None) or error
        said = str(cause).strip().splitlines()[-1].rstrip(".")
        raise BrokenError(
            f"The run folder {run} cannot be written: {said}. Make room on its disk, or mend it, and run the same "
            "command again: what was finished is kept."
        ) from error
