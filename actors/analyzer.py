"""The analyzer behind a Ray Serve handle: questions that arrive together are analysed together."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ray import serve

from okralong.actors.serving import OVERLAP, run_app
from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.config import AnalyzerConfig, load_analyzer
from okralong.pipelines.values import Analysis


class AnalyzerReplica:
    """One analyzer in one process. Called with an ``AnalysisInput``, returns its ``Analysis``."""

    def __init__(self, config: AnalyzerConfig) -> None:
        self._analyzer = load_analyzer(config)
        self._sizes: Counter[int] = Counter()
        batched: Any = self._batched
        batched.set_max_batch_size(config.max_batch)
        batched.set_batch_wait_timeout_s(config.batch_wait_s)

    async def __call__(self, asked: AnalysisInput) -> Analysis:
        """The analysis of one question and its primary passages."""
        analysis: Analysis = await self._batched(asked)
        return analysis

    async def stats(self) -> dict[int, int]:
        """How many batches of each size were analysed so far."""
        return dict(self._sizes)

    @serve.batch
    async def _batched(self, asked: list[AnalysisInput]) -> list[Analysis]:
        self._sizes[len(asked)] += 1
        # In a thread: the next batch must be able to fill while this one is worked on.
        return await asyncio.to_thread(self._analyzer.analyze, asked)


def deploy_analyzer(config: AnalyzerConfig, name: str = "okralong-analyzer") -> Any:
    """Deploy on the connected Ray and return the handle: ``await handle.remote(AnalysisInput(...))``.

    Raises ConfigError when the analyzer cannot be loaded. End it with ``actors.serving.remove_app(name)``.
    """
    deployment = serve.deployment(
        name="analyzer",
        num_replicas=config.replicas,
        max_ongoing_requests=OVERLAP * config.max_batch,
        ray_actor_options={"num_cpus": 0, "num_gpus": config.gpus_per_replica},
    )(AnalyzerReplica)
    return run_app(deployment.bind(config), name)
