"""The input and output of parsers: a source file in, raw documents and failures out.

A parser is a function ``(source) -> Iterator[RawDocument | BadRow]``. It raises DocumentError if the whole file is
unusable, and yields a BadRow if only one row of it is.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import fs

from okralong.pipelines.core.encodings import UNDECODED, decoded
from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.tables import Table
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import NOT_READ, Document, DocumentError, Fact, Section, SectionKind, TableSpan
from okralong.pipelines.indexing.tables import find_tables
from okralong.pipelines.statements.text_tables import read_text_tables


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read.

    ``uri`` is a local path or filesystem URI, ``doc_id`` the file's name below the ``--from`` folder, ``size`` in
    bytes, ``mtime_ns`` the time of the last change (0 if unknown), and ``sha256`` the hash of the bytes ("" until
    computed).
    """

    uri: str
    doc_id: str
    size: int = 0
    sha256: str = ""
    mtime_ns: int = 0

    def open(self) -> fs.NativeFile:
        """Open the file for reading and seeking. Raises DocumentError if it is missing or unreadable."""
        try:
            return open_file(*(located(self.uri) if "://" in self.uri else (fs.LocalFileSystem(), self.uri)))
        except FileNotFoundError as error:
            raise DocumentError(
                f"{self.uri} is missing. It was there when the folder was listed; put it back or index again."
            ) from error
        except OSError as error:
            raise DocumentError(
                f"{self.uri} cannot be opened: {error}. Check that this user may read it, then index again."
            ) from error

    def read_bytes(self) -> bytes:
        """Return the content of the file. Raises DocumentError if it is missing or unreadable."""
        with self.open() as stream:
            return bytes(stream.read())


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A parser's document. ``where`` is its place in ``source_uri``, e.g. "row 3", or "" for a whole file.

    ``tables`` is None if the parser leaves it to ``statements.text_tables`` to read them from the text.
    """

    doc_id: str
    text: str
    source_uri: str
    title: str = ""
    where: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] | None = None


class Losses:
    """Counts what a file holds and its document does not give."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}
        self._within: list[str] = []

    def add(self, one: str, many: str, count: int = 1, remedy: str = "") -> None:
        """Count ``count`` more of a kind, named in the singular and in the plural; ``remedy`` is a short clause."""
        if count > 0:
            self._counts[one, many, remedy] = self._counts.get((one, many, remedy), 0) + count

    def include(self, other: Losses) -> None:
        """Add the counts of another part of the document."""
        for (one, many, remedy), count in other._counts.items():
            self.add(one, many, count, remedy)
        self._within += other._within

    def add_within(self, place: str, words: str) -> None:
        """Add the counts in words of a document within this one, such as an attachment."""
        if words:
            self._within.append(f"{place}: {words.replace('; ', ', ')}")

    def words(self) -> str:
        """Return all counts in words: "2 comments; 1 picture (the remedy)"; "" if there are none."""
        counts = (
            f"{count:,} {one if count == 1 else many}{f' ({remedy})' if remedy else ''}"
            for (one, many, remedy), count in self._counts.items()
        )
        words = "; ".join([*counts, *self._within])
        return "".join(each if each.isprintable() else " " for each in words)  # names come from the file

    def metadata(self) -> dict[str, str]:
        """Return the counts as a document's metadata, empty if there are none."""
        return {NOT_READ: words} if (words := self.words()) else {}


@dataclass(frozen=True, slots=True)
class HeldSource(Source):
    """A file within another one, such as an attachment, with its bytes as ``data``."""

    data: bytes = b""

    def open(self) -> fs.NativeFile:
        """Open the bytes for reading and seeking."""
        return pa.BufferReader(self.data)

    def read_bytes(self) -> bytes:
        """Return the bytes."""
        return self.data


class Blocks:
    """Joins blocks of text with blank lines between them, and records where sections begin."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._sections: list[Section] = []
        self._chars = 0
        self._begun: tuple[SectionKind, str, bool] | None = None

    def begin(self, kind: SectionKind, name: str, ocr: bool = False) -> None:
        """Begin a section with the next block; a section without blocks is dropped."""
        self._begun = (kind, name, ocr)

    def add(self, text: str) -> int:
        """Add a block unless it is empty, and return its offset."""
        text = newlines(text).strip("\n")
        start = self._chars
        if text.strip():
            if self._begun is not None:
                kind, name, ocr = self._begun
                self._sections.append(Section(kind, name, start, ocr))
                self._begun = None
            self._parts.append(text)
            self._chars += len(text) + len(BETWEEN_BLOCKS)
        return start

    def add_sections(self, sections: Iterable[Section]) -> None:
        """Add sections within the last block, with offsets into the whole text."""
        self._sections.extend(sections)

    def document(self, source: Source, title: str = "", metadata: Mapping[str, str] | None = None) -> RawDocument:
        """Return the joined document."""
        text = BETWEEN_BLOCKS.join(self._parts)
        return RawDocument(
            source.doc_id, text, source.uri, title, metadata=metadata or {}, sections=tuple(self._sections)
        )


BETWEEN_BLOCKS: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A document that could not be read: its name, and a paragraph with the place and the remedy."""

    doc_id: str
    message: str


