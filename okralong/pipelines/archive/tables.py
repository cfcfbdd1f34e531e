"""Store the tables of documents: the table ``tables`` of an archive, a row per table row.

A file ``tables/PART.parquet`` belongs to the part of the same name in ``documents``. Parts that an earlier okralong
wrote have none: the tables of their documents are read from their texts until the documents are indexed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import CELLS, TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document
from okralong.pipelines.statements.amounts import UNKNOWN
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.units import around_of, cell_value

TABLES_FOLDER: Final = "tables"
_GROUP_ROWS: Final = 2000
"""Rows of a row group, about those of one long report; a reader decodes only the groups of its document. # project
default"""


def write_document_tables(archive: Folder, name: str, documents: Sequence[Document]) -> None:
    """Write the tables of ``documents``, sorted by doc_id, to the file ``name``."""
    rows = [row for document in documents for row in _rows(document)]
    archive.at(TABLES_FOLDER).write_table(name, pa.Table.from_pylist(rows, schema=TABLES), group_rows=_GROUP_ROWS)


def _rows(document: Document) -> Iterator[dict[str, Any]]:
    for number, table in enumerate(document.tables or ()):
        about = {
            "doc_id": document.doc_id,
            "table": number,
            "page": table.page,
            "title": table.title,
            "unit": table.unit,
            "stub": table.stub,
            "heads": table.heads,
            "start_char": table.start,
            "end_char": table.end,
        }
        for ordinal, row in enumerate(table.rows):
            cells = [
                {"column": cell.column, "text": cell.text, "start_char": cell.start, "end_char": cell.end}
                for cell in row.cells
            ]
            yield about | {
                "row": ordinal,
                "label": row.label,
                "sections": row.sections,
                "row_start_char": row.start,
                "row_end_char": row.end,
                "cells": cells,
            }


def read_document_tables(archive: Folder, name: str, doc_id: str) -> tuple[Table, ...] | None:
    """Return the tables of a document in the file ``name``, or None if an earlier okralong wrote its part."""
    try:
        folder, only = archive.at(TABLES_FOLDER), [("doc_id", "=", doc_id)]
        with folder.open(name) as file, folder.naming_damage(name):
            rows = pq.read_table(file, filters=only, page_checksum_verification=True).to_pylist()
    except FileNotFoundError:
        return None
    return tuple(_table(list(of_table)) for _, of_table in groupby(rows, key=lambda row: row["table"]))


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    first = rows[0]
    return Table(
        start=first["start_char"],
        end=first["end_char"],
        heads=tuple(map(tuple, first["heads"])),
        rows=tuple(map(_row, rows)),
        page=first["page"],
        title=first["title"],
        unit=first["unit"],
        stub=first["stub"],
    )


def _row(row: dict[str, Any]) -> TableRow:
    cells = (TableCell(each["column"], each["text"], each["start_char"], each["end_char"]) for each in row["cells"])
    return TableRow(row["label"], row["row_start_char"], row["row_end_char"], tuple(cells), tuple(row["sections"]))


def cells_of(document: Document, page: str | None = None) -> pa.Table:
    """Return the cells of a document's tables, or of those that begin on a page, as rows of ``schemas.CELLS``."""
    return pa.Table.from_pylist(list(_cells(document, page)), schema=CELLS)


def _cells(document: Document, page: str | None) -> Iterator[dict[str, Any]]:
    for number, table in enumerate(tables_of(document)):
        if page not in (None, table.page):
            continue
        around = around_of(document, table)
        about = {"doc_id": document.doc_id, "page": table.page, "table": number, "title": table.title}
        for row, cell in table.values():
            value = cell_value(table, row, cell, around)
            yield about | {
                "unit_line": table.unit,
                "section": " / ".join(row.sections),
                "label": row.label,
                "head": table.head(cell.column),
                "text": cell.text,
                "number": None if value is None or value.scale == UNKNOWN else value.number,
                "scale": None if value is None else value.scale,
                "currency": None if value is None else value.currency,
                "unit": None if value is None else value.unit,
                "start_char": cell.start,
                "end_char": cell.end,
            }
