"""Pictures of cited pages: drawn by a process of its own from the file that was indexed, marked in the browser."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from PIL import Image

from okralong.jobs import report
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import KnownSource
from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.reporting.cited import archive_of, cited
from okralong.pipelines.reporting.page_pictures import Drawn, PageMarks
from tests.archives.written import write_version
from tests.indexing.tiny_pdf import tiny_pdf
from tests.reporting.made_run import write_run

if TYPE_CHECKING:
    from selenium import webdriver

pytestmark = pytest.mark.slow

LINES = ["Sales rose to 1,544 in 2019.", "", "Nobody was surprised.", "The chair is Ida Moss."]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Two PDFs of four pages, the second of them without text, and a text file."""
    rows: list[dict[str, Any]] = []
    sources = []
    for name in ("annual report.pdf", "gone.pdf"):
        file = tmp_path / "from" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(tiny_pdf(LINES))
        data = file.read_bytes()
        sources.append(KnownSource(str(file), name, hashlib.sha256(data).hexdigest(), len(data), 0))
        [read] = read_source(Source(str(file), name), 1_000_000)
        assert hasattr(read, "sections")
        sections = [[each.kind, each.name, each.start_char, each.ocr] for each in read.sections]
        names = ("kind", "name", "start_char", "ocr")
        rows.append(
            {"doc_id": name, "text": read.text, "source_uri": str(file), "n_tokens": 1, "tables": []}
            | {"sections": [dict(zip(names, section, strict=True)) for section in sections]}
        )
    rows.append({"doc_id": "notes.txt", "text": LINES[0], "source_uri": "notes.txt", "n_tokens": 1, "tables": []})
    location = write_version(tmp_path / "archive", rows, [150], {"model": "m"}, sources=sources, fingerprint="made")
    return Archive.open(location)


def draw(archive: Archive, quotes: list[tuple[str, str]], megabytes: float = 15.0) -> tuple[list[list[int]], Drawn]:
    """The marks of each ``(doc_id, words)``, and what was drawn."""
    marks = PageMarks()
    numbers = []
    for at, (doc_id, words) in enumerate(quotes):
        document = archive.document(doc_id)
        start = document.text.index(words)
        numbers.append(marks.add(document, start, start + len(words), (0, at)))
    return numbers, marks.draw(archive, megabytes)


def test_the_marked_part_of_the_picture_is_where_the_words_are(archive: Archive) -> None:
    quotes = [("annual report.pdf", "1,544"), ("annual report.pdf", "Ida Moss"), ("notes.txt", "Sales")]
    numbers, drawn = draw(archive, quotes)
    assert [len(each) for each in numbers] == [1, 1, 0]
    assert [mark and mark.page for mark in drawn.marks] == ["1", "4"]
    assert drawn.notes == []
    for mark in drawn.marks:
        assert mark is not None
        image = Image.open(io.BytesIO(drawn.pictures[mark.picture].data)).convert("L")
        [(left, top, width, height)] = mark.boxes
        ink = image.point(lambda value: 255 if value < 200 else 0)
        around = ink.crop((0, 0, image.width, image.height)).getbbox()  # the page has this one line alone
        assert around is not None
        x0, y0 = left * image.width / 10_000, top * image.height / 10_000
        x1, y1 = x0 + width * image.width / 10_000, y0 + height * image.height / 10_000
        assert ink.crop((int(x0), int(y0), int(x1) + 1, int(y1) + 1)).getbbox() is not None
        assert around[0] - 3 <= x0 < x1 <= around[2] + 3  # the quote, and less than the line
        assert x1 - x0 < 0.6 * (around[2] - around[0])
        assert y0 <= around[1] + 3
        assert y1 >= around[3] - 4


def test_quotes_of_a_page_share_its_picture_and_one_over_a_break_has_two(archive: Archive) -> None:
    numbers, drawn = draw(archive, [("annual report.pdf", "Sales"), ("annual report.pdf", "2019.\n\nNobody was")])
    assert [len(each) for each in numbers] == [1, 2]
    assert [mark and (mark.picture, mark.page) for mark in drawn.marks] == [(0, "1"), (0, "1"), (1, "3")]
    assert all(mark and mark.boxes for mark in drawn.marks)
    text = archive.document("annual report.pdf").text
    span = {"doc_id": "annual report.pdf", "start_char": text.index("2019"), "end_char": text.index(" was") + 4}
    both = cited(archive, span)
    assert (both.section, both.page) == ("pages 1-3", 1)
    assert both.link.endswith("annual%20report.pdf#page=1")


