"""Write and open the files of a shard, and read single rows.

Arrays are stored as ``.npy`` files without pickle, columns with text as Arrow IPC files. Both are memory-mapped, so a
shard opens at once and only the pages that questions touch are loaded. Parquet would have to be decoded in the memory
of every process.
"""

from __future__ import annotations

import bisect
import hashlib
import io
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.schemas import compressed as compressed_schema
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, Chunk

VECTORS: Final = "vectors.npy"
"""float32, shape (rows, dimension), C-contiguous. Missing in a shard with BM25 only."""
OVER_LIMIT: Final = "over-limit.npy"
"""bool, shape (rows,): whether the chunk exceeds the encoder's limit, so that its end is not embedded. The next build
uses it; old shards lack it."""
LENGTHS: Final = "lengths.npy"
"""int32, shape (rows,): the number of terms of each chunk, without stop words."""
POINTERS: Final = "postings-pointers.npy"
"""int64, shape (terms + 1,): the postings of term t are entries pointers[t] to pointers[t + 1]."""
POSTING_ROWS: Final = "postings-rows.npy"
"""int32, shape (postings,): rows that contain the term, ascending within a term."""
FREQUENCIES: Final = "postings-frequencies.npy"
"""int32, shape (postings,): the term's frequency in the row."""
APPROXIMATE: Final = "approximate.faiss"
"""A FAISS index over the rows of the vectors, in shards for which ``dense`` in the index config asks for one."""
VOCABULARY: Final = "vocabulary.arrow"
ROWS: Final = "rows.arrow"
RANGES: Final = "documents.arrow"

VOCABULARY_SCHEMA: Final = pa.schema([("term", pa.large_string())])
"""The vocabulary, sorted by code point for binary search."""

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
"""The chunks sorted by (doc_id, ordinal); a row number identifies a chunk."""

RANGES_SCHEMA: Final = pa.schema([("doc_id", pa.large_string()), ("first_row", pa.int32()), ("end_row", pa.int32())])
"""The half-open row range of each document."""


def granularity_folder(archive: Folder, granularity: int) -> Folder:
    """Return the folder with the shards of one chunk size."""
    return archive.at("index", f"granularity={granularity}")


def write_array(folder: Folder, name: str, array: NDArray[Any]) -> None:
    """Write a ``.npy`` file without pickle."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    folder.write_bytes(name, buffer.getvalue())


def open_array(folder: Path, name: str) -> NDArray[Any]:
    """Map a ``.npy`` file as a plain array, which is faster to slice than ``numpy.memmap``."""
    array: NDArray[Any] = np.load(folder / name, mmap_mode="r", allow_pickle=False).view(np.ndarray)
    return array


def write_columns(folder: Folder, name: str, table: pa.Table) -> None:
    """Write an Arrow IPC file as one record batch."""
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    folder.write_bytes(name, buffer.getvalue())


def read_columns(folder: Folder, name: str) -> pa.Table:
    """Read an Arrow IPC file from any filesystem."""
    with folder.open(name) as file:
        return pa.ipc.open_file(file).read_all()


def open_columns(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Map an Arrow IPC file. Raises ValueError if its columns differ from ``schema``."""
    table = pa.ipc.open_file(pa.memory_map(str(folder / name))).read_all()
    if not table.schema.equals(schema):
        raise ValueError(f"{name} has the columns {table.schema.names}, not {schema.names}")
    return table.combine_chunks()


def open_ranges(folder: Path) -> dict[str, range]:
    """Return the rows of each document of a shard. Raises ValueError as ``open_columns`` does."""
    ranges = open_columns(folder, RANGES, RANGES_SCHEMA).to_pydict()
    firsts, ends = ranges["first_row"], ranges["end_row"]
    return {doc_id: range(*rows) for doc_id, *rows in zip(ranges["doc_id"], firsts, ends, strict=True)}


@contextmanager
def mapped_here(folder: Folder, *names: str) -> Iterator[Path]:
    """Yield a local path whose files can be mapped: ``folder`` itself, or a copy if it is remote.

    With ``names``, only those files are copied. The copy is unlinked when the context ends; the system frees its space
    with the last mapping. It cannot be deleted later, because the process is killed at the end of its run.
    """
    if folder.is_local:
        yield Path(folder.path)
        return
    with tempfile.TemporaryDirectory(prefix="okralong-shard-", ignore_cleanup_errors=True) as copied_to:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: folder.copy_out(name, Path(copied_to, name)), names or folder.names()))
        yield Path(copied_to)


