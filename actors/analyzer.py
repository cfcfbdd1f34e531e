"""The analyzer behind a Ray Serve handle: questions that arrive together are analysed together."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, Final

from ray import serve
from ray.util.metrics import Histogram

from okralong.actors.serving import GOODBYE_S, OVERLAP
from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.core.config import ANYWHERE, Place
from okralong.pipelines.core.types import Analysis

BATCH_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BATCH_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Upper ends of the bins of the two Ray metrics; ours."""


class AnalyzerReplica:
    """One analyzer in one process. Called with an ``AnalysisInput``, returns its ``Analysis``."""

    def __init__(self, config: AnalyzerConfig) -> None:
        self._analyzer = load_analyzer(config)
        self._sizes: Counter[int] = Counter()
        self._batch_size = Histogram(
            "okralong_analyzer_batch_size", "Questions analysed in one pass.", list(BATCH_SIZES), ("analyzer",)
        )
        self._batch_seconds = Histogram(
            "okralong_analyzer_batch_seconds", "Seconds that a pass took.", list(BATCH_SECONDS), ("analyzer",)
        )
        for metric in (self._batch_size, self._batch_seconds):
            metric.set_default_tags({"analyzer": self._analyzer.name})
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
        self._batch_size.observe(len(asked))
        started = time.perf_counter()
        # In a thread: the next batch must be able to fill while this one is worked on.
        found = await asyncio.to_thread(self._analyzer.analyze, asked)
        self._batch_seconds.observe(time.perf_counter() - started)
        return found


def analyzer_app(config: AnalyzerConfig, place: Place = ANYWHERE) -> serve.Application:
    """What ``actors.serving.run_apps`` starts; its handle: ``await handle.remote(AnalysisInput(...))``."""
    deployment = serve.deployment(
        name="analyzer",
        num_replicas=config.replicas,
        max_ongoing_requests=OVERLAP * config.max_batch,
        graceful_shutdown_wait_loop_s=GOODBYE_S,
        ray_actor_options={"num_cpus": 0, "num_gpus": config.gpus_per_replica, **place.options()},
    )(AnalyzerReplica)
    return deployment.bind(config)
