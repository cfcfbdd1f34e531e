"""The files that a version was made of: what tells the next run which of them it need not read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archives.catalogue import digest
from okralong.pipelines.core.schemas import SOURCES
from okralong.pipelines.core.storage import Folder

KNOWN_SOURCES: Final = "sources"


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A file as it was read: its size in bytes, its time of change, and the (doc_id, message) of what failed in it."""

    uri: str
    name: str
    sha256: str
    size: int
    mtime_ns: int
    failed: tuple[tuple[str, str], ...] = ()


def write_sources(archive: Folder, sources: Iterable[KnownSource]) -> str:
    """Write the table unless it is there; its file name."""
    rows = [
        asdict(source) | {"failed": [{"doc_id": doc_id, "message": why} for doc_id, why in source.failed]}
        for source in sorted(sources, key=lambda source: source.uri)
    ]
    folder, name = archive.at(KNOWN_SOURCES), f"{digest(rows)}.parquet"
    if not folder.exists(name):
        folder.write_table(name, pa.Table.from_pylist(rows, schema=SOURCES))
    return name


def read_sources(archive: Folder, name: str) -> dict[str, KnownSource]:
    """The sources of a version by uri."""
    folder = archive.at(KNOWN_SOURCES)
    with folder.filesystem.open_input_file(folder.at(name).path) as file:
        return {
            row["uri"]: KnownSource(**row | {"failed": tuple((f["doc_id"], f["message"]) for f in row["failed"])})
            for batch in pq.ParquetFile(file).iter_batches(1024)
            for row in batch.to_pylist()
        }
