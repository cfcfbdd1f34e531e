"""Choose the parser of a file by its suffix; ``read_source`` applies it.

The parsers are in ``formats``. An error in a file never affects other files.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Final

from okralong.pipelines.core.types import NOT_READ, DocumentError
from okralong.pipelines.indexing.documents import BadRow, Parser, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats.edgar import read_page
from okralong.pipelines.indexing.formats.html import read_html
from okralong.pipelines.indexing.formats.mail import read_mail
from okralong.pipelines.indexing.formats.ocr import NO_OCR, Ocr, read_image
from okralong.pipelines.indexing.formats.pdf import read_pdf
from okralong.pipelines.indexing.formats.powerpoint import read_pptx
from okralong.pipelines.indexing.formats.rows import read_jsonl, read_parquet
from okralong.pipelines.indexing.formats.sheets import read_csv, read_xlsx
from okralong.pipelines.indexing.formats.text import read_markdown, read_plain
from okralong.pipelines.indexing.formats.word import read_docx

PARSERS: Final[Mapping[str, Parser]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".docx": read_docx,
    ".docm": read_docx,
    ".dotx": read_docx,
    ".dotm": read_docx,
    ".xlsx": read_xlsx,
    ".xlsm": read_xlsx,
    ".xltx": read_xlsx,
    ".xltm": read_xlsx,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".pptx": read_pptx,
    ".pptm": read_pptx,
    ".ppsx": read_pptx,
    ".ppsm": read_pptx,
    ".potx": read_pptx,
    ".potm": read_pptx,
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
}
IMAGE_PARSERS: Final[Mapping[str, Callable[[Source, Ocr], Iterator[ParserOutput]]]] = {
    ".pdf": read_pdf,
    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
    ".tif": read_image,
    ".tiff": read_image,
}
"""Parsers by suffix that may need OCR."""

PAGE_PARSERS: Final[Mapping[str, Parser]] = {
    ".txt": read_plain,
    ".text": read_plain,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
}
"""Parsers by suffix of files that may be submissions to EDGAR."""

_FOREIGN: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"%PDF-"), "a PDF: give it the suffix .pdf"),
    (re.compile(rb"\{\\rtf"), "Rich Text: open it in a word processor and save it as .docx"),
    (re.compile(rb"PK\x03\x04"), "a zip file: give it its true suffix (.docx, .xlsx, .pptx), or unpack it"),
    (
        re.compile(rb"\xd0\xcf\x11\xe0"),
        "an old Office file or an Outlook message: open it and save it as .docx, .xlsx, .pptx or .eml",
    ),
    (
        re.compile(rb"(?:[\w-]+:[^\n]*\n(?:[ \t][^\n]*\n)*)*?content-type:\s*multipart/", re.IGNORECASE),
        "a mail or a web archive (MHTML): give it the suffix .eml",
    ),
)
"""What a file begins with that is something else than its suffix says, and what to do."""
_ZIP: Final = b"PK\x03\x04"
_PEEK_BYTES: Final = 2_048
_PAGE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:<\?xml[^>]*>\s*+)?(?:<!doctype html|<html)\b", re.IGNORECASE)

MAIL: Final = ".eml"
_ZIPPED: Final = frozenset(suffix for suffix in PARSERS if PARSERS[suffix] in (read_docx, read_xlsx, read_pptx))
SUFFIXES: Final = (*PAGE_PARSERS, *PARSERS, *IMAGE_PARSERS, MAIL)

_VERSIONS: Final[Mapping[str, str]] = {
    ".txt": "2",
    ".text": "2",
    ".md": "3",
    ".markdown": "3",
    ".html": "3",
    ".htm": "3",
    ".pdf": "5",
    ".png": "3",
    ".jpg": "3",
    ".jpeg": "3",
    ".tif": "3",
    ".tiff": "3",
    ".docx": "4",
    ".pptx": "3",
    ".xlsx": "4",
    ".csv": "2",
    ".tsv": "2",
    ".eml": "3",
    ".jsonl": "2",
    ".parquet": "2",
}
"""Versions of parsers that changed since the first release: they find sections, tables, and columns in addition to
the texts."""

WITHOUT_OCR: Final = "-"
"""Suffix of the version of a parser that left pages unread for lack of OCR."""


def parser_version(name: str) -> str:
    """Return the version of a file's parser by suffix; "" for the first."""
    return _VERSIONS.get(PurePosixPath(name).suffix.lower(), "")


