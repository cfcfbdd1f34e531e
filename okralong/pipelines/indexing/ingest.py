"""From source files to the tables ``documents`` and ``chunks``, part by part, and what became of each document.

A part is a few files that are read together and written as one Parquet file, or several where they are large. Parts
are cut by bytes, so that a small archive shows its progress and a large one has not too many small files. A part is
named by the content of its files: a job that was killed finds what it had read. Nothing here knows Ray.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.vectors import Keys, text_keys
from okralong.pipelines.archive.versions import DocumentEntry, KnownSource, active, digest
from okralong.pipelines.core.schemas import CHUNKS, DOCUMENTS, OUTCOMES, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document, Section, TableSpan
from okralong.pipelines.indexing.chunking import Boundaries, chunk_document, cut_name
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Source
from okralong.pipelines.indexing.formats.pdf import PAGES_WITHOUT_TEXT
from okralong.pipelines.indexing.listing import duplicate
from okralong.pipelines.indexing.parser_process import SandboxedParser, shared_parser
from okralong.pipelines.indexing.parsers import WITHOUT_OCR, is_parsed_as_today, parser_version

# Ours: about one long report in the smallest part, forty in the largest.
_PARTS_WANTED: Final = 64
_LEAST_PART_BYTES: Final = 250_000
_MOST_PART_BYTES: Final = 8_000_000
_MOST_PART_FILES: Final = 64
_MOST_PART_CHARS: Final = 50_000_000
"""What a part may hold when its files have been unpacked; ours. The stage that chunks it holds some copies of it."""


@dataclass(frozen=True, slots=True)
class Read:
    """What became of one document: the part that it is in and where it came from, or ``message`` with the reason why it
    could not be read. A file without any document has one of these all the same, with an empty doc_id. ``reader`` is
    the version of what read the file.
    """

    doc_id: str
    source_uri: str
    source_name: str
    source_sha256: str
    part: str = ""
    sha256: str = ""
    n_tokens: int = 0
    origin: str = ""
    message: str = ""
    reader: str = ""


def part_file(part: str) -> str:
    """File name of a part, the same in every table."""
    return f"{part}.parquet"


def name_of_part(sources: Sequence[Source], limits: str) -> str:
    """The name of what is read from ``sources`` under limits of that hash."""
    # The first parsers had no version: the parts that they read keep their names.
    by = [(source.uri, source.doc_id, source.sha256, *filter(None, [parser_version(source.uri)])) for source in sources]
    return digest([*by, limits])


def plan_parts(sources: Sequence[Source]) -> list[list[Source]]:
    """``sources``, in their order, cut into parts. The same sources always give the same parts."""
    wanted = sum(source.size for source in sources) // _PARTS_WANTED
    limit = min(max(wanted, _LEAST_PART_BYTES), _MOST_PART_BYTES)
    parts: list[list[Source]] = []
    size = 0
    for source in sources:
        if not parts or size + source.size > limit or len(parts[-1]) == _MOST_PART_FILES:
            parts.append([])
            size = 0
        parts[-1].append(source)
        size += source.size
    return parts


def read_part(
    archive: str, name: str, sources: Sequence[Source], config: IndexConfig, limits: str, purged: Iterable[str]
) -> dict[str, Any]:
    """Read, chunk and write a part, and say that it is complete; counts of files, documents, failures, chunks and
    seconds.

    ``limits`` is the hash of what a document may cost.
    """
    started = time.perf_counter()
    outcomes = ingest_part(archive, name, sources, shared_parser(config.reading_limits()), frozenset(purged))
    have_read = time.perf_counter()
    pieces = sorted({outcome.part for outcome in outcomes if outcome.part})
    chunks = sum(chunk_part(archive, piece, config.granularities, config.boundaries) for piece in pieces)
    write_outcomes(Folder.of(archive), name, outcomes, limits)
    return {
        "files": len(sources),
        "documents": sum(bool(outcome.part) for outcome in outcomes),
        "failures": sum(bool(outcome.message) for outcome in outcomes),
        "chunks": chunks,
        "read_seconds": have_read - started,
        "chunk_seconds": time.perf_counter() - have_read,
    }


def ingest_part(
    archive: str, name: str, sources: Iterable[Source], parser: SandboxedParser, purged: frozenset[str] = frozenset()
) -> list[Read]:
    """Read ``sources``, write their documents as the part ``name``, and say what became of each.

    The pieces that are written are called ``name-00``, ``name-01`` and so on, each in order of doc_id: documents that
    are together larger than memory should hold become several, and so do two files with a document of one id. Within a
    file the first document of an id is kept. Documents that were ``purged`` are failures, and are not written.
    """
    outcomes: list[Read] = []
    pieces = _Pieces(Folder.of(archive).at("documents"), name)
    for source in sources:
        whose = (source.uri, source.doc_id, source.sha256)
        by = parser_version(source.uri)
        before, repeated, lacking = len(outcomes), 0, False
        origins: dict[str, str] = {}
        for reading in parser.parse(source):
            if isinstance(reading, BadRow):
                outcomes.append(Read(reading.doc_id, *whose, message=reading.message, reader=by))
                continue
            document = reading.document
            if document.doc_id in purged:
                message = purged_message(document.doc_id, reading.origin)
                outcomes.append(Read(document.doc_id, *whose, message=message, reader=by))
                continue
            if document.doc_id in origins:
                repeated += 1
                if repeated <= MOST_BAD_ROWS:
                    failure = duplicate(document.doc_id, origins[document.doc_id], reading.origin)
                    outcomes.append(Read(document.doc_id, *whose, message=failure.message, reader=by))
                continue
            origins[document.doc_id] = reading.origin
            part = pieces.take(document)
            about = Read(document.doc_id, *whose, part, document.sha256, document.n_tokens, reading.origin, reader=by)
            outcomes.append(about)
            lacking = lacking or PAGES_WITHOUT_TEXT in document.metadata
        if repeated > MOST_BAD_ROWS:
            outcomes.append(Read(source.doc_id, *whose, message=_repeats(source, repeated), reader=by))
        if len(outcomes) == before:
            outcomes.append(Read("", *whose, reader=by))
        if lacking:
            outcomes[before:] = [replace(outcome, reader=by + WITHOUT_OCR) for outcome in outcomes[before:]]
    pieces.write()
    return outcomes


class _Pieces:
    """Documents on their way into files: no file has an id twice, and no more is held than a piece may hold."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._written = self._chars = 0
        self._open: list[dict[str, Document]] = []

    def take(self, document: Document) -> str:
        """Put a document into a piece; the piece's name."""
        if self._chars and self._chars + len(document.text) > _MOST_PART_CHARS:
            self.write()
        self._chars += len(document.text)
        free = (number for number, piece in enumerate(self._open) if document.doc_id not in piece)
        number = next(free, len(self._open))
        if number == len(self._open):
            self._open.append({})
        self._open[number][document.doc_id] = document
        return self._called(number)

    def write(self) -> None:
        """Write what is held."""
        for number, piece in enumerate(self._open):
            table = documents_table([piece[doc_id] for doc_id in sorted(piece)])
            self._folder.write_table(part_file(self._called(number)), table)
        self._written += len(self._open)
        self._open, self._chars = [], 0

    def _called(self, number: int) -> str:
        return f"{self._name}-{self._written + number:02d}"


