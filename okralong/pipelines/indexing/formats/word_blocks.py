"""Paragraphs and tables of Word files, as blocks of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.indexing.formats.drawing import MOST_REPEATED_CHARS, GridCell, aligned
from okralong.pipelines.indexing.formats.text import pipe_table

_MOST_INLINE_CHARS: Final = 200
"""A nested table up to this length stays within the row of its cell. # project default"""


@dataclass(slots=True)
class Block:
    """A paragraph, or a table or chart with its ``rows``."""

    text: str
    heading: bool = False
    rows: list[list[str]] | None = None

    def in_line(self) -> str:
        """Return the text for a cell of a table."""
        if self.rows is None:
            return self.text
        return "; ".join(" / ".join(filter(None, row)) for row in self.rows if any(row))


@dataclass(slots=True)
class Container:
    """The body, a cell, a text box or a note: its blocks, and the beginning of the next paragraph."""

    blocks: list[Block] = field(default_factory=list)
    begun: str = ""

    def flush(self) -> list[Block]:
        """End a paragraph that nothing continued, and return all blocks."""
        if self.begun.strip():
            self.blocks.append(Block(self.begun.strip()))
        self.begun = ""
        return self.blocks


@dataclass(slots=True)
class Cell(Container):
    """A cell of a table; ``continued`` means that it is merged with the one above."""

    element: Any = None
    column: int = 0
    span: int = 1
    continued: bool = False


@dataclass(slots=True)
class Row:
    """A row of a table; ``column`` is that of the next cell."""

    column: int
    cells: list[Cell] = field(default_factory=list)


def table_blocks(rows: Sequence[Row]) -> Iterator[Block]:
    """Yield a table as one block, with the rows that hold large tables unpacked."""
    cells = [cell for row in rows for cell in row.cells]
    if len(cells) == 1 and len(cells[0].blocks) > 1:  # a frame around a text
        yield from cells[0].blocks
        return
    lines: list[list[GridCell]] = []
    above: dict[int, str] = {}
    for row in rows:
        nested = [block for cell in row.cells for block in cell.blocks if block.rows is not None]
        filled = sum(any(block.text for block in cell.blocks) for cell in row.cells)
        if nested and (filled == 1 or sum(len(block.text) for block in nested) > _MOST_INLINE_CHARS):
            yield from _rows_block(lines)
            lines, above = [], {}
            for cell in row.cells:
                yield from cell.blocks
            continue
        texts: dict[int, str] = {}
        for cell in row.cells:
            text = "\n".join(block.in_line() for block in cell.blocks)
            if cell.continued and not text and len(above.get(cell.column, "")) <= MOST_REPEATED_CHARS:
                text = above.get(cell.column, "")
            texts[cell.column] = text
        lines.append([GridCell(cell.column, cell.span, texts[cell.column]) for cell in row.cells])
        above = texts
    yield from _rows_block(lines)


def _rows_block(lines: Sequence[Sequence[GridCell]]) -> Iterator[Block]:
    rows = aligned(lines)
    if text := pipe_table(rows):
        yield Block(text, rows=rows)
