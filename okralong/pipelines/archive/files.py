"""The files of a shard, how they are written and opened, and single rows out of them.

Arrays are ``.npy`` and columns with text are Arrow IPC files: both are opened by mapping them into memory, so that a
shard costs the pages that its questions touch and opens in no time. Parquet would have to be decoded into the heap
of every process that holds the shard. Nothing here is a pickle.
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
"""float32, shape (rows, dimension), C-contiguous. A shard of BM25 alone has no such file."""
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
    with folder.open(name) as file:
        return pa.ipc.open_file(file).read_all()


def open_columns(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Map an Arrow IPC file. Raises ValueError when it has other columns than ``schema``."""
    table = pa.ipc.open_file(pa.memory_map(str(folder / name))).read_all()
    if not table.schema.equals(schema):
        raise ValueError(f"{name} has the columns {table.schema.names}, not {schema.names}")
    return table.combine_chunks()


def open_ranges(folder: Path) -> dict[str, range]:
    """The rows of each document of a shard. Raises ValueError as ``open_columns`` does."""
    ranges = open_columns(folder, RANGES, RANGES_SCHEMA).to_pydict()
    firsts, ends = ranges["first_row"], ranges["end_row"]
    return {doc_id: range(*rows) for doc_id, *rows in zip(ranges["doc_id"], firsts, ends, strict=True)}


@contextmanager
def mapped_here(folder: Folder, *names: str) -> Iterator[Path]:
    """Where ``folder`` (of it only ``names``, if given) can be mapped: itself, or a copy where it is not on a disk.

    The copy's names are gone when the context ends, and its contents when the last mapping of it does. A process that
    holds a shard is killed when its run ends, so nothing that it could do later would take a copy away.
    """
    if folder.is_local:
        yield Path(folder.path)
        return
    with tempfile.TemporaryDirectory(prefix="okralong-shard-", ignore_cleanup_errors=True) as copied_to:
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: folder.copy_out(name, Path(copied_to, name)), names or folder.names()))
        yield Path(copied_to)


# Single rows out of mapped columns, by plain reads of their buffers. A search wants some tens of rows; Arrow's own
# ``take`` and ``to_pylist`` are made for many, and took half of the time of a question about one document.

_Code = Literal["B", "i", "q"]

_CODES: Final[dict[pa.DataType, _Code]] = {pa.int32(): "i", pa.int64(): "q"}


@dataclass(frozen=True, slots=True)
class Strings:
    """A large_string column. A null is None."""

    offsets: memoryview[int]
    data: memoryview[int]
    valid: memoryview[int] | None

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Strings:
        """Over a column of one piece or none, as ``open_columns`` maps it."""
        piece = _one_piece(column)
        valid, offsets, data = piece.buffers()
        bits = _cast(valid, "B") if valid is not None and piece.null_count else None
        return cls(_cast(offsets, "q"), _cast(data, "B"), bits)

    def __len__(self) -> int:
        return max(0, len(self.offsets) - 1)

    def at(self, row: int) -> str | None:
        """The text of a row."""
        if self.valid is not None and not self.valid[row >> 3] >> (row & 7) & 1:
            return None
        return str(self.data[self.offsets[row] : self.offsets[row + 1]], "utf-8")

    def place(self, text: str) -> int | None:
        """The row of ``text`` in a column that is sorted by code point, as which UTF-8 sorts too; None: not in it."""
        wanted, offsets, data = text.encode(), self.offsets, self.data
        rows = range(len(self))
        row = bisect.bisect_left(rows, wanted, key=lambda each: bytes(data[offsets[each] : offsets[each + 1]]))
        return row if row < len(rows) and data[offsets[row] : offsets[row + 1]] == wanted else None


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """The rows of a shard: its chunks."""

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
        """Over a table with the columns of ``ROWS_SCHEMA``."""
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
        """The chunk of a row."""
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


