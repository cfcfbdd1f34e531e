"""Parse running text (plain, Markdown), and write tables as lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from okralong.pipelines.core.types import Section
from okralong.pipelines.indexing.documents import ParserOutput, RawDocument, Source, decode_file

_HEADING: Final = re.compile(r"^#{1,6}[ \t]++([^ \t\n].*+)|^ {0,3}(```|~~~)", re.MULTILINE)
"""Possessive, and trailing marks are stripped later, so that a heading of a million blanks takes linear time."""


def read_markdown(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .md file. Raises DocumentError if the bytes are not text."""
    text, losses = decode_file(source.read_bytes(), source.uri)
    first = next((match for match in _HEADING.finditer(text) if match[1]), None)
    title = first[1].rstrip(" \t#") if first else ""
    sections = tuple(_headings(text))
    yield RawDocument(source.doc_id, text, source.uri, title=title, metadata=losses.metadata(), sections=sections)


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


def read_plain(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .txt file. Raises DocumentError if the bytes are not text."""
    text, losses = decode_file(source.read_bytes(), source.uri)
    yield RawDocument(source.doc_id, text, source.uri, metadata=losses.metadata())


# Tables as lines that people, language models and the table finder recognize as tables.

PLACES_A_CELL: Final = 16
"""Short rows are padded with empty cells unless the table then has more than this multiple of its cells; a table with
one long row and many short ones would grow with their product. # project default"""


def pipe_table(rows: Sequence[Sequence[str]]) -> str:
    """Write rows as ``| cell | cell |`` lines without empty rows and columns, in time linear in the cells."""
    kept = [[" ".join(cell.replace("|", "/").split()) for cell in row] for row in rows]
    kept = [row for row in kept if any(row)]
    columns = sorted({column for row in kept for column, cell in enumerate(row) if cell})
    filled = len(kept) * len(columns) <= PLACES_A_CELL * sum(map(len, kept))
    return "\n".join(_line(row, columns, filled) for row in kept)


def _line(row: Sequence[str], columns: Sequence[int], filled: bool) -> str:
    cells = [row[column] for column in takewhile(lambda column: column < len(row), columns)]
    if filled:
        cells += [""] * (len(columns) - len(cells))
    return f"| {' | '.join(cells)} |"
