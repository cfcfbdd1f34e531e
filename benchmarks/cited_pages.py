"""Does every quote stand on the page that its citation names, and is it marked in the page's picture?

Run: ``python -m benchmarks.cited_pages RUN [--spans N]``. RUN is a run over an archive of PDF files that still lie
where they were indexed. Its citations are looked up, and besides them N spans of any length and place in the archive's
documents (2,000), as a model might cite them, page breaks included.

A quote *stands on its page* when its letters and digits follow each other in the text that PDFium has of that page,
read anew here. It is *marked* when the boxes drawn on the picture hold at least nine tenths of them, which is looked up
by asking PDFium for the text within each box.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import re
from collections import Counter
from dataclasses import dataclass

import pypdfium2

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.reporting.cited import archive_of, number_of, parts_of
from okralong.pipelines.reporting.page_pictures import Drawn, Mark, PageMarks
from okralong.pipelines.reporting.page_process import folded
from okralong.pipelines.reporting.sources import Span, spans_of
from okralong.pipelines.run.rows import BEGUN

LENGTHS = (5, 40, 200, 1_000, 4_000)
SEED = 7
ENOUGH = 0.9
NO_BOUND = 1e6


@dataclass(frozen=True)
class Part:
    """The part of a span on one page, and the number of its mark."""

    uri: str
    page: int
    words: str
    mark: int | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--spans", type=int, default=2_000)
    given = parser.parse_args()
    run = Folder.of(given.run)
    archive, why = archive_of(json.loads(run.read_bytes(BEGUN)))
    if archive is None:
        raise SystemExit(why)
    rows = read_run_table(run, "answers").to_pylist()
    cited = [span for row in rows for span in spans_of(row["citations"])]
    print("| spans | number | over a break | parts on a page | on the page named | marked | pictures, MB |")
    print("|---|---|---|---|---|---|---|")
    print(line(f"citations of {len(rows)} questions", cited, archive))
    print(line("any place and length", random_spans(archive, given.spans), archive))


def random_spans(archive: Archive, count: int) -> list[Span]:
    chance = random.Random(SEED)
    found = []
    for _ in range(count):
        doc_id = chance.choice(archive.doc_ids())
        text = archive.document(doc_id).text
        start = chance.randrange(len(text))
        found.append((doc_id, start, min(len(text), start + chance.choice(LENGTHS))))
    return found


def line(name: str, spans: list[Span], archive: Archive) -> str:
    parts, over, drawn = parts_and_pictures(spans, archive)
    files: dict[str, pypdfium2.PdfDocument] = {}
    counted: Counter[str] = Counter()
    for part in parts:
        pdf = files.setdefault(part.uri, pypdfium2.PdfDocument(part.uri))
        page = pdf[part.page - 1]
        textpage = page.get_textpage()
        wanted = folded(part.words)[0]
        on_page = wanted in folded(textpage.get_text_bounded())[0]
        mark = None if part.mark is None else drawn.marks[part.mark]
        marked = mark is not None and covers(page, textpage, mark, wanted)
        counted.update(on_page=on_page, marked=marked)
        if not (on_page and marked):
            print(f"{part.uri} page {part.page}: on it {on_page}, marked {marked}: {part.words[:200]!r}")
    size = sum(len(picture.data) for picture in drawn.pictures) / 1e6
    return (
        f"| {name} | {len(spans):,} | {over:,} | {len(parts):,} | {counted['on_page']:,} | {counted['marked']:,} "
        f"| {len(drawn.pictures):,}, {size:.1f} |"
    )


def parts_and_pictures(spans: list[Span], archive: Archive) -> tuple[list[Part], int, Drawn]:
    """The parts of spans that have letters or digits, how many spans cross a break, and the pictures."""
    marks = PageMarks()
    parts, over = [], 0
    for at, (doc_id, start, end) in enumerate(sorted(spans)):
        document = archive.document(doc_id)
        numbers = marks.add(document, start, end, (0, at))
        held = [(number_of(section), low, high) for section, low, high in parts_of(document, start, end)]
        over += len(held) > 1
        for order, (page, low, high) in enumerate(held):
            words = document.text[low:high]
            if page is not None and re.search(r"\w", words) and folded(words)[0]:
                mark = numbers[order] if order < len(numbers) else None
                parts += [Part(document.source_uri, page, words, mark)] if mark is not None else []
    return parts, over, marks.draw(archive, NO_BOUND)


def covers(page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage, mark: Mark, wanted: str) -> bool:
    """Whether the text within the boxes of a mark has the letters and digits of the quote, in their order."""
    held = ""
    for left, top, across, down in mark.boxes:
        ends = [in_page(page, x, y) for x, y in ((left, top), (left + across, top + down))]
        (x0, x1), (y0, y1) = (sorted(end[axis] for end in ends) for axis in (0, 1))
        held += folded(textpage.get_text_bounded(x0, y0, x1, y1))[0]
    at = found = 0
    for char in wanted:
        place = held.find(char, at)
        if 0 <= place < at + 50:
            at, found = place + 1, found + 1
    return found >= ENOUGH * len(wanted)


def in_page(page: pypdfium2.PdfPage, x: int, y: int) -> tuple[float, float]:
    """A place of the picture, in ten thousandths, in the coordinates of its page, which may be turned."""
    across, up = ctypes.c_double(), ctypes.c_double()
    pypdfium2.raw.FPDF_DeviceToPage(page, 0, 0, 10_000, 10_000, 0, x, y, across, up)
    return across.value, up.value


if __name__ == "__main__":
    main()
