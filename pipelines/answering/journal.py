"""A run's folder: answers, journal, ledger and failures, written by one process and replayed when it starts again.

The journal holds every step that must not be redone, keyed by (query_id, path, sample, kind). Rows are buffered and
written together by ``commit``; a row counts once its commit has returned. Within a commit the journal goes first, then
the ledger, then the answers: whatever a later table says, the earlier ones can prove. A row that no table takes is left
out and named, so that it fails its own question and not those that share the commit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.answering.llm.parts import PartedTable, read_rows
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import LockedError

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
