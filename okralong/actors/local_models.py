"""The models of runs in this process: loaded once, in a thread, and used by several runs at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, TypeVar

import numpy as np

from okralong.actors.retrieval import cross_encoder_of, generates_english, needed_models
from okralong.actors.serve_models import QueryVectors
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, load_scorer, load_token_classifier
from okralong.pipelines.answering.analyzers.analyzer import load_analyzer
from okralong.pipelines.answering.models import PARTS, Models, Vectors
from okralong.pipelines.answering.rerank import load_reranker
from okralong.pipelines.archive.search import LocalShard
from okralong.pipelines.core.types import Analysis, Reading, WordKept
from okralong.pipelines.run.prepare import Prepared

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

TOGETHER: Final = 32
"""Texts, questions or queries that a model handles in one pass, as on Ray Serve. # project default"""


class LoadedModel:
    """A model in this process, loaded or being loaded.

    It is called by one thread at a time, whatever the run: a tokenizer keeps the settings of a call until the next.
    """

    def __init__(self, loading: Future[Any]) -> None:
        self._loading = loading
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when it is loaded. Raises ConfigError if it cannot be loaded."""
        self._loading.result()

    def use(self, work: Callable[[Any], T]) -> T:
        """Return what ``work`` returns for the model. Raises ConfigError if it cannot be loaded."""
        model = self._loading.result()
        with self._lock:
            return work(model)


class LoadedModels:
    """Models of runs, loaded one after the other in a thread of this process; runs that need equal ones share them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "okralong-models")
        self._loaded: list[tuple[str, object, LoadedModel]] = []

    def bring(self, prepared: Prepared, asking: bool = True) -> None:
        """Start loading the run's missing models, in the order in which a question needs them.

        An estimate, which is not ``asking``, needs fewer.
        """
        config = prepared.config
        load: dict[str, Callable[[], Any]] = {
            "embedder": lambda: _query_encoder(prepared.manifest),
            "analyzer": lambda: load_analyzer(config.analyzer),
            "reranker": lambda: load_reranker(config.reranker),
            "token_classifier": lambda: load_token_classifier(config.token_classifier),
        }
        if config.scorer is not None:
            load["scorer"] = partial(load_scorer, config.scorer)
        for part, identity in needed_models(prepared, asking).items():
            if self._find(part, identity) is None:
                self._loaded.append((part, identity, LoadedModel(self._thread.submit(load[part]))))

    def of(self, prepared: Prepared, asking: bool = True) -> dict[str, LoadedModel]:
        """Return the models of a run, by part. Raises LookupError if ``bring`` was not called for the run."""
        found: dict[str, LoadedModel] = {}
        for part, identity in needed_models(prepared, asking).items():
            model = self._find(part, identity)
            if model is None:
                raise LookupError(f"the run's {part} was not loaded")
            found[part] = model
        return found

    def misfit(self, prepared: Prepared) -> str:
        """Return a part for which the run needs a model that is not loaded, or ""."""
        needed = needed_models(prepared).items()
        return next((part for part, identity in needed if self._find(part, identity) is None), "")

    def wait(self) -> None:
        """Return when all are loaded. Raises ConfigError if one cannot be loaded."""
        for _, _, model in list(self._loaded):
            model.wait()

    def close(self) -> None:
        """Stop loading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _find(self, part: str, identity: object) -> LoadedModel | None:
        return next((model for name, what, model in self._loaded if (name, what) == (part, identity)), None)


def _query_encoder(manifest: Mapping[str, Any]) -> Any:
    # Imported here: torch takes seconds, and meanwhile the generator starts.
    from okralong.pipelines.indexing.query_encoder import load_query_encoder

    return load_query_encoder(manifest, TOGETHER)


class LocalModels(Models):
    """Shards and models of a run in this process."""

    def __init__(self, prepared: Prepared, models: LoadedModels, asking: bool = True) -> None:
        """``models`` has loaded those of the run, or is loading them."""
        self._models = own = models.of(prepared, asking)
        self.archive = prepared.archive
        self.parts = frozenset(part for part in PARTS if part in own)
        self.cross_encoder = cross_encoder_of(prepared, self.parts)
        self.analyzes_english = prepared.config.analyzer.knows_english_alone
        self.generates_english = generates_english(prepared)
        most = prepared.config.reranker.max_batch
        embed: _Together[str, Any] = _Together(
            lambda texts: own["embedder"].use(lambda model: list(model.encode_queries(texts)))
        )
        self._vectors = QueryVectors(embed.__call__)
        self._analyze: _Together[AnalysisInput, Analysis] = _Together(
            lambda asked: own["analyzer"].use(lambda model: model.analyze(asked))
        )
        self._read: _Together[tuple[str, list[str]], list[Reading]] = _Together(
            lambda asked: own["reranker"].use(lambda model: model.read_each(asked, most))
        )

    def shards(self, granularity: int) -> list[LocalShard]:
        """See ``Models``."""
        return [LocalShard(self.archive.shard(granularity, number)) for number in range(self.archive.n_shards)]

    async def embed(self, texts: list[str]) -> Vectors:
        """See ``Models``."""
        return np.stack(await asyncio.gather(*map(self._vectors, texts))).astype(np.float32)

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """See ``Models``."""
        return await self._analyze(asked)

    async def read(self, query: str, passages: list[str]) -> list[Reading]:
        """See ``Models``."""
        return await self._read((query, passages))

    async def score(self, prefix: str, texts: list[str]) -> list[list[float]]:
        """See ``Models``."""
        return await asyncio.to_thread(self._models["scorer"].use, lambda model: model.score(prefix, texts))

    async def token_ends(self, texts: list[str]) -> list[list[int]]:
        """See ``Models``."""
        return await asyncio.to_thread(self._models["scorer"].use, lambda model: model.token_ends(texts))

    async def keep(self, texts: list[str]) -> list[list[WordKept]]:
        """See ``Models``."""
        return await asyncio.to_thread(self._models["token_classifier"].use, lambda model: model.keep(texts))


class _Together(Generic[A, B]):
    """Batches the calls of one event loop to a model: those that arrive while it works share its next pass."""

    def __init__(self, work: Callable[[list[A]], Sequence[B]]) -> None:
        self._work = work
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def __call__(self, asked: A) -> B:
        """Return the result for ``asked``. An exception of ``work`` reaches every call of the batch."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[B] = loop.create_future()
        self._waiting.append((asked, found))
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        return await found

    async def _serve(self) -> None:
        await asyncio.sleep(0)  # calls of the same moment go together
        while self._waiting:
            taken, self._waiting = self._waiting[:TOGETHER], self._waiting[TOGETHER:]
            try:
                made = await asyncio.to_thread(self._work, [asked for asked, _ in taken])
            except Exception as error:
                for _, found in taken:
                    if not found.done():
                        found.set_exception(error)
            else:
                for (_, found), one in zip(taken, made, strict=True):
                    if not found.done():
                        found.set_result(one)
