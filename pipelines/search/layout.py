"""The files of one shard, and how they are written and opened.

Arrays are ``.npy`` and columns with text are Arrow IPC files: both are opened by mapping them into memory, so that a
shard costs the pages that its questions touch and opens in no time. Parquet would have to be decoded into the heap of
every process that holds the shard. Nothing here is a pickle.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.core.storage import Folder

VECTORS: Final = "vectors.npy"
"""float32, shape (rows, dimension), C-contiguous."""
OVER_LIMIT: Final = "over-limit.npy"
"""bool, shape (rows,): the encoder does not see the chunk's end. For the next build alone; old shards have it not."""
LENGTHS: Final = "lengths.npy"
"""int32, shape (rows,): terms of each chunk after stop words."""
POINTERS: Final = "postings-pointers.npy"
"""int64, shape (terms + 1,): the postings of term t are entries pointers[t] to pointers[t + 1]."""
POSTING_ROWS: Final = "postings-rows.npy"
"""int32, shape (postings,): rows that hold the term, rising within a term."""
FREQUENCIES: Final = "postings-frequencies.npy"
"""int32, shape (postings,): how often."""
APPROXIMATE: Final = "approximate.faiss"
"""Only in shards that the index config's ``dense`` asks it for: a FAISS index over the rows of the vectors."""
VOCABULARY: Final = "vocabulary.arrow"
ROWS: Final = "rows.arrow"
RANGES: Final = "documents.arrow"

VOCABULARY_SCHEMA: Final = pa.schema([("term", pa.large_string())])
"""Sorted by code point, so that a term is found by halving."""

ROWS_SCHEMA: Final = pa.schema(
    [
        ("chunk_id", pa.large_string()),
        ("doc_id", pa.large_string()),
        ("ordinal", pa.int32()),
        ("start_char", pa.int64()),
        ("end_char", pa.int64()),
        ("n_tokens", pa.int32()),
        ("text", pa.large_string()),
        ("table_id", pa.large_string()),
    ]
)
"""The chunks in order of (doc_id, ordinal): a row number is a chunk."""

RANGES_SCHEMA: Final = pa.schema([("doc_id", pa.large_string()), ("first_row", pa.int32()), ("end_row", pa.int32())])
"""The half-open row range of each document."""


def granularity_folder(archive: Folder, granularity: int) -> Folder:
    """Where the shards of one granularity are."""
    return archive.at("index", f"granularity={granularity}")


def shard_folder(archive: Folder, granularity: int, number: int) -> Folder:
    """Where one shard is."""
    return granularity_folder(archive, granularity).at(f"shard-{number:05d}")


def write_array(folder: Folder, name: str, array: NDArray[Any]) -> None:
    """Write a ``.npy`` file without pickle."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    folder.write_bytes(name, buffer.getvalue())


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """Map a ``.npy`` file. A plain array over the mapping, which slices faster than numpy's own class for it."""
    array: NDArray[Any] = np.load(folder / name, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return array


def write_columns(folder: Folder, name: str, table: pa.Table) -> None:
    """Write an Arrow IPC file as one record batch."""
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    folder.write_bytes(name, buffer.getvalue())


def read_columns(folder: Folder, name: str) -> pa.Table:
    """Read an Arrow IPC file of any filesystem."""
    with folder.filesystem.open_input_file(folder.at(name).path) as file:
        return pa.ipc.open_file(file).read_all()


def open_columns(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Map an Arrow IPC file. Raises ValueError when it has other columns than ``schema``."""
    table = pa.ipc.open_file(pa.memory_map(str(folder / name))).read_all()
    if not table.schema.equals(schema):
        raise ValueError(f"{name} has the columns {table.schema.names}, not {schema.names}")
    return table.combine_chunks()
