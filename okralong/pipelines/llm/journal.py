"""A run's folder: answers, journal, ledger and failures, written by one process and replayed after a restart.

During a run, commits to all tables are appended to one log of Arrow frames (``frames.py``). Now and then, and at the
end, the log is converted to an immutable Parquet file (a fragment) per table, which is named after its log segments:
``part-000000007.parquet`` has segment 7, ``part-000000001-000000064.parquet`` segments 1 to 64. A fragment is complete
before its segments are deleted. If the process dies in between, segments in a fragment's range are ignored and deleted
later. The same applies to fragments that are merged.

The journal contains every step that must not be repeated, keyed by (query_id, path, sample, kind). Rows are buffered
and written together by ``RunLog.commit``; a commit becomes durable as a whole or not at all. A row that does not fit
its table is skipped and reported, so it fails only its own question, not others in the same commit.

If the disk fails, the log continues in its reserve (``frames.py``), which has room for the replies to the calls in
flight. From then on no intents are written, so no more requests are sent, but replies that arrive are kept.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_fixed

from okralong.pipelines.core.schemas import RUN_TABLES, columns_in, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.types import ArchiveError, LockedError
from okralong.pipelines.llm.frames import Segments, numbers, read_segment, repair_segment

T = TypeVar("T")

ROW_KEYS: Final = {
    "journal": ("seq",),
    "ledger": ("call_id", "attempt"),
    "answers": ("query_id",),
    "failures": ("id", "stage"),
}
"""The key columns of a table: a later row replaces an earlier one with the same key."""
LOG: Final = "journal"
"""The folder of a run that has the log, the fragments of the journal and the writer's lock."""

SCHEMA_ERRORS: Final = (ValueError, TypeError, OverflowError)
"""Exceptions that Arrow raises for a row that does not fit its schema. A failing disk raises OSError."""

NAME = re.compile(r"part-(\d{9})(?:-(\d{9}))?\.parquet")
READ_TRIES = 50
LOCK_POLL_S = 0.1
MERGED_BYTES = 64 * 1024 * 1024  # project default
"""Fragments of at least this many bytes are not merged again."""


@dataclass(frozen=True, order=True, slots=True)
class Fragment:
    """A Parquet file with the rows of the segments ``first`` to ``last``."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The file name; names sort in the order of writing."""
        return f"part-{self.first:09d}{'' if self.last == self.first else f'-{self.last:09d}'}.parquet"


