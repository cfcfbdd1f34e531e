"""Submissions to EDGAR: each document with text is a document, and everything else is named."""

from __future__ import annotations

import binascii
from pathlib import Path

import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import BadRow, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats import edgar
from okralong.pipelines.indexing.formats.edgar import read_page
from okralong.pipelines.indexing.formats.text import read_plain
from okralong.pipelines.indexing.job import LocalStreams, run_index
from okralong.pipelines.indexing.parsers import read_source
from tests.archives.nights import encoder
from tests.indexing.growth import LINEAR, growth
from tests.indexing.tiny_pdf import tiny_pdf

FIXTURE = Path(__file__).parent / "edgar" / "0000099999-24-000012.txt"

SIGNED = "-----BEGIN PRIVACY-ENHANCED MESSAGE-----\nProc-Type: 2001,MIC-CLEAR\nMIC-Info: RSA-MD5,RSA,\n R8N\n\n"
HEAD = """<SEC-DOCUMENT>0000950129-95-001652.txt : 19960102
<SEC-HEADER>0000950129-95-001652.hdr.sgml : 19960102
ACCESSION NUMBER:\t\t0000950129-95-001652
CONFORMED SUBMISSION TYPE:\t10-K405/A
PUBLIC DOCUMENT COUNT:\t\t2
CONFORMED PERIOD OF REPORT:\t19951031
FILED AS OF DATE:\t\t19951228
FILER:
\tCOMPANY DATA:
\t\tCOMPANY CONFORMED NAME:\t\t\tALDER &amp; MILLS INC
\t\tCENTRAL INDEX KEY:\t\t\t0000810271
\t\tSTANDARD INDUSTRIAL CLASSIFICATION:\tMILLS [2200]
\t\tSTATE OF INCORPORATION:\t\t\tMA
\t\tFISCAL YEAR END:\t\t\t1031
</SEC-HEADER>
"""
REPORT = """<DOCUMENT>
<TYPE>10-K405/A
<SEQUENCE>1
<DESCRIPTION>ANNUAL REPORT
<TEXT>
<PAGE>   1
            FORM 10-K   ALDER &amp; SONS
<TABLE>
<CAPTION>
                        1995        1994
<S>                   <C>         <C>
Revenue<F1>           $  4,182    $  3,905
Net loss                  (310)        (87)
<FN>
<F1> Restated.
</TABLE>
<PAGE>   2
The second page.
</TEXT>
</DOCUMENT>
"""
SCHEDULE = """<DOCUMENT>
<TYPE>EX-27
<SEQUENCE>2
<TEXT>
<TABLE> <S> <C>
<ARTICLE> 5
<CASH>                           1,234
</TABLE>
</TEXT>
</DOCUMENT>
"""
END = "</SEC-DOCUMENT>\n-----END PRIVACY-ENHANCED MESSAGE-----\n"


def block(kind: str, content: str, file: str = "") -> str:
    return f"<DOCUMENT>\n<TYPE>{kind}\n<FILENAME>{file}\n<TEXT>\n{content}\n</TEXT>\n</DOCUMENT>\n"


def encoded(data: bytes, name: str) -> str:
    lines = (binascii.b2a_uu(data[at : at + 45]).decode() for at in range(0, len(data), 45))
    return f"begin 644 {name}\n{''.join(lines)}`\nend"


def readings(path: Path, text: str = "") -> list[ParserOutput]:
    if text:
        path.write_text(text, encoding="utf-8")
    return list(read_source(Source(str(path), path.stem, path.stat().st_size), 10**9))


def documents(path: Path, text: str = "") -> dict[str, RawDocument]:
    found = readings(path, text)
    assert all(isinstance(each, RawDocument) for each in found), found
    return {each.doc_id: each for each in found if isinstance(each, RawDocument)}


def index(folder: Path, archive: Path) -> Archive:
    config = IndexConfig(granularities=[150])
    run_index(str(archive), [str(folder)], config, lambda at, how: LocalStreams(at, how, encoder()))
    return Archive.open(archive)


