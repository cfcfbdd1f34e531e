"""The two Ray Data streams of the index job: files to ``documents``; ``documents`` to ``chunks`` and ``embeddings``.

Rows carry work and outcomes; each task writes its own immutable part under a name that depends on the input alone. Ray
Data starts each stream anew, which takes seconds, so there are two of them and not one a table.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

import ray
import ray.data

from okralong.actors.embedder import Embedder
from okralong.pipelines.errors import OkraError
from okralong.pipelines.indexing.chunk_tables import chunk_part
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.ingest import Read, ingest_part
from okralong.pipelines.indexing.limits import Limits
from okralong.pipelines.indexing.readers.raw import Source
from okralong.pipelines.indexing.reading.reader import held_reader
from okralong.pipelines.models.embedded import ResolvedModel
from okralong.pipelines.placement import ANYWHERE, Place

_MOST_BLOCKS: Final = 2000
"""Ours: each block is a Ray task; beyond this several parts share one."""


def read_stream(
    archive: str, parts: Sequence[Sequence[Source]], limits: Limits, place: Place = ANYWHERE
) -> Iterator[Read]:
    """Read and write every part of ``documents`` on nodes of ``place``; what became of each document, in any order."""

    stride = len(parts)  # the sources themselves must not travel to every task

    def ingest(row: dict[str, Any]) -> list[dict[str, Any]]:
        sources = [Source(**source) for source in row["sources"]]
        outcomes = ingest_part(archive, row["part"], sources, held_reader(limits), stride)
        return [asdict(outcome) for outcome in outcomes]

    items = [{"part": part, "sources": [asdict(s) for s in sources]} for part, sources in enumerate(parts)]
    for row in _rows(_dataset(items).flat_map(ingest, **place.options())):
        yield Read(**row)


def embed_stream(
    archive: str, parts: Sequence[int], model: ResolvedModel, config: IndexConfig
) -> Iterator[dict[str, Any]]:
    """Chunk and embed every part at every granularity; the embedder's row of counts for each, in any order."""

    def chunk(row: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        table = chunk_part(archive, row["part"], row["granularity"], config.boundaries)
        lists = {
            "chunk_ids": table["chunk_id"].to_pylist(),
            "doc_ids": table["doc_id"].to_pylist(),
            "texts": table["text"].to_pylist(),
        }
        return {**row, **lists, "seconds": time.perf_counter() - started}

    items = [{"part": part, "granularity": granularity} for part in parts for granularity in config.granularities]
    vectors = (
        _dataset(items)
        .map(chunk, **config.placement.readers.options())
        .map_batches(
            Embedder,
            fn_constructor_args=(archive, model.path, model.name, config.embedding),
            batch_size=1,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=config.embedding.actors),
            num_cpus=1,
            num_gpus=_gpus(config.embedding),
            **config.placement.embedders.options(),
        )
    )
    yield from _rows(vectors)


def _dataset(items: list[dict[str, Any]]) -> ray.data.Dataset:
    context = ray.data.DataContext.get_current()
    if not sys.stderr.isatty() or os.environ.get("RAY_DATA_DISABLE_PROGRESS_BARS") == "1":
        context.enable_progress_bars = False
    context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray.data.from_items(items, override_num_blocks=min(len(items), _MOST_BLOCKS))


def _rows(dataset: ray.data.Dataset) -> Iterator[dict[str, Any]]:
    try:
        yield from dataset.iter_rows()
    except Exception as error:
        raise _ours(error) or error from error


def _ours(error: BaseException | None) -> OkraError | None:
    """The error of ours that Ray wrapped, if there is one."""
    while error is not None and not isinstance(error, OkraError):
        cause = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) and cause is not error else error.__cause__
    return error


def _gpus(config: EmbeddingConfig) -> float:
    if config.gpus_per_actor != "auto":
        return float(config.gpus_per_actor)
    cluster: Any = ray
    return 1.0 if cluster.cluster_resources().get("GPU", 0) >= 1 else 0.0
