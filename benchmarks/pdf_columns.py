"""Would wide gaps between the columns of PDF tables help? Run: ``python benchmarks/pdf_columns.py DATA_DIR``.

DATA_DIR holds ``pdf/*.pdf``. Each page is read twice: as the reader does, which writes one blank wherever the page has
a gap, and with three blanks where the gap is wider than the characters are high. Asked of both: for each row of figures
below a line of years, does that line stand in the chunk that holds the row, and does it when tables that the chunk cuts
are made whole, as ``extend`` does?
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.formats.pdf import tidy

FIGURE = re.compile(r"\(?-?\(?\d{1,3}(,\d{3})+\)?%?|\(?\d+\.\d+\)?%?")
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
HEAD_WORDS, ROWS_BELOW = 14, 40
"""A line of years has at most so many words; it heads at most so many lines."""


def with_gaps(page: Any) -> str:
    """The page's text with three blanks where its words stand further apart than they are high."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    parts: list[str] = []
    edge: float | None = None
    blank = False
    for at in range(page.count_chars()):
        letter = chr(pdfium.FPDFText_GetUnicode(page.raw, at))
        if letter == " ":
            blank = True
            continue
        if letter in "\r\n":
            edge, blank = None, False
        else:
            known = pdfium.FPDFText_GetCharBox(page.raw, at, left, right, bottom, top)
            if blank:
                box = pdfium.FS_RECTF()
                pdfium.FPDFText_GetLooseCharBox(page.raw, at, box)
                wide = known and edge is not None and left.value - edge > abs(box.top - box.bottom)
                parts.append("   " if wide else " ")
                blank = False
            if known and right.value > left.value:
                edge = right.value
        parts.append(letter)
    return "".join(parts)


def headed_rows(text: str) -> list[tuple[tuple[int, int], int]]:
    """For each row of figures the range of the line of years above it, and where the row begins."""
    found, head, below = [], None, 0
    for line in re.finditer(r"[^\n]+", text):
        words = line[0].replace("$", " ").split()
        figures = sum(FIGURE.fullmatch(word) is not None for word in words)
        if len(YEAR.findall(line[0])) >= 2 and not figures and len(words) <= HEAD_WORDS:
            head, below = line.span(), 0
            continue
        below += 1
        if head and below <= ROWS_BELOW and figures >= 2 and re.search("[A-Za-z]{3}", line[0]):
            found.append((head, line.start()))
    return found


def heads_shown(document: Document, granularity: int) -> tuple[int, int]:
    """Rows whose head stands in their chunk, and rows for which it does when cut tables are made whole."""
    chunks = chunk_document(document, granularity)
    in_chunk = in_whole = 0
    for (start, end), row in headed_rows(document.text):
        low, high = next((c.start_char, c.end_char) for c in chunks if c.start_char <= row < c.end_char)
        in_chunk += low <= start and end <= high
        for table in document.tables:
            if table.start_char < high and table.end_char > low:
                low, high = min(low, table.start_char), max(high, table.end_char)
        in_whole += low <= start and end <= high
    return in_chunk, in_whole


def main(data: Path) -> None:
    documents: dict[str, list[Document]] = {"as read": [], "with gaps": []}
    for path in sorted((data / "pdf").glob("*.pdf")):
        pages = [page.get_textpage() for page in pypdfium2.PdfDocument(path)]
        plain = [tidy(str(page.get_text_bounded())) for page in pages]
        spaced = [tidy(with_gaps(page)) for page in pages]
        assert ["".join(page.split()) for page in plain] == ["".join(page.split()) for page in spaced], path
        for name, texts in zip(documents, (plain, spaced), strict=True):
            text = "\n\n".join(filter(None, texts))
            documents[name].append(make_document(RawDocument(path.stem, text, path.stem)))
    print(
        "| text | tables | tokens | chunk size | rows | head in the chunk | with whole tables |",
        "|---|---|---|---|---|---|---|",
        sep="\n",
    )
    for name, held in documents.items():
        tables, tokens = sum(len(each.tables) for each in held), sum(count_tokens(each.text) for each in held)
        rows = sum(len(headed_rows(each.text)) for each in held)
        for size in (150, 256, 400):
            shown = [heads_shown(each, size) for each in held]
            chunk, whole = (sum(each[n] for each in shown) / rows for n in (0, 1))
            print(f"| {name} | {tables} | {tokens:,} | {size} | {rows} | {chunk:.3f} | {whole:.3f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
