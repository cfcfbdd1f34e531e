"""The compressed chunks of an archive: for each shard of one granularity a table in the order of its rows.

Whatever a compressor makes of a chunk depends on the chunk's own vector alone, so a table belongs to a shard and a
compressor: a shard that a later version takes over brings its table with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.core.schemas import compressed as compressed_schema
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.search import layout
from okralong.pipelines.search.mapped import mapped_here

COMPRESSED: Final = "compressed"
"""The folder of these tables in an archive."""
FILE: Final = "compressed.arrow"

Compress = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Vectors of shape (n, dimension) to (n, vectors of a chunk, hidden)."""


def compressed_folder(archive: Folder, fingerprint: str, granularity: int) -> Folder:
    """Where the tables of one compressor are; each is in a folder that is called as its shard is."""
    return archive.at(COMPRESSED, f"compressor={fingerprint}", f"granularity={granularity}")


def table_folders(archive: Folder, manifest: Mapping[str, Any]) -> list[Folder]:
    """The folders of a version's tables, in order of the shards' numbers; none where it has no compressor."""
    held = manifest.get("compressor")
    if held is None:
        return []
    place = compressed_folder(archive, held["fingerprint"], held["granularity"])
    return [place.at(name) for name in manifest["files"]["index"][str(held["granularity"])]]


def tables_are_there(archive: Folder, manifest: Mapping[str, Any]) -> bool:
    """Whether a version has all the tables that its manifest speaks of."""
    return all(each.exists(FILE) for each in table_folders(archive, manifest))


def write_compressed(folder: Folder, rows: pa.Table, vectors: NDArray[np.float32], compress: Compress) -> None:
    """Write the table of a shard whose ``rows`` (``layout.ROWS_SCHEMA``) have these vectors."""
    made = compress(vectors)
    flat = made.reshape(len(vectors), made.shape[1] * made.shape[2]).astype(np.float16)
    column = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])
    columns = [rows.column("chunk_id").combine_chunks(), rows.column("doc_id").combine_chunks(), column]
    _write(folder, pa.Table.from_arrays(columns, schema=compressed_schema(flat.shape[1])))


def copy_without(source: Folder, target: Folder, doc_id: str) -> None:
    """Write the table ``target``: that of ``source`` without a document's rows."""
    table = layout.read_columns(source, FILE)
    _write(target, table.filter(pc.not_equal(table["doc_id"], doc_id)))


def _write(folder: Folder, table: pa.Table) -> None:
    layout.write_columns(folder, FILE, table)


@dataclass
class CompressedRows:
    """The table in ``folder``, mapped when it is first asked. A chunk has ``per_chunk`` vectors of ``hidden`` numbers.

    One of another filesystem is copied to a temporary folder first, see ``mapped_here``.
    """

    folder: Folder
    per_chunk: int
    hidden: int

    def take(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of some rows of the shard, shape (rows, per_chunk, hidden). Raises ArchiveError."""
        found: NDArray[np.float32] = self._all[list(rows)].astype(np.float32)
        return found

    @cached_property
    def _all(self) -> NDArray[np.float16]:
        numbers = self.per_chunk * self.hidden
        try:
            with mapped_here(self.folder, FILE) as path:
                table = layout.open_columns(path, FILE, compressed_schema(numbers))
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(
                f"The compressed chunks {self.folder.path} cannot be used: {error}. Delete that folder where it is "
                "damaged, and run okralong index on the archive again: it computes what is missing."
            ) from error
        flat: NDArray[np.float16] = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(len(table), self.per_chunk, self.hidden)