def test_a_file_that_is_gone_or_changed_is_not_opened(archive: Archive, tmp_path: Path) -> None:
    (tmp_path / "from" / "gone.pdf").unlink()
    (tmp_path / "from" / "annual report.pdf").write_bytes(tiny_pdf([*LINES, "One more page."]))
    _, drawn = draw(archive, [("annual report.pdf", "Sales"), ("gone.pdf", "Sales")])
    assert drawn.pictures == []
    assert list(drawn.marks) == [None, None]
    assert "2 of the cited PDF files" in drawn.notes[0]


def test_a_file_that_cannot_be_drawn_costs_no_other(archive: Archive, tmp_path: Path) -> None:
    """Its bytes are those that the archive knows, and no PDF."""
    bad = b"%PDF-1.7 and nothing that a PDF has"
    (tmp_path / "from" / "gone.pdf").write_bytes(bad)
    rows = [KnownSource(str(tmp_path / "from" / "gone.pdf"), "gone.pdf", hashlib.sha256(bad).hexdigest(), len(bad), 0)]
    good = (tmp_path / "from" / "annual report.pdf").read_bytes()
    name = str(tmp_path / "from" / "annual report.pdf")
    rows.append(KnownSource(name, "annual report.pdf", hashlib.sha256(good).hexdigest(), len(good), 0))
    documents = [archive.document(each) for each in ("gone.pdf", "annual report.pdf")]
    again = Archive.open(write_version(tmp_path / "again", list(map(_row, documents)), [150], {}, sources=rows))
    _, drawn = draw(again, [("gone.pdf", "Sales"), ("annual report.pdf", "Sales")])
    assert [mark and mark.page for mark in drawn.marks] == [None, "1"]
    assert "could not be drawn (gone.pdf)" in drawn.notes[0]


def _row(document: Document) -> dict[str, Any]:
    sections = [
        {"kind": each.kind, "name": each.name, "start_char": each.start_char, "ocr": each.ocr}
        for each in document.sections
    ]
    return {
        "doc_id": document.doc_id,
        "text": document.text,
        "source_uri": document.source_uri,
        "n_tokens": 1,
        "tables": [],
        "sections": sections,
    }


def test_pictures_keep_within_their_bound(archive: Archive) -> None:
    quotes = [("annual report.pdf", "Sales"), ("annual report.pdf", "Nobody")]
    _, both = draw(archive, quotes)
    size = len(base64.b64encode(both.pictures[0].data))
    numbers, drawn = draw(archive, quotes, 1.5 * size / 1e6)
    assert len(drawn.pictures) == 1
    assert [bool(drawn.marks[mark]) for [mark] in numbers] == [True, False]  # the first question comes first
    assert drawn.notes[0].startswith("1 cited pages have no picture")


def test_the_report_shows_the_page_with_the_quote_marked(
    archive: Archive, tmp_path: Path, browser: webdriver.Chrome
) -> None:
    from tests.reporting.browser import Page

    run = write_run(tmp_path / "run", tmp_path / "archive", 3)
    text = archive.document("annual report.pdf").text
    start = text.index("rose to 1,544")
    table = Folder.of(run).at("answers").read_table("part-000000001.parquet").to_pylist()
    for row in table:
        span = {"doc_id": "annual report.pdf", "start_char": start, "end_char": start + len("rose to 1,544")}
        row |= {"doc_ids": ["annual report.pdf"], "citations": [span], "context": [span]}
    Folder.of(run).at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(table, schema=ANSWERS))
    assert archive_of(json.loads((run / "run.json").read_text()))[1] == ""
    report.write_report(str(run))
    for width in (1280, 390):
        page = Page(browser, run / "report.html", width=width)
        page.open(0)
        page.until("document.querySelector('#detail .paper img').complete")
        assert page.run("return document.querySelector('#detail .paper img').naturalWidth") >= 900
        marked, paper = page.run(
            "return ['.quote', '.paper'].map((s) => document.querySelector('#detail ' + s).getBoundingClientRect())"
        )
        assert paper["width"] > 250
        assert marked["width"] == pytest.approx(0.125 * paper["width"], rel=0.2)  # of "rose to 1,544" in 12 points
        assert page.texts("#detail .place")[0].startswith("annual report.pdf · page 1")
        link = page.run("return document.querySelector('#detail .open-source').href")
        assert link == (tmp_path / "from" / "annual report.pdf").as_uri() + "#page=1"
        wide = page.run("const b = document.querySelector('#detail .body'); return [b.scrollWidth, b.clientWidth]")
        assert wide[0] <= wide[1]
        page.click("#detail .enlarge")
        assert page.run("return document.querySelector('.paper').clientWidth") >= paper["width"] - 1
        assert page.complaints() == []
        assert [url for url in page.requests() if not url.startswith("data:image/")] == []
    report.write_report(str(run), links=False, megabytes=0)
    plain = Page(browser, run / "report.html")
    plain.open(0)
    assert plain.count("#detail .open-source, #detail img") == 0
    assert plain.texts("#detail .place")[0].startswith("annual report.pdf · page 1")
