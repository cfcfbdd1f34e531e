"""The time of our own parsing code grows with the size of a file, not with its square."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Parser, RawDocument, Source
from okralong.pipelines.indexing.formats import html
from okralong.pipelines.indexing.formats import text as markdown
from okralong.pipelines.indexing.formats import word as docx_parser
from okralong.pipelines.indexing.formats.pdf import tidy
from okralong.pipelines.indexing.formats.powerpoint import read_pptx
from okralong.pipelines.indexing.formats.text import pipe_table
from tests.indexing import open_xml
from tests.indexing.growth import LINEAR, growth


def read_with(parser: Parser, file: Path) -> RawDocument:
    (reading,) = parser(Source(str(file), file.stem))
    assert isinstance(reading, RawDocument)
    return reading


@pytest.mark.parametrize("filling", [" ", "#", " #", "\t"])
def test_a_heading_of_blanks_and_marks(tmp_path: Path, filling: str) -> None:
    file = tmp_path / "a.md"

    def work(size: int) -> None:
        file.write_text(f"# a{filling * size}b\n", encoding="utf-8")
        assert read_with(markdown.read_markdown, file).title.endswith("b")

    assert growth(work, 20_000) < LINEAR


@pytest.mark.parametrize(
    ("head", "unit", "tail"),
    [
        ("", "<table><tr><td>", "x"),
        ("<p>a", "<i> </i>", "b"),
        ("<table><tr><td>" * 200, "<p>x", "<table><tr><td>x"),
    ],
)
def test_html_of_one_thing_many_times(tmp_path: Path, head: str, unit: str, tail: str) -> None:
    file = tmp_path / "a.html"

    def work(size: int) -> None:
        file.write_text(head + unit * size + tail, encoding="utf-8")
        read_with(html.read_html, file)

    assert growth(work, 1_000) < LINEAR


def test_blanks_inside_the_lines_of_a_pdf() -> None:
    assert growth(lambda size: tidy("a" + " " * size + "b \n"), 50_000) < LINEAR
    assert tidy(" a\x02 \t\r\nb\x0c ") == "a-\nb"


@pytest.mark.parametrize("last", [False, True])
def test_one_long_row_among_short_ones(last: bool) -> None:
    def rows(size: int) -> list[list[str]]:
        short, wide = [["y"]] * size, [["x"] * size]
        return short + wide if last else wide + short

    assert growth(lambda size: pipe_table(rows(size)), 2_000) < LINEAR
    assert len(pipe_table(rows(2_000))) < 2_000 * 20
    assert pipe_table(rows(3)).split("\n")[1] == ("| y |  |  |")


def word_table(rows: str, file: Path) -> RawDocument:
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:tbl {nsdecls('w')}>{rows}</w:tbl>"))
    document.save(str(file))
    return read_with(docx_parser.read_docx, file)


def test_a_cell_that_claims_a_billion_columns(tmp_path: Path) -> None:
    wide = '<w:tc><w:tcPr><w:gridSpan w:val="1000000000"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>'
    assert word_table(f"<w:tr>{wide}{wide}</w:tr>", tmp_path / "a.docx").text == "| x | x |"


def test_a_column_merged_over_all_rows(tmp_path: Path) -> None:
    top = '<w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr>'
    below = "<w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc></w:tr>"

    def work(size: int) -> None:
        assert word_table(top + below * size, tmp_path / "a.docx").text == "\n".join(["| x |"] * (size + 1))

    assert growth(work, 300) < LINEAR


def test_a_row_of_many_cells(tmp_path: Path) -> None:
    cell = "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"
    assert growth(lambda size: word_table(f"<w:tr>{cell * size}</w:tr>", tmp_path / "a.docx"), 300) < LINEAR


def test_a_row_of_many_cells_among_wide_ones(tmp_path: Path) -> None:
    cell = "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"
    spanning = cell.replace("<w:p>", '<w:tcPr><w:gridSpan w:val="99999999"/></w:tcPr><w:p>')
    wide = f"<w:tr>{spanning}{cell}</w:tr>"

    def work(size: int) -> None:
        found = word_table(f"<w:tr>{cell * size}</w:tr>{wide * size}", tmp_path / "a.docx")
        assert len(found.text) < 200 * size

    assert growth(work, 300) < LINEAR


BLOCK = "<w:p><w:r><w:t>x</w:t></w:r></w:p>"


@pytest.mark.parametrize(
    ("unit", "tail"),
    [
        ('<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r></w:p>', BLOCK),
        ('<w:p><w:r><w:fldChar w:fldCharType="begin"/><w:instrText>REF a</w:instrText></w:r></w:p>', BLOCK),
        ('<w:p><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>', BLOCK),
        ("<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>", BLOCK),
        ('<w:p><w:r><w:sym w:font="Wingdings" w:char="F022"/></w:r></w:p>', ""),
        ("<w:p><w:r><w:footnoteReference w:id='2'/></w:r></w:p>", BLOCK),
        (f"<w:p><w:r><w:pict><w:txbxContent>{BLOCK}</w:txbxContent></w:pict></w:r></w:p>", ""),
        (f"<w:tbl><w:tr><w:tc><w:tbl><w:tr><w:tc>{BLOCK}</w:tc></w:tr></w:tbl></w:tc></w:tr></w:tbl>", ""),
        ("<w:tc>", "x"),
    ],
)
def test_a_word_file_of_one_thing_many_times(tmp_path: Path, unit: str, tail: str) -> None:
    file = tmp_path / "a.docx"

    def work(size: int) -> None:
        many = unit * size if unit != "<w:tc>" else f"<w:tbl>{'<w:tc>' * 120}{BLOCK * size}{'</w:tc>' * 120}</w:tbl>"
        file.write_bytes(open_xml.word(many + tail))
        read_with(docx_parser.read_docx, file)

    assert growth(work, 1_000) < LINEAR


def test_styles_that_each_build_on_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "a.docx"

    def work(size: int) -> None:
        styles = "".join(
            f'<w:style w:styleId="s{n}"><w:basedOn w:val="s{(n + 1) % size}"/></w:style>' for n in range(size)
        )
        body = "".join(open_xml.paragraph("x", f'<w:pStyle w:val="s{n}"/>') for n in range(size))
        file.write_bytes(open_xml.word(body, {"r1": open_xml.word_part("styles", styles)}))
        read_with(docx_parser.read_docx, file)

    assert growth(work, 500) < LINEAR


def test_a_large_part_that_is_used_often_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "a.docx"
    chart = open_xml.drawing('<c:chart r:id="r1"/>')
    note = "<w:r><w:footnoteReference w:id='2'/></w:r>"

    def work(size: int) -> None:
        names = [str(n) for n in range(size)]
        parts = {
            "r1": open_xml.chart(f"<c:barChart>{open_xml.series('s', names, names)}</c:barChart>"),
            "r2": open_xml.word_part("footnotes", f"<w:footnote w:id='2'>{BLOCK * size}</w:footnote>"),
        }
        file.write_bytes(open_xml.word(f"<w:p>{(chart + note) * size}</w:p>", parts))
        assert read_with(docx_parser.read_docx, file).text.count("Footnote 1") == 1

    assert growth(work, 300) < LINEAR


def test_a_chart_of_many_series_without_common_places(tmp_path: Path) -> None:
    file = tmp_path / "a.pptx"

    def work(size: int) -> None:
        one = "<c:ser><c:val><c:numLit><c:pt idx='{0}'><c:v>1</c:v></c:pt></c:numLit></c:val></c:ser>"
        plots = f"<c:lineChart>{''.join(one.format(n) for n in range(size))}</c:lineChart>"
        shown = open_xml.frame('<c:chart r:id="r1"/>')
        file.write_bytes(open_xml.deck(shown, parts={"r1": open_xml.chart(plots)}))
        assert len(read_with(read_pptx, file).text) < 40 * size

    assert growth(work, 300) < LINEAR


@pytest.mark.parametrize("unit", [open_xml.shape("x"), open_xml.shape("x", "ftr"), open_xml.shape("x", hidden=True)])
def test_a_slide_of_one_thing_many_times(tmp_path: Path, unit: str) -> None:
    file = tmp_path / "a.pptx"

    def work(size: int) -> None:
        file.write_bytes(open_xml.deck(open_xml.shape("first") + unit * size))
        read_with(read_pptx, file)

    assert growth(work, 500) < LINEAR


def test_a_file_that_nests_too_deep_is_a_failure(tmp_path: Path) -> None:
    deep = "<w:tbl><w:tr><w:tc>" * 100 + BLOCK + "</w:tc></w:tr></w:tbl>" * 100
    (tmp_path / "a.docx").write_bytes(open_xml.word(deep))
    with pytest.raises(DocumentError, match="not a complete Word document"):
        read_with(docx_parser.read_docx, tmp_path / "a.docx")
