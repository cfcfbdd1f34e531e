"""The layout of archives before versions, which okralong reads and no longer writes: its table ``embeddings``, and its
shards, one folder a number below ``index/granularity=N``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.build import write_shard
from okralong.pipelines.archive.files import DenseConfig, shard_of
from okralong.pipelines.core import schemas as tables
from okralong.pipelines.core.storage import Folder


def embeddings_schema(dimension: int, precision: str = "float32") -> pa.Schema:
    """A row a chunk: unit vectors of ``dimension`` floats of 16 or 32 bits."""
    value = pa.float16() if precision == "float16" else pa.float32()
    columns = [("chunk_id", pa.string()), ("doc_id", pa.string()), ("vector", pa.list_(value, dimension))]
    return pa.schema(columns, metadata=tables.CHUNKS.metadata)


def embeddings_folder(archive: Folder, granularity: int, model: str) -> Folder:
    return archive.at("embeddings", f"granularity={granularity}", f"model={model.replace('/', '--')}")


def build_shards(archive: Folder, granularity: int, model: str, shards: int, dense: DenseConfig | None = None) -> None:
    """Shards of the tables ``chunks`` and ``embeddings``."""
    chunks = archive.at("chunks", f"granularity={granularity}").read_tables(tables.CHUNKS)
    parts = sorted(Path(embeddings_folder(archive, granularity, model).path).glob("*.parquet"))
    vectors = pa.concat_tables([pq.ParquetFile(part).read(["chunk_id", "vector"]) for part in parts])
    place = {chunk_id: row for row, chunk_id in enumerate(vectors["chunk_id"].to_pylist())}
    rows = chunks.select(layout.ROWS_SCHEMA.names).cast(layout.ROWS_SCHEMA)
    rows = rows.sort_by([("doc_id", "ascending"), ("ordinal", "ascending")]).combine_chunks()
    matrix = np.array(vectors["vector"].to_pylist(), dtype=np.float32)
    matrix = matrix[[place[chunk_id] for chunk_id in rows["chunk_id"].to_pylist()]]
    owners = np.array([shard_of(doc_id, shards) for doc_id in rows["doc_id"].to_pylist()])
    for number in range(shards):
        mine = rows.filter(pa.array(owners == number)).combine_chunks()
        write_shard(
            layout.shard_folder(archive, granularity, number), granularity, mine, matrix[owners == number], dense
        )
