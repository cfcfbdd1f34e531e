"""The documents of a version, in one immutable file a shard, named by its content: versions share what has not changed.

A *claim* is a document as a source file holds it. Several may claim one id; ``settle.py`` says which is seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import CATALOGUE
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.search.sharding import shard_of

CATALOGUES: Final = "catalogue"


@dataclass(frozen=True, slots=True)
class Claim:
    """A document of a source file. ``part`` names the files of the archive that it is in, ``origin`` its place for
    people; ``sha256`` covers id and text. ``shadowed``: another document has the id.
    """

    doc_id: str
    sha256: str
    n_tokens: int
    part: str
    origin: str
    source_uri: str
    source_name: str
    shadowed: bool = False


def write_catalogue(archive: Folder, claims: Iterable[Claim], shards: int) -> list[str]:
    """Write what is not there yet; the names of the files, one a shard, in order of the shards."""
    parted: list[list[Claim]] = [[] for _ in range(shards)]
    for claim in claims:
        parted[shard_of(claim.doc_id, shards)].append(claim)
    folder = archive.at(CATALOGUES)
    there = set(folder.names(".parquet"))
    names = []
    for part in parted:
        part.sort(key=lambda claim: (claim.doc_id, claim.shadowed, claim.source_name, claim.source_uri))
        rows = [asdict(claim) for claim in part]
        name = f"{digest(rows)}.parquet"
        if name not in there:
            folder.write_table(name, pa.Table.from_pylist(rows, schema=CATALOGUE))
        names.append(name)
    return names


def read_catalogue(archive: Folder, names: Sequence[str]) -> Iterator[Claim]:
    """The claims of some catalogue files, one file in memory at a time."""
    folder = archive.at(CATALOGUES)
    for name in names:
        with folder.filesystem.open_input_file(folder.at(name).path) as file:
            for batch in pq.ParquetFile(file).iter_batches(1024):
                for row in batch.to_pylist():
                    yield Claim(**row)


def digest(content: object) -> str:
    """A short hash of some plain value, for file names: 16 hex digits."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]
