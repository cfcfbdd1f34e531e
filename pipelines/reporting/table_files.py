"""A table as Parquet, CSV and Markdown. Figures with intervals become three columns, but for Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.reporting.estimates import Figure
from okralong.pipelines.reporting.inert import plain
from okralong.pipelines.reporting.table import Cell, Column, Table, written

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet takes a text for a formula (OWASP, CSV injection)."""


def table_files(table: Table) -> Mapping[str, bytes]:
    """The files of a table by name."""
    return {
        f"{table.name}.parquet": _parquet(table),
        f"{table.name}.csv": _csv(table),
        f"{table.name}.md": markdown(table).encode(),
    }


def columns_of(table: Table) -> dict[str, list[Cell]]:
    """The table by column, figures as ``key``, ``key_low`` and ``key_high``."""
    columns: dict[str, list[Cell]] = {}
    for at, column in enumerate(table.columns):
        cells = [row[at] for row in table.rows]
        columns[column.key] = [cell.value if isinstance(cell, Figure) else cell for cell in cells]
        if any(isinstance(cell, Figure) for cell in cells):
            columns[f"{column.key}_low"] = [cell.low if isinstance(cell, Figure) else None for cell in cells]
            columns[f"{column.key}_high"] = [cell.high if isinstance(cell, Figure) else None for cell in cells]
    return columns


def markdown(table: Table) -> str:
    """Title, note and table."""
    lines = [[column.label for column in table.columns], ["---" if c.kind == "text" else "---:" for c in table.columns]]
    lines += [[_words(c, cell) for c, cell in zip(table.columns, row, strict=True)] for row in table.rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join(part for part in (f"## {table.title}", table.note, body) if part) + "\n"


def _words(column: Column, cell: Cell) -> str:
    main, interval = written(column, cell)
    text = f"{main} [{interval}]" if interval else main
    # Markdown takes HTML as it is, and a bar ends a cell.
    return plain(text).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ")


def _csv(table: Table) -> bytes:
    columns = columns_of(table)
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([safe_cell(cell) for cell in row])
    return out.getvalue().encode()


def safe_cell(cell: Cell) -> Cell:
    """A cell as it may stand in a CSV file: no text in it is a formula to a spreadsheet."""
    if not isinstance(cell, str):
        return cell
    text = plain(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _parquet(table: Table) -> bytes:
    columns = {}
    for key, cells in columns_of(table).items():
        texts = any(isinstance(cell, str) for cell in cells)
        whole = all(isinstance(cell, int) for cell in cells if cell is not None)
        kind = pa.string() if texts else pa.int64() if whole else pa.float64()
        columns[key] = pa.array(cells, kind)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()
