"""Scanned pages and images: read in the confined process, marked as such, and read again when OCR comes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pypdfium2
import pytest
from PIL import Image, ImageDraw, ImageFont

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import section_at
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import BadRow, Limits, RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import Ocr, Word, is_blank, page_of_words
from okralong.pipelines.indexing.job import IndexProgress, LocalStreams, run_index
from okralong.pipelines.indexing.parser_process import ParsedDocument, SandboxedParser
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.reporting.cited import cited
from tests.archives.nights import encoder
from tests.indexing.tiny_pdf import tiny_pdf

LINES = ("The Petrel was sold for 61,500 crowns.", "The hull is of larch.")
TABLE = (("Year", "Crossings"), ("1996", "1,204"))


def scan(width: int = 1000, height: int = 700) -> Image.Image:
    """A page as a scanner sees it: two lines, and a table of two columns."""
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(28)
    for row, line in enumerate(LINES):
        draw.text((80, 80 + 50 * row), line, "black", font)
    for row, cells in enumerate(TABLE):
        for column, cell in enumerate(cells):
            draw.text((80 + 400 * column, 280 + 50 * row), cell, "black", font)
    return image


def scanned_pdf() -> bytes:
    """A page with a text layer, one that is a scan, and one that is blank."""
    out = io.BytesIO()
    scan().save(out, "PDF")
    whole, images = pypdfium2.PdfDocument(tiny_pdf(["Typed words.", ""])), pypdfium2.PdfDocument(out.getvalue())
    whole.import_pages(images, index=1)
    made = io.BytesIO()
    whole.save(made)
    return made.getvalue()


def index(
    folder: Path, look: Callable[[IndexProgress], None] = lambda progress: None, **config: object
) -> dict[str, object]:
    settings = IndexConfig.model_validate({"granularities": [64], **config})
    archive = str(folder.parent / "archive")
    done = run_index(archive, [str(folder)], settings, lambda at, each: LocalStreams(at, each, encoder()), look)
    return {"version": done.version, "read": done.work.get("files_read"), "failures": done.failures}


@pytest.mark.slow
def test_pages_without_text_are_read_when_ocr_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "typed.pdf").write_bytes(tiny_pdf(["Only typed words."]))
    (folder / "mixed.pdf").write_bytes(scanned_pdf())
    scan().save(folder / "photo.png")
    assert index(folder, ocr="off") == {"version": 1, "read": 3, "failures": 1}
    archive = Archive.open(tmp_path / "archive")
    assert archive.manifest["ocr"] == {"documents": 0, "pages": 0, "pages_without_text": 1}
    assert archive.failures() == [
        f"{folder}/photo.png is an image. The index config says ocr: off. Set it to auto and index again, or leave the "
        "file out with --exclude."
    ]

    assert index(folder) == {"version": 2, "read": 2, "failures": 0}
    archive = Archive.open(tmp_path / "archive")
    assert archive.manifest["ocr"] == {"documents": 2, "pages": 2, "pages_without_text": 0}
    text = "\n".join(LINES) + "\n\nYear   Crossings\n1996   1,204"
    mixed = archive.document("mixed")
    assert mixed.text == f"Typed words.\n\n{text}"
    assert archive.document("photo").text == text
    at = mixed.text.index("larch")
    span = cited(archive, {"doc_id": "mixed", "start_char": at, "end_char": at + 5})
    assert (span.section, span.page, span.ocr) == ("page 2", 2, True)
    first = section_at(mixed.sections, 0)
    assert first is not None
    assert not first.ocr
    assert index(folder)["version"] == 2


@pytest.mark.slow
def test_what_needs_no_ocr_can_be_searched_while_scans_are_read(tmp_path: Path) -> None:
    folder, place = tmp_path / "sources", tmp_path / "archive"
    folder.mkdir()
    (folder / "typed.pdf").write_bytes(tiny_pdf(["Only typed words."]))
    (folder / "mixed.pdf").write_bytes(scanned_pdf())
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 none")
    scan(700, 240).save(folder / "photo.png")
    seen: list[tuple[str, int, list[str]]] = []

    def look(progress: IndexProgress) -> None:
        if progress.stage == "recognize" and progress.to_read:
            archive = Archive.open(place)
            seen.append((archive.document("mixed").text, progress.to_read, archive.failures()))

    assert index(folder, look) == {"version": 2, "read": 6, "failures": 1}
    text, to_read, failures = seen[0]
    assert (text, to_read) == ("Typed words.", 2)
    assert any("photo.png is an image. OCR reads it next" in each for each in failures)
    assert "larch" in Archive.open(place).document("mixed").text
    assert index(folder) == {"version": 2, "read": None, "failures": 1}  # the broken file is not read every night
    (folder / "more.txt").write_text("More words.")
    assert index(folder)["version"] == 3


@pytest.mark.slow
def test_a_job_that_ends_while_scans_are_read_goes_on_behind_the_last_file(tmp_path: Path) -> None:
    folder, place = tmp_path / "sources", tmp_path / "archive"
    folder.mkdir()
    for name in ("a", "b"):
        scan(700, 240).save(folder / f"{name}.png")

    def stop(progress: IndexProgress) -> None:
        if progress.stage == "recognize" and progress.read == 1:
            raise KeyboardInterrupt

    (folder / "typed.txt").write_text("Typed words.")
    with pytest.raises(KeyboardInterrupt):
        index(folder, stop)
    assert Archive.open(place).manifest["version"] == 1
    assert index(folder) == {"version": 2, "read": 1, "failures": 0}


@pytest.mark.slow
@pytest.mark.documented(".png", "pages on their side or head")
@pytest.mark.documented(".png", "text that OCR could hardly read")
def test_pages_are_turned_and_doubtful_ones_are_counted(tmp_path: Path) -> None:
    upright = scan()
    pages = [upright.rotate(angle, expand=True) for angle in (0, 90, 180, 270)]
    pages.append(upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    pages[0].save(tmp_path / "a.tiff", save_all=True, append_images=pages[1:])
    pages[0].save(tmp_path / "a.pdf", save_all=True, append_images=pages[1:])
    text = "\n".join(LINES) + "\n\nYear   Crossings\n1996   1,204"
    for name in ("a.tiff", "a.pdf"):
        size = (tmp_path / name).stat().st_size
        (found,) = read_source(Source(str(tmp_path / name), "a", size), 10**8, Ocr(why_not="", most_pages=9))
        assert isinstance(found, RawDocument)
        starts = [section.start_char for section in found.sections]
        assert [found.text[start : start + len(text)] for start in starts[:4]] == [text] * 4
        assert found.metadata["not_read"] == "1 page that OCR could hardly read: 5 (scan again, upright and sharp)"


@pytest.mark.slow
def test_limits_of_ocr(tmp_path: Path) -> None:
    file = tmp_path / "a.tiff"
    scan().save(file, save_all=True, append_images=[scan(), scan()])
    limits = Limits(100, 2**31, 10**6, 10**8, 10**8, "on", 60, 2)
    (tmp_path / "b.png").write_bytes(b"\x89PNG none")
    pair, seen = tmp_path / "pair.tiff", list[str]()
    scan().save(pair, save_all=True, append_images=[scan()])
    with SandboxedParser(limits) as parser:
        parser.on_page = seen.append
        assert len(list(parser.parse(Source(str(pair), "pair", pair.stat().st_size)))) == 1
        assert seen == ["recognizing page 1 of 2 of pair.tiff", "recognizing page 2 of 2 of pair.tiff"]
        (many,) = parser.parse(Source(str(file), "a", file.stat().st_size))
        (none,) = parser.parse(Source(str(tmp_path / "b.png"), "b", 9))
    assert isinstance(many, BadRow)
    assert "more than limits.ocr_pages = 2 pages" in many.message
    assert isinstance(none, BadRow)
    assert "b.png is not a readable image" in none.message
    missing = Limits(100, 2**31, 10**6, 10**8, 10**8, "missing")
    with SandboxedParser(missing) as parser:
        (bad,) = parser.parse(Source(str(file), "a", file.stat().st_size))
        (blank,) = parser.parse(Source(str(file), "a", 10**9))
    assert isinstance(bad, BadRow)
    assert "a.tiff is an image. Install OCR (pip install '.[ocr]' in the checkout)" in bad.message
    assert not isinstance(blank, ParsedDocument)


def words(rows: Sequence[tuple[float, float, float, str]]) -> str:
    """The text of a page from (left, right, line, text)."""
    return page_of_words([Word(left, line * 30, right, line * 30 + 20, text) for left, right, line, text in rows])


def test_columns_are_read_one_after_the_other_and_rows_of_a_table_across() -> None:
    prose: list[tuple[float, float, float, str]] = [(100, 900, 0, "Over both")]
    for line in range(1, 10):
        prose += [(510, 900, line, f"right {line}"), (100, 490, line, f"left {line}")]
    text = words(prose)
    assert text.index("Over both") < text.index("left 1") < text.index("left 9") < text.index("right 1")
    table = [(100.0, 180.0, float(line), f"row {line}") for line in range(10)]
    table += [(700.0, 760.0, float(line), str(line * 1000)) for line in range(10)]
    assert words(table).splitlines()[3] == "row 3   3000"


def test_a_blank_page_is_seen() -> None:
    assert is_blank(np.full((20, 20, 3), 250, np.uint8))
    assert not is_blank(np.asarray(scan()))
