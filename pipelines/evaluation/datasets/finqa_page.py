"""A page of a filing as FinQA and UDA write it: sentences, one table, sentences; and the gold evidence on it.

Of the two tables in the files, ``table`` is taken: its rows are those that ``table_N`` of the gold evidence counts, and
its words are prepared as the sentences are. (``table_ori`` keeps rows that ``table`` leaves out.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.evaluation.datasets.cell_search import cells_with
from okralong.pipelines.evaluation.datasets.fields import Row, texts_of
from okralong.pipelines.evaluation.datasets.pieces import Pieces, Range
from okralong.pipelines.evaluation.datasets.pipe_table import PipeTable, is_figure, write_table
from okralong.pipelines.evaluation.datasets.values import Evidence, GoldCell, Text
from okralong.pipelines.evaluation.operands import program_operands

_WHOLE_ROW: Final = re.compile(r"\btable_(?:sum|average|max|min)\(\s*(.+?)\s*,\s*none\s*\)")
_DEBRIS: Final = re.compile(r"(?:\\+n)+$")


@dataclass(frozen=True, slots=True)
class Page:
    """The page's text; ``sentences`` by their number in the files (None for one without a word), and the table."""

    text: str
    sentences: tuple[Range | None, ...]
    table: PipeTable


def read_page(row: Row) -> Page:
    """The page of the fields pre_text, table and post_text. Raises InputError naming the field that is not right.

    Sentences stand one a line; those without any letter or digit (dots of a chart) are left out.
    """
    pieces = Pieces()
    before, after = (texts_of(row, field, row.get(field, list)) for field in ("pre_text", "post_text"))
    cells = []
    for line in row.get("table", list):
        if not isinstance(line, list):
            row.bad("table", f"holds {type(line).__name__} where a row of cells is expected")
        cells.append(texts_of(row, "table", line))
    if not cells:
        row.bad("table", "has no rows")
    above = _write(pieces, before)
    if above:
        pieces.add("", "\n")
    table = write_table(pieces, cells)
    below = _write(pieces, after)
    return Page(pieces.text, (*above, *below), table)


def locate(row: Row, field: str, page: Page, text: Text, program: str) -> tuple[list[Evidence], list[GoldCell]]:
    """The pieces of evidence that the row's field names as ``text_N`` and ``table_N``, and the cells used.

    Used are the cells of these table rows that hold a number of the program, and all figures of a row that the program
    takes as a whole (``table_average(net sales, none)``). Raises InputError for a name that the page does not have.
    """
    evidence, cells = [], []
    operands = program_operands(program)
    whole = frozenset(match.casefold() for match in _WHOLE_ROW.findall(program))
    for name in row.get(field, dict):
        kind, _, number = str(name).partition("_")
        places: Sequence[Range | None] = {"text": page.sentences, "table": page.table.rows}.get(kind, ())
        if not number.isdecimal() or int(number) >= len(places):
            row.bad(field, f"names {name!r}, which the page does not have")
        place = places[int(number)]
        if place is None:
            continue
        evidence.append(Evidence(text.text_id, *place))
        if kind == "table":
            used = _used(page.table, int(number), operands, whole)
            cells += [GoldCell(text.text_id, place, page.table.header)] * used
    return evidence, cells


def clean_answer(answer: str) -> str:
    """A written answer without the line breaks that some of the files spell out at its end."""
    return _DEBRIS.sub("", answer.strip()).strip()


def _write(pieces: Pieces, sentences: Iterable[str]) -> list[Range | None]:
    return [pieces.add(each, "\n") if any(map(str.isalnum, each)) else None for each in sentences]


def _used(table: PipeTable, row: int, operands: Sequence[str], whole: frozenset[str]) -> int:
    cells = table.cells[row]
    if cells and cells[0].strip().casefold() in whole:
        return sum(is_figure(cell) for cell in cells[1:])
    return len({column for operand in operands for column in cells_with(table, row, operand)})
