"""Readers of tables, Excel and CSV, and tables as lines of text."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from okralong.pipelines.core.table_files import NO_MEMORY, csv_rows, decoded_table, read_workbook
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, RawDocument, Reading, Source

# Tables as lines that a person, a language model and the table finder all read as a table.

_PLACES_A_CELL: Final = 16
"""Short rows are filled up with empty places, unless the table then has so many times its cells. Ours: a table with one
long row and many short ones would grow with the product of the two."""


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """One ``| cell | cell |`` line a row; rows and columns without any text are left out. Linear in the cells."""
    kept = [[" ".join(cell.replace("|", "/").split()) for cell in row] for row in rows]
    kept = [row for row in kept if any(row)]
    columns = sorted({column for row in kept for column, cell in enumerate(row) if cell})
    filled = len(kept) * len(columns) <= _PLACES_A_CELL * sum(map(len, kept))
    return "\n".join(_line(row, columns, filled) for row in kept)


def _line(row: Sequence[str], columns: Sequence[int], filled: bool) -> str:
    cells = [row[column] for column in takewhile(lambda column: column < len(row), columns)]
    if filled:
        cells += [""] * (len(columns) - len(cells))
    return f"| {' | '.join(cells)} |"


def read_xlsx(source: Source) -> Iterator[Reading]:
    """The one document of an .xlsx file: each sheet that is not hidden as a table under its name, with what a person
    sees in the cells. Raises DocumentError when it is not an Excel workbook.
    """
    book = read_workbook(source.read_bytes(), source.uri)
    blocks = Blocks()
    for sheet in book.sheets:
        try:
            table = pipe_table(list(sheet.shown()))
        except (KeyError, ValueError, TypeError, IndexError, SyntaxError) as error:
            if str(error).startswith(NO_MEMORY):
                raise MemoryError from error
            raise DocumentError(
                f"{source.uri}, sheet {sheet.name}, cannot be read ({error}). Open it in a spreadsheet program and "
                "save it again as .xlsx."
            ) from error
        if table:
            blocks.begin("sheet", sheet.name)
            blocks.add(sheet.name)
            blocks.add(table)
    metadata = {"sheets": str(len(book.sheets))} | ({"hidden_sheets": str(book.hidden)} if book.hidden else {})
    yield blocks.document(source, book.title, metadata)


def read_csv(source: Source) -> Iterator[Reading]:
    """The one document of a .csv or .tsv file, a table. Raises DocumentError when the bytes are not text."""
    text = decoded_table(source.read_bytes(), source.uri)
    try:
        rows = list(csv_rows(text, "\t" if source.uri.lower().endswith(".tsv") else None))
    except csv.Error as error:
        raise DocumentError(f"{source.uri} is not a readable CSV file ({error}). Save it again as CSV.") from error
    yield RawDocument(source.doc_id, pipe_table(rows), source.uri)