def _repeats(source: Source, repeated: int) -> str:
    return (
        f"{source.uri} has {repeated} rows with a doc_id that another document already has; the first {MOST_BAD_ROWS} "
        "of them are reported one by one. Give each row an id of its own, then index again."
    )


def documents_table(documents: Sequence[Document]) -> pa.Table:
    """Rows of the ``documents`` table."""
    rows: list[dict[str, Any]] = [
        {
            "doc_id": document.doc_id,
            "source_uri": document.source_uri,
            "sha256": document.sha256,
            "title": document.title,
            "n_chars": len(document.text),
            "n_tokens": document.n_tokens,
            "text": document.text,
            "tables": [
                {"table_id": span.table_id, "start_char": span.start_char, "end_char": span.end_char}
                for span in document.tables
            ],
            "metadata": sorted(document.metadata.items()),
            "sections": [asdict(section) for section in document.sections],
        }
        for document in documents
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def read_documents(archive: str, part: str) -> list[Document]:
    """The documents of one written piece of a part, in order of doc_id."""
    data = Folder.of(archive).at("documents").read_bytes(part_file(part))
    table = completed(pq.read_table(pa.BufferReader(data)), DOCUMENTS)
    return [
        Document(
            doc_id=row["doc_id"],
            text=row["text"],
            title=row["title"],
            source_uri=row["source_uri"],
            sha256=row["sha256"],
            n_tokens=row["n_tokens"],
            tables=tuple(TableSpan(**span) for span in row["tables"]),
            metadata=dict(row["metadata"]),
            sections=tuple(Section(**section) for section in row["sections"] or ()),
        )
        for row in table.to_pylist()
    ]


# The chunks of a part, with the keys of its texts beside them.

CHUNKS_FOLDER: Final = "chunks"
BATCH_ROWS: Final = 4096
"""Chunks held at a time while a part is gone through: about 3 MB of text. Ours."""


def chunks_folder(archive: Folder, granularity: int, cut: str) -> Folder:
    """Where the chunks of one size are; ``cut`` is what ``cut_name`` says of them."""
    return archive.at(CHUNKS_FOLDER, f"granularity={granularity}{'' if cut == 'sentences' else f'-{cut}'}")


def keys_file(part: str) -> str:
    """The sorted keys of a part's texts; written after its chunks, so that its presence means that both are there."""
    return f"{part}.keys.npy"


def chunk_part(archive: str, part: str, granularities: Sequence[int], at: Boundaries) -> int:
    """Chunk the documents of one part at some sizes and write them; how many chunks there are of all sizes."""
    documents = read_documents(archive, part)
    return sum(_chunk(Folder.of(archive), part, documents, granularity, at) for granularity in granularities)


def chunk_again(archive: str, part: str, granularities: Sequence[int], at: Boundaries) -> dict[str, Any]:
    """Chunk a part that was read before at sizes that it lacks; counts of chunks and seconds."""
    started = time.perf_counter()
    chunks = chunk_part(archive, part, granularities, at)
    return {"chunks": chunks, "chunk_seconds": time.perf_counter() - started}


def _chunk(archive: Folder, part: str, documents: Sequence[Document], granularity: int, at: Boundaries) -> int:
    chunks = [chunk for document in documents for chunk in chunk_document(document, granularity, at)]
    table = pa.Table.from_pydict(
        {name: [getattr(chunk, name) for chunk in chunks] for name in CHUNKS.names}, schema=CHUNKS
    )
    folder = chunks_folder(archive, granularity, cut_name(at))
    folder.write_table(part_file(part), table)
    write_keys(folder, part, (chunk.text for chunk in chunks))
    return len(chunks)


def write_keys(folder: Folder, part: str, texts: Iterable[str]) -> None:
    """Write the sorted keys of a part's texts: the part is then complete at the size of ``folder``."""
    buffer = io.BytesIO()
    np.save(buffer, np.unique(text_keys(texts)), allow_pickle=False)
    folder.write_bytes(keys_file(part), buffer.getvalue())


def read_keys(folder: Folder, part: str) -> Keys:
    """The sorted keys of a part's texts at the size of ``folder``."""
    if folder.is_local:
        return np.asarray(np.load(Path(folder.path) / keys_file(part), allow_pickle=False))
    return np.asarray(np.load(io.BytesIO(folder.read_bytes(keys_file(part))), allow_pickle=False))


def chunk_batches(folder: Folder, part: str) -> Iterator[pa.RecordBatch]:
    """The chunks of one part: by doc_id, then in order of the text."""
    with folder.open(part_file(part)) as file:
        for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS):
            yield batch.replace_schema_metadata(None)


