"""From source files to a part of the ``documents`` table. Runs in Ray tasks, and knows nothing of Ray.

A part is a few files that are read together and written as one Parquet file. Parts are cut by bytes, so that a small
archive shows its progress and a large one has no swarm of small files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.indexing.readers.listing import duplicate
from okralong.pipelines.indexing.readers.raw import RawDocument, Source
from okralong.pipelines.indexing.readers.registry import read_source
from okralong.pipelines.indexing.tables_in_text import find_tables
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import DOCUMENTS
from okralong.pipelines.tokens import count_tokens
from okralong.pipelines.values import Document, TableSpan

# Ours: about one long report in the smallest part, forty in the largest.
_PARTS_WANTED: Final = 64
_LEAST_PART_BYTES: Final = 250_000
_MOST_PART_BYTES: Final = 8_000_000
_MOST_PART_FILES: Final = 64


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


def make_document(raw: RawDocument) -> Document:
    """``raw`` with its tables found and its tokens counted.

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
        tables=find_tables(raw.text, digest[:16]),
        metadata=raw.metadata,
    )


def ingest_part(archive: str, part: int, sources: Iterable[Source], max_bytes: int) -> list[Read]:
    """Read ``sources``, write their documents as one part in order of doc_id, and say what became of each.

    The first document of an id is kept. A part without any document is not written.
    """
    outcomes: list[Read] = []
    kept: dict[str, Document] = {}
    origins: dict[str, str] = {}
    for source in sources:
        for reading in read_source(source, max_bytes):
            if isinstance(reading, RawDocument):
                origin = f"{reading.source_uri}, {reading.where}" if reading.where else reading.source_uri
                if reading.doc_id not in kept:
                    try:
                        document = make_document(reading)
                    except Exception as error:  # no single document may stop the others
                        outcomes.append(Read(part, reading.doc_id, origin, message=_odd(origin, error)))
                        continue
                    kept[reading.doc_id], origins[reading.doc_id] = document, origin
                    outcomes.append(Read(part, reading.doc_id, origin, document.n_tokens))
                    continue
                reading = duplicate(reading.doc_id, origins[reading.doc_id], origin)
            outcomes.append(Read(part, reading.doc_id, source.uri, message=reading.message))
    if kept:
        table = documents_table([kept[doc_id] for doc_id in sorted(kept)])
        Folder.of(archive).at("documents").write_table(part_name(part), table)
    return outcomes


def _odd(origin: str, error: Exception) -> str:
    return (
        f"{origin} was read, but its text could not be taken in ({type(error).__name__}: {error}). "
        "Save it again as UTF-8 text, or leave it out of the folder."
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
