"""The blocks of a report (headings, paragraphs, tables) with marked facts, and their rendering as text.

A fact is marked where it is written, ``mark("founder", "Edith Quist")``. The renderer strips the marks and records
where the marked words are in the text, so gold spans are exact in every format.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from okralong.pipelines.core.types import TableSpan
from okralong.pipelines.samples.words import Lexicon, lexicon

# Private-use characters: no template and no name can contain them.
_OPEN: Final = "\ue000"
_MIDDLE: Final = "\ue001"
_CLOSE: Final = "\ue002"
MARK: Final = re.compile(f"{_OPEN}([^{_MIDDLE}]*){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")


def mark(key: str, text: str) -> str:
    """Mark ``text`` as the statement of the fact ``key``, which may be marked once in a report."""
    return f"{_OPEN}{key}{_MIDDLE}{text}{_CLOSE}"


def unmarked(text: str) -> str:
    """Remove the marks from a text."""
    return MARK.sub(r"\2", text)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 (the report), 2 (a section) or 3 (a part of it)."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``key`` makes the whole of it a fact, for questions that ask for a summary."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table row of whole numbers. ``total_of`` names the rows above that it sums, if any."""

    label: str
    values: tuple[int, ...]
    total_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. The fact of a cell is ``table_id/row label/column``."""

    table_id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Block = Heading | Paragraph | Table


def cell(table_id: str, label: str, column: int | str) -> str:
    """Return the fact key of a table cell."""
    return f"{table_id}/{label}/{column}"


_CHARS_PER_WORD: Final = 2
"""Chinese characters that count as a word. project default"""


def word_count(block: Block) -> int:
    """Count the words of a block, about as many as in the text rendering."""
    if isinstance(block, Table):
        head = len(block.title.split()) + sum(len(column.split()) for column in block.columns)
        return head + sum(len(row.label.split()) + len(row.values) for row in block.rows)
    return words_in(unmarked(block.text))


def words_in(text: str) -> int:
    """Count the words of a text; of Chinese, which has no blanks, two characters count as one."""
    return len(text.split()) + len(_HAN.findall(text)) // _CHARS_PER_WORD


_HAN: Final = re.compile("[\u4e00-\u9fff]")


# Rendering as plain text (aligned columns), Markdown (pipes) or HTML (real tables), with the place of every fact.

Format = Literal["txt", "md", "html"]
FORMATS: tuple[Format, ...] = ("txt", "md", "html")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text with the character ranges of its facts and tables; empty for HTML, since its parsers move the offsets."""

    text: str
    spans: Mapping[str, tuple[int, int]]
    tables: tuple[TableSpan, ...] = ()


def render(blocks: Sequence[Block], form: Format, language: str = "en") -> Rendered:
    """Render the blocks in the given format."""
    words = lexicon(language)
    if form == "html":
        body = "\n".join(_html(block, words) for block in blocks)
        return Rendered(
            f'<!DOCTYPE html>\n<html lang="{language}"><meta charset="utf-8">\n<body>\n{body}\n</body></html>\n', {}
        )
    builder = _TextBuilder()
    for block in blocks:
        if isinstance(block, Table):
            _table(builder, block, form, words)
        elif isinstance(block, Heading):
            builder.write(_heading(block, form))
        else:
            start = builder.length
            builder.write(block.text)
            if block.key:
                builder.spans[block.key] = (start, builder.length)
        builder.write("\n\n")
    return Rendered(builder.text().rstrip("\n") + "\n", builder.spans, tuple(builder.tables))


class _TextBuilder:
    """Builds a plain text from marked text and records the places of the facts."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        self.spans: dict[str, tuple[int, int]] = {}
        self.tables: list[TableSpan] = []

    def write(self, marked: str) -> None:
        at = 0
        for match in MARK.finditer(marked):
            self._append(marked[at : match.start()])
            start = self.length
            self._append(match.group(2))
            self.spans[match.group(1)] = (start, self.length)
            at = match.end()
        self._append(marked[at:])

    def _append(self, plain: str) -> None:
        self._pieces.append(plain)
        self.length += len(plain)

    def text(self) -> str:
        return "".join(self._pieces)


def _heading(heading: Heading, form: Format) -> str:
    if form == "md":
        return f"{'#' * heading.level} {heading.text}"
    if heading.level == 1:
        return f"{heading.text.upper()}\n{'=' * len(heading.text)}"
    return f"{heading.text}\n{'-' * len(heading.text)}" if heading.level == 2 else heading.text


def _table(builder: _TextBuilder, table: Table, form: Format, words: Lexicon) -> None:
    """Write title line, header and rows; the span of a cell is its right-aligned figure without the padding."""
    start = builder.length
    labels = max(len(row.label) for row in table.rows)
    widths = [
        max(len(column), *(len(words.amount(row.values[at])) for row in table.rows))
        for at, column in enumerate(table.columns)
    ]
    title = f"{words.label('Table: ')}{table.title}"
    builder.write(f"**{title}**\n\n" if form == "md" else f"{title}\n")
    left, gap, right = ("| ", " | ", " |") if form == "md" else ("", "   ", "")
    builder.write(left + " " * labels)
    for column, width in zip(table.columns, widths, strict=True):
        builder.write(gap + column.rjust(width))
    builder.write(right)
    if form == "md":
        builder.write(f"\n|{'-' * (labels + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths))
    for row in table.rows:
        builder.write(f"\n{left}{row.label.ljust(labels)}")
        for column, value, width in zip(table.columns, row.values, widths, strict=True):
            shown = words.amount(value)
            builder.write(gap + " " * (width - len(shown)))
            at = builder.length
            builder.write(shown)
            builder.spans[cell(table.table_id, row.label, column)] = (at, builder.length)
        builder.write(right)
    builder.tables.append(TableSpan(table.table_id, start, builder.length))


def _html(block: Block, words: Lexicon) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{html.escape(unmarked(block.text))}</p>"
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    head = "".join(f"<th>{column}</th>" for column in ("", *block.columns))
    cells = ("".join(f"<td>{words.amount(value)}</td>" for value in row.values) for row in block.rows)
    rows = "".join(
        f"<tr><th>{html.escape(row.label)}</th>{shown}</tr>\n" for row, shown in zip(block.rows, cells, strict=True)
    )
    title = f"{words.label('Table: ')}{block.title}"
    return f"<table>\n<caption>{html.escape(title)}</caption>\n<tr>{head}</tr>\n{rows}</table>"
