"""Workbooks, tables, presentations and mails: what becomes of their text, and where its sections begin."""

from __future__ import annotations

from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

import docx
import pytest

from okralong.pipelines.core.number_formats import shown
from okralong.pipelines.core.types import Section, section_at
from okralong.pipelines.indexing.documents import BadRow, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing import office_files
from tests.indexing.tiny_pdf import tiny_pdf

MAX_BYTES = 10**8
LAUGHS = '<!ENTITY l0 "lol">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
LAUGHS += '<!ENTITY e "&l9;">'


def readings(path: Path, data: bytes) -> list[ParserOutput]:
    path.write_bytes(data)
    return list(read_source(Source(str(path), path.stem, len(data)), MAX_BYTES))


def document(path: Path, data: bytes) -> RawDocument:
    (reading,) = readings(path, data)
    assert isinstance(reading, RawDocument), reading
    return reading


def where(found: RawDocument, words: str) -> str:
    """The section in which ``words`` stand."""
    at = found.text.index(words)
    return str(section_at(found.sections, at) or "")


def begins(found: RawDocument, sections: Sequence[Section]) -> list[str]:
    """The first words of each section."""
    return [found.text[section.start_char :].split("\n", 1)[0] for section in sections]


def test_a_workbook(tmp_path: Path) -> None:
    found = document(tmp_path / "a.xlsx", office_files.workbook())
    assert found.text == (
        "Costs\n\n| Line | Amount | Share | Paid |\n| Boat repair | 1,204.50 EUR | 12.5% | 2024-03-01 |\n"
        "| Rope | -37.00 EUR |  |  |\n\nStaff\n\n| Name | Since |\n| Ines / Calder | 2019 |"
    )
    assert (where(found, "Rope"), where(found, "2019")) == ("sheet Costs", "sheet Staff")
    assert found.title == "Harbour accounts"
    assert found.metadata == {"sheets": "2", "hidden_sheets": "1", "not_read": "1 hidden sheet"}


@pytest.mark.parametrize(
    ("value", "number_format", "words"),
    [
        (1234567.891, "#,##0.00", "1,234,567.89"),
        (0.1234, "0.0%", "12.3%"),
        (-5, "#,##0_);(#,##0)", "(5)"),
        (1234.5, '"$"#,##0.00', "$1,234.50"),
        (3, '_-* #,##0.00\\ "€"_-;-* #,##0.00\\ "€"_-', "3.00 €"),
        (7, "0000", "0007"),
        (0.1 + 0.2, "General", "0.3"),
        (True, "General", "TRUE"),
    ],
)
def test_a_number_is_written_as_it_is_seen(value: float, number_format: str, words: str) -> None:
    assert shown(value, number_format) == words


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"Year;Crossings\r\n2023;1,204\r\n"),
        ("a.csv", '\ufeffYear,Crossings\n2023,"1,204"\n'.encode()),
        ("a.tsv", "Year\tCrossings\n2023\t1,204\n".encode("utf-16")),
        ("a.csv", b"Year|Crossings\n2023|1,204\n"),
    ],
)
def test_a_table_of_any_delimiter_and_encoding(tmp_path: Path, name: str, data: bytes) -> None:
    assert document(tmp_path / name, data).text == "| Year | Crossings |\n| 2023 | 1,204 |"


def test_a_presentation(tmp_path: Path) -> None:
    found = document(tmp_path / "a.pptx", office_files.deck())
    assert found.text == (
        "The Petrel\n\nA ferry with 48 seats\n\nCrossings\n\n| Year | Crossings |\n| 2023 | 1,204 |\n\n"
        "|  | Passengers |\n| 2022 | 10500 |\n| 2023 | 11250 |\n\nNotes: The engine was overhauled in May."
    )
    assert (where(found, "48 seats"), where(found, "11250"), where(found, "May")) == ("slide 1", "slide 3", "slide 3")
    assert found.metadata["hidden_slides"] == "1"