# What became of the documents of each part, written when the part is complete: what a killed job had read.

OUTCOMES_FOLDER: Final = "outcomes"


def write_outcomes(archive: Folder, name: str, outcomes: Iterable[Read], limits: str) -> None:
    """Say that the part ``name`` is complete, and what came of it under limits of that hash."""
    rows = [asdict(outcome) | {"limits": limits} for outcome in outcomes]
    archive.at(OUTCOMES_FOLDER).write_table(part_file(name), pa.Table.from_pylist(rows, schema=OUTCOMES))


def finished_parts(archive: Folder) -> list[str]:
    """The names of all parts that are complete."""
    return [name.removesuffix(".parquet") for name in archive.at(OUTCOMES_FOLDER).names(".parquet")]


def read_outcomes(archive: Folder, name: str) -> tuple[list[Read], str]:
    """What came of a part, and the hash of the limits that it was read under."""
    rows = archive.at(OUTCOMES_FOLDER).read_table(part_file(name)).to_pylist()
    limits = {row.pop("limits") for row in rows}
    return [Read(**row) for row in rows], next(iter(limits), "")


def found_of(
    archive: Folder, names: Iterable[str], wanted: Mapping[str, Source], ocr: bool = False
) -> dict[str, tuple[list[Read], str]]:
    """What some parts say of ``wanted`` sources (by uri) of the same content, as the parsers of today read them, and
    under which limits that was."""
    found: dict[str, tuple[list[Read], str]] = {}
    for name in names if wanted else ():
        outcomes, limits = read_outcomes(archive, name)
        here: dict[str, tuple[list[Read], str]] = {}
        for outcome in outcomes:
            source = wanted.get(outcome.source_uri)
            same = source and (source.doc_id, source.sha256) == (outcome.source_name, outcome.source_sha256)
            if source and same and is_parsed_as_today(outcome.reader, source.uri, ocr):
                here.setdefault(source.uri, ([], limits))[0].append(outcome)
        found |= here
    return found


