"""Split a submission to the SEC's EDGAR into its documents: the main document, and each exhibit.

A submission is a text file: a header, then ``<DOCUMENT>`` blocks with a type, a file name and a content, which is a web
page, plain text, an XML form, or an encoded file. Each block with text becomes a document named after its type.
"""

from __future__ import annotations

import binascii
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from okralong.pipelines.core.types import NOT_READ, DocumentError
from okralong.pipelines.indexing.documents import (
    BadRow,
    HeldSource,
    Losses,
    Parser,
    ParserOutput,
    RawDocument,
    Source,
    newlines,
)
from okralong.pipelines.indexing.formats.edgar_text import document_of_text
from okralong.pipelines.indexing.formats.html import page_of_html
from okralong.pipelines.indexing.formats.html_markup import decode_html
from okralong.pipelines.indexing.formats.xml_text import text_of_xml

_Find = Callable[[str], Parser | None]

_PEEK_BYTES: Final = 4_096
_BEGINS: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:-----BEGIN PRIVACY-ENHANCED MESSAGE-----"
    rb"|<(?:(?:SEC|IMS)-(?:DOCUMENT|HEADER)|SUBMISSION|DOCUMENT)>)"
)
_DOCUMENT: Final = re.compile(rb"<DOCUMENT>\s*<TYPE>")


def read_page(source: Source, find: _Find, read: Parser) -> Iterator[ParserOutput]:
    """Yield what ``read`` finds in a file, or the documents of a submission.

    ``find`` returns the parser of an encoded file by its name.
    """
    with source.open() as stream:
        may_be = _BEGINS.match(bytes(stream.read(_PEEK_BYTES))) is not None
    if may_be and _DOCUMENT.search(data := source.read_bytes()):
        yield from _read(source, data, find)
    else:
        yield from read(source)


def _read(source: Source, data: bytes, find: _Find) -> Iterator[ParserOutput]:
    submissions = list(_split(data))
    several = len(submissions) > 1
    is_one_document = not several and not submissions[0].has_header and len(submissions[0].blocks) == 1
    taken: dict[str, int] = {}
    for submission in submissions:
        about = _metadata(submission)
        below = f"{source.doc_id}/{_name(about.get('accession', 'submission'))}" if several else source.doc_id
        readings, losses = _readings(submission, source, find)
        if several and not readings:
            left = f" (not read: {losses.words()})" if losses.words() else ""
            yield BadRow(below, f"{source.uri}, {below}, holds no text{left}. Fetch it anew if it should have some.")
        first = True
        for block, reading in readings:
            name = source.doc_id if is_one_document else _free(f"{below}/{_name(block.kind)}", taken)
            if isinstance(reading, BadRow):
                yield replace(reading, doc_id=name)
                continue
            metadata = about | block.metadata() | dict(reading.metadata)
            if first and (lost := losses.words()):
                metadata[NOT_READ] = "; ".join(filter(None, [metadata.get(NOT_READ, ""), lost]))
            first = False
            titles = (title for title in (reading.title, block.about) if not block.is_called(title))
            title = next(titles, f"{about.get('company', '')} {block.kind}".strip())
            where = f"document {block.number}, {block.kind or 'without a type'}"
            yield replace(reading, doc_id=name, source_uri=source.uri, title=title, where=where, metadata=metadata)
    if not taken and not is_one_document:
        raise DocumentError(
            f"{source.uri} is a submission without text: it holds only pictures and data. Leave it out of the folder."
        )


def _name(kind: str) -> str:
    """Return the last part of a document's id: its type, such as "10-K" or "EX-10.1"."""
    return re.sub(r"[^\w.()-]+", "-", kind).strip("-.") or "text"


def _free(name: str, taken: dict[str, int]) -> str:
    """Return ``name``, with a number where an earlier document has it, and take it."""
    number, free = taken.get(name, 0) + 1, name
    while number > 1 and (free := f"{name}-{number}") in taken:
        number += 1
    taken[name] = number
    taken.setdefault(free, 1)
    return free


# The blocks.

