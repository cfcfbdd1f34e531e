"""A run's folder: answers, journal, ledger and failures, written by one process and replayed when it starts again.

While a run goes on, its commits are appended to a log of Arrow frames (``frames.py``), all tables together. Now and
then, and at the end, what is in the log becomes an immutable Parquet file (fragment) of each table, named by the
segments of the log that it holds: ``part-000000007.parquet`` holds segment 7, ``part-000000001-000000064.parquet``
segments 1 to 64. A fragment is written whole before its segments are deleted; if the process dies between, segments
inside a fragment's range are known as such, and are deleted later. So it is with fragments that are merged.

The journal holds every step that must not be redone, keyed by (query_id, path, sample, kind). Rows are buffered and
written together by ``RunLog.commit``; a row counts once its commit has returned. A commit is durable as a whole or not
at all. A row that no table takes is left out and named, so that it fails its own question and not those that share the
commit.

When the disk fails, the log goes on in its reserve (``frames.py``), which has room for the replies to the calls in
flight. Intents are withdrawn from then on: nothing more is sent, and what arrives is kept.
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
import pyarrow.parquet as pq
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_fixed

from okralong.pipelines.core.schemas import RUN_TABLES, columns_in, completed
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.storage_errors import not_written
from okralong.pipelines.core.types import ArchiveError, LockedError
from okralong.pipelines.llm.frames import Segments, numbers, read_segment

T = TypeVar("T")

ROW_KEYS: Final = {
    "journal": ("seq",),
    "ledger": ("call_id", "attempt"),
    "answers": ("query_id",),
    "failures": ("id", "stage"),
}
"""By which columns a later row of a table replaces an earlier one."""
LOG: Final = "journal"
"""The folder of a run in which the log is, beside the fragments of the journal and the writer's lock."""

UNFIT: Final = (ValueError, TypeError, OverflowError)
"""What Arrow raises for a row that does not fit its schema. Storage that fails raises OSError."""

NAME = re.compile(r"part-(\d{9})(?:-(\d{9}))?\.parquet")
READ_TRIES = 50
LOCK_POLL_S = 0.1
MERGED_BYTES = 64 * 1024 * 1024
"""A merged file that is at least this large is not merged again. Ours."""


@dataclass(frozen=True, order=True, slots=True)
class Fragment:
    """A file with the rows of the segments ``first`` to ``last``."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Its file name; names sort in the order of writing."""
        return f"part-{self.first:09d}{'' if self.last == self.first else f'-{self.last:09d}'}.parquet"