# Read single rows of mapped columns directly from their buffers. A search needs only tens of rows. Arrow's ``take`` and
# ``to_pylist`` are made for many, and took half the time of a question about one document.

_Code = Literal["B", "i", "q"]

_CODES: Final[dict[pa.DataType, _Code]] = {pa.int32(): "i", pa.int64(): "q"}


@dataclass(frozen=True, slots=True)
class Strings:
    """A column of the type large_string; null is returned as None."""

    offsets: memoryview[int]
    data: memoryview[int]
    valid: memoryview[int] | None

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Strings:
        """Wrap a column of at most one Arrow chunk, as ``open_columns`` maps it."""
        piece = _one_piece(column)
        valid, offsets, data = piece.buffers()
        bits = _cast(valid, "B") if valid is not None and piece.null_count else None
        return cls(_cast(offsets, "q"), _cast(data, "B"), bits)

    def __len__(self) -> int:
        return max(0, len(self.offsets) - 1)

    def at(self, row: int) -> str | None:
        """Return the text of a row."""
        if self.valid is not None and not self.valid[row >> 3] >> (row & 7) & 1:
            return None
        return str(self.data[self.offsets[row] : self.offsets[row + 1]], "utf-8")

    def place(self, text: str) -> int | None:
        """Return the row of ``text``, or None. The column must be sorted by code point (the order of UTF-8)."""
        wanted, offsets, data = text.encode(), self.offsets, self.data
        rows = range(len(self))
        row = bisect.bisect_left(rows, wanted, key=lambda each: bytes(data[offsets[each] : offsets[each + 1]]))
        return row if row < len(rows) and data[offsets[row] : offsets[row + 1]] == wanted else None


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The chunks of a shard by row."""

    chunk_id: Strings
    doc_id: Strings
    ordinal: memoryview[int]
    start_char: memoryview[int]
    end_char: memoryview[int]
    n_tokens: memoryview[int]
    text: Strings
    table_id: Strings

    @classmethod
    def of(cls, rows: pa.Table) -> ChunkRows:
        """Wrap a table with the columns of ``ROWS_SCHEMA``."""
        return cls(
            chunk_id=Strings.of(rows.column("chunk_id")),
            doc_id=Strings.of(rows.column("doc_id")),
            ordinal=_numbers(rows.column("ordinal")),
            start_char=_numbers(rows.column("start_char")),
            end_char=_numbers(rows.column("end_char")),
            n_tokens=_numbers(rows.column("n_tokens")),
            text=Strings.of(rows.column("text")),
            table_id=Strings.of(rows.column("table_id")),
        )

    def chunk(self, row: int, granularity: int) -> Chunk:
        """Return the chunk of a row."""
        return Chunk(
            self.chunk_id.at(row) or "",
            self.doc_id.at(row) or "",
            granularity,
            self.ordinal[row],
            self.start_char[row],
            self.end_char[row],
            self.n_tokens[row],
            self.text.at(row) or "",
            self.table_id.at(row),
        )


def _numbers(column: pa.ChunkedArray) -> memoryview[int]:
    piece = _one_piece(column)
    return _cast(piece.buffers()[1], _CODES[piece.type])


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks > 1 or (column.num_chunks and column.chunk(0).offset):
        raise ValueError("a column is in several pieces")
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _cast(buffer: pa.Buffer | None, code: _Code) -> memoryview[int]:
    return memoryview(buffer if buffer is not None else b"").cast("B").cast(code)


# The rows of a question's scope in a shard. They are a few ranges, because the rows of a document are contiguous.

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Disjoint half-open row ranges in ascending order. A row's *place* is its index among the rows of all ranges.

    Row numbers are int32 like those in postings: a binary search with keys of another type would copy the postings.
    """

    starts: Int32
    ends: Int32
    offsets: Int32
    size: int
    bounds: Int32
    """The first start and the last end."""

    @classmethod
    def of(cls, ranges: Iterable[range]) -> RowRanges:
        """Build from ranges in ascending order."""
        listed = list(ranges)
        starts = np.array([part.start for part in listed], dtype=np.int32)
        ends = np.array([part.stop for part in listed], dtype=np.int32)
        widths = ends - starts
        offsets = (np.cumsum(widths) - widths).astype(np.int32)
        bounds = np.array([starts[0], ends[-1]] if listed else [0, 0], dtype=np.int32)
        return cls(starts, ends, offsets, int(widths.sum()), bounds)

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row numbers of some places."""
        if len(self.starts) == 1:
            return places + int(self.bounds[0])
        part = np.searchsorted(self.offsets, places, side="right") - 1
        rows: NDArray[np.int64] = places + (self.starts - self.offsets)[part]
        return rows

    def places_of(self, rows: Int32) -> Int32:
        """Return the places of some rows."""
        if len(self.starts) == 1:
            return rows - self.bounds[0] if self.bounds[0] else rows
        part = np.searchsorted(self.starts, rows, side="right") - 1
        places: Int32 = rows - (self.starts - self.offsets)[part]
        return places

    def within(self, rows: Int32) -> tuple[Int32, Int32]:
        """Return the indexes at which each range's part of the sorted ``rows`` begins and ends."""
        return (
            np.searchsorted(rows, self.starts).astype(np.int32),
            np.searchsorted(rows, self.ends).astype(np.int32),
        )


