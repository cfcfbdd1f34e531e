"""Pass the tables of a document from the parsing process to its parent, which checks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from okralong.pipelines.core.tables import Table, TableCell, TableRow

MOST_TABLES_BYTES: Final = 128_000_000
"""The tables of one document in JSON; the document gets none if it has more. # project default"""


def packed_tables(tables: Sequence[Table]) -> bytes | None:
    """Return tables as JSON, or None if they take more than ``MOST_TABLES_BYTES``."""
    pieces, size = [], 0
    for table in tables:
        rows = [
            (row.label, row.start, row.end, row.sections, [(c.column, c.text, c.start, c.end) for c in row.cells])
            for row in table.rows
        ]
        about = (table.start, table.end, table.heads, table.page, table.title, table.unit, table.stub)
        pieces.append(json.dumps((*about, rows), separators=(",", ":")))
        size += len(pieces[-1]) + 1
        if size >= MOST_TABLES_BYTES:
            return None
    return f"[{','.join(pieces)}]".encode()


def unpacked_tables(data: bytes, length: int) -> tuple[Table, ...]:
    """Return the tables in JSON, in a text of ``length`` characters. Raises ValueError or TypeError for other data."""
    return tuple(_table(each, length) for each in json.loads(data))


def _table(values: Any, length: int) -> Table:
    start, end, heads, page, title, unit, stub, rows = values
    columns = tuple(tuple(map(_text, levels)) for levels in heads)
    found = tuple(_row(row, len(columns), length) for row in rows)
    return Table(*_span(start, end, length), columns, found, *map(_text, (page, title, unit, stub)))


def _row(values: Any, columns: int, length: int) -> TableRow:
    label, start, end, sections, cells = values
    found = tuple(_cell(cell, columns, length) for cell in cells)
    return TableRow(_text(label), *_span(start, end, length), found, tuple(map(_text, sections)))


def _cell(values: Any, columns: int, length: int) -> TableCell:
    column, text, start, end = values
    if type(column) is not int or not 0 <= column < columns:
        raise ValueError(f"a cell in column {column!r:.50} of {columns}")
    return TableCell(column, _text(text), *_span(start, end, length))


def _span(start: Any, end: Any, length: int) -> tuple[int, int]:
    if type(start) is not int or type(end) is not int or not 0 <= start <= end <= length:
        raise ValueError(f"{start!r:.50} to {end!r:.50} is not within the text")
    return start, end


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not text")
    value.encode()  # a lone surrogate, a ValueError, could not be stored
    return value
