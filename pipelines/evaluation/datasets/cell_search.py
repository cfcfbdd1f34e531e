"""Which cell of a table an answer or an operand was taken from.

The sets that ask about tables write down figures and not places. A figure is looked for among the cells; where it
stands in several, the question decides: the row whose label shares most words with it, then the row that holds most of
the other figures that are looked for, then the column whose heads share most words, then the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from okralong.pipelines.evaluation.datasets.pipe_table import PipeTable, is_figure
from okralong.pipelines.evaluation.recall import words
from okralong.pipelines.reporting.metrics import plain_words

Place = tuple[int, int]
"""Row and column of a cell, from 0."""


def find_cell(table: PipeTable, wanted: str, question: str, others: Sequence[str] = ()) -> Place | None:
    """The cell below the heads that holds ``wanted``; None when there is none.

    Cells are compared by their words and numbers, without currency, percent and minus signs. A cell with the very same
    words comes before a figure with a note behind it, that before a longer cell that holds the words.
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
    """The cell of the column heads that is or holds ``wanted``."""
    key = _key(wanted)
    places = [
        (row, column)
        for row, cells in enumerate(table.cells[: table.heads])
        for column, cell in enumerate(cells)
        if key and _holds(cell, key)
    ]
    return places[0] if places else None


def cell_below(table: PipeTable, column: int, question: str) -> Place | None:
    """The figure of a column in the row whose label shares most words with the question; None when none shares any."""
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
    """The columns of a row, its label apart, in which a figure stands."""
    key = _key(wanted)
    cells = list(enumerate(table.cells[row]))[1:]
    return [column for column, cell in cells if key and (_is_same(cell, key) or _begins_with(cell, key))]
