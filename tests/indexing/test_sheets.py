"""Excel workbooks: what becomes of each kind of content, as ``docs/documents.md`` says."""

from __future__ import annotations

import io
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.comments import Comment
from openpyxl.drawing.image import Image
from PIL import Image as Picture

from okralong.pipelines.core.number_formats import shown
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.core.workbooks import address, read_workbook
from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source, make_document
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.statements.choice import Choice, choose
from tests.indexing.growth import LINEAR, growth
from tests.indexing.sheet_files import CALCULATED, MAIN, relations, rows, workbook

SAVE_IT = "(open the file in a spreadsheet program and save it)"
STRICT = "http://purl.oclc.org/ooxml/spreadsheetml/main"


def read(data: bytes, path: Path) -> RawDocument:
    path.write_bytes(data)
    (found,) = read_source(Source(str(path), path.stem, len(data)), 10**9)
    assert isinstance(found, RawDocument), found
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.xlsx"


def lost(found: RawDocument) -> str:
    return found.metadata.get("not_read", "")


def saved(book: Any) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


@pytest.mark.documented(".xlsx", "values with their number formats")
@pytest.mark.parametrize(
    ("value", "number_format", "words"),
    [
        (41_250_000, "#,##0,", "41,250"),
        (41_250_000, '0.0,,"M"', "41.3M"),
        (2.5, "0", "3"),
        (-2.5, "0", "-3"),
        (1.005, "0.00", "1.01"),
        (-3, "0;[Red]0", "-3"),
        (-4, '0 "EUR";[Red]0 "EUR"', "-4 EUR"),
        (-4, '0.0;"minus "0.0', "minus 4.0"),
        (-0.001, "0.00;(0.00)", "0.00"),
        (-1234.5, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$ (1,234.50)"),
        (0, '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', "$ -"),
        (1500, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "1.5K"),
        (-7, '[>=1000000]0.0,,"M";[>=1000]0.0,"K";0', "-7"),
        (5_551_234_567, "(000) 000-0000", "(555) 123-4567"),
        (42, "00000", "00042"),
        (12, '0"x"', "12x"),
        (12, 'General" units"', "12 units"),
        (0.5, "#.##", "0.5"),
        (1, "0.##", "1"),
        (1.5, "# ?/?", "1.5"),
        (12_345.678, "0.00E+00", "1.23E+04"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (17, "@", "17"),
        ("17", '"Nr. "@', "Nr. 17"),
        (5, ";;;", ""),
        ("x", ";;;", ""),
        (0, "0;-0;;@", ""),
        (datetime(2024, 3, 31), "dd/mm/yyyy", "2024-03-31"),
        (datetime(2024, 3, 31), "mmm-yy", "2024-03"),
        (datetime(2024, 3, 31), "yyyy", "2024"),
        (datetime(2024, 3, 31, 12, 30), "yyyy-mm-dd hh:mm", "2024-03-31 12:30:00"),
        (time(9, 5), "h:mm", "09:05:00"),
        (timedelta(hours=27, minutes=5), "[h]:mm", "27:05:00"),
    ],
)
def test_a_value_is_written_as_it_is_seen(value: Any, number_format: str, words: str) -> None:
    assert shown(value, number_format) == words


def test_formats_of_a_file(file: Path) -> None:
    line = '< s="1"><v>41250000</v></c>|< s="2"><v>45382</v></c>|< s="3"><v>0.125</v></c>|< s="4"><v>7</v></c>'
    data = workbook(
        rows(f"Loans|{line}", 'Paid|< t="b"><v>1</v></c>|< s="9"><v>2</v></c>'),
        formats=("#,##0,", "dd/mm/yyyy", "0.0%", "0000"),
    )
    assert read(data, file).text == "One\n\n| Loans | 41,250 | 2024-03-31 | 12.5% | 0007 |\n| Paid | TRUE | 2 |  |  |"
    moved = workbook(rows('< s="1"><v>43920</v></c>'), formats=("d/m/yy",), settings='<workbookPr date1904="1"/>')
    assert "2024-03-31" in read(moved, file).text


@pytest.mark.documented(".xlsx", "formulas with a saved value")
@pytest.mark.documented(".xlsx", "formulas without a saved value")
def test_formulas(file: Path) -> None:
    calculated = rows(
        'Linz|2|<><f>B1*2</f><v>4</v></c>|< t="str"><f>IF(B1&gt;5,"x","")</f><v></v></c>',
        "Zero|<><f>B1-B1</f><v>0</v></c>",
    )
    found = read(workbook(calculated), file)
    assert (found.text, lost(found)) == ("One\n\n| Linz | 2 | 4 |\n| Zero | 0 |  |", "")

    book = openpyxl.Workbook()
    book.active.append(["Linz", 41250])
    book.active.append(["Graz", "=_xlfn.XLOOKUP(A1, A:A, B:B)"])
    book.active.append(["Total", "=SUM(B1:B2)"])
    book.active["C3"] = openpyxl.worksheet.formula.ArrayFormula("C3:C4", "=B1:B2*2")
    found = read(saved(book), file)
    assert found.text.split("\n\n")[1] == (
        "| Linz | 41250 |  |\n| Graz | =XLOOKUP(A1, A:A, B:B) |  |\n| Total | =SUM(B1:B2) | =B1:B2*2 |"
    )
    assert lost(found) == f"3 formulas without saved values {SAVE_IT}"

    shared = rows(
        '1|<><f t="shared" ref="B1:B2" si="0">A1*2</f></c>',
        '2|<><f t="shared" si="0"/></c>',
        f"3|<><f>{'A1+' * 99}1</f></c>",
    )
    found = read(workbook(shared), file)
    assert "| 1 | =A1*2 |\n| 2 | =A2*2 |" in found.text
    assert found.text.endswith("+A1+A1+A1… |")


@pytest.mark.parametrize("settings", ['<calcPr calcId="124519" fullCalcOnLoad="1"/>', ""])
def test_zeros_of_a_script_that_did_not_calculate_are_not_values(file: Path, settings: str) -> None:
    sheet = rows('Total|<><f>SUM(B2:B3)</f><v>0</v></c>|<><f>1+1</f><v>2</v></c>|< t="str"><f>A1</f><v></v></c>')
    found = read(workbook(sheet, settings=settings), file)
    assert found.text.endswith("| Total | =SUM(B2:B3) | 2 | =A1 |")
    assert lost(found) == f"2 formulas without saved values {SAVE_IT}"


@pytest.mark.documented(".xlsx", "error cells")
def test_errors_are_shown_and_counted(file: Path) -> None:
    cells = "|".join(f'< t="e"><f>A1</f><v>{error}</v></c>' for error in ("#DIV/0!", "#REF!", "#N/A"))
    found = read(workbook(rows(f"Ratio|{cells}")), file)
    assert found.text.endswith("| Ratio | #DIV/0! | #REF! | #N/A |")
    assert lost(found) == "3 error cells"


@pytest.mark.documented(".xlsx", "merged heads and labels")
def test_merged_cells_repeat_their_text(file: Path) -> None:
    sheet = rows(
        "Sales in EUR million||||", "Region|2024||2023|", "|H1|H2|H1|H2", "North|1|2|3|4", "|5|6|7|8", "Total|12||13|"
    )
    ranges = ("A1:E1", "A2:A3", "B2:C2", "D2:E2", "A4:A5", "B6:C6", "A7:XFD1048576")
    merged = "".join(f'<mergeCell ref="{each}"/>' for each in ranges)
    found = read(workbook(f"{sheet}<mergeCells>{merged}</mergeCells>"), file)
    assert found.text.split("\n\n")[1].split("\n") == [
        "| Sales in EUR million |  |  |  |  |",
        "| Region | 2024 | 2024 | 2023 | 2023 |",
        "| Region | H1 | H2 | H1 | H2 |",
        "| North | 1 | 2 | 3 | 4 |",
        "| North | 5 | 6 | 7 | 8 |",
        "| Total | 12 |  | 13 |  |",
    ]


@pytest.mark.documented(".xlsx", "hidden and filtered rows, hidden columns")
@pytest.mark.documented(".xlsx", "hidden sheets")
@pytest.mark.documented(".xlsx", "cells hidden by their format")
def test_hidden_content_is_counted(file: Path) -> None:
    columns = '<cols><col min="3" max="4" width="9" hidden="1"/><col min="5" max="16384" hidden="1"/></cols>'
    sheet = rows("Seen|1|secret|2", "Filtered|9|x|y", 'Also seen|< s="1"><v>5</v></c>', "Tail|8", hidden=(2, 4, 5))
    data = workbook(columns + sheet, rows("a"), rows("b"), states={1: "hidden", 2: "veryHidden"}, formats=(";;;",))
    found = read(data, file)
    assert found.text == "One\n\n| Seen | 1 |\n| Also seen |  |"
    assert lost(found) == "2 hidden sheets; 1 cell hidden by its format; 2 hidden rows; 2 hidden columns"
    assert found.metadata["hidden_sheets"] == "2"


def test_a_merged_head_is_seen_although_its_first_column_is_hidden(file: Path) -> None:
    sheet = f'<cols><col min="2" max="2" hidden="1"/></cols>{rows("Item|2024||", "Sales|1|2|3")}'
    found = read(workbook(f'{sheet}<mergeCells><mergeCell ref="B1:D1"/></mergeCells>'), file)
    assert found.text.endswith("| Item | 2024 | 2024 |\n| Sales | 2 | 3 |")


@pytest.mark.documented(".xlsx", "comments and threads of comments")
def test_comments_are_kept_with_their_cell(file: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Limit", 5])
    book.active["B1"].comment = Comment("Ines:\nraised to 7 in May", "Ines")
    found = read(saved(book), file)
    assert found.text.endswith("| Limit | 5 |\n\nComment on B1 by Ines: raised to 7 in May")
    assert lost(found) == ""

    legacy = (
        f'<comments xmlns="{MAIN}"><authors><author>tc={{1}}</author><author/></authors><commentList>'
        '<comment ref="A1" authorId="0"><text><t>[Threaded comment] Your version</t></text></comment>'
        '<comment ref="B1" authorId="1"><text><r><t>old</t></r><r><t>er</t></r></text></comment></commentList>'
        "</comments>"
    )
    thread = (
        '<ThreadedComments xmlns="x"><threadedComment ref="A1" personId="p"><text>Is it final?</text></threadedComment>'
        '<threadedComment ref="A1" personId="q"><text>Yes.</text></threadedComment></ThreadedComments>'
    )
    parts = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(
            comments="../comments1.xml", threadedComment="../threadedComments/threadedComment1.xml"
        ),
        "xl/comments1.xml": legacy,
        "xl/threadedComments/threadedComment1.xml": thread,
        "xl/persons/person.xml": '<personList xmlns="x"><person displayName="Ines" id="p"/></personList>',
    }
    found = read(workbook(rows("Limit|5"), parts=parts), file)
    assert found.text.split("\n\n")[2:] == [
        "Comment on B1: older",
        "Comment on A1 by Ines: Is it final?",
        "Comment on A1: Yes.",
    ]


DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"


def drawing(*shapes: str) -> str:
    anchors = "".join(f"<xdr:twoCellAnchor>{shape}<xdr:clientData/></xdr:twoCellAnchor>" for shape in shapes)
    return (
        f'<xdr:wsDr xmlns:xdr="{DRAWING}/spreadsheetDrawing" xmlns:a="{DRAWING}/main" xmlns:c="{DRAWING}/chart" '
        f'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">{anchors}</xdr:wsDr>'
    )


def shape(text: str, hidden: str = "0") -> str:
    return (
        f'<xdr:sp><xdr:nvSpPr><xdr:cNvPr id="2" name="x" hidden="{hidden}"/></xdr:nvSpPr><xdr:txBody>'
        + "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))
        + "</xdr:txBody></xdr:sp>"
    )


def chart(sheet: str) -> str:
    def cache(values: tuple[str, ...]) -> str:
        return "".join(f'<c:pt idx="{n}"><c:v>{value}</c:v></c:pt>' for n, value in enumerate(values))

    return (
        f'<c:chartSpace xmlns:c="{DRAWING}/chart" xmlns:a="{DRAWING}/main"><c:chart><c:title><c:tx><c:rich><a:p><a:r>'
        f"<a:t>Sales by year</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea><c:barChart>"
        f"<c:ser><c:tx><c:strRef><c:f>{sheet}!$B$1</c:f>"
        f"<c:strCache>{cache(('North',))}</c:strCache></c:strRef></c:tx><c:cat><c:strRef><c:f>{sheet}!$A$2:$A$3</c:f>"
        f"<c:strCache>{cache(('2023', '2024'))}</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:f>{sheet}!$B$2:$B$3"
        f"</c:f><c:numCache>{cache(('11', '12.5'))}</c:numCache></c:numRef></c:val></c:ser></c:barChart></c:plotArea>"
        "</c:chart></c:chartSpace>"
    )


CX = "http://schemas.microsoft.com/office/drawing/2014/chartex"
WATERFALL = (
    f'<cx:chartSpace xmlns:cx="{CX}"><cx:chartData><cx:data id="0"><cx:strDim type="cat"><cx:lvl><cx:pt idx="0">Rent'
    '</cx:pt></cx:lvl></cx:strDim><cx:numDim type="val"><cx:lvl><cx:pt idx="0">7</cx:pt></cx:lvl></cx:numDim></cx:data>'
    "</cx:chartData><cx:chart><cx:plotArea><cx:plotAreaRegion><cx:series><cx:tx><cx:txData><cx:v>Cost</cx:v></cx:txData>"
    '</cx:tx><cx:dataId val="0"/></cx:series></cx:plotAreaRegion></cx:plotArea></cx:chart></cx:chartSpace>'
)


@pytest.mark.documented(".xlsx", "text boxes")
@pytest.mark.documented(".xlsx", "charts")
@pytest.mark.documented(".xlsx", "SmartArt")
def test_drawings(file: Path) -> None:
    frame = "<xdr:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></xdr:graphicFrame>"
    first, second = (frame.format(f'<c:chart r:id="{key}"/>') for key in ("chart1", "chart2"))
    third = frame.format(f'<cx:chart xmlns:cx="{CX}" r:id="chartEx3"/>')
    newer = (
        f'<mc:AlternateContent><mc:Choice Requires="cx1">{third}</mc:Choice><mc:Fallback>{shape("Not available")}'
        "</mc:Fallback></mc:AlternateContent>"
    )
    smart = frame.format(f'<dgm:relIds xmlns:dgm="{DRAWING}/diagram" r:dm="diagramData4"/>')
    shapes = (shape("All figures\nin EUR"), shape("draft", "1"), first, second, newer, smart)
    links = relations(chart="chart1.xml", other="chart2.xml", chartEx="e.xml")
    links = links.replace("other2", "chart2").replace("/other", "/chart")
    parts = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(drawing="../drawings/drawing1.xml"),
        "xl/drawings/drawing1.xml": drawing(*shapes),
        "xl/drawings/_rels/drawing1.xml.rels": links,
        "xl/drawings/chart1.xml": chart("One"),
        "xl/drawings/chart2.xml": chart("Two"),
        "xl/drawings/e.xml": WATERFALL,
    }
    found = read(workbook(rows("Sales|5"), rows("x"), states={1: "hidden"}, parts=parts), file)
    assert found.text.split("\n\n")[1:] == [
        "| Sales | 5 |",
        "Text box: All figures\nin EUR",
        "Chart: Sales by year",
        "Chart: Sales by year",
        "|  | North |\n| 2023 | 11 |\n| 2024 | 12.5 |",
        "Chart:\n|  | Cost |\n| Rent | 7 |",
    ]
    assert lost(found) == "1 hidden sheet; 1 SmartArt drawing"


@pytest.mark.documented(".xlsx", "pictures, also those in cells")
@pytest.mark.documented(".xlsx", "embedded objects")
def test_pictures_and_objects_are_counted(file: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["Limit"])
    picture = io.BytesIO()
    Picture.new("RGB", (4, 4)).save(picture, "PNG")
    book.active.add_image(Image(picture), "C3")
    assert lost(read(saved(book), file)) == "1 picture"
    sheet = (
        rows('Logo|< t="e" vm="1"><v>#VALUE!</v></c>') + '<oleObjects><oleObject progId="Word.Document"/></oleObjects>'
    )
    found = read(workbook(sheet), file)
    assert (found.text, lost(found)) == ("One\n\n| Logo |", "1 picture; 1 embedded object")


@pytest.mark.documented(".xlsx", "raised text")
def test_raised_text_stands_apart_from_figures(file: Path) -> None:
    raised = '<r><rPr><vertAlign val="superscript"/></rPr><t>{}</t></r>'
    strings = f"<si><r><t>1,204</t></r>{raised.format(1)}</si><si><r><t>in 10</t></r>{raised.format(6)}</si>"
    cells = rows('< t="s"><v>0</v></c>|< t="s"><v>1</v></c>')
    assert read(workbook(cells, strings=strings), file).text == "One\n\n| 1,204 (1) | in 10^6 |"


@pytest.mark.documented(".xlsx", "printed headers and footers")
@pytest.mark.documented(".xlsx", "rich text, escaped characters")
@pytest.mark.documented(".xlsx", "phonetic guides, links, defined names, pivot caches, macros")
@pytest.mark.documented(".xlsx", "protected sheets, tables, files of strict Open XML")
def test_texts_of_every_kind(file: Path) -> None:
    strings = (
        "<si><r><t>Net </t></r><r><rPr/><t>sales</t></r></si><si><t>売上</t><rPh><t>うりあげ</t></rPh></si>"
        "<si><t>a_x000D__x005F_b</t></si>"
    )
    sheet = '<sheetProtection sheet="1"/>' + rows(
        '< t="s"><v>0</v></c>|< t="s"><v>1</v></c>|< t="s"><v>2</v></c>|< t="inlineStr"><is><t>in</t></is></c>'
    )
    head = '&amp;L&amp;"Arial,Bold"&amp;12In thousands&amp;R&amp;P of &amp;N'
    sheet += f"<headerFooter><oddHeader>{head}</oddHeader></headerFooter>"
    names = '<definedNames><definedName name="rate">0.05</definedName></definedNames>'
    for main in (MAIN, STRICT):
        found = read(workbook(sheet, strings=strings, settings=names + CALCULATED, main=main), file)
        assert found.text == "One\n\n| Net sales | 売上 | a _b | in |\n\nPrinted header or footer: In thousands"
        assert lost(found) == ""


@pytest.mark.documented(".xlsx", "`.xlsm`, `.xltx`, `.xltm`")
@pytest.mark.parametrize("suffix", ["xlsm", "xltx", "xltm"])
def test_other_suffixes(tmp_path: Path, suffix: str) -> None:
    assert read(workbook(rows("Limit|5")), tmp_path / f"a.{suffix}").text == "One\n\n| Limit | 5 |"


def diagonal(size: int) -> bytes:
    cells = (f'<row r="{n}"><c r="{address(n, n - 1)}"><v>{n}</v></c></row>' for n in range(1, size + 1))
    return workbook(f"<sheetData>{''.join(cells)}</sheetData>")


@pytest.mark.documented(".xlsx", "a few cells in a wide area")
def test_a_sparse_sheet_is_a_list_of_cells(file: Path) -> None:
    assert read(diagonal(100), file).text.split("\n")[-2:] == ["| CU99: 99 |", "| CV100: 100 |"]


def test_sheets_take_linear_time(file: Path) -> None:
    assert growth(lambda size: read(diagonal(size), file), 1_000) < LINEAR
    merge = '<mergeCell ref="A1:XFD1048576"/>'
    table = rows("x|1", "y|2")

    def merged(size: int) -> None:
        read(workbook(f"{table}<mergeCells>{merge * size}</mergeCells>"), file)

    assert growth(merged, 5_000) < LINEAR

    def comments(size: int) -> None:
        said = '<comment ref="A1" authorId="0"><text><t>x</t></text></comment>' * size
        parts = {
            "xl/worksheets/_rels/sheet1.xml.rels": relations(comments="../comments1.xml"),
            "xl/comments1.xml": f'<comments xmlns="{MAIN}"><commentList>{said}</commentList></comments>',
        }
        read(workbook(table, parts=parts), file)

    assert growth(comments, 5_000) < LINEAR

    def groups(size: int) -> None:
        parts = {
            "xl/worksheets/_rels/sheet1.xml.rels": relations(drawing="../drawings/drawing1.xml"),
            "xl/drawings/drawing1.xml": drawing(
                *[shape("first")] * size, "<xdr:grpSp>" * 99 + shape("deep") + "</xdr:grpSp>" * 99
            ),
        }
        assert read(workbook(table, parts=parts), file).text.endswith("Text box: deep")

    assert growth(groups, 2_000) < LINEAR


def test_values_for_programs() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["id", None, date(2024, 3, 1), True])
    sheet["B4"] = 1.5
    sheet.row_dimensions[4].hidden = True
    assert list(read_workbook(saved(book), "a.xlsx").sheets[0].values()) == [
        ["id", None, datetime(2024, 3, 1), True], [], [], [None, 1.5],
    ]  # fmt: skip
    sheet["C5"] = "=A1"
    with pytest.raises(
        DocumentError, match=r"a\.xlsx, sheet Sheet, cell C5, has a formula without a saved value \(=A1\)"
    ):
        list(read_workbook(saved(book), "a.xlsx").sheets[0].values())