_MARKS: Final = re.compile(
    rb"(?P<document><DOCUMENT>)(?=\s*<TYPE>)|(?P<end>(?:</TEXT>\s*)?</DOCUMENT>)"
    rb"|(?P<begin>^<(?:(?:SEC|IMS)-DOCUMENT|SUBMISSION)>|^-----BEGIN PRIVACY-ENHANCED MESSAGE-----)"
    rb"|(?P<close></(?:(?:SEC|IMS)-DOCUMENT|SUBMISSION)>|^-----END PRIVACY-ENHANCED MESSAGE-----)",
    re.MULTILINE,
)
_TEXT: Final = re.compile(rb"<TEXT>")
_HEAD_LINES: Final = re.compile(rb"(?:\s*<(?:TYPE|SEQUENCE|FILENAME|DESCRIPTION)>[^\r\n]*)*")
_FIELD: Final = re.compile(rb"<(TYPE|FILENAME|DESCRIPTION)>([^<\r\n]*)")
_MOST_HEAD_BYTES: Final = 8_192
_MOST_VALUE_CHARS: Final = 300
_MOST_HEADER_BYTES: Final = 200_000


@dataclass(slots=True)
class _Block:
    """A document of a submission: its number, type, file name, description and content."""

    number: int
    kind: str = ""
    file: str = ""
    about: str = ""
    content: bytes = b""

    @classmethod
    def of(cls, number: int, data: bytes) -> _Block:
        """Return the block that ``data`` describes."""
        lines = _HEAD_LINES.match(data)
        begin = _TEXT.search(data, 0, _MOST_HEAD_BYTES)
        at = begin.start() if begin else lines.end() if lines else 0
        said = {key.decode(): _words(value) for key, value in _FIELD.findall(data[:at])}
        content = data[begin.end() if begin else at :].strip().removesuffix(b"</TEXT>").strip()
        return cls(
            number,
            said.get("TYPE", ""),
            said.get("FILENAME", ""),
            said.get("DESCRIPTION", ""),
            content,
        )

    def is_called(self, title: str) -> bool:
        """Return whether a title says no more than the type or file name."""
        names = {"", self.kind.lower(), self.file.lower(), PurePosixPath(self.file.lower()).stem}
        return title.strip().lower() in names

    def metadata(self) -> dict[str, str]:
        """Return what the block says of itself."""
        said = {"type": self.kind, "filename": self.file, "description": self.about}
        return {name: value for name, value in said.items() if value}


@dataclass(slots=True)
class _Submission:
    """A submission: its header, its blocks, and whether the last of them ends before the file does."""

    header: bytes = b""
    blocks: list[_Block] = field(default_factory=list)
    breaks_off: bool = False
    has_header: bool = False

    def extend_header(self, data: bytes) -> None:
        """Add to the header what precedes the first block."""
        self.header += data[: max(0, _MOST_HEADER_BYTES - len(self.header))]

    def add(self, data: bytes) -> None:
        """Add a block."""
        self.blocks.append(_Block.of(len(self.blocks) + 1, data))


def _split(data: bytes) -> Iterator[_Submission]:
    """Yield the submissions of a file. Text between their blocks becomes a block without a type."""
    current, at, is_open = _Submission(), 0, False
    for match in _MARKS.finditer(data):
        before = data[at : match.start()]
        if is_open:
            current.add(before)
        elif not current.blocks:
            current.extend_header(before)
        elif before.strip():
            current.blocks.append(_Block(len(current.blocks) + 1, content=before.strip()))
        is_open = match.lastgroup == "document"
        if match.lastgroup == "begin":
            if current.blocks:
                yield current
                current = _Submission()
            current.has_header = True
            current.extend_header(match[0])
        at = match.end()
    rest = data[at:]
    if is_open:
        current.add(rest)
        current.breaks_off = True
    elif current.blocks and rest.strip():
        current.blocks.append(_Block(len(current.blocks) + 1, content=rest.strip()))
    if current.blocks:
        current.has_header = current.has_header or b"-HEADER>" in current.header
        yield current


# The header.

