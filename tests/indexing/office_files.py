"""Files as office programs and mail programs write them, made with the libraries that the readers use, and by hand."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from datetime import date
from email.message import EmailMessage
from pathlib import Path

import openpyxl
import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook() -> bytes:
    """Two sheets that are seen, Costs and Staff, and a hidden one."""
    book = openpyxl.Workbook()
    costs = book.active
    costs.title = "Costs"
    costs.append(["Line", "Amount", "Share", "Paid"])
    costs.append(["Boat repair", 1204.5, 0.125, date(2024, 3, 1)])
    costs.append(["Rope", -37, None, None])
    for row in (2, 3):
        costs.cell(row, 2).number_format = '#,##0.00 "EUR"'
        costs.cell(row, 3).number_format = "0.0%"
    costs.cell(5000, 20).number_format = "0.0"  # coloured, and empty
    staff = book.create_sheet("Staff")
    staff.append(["Name", "Since"])
    staff.append(["Ines | Calder", 2019])
    hidden = book.create_sheet("Secret")
    hidden.append(["not shown"])
    hidden.sheet_state = "hidden"
    book.properties.title = "Harbour accounts"
    return _saved(book)


def deck() -> bytes:
    """Three slides, the second hidden; the third has a table, a chart and notes."""
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[1])
    first.shapes.title.text = "The Petrel"
    first.placeholders[1].text = "A ferry with 48 seats"
    hidden = deck.slides.add_slide(deck.slide_layouts[5])
    hidden.shapes.title.text = "Backup figures"
    hidden._element.set("show", "0")
    third = deck.slides.add_slide(deck.slide_layouts[5])
    third.shapes.title.text = "Crossings"
    table = third.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for row, words in enumerate((("Year", "Crossings"), ("2023", "1,204"))):
        for column, word in enumerate(words):
            table.cell(row, column).text = word
    data = CategoryChartData()
    data.categories = ["2022", "2023"]
    data.add_series("Passengers", (10500, 11250))
    third.shapes.add_chart(XL_CHART_TYPE.BAR_CLUSTERED, Inches(1), Inches(3), Inches(4), Inches(3), data)
    third.notes_slide.notes_text_frame.text = "The engine was overhauled in May."
    return _saved(deck)


def mail(*attachments: tuple[str, bytes]) -> EmailMessage:
    """A mail with a body in both forms and attachments by name."""
    message = EmailMessage()
    message["From"] = "Ines Calder <ines@example.org>"
    message["To"] = "harbour@example.org"
    message["Date"] = "Fri, 01 Mar 2024 09:30:00 +0100"
    message["Subject"] = "Costs of the Petrel"
    message.set_content("The repair is paid.\n")
    message.add_alternative("<p>The repair is <b>paid</b>.</p>", subtype="html")
    for name, data in attachments:
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return message


def sheet_of(file: Path, rows: Iterable[str], heading: str = "") -> None:
    """An .xlsx whose one sheet has ``rows``, XML, and ``heading``, XML before its root."""
    with (
        zipfile.ZipFile(io.BytesIO(_saved(openpyxl.Workbook()))) as plain,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed,
    ):
        for name in plain.namelist():
            if name != "xl/worksheets/sheet1.xml":
                packed.writestr(name, plain.read(name))
        with packed.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as part:
            part.write(f'{heading}<worksheet xmlns="{_MAIN}"><dimension ref="A1:XFD1048576"/><sheetData>'.encode())
            for row in rows:
                part.write(row.encode())
            part.write(b"</sheetData></worksheet>")


def _saved(document: object) -> bytes:
    out = io.BytesIO()
    document.save(out)  # type: ignore[attr-defined]
    return out.getvalue()