ParserOutput = RawDocument | BadRow
Parser = Callable[[Source], Iterator[ParserOutput]]

_NUL_SHARE: Final = 0.001
"""Share of NUL bytes above which a file is not text: a paper extracted from PDF had 3 in 42,794 bytes, a UTF-16 file
has about one half. # project default"""
_NUL_REMEDY: Final = "It is not plain text: save it as UTF-8 text, or give it the suffix of its true format."


def decode(data: bytes, uri: str) -> str:
    """Decode ``data`` as UTF-8 or cp1252, with line feeds as the only line ends.

    Stray NUL bytes, which PDF-to-text tools leave behind, become spaces.

    Raises:
        DocumentError: The data has neither encoding, or many NUL bytes like UTF-16 files and binaries.
    """
    return _decoded(data, uri)[0]


def decode_file(data: bytes, uri: str) -> tuple[str, Losses]:
    """Decode a file like ``decode``, or as marked UTF-16, and count text that may have another encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text, doubtful = decoded(data)
        text = newlines(text.replace("\x00", " "))
    else:
        text, doubtful = _decoded(data, uri)
    losses = Losses()
    losses.add("text in an unknown encoding", "texts in an unknown encoding", int(doubtful), "save it as UTF-8")
    return text, losses


def _decoded(data: bytes, uri: str) -> tuple[str, bool]:
    if data.count(0) > len(data) * _NUL_SHARE:
        raise DocumentError(f"{uri} holds NUL bytes at offset {data.index(0)}. {_NUL_REMEDY}")
    data = data.replace(b"\x00", b" ")
    text, doubtful = decoded(data)
    if text.count(UNDECODED) > data.count(UNDECODED.encode()):
        try:
            data.decode("cp1252")
        except UnicodeDecodeError as error:
            raise DocumentError(
                f"{uri} is neither UTF-8 nor cp1252 text (byte {data[error.start]:#04x} at offset {error.start}). "
                "Convert it to UTF-8 and index again."
            ) from error
    return newlines(text), doubtful


def newlines(text: str) -> str:
    """Return ``text`` with line feeds as the only line ends."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def make_document(raw: RawDocument) -> Document:
    """Find the tables of ``raw`` and count its tokens."""
    return document_with_tables(raw, ((table.start_char, table.end_char) for table in find_tables(raw.text, "")))


def document_with_tables(raw: RawDocument, tables: Iterable[tuple[int, int]]) -> Document:
    """Count the tokens of ``raw``; ``tables`` are the ordered ranges ``[start_char, end_char)`` of its tables.

    ``sha256`` covers id and text, so that two copies of one text have chunks with different ids.
    """
    digest = hashlib.sha256(f"{raw.doc_id}\0{raw.text}".encode()).hexdigest()
    return Document(
        doc_id=raw.doc_id,
        text=raw.text,
        title=raw.title,
        source_uri=raw.source_uri,
        sha256=digest,
        n_tokens=count_tokens(raw.text),
        table_spans=tuple(
            TableSpan(f"{digest[:16]}:t{number}", start, end) for number, (start, end) in enumerate(tables)
        ),
        metadata=raw.metadata,
        sections=raw.sections,
        facts=raw.facts,
        tables=raw.tables if raw.tables is not None else read_text_tables(raw.text, raw.sections),
    )


MOST_BAD_ROWS: Final = 1000
"""Rows of a file that are reported one by one: a file may hold a hundred million bad lines, and a report takes more
memory than its line. # project default"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one document or file; ``LimitsConfig`` has their defaults and reasons.

    ``seconds`` is processor time per document, ``memory_bytes`` the address space that reading it may add.
    ``document_bytes`` limits its text, title and metadata in UTF-8, ``text_bytes`` those of all documents of a file,
    ``file_bytes`` the stored file. If ``ocr`` is "on" (otherwise "off", "later", or "missing" without its packages), up
    to ``ocr_pages`` pages without readable text are read per document, and each adds ``ocr_page_seconds``.
    """

    seconds: float
    memory_bytes: int
    document_bytes: int
    text_bytes: int
    file_bytes: int
    ocr: str = "off"
    ocr_page_seconds: float = 60.0
    ocr_pages: int = 200
