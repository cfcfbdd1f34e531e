"""The models of a cluster: replicas on Ray Serve, called by handle, and the index job's encoder.

Each class loads its model once in its process.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from ray import serve
from ray.util.metrics import Histogram

from okralong.actors.cluster import (
    REPLICA_SHUTDOWN_GRACE_S,
    REPLICA_SHUTDOWN_POLL_S,
    index_metrics,
    keep_replica_private,
    query_batch_sizes,
    retry_replica,
)
from okralong.pipelines.answering.analyzers.analysis import (
    AnalysisInput,
    ScorerConfig,
    TokenClassifierConfig,
    load_scorer,
    load_token_classifier,
)
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.archive.vectors import VectorStore
from okralong.pipelines.core.config import ANYWHERE, Place
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Analysis, ConfigError, Reading, WordKept
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.indexing.version_builder import compress_shard
from okralong.pipelines.sara.artifact import ArrayCompressor, TableCompressor
from okralong.pipelines.sara.config import SaraConfig
from okralong.pipelines.sara.prompts import Asked, RefusedError, Written, completion, read_request, refusal

BATCH_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BATCH_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Upper bounds of the bins of the two Ray metrics. # project default"""
Vector = npt.NDArray[np.float32]

MAX_BATCH: Final = 32
"""Queries embedded in one pass. # project default: queries are short, and a bigger batch gains nothing on a CPU"""

BATCH_WAIT_S: Final = 0.005
"""Seconds that a batch waits to fill. # project default: well below the time to embed one query"""
RERANKED_TOGETHER: Final = 8
"""Queries whose candidates are read in one batch. # project default: thirty candidates each already fill a processor"""

HELD: Final = 100_000
"""Calls that a replica accepts, running and waiting. # project default: more than a run makes. A full replica refuses,
and Ray's router then retries two calls at a time, with pauses of up to half a second: of 256 questions in flight over
one encoder with a limit of 64, 1.35 a second were embedded, on an idle machine."""

_JSON: Final = "application/json"


class _Batching:
    """A replica that batches the calls that arrive together, in a method ``_batched`` decorated by ``serve.batch``.

    That method counts the ``_sizes`` of its batches and works in a thread, so that the next batch can fill meanwhile.
    """

    _batched: Any

    def __init__(self, max_batch: int, wait_s: float) -> None:
        """Set the batches' limits: at most ``max_batch`` calls, and up to ``wait_s`` seconds to fill."""
        keep_replica_private()
        self._sizes: Counter[int] = Counter()
        self._batched.set_max_batch_size(max_batch)
        self._batched.set_batch_wait_timeout_s(wait_s)

    async def stats(self) -> dict[int, int]:
        """Return the number of batches so far, by size."""
        return dict(self._sizes)


class AnalyzerReplica(_Batching):
    """An analyzer; questions that arrive together are analyzed together."""

    def __init__(self, config: AnalyzerConfig) -> None:
        super().__init__(config.max_batch, config.batch_wait_s)
        self._analyzer = load_analyzer(config)
        self._batch_size = Histogram(
            "okralong_analyzer_batch_size", "Questions analyzed in one pass.", list(BATCH_SIZES), ("analyzer",)
        )
        self._batch_seconds = Histogram(
            "okralong_analyzer_batch_seconds", "Seconds that a pass took.", list(BATCH_SECONDS), ("analyzer",)
        )
        for metric in (self._batch_size, self._batch_seconds):
            metric.set_default_tags({"analyzer": self._analyzer.name})

    async def __call__(self, asked: AnalysisInput) -> Analysis:
        """Analyze one question and its primary passages."""
        analysis: Analysis = await self._batched(asked)
        return analysis

    @serve.batch
    async def _batched(self, asked: list[AnalysisInput]) -> list[Analysis]:
        self._sizes[len(asked)] += 1
        self._batch_size.observe(len(asked))
        started = time.perf_counter()
        found = await asyncio.to_thread(self._analyzer.analyze, asked)
        self._batch_seconds.observe(time.perf_counter() - started)
        return found


def analyzer_app(config: AnalyzerConfig, place: Place = ANYWHERE) -> serve.Application:
    """Return the application; its handle is called as ``await handle.remote(AnalysisInput(...))``."""
    return _deployed(AnalyzerReplica, "analyzer", config.replicas, config.gpus_per_replica, place).bind(config)


