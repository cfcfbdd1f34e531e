"""The actors of an estimate: forecasters, which look at questions as a run's planners would, with nobody asked.

They run on Ray or in the command's own process, as the run that is estimated would.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from okralong.actors.cluster import NAMESPACE
from okralong.actors.own_process import Loop, OwnModels, OwnRetrieval
from okralong.actors.planner import ports_of, with_stronger
from okralong.actors.retrieval import REVIVED, RetrievalClient, RetrievalNames, hold, started_retrieval, wait_for
from okralong.pipelines.answering.offline import OfflineGenerator
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.run.dry_run import Outlook, dry_run
from okralong.pipelines.run.prepare import Prepared


@dataclass(frozen=True)
class ForecasterSetup:
    """What every forecaster of an estimate is given. ``llm`` is settled, as a run would ask its generator."""

    strategies: tuple[str, ...]
    policy: Policy
    llm: LlmConfig
    retrieval: RetrievalNames


class Forecaster:
    """Looks at questions under several strategies. Made remote by ``forecasters``, which gives no ``found``."""

    def __init__(self, setup: ForecasterSetup, found: RetrievalClient | None = None) -> None:
        self._strategies = setup.strategies
        client = OfflineGenerator()
        found = RetrievalClient(setup.retrieval) if found is None else found
        ports = ports_of(found, setup.policy, setup.llm, client.complete, client.admit)
        self._ports = with_stronger(ports, setup.llm, client.complete)

    async def ready(self) -> bool:
        """True once the archive is open."""
        return True

    async def dry_run(self, question: Question, doc_ids: tuple[str, ...]) -> Outlook:
        """The outlook of a question over its resolved scope."""
        return await dry_run(question, doc_ids, self._ports, self._strategies)


@contextmanager
def forecasters(prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig) -> Iterator[list[Any]]:
    """As many forecasters as the run would have planners, with the shards and models that they need.

    They end with the block. Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    with ExitStack() as held:
        # Not named after the archive: two people may estimate over one at the same time.
        names = held.enter_context(started_retrieval(prepared, f"estimate-{tag}", tag, asking=False))
        setup = ForecasterSetup(strategies, prepared.policy, llm, names)
        remote: Any = ray.remote(Forecaster)
        options = {"namespace": NAMESPACE, "num_cpus": 0, "max_concurrency": config.concurrency, **REVIVED}
        options |= config.placement.planners.options()
        actors = [hold(held, remote.options(**options).remote(setup)) for _ in range(config.planners or 1)]
        wait_for([actor.ready.remote() for actor in actors])
        yield actors


@contextmanager
def own_forecasters(prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig) -> Iterator[list[Any]]:
    """What ``forecasters`` starts on Ray, in this process; closed with the block. Raises OkraError when a model cannot
    be loaded."""
    setup = ForecasterSetup(strategies, prepared.policy, llm, RetrievalNames.of(prepared, (), {}))
    models, loop = OwnModels(), Loop()
    try:
        models.bring(prepared, asking=False)
        forecaster = Forecaster(setup, OwnRetrieval(prepared, models, asking=False))
        models.wait()
        yield [loop.handle(forecaster)]
    finally:
        loop.close()
        models.close()
