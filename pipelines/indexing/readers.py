"""The parsers of files: Markdown, PDF, Word, HTML, plain text, JSON lines, Parquet; one function for each.

Whatever goes wrong with a file stays with that file. ``read_source`` is the way to use them.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Any, Final

import docx
import pyarrow as pa
import pyarrow.parquet as pq
import pypdfium2
from docx.opc.exceptions import PackageNotFoundError
from docx.table import Table, _Cell
from selectolax.lexbor import LexborHTMLParser, LexborNode

from okralong.pipelines.core.table_files import plain
from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.indexing.documents import BadRow, RawDocument, Read, Reading, Source, decode, newlines

_HEADING: Final = re.compile(r"^#{1,6}[ \t]++([^ \t\n].*+)", re.MULTILINE)
"""Possessive, and the marks behind the words are stripped later: a heading of a million blanks stays linear."""


def read_markdown(source: Source) -> Iterator[Reading]:
    """The one document of a .md file. Raises DocumentError when the bytes are not text."""
    text = decode(source.read_bytes(), source.uri)
    heading = _HEADING.search(text)
    title = heading[1].rstrip(" \t#") if heading else ""
    yield RawDocument(source.doc_id, text, source.uri, title=title)


# PDF by PDFium (pypdfium2, Apache-2.0), chosen over pypdf and pdfplumber by how many gold answers survive extraction
# and by speed; see ``benchmarks/pdf_readers.py``.

_PASSWORD_ERROR: Final = 4
"""FPDF_ERR_PASSWORD of PDFium."""

_HYPHEN: Final = re.compile("[\x02\ufffe\uffff]")
"""What PDFium writes in place of a hyphen at the end of a line."""

_BETWEEN_PAGES: Final = "\n\n"

_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_pdf(source: Source) -> Iterator[Reading]:
    """The one document of a .pdf file.

    Raises DocumentError when the file is damaged, asks for a password, or has no text layer (a scan).
    """
    data = source.read_bytes()
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise DocumentError(
                f"{source.uri} is encrypted and asks for a password. Save a copy without password and index that."
            ) from error
        raise DocumentError(
            f"{source.uri} is not a readable PDF ({error}). Save it again with a PDF program, or fetch it anew."
        ) from error
    try:
        title = str(pdf.get_metadata_value("Title") or "").strip("\x00 ")
        pages = [_page_text(pdf, number, source.uri) for number in range(len(pdf))]
    finally:
        pdf.close()
    text, sections = joined_pages(pages)
    if not text:
        raise DocumentError(
            f"{source.uri} has {len(pages)} pages and no text layer; it seems to be a scan. "
            "Run it through OCR (for example ocrmypdf) and index the result."
        )
    yield RawDocument(
        source.doc_id, text, source.uri, title=title, metadata={"pages": str(len(pages))}, sections=sections
    )


def joined_pages(pages: Sequence[str]) -> tuple[str, tuple[Section, ...]]:
    """The text of a document from the texts of its pages, and where each page with text begins in it."""
    parts: list[str] = []
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(pages, start=1):
        if page:
            sections.append(Section("page", str(number), start))
            parts.append(page)
            start += len(page) + len(_BETWEEN_PAGES)
    return _BETWEEN_PAGES.join(parts), tuple(sections)


def _page_text(pdf: pypdfium2.PdfDocument, number: int, uri: str) -> str:
    try:
        page = pdf[number]
        textpage = page.get_textpage()
        raw = str(textpage.get_text_bounded())
        textpage.close()
        page.close()
    except pypdfium2.PdfiumError as error:
        raise DocumentError(
            f"{uri}, page {number + 1}, cannot be read ({error}). Open and save the file again with a PDF program."
        ) from error
    return tidy(raw)


def tidy(raw: str) -> str:
    """The text of a page without PDFium's marks for line ends and hyphens, control characters and trailing blanks."""
    text = _CONTROL.sub("", _HYPHEN.sub("-", newlines(raw))).encode("utf-8", "replace").decode()
    # Line by line: an expression for the blanks at a line's end takes quadratic time where they are in its middle.
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).strip()


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


