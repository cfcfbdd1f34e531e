"""Parse Word and PowerPoint files."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import docx
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table, _Cell

from okralong.pipelines.core.table_files import shown
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, ParserOutput, Source
from okralong.pipelines.indexing.formats.text import heading_name, pipe_table

_HEADING: Final = re.compile(r"(heading \d|title|überschrift \d|titel)", re.IGNORECASE)
"""Word's built-in styles: Word keeps their English names in the file in every language, other programs may not."""

_NO_WORD: Final = "unknown error"
"""The XML parser's message after a failed allocation; other errors have their own."""


def read_docx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .docx file. Raises DocumentError if it is not a zip-based Word file."""
    data = source.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{source.uri} is not a .docx file (no zip inside): it may be an old .doc, or be protected by a password. "
            "Open it in a word processor and save it as .docx without password."
        )
    try:
        document = docx.Document(io.BytesIO(data))
        headings = {style.style_id for style in document.styles if _HEADING.fullmatch(str(style.name))}
        blocks = Blocks()
        for block in document.iter_inner_content():
            text = _text(block)
            if text and not isinstance(block, Table) and block._p.style in headings:
                blocks.begin("heading", heading_name(text))
            blocks.add(text)
        title = str(document.core_properties.title or "")
        day = _day(document.core_properties)
    except (KeyError, ValueError, PackageNotFoundError, zipfile.BadZipFile, SyntaxError) as error:
        if str(error).startswith(_NO_WORD):
            raise MemoryError from error
        raise DocumentError(
            f"{source.uri} is a zip file, but not a complete Word document ({error}). "
            "Open it in a word processor and save it again as .docx."
        ) from error
    yield blocks.document(source, title, day)


def _day(properties: Any) -> dict[str, str]:
    """Return the day of the last change from the document's properties."""
    try:
        changed = properties.modified or properties.created
    except ValueError:
        return {}
    return {"date": changed.date().isoformat()} if isinstance(changed, datetime) else {}


def _text(block: object) -> str:
    return pipe_table(_rows(block)) if isinstance(block, Table) else str(getattr(block, "text", "")).strip()


def _rows(table: Table) -> list[list[str]]:
    """Return the text of each cell; cells merged vertically repeat their text, those merged sideways appear once.

    ``row.cells`` of python-docx is not used: it lists a cell for each grid column that it claims to span (a file may
    claim a billion), and searches from every merged cell to the top of its column.
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


def read_pptx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .pptx file: texts, tables, chart data and notes of each visible slide.

    Raises:
        DocumentError: The file is not a zip-based PowerPoint file.
    """
    import pptx  # imported here, because most parser processes never need it
    from pptx.exc import PackageNotFoundError as NoPackage

    data = source.read_bytes()
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{source.uri} is not a .pptx file (no zip inside): it may be an old .ppt, or be protected by a password. "
            "Open it in a presentation program and save it as .pptx without password."
        )
    blocks, hidden = Blocks(), 0
    try:
        deck = pptx.Presentation(io.BytesIO(data))
        for number, slide in enumerate(deck.slides, start=1):
            if slide._element.get("show") in ("0", "false"):
                hidden += 1
                continue
            blocks.begin("slide", str(number))
            for text in _of_shapes(slide.shapes):
                blocks.add(text)
            notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
            if notes is not None and notes.text.strip():
                blocks.add(f"Notes: {notes.text.strip()}")
        title = str(deck.core_properties.title or "")
        metadata = {"slides": str(len(deck.slides))} | _day(deck.core_properties)
    except (KeyError, ValueError, NoPackage, zipfile.BadZipFile, SyntaxError, AttributeError) as error:
        if str(error).startswith(_NO_WORD):
            raise MemoryError from error
        raise DocumentError(
            f"{source.uri} is a zip file, but not a complete PowerPoint presentation ({error}). Open it in a "
            "presentation program and save it again as .pptx."
        ) from error
    yield blocks.document(source, title, metadata | ({"hidden_slides": str(hidden)} if hidden else {}))


def _of_shapes(shapes: Any) -> Iterator[str]:
    """Yield the texts of shapes in their order in the file, which is also that of screen readers."""
    stack = [iter(shapes)]  # groups may be nested deeper than Python's recursion limit
    while stack:
        shape = next(stack[-1], None)
        if shape is None:
            stack.pop()
        elif hasattr(shape, "shapes"):
            stack.append(iter(shape.shapes))
        elif getattr(shape, "has_table", False):
            rows = ([cell.text for cell in row.cells if not cell.is_spanned] for row in shape.table.rows)
            yield pipe_table(list(rows))
        elif getattr(shape, "has_chart", False):
            yield _chart(shape)
        elif shape.has_text_frame:
            yield shape.text_frame.text.replace("\v", "\n")


def _chart(shape: Any) -> str:
    """Return a chart as a table of its data, "" if it has none that can be read."""
    try:
        chart = shape.chart
        title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
        tables = []
        for plot in chart.plots:
            series = [(str(each.name), list(each.values)) for each in plot.series]
            rows = [["", *(name for name, _ in series)]]
            for place, category in enumerate(plot.categories):
                figures = (values[place] if place < len(values) else None for _, values in series)
                rows.append([str(category), *("" if figure is None else shown(figure) for figure in figures)])
            tables.append(pipe_table(rows))
    except (KeyError, ValueError, TypeError, AttributeError, NotImplementedError):
        return ""
    return "\n\n".join(part for part in (title, *tables) if part)
