"""The encoder as a Ray Data actor: it loads the model once and turns texts into files of ``vectors``."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from okralong.actors.metrics import index_metrics
from okralong.pipelines.archive.vectors import VectorStore
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import EmbeddingConfig


class Embedder:
    """A sentence encoder that takes work orders, each the texts of one vector file."""

    def __init__(self, archive: str, encoder: str, path: str, config: EmbeddingConfig) -> None:
        # Imported here: torch takes seconds to load, and of all processes only this one needs it.
        from okralong.pipelines.indexing.embedding import SentenceEmbedder, available_threads

        self._store = VectorStore.of(Folder.of(archive), encoder, config.dtype)
        self._metrics = index_metrics()
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
        """Write the vectors of each row (number, keys, texts); return its counts."""
        return pa.Table.from_pylist([self._embed(row) for row in batch.to_pylist()])

    def _embed(self, row: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        embedded = self._encoder.embed(row["texts"])
        self._store.write(row["number"], row["keys"], embedded.vectors, embedded.over_limit, self._encoder.precision)
        self._metrics.embedded(len(row["texts"]), time.perf_counter() - started)
        return {
            "number": row["number"],
            "texts": len(row["texts"]),
            "embed_seconds": time.perf_counter() - started,
        }
