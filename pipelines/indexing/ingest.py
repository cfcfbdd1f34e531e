"""From source files to a part of the ``documents`` table. Runs in Ray tasks, and knows nothing of Ray.

A part is a few files that are read together and written as one Parquet file. Parts are cut by bytes, so that a small
archive shows its progress and a large one has no swarm of small files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.indexing.limits import MOST_BAD_ROWS
from okralong.pipelines.indexing.readers.listing import duplicate
from okralong.pipelines.indexing.readers.raw import BadRow, Source
from okralong.pipelines.indexing.reading.reader import Reader
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import DOCUMENTS
from okralong.pipelines.values import Document, TableSpan

# Ours: about one long report in the smallest part, forty in the largest.
_PARTS_WANTED: Final = 64
_LEAST_PART_BYTES: Final = 250_000
_MOST_PART_BYTES: Final = 8_000_000
_MOST_PART_FILES: Final = 64
_MOST_PART_CHARS: Final = 50_000_000
"""What a part may hold when its files have been unpacked; ours. The stage that chunks it holds some copies of it."""


@dataclass(frozen=True, slots=True)
class Read:
    """What became of one document: where it came from, and ``message`` with the reason if it failed."""

    part: int
    doc_id: str
    origin: str
    n_tokens: int = 0
    message: str = ""


def part_name(part: int) -> str:
    """File name of part number ``part``, the same in every table."""
    return f"part-{part:05d}.parquet"


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


def ingest_part(archive: str, part: int, sources: Iterable[Source], reader: Reader, stride: int = 1) -> list[Read]:
    """Read ``sources``, write their documents as one part in order of doc_id, and say what became of each.

    The first document of an id is kept. A part without any document is not written. Documents that are together larger
    than memory should hold become several parts, numbered ``part``, ``part + stride`` and so on.
    """
    outcomes: list[Read] = []
    kept: list[Document] = []
    origins: dict[str, str] = {}
    chars = 0
    for source in sources:
        repeated = 0
        for reading in reader.read(source):
            if isinstance(reading, BadRow):
                outcomes.append(Read(part, reading.doc_id, source.uri, message=reading.message))
                continue
            document = reading.document
            if document.doc_id in origins:
                repeated += 1
                if repeated <= MOST_BAD_ROWS:
                    failure = duplicate(document.doc_id, origins[document.doc_id], reading.origin)
                    outcomes.append(Read(part, document.doc_id, source.uri, message=failure.message))
                continue
            if chars and chars + len(document.text) > _MOST_PART_CHARS:
                _write(archive, part, kept)
                kept, chars, part = [], 0, part + stride
            kept.append(document)
            chars += len(document.text)
            origins[document.doc_id] = reading.origin
            outcomes.append(Read(part, document.doc_id, reading.origin, document.n_tokens))
        if repeated > MOST_BAD_ROWS:
            outcomes.append(Read(part, source.doc_id, source.uri, message=_repeats(source, repeated)))
    if kept:
        _write(archive, part, kept)
    return outcomes


def _write(archive: str, part: int, documents: Sequence[Document]) -> None:
    table = documents_table(sorted(documents, key=lambda document: document.doc_id))
    Folder.of(archive).at("documents").write_table(part_name(part), table)


def _repeats(source: Source, repeated: int) -> str:
    return (
        f"{source.uri} has {repeated} rows with a doc_id that another document already has; the first {MOST_BAD_ROWS} "
        "of them are reported one by one. Give each row an id of its own, then index again."
    )


def drop_duplicates(archive: str, outcomes: Sequence[Read]) -> list[Read]:
    """Settle ids that several parts have: the first part keeps its document, the others' files are written without it.

    Returns the outcomes with the losers turned into failures, in order of part.
    """
    first: dict[str, Read] = {}
    losers: dict[int, set[str]] = {}
    settled = []
    for outcome in sorted(outcomes, key=lambda o: o.part):
        winner = outcome if outcome.message else first.setdefault(outcome.doc_id, outcome)
        if winner is not outcome:
            losers.setdefault(outcome.part, set()).add(outcome.doc_id)
            message = duplicate(outcome.doc_id, winner.origin, outcome.origin).message
            outcome = Read(outcome.part, outcome.doc_id, outcome.origin, message=message)
        settled.append(outcome)
    folder = Folder.of(archive).at("documents")
    for part, doc_ids in losers.items():
        documents = [d for d in read_documents(archive, part) if d.doc_id not in doc_ids]
        if documents:
            folder.write_table(part_name(part), documents_table(documents))
        else:
            folder.remove(part_name(part))
    return settled


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


def read_documents(archive: str, part: int) -> list[Document]:
    """The documents of one written part, in order of doc_id."""
    data = Folder.of(archive).at("documents").read_bytes(part_name(part))
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
