"""From source files to the tables ``documents`` and ``chunks``, part by part, with the outcome of each document.

A part is a few files that are read together and written as one or, if they are large, several Parquet files. Parts are
divided by bytes, so that a small archive shows progress and a large one has few small files. A part is named after the
content of its files, so that a job finds what a killed job has read.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.tables import write_document_tables
from okralong.pipelines.archive.vectors import Keys, text_keys
from okralong.pipelines.archive.versions import DocumentEntry, KnownSource, active, digest
from okralong.pipelines.core.languages import detect
from okralong.pipelines.core.schemas import CHUNKS, DOCUMENTS, OUTCOMES, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document, Section, TableSpan
from okralong.pipelines.indexing.chunking import chunk_document, cut_name
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Source
from okralong.pipelines.indexing.formats.pdf import PAGES_WITHOUT_TEXT
from okralong.pipelines.indexing.listing import duplicate
from okralong.pipelines.indexing.parser_process import SandboxedParser, shared_parser
from okralong.pipelines.indexing.parsers import WITHOUT_OCR, is_parsed_as_today, parser_version

# About one long report in the smallest part, forty in the largest. # project default
_PARTS_WANTED: Final = 64
_LEAST_PART_BYTES: Final = 250_000
_MOST_PART_BYTES: Final = 8_000_000
_MOST_PART_FILES: Final = 64
_MOST_PART_CHARS: Final = 50_000_000
"""Largest part after unpacking; the chunking stage holds several copies of it. # project default"""


