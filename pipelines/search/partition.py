"""Dealing out tables to shards: one pass over a table, whatever the number of shards.

Each row goes to a local scratch file of its document's shard, so that a shard can later be built from its own rows
alone. Reading the tables once for each shard would make the work grow with the square of the archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okralong.pipelines.errors import ArchiveError
from okralong.pipelines.search.sharding import shard_of
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import SCHEMA_VERSION

BATCH_ROWS: Final = 4096
"""Rows held at a time: 6 MB of vectors of 384 floats (ours, not in the papers)."""


def partition(table: Folder, columns: Sequence[str], shards: int, scratch: Path) -> None:
    """Write the rows of a table's Parquet files to ``scratch/00000.arrow`` and so on, one file a shard that has rows.

    The table has a ``doc_id`` column. Raises ArchiveError when its files disagree about the columns' types.
    """
    writers: dict[int, pa.RecordBatchFileWriter] = {}
    schema: pa.Schema | None = None
    try:
        for name, batch in _batches(table, columns):
            schema = schema or batch.schema
            if not batch.schema.equals(schema):
                raise ArchiveError(
                    f"{table.at(name).path} has columns of other types than the files before it: {batch.schema} "
                    f"instead of {schema}. Delete the folder {table.path} and run okralong index again."
                )
            numbers = _shard_numbers(batch.column("doc_id"), shards)
            for number in np.unique(numbers).tolist():
                if number not in writers:
                    writers[number] = pa.ipc.new_file(str(scratch / f"{number:05d}.arrow"), schema)
                writers[number].write_batch(batch.filter(pa.array(numbers == number)))
    finally:
        for writer in writers.values():
            writer.close()


def partitioned(scratch: Path, number: int) -> pa.Table | None:
    """The rows of one shard, mapped; None where it has none."""
    path = scratch / f"{number:05d}.arrow"
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all() if path.exists() else None


def _batches(table: Folder, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name in table.names(".parquet"):
        with table.filesystem.open_input_file(table.at(name).path) as file:
            parquet = pq.ParquetFile(file)
            found = (parquet.schema_arrow.metadata or {}).get(b"okralong.schema_version", b"?").decode()
            if found != str(SCHEMA_VERSION):
                raise ArchiveError(
                    f"{table.at(name).path} has schema version {found}, this okralong reads version {SCHEMA_VERSION}. "
                    "Run okralong index on the archive again."
                )
            for batch in parquet.iter_batches(BATCH_ROWS, columns=list(columns)):
                yield name, batch.replace_schema_metadata(None)


def _shard_numbers(doc_ids: pa.Array, shards: int) -> NDArray[np.int64]:
    encoded = doc_ids.dictionary_encode()
    owners = np.array([shard_of(doc_id, shards) for doc_id in encoded.dictionary.to_pylist()], dtype=np.int64)
    numbers: NDArray[np.int64] = owners[encoded.indices.to_numpy()]
    return numbers