class FragmentedTable:
    """One table of a run: its fragments, and what the log has beyond them. One process writes; others may read at any
    time (see ``read_settled``).
    """

    def __init__(self, run: Folder, name: str, *, writer: bool = True) -> None:
        """Only a ``writer`` deletes. Raises ArchiveError when a file has another schema version."""
        self.name = name
        self.folder = run.at(name)
        self.schema = RUN_TABLES[name]
        self.key = list(ROW_KEYS[name])
        self._log = run.at(LOG)
        # Before the fragments: what becomes Parquet in between is then missed when it is read, and not overlooked.
        self._segments = numbers(self._log)
        self.folder.read_tables(self.schema, columns=[self.schema.names[0]])  # raises on another schema version
        self.fragments = self._list_fragments(writer)

    @property
    def last(self) -> int:
        """The last segment that is in a fragment; 0 without any."""
        return self.fragments[-1].last if self.fragments else 0

    def read_fragments(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The tables of the fragments one after the other, then of the log's segments, in order of commits."""
        for fragment in self.fragments:
            yield self._read(fragment, columns)
        for number in self._segments:
            if number > self.last:
                table = self._read_segment(number, columns)
                if table.num_rows:
                    yield table

    def absorb(self, until: int) -> None:
        """Write the rows of the log's segments up to ``until`` that are in no fragment yet as one fragment."""
        pending = [number for number in numbers(self._log) if self.last < number <= until]
        if not pending:
            return
        table = last_rows(pa.concat_tables(self._read_segment(number, None) for number in pending), self.key)
        if table.num_rows:
            fragment = Fragment(pending[0], pending[-1])
            self.folder.write_table(fragment.name, table)
            self.fragments.append(fragment)

    def compact(self) -> None:
        """Merge all fragments that are not large already."""
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
        with self.folder.open(fragment.name) as file:
            parquet = pq.ParquetFile(file)
            held = [name for name in wanted.names if name in parquet.schema_arrow.names]
            return completed(parquet.read(columns=held), wanted)

    def _list_fragments(self, writer: bool) -> list[Fragment]:
        """The fragments that count; those that a merge has taken in and that a crash left behind are deleted."""
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
        self.tables = {name: FragmentedTable(run, name) for name in ROW_KEYS}
        self._segments = Segments(run.at(LOG), {name: RUN_TABLES[name] for name in ROW_KEYS})
        self._segments.start_after(max(table.last for table in self.tables.values()))
        self.next_seq = 1
        self.failed: OSError | None = None
        self._pending: Batch = {}
        self._held = contextlib.ExitStack()

    @classmethod
    def open(cls, run: Folder, lock_wait_s: float = 0.0, reserve_bytes: int = 0) -> RunLog:
        """Open a run for writing, new or old, with a reserve of so many bytes (see ``reserve_bytes``).

        The process that writes holds a lock, apart from the one of the job that started it: a killed job may leave
        its writer alive for some seconds. Waits ``lock_wait_s`` for such a one, then raises LockedError.
        """
        held = contextlib.ExitStack()
        # An object store has no lock that a killed process gives back; there the job's own lock has to do.
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

    def take_pending(self) -> Batch:
        """What is buffered; the buffer is empty afterwards."""
        batch, self._pending = self._pending, {}
        return batch

    def restore(self, batch: Batch) -> None:
        """Buffer again what could not be written, before what came since."""
        for table, rows in batch.items():
            self._pending[table] = rows + self._pending.get(table, [])

    def write(self, batch: Batch) -> Refused:
        """Make a batch durable. Raises OSError when disk and reserve are full, and then nothing of it is written.

        Returns the rows that do not fit their table; the others are written. Once the disk has failed, intents are
        taken out of ``batch`` and are not written: see ``check_disk``.
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
        """Raise BrokenError once a write has failed: what is sent from then on might not be kept."""
        if self.failed is not None:
            raise not_written(f"The run folder {self.run.path}", self.failed)

    def _write(self, batch: Batch, refused: Refused) -> None:
        made: dict[str, pa.RecordBatch] = {}
        for table, rows in batch.items():
            schema = RUN_TABLES[table]
            try:
                made[table] = pa.RecordBatch.from_pylist(rows, schema=schema)
            except UNFIT:
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
        """Make everything buffered durable. Raises ValueError when a row does not fit; the others are written."""
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
            except UNFIT as error:
                named = str(row.get("query_id", row.get("id")))
                why = ValueError(f"A row of {self.run.at(table).path} for {named!r} cannot be written: {error}")
                why.__cause__ = error
                refused[named] = why
            else:
                fit.append(row)
        return fit

    @property
    def full(self) -> bool:
        """Whether the log is so large or old that its rows should become Parquet."""
        return self.failed is None and self._segments.full

    def seal(self) -> int:
        """What is written from now on is not taken along by ``absorb`` of the returned number."""
        return self._segments.seal()

    def absorb(self, until: int) -> None:
        """Make Parquet of the log's segments up to ``until``, which were sealed; others may be written meanwhile."""
        for table in self.tables.values():
            table.absorb(until)
        self._segments.remove(0, until)

    def close(self) -> None:
        """Commit, make Parquet of the log, merge, and let the lock go. Where the disk has failed before, what cannot
        become Parquet stays in the log.
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
        """Let the lock go without writing anything: what was buffered is lost."""
        self._segments.seal()
        with contextlib.suppress(OSError):
            self._segments.set_reserve(0)
        self._held.close()


ROW_BYTES: Final = 8 * 1024
"""Of a reply without its text: journal and ledger row, each with the call, and their frame. # project default"""
TOKEN_BYTES: Final = 64
"""Of a reply's token: its text as JSON with escapes, and its log-probability. # project default"""
LEAST_RESERVE: Final = 1024 * 1024
MOST_RESERVE: Final = 64 * 1024 * 1024
"""# project default: a thousand replies of 900 tokens; more in flight are kept as far as it goes."""


def reserve_bytes(in_flight: int = 64, tokens: int = 1024) -> int:
    """The size of a run's reserve: room for so many replies of so many tokens, within bounds."""
    return min(max(in_flight * (ROW_BYTES + tokens * TOKEN_BYTES), LEAST_RESERVE), MOST_RESERVE)


def _withdraw_intents(batch: Batch) -> None:
    """Take the requests out of a batch that is not written yet: nobody was told that they may be sent."""
    if "journal" in batch:
        batch["journal"] = [row for row in batch["journal"] if row["kind"] != "request"]


def absorb_log(run: Folder) -> None:
    """Make Parquet of what a killed process has left in the log of a run. Raises LockedError while one writes there."""
    if numbers(run.at(LOG)):
        RunLog.open(run).close()


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


def read_settled(run: Folder, name: str, read: Callable[[FragmentedTable], T]) -> T:
    """What ``read`` makes of a run's table as it stands now, beside its writer.

    The writer may delete a file between listing and reading; the listing is then made again. Raises ArchiveError when a
    file has another schema version, or when the files never hold still.
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
    """``answers``, ``journal``, ``ledger`` or ``failures`` of a run as they stand now, each row once (the last of its
    key).

    Reading beside a writer is fine (see ``read_settled``). A run that has not written the table gives an empty one.
    """
    schema, key = RUN_TABLES[name], ROW_KEYS[name]
    wanted = schema.names if columns is None else list(dict.fromkeys([*columns, *key]))
    tables = read_settled(run, name, lambda table: list(table.read_fragments(wanted)))
    if not tables:
        return pa.schema([schema.field(each) for each in columns or wanted]).empty_table()
    return last_rows(pa.concat_tables(tables), key).select(list(columns or wanted))
