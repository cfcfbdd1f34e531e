"""The tables of files as real ones look: the text that a parser writes, read into cells below their heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import docx
import openpyxl
import pptx
from pptx.util import Inches

from okralong.pipelines.core.tables import Table
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats.html import read_html
from okralong.pipelines.indexing.formats.powerpoint import read_pptx
from okralong.pipelines.indexing.formats.sheets import read_csv, read_xlsx
from okralong.pipelines.indexing.formats.word import read_docx
from okralong.pipelines.statements.text_tables import read_text_tables
from tests.statements.test_text_tables import check_places, shown


def tables(path: Path, read: Callable[[Source], Iterator[ParserOutput]]) -> list[Table]:
    (found,) = read(Source(str(path), path.name))
    assert not isinstance(found, DocumentError)
    assert isinstance(found, RawDocument)
    out = list(found.tables if found.tables is not None else read_text_tables(found.text, found.sections))
    for table in out:
        check_places(found.text, table)
    return out


def row(label: str, *values: str, sign: str = "") -> str:
    """Write a row as filers do: a spacer, the sign, the figure with its left bracket, and the right one."""
    cells = "".join(
        f"<td>&#160;</td><td>{sign or '&#160;'}</td><td style='text-align:right'>{value.rstrip(')')}</td>"
        f"<td>{')' if value.endswith(')') else '&#160;'}</td>"
        for value in values
    )
    return f"<tr><td>{label}</td>{cells}</tr>"


FILING = f"""<html><body><p><b>TRESSLE BRIDGES INC.</b></p><p><b>CONSOLIDATED STATEMENTS OF OPERATIONS</b></p>
<p>(In thousands, except per share amounts)</p><p>(Unaudited)</p>
<table><tr style="height:1px"><td></td>{"<td></td>" * 16}</tr>
<tr><td></td><td>&#160;</td><td colspan="7">Three Months Ended<br/>June 30,</td><td>&#160;</td>
<td colspan="7">Six Months Ended<br/>June 30,</td></tr>
<tr><td></td>{"".join(f"<td>&#160;</td><td colspan='3'>{year}</td>" for year in (2024, 2023, 2024, 2023))}</tr>
<tr><td>Revenue:</td>{"<td></td>" * 16}</tr>
{row("Product", "1,204", "1,100", "2,400", "2,200", sign="$")}{row("Service", "300", "290", "610", "580")}
{row("Total revenue", "1,504", "1,390", "3,010", "2,780")}{row("Operating loss", "(12)", "(15)", "(30)", "&#8212;")}
{row("Net loss per share", "(0.04)", "(0.05)", "(0.11)", "&#8212;", sign="$")}</table>
<p>See accompanying notes to these statements, which are part of them.</p>
<table><tr><td rowspan="2"></td><td rowspan="2">Note</td><td colspan="2">2023</td><td rowspan="2">Change</td></tr>
<tr><td>EUR million</td><td>%</td></tr><tr><td>Sales</td><td>4</td><td>500</td><td>100.0</td><td>+3.1%</td></tr>
<tr><td>Cost</td><td>5</td><td>-320</td><td>64.0</td><td>-1.0%</td></tr></table>
<p>As of December 31, 2023 (in millions):</p><table><tr><td></td><td colspan="2">Cost</td>
<td colspan="2">Fair Value</td></tr><tr><td>Level 1</td><td>$</td><td>5</td><td>$</td><td>6</td></tr>
<tr><td>Level 2</td><td></td><td>7</td><td></td><td>8</td></tr></table></body></html>"""


def test_statements_of_web_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.htm"
    path.write_text(FILING)
    statement, notes, values = tables(path, read_html)
    assert (statement.title, statement.unit) == (
        "CONSOLIDATED STATEMENTS OF OPERATIONS",
        "(In thousands, except per share amounts)",
    )
    assert shown(statement) == [
        " | ".join(f"{span} Months Ended June 30,/{year}" for span in ("Three", "Six") for year in (2024, 2023)),
        "Revenue: / Product | $ 1,204 | $ 1,100 | $ 2,400 | $ 2,200",
        "Revenue: / Service | 300 | 290 | 610 | 580",
        "Revenue: / Total revenue | 1,504 | 1,390 | 3,010 | 2,780",
        "Operating loss | (12) | (15) | (30) | \u2014",
        "Net loss per share | $ (0.04) | $ (0.05) | $ (0.11) | $ \u2014",
    ]
    assert shown(notes) == [
        "Note | 2023/EUR million | 2023/% | Change",
        "Sales | 4 | 500 | 100.0 | +3.1%",
        "Cost | 5 | -320 | 64.0 | -1.0%",
    ]
    assert (values.title, values.unit) == ("As of December 31, 2023 (in millions):", "(in millions)")
    assert shown(values) == ["Cost | Fair Value", "Level 1 | $ 5 | $ 6", "Level 2 | 7 | 8"]


def test_several_tables_of_a_sheet(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Income"
    rows: list[tuple[object, ...]] = [
        ("Tressle plc: income statement (EUR thousand)",),
        (),
        (None, "Six months ended 30 June", None, "Year ended 31 December"),
        (None, 2024, 2023, 2023, 2022),
        ("Revenue",),
        ("Product", 1204, 1100, 2200, 2100),
        ("Total revenue", 1204, 1100, 2200, 2100),
        ("Operating loss", -12, -15, -30),
        (),
        ("Employees by country",),
        (None, 2023, 2022),
        ("Germany", 100, 90),
    ]
    for line in rows:
        sheet.append(line)
    sheet.merge_cells("A1:E1")
    sheet.merge_cells("B3:C3")
    sheet.merge_cells("D3:E3")
    for cells in sheet["B6:E8"]:
        for cell in cells:
            cell.number_format = "#,##0;(#,##0)"
    side = book.create_sheet("Side")
    for line in [
        ("Assets", None, None, None, "Debts"),
        (None, 2023, 2022, None, None, 2023, 2022),
        ("Cash", 5, 6, None, "Loans", 50, 60),
        ("Land", 7, 8, None, "Leases", 9, 10),
    ]:
        side.append(line)
    book.save(tmp_path / "a.xlsx")
    income, employees, assets, debts = tables(tmp_path / "a.xlsx", read_xlsx)
    assert (income.title, income.unit, income.page) == (rows[0][0], "(EUR thousand)", "Income")
    assert shown(income) == [
        "Six months ended 30 June/2024 | Six months ended 30 June/2023 | "
        "Year ended 31 December/2023 | Year ended 31 December/2022",
        "Revenue / Product | 1,204 | 1,100 | 2,200 | 2,100",
        "Revenue / Total revenue | 1,204 | 1,100 | 2,200 | 2,100",
        "Operating loss | (12) | (15) | (30) | ",
    ]
    assert (employees.title, employees.unit, shown(employees)) == (
        "Employees by country",
        "",
        ["2023 | 2022", "Germany | 100 | 90"],
    )
    assert (assets.title, assets.page, shown(assets)) == (
        "Assets",
        "Side",
        ["2023 | 2022", "Cash | 5 | 6", "Land | 7 | 8"],
    )
    assert (debts.title, shown(debts)) == ("Debts", ["2023 | 2022", "Loans | 50 | 60", "Leases | 9 | 10"])


def test_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('Balance sheet,,\n(in thousands),,\n,2023,2022\nAssets,,\nCash,"1,204","1,100"\nLand,"5,000",\n')
    (table,) = tables(path, read_csv)
    assert (table.title, table.unit) == ("Balance sheet", "(in thousands)")
    assert shown(table) == ["2023 | 2022", "Assets / Cash | 1,204 | 1,100", "Assets / Land | 5,000 | "]
    path.write_text("country;year;revenue;currency\nGermany;2023;5.204,5;EUR\nFrance;2023;400,1;EUR\n")
    (table,) = tables(path, read_csv)
    assert (table.stub, shown(table)[1]) == ("country", "Germany | 2023 | 5.204,5 | EUR")


def test_merged_heads_of_documents_and_slides(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Borrowings (EUR million)")
    grid = document.add_table(rows=4, cols=5)
    grid.cell(0, 1).merge(grid.cell(0, 2)).text = "31 December 2023"
    grid.cell(0, 3).merge(grid.cell(0, 4)).text = "31 December 2022"
    for number, line in enumerate(
        [
            ("", *("Current", "Non-current") * 2),
            ("Bank loans", "10", "90", "12", "100"),
            ("Bonds", "\u2013", "4", "", "5"),
        ],
        start=1,
    ):
        for column, text in enumerate(line):
            grid.cell(number, column).text = text
    document.save(str(tmp_path / "a.docx"))
    (table,) = tables(tmp_path / "a.docx", read_docx)
    assert (table.title, table.unit) == ("Borrowings (EUR million)", "(EUR million)")
    assert shown(table) == [
        " | ".join(f"31 December {year}/{kind}" for year in (2023, 2022) for kind in ("Current", "Non-current")),
        "Bank loans | 10 | 90 | 12 | 100",
        "Bonds | \u2013 | 4 |  | 5",
    ]
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[5])
    slide.shapes.title.text = "Key figures (USD million)"
    cells = slide.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(6), Inches(2)).table
    for number, line in enumerate(
        [("", "Q2 2024", "Q2 2023"), ("Revenue", "120", "100"), ("Margin", "12.5%", "11.0%")]
    ):
        for column, text in enumerate(line):
            cells.cell(number, column).text = text
    slides.save(str(tmp_path / "a.pptx"))
    (table,) = tables(tmp_path / "a.pptx", read_pptx)
    assert (table.title, table.unit, table.page) == ("Key figures (USD million)", "(USD million)", "1")
    assert shown(table) == ["Q2 2024 | Q2 2023", "Revenue | 120 | 100", "Margin | 12.5% | 11.0%"]
