"""The models and shards of a run on Ray, as one process uses them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from okralong.actors.cluster import named_actor, retry_replica
from okralong.actors.retrieval import RetrievalNames
from okralong.actors.shards import RayShard, Replicas
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import load_analyzer
from okralong.pipelines.answering.models import Models, Vectors
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import Analysis, Reading, WordKept

VECTORS_KEPT: Final = 4096
"""Vectors of queries that a process keeps. # project default: some six megabytes"""


class ServeModels(Models):
    """Index shards in actors, models on Ray Serve; a call that a dying replica loses is repeated."""

    def __init__(self, names: RetrievalNames) -> None:
        self.archive = Archive.open(names.archive)
        self.parts, self.cross_encoder = names.parts, names.cross_encoder
        self.analyzes_english, self.generates_english = names.analyzes_english, names.generates_english
        self._shards = [Replicas([named_actor(name) for name in of_one]) for of_one in names.shards]
        self._rules = None if names.rules is None else load_analyzer(names.rules)
        self._apps = _app_handles(names.apps)
        self._vectors = QueryVectors(self._vector)

    def shards(self, granularity: int) -> list[RayShard]:
        """See ``Models``."""
        return [RayShard(replicas, granularity) for replicas in self._shards]

    def transport(self) -> Any:
        """Return the transport to SARA's generator, or None if the run has another."""
        from okralong.actors.models import HandleTransport

        return HandleTransport(self._apps["generator"]) if "generator" in self._apps else None

    async def embed(self, texts: list[str]) -> Vectors:
        """See ``Models``."""
        return np.stack(await asyncio.gather(*map(self._vectors, texts))).astype(np.float32)

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """See ``Models``."""
        if self._rules is not None:
            return self._rules.analyze([asked])[0]
        analysis: Analysis = await retry_replica(partial(self._apps["analyzer"].remote, asked))
        return analysis

    async def read(self, query: str, passages: list[str]) -> list[Reading]:
        """See ``Models``."""
        readings: list[Reading] = await retry_replica(partial(self._apps["reranker"].remote, query, passages))
        return readings

    async def score(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """See ``Models``."""
        logs: list[list[float]] = await retry_replica(partial(self._apps["scorer"].remote, prefix, texts))
        return logs

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """See ``Models``."""
        ends: list[list[int]] = await retry_replica(partial(self._apps["scorer"].token_ends.remote, texts))
        return ends

    async def keep(self, texts: list[str]) -> list[list[WordKept]]:
        """See ``Models``."""
        words: list[list[WordKept]] = await retry_replica(partial(self._apps["token_classifier"].remote, texts))
        return words

    async def compress(self, vectors: Vectors) -> Vectors:
        """See ``Models``."""
        made: Vectors = await retry_replica(partial(self._apps["embedder"].compress.remote, vectors))
        return made

    async def _vector(self, query: str) -> Vectors:
        vector: Vectors = await retry_replica(partial(self._apps["embedder"].remote, query))
        return vector


def _app_handles(apps: Mapping[str, str]) -> dict[str, Any]:
    """Return the handles of applications on Ray Serve, by part."""
    if not apps:
        return {}
    from ray import serve

    return {part: serve.get_app_handle(name) for part, name in apps.items()}


class QueryVectors:
    """A cache of query vectors, which may be called from any event loop.

    A question searches with the same query at several chunk sizes and in many documents.
    """

    def __init__(self, embed: Callable[[str], Coroutine[Any, Any, Vectors]]) -> None:
        """``embed`` returns the unit vector of a query, shape (dimension,)."""
        self._embed = embed
        self._kept: dict[asyncio.AbstractEventLoop, OrderedDict[str, asyncio.Task[Vectors]]] = {}

    async def __call__(self, query: str) -> Vectors:
        """Return the unit vector of a query. Raises what ``embed`` raises; a failure is not cached."""
        loop = asyncio.get_running_loop()
        kept = self._kept.setdefault(loop, OrderedDict())  # a task belongs to its loop
        if query not in kept or _failed(kept[query]):
            kept[query] = loop.create_task(self._embed(query))
            if len(kept) > VECTORS_KEPT:
                kept.popitem(last=False)
        kept.move_to_end(query)
        return await asyncio.shield(kept[query])  # other callers still wait when this one is cancelled


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
