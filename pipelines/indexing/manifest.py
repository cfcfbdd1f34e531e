"""What a version says of itself: from which settings and models it was made, what it holds, and in which files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from okralong.pipelines.archive.build import BuiltShard
from okralong.pipelines.archive.versions import LAYOUT
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.models.weights import ResolvedModel

_PACKAGES: Final = ("okralong", "ray", "torch", "transformers", "sentence-transformers", "pyarrow", "pypdfium2")


def fingerprint_of(
    config: IndexConfig, model: ResolvedModel, files: Mapping[str, Any], compressor: str | None = None
) -> str:
    """The same for the same documents, failures, config and models. ``files`` are named by what they hold;
    ``compressor`` is the fingerprint of the one whose table stands beside them.
    """
    content = [SCHEMA_VERSION, LAYOUT, config.content(), model.name, model.sha256]
    content += [files["catalogue"], files["failures"], files["index"]]
    content += [compressor] if compressor is not None else []  # without one, the hash is that of before there were any
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def embedding_facts(config: IndexConfig, model: ResolvedModel, dimension: int, precision: str) -> dict[str, Any]:
    """The encoder of a version, for those who embed questions."""
    return {
        "model": config.embedding.model,
        "name": model.name,
        "sha256": model.sha256,
        "dimension": dimension,
        "precision": precision,
        "max_seq_length": config.embedding.max_seq_length,
        "dtype": config.embedding.dtype,
    }


def version_manifest(
    number: int,
    config: IndexConfig,
    shards: Mapping[int, Sequence[BuiltShard]],
    about: Mapping[str, Any],
) -> dict[str, Any]:
    """The manifest of version ``number``; ``about`` is what else there is to say."""
    return {
        "kind": "archive",
        "version": number,
        "layout": LAYOUT,
        "schema_version": SCHEMA_VERSION,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.content(),
        "granularities": config.granularities,
        "shards": len(next(iter(shards.values()))),
        "chunks": {str(size): sum(shard.rows for shard in built) for size, built in shards.items()},
        "chunks_over_encoder_limit": {
            str(size): sum(shard.over_limit for shard in built) for size, built in shards.items()
        },
        "versions": {name: _version(name) for name in _PACKAGES},
        **about,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