class QueryEmbedderReplica(_Batching):
    """A query encoder; queries that arrive together are embedded together.

    If a run selects evidence in the space of SARA's compressor, that is loaded too: it reads the encoder's vectors.
    """

    def __init__(self, manifest: Mapping[str, Any], compressor: str | None = None) -> None:
        super().__init__(MAX_BATCH, BATCH_WAIT_S)
        # Imported here: torch takes seconds to load, and the driver does not need it.
        from okralong.pipelines.indexing.query_encoder import load_query_encoder

        self._encoder = load_query_encoder(manifest, MAX_BATCH)
        self._compressor = None if compressor is None else ArrayCompressor.load(Path(compressor))
        self._batch_size = query_batch_sizes()

    async def __call__(self, query: str) -> Vector:
        """Return the unit vector of one query, shape (dimension,), float32."""
        vector: Vector = await self._batched(query)
        return vector

    async def compress(self, vectors: Vector) -> Vector:
        """Map vectors of the encoder, shape (n, dimension), to unit vectors of the compressor, shape (n, hidden)."""
        if self._compressor is None:
            raise ConfigError("This run was started without a compressor. Name one under sara.compressor.")
        return await asyncio.to_thread(self._compressor.pooled, vectors)

    @serve.batch
    async def _batched(self, queries: list[str]) -> list[Vector]:
        self._sizes[len(queries)] += 1
        self._batch_size.observe(len(queries))
        return list(await asyncio.to_thread(self._encoder.encode_queries, queries))


def query_embedder_app(
    manifest: Mapping[str, Any],
    replicas: int = 1,
    gpus_per_replica: float = 0.0,
    place: Place = ANYWHERE,
    compressor: Path | None = None,
) -> serve.Application:
    """Return the application; its handle is called as ``await handle.remote("a query")``.

    Args:
        manifest: The archive's: queries must be embedded as its chunks were. A replica does not start if the model
            cannot be loaded or is not the archive's.
        replicas: How many replicas.
        gpus_per_replica: GPUs of each.
        place: Where they run.
        compressor: Folder of a compressor, for ``handle.compress.remote(vectors)``.
    """
    return _deployed(QueryEmbedderReplica, "query-embedder", replicas, gpus_per_replica, place).bind(
        {key: manifest[key] for key in ("config", "embedding")}, compressor and str(compressor)
    )


class GeneratorReplica(_Batching):
    """SARA's generator: chat completions with vectors in them, answered in batches.

    Its handle speaks OpenAI's protocol, and ``HandleTransport`` uses it in place of the network: the calls of a run go
    through the same LLM client as others, with ledger and journal, and no port is opened.
    """

    def __init__(self, config: SaraConfig, model: str, window: int) -> None:
        super().__init__(config.max_batch, config.batch_wait_s)
        # Imported here: torch and transformers take seconds, and the driver needs neither.
        from okralong.pipelines.models.weights import available_cores
        from okralong.pipelines.sara.artifact import served_generator
        from okralong.pipelines.sara.generator import MixedGenerator

        folder: Path = config.folder()
        self._name = served_generator(folder, model).name
        # By default Ray gives an actor one thread.
        self._generator = MixedGenerator.load(folder, model, window, config.precision, threads=available_cores())

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Return the HTTP status and the body of the reply to a request."""
        try:
            return 200, json.dumps(await self._reply(method, path, body)).encode()
        except RefusedError as error:
            return error.status, json.dumps(refusal(error)).encode()

    async def _reply(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        if (method, path.rstrip("/")) == ("GET", "/v1/models"):
            return {"object": "list", "data": [{"id": self._name, "object": "model", "owned_by": "okralong"}]}
        if (method, path.rstrip("/")) != ("POST", "/v1/chat/completions"):
            raise RefusedError(f"There is no {method} {path} here.", 404)
        asked = read_request(body, self._name, self._generator.hidden)
        written = await self._batched(asked)
        if isinstance(written, RefusedError):
            raise written
        return completion(self._name, written)

    @serve.batch
    async def _batched(self, asked: list[Asked]) -> list[Written | RefusedError]:
        self._sizes[len(asked)] += 1
        return await asyncio.to_thread(self._generator.answer, asked)


def sara_generator_app(config: SaraConfig, model: str, window: int, place: Place = ANYWHERE) -> serve.Application:
    """Return the application, which is used through ``HandleTransport``.

    ``model`` is the generator as ``llm.model`` names it; ``window`` is in tokens.
    """
    return _deployed(GeneratorReplica, "sara-generator", config.replicas, config.gpus_per_replica, place).bind(
        config, model, window
    )


class HandleTransport(httpx2.AsyncBaseTransport):
    """HTTP to a deployment through its handle, for an OpenAI client."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the deployment's reply; requests that a dying replica loses are repeated, which costs nothing."""
        body = await request.aread()
        ask = partial(self._handle.ask.remote, request.method, request.url.path, body)
        limit = (request.extensions.get("timeout") or {}).get("read")
        try:
            status, said = await asyncio.wait_for(retry_replica(ask), limit)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no reply within {limit} s", request=request) from None
        return httpx2.Response(status, headers={"content-type": _JSON}, content=said, request=request)


