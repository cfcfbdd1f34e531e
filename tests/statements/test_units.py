"""Values of table cells with the scale, currency and kind that their table states."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.statements.units import cell_value, unit_of


def table_of(text: str, unit: str = "", title: str = "") -> Table:
    """Build a table from lines of cells with bars; the first lines, up to an empty one, are its heads.

    A line without bars is the heading of the rows below it.
    """
    top, _, body = text.strip("\n").partition("\n\n")
    lines = [[cell.strip() for cell in line.split("|")] for line in top.split("\n")]
    heads = tuple(tuple(filter(None, each)) for each in zip(*(line[1:] for line in lines), strict=True))
    rows, sections = [], ()
    for line in body.split("\n"):
        label, *cells = (cell.strip() for cell in line.split("|"))
        if not cells:
            sections = (label,)
        filled = tuple(TableCell(column, cell, 0, 0) for column, cell in enumerate(cells) if cell)
        rows.append(TableRow(label, 0, 0, filled, sections))
    return Table(0, 0, heads, tuple(rows), unit=unit, title=title, stub=lines[-1][0])


INCOME = table_of(
    """
    | Year ended | Year ended | Change
    | 2023 | 2022 |

    Net sales | $ 10,135 | 9,000 | 12.6
    Net loss | (234) | n.m. |
    Gross margin % | 35.1 | |
    Employees | 1,200 | |
    Earnings per share
    Basic | 1.20 | |
    Weighted average shares
    Basic | 100,200 | |
    """,
    "(in thousands, except per share data)",
)


@pytest.mark.parametrize(
    ("label", "column", "value", "scale", "currency", "kind"),
    [
        ("Net sales", 0, "10135000", "thousand", "USD", "money"),
        ("Net sales", 1, "9000000", "thousand", "USD", ""),
        ("Net sales", 2, "12.6", "", "", "percent"),
        ("Net loss", 0, "-234000", "thousand", "USD", ""),
        ("Gross margin %", 0, "35.1", "", "", "percent"),
        ("Employees", 0, "1200", "", "", "count"),
    ],
)
def test_a_table(label: str, column: int, value: str, scale: str, currency: str, kind: str) -> None:
    row = next(row for row in INCOME.rows if row.label == label)
    cell = row.cell(column)
    assert cell is not None
    unit, found = unit_of(INCOME, row, cell), cell_value(INCOME, row, cell)
    assert found is not None
    assert (found.value, unit.scale, unit.currency, unit.kind, unit.known) == (value, scale, currency, kind, True)
    assert (found.scale, found.currency) == (scale, currency)


def test_the_comma_of_a_date_nearby_is_no_decimal_separator() -> None:
    table = table_of("| 2022\n\nTotal assets | 171,142", "(in thousands)")
    (row,) = table.rows
    around = "Consolidated statements as of December 31, 2022 2021 2020 and 2019, with $116, 1 and 7 of others"
    value = cell_value(table, row, row.cells[0], around)
    assert value is not None
    assert value.value == "171142000"