def joined(ranges: Iterable[range]) -> list[range]:
    """Return the ranges in ascending order, with adjacent ones merged."""
    result: list[range] = []
    for part in sorted(ranges, key=lambda each: each.start):
        if result and result[-1].stop == part.start:
            result[-1] = range(result[-1].start, part.stop)
        elif part:
            result.append(part)
    return result


# The compressed chunks of an archive: one table per shard of one chunk size, in the order of the shard's rows. A
# compressor's output depends only on the chunk, so a shard that a later version reuses keeps its table.

COMPRESSED: Final = "compressed"
"""The folder of these tables in an archive."""
FILE: Final = "compressed.arrow"


def compressed_folder(archive: Folder, fingerprint: str, granularity: int) -> Folder:
    """Return the folder with the tables of one compressor, each in a folder named like its shard."""
    return archive.at(COMPRESSED, f"compressor={fingerprint}", f"granularity={granularity}")


def table_folders(archive: Folder, manifest: Mapping[str, Any]) -> list[Folder]:
    """Return the folders of a version's tables in the order of the shards; none without a compressor."""
    held = manifest.get("compressor")
    if held is None:
        return []
    place = compressed_folder(archive, held["fingerprint"], held["granularity"])
    return [place.at(name) for name in manifest["files"]["index"][str(held["granularity"])]]


def tables_are_there(archive: Folder, manifest: Mapping[str, Any]) -> bool:
    """Return whether all tables that the manifest names exist."""
    return all(each.exists(FILE) for each in table_folders(archive, manifest))


def write_compressed(folder: Folder, rows: pa.Table, made: Sequence[NDArray[np.float16]], numbers: int | None) -> None:
    """Write a shard's table. ``made`` has the vectors of each of its ``rows``; for ``numbers`` see the schema."""
    values = pa.array(np.concatenate([np.zeros(0, np.float16), *(each.reshape(-1) for each in made)]))
    if numbers is None:
        ends = np.cumsum([0, *(each.size for each in made)], dtype=np.int64)
        column = pa.LargeListArray.from_arrays(pa.array(ends), values)
    else:
        column = pa.FixedSizeListArray.from_arrays(values, numbers)
    columns = [rows.column("chunk_id").combine_chunks(), rows.column("doc_id").combine_chunks(), column]
    _write(folder, pa.Table.from_arrays(columns, schema=compressed_schema(numbers)))


def copy_without(source: Folder, target: Folder, doc_id: str) -> None:
    """Copy the table of ``source`` to ``target`` without the rows of a document."""
    table = read_columns(source, FILE)
    _write(target, table.filter(pc.not_equal(table["doc_id"], doc_id)))


def _write(folder: Folder, table: pa.Table) -> None:
    write_columns(folder, FILE, table)