# The rows of a shard that a question is about: a few contiguous ranges, since a document's rows are neighbours.

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Disjoint half-open row ranges in rising order. A row's *place* is its position among the rows of all ranges.

    Row numbers are int32 like the postings: a binary search with keys of another type would copy the postings.
    """

    starts: Int32
    ends: Int32
    offsets: Int32
    size: int
    bounds: Int32
    """The first start and the last end."""

    @classmethod
    def of(cls, ranges: Iterable[range]) -> RowRanges:
        """Built from ranges in rising order."""
        listed = list(ranges)
        starts = np.array([part.start for part in listed], dtype=np.int32)
        ends = np.array([part.stop for part in listed], dtype=np.int32)
        widths = ends - starts
        offsets = (np.cumsum(widths) - widths).astype(np.int32)
        bounds = np.array([starts[0], ends[-1]] if listed else [0, 0], dtype=np.int32)
        return cls(starts, ends, offsets, int(widths.sum()), bounds)

    def rows_at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row numbers of some places."""
        if len(self.starts) == 1:
            return places + int(self.bounds[0])
        part = np.searchsorted(self.offsets, places, side="right") - 1
        rows: NDArray[np.int64] = places + (self.starts - self.offsets)[part]
        return rows

    def places_of(self, rows: Int32) -> Int32:
        """The places of some rows of the ranges."""
        if len(self.starts) == 1:
            return rows - self.bounds[0] if self.bounds[0] else rows
        part = np.searchsorted(self.starts, rows, side="right") - 1
        places: Int32 = rows - (self.starts - self.offsets)[part]
        return places

    def within(self, rows: Int32) -> tuple[Int32, Int32]:
        """For sorted ``rows``: where each range's run of them begins and ends."""
        return (
            np.searchsorted(rows, self.starts).astype(np.int32),
            np.searchsorted(rows, self.ends).astype(np.int32),
        )


def joined(ranges: Iterable[range]) -> list[range]:
    """Ranges in rising order, with neighbours that touch made one."""
    result: list[range] = []
    for part in sorted(ranges, key=lambda each: each.start):
        if result and result[-1].stop == part.start:
            result[-1] = range(result[-1].start, part.stop)
        elif part:
            result.append(part)
    return result


# The compressed chunks of an archive: for each shard of one granularity a table in the order of its rows. Whatever a
# compressor makes of a chunk depends on the chunk alone, so a table belongs to a shard and a compressor: a shard that a
# later version takes over brings its table with it.

COMPRESSED: Final = "compressed"
"""The folder of these tables in an archive."""
FILE: Final = "compressed.arrow"


def compressed_folder(archive: Folder, fingerprint: str, granularity: int) -> Folder:
    """Where the tables of one compressor are; each is in a folder that is called as its shard is."""
    return archive.at(COMPRESSED, f"compressor={fingerprint}", f"granularity={granularity}")


def table_folders(archive: Folder, manifest: Mapping[str, Any]) -> list[Folder]:
    """The folders of a version's tables, in order of the shards' numbers; none where it has no compressor."""
    held = manifest.get("compressor")
    if held is None:
        return []
    place = compressed_folder(archive, held["fingerprint"], held["granularity"])
    return [place.at(name) for name in manifest["files"]["index"][str(held["granularity"])]]


def tables_are_there(archive: Folder, manifest: Mapping[str, Any]) -> bool:
    """Whether a version has all the tables that its manifest speaks of."""
    return all(each.exists(FILE) for each in table_folders(archive, manifest))


def write_compressed(folder: Folder, rows: pa.Table, made: NDArray[np.float32]) -> None:
    """Write the table of a shard: of its ``rows`` (``ROWS_SCHEMA``) the vectors (n, vectors of a chunk, hidden)."""
    flat = made.reshape(len(made), made.shape[1] * made.shape[2]).astype(np.float16)
    column = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])
    columns = [rows.column("chunk_id").combine_chunks(), rows.column("doc_id").combine_chunks(), column]
    _write(folder, pa.Table.from_arrays(columns, schema=compressed_schema(flat.shape[1])))


def copy_without(source: Folder, target: Folder, doc_id: str) -> None:
    """Write the table ``target``: that of ``source`` without a document's rows."""
    table = read_columns(source, FILE)
    _write(target, table.filter(pc.not_equal(table["doc_id"], doc_id)))


def _write(folder: Folder, table: pa.Table) -> None:
    write_columns(folder, FILE, table)


