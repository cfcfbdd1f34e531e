"""Read FinQA: questions on one page of a filing, each with a program of calculations (Chen et al. 2021).

The set does not say where figures are, so each figure is searched for among the cells of the page's table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, operand_parts
from okralong.lab.datasets.base import Builder, DataSet, Evidence, GoldCell, Item, Text
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, rows_in
from okralong.lab.datasets.gold import program_expression, program_operands
from okralong.lab.datasets.pipe_tables import PipeTable, cells_with, is_figure, table_cells, write_table
from okralong.lab.datasets.places import Pieces, Range

FINQA: Final = "finqa"
PROGRAM: Final = "program"
"""The label of all of FinQA's questions."""
_WHOLE_ROW: Final = re.compile(r"\btable_(?:sum|average|max|min)\(\s*(.+?)\s*,\s*none\s*\)")
_DEBRIS: Final = re.compile(r"(?:\\+n)+$")


def read_finqa(path: Path, part: str) -> DataSet:
    """Read a ``train.json``, ``dev.json`` or ``test.json``: one text per page, whose document is the filing ("V_2008").

    The answers are the written one, which is rounded, and the program's result. Raises InputError naming file, row and
    field.
    """
    made = Builder(FINQA, part)
    for row in rows_in(path):
        page, asked = read_page(row), row.inner("qa")
        answers = finqa_answers(asked, "answer", "exe_ans")
        program = asked.text("program")
        both = replace(row, values={**row.values, "question": asked.text("question")})
        made.items.append(program_item(made, both, "id", _filing(row), page, (asked, "gold_inds"), answers, program))
    return made.built()


def program_item(
    made: Builder,
    row: Row,
    id_field: str,
    document: str,
    page: Page,
    evidence: tuple[Row, str],
    answers: Iterable[str],
    program: str,
) -> Item:
    """Make the item of a question on a page. ``evidence`` is the row and field that name the evidence."""
    text = made.text(document, page.text)
    found, cells = _locate_program(*evidence, page, text, program)
    parts = grounded(operand_parts(program_operands(program)), [page.text])
    gold = made.gold(row, id_field, answers, question_type(FINQA, PROGRAM), PROGRAM, parts)
    calculation = program_expression(program)
    return Item(gold, (text.document,), (text.text_id,), tuple(found), tuple(cells), calculation=calculation)


def finqa_answers(row: Row, written: str, executed: str) -> list[str]:
    """Return the written answer of a row, if there is one, and the program's result."""
    value = row.get(executed, object)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        row.bad(executed, f"is {type(value).__name__}, neither a number nor a text")
    return [each for each in (clean_answer(row.get(written, str)), str(value)) if each]


def clean_answer(answer: str) -> str:
    """Remove the literal line breaks that some files have at the end of an answer."""
    return _DEBRIS.sub("", answer.strip()).strip()


def _filing(row: Row) -> str:
    """Return the filing of a page: "V/2008/page_17.pdf" is one of V_2008."""
    names = row.text("filename").split("/")
    if len(names) != 3:
        row.bad("filename", f"is {row.values['filename']!r}, not of the form TICKER/YEAR/page_N.pdf")
    return f"{names[0]}_{names[1]}"


# --------
# A page of a filing as FinQA and UDA write it: sentences, one table, sentences; and the gold evidence on it.
#
# Of the two tables in the files, ``table`` is used, because ``table_N`` in the gold evidence is a row number in it;
# ``table_ori`` has further rows.


@dataclass(frozen=True, slots=True)
class Page:
    """A page's text, its table, and its sentences by their number in the files (None for one without words)."""

    text: str
    sentences: tuple[Range | None, ...]
    table: PipeTable


def read_page(row: Row) -> Page:
    """Read the page in the fields pre_text, table and post_text. Raises InputError naming the bad field.

    Each sentence is written on a line of its own. Sentences without any letter or digit (dots of a chart) are left out.
    """
    pieces = Pieces()
    before, after, cells = row.texts("pre_text"), row.texts("post_text"), table_cells(row)
    above = _write(pieces, before)
    if above:
        pieces.add("", "\n")
    table = write_table(pieces, cells)
    below = _write(pieces, after)
    return Page(pieces.text, (*above, *below), table)


def _locate_program(
    row: Row, field: str, page: Page, text: Text, program: str
) -> tuple[list[Evidence], list[GoldCell]]:
    """Locate the evidence and the cells that a program uses.

    The row's field names the evidence as ``text_N`` and ``table_N``. The cells are those in these table rows that have
    a number of the program, and all figures of a row that the program uses as a whole (``table_average(net sales,
    none)``). Raises InputError for a name that the page does not have.
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


def _write(pieces: Pieces, sentences: Iterable[str]) -> list[Range | None]:
    return [pieces.add(each, "\n") if any(map(str.isalnum, each)) else None for each in sentences]


def _used(table: PipeTable, row: int, operands: Sequence[str], whole: frozenset[str]) -> int:
    cells = table.cells[row]
    if cells and cells[0].strip().casefold() in whole:
        return sum(is_figure(cell) for cell in cells[1:])
    return len({column for operand in operands for column in cells_with(table, row, operand)})
