"""Values of table cells in many notations, with the scale, currency and kind that their tables state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, Section
from okralong.pipelines.statements.amounts import UNKNOWN
from okralong.pipelines.statements.cell_numbers import Separators, printed, separators_of
from okralong.pipelines.statements.dollars import own_dollar
from okralong.pipelines.statements.unit_lines import stated
from okralong.pipelines.statements.units import around_of, cell_value, unit_of

NOTATIONS = Path(__file__).parent / "notations.txt"
"""Tables between lines of "===": title, unit, head of the labels, text around, heads; after "---" the rows. A cell is
followed by the value that it has, its currency, "%", "?" for an unknown scale, and "none" for no value."""
Case = tuple[Table, str, list[tuple[TableRow, TableCell, str]]]


def notations() -> Iterator[Case]:
    for block in NOTATIONS.read_text().strip().split("\n===\n"):
        top, _, body = block.partition("\n---\n")
        said, heads = {"title": "", "unit": "", "stub": "", "around": ""}, [""]
        for line in top.split("\n"):
            name, _, text = line.partition(": ")
            if name in said:
                said[name] = text.replace("\\n", "\n").replace("\\f", "\f")
            else:
                heads = [each.strip() for each in line.split("|")[1:]]
        rows, sections, expected = [], (), []
        for line in body.split("\n"):
            label, *cells = (each.strip() for each in line.split("|"))
            if not cells:
                sections = (label,)
                continue
            parts = [(column, *cell.split(" => ")) for column, cell in enumerate(cells) if cell]
            filled = tuple(TableCell(column, text, 0, 0) for column, text, _ in parts)
            rows.append(TableRow(label, 0, 0, filled, sections))
            expected += [(rows[-1], cell, wanted) for cell, (_, _, wanted) in zip(filled, parts, strict=True)]
        columns = tuple((head,) for head in heads)
        around = said.pop("around")
        yield Table(0, 0, columns, tuple(rows), **said), around, expected


@pytest.mark.parametrize(("table", "around", "cells"), notations(), ids=lambda each: getattr(each, "unit", ""))
def test_every_notation_is_read_or_its_scale_is_unknown(
    table: Table, around: str, cells: list[tuple[TableRow, TableCell, str]]
) -> None:
    for row, cell, wanted in cells:
        found, unit = cell_value(table, row, cell, around), unit_of(table, row, cell, around)
        if wanted == "none":
            assert found is None, row.label
            continue
        assert found is not None, row.label
        assert unit.known == (found.scale != UNKNOWN) == (wanted != "?"), row.label
        if wanted != "?":
            value, _, currency = wanted.partition(" ")
            assert (Decimal(found.value), found.unit == "%") == (Decimal(value.rstrip("%")), value.endswith("%")), row
            assert found.currency == currency, row.label


@pytest.mark.parametrize(
    ("line", "scales"),
    [
        ("(in thousands)", [("thousand", "")]),
        ("in TEUR", [("thousand", "EUR")]),
        ("Mio. EUR", [("million", "EUR")]),
        ("\u20ac m", [("million", "EUR")]),
        ("in Millionen Euro", [("million", "EUR")]),
        ("\u767e\u4e07\u5186", [("million", "JPY")]),
        ("RMB ten thousand", [("ten thousand", "CNY")]),
        ("Rs. Cr.", [("crore", "INR")]),
        ("MUS$", [("unknown", "USD")]),
        ("US dollar bonds", []),
        ("Paper mill", []),
        ("$5 million notes", []),
        ("Section 401(k) plan", []),
        ("File No. 000-17363", []),
    ],
)
def test_unit_lines(line: str, scales: list[tuple[str, str]]) -> None:
    assert list(stated(line).scales) == scales


def test_separators_follow_the_table() -> None:
    for cells, text, value in [
        (["1,5"], "1.234", "1234"),
        (["12.345.678"], "1.234", "1234"),
        (["1.5"], "1.234", "1.234"),
        (["1'234.50"], "1'234", "1234"),
        (["12,34,567"], "1,234", "1234"),
        ([], "1,234", "1234"),
    ]:
        found = printed(text, separators_of(cells))
        assert found is not None, cells
        assert found.digits == Decimal(value)
    assert printed("1.234", separators_of([])) is None  # a thousand in some countries only
    assert printed("1.234", separators_of(["1,5", "1.5"])) is None
    assert printed("1.234", separators_of([], "2.000,5")) is not None


@given(st.text(alphabet="0123456789.,'()-\u2212% $\u20ackmxbn\u2014", max_size=40))
def test_any_cell_has_one_number_or_none(text: str) -> None:
    found = printed(text, Separators())
    assert found is None or any(each.isdigit() for each in text)


@given(
    st.integers(-(10**12), 10**12), st.integers(0, 3), st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", ".")])
)
def test_every_convention_is_read_back(digits: int, places: int, marks: tuple[str, str]) -> None:
    exact = Decimal(digits).scaleb(-places)
    text = f"{exact:,.{places}f}".replace(",", "\0").replace(".", marks[1]).replace("\0", marks[0])
    found = printed(text, Separators(marks[1]))
    assert found is not None
    assert found.digits == exact


def document(*pages: tuple[str, Table | None]) -> Document:
    text, sections, tables = "", [], []
    for number, (page, table) in enumerate(pages, 1):
        sections.append(Section("page", str(number), len(text)))
        text += page + "\n"
        if table is not None:
            tables.append(
                Table(len(text) - 1, len(text), table.heads, table.rows, str(number), table.title, table.unit)
            )
    return Document("report", text, sections=tuple(sections), tables=tuple(tables))


def amounts(*texts: str, unit: str = "") -> Table:
    cells = [TableRow(f"Item {text}", 0, 0, (TableCell(0, text, 0, 0),)) for text in texts]
    return Table(0, 0, (("2023",),), tuple(cells), unit=unit)


def scale_of(report: Document, at: int) -> str:
    assert report.tables is not None
    table = report.tables[at]
    return unit_of(table, table.rows[0], table.rows[0].cells[0], around_of(report, table)).scale


def test_notes_inherit_the_unit_of_their_heading() -> None:
    heading = "Notes to the Consolidated Financial Statements\n(in thousands, except share data)\n1. Basis"
    report = document(("Letter", amounts("5,102")), (heading, None), ("7. Debt", amounts("1,102")))
    assert (scale_of(report, 0), scale_of(report, 1)) == (UNKNOWN, "thousand")


def test_figures_that_another_table_has_decide() -> None:
    stated_in = amounts("45,312", "12,977", unit="(in millions)")
    report = document(
        ("Balance sheet", stated_in), ("Debt", amounts("45,312", "12,977", "301")), ("", amounts("7,315"))
    )
    assert (scale_of(report, 1), scale_of(report, 2)) == ("million", UNKNOWN)


def test_a_document_that_prints_in_full_says_so_by_its_numbers() -> None:
    numbers = " ".join(f"{each},412,977" for each in range(1, 30))
    report = document((numbers, amounts("12,977")))
    assert scale_of(report, 0) == ""
    assert scale_of(document((f"{numbers}\n(in thousands)", None), ("Debt", amounts("12,977"))), 0) == UNKNOWN


COUNTRIES = "Our plants in Canada and Ontario deliver to Toronto. "


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("Amounts are expressed in thousands of Canadian dollars.\n" + COUNTRIES, "CAD"),
        ("(Tabular amounts are in thousands of Canadian dollars)\n" + COUNTRIES, "CAD"),
        ("The statements are presented in Australian dollars.", "AUD"),
        ("The presentation currency of the group is the Hong Kong dollar.", "HKD"),
        ("(Expressed in thousands of United States dollars)\n" + COUNTRIES, "USD"),
        ("FORM 10-K\nWe have loans denominated in Canadian dollars.", "USD"),
        ("The United States market grew. Loans of C$5 million and U.S. notes.", "USD"),
        (COUNTRIES, "unknown"),
        ("Stated in Canadian dollars. Reported in US dollars.", "unknown"),
        ("We grow oats. " * 4000, "unknown"),
        ("We grow oats.", ""),
    ],
)
def test_a_plain_dollar_is_that_of_the_document(text: str, currency: str) -> None:
    assert own_dollar(text) == currency


def test_the_document_tells_the_dollar_of_a_table() -> None:
    page = "Amounts are expressed in thousands of Canadian dollars.\n" + COUNTRIES
    report = document((page, None), ("Rent", amounts("$ 4,120", unit="(in thousands)")))
    assert report.tables is not None
    (table,) = report.tables
    assert unit_of(table, table.rows[0], table.rows[0].cells[0], around_of(report, table)).currency == "CAD"


@pytest.mark.parametrize("piece", ["(", " ", "weighted average ", "per a ", "in thousands of ", "1,000 ", "number of "])
def test_a_label_or_page_built_to_be_slow_is_read_at_once(piece: str) -> None:
    long = piece * (40_000 // len(piece))
    row = TableRow(long, 0, 0, (TableCell(0, "1,102", 0, 0),), (long,))
    report = document((long, Table(0, 0, ((long,),), (row,), title=long, unit=long, stub=long)))
    began = time.process_time()
    scale_of(report, 0)
    assert time.process_time() - began < 3
