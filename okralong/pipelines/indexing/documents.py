"""What a parser gets and gives: a source file in, raw documents and named failures out.

A parser is a function ``read(source) -> Iterator[RawDocument | BadRow]``. It raises DocumentError when the whole file
is of no use, and yields a BadRow where only one row of it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import fs

from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, DocumentError, Section, SectionKind, TableSpan
from okralong.pipelines.indexing.tables import find_tables


@dataclass(frozen=True, slots=True)
class Source:
    """A file to read. ``uri`` is a local path or a filesystem URI; ``doc_id`` its name below the ``--from`` folder.

    ``size`` is in bytes, ``mtime_ns`` the time of its last change (0: not known). ``sha256`` is that of the bytes,
    empty until it is asked for.
    """

    uri: str
    doc_id: str
    size: int = 0
    sha256: str = ""
    mtime_ns: int = 0

    def open(self) -> fs.NativeFile:
        """The file, open for reading and seeking. Raises DocumentError when it is not there or may not be read."""
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
        """The whole file. Raises DocumentError when it is not there or may not be read."""
        with self.open() as stream:
            return bytes(stream.read())


@dataclass(frozen=True, slots=True)
class RawDocument:
    """A document as a parser found it. ``where`` names its place in ``source_uri``, e.g. "row 3"; empty for a file."""

    doc_id: str
    text: str
    source_uri: str
    title: str = ""
    where: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldSource(Source):
    """A file within another one, such as an attachment: ``data`` are its bytes."""

    data: bytes = b""

    def open(self) -> fs.NativeFile:
        """The bytes, open for reading and seeking."""
        return pa.BufferReader(self.data)

    def read_bytes(self) -> bytes:
        """The bytes."""
        return self.data


class Blocks:
    """The text of a document put together from blocks, with a blank line between, and where sections begin in it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._sections: list[Section] = []
        self._chars = 0
        self._begun: tuple[SectionKind, str, bool] | None = None

    def begin(self, kind: SectionKind, name: str, ocr: bool = False) -> None:
        """Let a section begin with the next block; one without any block is none."""
        self._begun = (kind, name, ocr)

    def add(self, text: str) -> int:
        """A block, unless it is empty; where it begins."""
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
        """Sections within the block that was added last, by their place in the whole text."""
        self._sections.extend(sections)

    def document(self, source: Source, title: str = "", metadata: Mapping[str, str] | None = None) -> RawDocument:
        """What was put together."""
        text = BETWEEN_BLOCKS.join(self._parts)
        return RawDocument(
            source.doc_id, text, source.uri, title, metadata=metadata or {}, sections=tuple(self._sections)
        )


BETWEEN_BLOCKS: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class BadRow:
    """A document that could not be read: what to call it, and one paragraph with the place and the remedy."""

    doc_id: str
    message: str


Reading = RawDocument | BadRow
Read = Callable[[Source], Iterator[Reading]]

_NUL_SHARE: Final = 0.001
"""Share of NUL bytes above which a file is no text. Ours: a paper extracted from PDF had 3 in 42,794 bytes, a UTF-16
file has about one half."""
_NUL_REMEDY: Final = "It is not plain text: save it as UTF-8 text, or give it the suffix of its true format."


def decode(data: bytes, uri: str) -> str:
    """Text of ``data`` as UTF-8, or else as cp1252, with ``\\n`` as the only line end.

    A stray NUL byte, which PDF-to-text tools leave behind, becomes a space. Raises DocumentError when the data is
    neither encoding, or full of NUL bytes (UTF-16 files and binaries are).
    """
    if data.count(0) > len(data) * _NUL_SHARE:
        raise DocumentError(f"{uri} holds NUL bytes at offset {data.index(0)}. {_NUL_REMEDY}")
    data = data.replace(b"\x00", b" ")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError as error:
            raise DocumentError(
                f"{uri} is neither UTF-8 nor cp1252 text (byte {data[error.start]:#04x} at offset {error.start}). "
                "Convert it to UTF-8 and index again."
            ) from error
    return newlines(text)


def newlines(text: str) -> str:
    """``text`` with every line end written as ``\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def make_document(raw: RawDocument) -> Document:
    """``raw`` with its tables found and its tokens counted."""
    return document_with_tables(raw, ((table.start_char, table.end_char) for table in find_tables(raw.text, "")))


def document_with_tables(raw: RawDocument, tables: Iterable[tuple[int, int]]) -> Document:
    """``raw`` with its tokens counted; ``tables`` are the ranges ``[start_char, end_char)`` of its tables, in order.

    ``sha256`` covers the id and the text, so that two copies of one text still have chunks of different ids.
    """
    digest = hashlib.sha256(f"{raw.doc_id}\0{raw.text}".encode()).hexdigest()
    return Document(
        doc_id=raw.doc_id,
        text=raw.text,
        title=raw.title,
        source_uri=raw.source_uri,
        sha256=digest,
        n_tokens=count_tokens(raw.text),
        tables=tuple(TableSpan(f"{digest[:16]}:t{number}", start, end) for number, (start, end) in enumerate(tables)),
        metadata=raw.metadata,
        sections=raw.sections,
    )


MOST_BAD_ROWS: Final = 1000
"""Rows of one file that are reported one by one. Ours: a file may hold a hundred million lines that are no documents,
and each report takes more memory than its line."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one document or file. The index config says their defaults and why; see ``LimitsConfig``.

    ``seconds`` is processor time for one document; ``memory_bytes`` what reading it may add to the address space of its
    process; ``document_bytes`` its text, title and metadata in UTF-8; ``text_bytes`` the same of all documents of one
    file; ``file_bytes`` the file as it is stored. Where ``ocr`` is "on" (else "off", or "missing" where its packages
    are), ``ocr_pages`` pages of a document without a text layer are read, each of which adds ``ocr_page_seconds``.
    """

    seconds: float
    memory_bytes: int
    document_bytes: int
    text_bytes: int
    file_bytes: int
    ocr: str = "off"
    ocr_page_seconds: float = 60.0
    ocr_pages: int = 200
