"""A table that grows by small immutable Parquet files, and is now and then merged into fewer.

Files are named by the range of commits that they hold: ``part-000000007.parquet`` holds commit 7,
``part-000000001-000000064.parquet`` commits 1 to 64. A merged file is written whole before its sources are deleted; if
the process dies between, the sources are inside the merged file's range, are known as such, and are deleted later.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import RUN_TABLES, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, LockedError

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
        with self.folder.open(part.name) as file:
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


# --------
# A run's folder: answers, journal, ledger and failures, written by one process and replayed when it starts again.
#
# The journal holds every step that must not be redone, keyed by (query_id, path, sample, kind). Rows are buffered and
# written together by ``commit``; a row counts once its commit has returned. Within a commit the journal goes first,
# then the ledger, then the answers: whatever a later table says, the earlier ones can prove. A row that no table takes
# is left out and named, so that it fails its own question and not those that share the commit.

ROW_KEYS: Final = {
    "journal": ("seq",),
    "ledger": ("call_id", "attempt"),
    "answers": ("query_id",),
    "failures": ("id", "stage"),
}
"""By which columns a later row of a table replaces an earlier one; the order is that of writing."""

UNFIT: Final = (ValueError, TypeError, OverflowError)
"""What Arrow raises for a row that does not fit its schema. Storage that fails raises OSError."""

Batch = dict[str, list[dict[str, Any]]]
Refused = dict[str, Exception]
"""By query_id (by id in ``failures``): why a row could not be written."""
StepKey = tuple[str, int, str]
"""``(path, sample, kind)`` within a question."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A step of a question: analysis, plan, retrieval, selection, found, request or reply by ``kind``; ``body`` is
    JSON.
    """

    query_id: str
    path: str
    kind: str
    body: str
    sample: int = 0
    request_hash: str = ""

    @property
    def key(self) -> StepKey:
        """What a later row of the same step replaces."""
        return (self.path, self.sample, self.kind)


class RunLog:
    """The single writer of a run's tables. Not async, not thread-safe: the ledger calls it one at a time."""

    def __init__(self, run: Folder) -> None:
        self.run = run
        self.tables = {name: PartedTable(run.at(name), RUN_TABLES[name], ROW_KEYS[name]) for name in ROW_KEYS}
        self.next_seq = 1
        self._pending: Batch = {}
        self._held = contextlib.ExitStack()

    @classmethod
    def open(cls, run: Folder, patience_s: float = 0.0) -> RunLog:
        """Open a run for writing, new or old.

        The process that writes holds a lock, apart from the one of the job that started it: a killed job may leave
        its writer alive for some seconds. Waits ``patience_s`` for such a one, then raises LockedError.
        """
        held = contextlib.ExitStack()
        # An object store has no lock that a killed process gives back; there the job's own lock has to do.
        if run.is_local:
            deadline = time.monotonic() + patience_s
            while True:
                try:
                    held.enter_context(run.at("journal").locked("okralong run log"))
                    break
                except LockedError:
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(0.1)
        try:
            log = cls(run)
        except BaseException:
            held.close()
            raise
        log._held = held
        return log

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Buffer a row; it is nowhere until the next commit. Surrogates without a partner become question marks."""
        self._pending.setdefault(table, []).append(_clean(row))

    def append_step(self, row: JournalRow) -> None:
        """Buffer a journal row."""
        body = {
            "seq": self.next_seq,
            "query_id": row.query_id,
            "path": row.path,
            "sample": row.sample,
            "kind": row.kind,
            "request_hash": row.request_hash,
            "body": row.body,
            "written_at": datetime.now(UTC),
        }
        self.next_seq += 1
        self.append("journal", body)

    def take(self) -> Batch:
        """What is buffered; the buffer is empty afterwards."""
        batch, self._pending = self._pending, {}
        return batch

    def put_back(self, batch: Batch) -> None:
        """Buffer again what could not be written, before what came since."""
        for table, rows in batch.items():
            self._pending[table] = rows + self._pending.get(table, [])

    def write(self, batch: Batch) -> Refused:
        """Make a batch durable; a table leaves ``batch`` when it is written. Raises OSError on a full disk.

        Returns the rows that do not fit their table; the others are written.
        """
        refused: Refused = {}
        for table in ROW_KEYS:
            if not batch.get(table):
                continue
            try:
                self.tables[table].write(batch[table])
            except UNFIT:
                batch[table] = self._fitting(table, batch[table], refused)
                if batch[table]:
                    self.tables[table].write(batch[table])
            del batch[table]
        return refused

    def commit(self) -> None:
        """Make everything buffered durable. Raises ValueError when a row does not fit; the others are written."""
        batch = self.take()
        try:
            refused = self.write(batch)
        except BaseException:
            self.put_back(batch)
            raise
        for why in refused.values():
            raise why

    def _fitting(self, table: str, rows: list[dict[str, Any]], refused: Refused) -> list[dict[str, Any]]:
        fit = []
        for row in rows:
            try:
                pa.Table.from_pylist([row], schema=RUN_TABLES[table])
            except UNFIT as error:
                named = str(row.get("query_id", row.get("id")))
                why = ValueError(f"A row of {self.run.at(table).path} for {named!r} cannot be written: {error}")
                why.__cause__ = error
                refused[named] = why
            else:
                fit.append(row)
        return fit

    @property
    def crowded(self) -> bool:
        """Whether a table has so many small files that ``compact`` would merge them."""
        return any(table.crowded for table in self.tables.values())

    def compact(self, final: bool = False) -> None:
        """Merge small files (see ``PartedTable.compact``)."""
        for table in self.tables.values():
            table.compact(final)

    def close(self) -> None:
        """Commit, merge, and let the lock go."""
        try:
            self.commit()
            self.compact(final=True)
        finally:
            self._held.close()

    def abandon(self) -> None:
        """Let the lock go without writing anything: what was buffered is lost."""
        self._held.close()


def _clean(value: Any) -> Any:
    """The value with strings that can be encoded; a lone surrogate could not."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_clean(item) for item in value)
    return value


def read_run_table(run: Folder, name: str, columns: list[str] | None = None) -> pa.Table:
    """``answers``, ``journal``, ``ledger`` or ``failures`` of a run as they stand now, each row once.

    Reading beside a writer is fine. A run that has not written the table gives an empty one.
    """
    return read_rows(run.at(name), RUN_TABLES[name], ROW_KEYS[name], columns)
