"""Versions of archives written straight to their files: documents, shards as they are given, and the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from okralong.pipelines.archive.versions import (
    LAYOUT,
    DocumentEntry,
    KnownSource,
    publish,
    version_numbers,
    write_catalogue,
    write_sources,
)
from okralong.pipelines.core.schemas import DOCUMENTS, SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder


def shard_name(number: int) -> str:
    """What the shards of such an archive are called, in each granularity's folder."""
    return f"shard-{number:05d}"


def write_version(
    location: Path,
    documents: Sequence[Mapping[str, Any]],
    granularities: Sequence[int],
    embedding: Mapping[str, Any],
    shards: int = 1,
    sources: Sequence[KnownSource] = (),
    **about: Any,
) -> Path:
    """Publish the next version: ``documents`` are rows of that table; shards are not written here."""
    archive = Folder.of(location)
    archive.at("documents").write_table("made-00.parquet", pa.Table.from_pylist(list(documents), schema=DOCUMENTS))
    entries = [
        DocumentEntry(row["doc_id"], "", row["n_tokens"], "made-00", row["doc_id"], row["doc_id"], row["doc_id"])
        for row in documents
    ]
    names = [shard_name(number) for number in range(shards)]
    manifest = {
        "version": len(version_numbers(archive)) + 1,
        "layout": LAYOUT,
        "schema_version": SCHEMA_VERSION,
        "granularities": list(granularities),
        "embedding": dict(embedding),
        "shards": shards,
        "documents": len(documents),
        "files": {
            "catalogue": write_catalogue(archive, entries, shards),
            "sources": write_sources(archive, sources),
            "index": {str(size): names for size in granularities},
        },
    }
    publish(archive, manifest | about)
    return location
