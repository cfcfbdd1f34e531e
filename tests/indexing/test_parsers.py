"""Each parser on a good file: what becomes of text, titles and tables."""

from __future__ import annotations

import json
from pathlib import Path

import docx
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.indexing.documents import BadRow, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing.tiny_pdf import tiny_pdf

MAX_BYTES = 10**7


def readings(path: Path) -> list[ParserOutput]:
    return list(read_source(Source(str(path), path.stem, path.stat().st_size), MAX_BYTES))


def document(path: Path) -> RawDocument:
    (reading,) = readings(path)
    assert isinstance(reading, RawDocument), reading
    return reading


def test_plain_text_in_utf8_and_cp1252(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffCafé\r\nline two\rthree".encode())
    assert document(file).text == "Café\nline two\nthree"
    file.write_bytes("Caf\u00e9 \u2013 5 \u20ac".encode("cp1252"))
    assert document(file).text == "Caf\u00e9 \u2013 5 \u20ac"


def test_markdown_keeps_its_text_and_takes_the_first_heading_as_title(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("intro\n\n## The Title ##\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", encoding="utf-8")
    found = document(file)
    assert found.title == "The Title"
    assert "| 1 | 2 |" in found.text


def test_html_drops_scripts_and_writes_tables_as_pipe_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_text(
        "<html><head><title> My  page </title><style>p{}</style></head><body><script>var x=1</script>"
        "<p>First <b>bold</b>\n words.</p><p>Second.<br>New line.</p><ul><li>one</li><li>two</li></ul>"
        "<table><tr><th>Year</th><th></th><th>Sales</th></tr><tr><td>2023</td><td></td><td>1,234</td></tr></table>"
        "<p>a &lt; b</p></body></html>",
        encoding="utf-8",
    )
    found = document(file)
    assert found.title == "My page"
    assert found.text == (
        "First bold words.\n\nSecond.\nNew line.\n\n- one\n- two\n\n| Year | Sales |\n| 2023 | 1,234 |\n\na < b"
    )


def test_html_of_ten_thousand_nested_elements_is_read(tmp_path: Path) -> None:
    file = tmp_path / "deep.html"
    file.write_text("<div>" * 10_000 + "bottom", encoding="utf-8")
    assert document(file).text == "bottom"


def test_pdf_pages_in_order(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(tiny_pdf(["Revenue was 1,234 in 2023.", "Second page."]))
    found = document(file)
    assert found.text == "Revenue was 1,234 in 2023.\n\nSecond page."
    assert found.metadata == {"pages": "2"}


def test_docx_paragraphs_and_tables_in_order(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("Before the table.")
    table = made.add_table(rows=2, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "Name"
    table.cell(0, 2).text = "Sum"
    for column, value in enumerate(("Pears", "kg", "4,310")):
        table.cell(1, column).text = value
    made.add_paragraph("After the table.")
    made.core_properties.title = "Stock"
    file = tmp_path / "a.docx"
    made.save(str(file))
    found = document(file)
    assert found.title == "Stock"
    assert found.text == "Before the table.\n\n| Name | Name | Sum |\n| Pears | kg | 4,310 |\n\nAfter the table."


def test_jsonl_rows_and_their_failures_by_row(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    good = {"doc_id": "a/1", "text": "Text of one.", "title": "One", "metadata": {"year": 2023, "by": "Ines"}}
    lines = [
        json.dumps(good),
        "",
        "{not json",
        json.dumps({"text": "no id"}),
        json.dumps({"doc_id": "b", "text": 5}),
        json.dumps({"doc_id": "c", "text": "\ud800"}),
        json.dumps({"doc_id": "d", "text": "  "}),
        json.dumps(["list"]),
        json.dumps({"doc_id": "e", "text": "fine"}),
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    found = readings(file)
    assert found[0] == RawDocument("a/1", "Text of one.", str(file), "One", "row 1", {"year": "2023", "by": "Ines"})
    assert isinstance(found[-1], RawDocument)
    bad = [reading for reading in found if isinstance(reading, BadRow)]
    assert [f"row {number}" in row.message for row, number in zip(bad, (3, 4, 5, 6, 7, 8), strict=True)] == [True] * 6
    assert all(str(file) in row.message for row in bad)
    assert [row.doc_id for row in bad][2:5] == ["b", "c", "d"]


def test_parquet_rows_with_metadata_as_map(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    table = pa.table(
        {
            "doc_id": ["a", "b", None],
            "text": ["Text a.", None, "Text c."],
            "metadata": pa.array([[("k", "v")], None, None], pa.map_(pa.string(), pa.string())),
            "unused": [1, 2, 3],
        }
    )
    pq.write_table(table, file)
    first, second, third = readings(file)
    assert first == RawDocument("a", "Text a.", str(file), "", "row 1", {"unused": "1", "k": "v"})
    assert isinstance(second, BadRow)
    assert "row 2: text is missing" in second.message
    assert isinstance(third, BadRow)
    assert "row 3: doc_id is missing" in third.message