_NO_WORD: Final = "unknown error"
"""What the XML parser says of memory that it was refused; of an error in the file it names the error."""


def read_docx(source: Source) -> Iterator[Reading]:
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


_DROPPED: Final = ["script", "style", "noscript", "template", "svg", "head"]
_PARAGRAPHS: Final = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote", "pre"})
_LINE_TAGS: Final = """
address article aside body dd div dl dt fieldset figcaption figure footer form header hr li main nav ol section tr ul
"""
_LINES: Final = frozenset(_LINE_TAGS.split())
_SPACE: Final = re.compile(r"[ \t\n\f\r\u00a0]+")
_MANY_NEWLINES: Final = re.compile(r"\n{3,}")


def read_html(source: Source) -> Iterator[Reading]:
    """The one document of an .html file. Raises DocumentError when the bytes are not text or hold no element."""
    tree = LexborHTMLParser(decode(source.read_bytes(), source.uri))
    if tree.body is None:
        raise DocumentError(
            f"{source.uri} holds no HTML element. Check that the page was saved whole, then index again."
        )
    title = tree.css_first("title")
    name = _SPACE.sub(" ", title.text()).strip() if title is not None else ""
    tree.strip_tags(_DROPPED)
    parts: list[str] = []
    _walk(tree.body, parts)
    # Line by line: an expression for blanks around a newline takes quadratic time where they stand without one.
    lines = "\n".join(line.strip(" \t") for line in "".join(parts).split("\n"))
    text = _MANY_NEWLINES.sub("\n\n", lines).strip()
    yield RawDocument(source.doc_id, text, source.uri, title=name)


def _walk(top: LexborNode, parts: list[str]) -> None:
    # An own stack, because saved pages nest deeper than Python recurses. A string on it is text to write.
    stack: list[LexborNode | str] = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.tag == "-text":
            parts.append(_SPACE.sub(" ", node.text_content or ""))
        elif node.tag == "br":
            parts.append("\n")
        elif node.tag == "table" and node.css_first("table table") is None:
            parts.append(f"\n\n{pipe_table(_rows_html(node))}\n\n")
        elif node.tag and not node.tag.startswith(("-", "_", "!")):
            gap = "\n\n" if node.tag in _PARAGRAPHS else "\n" if node.tag in _LINES else ""
            gap = gap or (" " if node.tag in ("td", "th") else "")
            children: list[LexborNode | str] = list(node.iter(include_text=True))
            stack.extend([gap, *reversed(children), gap])


def _rows_html(table: LexborNode) -> list[list[str]]:
    rows = []
    for row in table.css("tr"):
        cells = [cell for cell in row.iter() if cell.tag in ("td", "th")]
        rows.append([_SPACE.sub(" ", cell.text(separator=" ")).strip() for cell in cells])
    return rows


def read_plain(source: Source) -> Iterator[Reading]:
    """The one document of a .txt file. Raises DocumentError when the bytes are not text."""
    yield RawDocument(source.doc_id, decode(source.read_bytes(), source.uri), source.uri)


_MOST_ID_CHARS: Final = 1000
"""Ours: the id stands again in every chunk of the document."""

_MOST_METADATA_CHARS: Final = 1_000_000
"""Ours: metadata says of a document what a library card does."""


def document_of_row(row: Any, uri: str, number: int) -> Reading:
    """The document in ``row``, or a BadRow that says what is wrong with row ``number`` (from 1) of ``uri``."""
    where = f"row {number}"
    try:
        return _parse(row, uri, where)
    except DocumentError as error:
        named = row.get("doc_id") if isinstance(row, Mapping) else None
        return BadRow(named if isinstance(named, str) and _is_text(named) and named else f"{uri} {where}", str(error))


