"""The actors of one answer run, started together and stopped together."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from okralong.actors.analyzer import deploy_analyzer
from okralong.actors.index_shard import start_index_shards
from okralong.actors.ledger import RayLedger, start_ledger
from okralong.actors.planner import Planner, PlannerSetup
from okralong.actors.query_embedder import deploy_query_embedder
from okralong.actors.rate_limiter import start_limiter
from okralong.actors.serving import remove_app
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.preparation import Prepared

BRANCHES_PER_QUESTION = 4
"""Places for branches in a planner, for each question that it carries (a split has at most four sub-questions)."""
RESTARTS = 3
"""Times that a planner which died is started again; the journal lets it repeat nothing that was paid for."""


@dataclass(frozen=True)
class Crew:
    """The planners of a run, and the ledger that knows how far it is."""

    planners: list[Any]
    ledger: RayLedger


@contextmanager
def crew(prepared: Prepared, run: str, llm: LlmConfig, address: str | None, namespace: str) -> Iterator[Crew]:
    """Start shards, embedder, analyzer, limiter, ledger and planners; stop them when the block ends."""
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    apps = (f"okralong-analyzer-{tag}", f"okralong-embedder-{tag}")
    names = tuple(f"okralong-planner-{tag}-{number}" for number in range(config.planners))
    location = prepared.archive.location
    ledger = start_ledger(run, config.budget_usd)
    limiter = start_limiter(llm)
    shards = start_index_shards(location, prepared.archive.n_shards)
    setup = PlannerSetup(
        archive=location,
        strategy=config.strategy,
        policy=prepared.policy,
        llm=llm,
        prices=prepared.prices,
        address=address,
        tags=config.tags,
        planners=names,
        namespace=namespace,
        shards=tuple(shards),
        analyzer=deploy_analyzer(config.analyzer, name=apps[0]),
        embedder=deploy_query_embedder(prepared.manifest, name=apps[1]),
        ledger=ledger,
        limiter=limiter,
    )
    per_planner = -(-config.concurrency // config.planners)
    groups = {"questions": per_planner, "branches": per_planner * BRANCHES_PER_QUESTION, "control": 2}
    with_options: Any = ray.remote  # its overloads do not know concurrency_groups
    remote = with_options(concurrency_groups=groups)(Planner)
    planners = [
        remote.options(
            name=name, namespace=namespace, num_cpus=0, max_restarts=RESTARTS, max_task_retries=RESTARTS
        ).remote(setup)
        for name in names
    ]
    try:
        ray.get([shard.ready.remote() for shard in shards] + [planner.ready.remote() for planner in planners])
        yield Crew(planners, RayLedger(ledger))
        ray.get(ledger.close.remote())
    finally:
        for actor in [*planners, *shards, ledger]:  # the limiter may serve other runs of the cluster
            ray.kill(actor)
        for app in apps:
            remove_app(app)
