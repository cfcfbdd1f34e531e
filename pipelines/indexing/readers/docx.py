"""Word files by python-docx: paragraphs and tables in the order of the page, tables as pipe lines."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table

from okralong.pipelines.errors import DocumentError
from okralong.pipelines.indexing.readers.pipes import pipe_table
from okralong.pipelines.indexing.readers.raw import RawDocument, Reading, Source, newlines


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
        raise DocumentError(
            f"{source.uri} is a zip file, but not a whole Word document ({error}). "
            "Open it in a word processor and save it again as .docx."
        ) from error
    yield RawDocument(source.doc_id, newlines("\n\n".join(block for block in blocks if block)), source.uri, title=title)


def _text(block: object) -> str:
    if not isinstance(block, Table):
        return str(getattr(block, "text", "")).strip()
    rows = []
    for row in block.rows:
        # A merged cell is listed once for each grid column that it covers; it is one cell to a reader.
        cells = [
            cell for number, cell in enumerate(row.cells) if number == 0 or cell._tc is not row.cells[number - 1]._tc
        ]
        rows.append([cell.text for cell in cells])
    return pipe_table(rows)
