"""What became of the documents of each part, written when the part is complete: the memory of a job that was killed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.versions import Claim, KnownSource
from okralong.pipelines.core.schemas import OUTCOMES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.ingest import Read, part_file
from okralong.pipelines.indexing.readers.raw import Source

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
    folder = archive.at(OUTCOMES_FOLDER)
    with folder.filesystem.open_input_file(folder.at(part_file(name)).path) as file:
        rows = pq.ParquetFile(file).read().to_pylist()
    limits = {row.pop("limits") for row in rows}
    return [Read(**row) for row in rows], next(iter(limits), "")


def found_of(archive: Folder, names: Iterable[str], wanted: Mapping[str, Source]) -> dict[str, tuple[list[Read], str]]:
    """What some parts say of ``wanted`` sources (by uri) of the same content, and under which limits that was."""
    found: dict[str, tuple[list[Read], str]] = {}
    for name in names if wanted else ():
        outcomes, limits = read_outcomes(archive, name)
        here: dict[str, tuple[list[Read], str]] = {}
        for outcome in outcomes:
            source = wanted.get(outcome.source_uri)
            if source and (source.doc_id, source.sha256) == (outcome.source_name, outcome.source_sha256):
                here.setdefault(source.uri, ([], limits))[0].append(outcome)
        found |= here
    return found


def claims_of(outcomes: Iterable[Read]) -> list[Claim]:
    """The documents among some outcomes."""
    return [
        Claim(o.doc_id, o.sha256, o.n_tokens, o.part, o.origin, o.source_uri, o.source_name) for o in outcomes if o.part
    ]


def known_of(source: Source, outcomes: Iterable[Read]) -> KnownSource:
    """What the next version knows of a source that was read."""
    failed = tuple((outcome.doc_id, outcome.message) for outcome in outcomes if outcome.message)
    return KnownSource(source.uri, source.doc_id, source.sha256, source.size, source.mtime_ns, failed)
