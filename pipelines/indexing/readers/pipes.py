"""Rows of cells as lines that a person, a language model and the table finder all read as a table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

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
