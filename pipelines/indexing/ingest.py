"""From source files to a part of the ``documents`` table. Runs in Ray tasks, and knows nothing of Ray.

A part is a few files that are read together and written as one Parquet file, or several where they are large. Parts are
cut by bytes, so that a small archive shows its progress and a large one has no swarm of small files. A part is named by
the content of its files: a job that was killed finds what it had read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.versions import digest
from okralong.pipelines.core.schemas import DOCUMENTS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document, TableSpan
from okralong.pipelines.indexing.failures import purged_message
from okralong.pipelines.indexing.limits import MOST_BAD_ROWS
from okralong.pipelines.indexing.readers.listing import duplicate
from okralong.pipelines.indexing.readers.raw import BadRow, Source
from okralong.pipelines.indexing.reading.reader import Reader

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
    could not be read. A file without any document has one of these all the same, with an empty doc_id.
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


def part_file(part: str) -> str:
    """File name of a part, the same in every table."""
    return f"{part}.parquet"


def name_of_part(sources: Sequence[Source], limits: str) -> str:
    """The name of what is read from ``sources`` under limits of that hash."""
    return digest([(source.uri, source.doc_id, source.sha256) for source in sources] + [limits])


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


def ingest_part(
    archive: str, name: str, sources: Iterable[Source], reader: Reader, purged: frozenset[str] = frozenset()
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
        before, repeated = len(outcomes), 0
        origins: dict[str, str] = {}
        for reading in reader.read(source):
            if isinstance(reading, BadRow):
                outcomes.append(Read(reading.doc_id, *whose, message=reading.message))
                continue
            document = reading.document
            if document.doc_id in purged:
                message = purged_message(document.doc_id, reading.origin)
                outcomes.append(Read(document.doc_id, *whose, message=message))
                continue
            if document.doc_id in origins:
                repeated += 1
                if repeated <= MOST_BAD_ROWS:
                    failure = duplicate(document.doc_id, origins[document.doc_id], reading.origin)
                    outcomes.append(Read(document.doc_id, *whose, message=failure.message))
                continue
            origins[document.doc_id] = reading.origin
            part = pieces.take(document)
            outcomes.append(Read(document.doc_id, *whose, part, document.sha256, document.n_tokens, reading.origin))
        if repeated > MOST_BAD_ROWS:
            outcomes.append(Read(source.doc_id, *whose, message=_repeats(source, repeated)))
        if len(outcomes) == before:
            outcomes.append(Read("", *whose))
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
        }
        for document in documents
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def read_documents(archive: str, part: str) -> list[Document]:
    """The documents of one written piece of a part, in order of doc_id."""
    data = Folder.of(archive).at("documents").read_bytes(part_file(part))
    table = pq.read_table(pa.BufferReader(data)).cast(DOCUMENTS)
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
        )
        for row in table.to_pylist()
    ]