class FragmentedTable:
    """One table of a run: its fragments, and its rows in later segments of the log.

    One process writes; others may read at any time (see ``read_settled``).
    """

    def __init__(self, run: Folder, name: str, *, writer: bool = True) -> None:
        """List the files; only a ``writer`` deletes obsolete ones. Raises ArchiveError for another schema version."""
        self.name = name
        self.folder = run.at(name)
        self.schema = RUN_TABLES[name]
        self.key = list(ROW_KEYS[name])
        self._log = run.at(LOG)
        # Segments are listed before fragments. A segment that is converted in between then raises an error when it is
        # read, instead of being overlooked.
        self._segments = numbers(self._log)
        self.folder.read_tables(self.schema, columns=[self.schema.names[0]])  # raises on another schema version
        self.fragments = self._list_fragments(writer)

    @property
    def last(self) -> int:
        """The last segment that is in a fragment, or 0."""
        return self.fragments[-1].last if self.fragments else 0

    def read_fragments(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of the fragments, then of the log's segments, in the order of the commits."""
        for fragment in self.fragments:
            yield self._read(fragment, columns)
        for number in self._segments:
            if number > self.last:
                table = self._read_segment(number, columns)
                if table.num_rows:
                    yield table

    def absorb(self, until: int) -> None:
        """Convert the segments up to ``until`` that are in no fragment yet into one."""
        pending = [number for number in numbers(self._log) if self.last < number <= until]
        if not pending:
            return
        table = last_rows(pa.concat_tables(self._read_segment(number, None) for number in pending), self.key)
        if table.num_rows:
            fragment = Fragment(pending[0], pending[-1])
            self.folder.write_table(fragment.name, table)
            self.fragments.append(fragment)

    def compact(self) -> None:
        """Merge the small fragments."""
        for run in self._runs(self.fragments):
            self._merge(run)

    def _runs(self, fragments: list[Fragment]) -> list[list[Fragment]]:
        runs: list[list[Fragment]] = [[]]
        size = 0
        for fragment in fragments:
            info = self.folder.filesystem.get_file_info(self.folder.at(fragment.name).path)
            if runs[-1] and size + info.size > MERGED_BYTES:
                runs.append([])
                size = 0
            runs[-1].append(fragment)
            size += info.size
        return runs

    def _merge(self, fragments: list[Fragment]) -> None:
        if len(fragments) < 2:
            return
        merged = Fragment(fragments[0].first, fragments[-1].last)
        table = last_rows(pa.concat_tables(self._read(fragment, None) for fragment in fragments), self.key)
        self.folder.write_table(merged.name, table)
        self.fragments = sorted([fragment for fragment in self.fragments if fragment not in fragments] + [merged])
        for fragment in fragments:
            self.folder.remove(fragment.name)

    def _read_segment(self, number: int, columns: Sequence[str] | None) -> pa.Table:
        wanted = self._wanted(columns)
        found = read_segment(self._log, number, self.name)
        if found is None:
            return wanted.empty_table()
        schema, batches = found
        version = (schema.metadata or {}).get(b"okralong.schema_version", b"?").decode()
        if columns_in(self.schema, version) is None:
            raise ArchiveError(
                f"The log in {self._log.path} has rows of {self.name} of schema version {version}, which this okralong "
                "does not know. Finish the run with the okralong version that began it (see run.json)."
            )
        held = [name for name in wanted.names if name in schema.names]
        return completed(pa.Table.from_batches(batches, schema).select(held), wanted)

    def _wanted(self, columns: Sequence[str] | None) -> pa.Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])

    def _read(self, fragment: Fragment, columns: Sequence[str] | None) -> pa.Table:
        wanted = self._wanted(columns)
        with self.folder.parquet(fragment.name) as parquet:
            held = [name for name in wanted.names if name in parquet.schema_arrow.names]
            return completed(parquet.read(columns=held), wanted)

    def _list_fragments(self, writer: bool) -> list[Fragment]:
        """Return the current fragments; a writer deletes merged ones that a crash left behind."""
        found = [match for name in self.folder.names(".parquet") if (match := NAME.fullmatch(name))]
        fragments = sorted(
            (Fragment(int(match[1]), int(match[2] or match[1])) for match in found),
            key=lambda fragment: (fragment.first, -fragment.last),
        )
        kept: list[Fragment] = []
        for fragment in fragments:
            if not kept or fragment.last > kept[-1].last:
                kept.append(fragment)
            elif writer:
                self.folder.remove(fragment.name)
        if writer:
            for name in self.folder.names(".partial"):  # left by a killed writer
                self.folder.remove(name)
        return kept