def entries_of(outcomes: Iterable[Read]) -> list[DocumentEntry]:
    """The documents among some outcomes."""
    return [
        DocumentEntry(o.doc_id, o.sha256, o.n_tokens, o.part, o.origin, o.source_uri, o.source_name)
        for o in outcomes
        if o.part
    ]


def known_of(source: Source, outcomes: Sequence[Read]) -> KnownSource:
    """What the next version knows of a source that was read."""
    failed = tuple((outcome.doc_id, outcome.message) for outcome in outcomes if outcome.message)
    about = (source.uri, source.doc_id, source.sha256, source.size, source.mtime_ns)
    by = next((outcome.reader for outcome in outcomes), parser_version(source.uri))
    return KnownSource(*about, failed, by)


# What a job has to read, from what the version before it knows of its source files; no files are opened.


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """``kept`` are files as they were, ``to_read`` new or changed ones, ``gone`` the uris of files that went."""

    kept: dict[str, KnownSource]
    to_read: list[Source]
    gone: set[str]

    @property
    def none(self) -> bool:
        """Whether every file is as it was."""
        return not self.to_read and not self.gone


def source_changes(
    listed: Iterable[Source], known: Mapping[str, KnownSource], retry_failed: bool, ocr: bool = False
) -> SourceChanges:
    """Compare by content. Read again is a file that could not be opened, one that an earlier parser read, which knew
    less, one with pages that wait for ``ocr``, where there is OCR now, and, with ``retry_failed``, one that holds
    documents that failed.
    """
    kept: dict[str, KnownSource] = {}
    to_read: list[Source] = []
    seen = set()
    for source in listed:
        seen.add(source.uri)
        before = known.get(source.uri)
        same = before is not None and source.sha256 == before.sha256 != "" and source.doc_id == before.name
        same = same and before is not None and is_parsed_as_today(before.reader, source.uri, ocr)
        if before is not None and same and not (before.failed and retry_failed):
            kept[source.uri] = replace(before, size=source.size, mtime_ns=source.mtime_ns)
        else:
            to_read.append(source)
    return SourceChanges(kept, to_read, set(known) - seen)


def carried(entries: Iterable[DocumentEntry], changes: SourceChanges) -> list[DocumentEntry]:
    """The documents that need not be read again."""
    return [entry for entry in entries if entry.source_uri in changes.kept]


Failure = tuple[str, str]
"""(doc_id, one paragraph)"""


def failures_of(
    resolved: Sequence[DocumentEntry], sources: Iterable[KnownSource], others: Iterable[Failure]
) -> list[Failure]:
    """What failed in each file, what is shadowed, and ``others``, in order of doc_id."""
    seen = active(resolved)
    shadowed = [
        (entry.doc_id, duplicate(entry.doc_id, seen[entry.doc_id].origin, entry.origin).message)
        for entry in resolved
        if entry.shadowed
    ]
    return sorted([*others, *(failure for source in sources for failure in source.failed), *shadowed])


def purged_message(doc_id: str, origin: str) -> str:
    """The failure of a document that was purged and still stands in a source file: it stays out."""
    return (
        f"{origin} holds the document {doc_id!r}, which was purged from this archive and stays out of it. Delete it "
        "there as well, or index into another folder."
    )