@pytest.mark.parametrize(
    ("sheet", "reason"),
    [
        ('<sheetData><row r="2"/><row r="1"/></sheetData>', "row 1 follows row 2"),
        ('<sheetData><row r="99999999"/></sheetData>', "number 99999999 is too large"),
        ('<sheetData><row><c r="AAAA1"><v>1</v></c></row></sheetData>', "AAAA1 is not a cell"),
        ('<sheetData><row><c t="s"><v>x</v></c></row></sheetData>', "invalid literal"),
        ('<sheetData><row><c t="s"><v>7</v></c></row></sheetData>', "the text of cell A1 is missing"),
        ("<sheetData><row>", "mismatched tag"),
    ],
)
def test_a_damaged_sheet_is_a_failure(file: Path, sheet: str, reason: str) -> None:
    data = workbook(sheet)
    file.write_bytes(data)
    (bad,) = read_source(Source(str(file), "a", len(data)), 10**9)
    assert isinstance(bad, BadRow)
    assert "sheet One, cannot be read" in bad.message
    assert reason in bad.message


def test_rows_are_read_below_merged_heads_and_formulas_are_no_figures(file: Path) -> None:
    sheet = rows(
        "|2024||2023|", "EUR thousand|Amount|% of total|Amount|% of total", "Deposits|512|60|480|59",
        "Loans|341|40|333|41", "Fees|<><f>B3*1000</f></c>||7|", "Staff|11|12|13|14",
    )  # fmt: skip
    merged = '<mergeCells><mergeCell ref="B1:C1"/><mergeCell ref="D1:E1"/></mergeCells>'

    def answer(question: str, data: bytes) -> str:
        found = choose(question, "number", make_document(read(data, file)))
        return found.cell.text if isinstance(found, Choice) else ""

    data = workbook(sheet + merged)
    assert answer("What were loans in 2024?", data) == "341"
    assert answer("What were loans in 2023?", data) == "333"
    assert answer("What were fees in 2024?", data) == ""
    assert answer("What were fees in 2023?", data) == "7"
    two = workbook(sheet.replace("% of total", "Women").replace("Amount", "Men") + merged)
    assert answer("What was staff in 2024?", two) == ""