class RerankerReplica(_Batching):
    """A cross-encoder; candidates of queries that arrive together are read together."""

    def __init__(self, config: RerankerConfig) -> None:
        super().__init__(RERANKED_TOGETHER, config.batch_wait_s)
        self._model = load_reranker(config)
        self._max_pairs = config.max_batch

    async def __call__(self, query: str, passages: list[str]) -> list[Reading]:
        """Return the readings of one query's passages, in their order."""
        readings: list[Reading] = await self._batched((query, passages))
        return readings

    @serve.batch
    async def _batched(self, asked: list[tuple[str, list[str]]]) -> list[list[Reading]]:
        self._sizes[len(asked)] += 1
        return await asyncio.to_thread(self._model.read_each, asked, self._max_pairs)


def reranker_app(config: RerankerConfig, place: Place = ANYWHERE) -> serve.Application:
    """Return the application; its handle is called as ``await handle.remote(query, passages)``."""
    return _deployed(RerankerReplica, "reranker", config.replicas, config.gpus_per_replica, place).bind(config)


class ScorerReplica:
    """A language model that measures likelihoods."""

    def __init__(self, config: ScorerConfig) -> None:
        keep_replica_private()
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
    """Return the application; its handle is called as ``await handle.remote(prefix, texts)``."""
    deployment = _deployed(ScorerReplica, "scorer", config.replicas, config.gpus_per_replica, place)
    return deployment.bind(config)


class TokenClassifierReplica:
    """A token classifier."""

    def __init__(self, config: TokenClassifierConfig) -> None:
        keep_replica_private()
        self._model = load_token_classifier(config)
        self._turn = asyncio.Lock()

    async def __call__(self, texts: list[str]) -> list[list[WordKept]]:
        """See ``TokenClassifier.keep``."""
        async with self._turn:
            return await asyncio.to_thread(self._model.keep, texts)


def token_classifier_app(config: TokenClassifierConfig, place: Place = ANYWHERE) -> serve.Application:
    """Return the application; its handle is called as ``await handle.remote(texts)``."""
    each = config.replicas, config.gpus_per_replica, place
    return _deployed(TokenClassifierReplica, "token-classifier", *each).bind(config)


def _deployed(replica: type[Any], name: str, replicas: int, gpus_per_replica: float, place: Place) -> serve.Deployment:
    """Return a deployment whose replicas accept every call at once."""
    return serve.deployment(
        name=name,
        num_replicas=replicas,
        max_ongoing_requests=HELD,
        graceful_shutdown_wait_loop_s=REPLICA_SHUTDOWN_POLL_S,
        graceful_shutdown_timeout_s=REPLICA_SHUTDOWN_GRACE_S,
        ray_actor_options={"num_cpus": 0, "num_gpus": gpus_per_replica, **place.options()},
    )(replica)


class Embedder:
    """A sentence encoder as a Ray Data actor, which turns the texts of a vector file into that file."""

    def __init__(
        self, archive: str, encoder: str, path: str, config: EmbeddingConfig, tally: Any | None = None
    ) -> None:
        """Load the encoder; ``tally`` is an actor that counts the texts of each batch."""
        # Imported here: torch takes seconds to load, and only this process needs it.
        from okralong.pipelines.indexing.embedding import SentenceEmbedder
        from okralong.pipelines.models.weights import available_cores

        self._store = VectorStore.of(Folder.of(archive), encoder, config.dtype)
        self._metrics = index_metrics()
        self._told = (lambda *_: None) if tally is None else tally.add.remote
        # By default Ray gives an actor one thread, but the encoder should use the whole machine.
        threads = max(1, available_cores() // config.actors)
        self._encoder = SentenceEmbedder(
            path,
            config.max_seq_length,
            config.precision,
            config.batch_size,
            threads=threads,
            passage_prefix=config.passage_prefix,
        )

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Write the vectors of each row (number, keys, texts, tokens); return the counts."""
        return pa.Table.from_pylist([self._embed(row) for row in batch.to_pylist()])

    def compress(self, archive: str, name: str, before: str | None, compressor: TableCompressor) -> int:
        """See ``compress_shard``; embeds sentences."""
        return compress_shard(archive, name, before, compressor, self._encoder.encode)

    def _embed(self, row: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        tokens: list[int] = row["tokens"]
        embedded = self._encoder.embed(
            row["texts"], lambda places: self._told(len(places), sum(tokens[place] for place in places))
        )
        self._store.write(row["number"], row["keys"], embedded.vectors, embedded.over_limit, self._encoder.precision)
        self._metrics.embedded(len(row["texts"]), time.perf_counter() - started)
        return {
            "number": row["number"],
            "texts": len(row["texts"]),
            "tokens": sum(tokens),
            "embed_seconds": time.perf_counter() - started,
        }