@dataclass
class CompressedRows:
    """The table in ``folder``, mapped on first use, with ``per_chunk`` vectors of ``hidden`` numbers per chunk.

    ``per_chunk`` is None for a vector per sentence. A remote table is first copied to a temporary folder (see
    ``mapped_here``).
    """

    folder: Folder
    per_chunk: int | None
    hidden: int

    @classmethod
    def of(cls, folder: Folder, held: Mapping[str, Any]) -> CompressedRows:
        """Return the table in ``folder`` by the manifest's record of its compressor."""
        per_chunk = None if held.get("unit") == "sentence" else int(held["vectors_per_chunk"])
        return cls(folder, per_chunk, int(held["hidden"]))

    def take(self, rows: Sequence[int]) -> list[NDArray[np.float32]]:
        """Return the vectors of some rows, each of shape (vectors, hidden). Raises ArchiveError if it is unusable."""
        vectors, ends = self._all
        return [vectors[ends[row] : ends[row + 1]].astype(np.float32) for row in rows]

    @cached_property
    def _all(self) -> tuple[NDArray[np.float16], NDArray[np.int64]]:
        """All vectors, shape (n, hidden), and where those of each row begin; one more than there are rows."""
        numbers = None if self.per_chunk is None else self.per_chunk * self.hidden
        try:
            with mapped_here(self.folder, FILE) as path:
                table = open_columns(path, FILE, compressed_schema(numbers))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(
                f"The compressed chunks {self.folder.path} cannot be used: {error}. Delete that folder if it is "
                "damaged, and run okralong index on the archive again to compute it."
            ) from error
        column = table["vector"].combine_chunks()
        flat: NDArray[np.float16] = column.values.to_numpy(zero_copy_only=False)
        if self.per_chunk is None:
            ends = column.offsets.to_numpy() // self.hidden
        else:
            ends = np.arange(len(table) + 1, dtype=np.int64) * self.per_chunk
        return flat.reshape(-1, self.hidden), ends


# A hash of the doc_id assigns each document to a shard. Filling shards one after another would balance a small archive
# better, but then an added or removed document would move others, and all shards would have to be rebuilt. Scores do
# not depend on the shard.

REMEMBERED: Final = 65_536
"""Number of documents whose shard is cached. They take some megabytes, enough for a run's questions. project default"""


@lru_cache(maxsize=REMEMBERED)
def shard_of(doc_id: str, shards: int) -> int:
    """Return the number (from 0) of the shard that owns all chunks of a document."""
    digest = hashlib.sha256(doc_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shards


# Settings of the index and of the search.

TRAINED_ON: Final = 39
"""The number of training vectors that FAISS requires per cell (its ``min_points_per_centroid``)."""
LEAST_CHUNKS: Final = (4 * TRAINED_ON) ** 2
"""The fewest chunks of a shard that can train ``cells_for`` them."""


class DenseConfig(Settings):
    """Settings of the vector search.

    ``index`` "flat" compares every vector and is exact. "ivf" (an inverted file over cells) compares only some vectors.
    It is used in shards of more than ``above`` chunks, for questions about the whole archive; smaller scopes are always
    compared in full. ``recall`` is the share of the true best 20 that the index must find; the build measures it and
    visits as many cells per search as it takes.
    """

    index: Literal["flat", "ivf"] = "flat"
    above: int = Field(default=40_000, ge=1)
    recall: float = Field(default=0.99, ge=0.5, le=1.0)

    @model_validator(mode="after")
    def _possible(self) -> DenseConfig:
        if self.index == "ivf" and self.above < LEAST_CHUNKS:
            raise ValueError(f"above must be {LEAST_CHUNKS} or more: FAISS needs {TRAINED_ON} vectors for each cell")
        return self

    def content(self) -> dict[str, Any]:
        """Return the settings for names of shards and for manifests, with the defaults of removed ones."""
        return self.model_dump() | {"cells": "auto", "links": 32}

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> DenseConfig:
        """Return the settings of a manifest: "flat" for a graph or for fewer cells, which earlier releases had."""
        known = {name: content[name] for name in cls.model_fields}
        same = known["index"] == "ivf" and known["above"] >= LEAST_CHUNKS
        return cls.model_validate(known | {"index": "ivf" if same else "flat"})


def cells_for(chunks: int) -> int:
    """Return the number of cells of an inverted file over ``chunks`` chunks."""
    return 4 * math.isqrt(chunks)  # FAISS's guide recommends 4 to 16 times the square root


class SearchConfig(Settings):
    """Settings of the processes that hold shards.

    A run starts ``replicas`` times as many processes as there are shards: one per shard, and the others for the shards
    that its questions use most. ``gpus_per_shard`` is the share of a GPU that each process takes for a copy of its
    vectors; with 0, FAISS runs on the CPU.
    """

    replicas: int = Field(default=1, ge=1, le=64)
    gpus_per_shard: float = Field(default=0.0, ge=0, le=1)