@dataclass(frozen=True, slots=True)
class DocumentOutcome:
    """The outcome of one document: its part and origin, or the reason why it could not be read as ``message``.

    A file without documents has one outcome with an empty doc_id. ``reader`` is the version of the parser.
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
    """Return the file name of a part, the same in every table."""
    return f"{part}.parquet"


def name_of_part(sources: Sequence[Source], limits: str) -> str:
    """Return the name of the part read from ``sources`` under limits of that hash."""
    # The first parsers had no version, so the parts that they read keep their names.
    by = [(source.uri, source.doc_id, source.sha256, *filter(None, [parser_version(source.uri)])) for source in sources]
    return digest([*by, limits])


def plan_parts(sources: Sequence[Source]) -> list[list[Source]]:
    """Split ``sources``, in their order, into parts; deterministic."""
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
    archive: str,
    name: str,
    sources: Sequence[Source],
    config: IndexConfig,
    limits: str,
    purged: Iterable[str],
    on_page: Callable[[str], object] = lambda words: None,
) -> dict[str, Any]:
    """Read, chunk and write a part, mark it complete, and return counts of its work.

    The counts are of files, their bytes, documents, failures, chunks and seconds; ``limits`` is the hash of the reading
    limits. ``on_page`` gets what OCR is reading, in words, and "" when the part is read.
    """
    started = time.perf_counter()
    parser = shared_parser(config.reading_limits())
    parser.on_page = on_page
    outcomes = ingest_part(archive, name, sources, parser, frozenset(purged))
    on_page("")
    have_read = time.perf_counter()
    pieces = sorted({outcome.part for outcome in outcomes if outcome.part})
    chunks = sum(chunk_part(archive, piece, config.granularities) for piece in pieces)
    write_outcomes(Folder.of(archive), name, outcomes, limits)
    return {
        "files": len(sources),
        "bytes": sum(source.size for source in sources),
        "documents": sum(bool(outcome.part) for outcome in outcomes),
        "failures": sum(bool(outcome.message) for outcome in outcomes),
        "chunks": chunks,
        "read_seconds": have_read - started,
        "chunk_seconds": time.perf_counter() - have_read,
    }


def ingest_part(
    archive: str, name: str, sources: Iterable[Source], parser: SandboxedParser, purged: frozenset[str] = frozenset()
) -> list[DocumentOutcome]:
    """Read ``sources``, write their documents as the part ``name``, and return the outcome of each.

    Its files are ``name-00``, ``name-01`` and so on, each sorted by doc_id. A part has several if its documents are too
    large for memory together, or if two files have a document with the same id. Within a file the first document of an
    id is kept. Documents in ``purged`` are failures and are not written.
    """
    outcomes: list[DocumentOutcome] = []
    pieces = _Pieces(Folder.of(archive), name)
    for source in sources:
        whose = (source.uri, source.doc_id, source.sha256)
        by = parser_version(source.uri)
        before, repeated, lacking = len(outcomes), 0, False
        origins: dict[str, str] = {}
        for reading in parser.parse(source):
            if isinstance(reading, BadRow):
                lacking = lacking or (parser.why_no_ocr != "" and parser.why_no_ocr in reading.message)
                outcomes.append(DocumentOutcome(reading.doc_id, *whose, message=reading.message, reader=by))
                continue
            document = reading.document
            if document.doc_id in purged:
                message = purged_message(document.doc_id, reading.origin)
                outcomes.append(DocumentOutcome(document.doc_id, *whose, message=message, reader=by))
                continue
            if document.doc_id in origins:
                repeated += 1
                if repeated <= MOST_BAD_ROWS:
                    failure = duplicate(document.doc_id, origins[document.doc_id], reading.origin)
                    outcomes.append(DocumentOutcome(document.doc_id, *whose, message=failure.message, reader=by))
                continue
            origins[document.doc_id] = reading.origin
            part = pieces.take(document)
            about = DocumentOutcome(
                document.doc_id, *whose, part, document.sha256, document.n_tokens, reading.origin, reader=by
            )
            outcomes.append(about)
            lacking = lacking or PAGES_WITHOUT_TEXT in document.metadata
        if repeated > MOST_BAD_ROWS:
            outcomes.append(DocumentOutcome(source.doc_id, *whose, message=_repeats(source, repeated), reader=by))
        if len(outcomes) == before:
            outcomes.append(DocumentOutcome("", *whose, reader=by))
        if lacking:
            outcomes[before:] = [replace(outcome, reader=by + WITHOUT_OCR) for outcome in outcomes[before:]]
    pieces.write()
    return outcomes


class _Pieces:
    """Distributes documents over files, so that no file has an id twice and no piece grows too large."""

    def __init__(self, archive: Folder, name: str) -> None:
        self._archive, self._name = archive, name
        self._written = self._chars = 0
        self._open: list[dict[str, Document]] = []

    def take(self, document: Document) -> str:
        """Assign a document to a piece and return the piece's name."""
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
        """Write the current pieces."""
        for number, piece in enumerate(self._open):
            write_documents(self._archive, self._called(number), [piece[doc_id] for doc_id in sorted(piece)])
        self._written += len(self._open)
        self._open, self._chars = [], 0

    def _called(self, number: int) -> str:
        return f"{self._name}-{self._written + number:02d}"


def _repeats(source: Source, repeated: int) -> str:
    return (
        f"{source.uri} has {repeated} rows with a doc_id that another document already has; the first {MOST_BAD_ROWS} "
        "of them are reported one by one. Give each row its own id, then index again."
    )


def write_documents(archive: Folder, part: str, documents: Sequence[Document]) -> None:
    """Write documents, sorted by doc_id, and their tables as the piece ``part`` of a part."""
    write_document_tables(archive, part_file(part), documents)
    archive.at("documents").write_table(part_file(part), _documents_table(documents))


def _documents_table(documents: Sequence[Document]) -> pa.Table:
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
                for span in document.table_spans
            ],
            "metadata": sorted(document.metadata.items()),
            "sections": [asdict(section) for section in document.sections],
            "facts": [asdict(fact) for fact in document.facts] or None,
            "cover": sorted(read_cover(document.text, document.title, document.facts).metadata().items()),
            "language": document.language or detect(document.text),
        }
        for document in documents
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def read_documents(archive: str, part: str) -> list[Document]:
    """Return the documents of one piece of a part, sorted by doc_id."""
    data = Folder.of(archive).at("documents").read_bytes(part_file(part))
    file = pq.ParquetFile(pa.BufferReader(data))
    names = [name for name in file.schema_arrow.names if name != "facts"]
    table = completed(file.read(names), DOCUMENTS)
    return [
        Document(
            doc_id=row["doc_id"],
            text=row["text"],
            title=row["title"],
            source_uri=row["source_uri"],
            sha256=row["sha256"],
            n_tokens=row["n_tokens"],
            table_spans=tuple(TableSpan(**span) for span in row["tables"]),
            metadata=dict(row["metadata"]),
            sections=tuple(Section(**section) for section in row["sections"] or ()),
            language=row["language"] or "",
        )
        for row in table.to_pylist()
    ]