_HEADER_LINE: Final = re.compile(r"^[ \t]*(?:<([A-Z][A-Z0-9-]*)>|([A-Z][A-Z0-9 /]*?):)[ \t]*(\S[^\r\n]*)", re.MULTILINE)
_NAMES: Final = {
    "ACCESSION NUMBER": "accession",
    "CONFORMED SUBMISSION TYPE": "form",
    "TYPE": "form",
    "CONFORMED PERIOD OF REPORT": "period",
    "PERIOD": "period",
    "FILED AS OF DATE": "filed",
    "FILING DATE": "filed",
    "COMPANY CONFORMED NAME": "company",
    "CONFORMED NAME": "company",
    "CENTRAL INDEX KEY": "cik",
    "CIK": "cik",
    "STANDARD INDUSTRIAL CLASSIFICATION": "sic",
    "ASSIGNED SIC": "sic",
    "STATE OF INCORPORATION": "state_of_incorporation",
    "FISCAL YEAR END": "fiscal_year_end",
    "ITEM INFORMATION": "items",
    "ITEMS": "items",
    "PUBLIC DOCUMENT COUNT": "documents",
}
"""Fields of a header, and their names in the metadata."""
_FIRST_LINE: Final = re.compile(r"<(?:SEC|IMS)-(?:DOCUMENT|HEADER)>\s*([\d-]{18,24})[^\r\n:]*:\s*(\d{8})")
_DATES: Final = ("period", "filed")
_MOST_VALUES: Final = 10


def _metadata(submission: _Submission) -> dict[str, str]:
    """Return what the header says of the submission; several companies are separated by semicolons."""
    header = _words(submission.header, lines=True)
    found: dict[str, dict[str, None]] = {}
    for tag, key, value in _HEADER_LINE.findall(header):
        if (name := _NAMES.get(key or tag.replace("-", " "))) is not None and (
            name != "form" or key or name not in found
        ):
            found.setdefault(name, {})[value.strip()[:_MOST_VALUE_CHARS]] = None
    said = {name: "; ".join(list(values)[:_MOST_VALUES]) for name, values in found.items()}
    if (first := _FIRST_LINE.search(header)) is not None:
        said = {"accession": first[1], "filed": first[2]} | said
    for name in _DATES:
        if name in said:
            said[name] = _day(said[name])
    if re.fullmatch(r"\d{4}", end := said.get("fiscal_year_end", "")):
        said["fiscal_year_end"] = f"{end[:2]}-{end[2:]}"
    if "filed" in said:
        said["date"] = said["filed"]
    return {name: value for name, value in said.items() if name != "documents"}


def _day(said: str) -> str:
    return f"{said[:4]}-{said[4:6]}-{said[6:8]}" if re.fullmatch(r"\d{8}", said) else said


def _words(data: bytes, lines: bool = False) -> str:
    text = html.unescape(newlines(data.decode("utf-8", "replace")))
    return text if lines else " ".join(text.split())[:_MOST_VALUE_CHARS]


# The content of a block.

_WRAPPERS: Final = (b"XML", b"XBRL", b"PDF", b"JSON")
_ENCODED: Final = re.compile(rb"begin [0-7]{3,4} [^\r\n]*\r?\n")
_ROOT: Final = re.compile(rb"<([A-Za-z][\w:.-]*)")
_PROLOGUE: Final = re.compile(rb"\s*(?:<\?[^>]*>\s*|<!--.*?-->\s*|<!DOCTYPE[^>]*>\s*)*", re.DOTALL | re.IGNORECASE)
_PROLOGUE_WITHIN: Final = 20_000
_PAGE: Final = re.compile(
    rb"<(?:html|body|head|tr|td)\b|<!doctype html|</(?:p|div|td|font|center|span)>", re.IGNORECASE
)
_PAGE_WITHIN: Final = 50_000
_PAGES: Final = (".htm", ".html", ".xhtml")
_DATA_ROOTS: Final = frozenset({"xbrl", "linkbase", "schema", "filingsummary"})
_DATA_SUFFIXES: Final = (".xsd", ".json", ".zip", ".xlsx", ".xls", ".js", ".css", ".xsl")
_VIEWER: Final = re.compile(r"R\d+\.html?$", re.IGNORECASE)

_PICTURES: Final = ("picture", "pictures")
_DATA: Final = ("data file", "data files")
_RENDERED: Final = ("page made from XBRL data", "pages made from XBRL data")
_ENCODED_PDFS: Final = ("encoded PDF", "encoded PDFs")
_OTHERS: Final = ("encoded file", "encoded files")
_WITHOUT_TEXT: Final = ("document of pictures without text", "documents of pictures without text")
_SHOWN: Final = 3