def last_rows(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the table with only the last row for each key, in order."""
    if table.num_rows < 2:
        return table
    numbered = table.select(list(key)).append_column("__row", pa.array(range(table.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([("__row", "max")])["__row_max"]
    return table if len(last) == table.num_rows else table.take(pc.take(last, pc.array_sort_indices(last)))


Batch = dict[str, list[dict[str, Any]]]
Refused = dict[str, Exception]
"""The errors of rows that could not be written, by query_id (for ``failures``, by id)."""
StepKey = tuple[str, int, str]
"""``(path, sample, kind)`` within a question."""


@dataclass(frozen=True, slots=True)
class JournalRow:
    """A step of a question. ``kind`` is what it is, such as "plan" or "reply"; ``body`` is JSON."""

    query_id: str
    path: str
    kind: str
    body: str
    sample: int = 0
    request_hash: str = ""

    @property
    def key(self) -> StepKey:
        """The step's key within the question. A later row with the same key replaces this one."""
        return (self.path, self.sample, self.kind)


class RunLog:
    """The only writer of a run's tables. It is not thread-safe: the ledger makes one call at a time."""

    def __init__(self, run: Folder) -> None:
        self.run = run
        self.tables = {name: FragmentedTable(run, name) for name in ROW_KEYS}
        self._segments = Segments(run.at(LOG), {name: RUN_TABLES[name] for name in ROW_KEYS})
        self._segments.start_after(max(table.last for table in self.tables.values()))
        self.next_seq = 1
        self.failed: OSError | None = None
        self._pending: Batch = {}
        self._held = contextlib.ExitStack()

    @classmethod
    def open(cls, run: Folder, lock_wait_s: float = 0.0, reserve_bytes: int = 0) -> RunLog:
        """Open a new or existing run for writing, with a reserve of ``reserve_bytes`` for a full disk.

        The writing process holds a lock in addition to the job's, since a killed job may leave its writer alive for
        some seconds. Waits ``lock_wait_s`` seconds for such a writer, then raises LockedError.
        """
        held = contextlib.ExitStack()
        # An object store has no lock that is released when a process is killed; there, only the job's own lock is used.
        if run.is_local:
            waiting = Retrying(
                retry=retry_if_exception_type(LockedError),
                stop=stop_after_delay(lock_wait_s),
                wait=wait_fixed(LOCK_POLL_S),
                reraise=True,
            )
            waiting(lambda: held.enter_context(run.at("journal").locked("okralong run log")))
        try:
            log = cls(run)
            log._set_reserve(reserve_bytes)
        except BaseException:
            held.close()
            raise
        log._held = held
        return log

    def append(self, table: str, row: Mapping[str, Any]) -> None:
        """Buffer a row until the next commit. Lone surrogates become question marks."""
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

    def take_pending(self) -> Batch:
        """Return the buffered rows and empty the buffer."""
        batch, self._pending = self._pending, {}
        return batch

    def restore(self, batch: Batch) -> None:
        """Put rows that could not be written back to the front of the buffer."""
        for table, rows in batch.items():
            self._pending[table] = rows + self._pending.get(table, [])

    def write(self, batch: Batch) -> Refused:
        """Make a batch durable; return the errors of rows that do not fit their table, which are skipped.

        Once the disk has failed, intents are removed from ``batch`` (see ``check_disk``). Raises OSError, with nothing
        written, if disk and reserve are full.
        """
        if self.failed is not None:
            _withdraw_intents(batch)
        refused: Refused = {}
        try:
            self._write(batch, refused)
        except OSError as error:
            self.failed = self.failed or error
            _withdraw_intents(batch)
            if not self._segments.use_reserve():
                raise
            self._write(batch, refused)
        return refused

    def check_disk(self) -> None:
        """Raise BrokenError once a write has failed: replies to further requests might be lost."""
        if self.failed is not None:
            raise not_written(f"The run folder {self.run.path}", self.failed)

    def _write(self, batch: Batch, refused: Refused) -> None:
        made: dict[str, pa.RecordBatch] = {}
        for table, rows in batch.items():
            schema = RUN_TABLES[table]
            try:
                made[table] = pa.RecordBatch.from_pylist(rows, schema=schema)
            except SCHEMA_ERRORS:
                if fit := self._fitting(table, rows, refused):
                    made[table] = pa.RecordBatch.from_pylist(fit, schema=schema)
        if made:
            self._segments.append(made)

    def _set_reserve(self, size: int) -> None:
        try:
            self._segments.set_reserve(size)
        except OSError as error:
            raise not_written(
                f"The run folder {self.run.path}", error, f"{size / 1e6:.1f} MB to keep replies"
            ) from error

    def commit(self) -> None:
        """Make all buffered rows durable. Raises ValueError for a row that does not fit; the others are written."""
        batch = self.take_pending()
        try:
            refused = self.write(batch)
        except BaseException:
            self.restore(batch)
            raise
        for why in refused.values():
            raise why

    def _fitting(self, table: str, rows: list[dict[str, Any]], refused: Refused) -> list[dict[str, Any]]:
        fit = []
        for row in rows:
            try:
                pa.RecordBatch.from_pylist([row], schema=RUN_TABLES[table])
            except SCHEMA_ERRORS as error:
                named = str(row.get("query_id", row.get("id")))
                why = ValueError(f"A row of {self.run.at(table).path} for {named!r} cannot be written: {error}")
                why.__cause__ = error
                refused[named] = why
            else:
                fit.append(row)
        return fit

    @property
    def full(self) -> bool:
        """True if the log is large or old enough to convert it to Parquet."""
        return self.failed is None and self._segments.full

    def seal(self) -> int:
        """Start a new segment; return the number of the last sealed one, for ``absorb``."""
        return self._segments.seal()

    def absorb(self, until: int) -> None:
        """Convert the sealed segments up to ``until`` to Parquet; meanwhile, later segments may be written."""
        for table in self.tables.values():
            table.absorb(until)
        self._segments.remove(0, until)

    def close(self) -> None:
        """Commit, convert the log to Parquet, merge, and release the lock.

        If the disk has failed, rows that cannot be converted stay in the log.
        """
        try:
            self.commit()
            self._segments.set_reserve(0)
            try:
                self.absorb(self.seal())
                for table in self.tables.values():
                    table.compact()
            except OSError:
                if self.failed is None:
                    raise
        finally:
            self._held.close()

    def abandon(self) -> None:
        """Release the lock without writing anything; buffered rows are lost."""
        self._segments.seal()
        with contextlib.suppress(OSError):
            self._segments.set_reserve(0)
        self._held.close()


ROW_BYTES: Final = 8 * 1024  # project default
"""Bytes of a reply in addition to its text: the journal row and the ledger row, each with the call, and their frame."""
TOKEN_BYTES: Final = 64  # project default
"""Bytes per token of a reply: its text as escaped JSON, and its log-probability."""
LEAST_RESERVE: Final = 1024 * 1024
MOST_RESERVE: Final = 64 * 1024 * 1024  # project default
"""The largest reserve in bytes: room for a thousand replies of 900 tokens."""


def reserve_bytes(in_flight: int = 64, tokens: int = 1024) -> int:
    """Return the size of a run's reserve: room for ``in_flight`` replies of ``tokens`` tokens, within bounds."""
    return min(max(in_flight * (ROW_BYTES + tokens * TOKEN_BYTES), LEAST_RESERVE), MOST_RESERVE)


def _withdraw_intents(batch: Batch) -> None:
    """Remove the intents from a batch that was not written yet, so that their requests are not sent."""
    if "journal" in batch:
        batch["journal"] = [row for row in batch["journal"] if row["kind"] != "request"]


def absorb_log(run: Folder) -> None:
    """Convert a killed process's log to Parquet. Raises LockedError while a process writes the run."""
    if numbers(run.at(LOG)):
        RunLog.open(run).close()


def repair(run: Folder) -> list[str]:
    """Remove what is damaged from a run's tables, and return what was lost, a sentence for each place.

    A damaged file is kept under its name with ``.damaged`` appended. Raises LockedError while a process writes the run.
    """
    lost = []
    log = run.at(LOG)
    with run.locked("okralong repair"), log.locked("okralong repair"):
        for number in numbers(log):
            for part in repair_segment(log, number, {name: RUN_TABLES[name] for name in ROW_KEYS}):
                size = part.end - part.start
                lost.append(f"{log.path}, segment {number}: {size:,} bytes at byte {part.start:,}")
        for name in ROW_KEYS:
            folder = run.at(name)
            for file in folder.names(".parquet"):
                try:
                    folder.read_table(file)
                except ArchiveError:
                    folder.filesystem.move(folder.at(file).path, folder.at(f"{file}.damaged").path)
                    lost.append(f"{folder.at(file).path}: all rows of {name} in it")
    return lost


def _clean(value: Any) -> Any:
    """Return the value with lone surrogates, which cannot be encoded, replaced."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_clean(item) for item in value)
    return value


def read_settled(run: Folder, name: str, read: Callable[[FragmentedTable], T]) -> T:
    """Call ``read`` on the current state of a run's table, which another process may be writing.

    If the writer deletes a file between listing and reading, the files are listed again. Raises ArchiveError for
    another schema version, or if files keep disappearing.
    """
    trying = Retrying(
        retry=retry_if_exception_type(FileNotFoundError), stop=stop_after_attempt(READ_TRIES), reraise=True
    )
    try:
        return trying(lambda: read(FragmentedTable(run, name, writer=False)))
    except FileNotFoundError:
        raise ArchiveError(
            f"The files of {run.at(name).path} were replaced while they were read, {READ_TRIES} times. Try again."
        ) from None


def read_run_table(run: Folder, name: str, columns: list[str] | None = None) -> pa.Table:
    """Return the current ``answers``, ``journal``, ``ledger`` or ``failures``: the last row of each key.

    Another process may be writing the table (see ``read_settled``). A table that does not exist yet is empty.
    """
    schema, key = RUN_TABLES[name], ROW_KEYS[name]
    wanted = schema.names if columns is None else list(dict.fromkeys([*columns, *key]))
    tables = read_settled(run, name, lambda table: list(table.read_fragments(wanted)))
    if not tables:
        return pa.schema([schema.field(each) for each in columns or wanted]).empty_table()
    return last_rows(pa.concat_tables(tables), key).select(list(columns or wanted))
