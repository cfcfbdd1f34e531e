"""A table that grows by small immutable Parquet files, and is now and then merged into fewer.

Files are named by the range of commits that they hold: ``part-000000007.parquet`` holds commit 7,
``part-000000001-000000064.parquet`` commits 1 to 64. A merged file is written whole before its sources are deleted; if
the process dies between, the sources are inside the merged file's range, are known as such, and are deleted later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError

NAME = re.compile(r"part-(\d{9})(?:-(\d{9}))?\.parquet")
MERGE_EVERY = 64
"""Single commits that are merged into one file while a run goes on. Ours."""
READ_TRIES = 50
MERGED_BYTES = 64 * 1024 * 1024
"""A merged file that is at least this large is not merged again. Ours."""


@dataclass(frozen=True, order=True, slots=True)
class Part:
    """A file with the commits ``first`` to ``last``."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Its file name; names sort in the order of commits."""
        return f"part-{self.first:09d}{'' if self.last == self.first else f'-{self.last:09d}'}.parquet"


class PartedTable:
    """The parts of one table. One process writes; others may read at any time (see ``read_rows``)."""

    def __init__(self, folder: Folder, schema: pa.Schema, key: Sequence[str], *, writer: bool = True) -> None:
        """``key`` names the columns by which a later row replaces an earlier one. Only a ``writer`` deletes."""
        self.folder = folder
        self.schema = schema
        self.key = list(key)
        folder.read_tables(schema, columns=[schema.names[0]])  # raises ArchiveError on another schema version
        self.parts = self._settle_parts(writer)
        self._written: dict[Part, pa.Table] = {}  # single commits of this process, so that a merge need not read them

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        """One durable file with these rows."""
        number = self.parts[-1].last + 1 if self.parts else 1
        part = Part(number, number)
        table = pa.Table.from_pylist(list(rows), schema=self.schema)
        self.folder.write_table(part.name, table)
        self._written[part] = table
        self.parts.append(part)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The parts one after the other, in order of commits."""
        for part in self.parts:
            yield self._read(part, columns)

    def compact(self, final: bool = False) -> None:
        """Merge single commits when there are many of them; with ``final`` merge all that is not large already."""
        if final:
            for run in self._runs(self.parts):
                self._merge(run)
        elif self.crowded:
            self._merge(self._singles())

    @property
    def crowded(self) -> bool:
        """Whether ``compact`` has something to do."""
        return len(self._singles()) >= MERGE_EVERY

    def _singles(self) -> list[Part]:
        """The newest parts, back to the last merged one."""
        merged = [at for at, part in enumerate(self.parts) if part.first != part.last]
        return self.parts[merged[-1] + 1 if merged else 0 :]

    def _runs(self, parts: list[Part]) -> list[list[Part]]:
        runs: list[list[Part]] = [[]]
        size = 0
        for part in parts:
            info = self.folder.filesystem.get_file_info(self.folder.at(part.name).path)
            if runs[-1] and size + info.size > MERGED_BYTES:
                runs.append([])
                size = 0
            runs[-1].append(part)
            size += info.size
        return runs

    def _merge(self, parts: list[Part]) -> None:
        if len(parts) < 2:
            return
        merged = Part(parts[0].first, parts[-1].last)
        pieces = [self._written[part] if part in self._written else self._read(part, None) for part in parts]
        table = last_rows(pa.concat_tables(pieces), self.key)
        self.folder.write_table(merged.name, table)
        self.parts = sorted([part for part in self.parts if part not in parts] + [merged])
        for part in parts:
            self.folder.remove(part.name)
            self._written.pop(part, None)

    def _read(self, part: Part, columns: Sequence[str] | None) -> pa.Table:
        wanted = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        with self.folder.filesystem.open_input_file(self.folder.at(part.name).path) as file:
            parquet = pq.ParquetFile(file)
            held = [name for name in wanted.names if name in parquet.schema_arrow.names]
            return completed(parquet.read(columns=held), wanted)

    def _settle_parts(self, writer: bool) -> list[Part]:
        """The parts that count; those that a merge has taken in and that a crash left behind are deleted."""
        found = [match for name in self.folder.names(".parquet") if (match := NAME.fullmatch(name))]
        parts = sorted(
            (Part(int(match[1]), int(match[2] or match[1])) for match in found),
            key=lambda part: (part.first, -part.last),
        )
        kept: list[Part] = []
        for part in parts:
            if not kept or part.last > kept[-1].last:
                kept.append(part)
            elif writer:
                self.folder.remove(part.name)
        if writer:
            for name in self.folder.names(".partial"):  # its writer was killed in the middle of it
                self.folder.remove(name)
        return kept


def last_rows(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The table with only the last row of each key, in order."""
    if table.num_rows < 2:
        return table
    numbered = table.select(list(key)).append_column("__row", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([("__row", "max")])["__row_max"]
    return table if len(last) == table.num_rows else table.take(pc.take(last, pc.array_sort_indices(last)))


def read_rows(folder: Folder, schema: pa.Schema, key: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
    """A table as it stands now, for a reader beside the writer: each row once, the last of each key.

    A merge may delete a file between listing and reading; the listing is then made again. Raises ArchiveError when a
    file has another schema version, or when the files never hold still.
    """
    wanted = schema.names if columns is None else list(dict.fromkeys([*columns, *key]))
    for _ in range(READ_TRIES):
        try:
            parts = list(PartedTable(folder, schema, key, writer=False).batches(wanted))
        except FileNotFoundError:
            continue
        if not parts:
            return pa.schema([schema.field(name) for name in columns or wanted]).empty_table()
        return last_rows(pa.concat_tables(parts), key).select(list(columns or wanted))
    raise ArchiveError(f"The files of {folder.path} were replaced while they were read, {READ_TRIES} times. Try again.")