def _readings(submission: _Submission, source: Source, find: _Find) -> tuple[list[tuple[_Block, ParserOutput]], Losses]:
    """Return the blocks with text or with an error, and what the others are."""
    kept: list[tuple[_Block, ParserOutput]] = []
    unread: dict[tuple[str, str], list[str]] = {}
    for block in submission.blocks:
        try:
            reading = _reading(block, source, find)
        except DocumentError as error:
            kept.append((block, BadRow(source.doc_id, str(error))))
            continue
        except MemoryError:
            raise
        except Exception as error:  # a parser may fail in any way on a damaged document; the others are read
            why = f"made its parser fail ({type(error).__name__}: {error})"
            place = f"{source.uri}, document {block.number},"
            kept.append((block, BadRow(source.doc_id, f"{place} {why}. Leave it out, or fetch the file anew.")))
            continue
        if isinstance(reading, RawDocument):
            if reading.text.strip():
                kept.append((block, reading))
            elif NOT_READ in reading.metadata:
                unread.setdefault(_WITHOUT_TEXT, []).append(block.file or block.kind)
        else:
            unread.setdefault(reading, []).append(block.file or block.kind)
    losses = Losses()
    for words, names in unread.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        losses.add(*words, len(names), remedy=f"{', '.join(names[:_SHOWN])}{more}")
    if submission.breaks_off:
        losses.add("end of the file", "ends of files", remedy="it breaks off: download it again")
    missing = _announced(submission) - len(submission.blocks)
    losses.add("missing document", "missing documents", missing, remedy="fewer than the header says")
    return kept, losses


def _announced(submission: _Submission) -> int:
    match = re.search(rb"PUBLIC[ -]DOCUMENT[ -]COUNT[>:]\s*(\d{1,6})", submission.header)
    return int(match[1]) if match else 0


def _reading(block: _Block, source: Source, find: _Find) -> RawDocument | tuple[str, str]:
    """Return the document of a block, or in words what it is instead."""
    content, wrapper = block.content, b""
    for name in _WRAPPERS:
        if content.startswith(b"<%s>" % name):
            wrapper, content = name, content.removeprefix(b"<%s>" % name).strip().removesuffix(b"</%s>" % name).strip()
    suffix = PurePosixPath(block.file).suffix.lower()
    encoded = _ENCODED.match(content)
    if encoded is not None:
        if suffix == ".pdf" or wrapper == b"PDF":
            return _pdf(content[encoded.end() :], block, source, find) or _ENCODED_PDFS
        return _PICTURES if block.kind == "GRAPHIC" else _DATA if suffix in _DATA_SUFFIXES else _OTHERS
    if block.kind == "GRAPHIC":
        return _PICTURES
    if wrapper == b"JSON" or suffix in _DATA_SUFFIXES:
        return _DATA
    place = f"{source.uri}, document {block.number},"
    start = _PROLOGUE.match(content, 0, _PROLOGUE_WITHIN)
    root = _ROOT.match(content, start.end() if start else 0)
    top = root[1].decode().rpartition(":")[2].lower() if root else ""
    if block.kind == "XML" and _VIEWER.search(block.file):
        return _RENDERED
    if top in _DATA_ROOTS:
        return _DATA
    if suffix in _PAGES or top == "html" or _PAGE.search(content, 0, _PAGE_WITHIN):
        losses = Losses()
        page = page_of_html(decode_html(content, place, losses), place)
        losses.include(page.losses)
        return RawDocument(
            source.doc_id, page.text, source.uri, page.title, "", losses.metadata(), page.sections, page.facts
        )
    if content.startswith(b"<?xml") or wrapper == b"XML":
        return RawDocument(source.doc_id, text_of_xml(content, place), source.uri)
    return document_of_text(content, block.kind, source)


def _pdf(lines: bytes, block: _Block, source: Source, find: _Find) -> RawDocument | None:
    """Return the document of an encoded PDF, None if it has no text that can be read."""
    read = find("a.pdf")
    data = _uudecoded(lines)
    if read is None or not data:
        return None
    held = HeldSource(f"{source.uri}, {block.file or block.kind}", source.doc_id, len(data), data=data)
    try:
        found = next((reading for reading in read(held) if isinstance(reading, RawDocument)), None)
    except DocumentError:
        return None
    return found if found is not None and found.text.strip() else None


def _uudecoded(lines: bytes) -> bytes:
    parts = []
    for line in lines.splitlines():
        if line.strip() in (b"end", b"`", b""):
            continue
        try:
            parts.append(binascii.a2b_uu(line))
        except binascii.Error:
            # Some programs write too few or too many blanks at the end of a line.
            size = (((line[0] - 32) & 63) * 4 + 5) // 3
            try:
                parts.append(binascii.a2b_uu(line[:size].ljust(size)))
            except binascii.Error:
                return b""
    return b"".join(parts)
