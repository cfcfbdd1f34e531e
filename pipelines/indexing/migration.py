"""What an archive of the layout before versions hands on to its first version: the vectors, which cost the most.

Its documents are read and cut anew. Its own files stay as they are, for runs that read them, until they are vacuumed.
"""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

from okralong.pipelines.archive.vectors import VectorStore, key_bytes, text_keys
from okralong.pipelines.archive.versions import before_versions
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.models.weights import INT8, ResolvedModel


def take_over_vectors(archive: Folder, store: VectorStore, config: IndexConfig, model: ResolvedModel) -> int:
    """Write the vectors of an old archive by this very encoder into ``store``; how many texts that were.

    Does nothing where there is no such archive, where its encoder is another, or where the store has vectors already.
    """
    old = before_versions(archive)
    if old is None or not _same_encoder(old, config, model) or store.numbers():
        return 0
    seen: set[bytes] = set()
    number = 1
    for size in old["granularities"]:
        chunks = archive.at("chunks", f"granularity={size}")
        held = archive.at("embeddings", f"granularity={size}", f"model={model.name.replace('/', '--')}")
        counts = old.get("chunks_over_encoder_limit", {})
        over_limit = False if counts.get(str(size)) == 0 else None
        for name in sorted(set(chunks.names(".parquet")) & set(held.names(".parquet"))):
            texts = dict(_columns(chunks, name, "chunk_id", "text"))
            keys, rows = [], []
            for row, chunk_id in enumerate(_columns(held, name, "chunk_id")):
                (key,) = key_bytes(text_keys([texts.get(chunk_id[0], "")]))
                if chunk_id[0] in texts and key not in seen:
                    seen.add(key)
                    keys.append(key)
                    rows.append(row)
            if keys:
                vectors = _vectors(held, name)[rows]
                precision = str(old["embedding"].get("precision", "float32"))
                store.write(number, keys, vectors, [over_limit] * len(keys), precision)
                number += 1
    return len(seen)


def _same_encoder(old: dict[str, Any], config: IndexConfig, model: ResolvedModel) -> bool:
    was, one = old["embedding"], config.embedding
    if one.precision == INT8:  # which there was not
        return False
    prefix = old.get("config", {}).get("embedding", {}).get("passage_prefix")
    return (was.get("name"), was.get("sha256"), was.get("max_seq_length"), was.get("dtype"), prefix) == (
        model.name,
        model.sha256,
        one.max_seq_length,
        one.dtype,
        one.passage_prefix,
    )


def _columns(folder: Folder, name: str, *columns: str) -> Any:
    with folder.filesystem.open_input_file(folder.at(name).path) as file:
        table = pq.ParquetFile(file).read(columns=list(columns))
    return zip(*(table[column].to_pylist() for column in columns), strict=True)


def _vectors(folder: Folder, name: str) -> Any:
    with folder.filesystem.open_input_file(folder.at(name).path) as file:
        column = pq.ParquetFile(file).read(columns=["vector"])["vector"].combine_chunks()
    return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size).astype("float32")
