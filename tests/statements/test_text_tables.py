"""The tables in texts: heads, labels, sections, units, titles and exact positions, in every notation."""

from __future__ import annotations

import pytest

from okralong.pipelines.statements.text_tables import read_text_tables
from tests.statements import test_columns as shapes

JUNE, SEPTEMBER = "ended June 30,", "ended September 30,"


@pytest.mark.parametrize(
    ("text", "unit", "heads"),
    [
        (shapes.QUARTERS, "$ millions", [("Q1 2024",), ("Q2 2024",), ("Q3 2024",)]),
        (
            shapes.SIX_MONTHS,
            "(in millions)",
            [(f"{span} Months Ended June 30,", year) for span in ("Three", "Six") for year in ("2024", "2023")],
        ),
        (
            shapes.NINE_MONTHS,
            "(in millions)",
            [(f"{span} months {SEPTEMBER}", year) for span in ("Three", "Nine") for year in ("2024", "2023")],
        ),
        (
            shapes.MERGED,
            "(in millions)",
            [(f"{span} months {SEPTEMBER}", year) for span in ("Three", "Nine") for year in ("2024", "2023")],
        ),
        (shapes.WHOLE, "in millions", [(f"{span} months {JUNE} 2024",) for span in ("Three", "Six")]),
        (shapes.DAYS, "In millions", [("June 30, 2024",), ("March 31, 2024",)]),
        (
            shapes.RETAIL,
            "In millions",
            [
                (f"{weeks} Weeks Ended", f"October {day},", year)
                for weeks in ("13", "39")
                for day, year in (("28", "2023"), ("29", "2022"))
            ],
        ),
        (
            shapes.TITLED,
            "(in millions)",
            [("For the three months ended March 31,", year) for year in ("2024", "2023")],
        ),
        (shapes.THIRD, "(in millions)", [("Third quarter of", year) for year in ("2024", "2023")]),
        (shapes.NO_SPANS, "In millions", [("2024",), ("2023",), ("2024",), ("2023",)]),
    ],
)
def test_heads_in_every_notation(text: str, unit: str, heads: list[tuple[str, ...]]) -> None:
    (table,) = read_text_tables(text)
    assert (table.unit, list(table.heads)) == (unit, heads)
    (row,) = table.rows
    assert row.label == "Net sales"
    assert [cell.column for cell in row.cells] == list(range(len(heads)))
    for cell in row.cells:
        assert text[cell.start : cell.end] == cell.text