# The chunks of a part, and the keys of its texts.

CHUNKS_FOLDER: Final = "chunks"
BATCH_ROWS: Final = 4096
"""Chunks per batch when a part is scanned: about 3 MB of text. # project default"""


def chunks_folder(archive: Folder, granularity: int, cut: str) -> Folder:
    """Return the folder with the chunks of one size; ``cut`` is the result of ``cut_name``."""
    return archive.at(CHUNKS_FOLDER, f"granularity={granularity}{'' if cut == 'sentences' else f'-{cut}'}")


def keys_file(part: str) -> str:
    """Return the file of a part's sorted text keys; written after its chunks, so it marks both as complete."""
    return f"{part}.keys.npy"


def chunk_part(archive: str, part: str, granularities: Sequence[int]) -> int:
    """Chunk the documents of one part at some sizes and write the chunks; return their number."""
    documents = read_documents(archive, part)
    return sum(_chunk(Folder.of(archive), part, documents, granularity) for granularity in granularities)


def chunk_again(archive: str, part: str, granularities: Sequence[int]) -> dict[str, Any]:
    """Chunk an existing part at missing sizes; return counts of chunks and seconds."""
    started = time.perf_counter()
    chunks = chunk_part(archive, part, granularities)
    return {"chunks": chunks, "chunk_seconds": time.perf_counter() - started}


def _chunk(archive: Folder, part: str, documents: Sequence[Document], granularity: int) -> int:
    chunks = [chunk for document in documents for chunk in chunk_document(document, granularity)]
    table = pa.Table.from_pydict(
        {name: [getattr(chunk, name) for chunk in chunks] for name in CHUNKS.names}, schema=CHUNKS
    )
    folder = chunks_folder(archive, granularity, cut_name())
    folder.write_table(part_file(part), table)
    write_keys(folder, part, (chunk.text for chunk in chunks))
    return len(chunks)


def write_keys(folder: Folder, part: str, texts: Iterable[str]) -> None:
    """Write the sorted keys of a part's texts, which marks the part as complete at the size of ``folder``."""
    buffer = io.BytesIO()
    np.save(buffer, np.unique(text_keys(texts)), allow_pickle=False)
    folder.write_bytes(keys_file(part), buffer.getvalue())


def read_keys(folder: Folder, part: str) -> Keys:
    """Return the sorted keys of a part's texts at the size of ``folder``."""
    if folder.is_local:
        return np.asarray(np.load(Path(folder.path) / keys_file(part), allow_pickle=False))
    return np.asarray(np.load(io.BytesIO(folder.read_bytes(keys_file(part))), allow_pickle=False))


def count_tokens(folder: Folder, part: str) -> tuple[int, int]:
    """Return the number of chunks of one part, and of their tokens."""
    counts = folder.read_table(part_file(part), ["n_tokens"])["n_tokens"]
    return len(counts), pc.sum(counts).as_py() or 0