@pytest.mark.parametrize(
    "broken", ["xl/comments1.xml", "xl/worksheets/_rels/sheet1.xml.rels", "xl/drawings/drawing1.xml"]
)
def test_a_damaged_part_beside_the_cells_hides_no_cell(file: Path, broken: str) -> None:
    parts = {
        "xl/worksheets/_rels/sheet1.xml.rels": relations(
            comments="../comments1.xml", drawing="../drawings/drawing1.xml"
        ),
        "xl/comments1.xml": f'<comments xmlns="{MAIN}"/>',
        "xl/drawings/drawing1.xml": "<drawing/>",
    }
    found = read(workbook(rows("Limit|5"), rows("Next|6"), parts=parts | {broken: "<broken"}), file)
    assert found.text == "One\n\n| Limit | 5 |\n\nTwo\n\n| Next | 6 |"
    assert lost(found) == "1 missing or damaged part"


@pytest.mark.parametrize("blank", [" ", "\xa0", "\u2003 \n", "_x0009_"])
def test_rows_and_columns_of_blanks_are_no_content(file: Path, blank: str) -> None:
    book = openpyxl.Workbook()
    lines = (
        [blank],
        [blank, "Segment", blank, "2023"],
        [None, "Retail", blank, 5210],
        [blank] * 9,
        [None, "Corporate", "", 7512],
    )
    for line in (*lines, [blank], [blank]):
        book.active.append(line)
    book.active.merge_cells("A6:D7")
    found = read(saved(book), file)
    assert found.text == "Sheet\n\n| Segment | 2023 |\n| Retail | 5210 |\n\n| Corporate | 7512 |"
    assert lost(found) == ""
    wide = openpyxl.Workbook()
    for column in range(1, 200, 20):
        wide.active.cell(column, column, "x")
        wide.active.cell(column, column + 1, blank)
    assert read(saved(wide), file).text.count("x") == 10


def test_an_odd_number_hides_no_other_cell(file: Path) -> None:
    cells = '<c><v>5,3</v></c><c t="d"><v>soon</v></c><c><v>7</v></c>'
    found = read(workbook(f"<sheetData><row>{cells}</row></sheetData>"), file)
    assert found.text == "One\n\n| 5,3 | soon | 7 |"


def test_numbers_of_hundreds_of_digits_are_shown_without_their_format(file: Path) -> None:
    data = workbook(f'<sheetData><row><c s="1"><v>{"9" * 500}</v></c></row></sheetData>', formats=("0.00",))
    assert read(data, file).text == f"One\n\n| {'9' * 500} |"
