"""Pages for tests of tables: words placed on lines, with offsets into the text that the lines make."""

from __future__ import annotations

from dataclasses import dataclass, field

from okralong.pipelines.core.tables import Table
from okralong.pipelines.indexing.formats.page_lines import Rule, Word
from okralong.pipelines.indexing.formats.page_tables import page_tables

CHAR = 5.0
"""Width of a character in points."""
SIZE = 10.0


@dataclass
class PageOfWords:
    """A page that lines of words are written on."""

    words: list[Word] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    text: str = ""
    y: float = 60.0

    def line(self, *placed: tuple[float, str], gap: float = 14.0) -> None:
        """Write texts on the next line; a position of 300 is a left edge, one of -300 a right edge at 300."""
        self.y += gap
        for at, text in placed:
            self._write(at if at >= 0 else -at - len(text) * CHAR, self.y, text, SIZE)
        self.text += "\n"

    def raised(self, at: float, text: str) -> None:
        """Write a small raised mark on the last line."""
        self._write(at, self.y - 4.0, text, 6.0)

    def rule(self, x0: float, x1: float, below: float = 3.0) -> None:
        """Draw a line below the last line of text."""
        self.rules.append(Rule(x0, x1, self.y + below))

    def _write(self, x: float, y: float, text: str, size: float) -> None:
        width = CHAR * size / SIZE
        for word in text.split():
            start = len(self.text)
            self.text += word + " "
            self.words.append(Word(x, x + len(word) * width, y, size, word, start, start + len(word)))
            x += (len(word) + 1) * width

    def tables(self) -> list[Table]:
        """Read the tables; every cell must be at its offsets in the text."""
        tables = [found.table for found in page_tables(self.words, self.rules)]
        for table in tables:
            assert 0 <= table.start <= table.end <= len(self.text)
            for row, cell in table.values():
                assert "".join(self.text[cell.start : cell.end].split()) == "".join(cell.text.split())
                assert table.start <= row.start <= cell.start < cell.end <= row.end <= table.end
        return tables


def grid(table: Table) -> list[list[str]]:
    """Return the rows of a table: label and cells, "" where there is none."""
    columns = range(len(table.heads))
    return [[row.label, *(cell.text if (cell := row.cell(at)) else "" for at in columns)] for row in table.rows]
