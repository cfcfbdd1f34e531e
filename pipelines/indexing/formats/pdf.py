"""The reader of PDF."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pypdfium2

from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.indexing.documents import BETWEEN_BLOCKS, RawDocument, Reading, Source, newlines

# PDF by PDFium (pypdfium2, Apache-2.0), chosen over pypdf and pdfplumber by how many gold answers survive extraction
# and by speed; see ``benchmarks/pdf_readers.py``.

_PASSWORD_ERROR: Final = 4
"""FPDF_ERR_PASSWORD of PDFium."""

_HYPHEN: Final = re.compile("[\x02\ufffe\uffff]")
"""What PDFium writes in place of a hyphen at the end of a line."""

_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def read_pdf(source: Source) -> Iterator[Reading]:
    """The one document of a .pdf file.

    Raises DocumentError when the file is damaged, asks for a password, or has no text layer (a scan).
    """
    data = source.read_bytes()
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD_ERROR:
            raise DocumentError(
                f"{source.uri} is encrypted and asks for a password. Save a copy without password and index that."
            ) from error
        raise DocumentError(
            f"{source.uri} is not a readable PDF ({error}). Save it again with a PDF program, or fetch it anew."
        ) from error
    try:
        title = str(pdf.get_metadata_value("Title") or "").strip("\x00 ")
        day = _day(str(pdf.get_metadata_value("CreationDate") or ""))
        pages = [_page_text(pdf, number, source.uri) for number in range(len(pdf))]
    finally:
        pdf.close()
    text, sections = joined_pages(pages)
    if not text:
        raise DocumentError(
            f"{source.uri} has {len(pages)} pages and no text layer; it seems to be a scan. "
            "Run it through OCR (for example ocrmypdf) and index the result."
        )
    yield RawDocument(
        source.doc_id, text, source.uri, title=title, metadata={"pages": str(len(pages))} | day, sections=sections
    )


_DATE: Final = re.compile(r"D:(\d{4})(\d{2})(\d{2})")


def _day(said: str) -> dict[str, str]:
    """The day of a date as PDF writes it, "D:20240131120000+01'00'"."""
    found = _DATE.match(said)
    return {"date": "-".join(found.groups())} if found and found[1] > "1970" else {}


def joined_pages(pages: Sequence[str]) -> tuple[str, tuple[Section, ...]]:
    """The text of a document from the texts of its pages, and where each page with text begins in it."""
    parts: list[str] = []
    sections: list[Section] = []
    start = 0
    for number, page in enumerate(pages, start=1):
        if page:
            sections.append(Section("page", str(number), start))
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
    """The text of a page without PDFium's marks for line ends and hyphens, control characters and trailing blanks."""
    text = _CONTROL.sub("", _HYPHEN.sub("-", newlines(raw))).encode("utf-8", "replace").decode()
    # Line by line: an expression for the blanks at a line's end takes quadratic time where they are in its middle.
    return "\n".join(line.rstrip(" \t") for line in text.split("\n")).strip()
