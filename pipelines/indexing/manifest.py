"""What an archive says of itself: from which inputs, with which settings and models it was made, and what it holds."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.ingest import Read
from okralong.pipelines.indexing.readers.listing import Listing
from okralong.pipelines.models.embedded import ResolvedModel
from okralong.pipelines.tables import SCHEMA_VERSION

_PACKAGES: Final = ("okralong", "ray", "torch", "transformers", "sentence-transformers", "pyarrow", "pypdfium2")


def fingerprint_of(listing: Listing, config: IndexConfig, model: ResolvedModel) -> str:
    """The same for the same files, config and model, wherever they are. Files that cannot be read count by name."""
    inputs = [(source.doc_id, Path(source.uri).suffix, source.sha256) for source in listing.sources]
    content = [
        SCHEMA_VERSION,
        config.model_dump(exclude={"placement"}),
        model.name,
        model.sha256,
        inputs,
        [row.doc_id for row in listing.bad],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def archive_manifest(
    fingerprint: str,
    config: IndexConfig,
    model: ResolvedModel,
    good: Sequence[Read],
    bad: Sequence[tuple[str, str]],
    rows: Sequence[dict[str, Any]],
    seconds: dict[str, float],
) -> dict[str, Any]:
    """The manifest of a finished archive. ``rows`` are the embedder's counts; ``seconds`` are wall time by stage."""
    chunks: Counter[str] = Counter()
    over_limit: Counter[str] = Counter()
    for row in rows:
        chunks[str(row["granularity"])] += row["chunks"]
        over_limit[str(row["granularity"])] += row["over_limit"]
    return {
        "kind": "archive",
        "fingerprint": fingerprint,
        "schema_version": SCHEMA_VERSION,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.model_dump(),
        "granularities": config.granularities,
        "shards": config.shards,
        "documents": len(good),
        "document_tokens": sum(outcome.n_tokens for outcome in good),
        "failures": len(bad),
        "chunks": dict(chunks),
        "chunks_over_encoder_limit": dict(over_limit),
        "embedding": {
            "model": config.embedding.model,
            "name": model.name,
            "sha256": model.sha256,
            "dimension": rows[0]["dimension"],
            "precision": rows[0]["precision"],
            "max_seq_length": config.embedding.max_seq_length,
            "dtype": config.embedding.dtype,
        },
        "seconds": seconds,
        "work_seconds": {
            "chunk": round(sum(row["chunk_seconds"] for row in rows), 3),
            "embed": round(sum(row["embed_seconds"] for row in rows), 3),
        },
        "versions": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
