"""The table of compressed chunks beside the shards of a version: which shards lack theirs, and how it is made.

A compressor works on vectors that are held already, so nothing is embedded; a shard taken over brings its table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.build import BuiltShard
from okralong.pipelines.archive.files import (
    FILE,
    compressed_folder,
    copy_without,
    granularity_folder,
    table_folders,
    write_compressed,
)
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.sara.artifact import ArrayCompressor, compressor_to_index

Built = Mapping[int, Sequence[BuiltShard]]
"""The shards of each granularity, in order of their numbers."""


def wanted_compressor(config: IndexConfig, model: ResolvedModel) -> ArrayCompressor | None:
    """The compressor whose table the archive is to have, None for none. Raises ConfigError for one that cannot be."""
    encoder = {"sha256": model.sha256, "model": config.embedding.model}
    folder = compressor_to_index(config.compressor, encoder, config.granularities)
    return None if folder is None else ArrayCompressor.load(folder)


def compressor_facts(compressor: ArrayCompressor | None) -> dict[str, Any]:
    """What the manifest says of it; nothing where there is none."""
    if compressor is None:
        return {}
    shape = compressor.shape
    said = {"fingerprint": compressor.fingerprint, "granularity": shape.chunk_tokens, "generator": shape.generator}
    return {"compressor": {**said, "vectors_per_chunk": shape.vectors_per_chunk, "hidden": shape.hidden}}


def lacking(archive: Folder, compressor: ArrayCompressor, shards: Built) -> list[str]:
    """The names of the shards whose tables are not there yet."""
    size = compressor.shape.chunk_tokens
    place = compressed_folder(archive, compressor.fingerprint, size)
    return [shard.name for shard in shards[size] if not place.at(shard.name).exists(FILE)]


def compress_shard(archive: str, name: str, compressor: ArrayCompressor) -> int:
    """Write the table of the shard ``name``; its chunks."""
    folder, size = Folder.of(archive), compressor.shape.chunk_tokens
    place = granularity_folder(folder, size).at(name)
    shard = Shard.open(place)
    rows = layout.read_columns(place, layout.ROWS)
    write_compressed(compressed_folder(folder, compressor.fingerprint, size).at(name), rows, shard.vectors, compressor)
    return shard.n_chunks


def carry_without(archive: Folder, parent: Mapping[str, Any], shards: Built, doc_id: str) -> dict[str, Any]:
    """The tables of ``shards`` from those of the version ``parent``, which are the same but for a purged document.

    What the manifest says of the compressor; nothing where the parent has none.
    """
    before = table_folders(archive, parent)
    if not before:
        return {}
    held = parent["compressor"]
    place = compressed_folder(archive, held["fingerprint"], held["granularity"])
    for source, shard in zip(before, shards[held["granularity"]], strict=True):
        target = place.at(shard.name)
        if not target.exists(FILE):
            copy_without(source, target, doc_id)
    return {"compressor": held}
