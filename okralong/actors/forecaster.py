"""Forecasters dry-run questions for an estimate, without calling a generator."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from okralong.actors.cluster import NAMESPACE, plain_errors
from okralong.actors.planner import asked_as
from okralong.actors.retrieval import REVIVED, RetrievalNames, hold, started_retrieval, wait_for
from okralong.actors.serve_models import ServeModels
from okralong.pipelines.answering.models import Models
from okralong.pipelines.answering.offline import OfflineGenerator
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.run.dry_run import Outlook, dry_run
from okralong.pipelines.run.prepare import Prepared


@dataclass(frozen=True)
class ForecasterSetup:
    """The values that every forecaster of an estimate gets; ``llm`` has its open settings filled in."""

    strategies: tuple[str, ...]
    policy: Policy
    llm: LlmConfig


class Forecaster:
    """Dry-runs questions with several strategies."""

    def __init__(self, setup: ForecasterSetup, models: Models) -> None:
        self._strategies = setup.strategies
        llm, offline = setup.llm, OfflineGenerator()
        ports = Ports(models, offline, setup.policy, **asked_as(llm))
        self._ports = ports if llm.stronger is None else ports.with_stronger(offline, asked_as(llm.stronger))

    async def dry_run(self, question: Question, doc_ids: tuple[str, ...]) -> Outlook:
        """Return the outlook of a question over its resolved scope."""
        return await dry_run(question, doc_ids, self._ports, self._strategies)


class ForecasterActor(Forecaster):
    """A ``Forecaster`` as a Ray actor."""

    def __init__(self, setup: ForecasterSetup, retrieval: RetrievalNames) -> None:
        super().__init__(setup, ServeModels(retrieval))

    async def ready(self) -> None:
        """Return once the archive is open."""


class RayForecaster:
    """Calls a forecaster's actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def dry_run(self, question: Question, doc_ids: tuple[str, ...]) -> Outlook:
        """See ``Forecaster``."""
        outlook: Outlook = await plain_errors(self._actor.dry_run.remote(question, doc_ids))
        return outlook


AnyForecaster = Forecaster | RayForecaster


@contextmanager
def run_forecasters(prepared: Prepared, setup: ForecasterSetup) -> Iterator[list[RayForecaster]]:
    """Start as many forecasters as the run would have planners, with the shards and models that they need.

    They end with the block. Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    with ExitStack() as held:
        # Not named after the archive: two people may estimate over one at the same time.
        names = held.enter_context(started_retrieval(prepared, f"estimate-{tag}", tag, asking=False))
        remote: Any = ray.remote(ForecasterActor)
        options = {"namespace": NAMESPACE, "num_cpus": 0, "max_concurrency": config.concurrency, **REVIVED}
        options |= config.placement.planners.options()
        actors = [hold(held, remote.options(**options).remote(setup, names)) for _ in range(config.planners or 1)]
        wait_for([actor.ready.remote() for actor in actors])
        yield [RayForecaster(actor) for actor in actors]
