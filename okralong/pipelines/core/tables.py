"""The tables of a document: rows of cells, each below the heads of its column.

Parsers read them while a document is indexed, the archive stores them, and rules and prompts use them in place of the
text's lines. A column without a head is left out with its cells: a value below a wrong year is worse than none. Only a
table with a single column of values may have no head at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell as written, at ``start:end`` of the document's text, in the column with this index.

    ``text`` has no line breaks. It keeps brackets, a minus, "%" and a currency sign: "(1,234)", "$ 5.2", "n.m.", "—".
    """

    column: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row with its label, whose wrapped lines are joined, and its cells from left to right; empty ones are left out.

    ``sections`` are the headings within the table that the row is below, outermost first. ``start:end`` are the row's
    lines in the document's text, with the label.
    """

    label: str
    start: int
    end: int
    cells: tuple[TableCell, ...] = ()
    sections: tuple[str, ...] = ()

    def cell(self, column: int) -> TableCell | None:
        """Return the cell in a column, or None if it is empty."""
        return next((cell for cell in self.cells if cell.column == column), None)


@dataclass(frozen=True, slots=True)
class Table:
    """A table at ``start:end`` of a document's text, from its title or heads to its last row.

    Attributes:
        start: The first character.
        end: The character after the last one.
        heads: For each column its heads from the top to the bottom: ("Year ended December 31,", "2023"). A spanning
            head is repeated for each of its columns. Empty for the only column of a table without heads.
        rows: The rows in order.
        page: The page, sheet or slide that the table begins on, as ``Section.name`` says it; "" if there is none.
        title: The title as written, in one line; "" if there is none.
        unit: The unit lines as written, joined by "; ": "(in thousands, except per share data)"; "" if there is none.
        stub: The head of the column of labels; "" if there is none.
    """

    start: int
    end: int
    heads: tuple[tuple[str, ...], ...]
    rows: tuple[TableRow, ...]
    page: str = ""
    title: str = ""
    unit: str = ""
    stub: str = ""

    def head(self, column: int) -> str:
        """Return the heads of a column in one line, from the top to the bottom."""
        return " ".join(self.heads[column])

    def values(self) -> Iterator[tuple[TableRow, TableCell]]:
        """Iterate over all cells with their rows, in reading order."""
        for row in self.rows:
            for cell in row.cells:
                yield row, cell
