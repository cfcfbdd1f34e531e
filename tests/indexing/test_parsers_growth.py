"""The time of our own parsing code grows with the size of a file, not with its square."""

from __future__ import annotations

from pathlib import Path

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from okralong.pipelines.indexing.documents import Parser, RawDocument, Source
from okralong.pipelines.indexing.formats import html
from okralong.pipelines.indexing.formats import text as markdown
from okralong.pipelines.indexing.formats import word as docx_parser
from okralong.pipelines.indexing.formats.pdf import tidy
from okralong.pipelines.indexing.formats.text import pipe_table
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