def _parse(row: Any, uri: str, where: str) -> RawDocument:
    if not isinstance(row, Mapping):
        raise DocumentError(f'{uri}, {where}, is not an object. Write each row as {{"doc_id": ..., "text": ...}}.')
    values = {name: row.get(name) for name in ("doc_id", "text", "title")}
    values["title"] = values["title"] if values["title"] is not None else ""
    for name, value in values.items():
        if not isinstance(value, str):
            what = "is missing" if value is None else f"is a {type(value).__name__}, not text"
            raise DocumentError(f"{uri}, {where}: {name} {what}. Mend the row and index again.")
        if not _is_text(value):
            raise DocumentError(
                f"{uri}, {where}: {name} holds half a surrogate pair or a NUL character, which is not text. "
                "Export the row again as UTF-8."
            )
    if len(str(values["doc_id"])) > _MOST_ID_CHARS:
        raise DocumentError(
            f"{uri}, {where}: doc_id has {len(str(values['doc_id']))} characters, more than {_MOST_ID_CHARS}. "
            "Give the row a name that questions can point to."
        )
    if not str(values["doc_id"]).strip():
        raise DocumentError(f"{uri}, {where}: doc_id is empty. Give the row a name that questions can point to.")
    metadata = _columns(row) | _metadata(row.get("metadata"), uri, where)
    return RawDocument(str(values["doc_id"]), newlines(str(values["text"])), uri, str(values["title"]), where, metadata)


_MOST_COLUMN_CHARS: Final = 1000
"""Ours: a longer value of a column beside the text is a text of its own, and nothing that one filters by."""


def _columns(row: Mapping[Any, Any]) -> dict[str, str]:
    """The other columns of a row that hold one short value each: metadata as well."""
    found = {}
    for name, value in row.items():
        if name in _COLUMNS or value is None or isinstance(value, Mapping | list | tuple | bytes):
            continue
        said = plain(value)
        if said and len(said) <= _MOST_COLUMN_CHARS and _is_text(str(name)) and _is_text(said):
            found[str(name)] = said
    return found


def _metadata(value: Any, uri: str, where: str) -> dict[str, str]:
    pairs = value if isinstance(value, list) and all(isinstance(p, tuple) and len(p) == 2 for p in value) else None
    if value is None:
        return {}
    if not isinstance(value, Mapping) and pairs is None:
        raise DocumentError(f"{uri}, {where}: metadata is a {type(value).__name__}. Write it as names and values.")
    items = dict(pairs) if pairs is not None else dict(value)
    plain = {str(k): v if isinstance(v, str) else json.dumps(v, default=str) for k, v in items.items() if v is not None}
    if not all(_is_text(part) for pair in plain.items() for part in pair):
        raise DocumentError(
            f"{uri}, {where}: metadata holds characters that are not text. Export the row again as UTF-8."
        )
    if sum(len(part) for pair in plain.items() for part in pair) > _MOST_METADATA_CHARS:
        raise DocumentError(
            f"{uri}, {where}: metadata has more than {_MOST_METADATA_CHARS} characters. Put long texts into text."
        )
    return plain


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value


def read_jsonl(source: Source) -> Iterator[Reading]:
    """Each row's document, or a BadRow for a line that is not one; blank lines are passed over."""
    with source.open() as stream:
        for number, line in enumerate(io.BufferedReader(stream), start=1):
            if not line.strip():
                continue
            yield _reading(line, source.uri, number)


def _reading(line: bytes, uri: str, number: int) -> Reading:
    place = f"{uri} row {number}"
    try:
        return document_of_row(json.loads(decode(line, uri)), uri, number)
    except (ValueError, RecursionError) as error:
        return BadRow(place, f"{uri}, row {number}, is not JSON ({error}). Mend the line and index again.")
    except DocumentError as error:
        return BadRow(place, f"Row {number} of {error}")
    except MemoryError:  # of this line alone, and given back by now: the rows after it can be read
        return BadRow(
            place,
            f"{uri}, row {number}, has {len(line) / 1e6:.1f} MB, which needed more memory than limits.document_gib. "
            "Split the row, or raise the limit in the index config.",
        )


