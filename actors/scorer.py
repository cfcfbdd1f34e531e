"""The language model that measures likelihoods, behind a Ray Serve handle."""

from __future__ import annotations

import asyncio
from typing import Final

from ray import serve

from okralong.actors.serving import GOODBYE_S
from okralong.pipelines.answering.analysis import ScorerConfig, load_scorer
from okralong.pipelines.core.config import ANYWHERE, Place

ONGOING: Final = 8
"""Calls that a replica holds, one at work and the others waiting their turn; ours. One call fills the processor."""


class ScorerReplica:
    """One model in one process. Called with a prefix and texts, returns the log-likelihoods of each text's tokens."""

    def __init__(self, config: ScorerConfig) -> None:
        self._model = load_scorer(config)
        self._turn = asyncio.Lock()

    async def __call__(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """See ``LikelihoodModel.score``."""
        async with self._turn:
            return await asyncio.to_thread(self._model.score, prefix, texts)

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """See ``LikelihoodModel.token_ends``."""
        async with self._turn:
            return self._model.token_ends(texts)


def scorer_app(config: ScorerConfig, place: Place = ANYWHERE) -> serve.Application:
    """What ``actors.serving.run_apps`` starts; its handle: ``await handle.remote(prefix, texts)``."""
    deployment = serve.deployment(
        name="scorer",
        num_replicas=config.replicas,
        max_ongoing_requests=ONGOING,
        graceful_shutdown_wait_loop_s=GOODBYE_S,
        ray_actor_options={"num_cpus": 0, "num_gpus": config.gpus_per_replica, **place.options()},
    )(ScorerReplica)
    return deployment.bind(config)