def test_a_mail_with_attachments(tmp_path: Path) -> None:
    inner = office_files.mail(("paper.pdf", tiny_pdf(["One.", "The mast is of larch."])))
    inner.replace_header("Subject", "Forwarded")
    message = office_files.mail(("costs.xlsx", office_files.workbook()), ("all.zip", b"PK"), ("old.docx", b"no zip"))
    message.add_attachment(inner)
    bad, found = readings(tmp_path / "a.eml", message.as_bytes())
    assert isinstance(bad, BadRow)
    assert "a.eml, attachment old.docx is not a .docx file" in bad.message
    assert isinstance(found, RawDocument)
    assert found.title == "Costs of the Petrel"
    assert "Attachments: costs.xlsx, all.zip, old.docx, Forwarded\n\nThe repair is paid." in found.text
    assert where(found, "The repair") == ""
    assert where(found, "Boat repair") == "attachment costs.xlsx, sheet Costs"
    assert where(found, "2019") == "attachment costs.xlsx, sheet Staff"
    assert where(found, "The mast") == "attachment Forwarded, paper.pdf, page 2"
    assert {name: found.metadata[name] for name in ("date", "attachments", "attachments_not_read")} == {
        "date": "2024-03-01",
        "attachments": "5",
        "attachments_not_read": "2",
    }


def test_a_mail_in_html_alone_and_one_of_an_unknown_encoding(tmp_path: Path) -> None:
    message = EmailMessage()
    message["Subject"] = "Märkte"
    message.set_content("<h1>Rope</h1><p>It is <i>new</i>.</p>", subtype="html")
    assert document(tmp_path / "a.eml", message.as_bytes()).text == "Subject: Märkte\n\nRope\n\nIt is new."
    odd = b"Subject: x\nContent-Type: text/plain; charset=klingon\n\nGr\xfc\xdfe"
    assert document(tmp_path / "b.eml", odd).text.startswith("Subject: x\n\nGr")


def test_mails_within_mails_end(tmp_path: Path) -> None:
    message = office_files.mail()
    for _ in range(12):
        outer = office_files.mail()
        outer.add_attachment(message)
        message = outer
    found = document(tmp_path / "a.eml", message.as_bytes())
    assert found.text.count("The repair is paid.") == 6
    assert found.metadata["attachments_not_read"] == "1"


def test_headings_are_sections(tmp_path: Path) -> None:
    marked = "intro\n\n# One #\ntext\n```\n# no heading\n```\n## Two\nmore\n"
    found = document(tmp_path / "a.md", marked.encode())
    assert [str(section) for section in found.sections] == ["One", "Two"]
    assert begins(found, found.sections) == ["# One #", "## Two"]

    page = "<h1> <div>One</div></h1>\n<p>text</p><h2></h2><h2>Two <b>words</b></h2>more \ue0c6<h3>Last</h3>"
    found = document(tmp_path / "a.html", page.encode())
    assert found.text == "One\n\ntext\n\nTwo words\n\nmore \ue0c6\n\nLast"
    assert begins(found, found.sections) == [str(section) for section in found.sections] == ["One", "Two words", "Last"]

    word = docx.Document()
    word.add_paragraph("before")
    word.add_heading("One", 1)
    word.add_paragraph("text")
    word.add_heading("Two", 2)
    word.save(str(tmp_path / "a.docx"))
    found = document(tmp_path / "a.docx", (tmp_path / "a.docx").read_bytes())
    assert begins(found, found.sections) == [str(section) for section in found.sections] == ["One", "Two"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.xlsx", b"no zip", "may be an old .xls"),
        ("a.pptx", b"no zip", "may be an old .ppt"),
        ("a.xlsx", "pptx", "not a complete Excel workbook"),
        ("a.pptx", "xlsx", "not a complete PowerPoint presentation"),
        ("a.eml", b"just some words", "none of the headers of a mail"),
        ("a.csv", b"\x00\x01\x02", "is not text in UTF-8, UTF-16 or cp1252"),
    ],
)
def test_what_is_none_says_so(tmp_path: Path, name: str, data: bytes | str, reason: str) -> None:
    made = {"pptx": office_files.deck, "xlsx": office_files.workbook}
    content = data if isinstance(data, bytes) else made[data]()
    (bad,) = readings(tmp_path / name, content)
    assert isinstance(bad, BadRow)
    assert reason in bad.message
    assert str(tmp_path / name) in bad.message


@pytest.mark.parametrize(
    "heading",
    [
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file://{secret}">]>',
        f"<!DOCTYPE a [{LAUGHS}]>",
    ],
)
def test_a_sheet_reaches_no_other_file_and_does_not_unfold(tmp_path: Path, heading: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a key of another user", encoding="utf-8")
    file = tmp_path / "a.xlsx"
    row = '<row r="1"><c r="A1" t="inlineStr"><is><t>plain &e;</t></is></c></row>'
    office_files.sheet_of(file, [row], heading.format(secret=secret))
    (reading,) = readings(file, file.read_bytes())
    said = reading.text if isinstance(reading, RawDocument) else reading.message
    assert "a key of another user" not in said
    assert len(said) < 10_000
