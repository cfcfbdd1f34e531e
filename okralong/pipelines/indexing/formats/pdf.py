"""Parse PDF files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pypdfium2
import pypdfium2.raw as pdfium

from okralong.pipelines.core.types import DocumentError, Section
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.documents import BETWEEN_BLOCKS, Losses, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import (
    BETTER_SCAN,
    DOUBTFUL,
    LONGEST_SIDE,
    Ocr,
    is_blank,
    is_scan,
)
from okralong.pipelines.indexing.formats.pdf_layers import with_marks
from okralong.pipelines.indexing.formats.pdf_page import Form, Page, State, attachment_name, read_page, tidy
from okralong.pipelines.indexing.formats.tables_of_pages import PageTables, TableReader, count_pages, document_tables

# With PDFium (pypdfium2, Apache-2.0), chosen over pypdf and pdfplumber for its speed and because more gold answers
# survive its extraction (``benchmarks/results/pdf_readers.md``).

_PASSWORD_ERROR: Final = 4
"""FPDF_ERR_PASSWORD of PDFium."""
_SECURITY_ERROR: Final = 5
"""FPDF_ERR_SECURITY of PDFium."""
_END_BYTES: Final = 4096
"""The end mark of a whole file is within this many bytes of its end; PDFium looks as far."""

PAGES_WITHOUT_TEXT: Final = "pages_without_text"
"""Metadata key for the number of pages that need OCR."""


def read_pdf(source: Source, ocr: Ocr) -> Iterator[ParserOutput]:
    """Yield the document of a .pdf file; ``ocr`` reads pages without legible text, if it is on.

    Raises:
        DocumentError: The file is damaged, needs a password or another program, or has no legible text.
    """
    data = source.read_bytes()
    pdf = _open(data, source.uri)
    try:
        if pdf.get_formtype() == pdfium.FORMTYPE_XFA_FULL:
            raise DocumentError(
                f"{source.uri} is an XFA form, which only Adobe's programs show. Print it to a PDF and index that."
            )
        is_whole = bool(pdfium.FPDF_DocumentHasValidCrossReferenceTable(pdf.raw))
        losses = Losses()
        pdf, layered = _with_marked_layers(pdf, data, source.uri, losses)
        form = Form(pdf)
        title = str(pdf.get_metadata_value("Title") or "").strip("\x00 ")
        day = _day(str(pdf.get_metadata_value("CreationDate") or ""))
        reader = TableReader()
        pages = [read_page(pdf, number, form, reader, layered=layered) for number in range(len(pdf))]
        form.close()
        if ocr.is_on:
            pages = _after_ocr(pdf, pages, source.uri, ocr, reader)
        _count_losses(pages, losses, ocr)
        reader.count_losses(losses)
        losses.add("form field", "form fields", form.unread)
        _count_files(pdf, pages, losses)
        if not is_whole:
            _count_damage(data, pages, losses)
    finally:
        pdf.close()
    by_ocr = frozenset(number for number, page in enumerate(pages) if page.state == "ocr")
    text, sections = joined_pages([page.with_notes() for page in pages], by_ocr)
    starts = {section.name: section.start_char for section in sections}
    tables = document_tables(
        (PageTables(name, starts[name], page.text, page.tables) if (name := str(number)) in starts else None)
        for number, page in enumerate(pages, start=1)
    )
    if not text:
        raise DocumentError(_why_no_text(source.uri, pages, ocr))
    waiting = 0 if ocr.is_on else sum(page.state in _FOR_OCR for page in pages)
    counts = {"pages": len(pages), "ocr_pages": len(by_ocr), PAGES_WITHOUT_TEXT: waiting}
    metadata = {name: str(count) for name, count in counts.items() if count} | day | losses.metadata()
    yield RawDocument(source.doc_id, text, source.uri, title=title, metadata=metadata, sections=sections, tables=tables)


def _open(data: bytes, uri: str) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        code = getattr(error, "err_code", None)
        if code == _PASSWORD_ERROR:
            raise DocumentError(
                f"{uri} is encrypted and needs a password. Save a copy without password and index that."
            ) from error
        if code == _SECURITY_ERROR:
            raise DocumentError(
                f"{uri} is encrypted in a way that only the program of its publisher opens. Save a copy without "
                "encryption and index that."
            ) from error
        if b"%PDF-" not in data[:1024]:
            why = "it does not begin with %PDF, so it is a file of another format"
        elif b"%%EOF" not in data[-_END_BYTES:]:
            why = "its end is missing: it is cut off, as by a broken download"
        else:
            why = str(error)
        raise DocumentError(
            f"{uri} is not a readable PDF ({why}). Save it again with a PDF program, or fetch it anew."
        ) from error


def _with_marked_layers(
    pdf: pypdfium2.PdfDocument, data: bytes, uri: str, losses: Losses
) -> tuple[pypdfium2.PdfDocument, bool]:
    """Return the document with marks on what is off, and whether something is."""
    try:
        marked = with_marks(pdf, data)
    except ValueError:
        losses.add("file whose layers may be off", "files whose layers may be off")
        return pdf, False
    if not marked:
        return pdf, False
    pdf.close()
    return _open(marked, uri), True


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


# Pages that need OCR.

_FOR_OCR: Final[Sequence[State]] = ("image", "illegible", "partly", "picture")
_BETTER: Final = 1.5
"""OCR replaces the text beside a picture if it finds this many times as much. # project default"""