@dataclass
class CompressedRows:
    """The table in ``folder``, mapped when it is first asked. A chunk has ``per_chunk`` vectors of ``hidden`` numbers.

    One of another filesystem is copied to a temporary folder first, see ``mapped_here``.
    """

    folder: Folder
    per_chunk: int
    hidden: int

    def take(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of some rows of the shard, shape (rows, per_chunk, hidden). Raises ArchiveError."""
        found: NDArray[np.float32] = self._all[list(rows)].astype(np.float32)
        return found

    @cached_property
    def _all(self) -> NDArray[np.float16]:
        numbers = self.per_chunk * self.hidden
        try:
            with mapped_here(self.folder, FILE) as path:
                table = open_columns(path, FILE, compressed_schema(numbers))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(
                f"The compressed chunks {self.folder.path} cannot be used: {error}. Delete that folder where it is "
                "damaged, and run okralong index on the archive again: it computes what is missing."
            ) from error
        flat: NDArray[np.float16] = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(table), self.per_chunk, self.hidden)


# Which shard owns a document: a hash of the doc_id decides. Filling shards evenly in order would balance a small
# archive better, but every document that came or went would move others and rebuild every shard. Scores do not depend
# on it.

REMEMBERED: Final = 65_536
"""Documents whose shard is remembered; ours: some megabytes, and those that a run's questions are about."""


@lru_cache(maxsize=REMEMBERED)
def shard_of(doc_id: str, shards: int) -> int:
    """The number of the shard, from 0 to ``shards`` - 1, that owns all chunks of a document."""
    digest = hashlib.sha256(doc_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shards


# What the configs may say of the index and of the search.

TRAINED_ON: Final = 39
"""Vectors that FAISS wants to see for each cell of an inverted file (its ``min_points_per_centroid``)."""

LINKS: Final = 32
"""Neighbours of a node: FAISS's own default."""


class DenseConfig(Settings):
    """How nearest vectors are found.

    ``index`` "flat" compares with every vector and is exact. "ivf" (an inverted file over cells) and "hnsw" (a graph)
    look at some of them, in shards of more than ``above`` chunks, and only for questions about the whole archive: the
    rows of a smaller scope are compared one by one. ``recall`` is the share of the best 20 that the build must find
    again, measured on vectors of the shard; it sets how many cells or nodes a question visits. ``cells`` are those of
    an inverted file, "auto" 4 times the square root of the shard's chunks; ``links`` are a node's neighbours in the
    graph.
    """

    index: Literal["flat", "ivf", "hnsw"] = "flat"
    above: int = Field(default=40_000, ge=1)
    recall: float = Field(default=0.99, ge=0.5, le=1.0)
    cells: Literal["auto"] | int = "auto"
    links: int = Field(default=LINKS, ge=4, le=128)

    @model_validator(mode="after")
    def _possible(self) -> DenseConfig:
        if self.index != "ivf" and self.cells != "auto":
            raise ValueError(f"cells belong to an inverted file: with index {self.index} leave them at auto")
        if self.cells != "auto" and self.cells < 1:
            raise ValueError("cells must be auto, or 1 or more")
        if self.index != "hnsw" and self.links != LINKS:
            raise ValueError(f"links belong to a graph: with index {self.index} leave them at {LINKS}")
        if self.index == "ivf" and self.above < self.least_chunks():
            raise ValueError(
                f"above must be {self.least_chunks()} or more: FAISS wants {TRAINED_ON} vectors for each cell"
            )
        return self

    def least_chunks(self) -> int:
        """The fewest chunks that the inverted file's cells can be trained on."""
        if self.cells != "auto":
            return TRAINED_ON * max(1, self.cells)
        # With 4 * sqrt(n) cells, n vectors are 39 a cell from n = (4 * 39) ** 2 on.
        return (4 * TRAINED_ON) ** 2

    def cells_for(self, chunks: int) -> int:
        """Cells of the inverted file of a shard of so many chunks."""
        return int(self.cells) if self.cells != "auto" else 4 * math.isqrt(chunks)


class SearchConfig(Settings):
    """``replicas`` times as many processes as there are shards hold them: each shard one, and the others go to those
    that the run's questions ask most. ``gpus_per_shard`` is the part of a GPU that each process holds, with a copy of
    its vectors on it; 0: FAISS runs on the processor.
    """

    replicas: int = Field(default=1, ge=1, le=64)
    gpus_per_shard: float = Field(default=0.0, ge=0, le=1)
