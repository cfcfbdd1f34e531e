"""The actors of one answer run, started together and stopped together."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from okralong.actors.analyzer import deploy_analyzer
from okralong.actors.cluster import NAMESPACE
from okralong.actors.index_shard import start_index_shards
from okralong.actors.ledger import RayLedger, start_ledger
from okralong.actors.planner import Planner, PlannerSetup
from okralong.actors.query_embedder import deploy_query_embedder
from okralong.actors.rate_limiter import limiter_name, start_limiter
from okralong.actors.scorer import deploy_scorer
from okralong.actors.serving import remove_app
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.preparation import Prepared
from okralong.pipelines.errors import BrokenError, OkraError
from okralong.pipelines.models.embedded import EMBEDDED

BRANCHES_PER_QUESTION = 4
"""Places for branches in a planner, for each question that it carries (a split has at most four sub-questions)."""
REVIVED: dict[str, Any] = {"max_restarts": 3, "max_task_retries": 3}
"""Ray's options for actors that may die and come back; the journal lets a planner repeat nothing that was paid for."""

APPS = ("analyzer", "embedder", "scorer")
"""The run's applications on Ray Serve; the scorer only where the policy needs one."""


@dataclass(frozen=True)
class Crew:
    """The planners of a run, and the ledger that knows how far it is."""

    planners: list[Any]
    ledger: RayLedger


@contextmanager
def crew(
    prepared: Prepared,
    run: str,
    llm: LlmConfig,
    address: str | None,
    reopened: frozenset[str] = frozenset(),
) -> Iterator[Crew]:
    """Start shards, models, limiters, ledger and planners; stop them when the block ends, however it ends.

    ``run`` is absolute or a URI, since actors have working directories of their own; ``address`` is where an embedded
    generator listens; ``reopened`` are questions that are asked again. Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    # Named after the run: the same command, run again after a kill, replaces the applications that were left behind.
    apps = [f"okralong-{part}-{hashlib.sha256(run.encode()).hexdigest()[:8]}" for part in APPS]
    planner_names = tuple(f"okralong-planner-{tag}-{number}" for number in range(config.planners))
    shard_names = tuple(f"okralong-shard-{tag}-{number}" for number in range(prepared.archive.n_shards))
    ledger_name = f"okralong-ledger-{tag}"
    location = prepared.archive.location
    with ExitStack() as held:
        ledger = _held(held, start_ledger(run, config.budget_usd, reopened, name=ledger_name, namespace=NAMESPACE))
        for endpoint in llm.all_endpoints:
            limiter = start_limiter(endpoint, tag)
            if endpoint.base_url == EMBEDDED:  # that of another may serve other runs of the cluster
                _held(held, limiter)
        started = start_index_shards(location, shard_names, namespace=NAMESPACE, **REVIVED)
        shards = [_held(held, shard) for shard in started]
        for app in apps:
            held.callback(remove_app, app)
        analyzer = None if config.analyzer.kind == "llm" else apps[0]
        if analyzer:
            deploy_analyzer(config.analyzer, name=analyzer)
        deploy_query_embedder(prepared.manifest, name=apps[1])
        scorer = apps[2] if prepared.policy.needs_scorer and config.scorer else None
        if scorer and config.scorer:
            deploy_scorer(config.scorer, name=scorer)
        setup = PlannerSetup(
            archive=location,
            strategy=config.strategy,
            policy=prepared.policy,
            llm=llm,
            prices=prepared.prices,
            address=address,
            tags=config.tags,
            planners=planner_names,
            shards=shard_names,
            analyzer=analyzer,
            embedder=apps[1],
            scorer=scorer,
            ledger=ledger_name,
            limiters=tuple(limiter_name(endpoint, tag) for endpoint in llm.all_endpoints),
        )
        per_planner = -(-config.concurrency // config.planners)
        groups = {"questions": per_planner, "branches": per_planner * BRANCHES_PER_QUESTION, "control": 2}
        with_options: Any = ray.remote  # its overloads do not know concurrency_groups
        remote = with_options(concurrency_groups=groups)(Planner)
        options = {"namespace": NAMESPACE, "num_cpus": 0, **REVIVED}
        planners = [_held(held, remote.options(name=name, **options).remote(setup)) for name in planner_names]
        _started([ledger.totals.remote(), *(actor.ready.remote() for actor in [*shards, *planners])])
        yield Crew(planners, RayLedger(ledger))
        ray.get(ledger.close.remote())


def _held(held: ExitStack, actor: Any) -> Any:
    held.callback(ray.kill, actor)
    return actor


def _started(ready: list[Any]) -> None:
    try:
        ray.get(ready)
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, OkraError):
            raise cause from None
        last = str(error).strip().splitlines()[-1].strip()
        raise BrokenError(f"An actor of the run could not start: {last}") from error