_COLUMNS: Final = ("doc_id", "text", "title", "metadata")
_ROWS_AT_ONCE: Final = 16
"""Ours: documents are long, and a batch of them stands in memory."""


def read_parquet(source: Source) -> Iterator[Reading]:
    """Each row's document. Raises DocumentError when the file is not Parquet or has no doc_id or text column."""
    with source.open() as stream:
        try:
            file = pq.ParquetFile(stream)
            names = file.schema_arrow.names
        except MemoryError:  # Arrow's is one of its own exceptions as well
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} is not a readable Parquet file ({error}). Write it again, then index again."
            ) from error
        missing = [name for name in ("doc_id", "text") if name not in names]
        if missing:
            raise DocumentError(
                f"{source.uri} has no column {' and no column '.join(missing)} (it has {', '.join(names)}). "
                "Rename the columns to doc_id and text."
            )
        columns = [name for name in names if name in _COLUMNS or _holds_values(file.schema_arrow.field(name).type)]
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield document_of_row(row, source.uri, number)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} breaks off after row {number} ({error}). Write the file again, then index again."
            ) from error


def _holds_values(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


READERS: Final[Mapping[str, Read]] = {
    ".txt": read_plain,
    ".text": read_plain,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
}
"""Reader by suffix in lower case."""


_VERSIONS: Final[Mapping[str, str]] = {
    ".md": "2",
    ".markdown": "2",
    ".html": "2",
    ".htm": "2",
    ".pdf": "2",
    ".docx": "2",
    ".jsonl": "2",
    ".parquet": "2",
}
"""Of the readers that have learned something since the first release: sections, and columns beside the texts."""


def reader_version(name: str) -> str:
    """Of the reader of a file by its suffix; a file that an earlier one read is read again. "" for the first."""
    return _VERSIONS.get(PurePosixPath(name).suffix.lower(), "")


def reader_for(name: str) -> Read | None:
    """The reader of a file by its suffix, or None when no reader knows it."""
    return READERS.get(PurePosixPath(name).suffix.lower())


def read_source(source: Source, max_bytes: int) -> Iterator[Reading]:
    """Every document of ``source``, and a BadRow for each one that cannot be had. Raises MemoryError only."""
    try:
        reader = reader_for(source.uri)
        if reader is None:
            raise DocumentError(f"{source.uri} has a suffix that no reader knows. Known are {', '.join(READERS)}.")
        if source.size > max_bytes:
            raise DocumentError(
                f"{source.uri} has {source.size / 1e6:.1f} MB, more than max_file_megabytes = {max_bytes / 1e6:g}. "
                "Raise it in the index config, or split the file."
            )
        found = False
        for reading in reader(source):
            found = True
            yield _checked(reading)
        if not found:
            raise DocumentError(f"{source.uri} holds no rows. Put documents into it, or leave it out of the folder.")
    except MemoryError:
        raise  # the process is full, whatever the file is
    except DocumentError as error:
        yield BadRow(source.doc_id, str(error))
    except Exception as error:  # a parser may fail in any way on a damaged file, and must not take the others along
        yield BadRow(
            source.doc_id,
            f"{source.uri} made its reader fail ({type(error).__name__}: {error}). "
            "Open and save it again with the program that made it, or leave it out of the folder.",
        )


def _checked(reading: Reading) -> Reading:
    if isinstance(reading, RawDocument) and not reading.text.strip():
        place = f"{reading.source_uri}, {reading.where}," if reading.where else reading.source_uri
        return BadRow(reading.doc_id, f"{place} holds no text. Check the file, or leave it out of the folder.")
    return reading
