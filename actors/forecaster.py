"""The forecaster: an async actor that looks at many questions at once without asking anyone, for an estimate."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import ray

from okralong.actors.cluster import NAMESPACE
from okralong.actors.retrieval import REVIVED, Retrieval, RetrievalNames, hold, retrieval, wait_for
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import Question
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.run.dry_run import Outlook, SilentGenerator, foresee
from okralong.pipelines.run.prepare import Prepared


@dataclass(frozen=True)
class ForecasterSetup:
    """What every forecaster of an estimate is given. ``llm`` is settled, as a run would ask its generator."""

    strategies: tuple[str, ...]
    policy: Policy
    llm: LlmConfig
    retrieval: RetrievalNames


class Forecaster:
    """Looks at questions under several strategies. Made remote by ``forecasters``."""

    def __init__(self, setup: ForecasterSetup) -> None:
        self._strategies = setup.strategies
        looking = Retrieval(setup.retrieval)
        count = token_counter(setup.llm.tokenizer)
        silent = SilentGenerator(count)
        self._ports = Ports(
            archive=looking.archive,
            shards=looking.shards,
            embed=looking.embed,
            analyze=looking.analyze if looking.has_analyzer else None,
            complete=silent.complete,
            admit=silent.admit,
            policy=setup.policy,
            window=setup.llm.window,
            count=count,
            completion_limit=setup.llm.completion_limit,
            demonstrate=bool(setup.llm.demonstrations),
            calculator=bool(setup.llm.calculator),
            score=looking.score if looking.has_scorer else None,
            token_ends=looking.token_ends if looking.has_scorer else None,
            compress=looking.compress if looking.has_compressor else None,
        )

    async def ready(self) -> bool:
        """True once the archive is open."""
        return True

    async def foresee(self, question: Question, doc_ids: tuple[str, ...]) -> Outlook:
        """The outlook of a question over its resolved scope."""
        return await foresee(question, doc_ids, self._ports, self._strategies)


@contextmanager
def forecasters(prepared: Prepared, strategies: tuple[str, ...], llm: LlmConfig) -> Iterator[list[Any]]:
    """As many forecasters as the run would have planners, with the shards and models that they need.

    They end with the block. Raises OkraError when a part cannot start.
    """
    config = prepared.config
    tag = uuid.uuid4().hex[:8]
    with ExitStack() as held:
        # Not named after the archive: two people may estimate over one at the same time.
        names = held.enter_context(retrieval(prepared, f"estimate-{tag}", tag, asking=False))
        setup = ForecasterSetup(strategies, prepared.policy, llm, names)
        remote: Any = ray.remote(Forecaster)
        options = {"namespace": NAMESPACE, "num_cpus": 0, "max_concurrency": config.concurrency, **REVIVED}
        options |= config.placement.planners.options()
        actors = [hold(held, remote.options(**options).remote(setup)) for _ in range(config.planners)]
        wait_for([actor.ready.remote() for actor in actors])
        yield actors