def is_parsed_as_today(version: str, name: str, ocr: bool) -> bool:
    """Return whether a file read by a parser of ``version`` is up to date; ``ocr`` means that OCR is available."""
    today = parser_version(name)
    return version == today or (version == today + WITHOUT_OCR and not ocr)


def is_supported(name: str) -> bool:
    """Return whether files with this suffix are read."""
    return PurePosixPath(name).suffix.lower() in SUFFIXES


def parser_for(name: str, ocr: Ocr = NO_OCR) -> Parser | None:
    """Return the parser of a file by its suffix, or None."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == MAIL:
        return partial(read_mail, find=partial(parser_for, ocr=ocr))
    if (read_text := PAGE_PARSERS.get(suffix)) is not None:
        return partial(read_page, find=partial(parser_for, ocr=ocr), read=read_text)
    if (read := IMAGE_PARSERS.get(suffix)) is not None:
        return lambda source: read(source, ocr)
    return PARSERS.get(suffix)


def read_source(source: Source, max_bytes: int, ocr: Ocr = NO_OCR) -> Iterator[ParserOutput]:
    """Yield every document of ``source``, and a BadRow for each that cannot be read. Raises MemoryError only."""
    try:
        parse = parser_for(source.uri, ocr)
        if parse is None:
            raise DocumentError(f"{source.uri} has an unsupported suffix. Supported are {', '.join(SUFFIXES)}.")
        if source.size > max_bytes:
            raise DocumentError(
                f"{source.uri} has {source.size / 1e6:.1f} MB, more than max_file_megabytes = {max_bytes / 1e6:g}. "
                "Raise it in the index config, or split the file."
            )
        found = False
        for reading in (_by_content(source) or parse)(source):
            found = True
            yield _checked(reading)
        if not found:
            raise DocumentError(f"{source.uri} holds no rows. Put documents into it, or leave it out of the folder.")
    except MemoryError:
        raise  # this process must not continue
    except DocumentError as error:
        yield BadRow(source.doc_id, str(error))
    except Exception as error:  # a parser may fail in any way on a damaged file
        yield BadRow(
            source.doc_id,
            f"{source.uri} made its parser fail ({type(error).__name__}: {error}). "
            "Open and save it again with the program that made it, or leave it out of the folder.",
        )


def _by_content(source: Source) -> Parser | None:
    """Return the parser of a web page named .txt, None for others.

    Raises:
        DocumentError: The file is empty, cut off, or of another format than its suffix says.
    """
    suffix = PurePosixPath(source.uri).suffix.lower()
    with source.open() as stream:
        head = bytes(stream.read(_PEEK_BYTES))
        if not head:
            raise DocumentError(f"{source.uri} is empty (0 bytes). Fetch it anew, or leave it out of the folder.")
        if suffix in _ZIPPED and head.startswith(_ZIP) and not _is_zip(stream):
            raise DocumentError(
                f"{source.uri} is cut off, as by a broken download: its end is missing. Fetch it anew, or open it in "
                "the program that made it, which may repair it, and save it again."
            )
    if found := next((what for begins, what in _foreign(suffix) if begins.match(head)), ""):
        raise DocumentError(f"{source.uri} is not what its suffix says, but {found}, or leave it out of the folder.")
    return read_html if PAGE_PARSERS.get(suffix) is read_plain and _PAGE.match(head) else None


def _is_zip(stream: IO[bytes]) -> bool:
    try:
        return zipfile.is_zipfile(stream)
    except ValueError:  # Arrow's for a file too short to have an end
        return False


def _foreign(suffix: str) -> tuple[tuple[re.Pattern[bytes], str], ...]:
    """Return what a file with this suffix may be instead."""
    if suffix in (*PAGE_PARSERS, ".md", ".markdown", ".csv", ".tsv"):
        return _FOREIGN
    if suffix in _ZIPPED:  # those begin like zip files, and the parsers explain old Office files
        return (*_FOREIGN[:2], (_PAGE, "a web page: give it the suffix .html"))
    if suffix == ".pdf":
        return (*_FOREIGN[1:4], (_PAGE, "a web page, such as an error message or a login: fetch the PDF anew"))
    return _FOREIGN[:4] if suffix == MAIL else ()


def _checked(reading: ParserOutput) -> ParserOutput:
    if isinstance(reading, RawDocument) and not reading.text.strip():
        place = f"{reading.source_uri}, {reading.where}," if reading.where else reading.source_uri
        left = f" (not read: {reading.metadata[NOT_READ]})" if NOT_READ in reading.metadata else ""
        return BadRow(reading.doc_id, f"{place} holds no text{left}. Check the file, or leave it out of the folder.")
    return reading
