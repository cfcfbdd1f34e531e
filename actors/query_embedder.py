"""The dense encoder behind a Ray Serve handle: queries that arrive together are embedded together.

Where a run chooses evidence in the space of SARA's compressor, that one is here too: it reads the encoder's vectors.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from ray import serve

from okralong.actors.metrics import query_batch_sizes
from okralong.actors.serving import GOODBYE_S, OVERLAP
from okralong.pipelines.core.config import ANYWHERE, Place
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.sara.artifact import ArrayCompressor

Vector = npt.NDArray[np.float32]

MAX_BATCH: Final = 32
"""Queries embedded in one pass; ours. They are short: a bigger batch gains nothing on a CPU."""

BATCH_WAIT_S: Final = 0.005
"""Longest wait for a batch to fill; ours, well below what one query takes to embed."""


class QueryEmbedderReplica:
    """One encoder in one process. Called with a query, returns its unit vector (dimension,), float32."""

    def __init__(self, manifest: Mapping[str, Any], compressor: str | None = None) -> None:
        # Imported here: torch takes seconds to load, and the driver does not need it.
        from okralong.pipelines.indexing.embedding import SentenceEmbedder
        from okralong.pipelines.models.weights import available_cores, resolve_embedding_model

        wanted = EmbeddingConfig(**manifest["config"]["embedding"])
        model = resolve_embedding_model(wanted.model)
        # Ray gives an actor one thread unless told otherwise.
        self._encoder = SentenceEmbedder(
            model.path,
            wanted.max_seq_length,
            wanted.query_precision,
            MAX_BATCH,
            threads=available_cores(),
            query_prefix=wanted.query_prefix,
        )
        made_with = manifest["embedding"]
        if (model.sha256, self._encoder.dimension) != (made_with["sha256"], made_with["dimension"]):
            raise ConfigError(
                f"The archive's vectors were made by other weights (sha256 {made_with['sha256']}, dimension "
                f"{made_with['dimension']}) than those that {wanted.model!r} names now. Index the archive again."
            )
        self._compressor = None if compressor is None else ArrayCompressor.load(Path(compressor))
        self._sizes: Counter[int] = Counter()
        self._batch_size = query_batch_sizes()

    async def __call__(self, query: str) -> Vector:
        """The unit vector of one query."""
        vector: Vector = await self._batched(query)
        return vector

    async def compress(self, vectors: Vector) -> Vector:
        """Unit vectors of the compressor's space, shape (n, hidden), of the encoder's, shape (n, dimension)."""
        if self._compressor is None:
            raise ConfigError("This run was started without a compressor. Name one under sara.compressor.")
        return await asyncio.to_thread(self._compressor.pooled, vectors)

    async def stats(self) -> dict[int, int]:
        """How many batches of each size were embedded so far."""
        return dict(self._sizes)

    @serve.batch(max_batch_size=MAX_BATCH, batch_wait_timeout_s=BATCH_WAIT_S)
    async def _batched(self, queries: list[str]) -> list[Vector]:
        self._sizes[len(queries)] += 1
        self._batch_size.observe(len(queries))
        # In a thread: the next batch must be able to fill while this one is worked on.
        return list(await asyncio.to_thread(self._encoder.encode_queries, queries))


def query_embedder_app(
    manifest: Mapping[str, Any],
    replicas: int = 1,
    gpus_per_replica: float = 0.0,
    place: Place = ANYWHERE,
    compressor: Path | None = None,
) -> serve.Application:
    """What ``actors.serving.run_apps`` starts; its handle: ``await handle.remote("a query")``.

    ``manifest`` is the archive's: queries must be embedded just as its chunks were. A replica does not start when the
    model cannot be loaded or is another than the archive's. ``compressor`` is the folder of a compressor, for
    ``handle.compress.remote(vectors)``.
    """
    deployment = serve.deployment(
        name="query-embedder",
        num_replicas=replicas,
        max_ongoing_requests=OVERLAP * MAX_BATCH,
        graceful_shutdown_wait_loop_s=GOODBYE_S,
        ray_actor_options={"num_cpus": 0, "num_gpus": gpus_per_replica, **place.options()},
    )(QueryEmbedderReplica)
    return deployment.bind({key: manifest[key] for key in ("config", "embedding")}, compressor and str(compressor))
