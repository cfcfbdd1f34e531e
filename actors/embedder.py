"""The encoder as a Ray Data actor: it loads the model once and turns ``chunks`` into ``embeddings``."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from okralong.actors.metrics import EmbedMetrics
from okralong.pipelines.indexing.chunk_tables import embeddings_folder, write_vectors
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.storage import Folder


class Embedder:
    """A sentence encoder that takes work orders, each the chunks of one part at one granularity."""

    def __init__(self, archive: str, path: str, name: str, config: EmbeddingConfig) -> None:
        # Imported here: torch takes seconds to load, and of all processes only this one needs it.
        from okralong.pipelines.indexing.embedding import SentenceEmbedder, available_threads

        self._archive = Folder.of(archive)
        self._metrics = EmbedMetrics()
        self._name = name
        self._dtype = config.dtype
        # Ray gives an actor one thread unless told otherwise; the encoder is the one that wants the machine.
        threads = max(1, available_threads() // config.actors)
        self._encoder = SentenceEmbedder(
            path,
            config.max_seq_length,
            config.precision,
            config.batch_size,
            threads=threads,
            passage_prefix=config.passage_prefix,
        )

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Write the vectors of each row (part, granularity, chunk_ids, doc_ids, texts); return its counts."""
        return pa.Table.from_pylist([self._embed(row) for row in batch.to_pylist()])

    def _embed(self, row: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        vectors = self._encoder.encode(row["texts"])
        folder = embeddings_folder(self._archive, row["granularity"], self._name)
        write_vectors(folder, row["part"], row["chunk_ids"], row["doc_ids"], vectors, self._dtype)
        self._metrics.embedded(row["granularity"], len(row["texts"]), time.perf_counter() - started)
        return {
            "part": row["part"],
            "granularity": row["granularity"],
            "chunks": len(row["texts"]),
            "over_limit": self._encoder.count_over_limit(row["texts"]),
            "dimension": self._encoder.dimension,
            "precision": self._encoder.precision,
            "chunk_seconds": row["seconds"],
            "embed_seconds": time.perf_counter() - started,
        }
