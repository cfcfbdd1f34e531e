"""A filing's table written as pipe rows, of which it is known where each stands and which of them are column heads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.evaluation.datasets.pieces import Pieces, Range

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_UNITS: Final = frozenset({"million", "billion", "thousand", "m", "bn", "k", "x", "bp", "bps", "us", "usd", "cents"})
_PERIOD: Final = re.compile(r"\W*(?:19|20)\d\d(?:\s*[-\N{EN DASH}/]\s*(?:\d\d)?\d\d)?\W*(?:\(\d\))?|\d+/\d+(?:/\d+)?")


@dataclass(frozen=True, slots=True)
class PipeTable:
    """``cells`` as given and the range of each row in the text; the first ``heads`` rows are column heads.

    A table without heads has 0 of them, and its first row stands in their place in ``header``.
    """

    cells: tuple[tuple[str, ...], ...]
    rows: tuple[Range, ...]
    heads: int

    @property
    def header(self) -> Range:
        """The range of the column heads."""
        return self.rows[0][0], self.rows[max(self.heads, 1) - 1][1]

    def head(self, column: int) -> str:
        """The words above a column, of all its head rows."""
        return " ".join(row[column] for row in self.cells[: self.heads] if column < len(row))


def write_table(pieces: Pieces, cells: Sequence[Sequence[str]]) -> PipeTable:
    """Write each row as ``| a | b |`` on a line of its own, and a blank line after the last.

    Breaks inside a cell become blanks and pipes become slashes, so that a row stays a row.
    """
    rows = []
    for number, row in enumerate(cells, start=1):
        shown = " | ".join(" ".join(cell.split()).replace("|", "/") for cell in row)
        rows.append(pieces.add(f"| {shown} |", "\n\n" if number == len(cells) else "\n"))
    return PipeTable(tuple(tuple(row) for row in cells), tuple(rows), count_heads(cells))


def count_heads(cells: Sequence[Sequence[str]]) -> int:
    """How many rows come before the first one with a figure in another column than the first.

    The titles of a first section ("Assets", nothing beside it) are no heads where heads stand above them. A table
    without any figure has one head row.
    """
    first = next((number for number, row in enumerate(cells) if any(is_figure(cell) for cell in row[1:])), None)
    if first is None:
        return min(1, len(cells))
    while first > 1 and not any(cell.strip() for cell in cells[first - 1][1:]):
        first -= 1
    return first


def is_figure(cell: str) -> bool:
    """Whether a cell is a figure: it has digits, no words other than units, and is no year or date."""
    if not any(char.isdigit() for char in cell) or _PERIOD.fullmatch(cell.strip()):
        return False
    return all(word.lower() in _UNITS for word in _LETTERS.findall(cell))
