"""Tables of real PDFs: cells below their heads, with label, unit, page and place, also on pages made to mislead."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import NOT_READ
from okralong.pipelines.indexing.documents import RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import NO_OCR, Ocr
from okralong.pipelines.indexing.formats.page_lines import PageTable, Word
from okralong.pipelines.indexing.formats.pdf import read_pdf
from okralong.pipelines.indexing.formats.tables_of_pages import PageTables, TableReader, document_tables
from okralong.pipelines.indexing.formats.time_limit import TooSlow, processor_time
from tests.indexing.growth import LINEAR, growth
from tests.indexing.pdf_files import RawPdf

SIZE = 10
WIDTHS = dict.fromkeys("0123456789$", 0.556) | dict.fromkeys(",.", 0.278) | dict.fromkeys("()-", 0.333) | {"%": 0.889}
"""Of Helvetica, as shares of its size."""
ROWS = (
    ("Net sales", "34,229", "35,355"),
    ("Cost of sales", "(21,004)", "(22,871)"),
    ("Gross profit", "13,225", "12,484"),
    ("Net income", "3,107", "2,942"),
)
HEADS = ("2023", "2022")
TITLE, UNIT = "Consolidated Statements of Income", "(in thousands)"
COLUMNS = (380, 460)


def put(text: str, x: float, y: float, size: float = SIZE) -> str:
    """Return the operators that show a text from ``x``."""
    said = text.replace("(", r"\(").replace(")", r"\)")
    return f"BT /F1 {size} Tf 1 0 0 1 {x:.2f} {y:.2f} Tm ({said}) Tj ET\n"


def ending(text: str, x: float, y: float) -> str:
    """Return the operators that show a number up to ``x``; brackets and percent signs stand beyond."""
    digits = text.rstrip(")%")
    return put(text, x - SIZE * sum(WIDTHS[char] for char in digits), y)


def statement(
    rows: Sequence[Sequence[str]] = ROWS,
    heads: Sequence[str] = HEADS,
    title: str = TITLE,
    unit: str = UNIT,
    x: float = 72,
    y: float = 720,
    columns: Sequence[float] = COLUMNS,
) -> str:
    """Return the operators of a table with a rule below each head."""
    content = put(title, x, y) if title else ""
    content += put(unit, x, y - 14) if unit else ""
    for head, right in zip(heads, columns, strict=False):
        content += ending(head, right, y - 34) + f"{right - 50} {y - 38} 50 0.5 re f\n"
    for number, (label, *cells) in enumerate(rows):
        at = y - 54 - 14 * number
        content += put(label, x, at)
        for cell, right in zip(cells, columns, strict=True):
            content += ending(cell, right, at) if cell else ""
    return content


def pdf_of(*pages: str, more: str = "") -> RawPdf:
    """Return a PDF with these pages."""
    pdf = RawPdf()
    for page in pages:
        pdf.page(page, more=more)
    return pdf


def read(tmp_path: Path, pdf: RawPdf, ocr: Ocr = NO_OCR) -> RawDocument:
    """Read a PDF, and check that each cell is in the text where it says, on the page of its table or after it."""
    file = tmp_path / "a.pdf"
    file.write_bytes(pdf.write())
    (found,) = read_pdf(Source(str(file), "a"), ocr)
    assert isinstance(found, RawDocument)
    assert found.tables is not None
    starts = {section.name: section.start_char for section in found.sections}
    ends = dict(zip(starts, [*list(starts.values())[1:], len(found.text)], strict=True))
    for table in found.tables:
        assert starts[table.page] <= table.start < table.end <= ends[table.page]
        for row, cell in table.values():
            assert found.text[cell.start : cell.end] == cell.text
            assert row.start <= cell.start < cell.end <= row.end
    return found


Shown = tuple[str, str, str, tuple[tuple[str, ...], ...], list[tuple[str, ...]]]


def shown(table: Table) -> Shown:
    """Return page, title, unit, heads, and the rows as label and cells; "" for an empty one."""
    rows = [
        (row.label, *(cell.text if (cell := row.cell(at)) else "" for at in range(len(table.heads))))
        for row in table.rows
    ]
    return table.page, table.title, table.unit, table.heads, rows


PLAIN: Shown = ("1", TITLE, UNIT, (("2023",), ("2022",)), [*ROWS])


def tables(found: RawDocument) -> list[Shown]:
    """Return the tables of a document as ``shown``."""
    return [shown(table) for table in found.tables or ()]


@pytest.mark.documented(".pdf", "tables")
def test_cells_have_their_label_heads_unit_and_page(tmp_path: Path) -> None:
    found = read(tmp_path, pdf_of(put("The year was a good one.", 72, 720), statement()))
    assert tables(found) == [("2", *PLAIN[1:])]


def test_a_document_without_tables_has_none(tmp_path: Path) -> None:
    assert read(tmp_path, pdf_of(put("In 2023 we sold 12 boats.", 72, 720))).tables == ()


# Pages made to mislead.


def test_shading_is_no_rule(tmp_path: Path) -> None:
    shading = "".join(f"0.9 g 72 {720 - 57 - 28 * row} 400 13 re f 0 g\n" for row in range(2))
    shading += "0.8 g 72 680 400 20 re f 0 g\n"
    assert tables(read(tmp_path, pdf_of(shading + statement()))) == [PLAIN]


@pytest.mark.documented(".pdf", "tables on turned pages")
@pytest.mark.parametrize(
    ("rotate", "matrix"), [(90, "0 1 -1 0 612 0"), (180, "-1 0 0 -1 612 792"), (270, "0 -1 1 0 0 792")]
)
def test_turned_pages(tmp_path: Path, rotate: int, matrix: str) -> None:
    content = f"q {matrix} cm\n{statement(y=560)}Q\n"
    assert tables(read(tmp_path, pdf_of(content, more=f"/Rotate {rotate}"))) == [PLAIN]
    assert tables(read(tmp_path, pdf_of(content))) == [PLAIN]


PROSE = (
    "The harbour reopened in spring and the",
    "ferries crossed twice every morning, so",
    "that sales rose although diesel cost more",
    "than in the year before. The owners spent",
    "less on mooring and insurance than they",
    "had planned, and moved the workshop into",
    "the old hall, which needs no heating and",
    "has room for three hulls side by side. We",
    "expect another good year with more guests",
)


def test_two_columns_of_text_with_a_table_below_a_wide_title(tmp_path: Path) -> None:
    left = "".join(put(each, 50, 720 - 14 * row) for row, each in enumerate(PROSE * 2))
    right = "".join(put(each, 320, 720 - 14 * row) for row, each in enumerate(PROSE))
    found = read(tmp_path, pdf_of(left + right + statement(x=320, y=560, columns=(480, 550))))
    assert tables(found) == [PLAIN]


def test_two_columns_of_text_with_a_table_in_one(tmp_path: Path) -> None:
    left = "".join(put(each, 50, 720 - 14 * row) for row, each in enumerate(PROSE * 2))
    right = "".join(put(each, 320, 720 - 14 * row) for row, each in enumerate(PROSE))
    table = statement(x=320, y=560, title="Fleet income", columns=(480, 550))
    assert tables(read(tmp_path, pdf_of(left + right + table))) == [("1", "Fleet income", *PLAIN[2:])]


def test_stacked_tables_keep_their_own_heads(tmp_path: Path) -> None:
    other = statement(
        (("Cash", "1,250", "990"), ("Total assets", "8,400", "8,105")),
        ("2021", "2020"),
        "Consolidated Balance Sheets",
        "(in millions)",
        y=520,
    )
    assert tables(read(tmp_path, pdf_of(statement() + other))) == [
        PLAIN,
        (
            "1",
            "Consolidated Balance Sheets",
            "(in millions)",
            (("2021",), ("2020",)),
            [("Cash", "1,250", "990"), ("Total assets", "8,400", "8,105")],
        ),
    ]


def test_short_tables_side_by_side(tmp_path: Path) -> None:
    left = statement(x=40, columns=(200, 260))
    rows = (("Boats", "12", "11"), ("Crew", "140", "133"), ("Guests", "9,120", "8,704"), ("Ports", "7", "7"))
    right = statement(rows, title="Fleet", unit="", x=330, columns=(480, 550))
    found = tables(read(tmp_path, pdf_of(left + right)))
    assert [each[4] for each in found] == [[*ROWS], [*rows]]
    assert [each[3] for each in found] == [(("2023",), ("2022",))] * 2


def test_tables_side_by_side(tmp_path: Path) -> None:
    one = [(f"Vessel {number}", f"{number},100", f"{number},200") for number in range(1, 10)]
    other = [(f"Port {number}", f"{number}.1", f"{number}.2") for number in range(1, 10)]
    left, right = statement(one, x=40, columns=(200, 260)), statement(other, x=330, columns=(480, 550))
    assert [each[3:] for each in tables(read(tmp_path, pdf_of(left + right)))] == [(PLAIN[3], one), (PLAIN[3], other)]


def test_footnote_marks_are_no_amounts(tmp_path: Path) -> None:
    content = statement()
    for at, mark in ((0, "(1)"), (2, "2"), (3, "*")):
        content += put(mark, COLUMNS[0] + 4, 720 - 54 - 14 * at + 4, size=6)
    (found,) = read(tmp_path, pdf_of(content)).tables or ()
    assert shown(found) == PLAIN


def test_a_table_that_is_a_picture_is_counted(tmp_path: Path) -> None:
    pdf = RawPdf()
    picture = pdf.image(40, 20, bytes(range(200)) * 4)
    prose = "".join(put(each, 72, 740 - 14 * row) for row, each in enumerate(PROSE))
    pdf.page(f"{prose}q 460 0 0 480 72 60 cm /X1 Do Q", images={"X1": picture})
    found = read(tmp_path, pdf)
    assert found.tables == ()
    assert "1 picture" in found.metadata[NOT_READ]


def test_a_word_that_was_cut_off_costs_no_row(tmp_path: Path) -> None:
    """A crop mark beside the page is at the height of a row."""
    found = read(tmp_path, pdf_of(statement() + put("cut here", 640, 720 - 54)))
    assert tables(found) == [PLAIN]
    assert "cut" not in found.text


# Tables over pages.


LONG = [(f"Vessel {number}", f"{number + 1000:,}", f"{2 * number + 1000:,}") for number in range(2000)]


@pytest.mark.documented(".pdf", "tables that continue on the next page")
def test_a_table_of_2000_rows_over_many_pages(tmp_path: Path) -> None:
    pages = [statement(LONG[:40], title="Fleet")]
    pages += [statement(LONG[at : at + 40], (), "", "", y=774) for at in range(40, 2000, 40)]
    started = time.process_time()
    found = read(tmp_path, pdf_of(*pages))
    assert time.process_time() - started < 20
    assert NOT_READ not in found.metadata
    assert [table.page for table in found.tables or ()] == [str(number) for number in range(1, 51)]
    assert {(title, unit, heads) for _, title, unit, heads, _ in tables(found)} == {
        ("Fleet", UNIT, (("2023",), ("2022",)))
    }
    assert [row for each in tables(found) for row in each[4]] == LONG


def test_a_continued_table_takes_the_unit_of_its_first_page(tmp_path: Path) -> None:
    more = (("Dividends", "(500)", "(450)"), ("Cash at end of year", "1,250", "990"))
    again = statement(more, title=f"{TITLE} (continued)", unit="")
    assert tables(read(tmp_path, pdf_of(statement(), again))) == [
        PLAIN,
        ("2", f"{TITLE} (continued)", UNIT, PLAIN[3], [*more]),
    ]


def test_a_new_title_ends_a_table(tmp_path: Path) -> None:
    """Rows below another title are not those of the years before, and amounts are not in thousands."""
    rows = (("Boats sold", "1,212", "1,011"), ("Boats bought", "1,140", "1,033"))
    without_heads = statement(rows, (), "Boats and their age", "", y=760)
    assert tables(read(tmp_path, pdf_of(statement(), without_heads))) == [PLAIN]
    with_heads = statement(rows, title="Boats and their age", unit="")
    assert tables(read(tmp_path, pdf_of(statement(), with_heads)))[1][2] == ""


def test_a_section_at_the_top_of_a_page_is_no_title(tmp_path: Path) -> None:
    rows = (("Cash paid for interest", "(250)", "(190)"), ("Cash paid for taxes", "(400)", "(385)"))
    below = statement(rows, (), "Supplemental information:", "", y=774)
    found = read(tmp_path, pdf_of(statement(), below))
    assert tables(found) == [PLAIN, ("2", *PLAIN[1:4], [*rows])]
    assert [row.sections for row in (found.tables or ())[1].rows] == [("Supplemental information:",)] * 2


def test_another_unit_is_that_of_another_table(tmp_path: Path) -> None:
    """It has the heads of the table before, as most have, but takes no title."""
    found = read(tmp_path, pdf_of(statement(), statement(title="", unit="(in millions)")))
    assert tables(found) == [PLAIN, ("2", "", "(in millions)", *PLAIN[3:])]


def test_columns_elsewhere_take_no_heads(tmp_path: Path) -> None:
    third = statement([(*row, "1,000") for row in ROWS], (), "", "", y=774, columns=(300, 380, 460))
    beside = statement(ROWS, (), "", "", y=774, columns=(250, 320))
    assert tables(read(tmp_path, pdf_of(statement(), third))) == [PLAIN]
    assert tables(read(tmp_path, pdf_of(statement(), beside))) == [PLAIN]


def test_left_and_right_pages_may_be_shifted(tmp_path: Path) -> None:
    shifted = statement(ROWS, (), "", "", x=90, y=774, columns=[right + 18 for right in COLUMNS])
    assert tables(read(tmp_path, pdf_of(statement(), shifted))) == [PLAIN, ("2", *PLAIN[1:])]


def test_cells_that_the_text_mixes_are_left_out() -> None:
    """Two lines of a cell may stand in the text with those of the next cell between them."""
    rows = (TableRow("Agreement", 0, 30, (TableCell(0, "by and among", 10, 22), TableCell(1, "10-K", 14, 18))),)
    mixed = PageTable(Table(0, 30, (("Exhibit",), ("Form",)), rows), ((0, 50), (60, 90)))
    (found,) = document_tables([PageTables("1", 0, "Agreement by a10-Knd among", (mixed,))])
    assert [cell.text for _, cell in found.values()] == ["10-K"]


# Limits.


@pytest.mark.documented(".pdf", "tables on pages that take too long, or have more than 6,000 words")
def test_a_page_of_too_many_words_keeps_its_text(tmp_path: Path) -> None:
    crowded = "".join(
        put(" ".join(f"{at + row:,}" for at in range(1000, 1080)), 10, 780 - 7.5 * row, size=2.5) for row in range(100)
    )
    found = read(tmp_path, pdf_of(crowded, statement()))
    assert found.metadata[NOT_READ] == "1 page whose tables were not read: 1"
    assert "1,079" in found.text
    assert tables(found) == [("2", *PLAIN[1:])]


@pytest.mark.parametrize("shape", ["grid", "heads", "staircase", "superscripts", "one line", "labels", "dots"])
def test_pages_built_to_be_slow(tmp_path: Path, shape: str) -> None:
    """The words that a page may have, in shapes that are hard to read; a page that takes too long is counted."""
    count = 5_000

    def place(number: int) -> tuple[str, float, float, float]:
        row, column = divmod(number, 50)
        return {
            "grid": (f"{number}", 10 + 11.5 * column, 780 - 7 * row, 3.0),
            "heads": (f"20{number % 30:02}", 10 + 11.5 * column, 780 - 7 * row, 3.0),
            "staircase": (f"{number}", 10 + 0.11 * number, 780 - 0.15 * number, 3.0),
            "superscripts": ("1", 10 + 11.5 * column, 780 - 7 * row - number % 7, 1.0 + number % 5),
            "one line": (f"{number}", 10 + 0.11 * number, 400, 0.6),
            "labels": (f"a{number}" if column < 49 else "1,204", 10 + 11.5 * column, 780 - 7 * row, 3.0),
            "dots": ("." if column < 49 else "1,204", 10 + 11.5 * column, 780 - 7 * row, 3.0),
        }[shape]

    content = "".join(put(text, x, y, size) for text, x, y, size in map(place, range(count)))
    started = time.process_time()
    found = read(tmp_path, pdf_of(content, statement()))
    assert time.process_time() - started < 8
    assert tables(found)[-1] == ("2", *PLAIN[1:])


def test_the_time_of_a_part_is_limited() -> None:
    with pytest.raises(TooSlow), processor_time(0.05):
        wait(5)
    with processor_time(0.01):
        pass
    wait(0.05)


def wait(seconds: float) -> None:
    """Use processor time."""
    started = time.process_time()
    while time.process_time() - started < seconds:
        pass


def test_a_document_has_its_limit_of_time_too() -> None:
    reader = TableReader()
    words = [Word(72, 100, 72, 10, "1,204", 0, 5)]
    reader._left = 0
    assert reader.of_words(7, words) == ()
    assert reader.unread == [7]


def test_many_paths_take_linear_time(tmp_path: Path) -> None:
    def work(size: int) -> None:
        lines = "".join(f"{at % 500} {at % 700} m {at % 500 + 60} {at % 700} l " for at in range(size))
        read(tmp_path, pdf_of(statement() + lines + "S\n" + "9 9 m 80 9 l S 10 10 20 20 re f " * size))

    assert growth(work, 1000) < LINEAR


# Scans.


@pytest.mark.slow
@pytest.mark.documented(".pdf", "tables of scanned pages")
def test_tables_of_a_scan(tmp_path: Path) -> None:
    image = Image.new("RGB", (1240, 1754), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(30)
    draw.text((120, 150), TITLE, "black", font)
    draw.text((120, 200), UNIT, "black", font)
    for row, cells in enumerate((("", *HEADS), *ROWS)):
        draw.text((120, 280 + 52 * row), cells[0], "black", font)
        for cell, right in zip(cells[1:], (820, 1020), strict=True):
            draw.text((right - draw.textlength(cell.rstrip(")"), font), 280 + 52 * row), cell, "black", font)
    out = io.BytesIO()
    image.save(out, "PDF", resolution=150)
    (tmp_path / "a.pdf").write_bytes(out.getvalue())
    (found,) = read_pdf(Source(str(tmp_path / "a.pdf"), "a"), Ocr(why_not="", most_pages=3))
    assert isinstance(found, RawDocument)
    assert tables(found) == [PLAIN]
    for table in found.tables or ():
        for _, cell in table.values():
            assert found.text[cell.start : cell.end] == cell.text
