"""Parse running text (plain, Markdown, HTML) and tables (Excel, CSV), and write tables as lines of text."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from okralong.pipelines.core.table_files import NO_MEMORY, csv_rows, decoded_table, read_workbook
from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.indexing.documents import Blocks, ParserOutput, RawDocument, Source, decode

_HEADING: Final = re.compile(r"^#{1,6}[ \t]++([^ \t\n].*+)|^ {0,3}(```|~~~)", re.MULTILINE)
"""Possessive, and trailing marks are stripped later, so that a heading of a million blanks takes linear time."""


def read_markdown(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .md file. Raises DocumentError if the bytes are not text."""
    text = decode(source.read_bytes(), source.uri)
    first = next((match for match in _HEADING.finditer(text) if match[1]), None)
    title = first[1].rstrip(" \t#") if first else ""
    yield RawDocument(source.doc_id, text, source.uri, title=title, sections=tuple(_headings(text)))


def _headings(text: str) -> Iterator[Section]:
    """Yield the headings of a Markdown text, ignoring code blocks."""
    fence = ""
    for match in _HEADING.finditer(text):
        if match[2]:
            fence = match[2] if not fence else "" if match[2] == fence else fence
        elif not fence and (name := heading_name(match[1].rstrip(" \t#"))):
            yield Section("heading", name, match.start())


_MOST_HEADING_CHARS: Final = 200


def heading_name(words: str) -> str:
    """Return the name of a section with this heading."""
    name = " ".join(words.split())
    return name if len(name) <= _MOST_HEADING_CHARS else f"{name[:_MOST_HEADING_CHARS]} …"


_DROPPED: Final = ["script", "style", "noscript", "template", "svg", "head"]
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_MARK: Final = "\ue0c6"
"""Marks headings while the text is built: a private-use character, removed from the page beforehand."""
_MARKED: Final = re.compile(rf"{_MARK}[\s{_MARK}]*")
_PARAGRAPHS: Final = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "blockquote", "pre"})
_LINE_TAGS: Final = """
address article aside body dd div dl dt fieldset figcaption figure footer form header hr li main nav ol section tr ul
"""
_LINES: Final = frozenset(_LINE_TAGS.split())
_SPACE: Final = re.compile(r"[ \t\n\f\r\u00a0]+")
_MANY_NEWLINES: Final = re.compile(r"\n{3,}")


def read_html(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of an .html file. Raises DocumentError if the bytes are not text or hold no element."""
    name, text, sections = page_of_html(decode(source.read_bytes(), source.uri), source.uri)
    yield RawDocument(source.doc_id, text, source.uri, title=name, sections=sections)


def page_of_html(markup: str, uri: str) -> tuple[str, str, tuple[Section, ...]]:
    """Return title, text and headings of a page. Raises DocumentError if it holds no element."""
    tree = LexborHTMLParser(markup.replace(_MARK, ""))
    if tree.body is None:
        raise DocumentError(f"{uri} holds no HTML element. Check that the page was saved completely, then index again.")
    title = tree.css_first("title")
    name = _SPACE.sub(" ", title.text()).strip() if title is not None else ""
    tree.strip_tags(_DROPPED)
    parts: list[str] = []
    _walk(tree.body, parts)
    # Line by line: a regular expression for blanks around a newline takes quadratic time on other blanks.
    whole = _MARKED.sub(lambda match: f"{match[0].replace(_MARK, '')}{_MARK}", "".join(parts))
    lines = "\n".join(line.strip(" \t") for line in whole.split("\n"))
    text, sections = _unmarked(_MANY_NEWLINES.sub("\n\n", lines).strip())
    return name, text, sections


def _unmarked(marked: str) -> tuple[str, tuple[Section, ...]]:
    """Return the text without the marks of headings, and the headings."""
    first, *parts = marked.split(_MARK)
    sections, start = [], len(first)
    for part in parts:
        if words := heading_name(part.split("\n", 1)[0]):
            sections.append(Section("heading", words, start))
        start += len(part)
    return (first + "".join(parts)).rstrip(), tuple(sections)


def _walk(top: LexborNode, parts: list[str]) -> None:
    # An explicit stack, because saved pages nest deeper than Python's recursion limit. A string on it is text to write.
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
            stack.extend([gap, *reversed(children), *([_MARK] if node.tag in _HEADINGS else []), gap])


def _rows_html(table: LexborNode) -> list[list[str]]:
    rows = []
    for row in table.css("tr"):
        cells = [cell for cell in row.iter() if cell.tag in ("td", "th")]
        rows.append([_SPACE.sub(" ", cell.text(separator=" ")).strip() for cell in cells])
    return rows


def read_plain(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .txt file. Raises DocumentError if the bytes are not text."""
    yield RawDocument(source.doc_id, decode(source.read_bytes(), source.uri), source.uri)


# Tables as lines that people, language models and the table finder recognize as tables.

_PLACES_A_CELL: Final = 16
"""Short rows are padded with empty cells unless the table then has more than this multiple of its cells; a table with
one long row and many short ones would grow with their product. # project default"""


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as ``| cell | cell |`` lines without empty rows and columns, in time linear in the cells."""
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


def read_xlsx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of an .xlsx file: each visible sheet as a table under its name.

    Cells are shown as a person sees them. Raises DocumentError if the file is not an Excel workbook.
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


def read_csv(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .csv or .tsv file, a table. Raises DocumentError if the bytes are not text."""
    text = decoded_table(source.read_bytes(), source.uri)
    try:
        rows = list(csv_rows(text, "\t" if source.uri.lower().endswith(".tsv") else None))
    except csv.Error as error:
        raise DocumentError(f"{source.uri} is not a readable CSV file ({error}). Save it again as CSV.") from error
    yield RawDocument(source.doc_id, pipe_table(rows), source.uri)