def _after_ocr(
    pdf: pypdfium2.PdfDocument, pages: Sequence[Page], uri: str, ocr: Ocr, reader: TableReader
) -> list[Page]:
    """Return the pages with the text of their images; a page whose image has no words is a picture."""
    read, looked_at = list(pages), 0
    for number, page in enumerate(pages):
        if page.state not in _FOR_OCR:
            continue
        shown = pdf[number]
        image = shown.render(scale=LONGEST_SIDE / max(shown.get_size())).to_numpy()[:, :, :3]
        shown.close()
        if is_blank(image):
            read[number] = replace(page, state="blank")
            continue
        if page.state == "picture" and not is_scan(image):
            read[number] = replace(page, state="text", pictures=1)
            continue
        looked_at += 1
        ocr.check(looked_at, uri)
        found = ocr.read(image)
        text = tidy(found.text)
        if len(text) > (_BETTER * len(page.text) if page.state == "picture" else 0):
            tables = reader.of_words(number + 1, found.words_in(text))
            read[number] = replace(page, text=text, state="ocr", doubtful=found.is_doubtful, tables=tables)
        elif page.state in ("image", "picture"):
            read[number] = replace(page, state="text", pictures=1)
    return read


# What is not read.

_MOST_NAMES: Final = 10
"""Names of attached files that are listed. # project default"""
_SETTINGS: Final = ".joboptions"
"""Suffix of the settings that Acrobat attaches to what it makes."""


def _count_losses(pages: Sequence[Page], losses: Losses, ocr: Ocr) -> None:
    """Count pages without legible text by number, and pictures."""
    for states, kind, remedy in (
        (("image", "illegible"), "without readable text", ocr.remedy),
        (("partly",), "with partly unreadable text", ocr.remedy),
        (("picture",), "with little text beside a picture", ocr.remedy),
        (("damaged",), "with damage", "save the file again with a PDF program"),
    ):
        count_pages(losses, kind, [at for at, page in enumerate(pages, start=1) if page.state in states], remedy)
    count_pages(losses, DOUBTFUL, [at for at, page in enumerate(pages, start=1) if page.doubtful], BETTER_SCAN)
    hidden = [at for at, page in enumerate(pages, start=1) if page.hides_text]
    count_pages(losses, "with text in layers that are off", hidden)
    losses.add("hidden note or form field", "hidden notes or form fields", sum(page.hidden_notes for page in pages))
    losses.add("picture", "pictures", sum(page.pictures for page in pages))
    losses.add("sound, film or 3D model", "sounds, films or 3D models", sum(page.media for page in pages))


def _count_files(pdf: pypdfium2.PdfDocument, pages: Sequence[Page], losses: Losses) -> None:
    """Count attached files, of which a portfolio consists, by name."""
    count = pdfium.FPDFDoc_GetAttachmentCount(pdf.raw)
    looked_at = range(min(count, _MOST_NAMES))  # each takes time in the number of all
    names = [attachment_name(pdfium.FPDFDoc_GetAttachment(pdf.raw, at)) for at in looked_at]
    names += [name for page in pages for name in page.files]
    shown = [name for name in names if not name.endswith(_SETTINGS)]
    count += len(shown) - len(looked_at)
    listed = ", ".join(shown[:_MOST_NAMES]) + (", ..." if count > _MOST_NAMES else "")
    losses.add(f"attached file: {listed}", f"attached files: {listed}", count, "save attachments beside the file")


def _count_damage(data: bytes, pages: Sequence[Page], losses: Losses) -> None:
    """Count what a damaged file lacks, whose list of objects PDFium rebuilt from what is left."""
    blank = [at for at, page in enumerate(pages, start=1) if page.state == "blank"]
    count_pages(losses, "that may have lost text", blank)
    if b"%%EOF" not in data[-_END_BYTES:]:
        losses.add("missing part at the end, where the file is cut off", "missing parts", 1, "fetch the file anew")


def _why_no_text(uri: str, pages: Sequence[Page], ocr: Ocr) -> str:
    """Return why a file has no text at all, and what to do."""
    why = ocr.why_not or "OCR found no words in them either. Check the file, or leave it out with --exclude."
    states = {page.state for page in pages}
    if "illegible" in states:
        what = "no readable text: its fonts do not say which characters their signs are"
    elif states == {"damaged"}:
        what = f"{counted(len(pages), 'page')}, all of them damaged"
        return f"{uri} has {what}. Save it again with a PDF program, or fetch it anew."
    elif any(page.hides_text for page in pages):
        what = "all of its text is in layers that are off"
        return f"{uri} has {counted(len(pages), 'page')}, and {what}. Switch them on and save it, or leave it out."
    else:
        what = "no text layer; it seems to be a scan"
    return f"{uri} has {counted(len(pages), 'page')} and {what}. {why}"
