"""Word files by python-docx: paragraphs and tables in the order of the page, tables as pipe lines."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Final

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table, _Cell

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers.pipes import pipe_table
from okralong.pipelines.indexing.readers.raw import RawDocument, Reading, Source, newlines

_NO_WORD: Final = "unknown error"
"""What the XML parser says of memory that it was refused; of a fault in the file it names the fault."""


def read(source: Source) -> Iterator[Reading]:
    """The one document of a .docx file. Raises DocumentError when it is not a Word file of the zip kind."""
    data = source.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{source.uri} is not a .docx file (no zip inside): it may be an old .doc, or be protected by a password. "
            "Open it in a word processor and save it as .docx without password."
        )
    try:
        document = docx.Document(io.BytesIO(data))
        blocks = [_text(block) for block in document.iter_inner_content()]
        title = str(document.core_properties.title or "")
    except (KeyError, ValueError, PackageNotFoundError, zipfile.BadZipFile, SyntaxError) as error:
        if str(error).startswith(_NO_WORD):
            raise MemoryError from error
        raise DocumentError(
            f"{source.uri} is a zip file, but not a whole Word document ({error}). "
            "Open it in a word processor and save it again as .docx."
        ) from error
    yield RawDocument(source.doc_id, newlines("\n\n".join(block for block in blocks if block)), source.uri, title=title)


def _text(block: object) -> str:
    return pipe_table(_rows(block)) if isinstance(block, Table) else str(getattr(block, "text", "")).strip()


def _rows(table: Table) -> list[list[str]]:
    """The text of each cell; one that is merged with that above it repeats its text, one merged sideways stands once.

    Not by ``row.cells`` of python-docx, which lists a cell for each grid column that it claims to cover (a file may
    claim a billion) and climbs anew from every merged cell to the top of its column.
    """
    rows: list[list[str]] = []
    above: dict[int, str] = {}
    for tr in table._tbl.tr_lst:
        texts: dict[int, str] = {}
        column = tr.grid_before
        for tc in tr.tc_lst:
            texts[column] = above.get(column, "") if tc.vMerge == "continue" else _Cell(tc, table).text
            column += tc.grid_span
        rows.append(list(texts.values()))
        above = texts
    return rows
