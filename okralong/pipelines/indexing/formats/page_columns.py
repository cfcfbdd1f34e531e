"""Columns of a page's table: amounts whose digits overlap, without the numbers of notes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.indexing.formats.page_lines import Piece

MOST_COLUMNS: Final = 40
"""Columns of a table; more are no table of a report. # project default"""


@dataclass(slots=True)
class Column:
    """The extent of a column: its digits from ``x0`` to ``x1``, with signs and brackets from ``left`` to ``right``."""

    x0: float
    x1: float
    left: float
    right: float

    @property
    def middle(self) -> float:
        """The middle between its left and right edges."""
        return (self.left + self.x1) / 2

    def add(self, cell: Piece) -> None:
        """Widen the column by a cell."""
        self.x0, self.x1 = min(self.x0, cell.x0), max(self.x1, cell.x1)
        self.left, self.right = min(self.left, cell.left), max(self.right, cell.right)


def columns_of(rows: Sequence[Sequence[Piece]]) -> list[Column]:
    """Return the columns of rows, at most one more than are allowed: cells that overlap.

    Numbers come first, the wide ones before the narrow ones: two digits of a column need not overlap, but both overlap
    its wide numbers. What stands for a number need only be near a column that is empty in its rows. Words make a column
    where they overlap no other.
    """
    placed = [(row, cell) for row, cells in enumerate(rows) for cell in cells]
    placed.sort(key=lambda each: each[1].x0 - each[1].x1)
    columns: list[Column] = []
    taken: list[set[int]] = []
    for row, cell in placed:
        if not cell.amount or not _has_digit(cell):
            continue
        place = _best(columns, cell.x0, cell.x1)
        if place is None or overlap(cell, columns[place]) <= 0.3 * (cell.x1 - cell.x0):
            place = len(columns)
            columns.append(Column(cell.x0, cell.x1, cell.left, cell.right))
            taken.append(set())
            if len(columns) > MOST_COLUMNS:
                return columns
        columns[place].add(cell)
        taken[place].add(row)
    groups: list[tuple[Column, set[int], bool]] = []
    for row, cell in placed:
        if cell.amount and _has_digit(cell):
            continue
        for column, rows_of, amounts in groups:
            if amounts == cell.amount and overlap(cell, column) > 0:
                column.add(cell)
                rows_of.add(row)
                break
        else:
            if len(groups) > MOST_COLUMNS:
                return [*columns, *(column for column, _, _ in groups)]
            groups.append((Column(cell.x0, cell.x1, cell.left, cell.right), {row}, cell.amount))
    least = len(columns)
    for group, rows_of, amounts in groups:
        height = 1.5 * placed[0][1].words[0].height
        place = _best(columns[:least], group.x0, group.x1)
        near = place is not None and _shared(group, columns[place]) > (-height if amounts else 0.0)
        apart = place is None or not near or (amounts and bool(taken[place] & rows_of))
        if apart and (amounts or len(rows_of) > 1):
            columns.append(group)
            taken.append(rows_of)
    return _merged(columns, taken)


def _merged(columns: list[Column], rows_of: list[set[int]]) -> list[Column]:
    """Return the columns from left to right; those that overlap with their signs and share no row are one."""
    merged: list[tuple[Column, set[int]]] = []
    for column, rows in sorted(zip(columns, rows_of, strict=True), key=lambda each: each[0].x0):
        last, taken = merged[-1] if merged else (None, set())
        if last is not None and column.left < last.right and not taken & rows:
            last.x0, last.x1 = min(last.x0, column.x0), max(last.x1, column.x1)
            last.left, last.right = min(last.left, column.left), max(last.right, column.right)
            taken |= rows
        else:
            merged.append((column, set(rows)))
    return [column for column, _ in merged]


def _has_digit(cell: Piece) -> bool:
    return any(char.isdigit() for char in cell.text)


def _best(columns: Sequence[Column], x0: float, x1: float) -> int | None:
    """Return the column that shares most with an extent, or is closest to it."""
    shared = [min(x1, column.x1) - max(x0, column.x0) for column in columns]
    return max(range(len(columns)), key=shared.__getitem__) if columns else None


def _shared(one: Column, other: Column) -> float:
    return min(one.x1, other.x1) - max(one.x0, other.x0)


def overlap(cell: Piece, column: Column) -> float:
    """Return by how much a cell and a column overlap, less than 0 if they are apart."""
    return min(cell.x1, column.x1) - max(cell.x0, column.x0)


def same_columns(columns: Sequence[Column], others: Sequence[Column]) -> bool:
    """Return whether each column is in line with one of the others."""
    return all(any(min(column.x1, other.x1) > max(column.x0, other.x0) for other in others) for column in columns)


# Numbers of notes.

NOTE_HEAD: Final = re.compile(r"(?:foot)?notes?(?: (?:no|ref|number)s?\.?)?|refs?\.?", re.IGNORECASE)
_NOTE_NUMBER: Final = r"\d{1,2}(?:[.(]?[a-z0-9]{1,3}\)?){0,3}"
_NOTE_REFERENCE: Final = re.compile(
    rf"(?:[A-Z]{{1,2}}\d{{0,2}}|{_NOTE_NUMBER})(?:(?:,| ?&| and|,? ?[-\u2013]) ?{_NOTE_NUMBER}){{0,4}}"
)


def without_notes(
    columns: list[Column], cells_of: dict[int, list[Piece]], notes: Sequence[Piece]
) -> tuple[list[Column], dict[int, list[Piece]]]:
    """Return columns and cells without the numbers of notes."""
    if not notes:
        return columns, cells_of
    numbers = {piece for cells in cells_of.values() for piece in cells if is_note_reference(piece, notes)}
    kept = [
        column
        for column in columns
        if any(overlap(cell, column) > 0 for cells in cells_of.values() for cell in cells if cell not in numbers)
        or not any(overlap(cell, column) > 0 for cell in numbers)
    ]
    if len(kept) == len(columns):
        return columns, cells_of
    return kept, {index: [cell for cell in cells if cell not in numbers] for index, cells in cells_of.items()}


def is_note(levels: Sequence[str]) -> bool:
    """Return whether the heads of a column say that it has the numbers of notes."""
    return any(NOTE_HEAD.fullmatch(level) for level in levels)


def is_note_reference(piece: Piece, notes: Sequence[Piece]) -> bool:
    """Return whether a piece is the number of a note, below the head "Note"."""
    width = piece.words[0].height
    return any(
        note.left - 1.5 * width < piece.middle < note.right + 1.5 * width and _NOTE_REFERENCE.fullmatch(piece.text)
        for note in notes
    )
