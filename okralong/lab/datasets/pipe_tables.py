"""Write tables of filings as rows with pipes, and find the cell that an answer or an operand was taken from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.lab.datasets.files import Row
from okralong.lab.datasets.gold import words
from okralong.lab.datasets.places import Pieces, Range
from okralong.pipelines.reporting.metrics import plain_words

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_UNITS: Final = frozenset({"million", "billion", "thousand", "m", "bn", "k", "x", "bp", "bps", "us", "usd", "cents"})
_PERIOD: Final = re.compile(r"\W*(?:19|20)\d\d(?:\s*[-\N{EN DASH}/]\s*(?:\d\d)?\d\d)?\W*(?:\(\d\))?|\d+/\d+(?:/\d+)?")


def table_cells(row: Row) -> list[list[str]]:
    """Return the rows of a table's cells. Raises InputError if there are none."""
    cells = []
    for line in row.get("table", list):
        if not isinstance(line, list):
            row.bad("table", f"holds {type(line).__name__} where a row of cells is expected")
        cells.append(row.all_texts("table", line))
    if not cells:
        row.bad("table", "has no rows")
    return cells


@dataclass(frozen=True, slots=True)
class PipeTable:
    """The cells of a table, and the range of each row in the text. The first ``heads`` rows are column heads.

    If there are no heads, ``header`` is the first row.
    """

    cells: tuple[tuple[str, ...], ...]
    rows: tuple[Range, ...]
    heads: int

    @property
    def header(self) -> Range:
        """The range of the column heads in the text."""
        return self.rows[0][0], self.rows[max(self.heads, 1) - 1][1]

    def head(self, column: int) -> str:
        """Return the words above a column, from all head rows."""
        return " ".join(row[column] for row in self.cells[: self.heads] if column < len(row))


def write_table(pieces: Pieces, cells: Sequence[Sequence[str]]) -> PipeTable:
    """Write each row as ``| a | b |`` on its own line, and a blank line after the last.

    Line breaks in a cell become blanks and pipes become slashes, so that a row stays one row.
    """
    rows = []
    for number, row in enumerate(cells, start=1):
        shown = " | ".join(" ".join(cell.split()).replace("|", "/") for cell in row)
        rows.append(pieces.add(f"| {shown} |", "\n\n" if number == len(cells) else "\n"))
    return PipeTable(tuple(tuple(row) for row in cells), tuple(rows), count_heads(cells))


def count_heads(cells: Sequence[Sequence[str]]) -> int:
    """Count the rows before the first one that has a figure outside the first column.

    The title of a first section ("Assets", with empty cells beside it) does not count if there are heads above it. A
    table without figures has one head row.
    """
    first = next((number for number, row in enumerate(cells) if any(is_figure(cell) for cell in row[1:])), None)
    if first is None:
        return min(1, len(cells))
    while first > 1 and not any(cell.strip() for cell in cells[first - 1][1:]):
        first -= 1
    return first


def is_figure(cell: str) -> bool:
    """Return whether a cell is a figure: it has digits, no words except units, and is not a year or date."""
    if not any(char.isdigit() for char in cell) or _PERIOD.fullmatch(cell.strip()):
        return False
    return all(word.lower() in _UNITS for word in _LETTERS.findall(cell))


# --------
# Find the cell of a table that an answer or an operand was taken from.
#
# If several cells have the figure, the cell is chosen by the row whose label shares most words with the question, then
# by the row with most of the other wanted figures, then by the column whose heads share most words with the question,
# then by position.

Place = tuple[int, int]
"""The row and column of a cell, counted from 0."""


def find_cell(table: PipeTable, wanted: str, question: str, others: Sequence[str] = ()) -> Place | None:
    """Return the cell below the heads that has ``wanted``, or None.

    Cells are compared by words and numbers, without currency, percent and minus signs. A cell that equals ``wanted`` is
    preferred to one with a note after it, and that to a longer cell that contains ``wanted``.
    """
    key = _key(wanted)
    if not key:
        return None
    for test in (_is_same, _begins_with, _holds):
        places = [place for place, cell in _body(table) if test(cell, key)]
        if places:
            return _nearest(table, places, question, others)
    return None


def find_head(table: PipeTable, wanted: str) -> Place | None:
    """Return the cell of the column heads that equals or contains ``wanted``, or None."""
    key = _key(wanted)
    places = [
        (row, column)
        for row, cells in enumerate(table.cells[: table.heads])
        for column, cell in enumerate(cells)
        if key and _holds(cell, key)
    ]
    return places[0] if places else None


def cell_below(table: PipeTable, column: int, question: str) -> Place | None:
    """Return the figure's cell of a column, in the row whose label shares most words with the question, or None."""
    asked = frozenset(plain_words(question))
    places = [(row, col) for (row, col), cell in _body(table) if col == column and is_figure(cell)]
    if not any(asked & _label(table, row) for row, _ in places):
        return None
    return _nearest(table, places, question)


def _body(table: PipeTable) -> Iterator[tuple[Place, str]]:
    for row in range(table.heads, len(table.cells)):
        for column, cell in enumerate(table.cells[row]):
            yield (row, column), cell


def _nearest(table: PipeTable, places: list[Place], question: str, others: Sequence[str] = ()) -> Place:
    asked = frozenset(plain_words(question))
    keys = frozenset(map(_key, others))

    def order(place: Place) -> tuple[int, int, int, Place]:
        row, column = place
        heads = frozenset(plain_words(table.head(column)))
        beside = len(keys & {_key(cell) for cell in table.cells[row]})
        return -len(asked & _label(table, row)), -beside, -len(asked & heads), place

    return min(places, key=order)


def _label(table: PipeTable, row: int) -> frozenset[str]:
    cells = table.cells[row]
    return frozenset(plain_words(cells[0])) if cells else frozenset()


def _key(text: str) -> str:
    return " ".join(word for word in words(text) if word != "%")


def _is_same(cell: str, key: str) -> bool:
    return _key(cell) == key


def _begins_with(cell: str, key: str) -> bool:
    return is_figure(cell) and _key(cell).split()[:1] == [key]


def _holds(cell: str, key: str) -> bool:
    return f" {key} " in f" {_key(cell)} "


def cells_with(table: PipeTable, row: int, wanted: str) -> list[int]:
    """Return the columns of a row, except its label, whose cells have the figure ``wanted``."""
    key = _key(wanted)
    cells = list(enumerate(table.cells[row]))[1:]
    return [column for column, cell in cells if key and (_is_same(cell, key) or _begins_with(cell, key))]
