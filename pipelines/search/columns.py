"""Single rows out of mapped Arrow columns, by plain reads of their buffers.

A search wants some tens of rows. Arrow's own ``take`` and ``to_pylist`` are made for many, and took half of the time of
a question about one document.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from okralong.pipelines.core.types import Chunk

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
        """Over a column of one piece or none, as ``layout.open_columns`` maps it."""
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
        """Over a table with the columns of ``layout.ROWS_SCHEMA``."""
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
