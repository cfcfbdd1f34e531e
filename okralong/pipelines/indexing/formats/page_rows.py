"""Rows of a page's table: the cells of each line, labels over several lines, and the sections that rows are below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from okralong.pipelines.core.tables import TableCell, TableRow
from okralong.pipelines.indexing.formats.page_columns import Column
from okralong.pipelines.indexing.formats.page_lines import Line, Piece

_GOES_ON: Final = re.compile(r"[a-z(&\d]")
"""How a line starts that goes on with the label of the line above."""
_UNFINISHED: Final = re.compile(
    r"(?:,|\b(?:and|of|at|for|to|in|the|under|from|or|by|with|on|as|per|net|a|an)|&|/|[-\u2013\u2014])$"
)
"""How a label ends that goes on in the next line."""
_FINISHED: Final = re.compile(r"[:.]$")


@dataclass(slots=True)
class _Label:
    """A line of a label or a section heading without values."""

    left: float
    y: float
    pieces: list[Piece]

    @property
    def text(self) -> str:
        return _label_text(self.pieces)


@dataclass(slots=True)
class _Row:
    labels: list[Piece]
    cells: list[tuple[int, Piece]]
    left: float
    sections: tuple[str, ...] = ()


@dataclass(slots=True)
class RowReader:
    """Reads the lines of a table's body from top to bottom."""

    lines: Sequence[Line]
    columns: Sequence[Column]
    zone: float
    """The left edge of the columns."""
    pitch: float
    """The usual distance between rows."""
    rows: list[_Row] = field(default_factory=list)
    waiting: list[_Label] = field(default_factory=list)
    """Lines without values that belong to the next row or are sections."""
    sections: list[tuple[float, str, bool]] = field(default_factory=list)
    """The open section headings with their left edges, and whether their rows are indented."""

    def read(self, index: int, cells: Sequence[Piece], labels: Sequence[Piece]) -> None:
        """Read the line with this index: its cells, and the pieces of its label."""
        line = self.lines[index]
        if not cells:
            self._read_label(index, list(labels))
            return
        placed = self._placed(cells)
        label = list(labels)
        left = label[0].left if label else 0.0
        if self.waiting:
            label = self._joined(label, line)
            left = label[0].left if label else left
        for waiting in self.waiting:
            self._open_section(waiting)
        self.waiting = []
        if label:
            self._close_sections(left)
        self.rows.append(_Row(label, placed, left, tuple(text for _, text, _ in self.sections)))

    def _placed(self, cells: Sequence[Piece]) -> list[tuple[int, Piece]]:
        placed: dict[int, Piece] = {}
        for cell in cells:
            column = max(
                range(len(self.columns)),
                key=lambda place: min(cell.x1, self.columns[place].x1) - max(cell.x0, self.columns[place].x0),
            )
            placed.setdefault(column, cell)
        return sorted(placed.items())

    def _read_label(self, index: int, label: list[Piece]) -> None:
        """Read a line without values: the last row's label goes on, or the line waits for the next row."""
        if not label:
            return
        line = self.lines[index]
        text = " ".join(piece.text for piece in label)
        above = line.y - self.lines[index - 1].y
        below = self.lines[index + 1].y - line.y if index + 1 < len(self.lines) else 99.0
        if (
            self.rows
            and not self.waiting
            and self.rows[-1].labels
            and above < 0.7 * self.pitch
            and above <= 0.95 * below
            and not _FINISHED.search(text)
        ):
            self.rows[-1].labels.extend(label)
            return
        last = self.waiting[-1] if self.waiting else None
        if last and above < 1.45 * line.height and _GOES_ON.match(text) and not _FINISHED.search(last.text):
            last.pieces.extend(label)
            last.y = line.y
        else:
            self.waiting.append(_Label(label[0].left, line.y, label))

    def _joined(self, label: list[Piece], line: Line) -> list[Piece]:
        """Return the label of a row with the waiting lines that it starts with."""
        last = self.waiting[-1]
        gap = line.y - last.y
        if not label:
            return self.waiting.pop().pieces if gap < 0.95 * line.height else label
        text = " ".join(piece.text for piece in label)
        if gap >= 1.45 * line.height or last.text.endswith(":"):
            return label
        if not (gap < 0.7 * self.pitch or _GOES_ON.match(text) or _UNFINISHED.search(last.text)):
            return label
        label = [*self.waiting.pop().pieces, *label]
        y = last.y
        while (
            self.waiting
            and y - self.waiting[-1].y < 1.45 * line.height
            and not self.waiting[-1].text.endswith(":")
            and (_GOES_ON.match(label[0].text) or _UNFINISHED.search(self.waiting[-1].text))
        ):
            y = self.waiting[-1].y
            label = [*self.waiting.pop().pieces, *label]
        return label

    def _open_section(self, heading: _Label) -> None:
        while self.sections and self.sections[-1][0] >= heading.left - 1.0:
            self.sections.pop()
        self.sections.append((heading.left, heading.text, False))

    def _close_sections(self, left: float) -> None:
        """Close the sections whose rows are indented, at a row that is not."""
        while self.sections and self.sections[-1][2] and left <= self.sections[-1][0] + 1.0:
            self.sections.pop()
        if self.sections and left > self.sections[-1][0] + 2.0:
            heading_left, text, _ = self.sections[-1]
            self.sections[-1] = (heading_left, text, True)

    def table_rows(self, columns: dict[int, int]) -> tuple[TableRow, ...]:
        """Return the rows with the cells of these columns, each under its new index."""
        rows = []
        for row in self.rows:
            cells = [(columns[place], piece) for place, piece in row.cells if place in columns]
            if cells:
                rows.append(_table_row(row, cells))
        return tuple(rows)


def _table_row(row: _Row, cells: list[tuple[int, Piece]]) -> TableRow:
    pieces = [*row.labels, *(piece for _, piece in cells)]
    return TableRow(
        _label_text(row.labels),
        min(piece.start for piece in pieces),
        max(piece.end for piece in pieces),
        tuple(TableCell(column, piece.text, piece.start, piece.end) for column, piece in cells),
        row.sections,
    )


def _label_text(pieces: Sequence[Piece]) -> str:
    """Return the text of a label; a hyphen at the end of a line stays, without a blank."""
    text = ""
    for piece in pieces:
        joins = text[-1:] == "-" and text[-2:-1].isalpha() and piece.text[:1].islower()
        text += piece.text if joins or not text else f" {piece.text}"
    return text


def row_pitch(lines: Sequence[Line], rows: Sequence[int]) -> float:
    """Return the median distance of neighbouring rows."""
    gaps = [lines[after].y - lines[before].y for before, after in pairwise(rows) if after == before + 1]
    return median(gaps) if gaps else 1.3 * lines[rows[0]].height