def chunk_batches(folder: Folder, part: str) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of one part, sorted by doc_id and position."""
    with folder.open(part_file(part)) as file:
        for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS):
            yield batch.replace_schema_metadata(None)


# The outcomes of each part, written when it is complete, so that the next job finds what a killed job has read.

OUTCOMES_FOLDER: Final = "outcomes"


def write_outcomes(archive: Folder, name: str, outcomes: Iterable[DocumentOutcome], limits: str) -> None:
    """Mark the part ``name`` as complete, with its outcomes under limits of that hash."""
    rows = [asdict(outcome) | {"limits": limits} for outcome in outcomes]
    archive.at(OUTCOMES_FOLDER).write_table(part_file(name), pa.Table.from_pylist(rows, schema=OUTCOMES))


def finished_parts(archive: Folder) -> list[str]:
    """Return the names of all complete parts."""
    return [name.removesuffix(".parquet") for name in archive.at(OUTCOMES_FOLDER).names(".parquet")]


def read_outcomes(archive: Folder, name: str) -> tuple[list[DocumentOutcome], str]:
    """Return the outcomes of a part, and the hash of the limits that it was read under."""
    rows = archive.at(OUTCOMES_FOLDER).read_table(part_file(name)).to_pylist()
    limits = {row.pop("limits") for row in rows}
    return [DocumentOutcome(**row) for row in rows], next(iter(limits), "")


def finished_outcomes(
    archive: Folder, names: Iterable[str], wanted: Mapping[str, Source], ocr: bool = False
) -> dict[str, tuple[list[DocumentOutcome], str]]:
    """Return the outcomes of ``wanted`` sources in complete parts, with the hash of their limits, by uri.

    Only outcomes of the same content and the current parsers count.
    """
    found: dict[str, tuple[list[DocumentOutcome], str]] = {}
    for name in names if wanted else ():
        outcomes, limits = read_outcomes(archive, name)
        here: dict[str, tuple[list[DocumentOutcome], str]] = {}
        for outcome in outcomes:
            source = wanted.get(outcome.source_uri)
            same = source and (source.doc_id, source.sha256) == (outcome.source_name, outcome.source_sha256)
            if source and same and is_parsed_as_today(outcome.reader, source.uri, ocr):
                here.setdefault(source.uri, ([], limits))[0].append(outcome)
        found |= here
    return found


def entries_of(outcomes: Iterable[DocumentOutcome]) -> list[DocumentEntry]:
    """Return the documents among some outcomes."""
    return [
        DocumentEntry(o.doc_id, o.sha256, o.n_tokens, o.part, o.origin, o.source_uri, o.source_name)
        for o in outcomes
        if o.part
    ]


def known_source(source: Source, outcomes: Sequence[DocumentOutcome]) -> KnownSource:
    """Return the record of a source that was read, for the next version."""
    failed = tuple((outcome.doc_id, outcome.message) for outcome in outcomes if outcome.message)
    about = (source.uri, source.doc_id, source.sha256, source.size, source.mtime_ns)
    by = next((outcome.reader for outcome in outcomes), parser_version(source.uri))
    return KnownSource(*about, failed, by)


# The files that a job has to read, found without opening them from the records of the previous version.


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """``kept`` are unchanged files, ``to_read`` new or changed ones, ``gone`` the uris of removed files."""

    kept: dict[str, KnownSource]
    to_read: list[Source]
    gone: set[str]

    @property
    def none(self) -> bool:
        """True if no file changed."""
        return not self.to_read and not self.gone


def source_changes(
    listed: Iterable[Source], known: Mapping[str, KnownSource], retry_failed: bool, ocr: bool = False
) -> SourceChanges:
    """Compare files by content with the previous version.

    Also read again are files that could not be opened, files that an earlier parser read, files with pages that wait
    for OCR if ``ocr`` is available, and, with ``retry_failed``, files with failed documents.
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


def unchanged_entries(entries: Iterable[DocumentEntry], changes: SourceChanges) -> list[DocumentEntry]:
    """Return the documents that need not be read again."""
    return [entry for entry in entries if entry.source_uri in changes.kept]


Failure = tuple[str, str]
"""(doc_id, paragraph)"""


def failures_of(
    resolved: Sequence[DocumentEntry], sources: Iterable[KnownSource], others: Iterable[Failure]
) -> list[Failure]:
    """Return the failures of each file, shadowed documents, and ``others``, sorted by doc_id."""
    seen = active(resolved)
    shadowed = [
        (entry.doc_id, duplicate(entry.doc_id, seen[entry.doc_id].origin, entry.origin).message)
        for entry in resolved
        if entry.shadowed
    ]
    return sorted([*others, *(failure for source in sources for failure in source.failed), *shadowed])


def purged_message(doc_id: str, origin: str) -> str:
    """Return the failure of a purged document that is still in a source file."""
    return (
        f"{origin} holds the document {doc_id!r}, which was purged from this archive and is not added again. Delete it "
        "there as well, or index into another folder."
    )
