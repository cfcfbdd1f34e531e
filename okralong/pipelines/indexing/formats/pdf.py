"""Parse PDF files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pypdfium2

from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.documents import BETWEEN_BLOCKS, ParserOutput, RawDocument, Source, newlines
from okralong.pipelines.indexing.formats.ocr import LONGEST_SIDE, Ocr, is_blank

# With PDFium (pypdfium2, Apache-2.0), chosen over pypdf and pdfplumber for its speed and because more gold answers
# survive its extraction (``benchmarks/results/pdf_readers.md``).

_PASSWORD_ERROR: Final = 4
"""FPDF_ERR_PASSWORD of PDFium."""

_HYPHEN: Final = re.compile("[\x02\ufffe\uffff]")
"""PDFium's replacements for a hyphen at the end of a line."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_pdf(source: Source, ocr: Ocr) -> Iterator[ParserOutput]:
    """Yield the document of a .pdf file; ``ocr`` reads pages without a text layer, if it is on.

    Raises:
        DocumentError: The file is damaged, needs a password, or has no text.
    """
    data = source.read_bytes()
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise DocumentError(
                f"{source.uri} is encrypted and needs a password. Save a copy without password and index that."
            ) from error
        raise DocumentError(
            f"{source.uri} is not a readable PDF ({error}). Save it again with a PDF program, or fetch it anew."
        ) from error
    try:
        title = str(pdf.get_metadata_value("Title") or "").strip("\x00 ")
        day = _day(str(pdf.get_metadata_value("CreationDate") or ""))
        pages = [_page_text(pdf, number, source.uri) for number in range(len(pdf))]
        bare = [number for number, page in enumerate(pages) if not page]
        scanned = _scanned(pdf, bare, source.uri, ocr) if ocr.is_on else {}
    finally:
        pdf.close()
    pages = [page or scanned.get(number, "") for number, page in enumerate(pages)]
    text, sections = joined_pages(pages, frozenset(scanned))
    if not text:
        why = ocr.why_not or "OCR found no words in them either. Check the file, or leave it out with --exclude."
        raise DocumentError(
            f"{source.uri} has {counted(len(pages), 'page')} and no text layer; it seems to be a scan. {why}"
        )
    counts = {"pages": len(pages), "ocr_pages": len(scanned), PAGES_WITHOUT_TEXT: 0 if ocr.is_on else len(bare)}
    metadata = {name: str(count) for name, count in counts.items() if count} | day
    yield RawDocument(source.doc_id, text, source.uri, title=title, metadata=metadata, sections=sections)


PAGES_WITHOUT_TEXT: Final = "pages_without_text"
"""Metadata key for the number of pages that need OCR."""


def _scanned(pdf: pypdfium2.PdfDocument, bare: Sequence[int], uri: str, ocr: Ocr) -> dict[int, str]:
    """Return the text of pages without a text layer, by page index from 0."""
    found: dict[int, str] = {}
    looked_at = 0
    for number in bare:
        page = pdf[number]
        image = page.render(scale=LONGEST_SIDE / max(page.get_size())).to_numpy()[:, :, :3]
        page.close()
        if is_blank(image):
            continue
        looked_at += 1
        ocr.check(looked_at, uri)
        if text := tidy(ocr.text(image)):
            found[number] = text
    return found


_DATE: Final = re.compile(r"D:(\d{4})(\d{2})(\d{2})")


def _day(said: str) -> dict[str, str]:
    """Return the day of a PDF date, "D:20240131120000+01'00'"."""
    found = _DATE.match(said)
    return {"date": "-".join(found.groups())} if found and found[1] > "1970" else {}


def joined_pages(pages: Sequence[str], by_ocr: frozenset[int] = frozenset()) -> tuple[str, tuple[Section, ...]]:
    """Join the texts of pages and return where each page with text begins.

    ``by_ocr`` are the indices, from 0, of pages read from an image.
    """
    parts: list[str] = []
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(pages, start=1):
        if page:
            sections.append(Section("page", str(number), start, number - 1 in by_ocr))
            parts.append(page)
            start += len(page) + len(BETWEEN_BLOCKS)
    return BETWEEN_BLOCKS.join(parts), tuple(sections)


def _page_text(pdf: pypdfium2.PdfDocument, number: int, uri: str) -> str:
    try:
        page = pdf[number]
        textpage = page.get_textpage()
        raw = str(textpage.get_text_bounded())
        textpage.close()
        page.close()
    except pypdfium2.PdfiumError as error:
        raise DocumentError(
            f"{uri}, page {number + 1}, cannot be read ({error}). Open and save the file again with a PDF program."
        ) from error
    return tidy(raw)


def tidy(raw: str) -> str:
    """Return a page's text without PDFium's marks for line ends and hyphens, control characters and trailing blanks."""
    text = _CONTROL.sub("", _HYPHEN.sub("-", newlines(raw))).encode("utf-8", "replace").decode()
    # Line by line: a regular expression for trailing blanks takes quadratic time on blanks within a line.
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).strip()