@pytest.mark.documented(".txt", "main document and exhibits")
@pytest.mark.documented(".txt", "pictures")
def test_each_document_of_a_submission_is_one(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / FIXTURE.name).write_bytes(FIXTURE.read_bytes())
    archive = index(tmp_path / "files", tmp_path / "archive")
    main, exhibit = "0000099999-24-000012/10-K", "0000099999-24-000012/EX-21"
    assert archive.doc_ids() == [main, exhibit]
    text = archive.document(main).text
    assert "revenue for fiscal 2023 was $4,182 million" in text
    assert (
        "| (in millions) | 2023 | 2022 |\n| Total revenue | $ 4,182 | $ 3,905 |\n| Net loss | $ (310) | $ (87) |"
        in text
    )
    assert not any(word in text for word in ("<TYPE>", "begin 644", "9999999999", "font-size"))
    assert "Brasswick Pumps GmbH" in archive.document(exhibit).text
    rows = archive.contents().select(["type", "form", "company", "not_read"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("10-K", "10-K", "HARROWGATE PLUMBING CORP", "1 picture (logo.jpg)"),
        ("EX-21", "10-K", "HARROWGATE PLUMBING CORP", None),
    ]
    assert archive.resolve(("0000099999-24-000012",)) == (main, exhibit)
    assert archive.resolve(("*/EX-*",)) == (exhibit,)


@pytest.mark.documented(".txt", "header")
@pytest.mark.documented(".txt", "type, file name and description of each document")
@pytest.mark.documented(".txt", "plain text with `<PAGE>` and `<TABLE>` marks")
def test_a_submission_of_the_nineties(tmp_path: Path) -> None:
    found = documents(tmp_path / "old.txt", SIGNED + HEAD + REPORT + SCHEDULE + END)
    report, schedule = found["old/10-K405-A"], found["old/EX-27"]
    assert dict(report.metadata) == {
        "accession": "0000950129-95-001652", "form": "10-K405/A", "period": "1995-10-31", "filed": "1995-12-28",
        "date": "1995-12-28", "company": "ALDER & MILLS INC", "cik": "0000810271", "sic": "MILLS [2200]",
        "state_of_incorporation": "MA", "fiscal_year_end": "10-31", "type": "10-K405/A", "description": "ANNUAL REPORT",
    }  # fmt: skip
    assert report.text == (
        "            FORM 10-K   ALDER & SONS\n                        1995        1994\n"
        "Revenue (1)           $  4,182    $  3,905\nNet loss                  (310)        (87)\n (1) Restated.\n\n"
        "The second page."
    )
    assert [(str(section), report.text[section.start_char :][:10].strip()) for section in report.sections] == [
        ("page 1", ""), ("page 2", "The second"),
    ]  # fmt: skip
    assert schedule.text == "ARTICLE   5\nCASH                             1,234"
    assert (report.title, schedule.title, schedule.where) == (
        "ANNUAL REPORT",
        "ALDER & MILLS INC EX-27",
        "document 2, EX-27",
    )


@pytest.mark.documented(".txt", "XML forms (3, 4, 5, 13F, D)")
@pytest.mark.documented(".txt", "encoded PDFs")
@pytest.mark.documented(".txt", "XBRL schemas, linkbases and instances, JSON, spreadsheets, archives")
@pytest.mark.documented(".txt", "pages that EDGAR made from XBRL data (`R2.htm`)")
def test_documents_of_every_kind(tmp_path: Path) -> None:
    form = (
        "<XML>\n<?xml version='1.0'?>\n<form><issuer>A &amp; B</issuer><shares><value>10</value>"
        "<note id='F1'/></shares></form>\n</XML>"
    )
    space = "xmlns:ix='http://www.xbrl.org/2013/inlineXBRL'"
    page = f"<XBRL>\n<?xml version='1.0'?><html {space}><body><p>Sales</p></body></html>\n</XBRL>"
    text = HEAD.replace("COUNT:\t\t2", "COUNT:\t\t9") + "".join(
        [
            block("10-K", page, "a.htm"),
            block("4", form, "b.xml"),
            block("EX-99", f"<PDF>\n{encoded(tiny_pdf(['Revenue was 1,234.']), 'c.pdf')}\n</PDF>", "c.pdf"),
            block("EX-98", f"<PDF>\n{encoded(b'torn' * 40, 'd.pdf')}\n</PDF>", "d.pdf"),
            block("EX-101.SCH", "<XBRL>\n<?xml version='1.0'?><xsd:schema/></XBRL>", "e.xsd"),
            block("XML", "<XML>\n<?xml version='1.0'?><!-- x --><xbrl><a>1</a></xbrl>\n</XML>", "a_htm.xml"),
            block("XML", "<html><body>R</body></html>", "R2.htm"),
            block("ZIP", encoded(b"PK" * 60, "f.zip"), "f.zip"),
            block("EX-10", "<p>An <b>agreement</b></p>", "g.txt"),
        ]
    )
    found = documents(tmp_path / "s.txt", text + END)
    assert {name: each.text for name, each in found.items()} == {
        "s/10-K": "Sales",
        "s/4": "form\n  issuer: A & B\n  shares: 10\n    note id=F1",
        "s/EX-99": "Revenue was 1,234.",
        "s/EX-10": "An agreement",
    }
    assert found["s/10-K"].metadata["not_read"] == (
        "1 encoded PDF (d.pdf); 3 data files (e.xsd, a_htm.xml, f.zip); 1 page made from XBRL data (R2.htm)"
    )
    assert all("not_read" not in each.metadata for name, each in found.items() if name != "s/10-K")


@pytest.mark.documented(".txt", "documents that the header announces and the file lacks, a file that breaks off")
@pytest.mark.documented(".txt", "text between the documents")
def test_broken_submissions_lose_nothing_silently(tmp_path: Path) -> None:
    cut = documents(tmp_path / "cut.txt", HEAD + REPORT[:-60])
    assert "(310)" in cut["cut/10-K405-A"].text
    assert cut["cut/10-K405-A"].metadata["not_read"] == (
        "1 end of the file (it breaks off: download it again); 1 missing document (fewer than the header says)"
    )
    unclosed = documents(tmp_path / "a.txt", HEAD + REPORT.replace("</TEXT>\n</DOCUMENT>\n", "") + SCHEDULE + END)
    assert list(unclosed) == ["a/10-K405-A", "a/EX-27"]
    assert unclosed["a/10-K405-A"].text.endswith("The second page.")
    stray = documents(tmp_path / "b.txt", HEAD + REPORT + "A line between.\n" + SCHEDULE + END)
    assert stray["b/text"].text == "A line between."
    one = HEAD + REPORT + SCHEDULE + END
    two = documents(tmp_path / "two.txt", one + one.replace("95-001652", "96-000007"))
    assert list(two) == [
        "two/0000950129-95-001652/10-K405-A", "two/0000950129-95-001652/EX-27",
        "two/0000950129-96-000007/10-K405-A", "two/0000950129-96-000007/EX-27",
    ]  # fmt: skip
    part = "<DOCUMENT><TYPE>8-K<TEXT>{}</TEXT></DOCUMENT>"
    close = documents(tmp_path / "c.txt", f"<SEC-DOCUMENT>\n{part.format('One')}{part.format('Two')}</SEC-DOCUMENT>")
    assert {name: each.text for name, each in close.items()} == {"c/8-K": "One", "c/8-K-2": "Two"}
    headless = documents(tmp_path / "d.txt", "<DOCUMENT>\n<TYPE>EX-1\nNo mark of the text.\n</DOCUMENT>\n")
    assert {name: each.text for name, each in headless.items()} == {"d": "No mark of the text."}
    torn = readings(tmp_path / "f.txt", HEAD + REPORT.replace("The second", "\0" * 99) + SCHEDULE + END)
    page = readings(tmp_path / "g.txt", HEAD + block("10-K", "<html>\0\0</html>") + SCHEDULE + END)
    assert [isinstance(each, BadRow) for each in (*torn, *page)] == [False, False, True, False]
    assert page[0].doc_id == "g/10-K"
    (empty,) = readings(tmp_path / "e.txt", HEAD + block("GRAPHIC", encoded(b"x", "x.gif"), "x.gif"))
    assert isinstance(empty, BadRow)
    assert "only pictures and data" in empty.message


def test_one_document_of_a_submission_and_plain_text(tmp_path: Path) -> None:
    head = "<DOCUMENT>\n<TYPE>EX-99.1\n<SEQUENCE>2\n<FILENAME>d99.htm\n<TEXT>\n"
    page = f"{head}<HTML><P>News.</P></HTML>\n</TEXT>\n</DOCUMENT>\n"
    (found,) = documents(tmp_path / "d99.htm", page).values()
    assert (found.doc_id, found.text, found.metadata["type"]) == ("d99", "News.", "EX-99.1")
    prose = "A submission looks so:\n<SEC-DOCUMENT>\n<DOCUMENT>\n<TYPE>10-K\n<TEXT>\nx\n</TEXT>\n"
    (plain,) = documents(tmp_path / "prose.txt", prose).values()
    assert (plain.doc_id, plain.text) == ("prose", prose)


@pytest.mark.parametrize(
    "unit",
    [
        "<SEC-DOCUMENT>\n",
        "<DOCUMENT>\n<TYPE>EX-1\n<TEXT>\na\n</TEXT>\n</DOCUMENT>\n",
        "</TEXT> \n",
        "<DOCUMENT>\n<TYPE>X\n<TEXT>\n<!--",
        "</DOCUMENT>stray",
        "<PAGE>\na\n",
        "<TABLE>",
    ],
)
def test_submissions_of_one_thing_many_times(tmp_path: Path, unit: str) -> None:
    file = tmp_path / "a.txt"

    def work(size: int) -> None:
        file.write_text(f"{HEAD}<DOCUMENT>\n<TYPE>10-K\n<TEXT>\nx\n{unit * size}", encoding="utf-8")
        list(read_page(Source(str(file), "a"), lambda _: None, read_plain))

    assert growth(work, 1_000) < LINEAR


def test_a_block_that_makes_its_parser_fail_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("zero")

    monkeypatch.setattr(edgar, "page_of_html", fail)
    text = HEAD + REPORT + block("EX-99", "<html><p>x</p></html>") + END
    report, bad = readings(tmp_path / "a.txt", text)
    assert isinstance(report, RawDocument)
    assert isinstance(bad, BadRow)
    assert bad.doc_id == "a/EX-99"
    assert "document 2, made its parser fail (ZeroDivisionError: zero)." in bad.message


@pytest.mark.parametrize("encoding", ["x-unknown", "euc-jp"])
def test_forms_in_an_encoding_that_the_parser_does_not_know(tmp_path: Path, encoding: str) -> None:
    form = f'<XML>\n<?xml version="1.0" encoding="{encoding}"?><form><name>Alder</name></form>\n</XML>'
    text = HEAD + REPORT + block("4", form) + END
    _, found = readings(tmp_path / "a.txt", text)
    assert isinstance(found, RawDocument)
    assert found.text == "Alder"


def test_documents_of_pictures_are_counted(tmp_path: Path) -> None:
    page = '<html><body><img src="a.jpg" width="600" height="800"></body></html>'
    text = HEAD + REPORT + block("EX-99", page, "scan.htm") + END
    (report,) = readings(tmp_path / "a.txt", text)
    assert isinstance(report, RawDocument)
    assert report.metadata["not_read"] == "1 document of pictures without text (scan.htm)"


def test_an_accession_number_is_no_path(tmp_path: Path) -> None:
    other = HEAD.replace("ACCESSION NUMBER:\t\t0000950129-95-001652", "ACCESSION NUMBER: ../../b\x1b[31m/c")
    text = HEAD + REPORT + SCHEDULE + END + other + REPORT + SCHEDULE + END
    assert "a/b-31m-c/EX-27" in [found.doc_id for found in readings(tmp_path / "a.txt", text)]


def test_a_submission_without_text_beside_others_is_reported(tmp_path: Path) -> None:
    picture = block("GRAPHIC", encoded(b"x", "a.jpg"), "a.jpg")
    report, *_, bad = readings(tmp_path / "a.txt", HEAD + REPORT + SCHEDULE + END + HEAD + picture + END)
    assert isinstance(report, RawDocument)
    assert isinstance(bad, BadRow)
    assert "holds no text (not read: 1 picture (a.jpg); 1 missing document" in bad.message
