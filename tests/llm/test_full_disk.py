"""A disk that is full: nobody uses what is not durable, nothing half-written stays, and with room it goes on."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from tests.llm.tools import a_call, paid, rows, statuses


@contextmanager
def no_room() -> Iterator[None]:
    """No file of this process can grow beyond some bytes, as on a full disk. (Python ignores the signal of it.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def half_written(folder: Path) -> list[Path]:
    return list(folder.rglob("*.partial"))


async def test_what_cannot_be_written_is_refused_and_is_written_once_there_is_room(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.record([JournalRow("q", "plan", "plan", "{}")])
    await ledger.intend(a_call(1))
    with no_room():
        with pytest.raises(OSError, match="File too large"):
            await ledger.settle(paid(a_call(1), 0.05))
        with pytest.raises(OSError, match="File too large"):
            await ledger.intend(a_call(2))
    assert not half_written(tmp_path)
    assert [row["kind"] for row in rows(tmp_path, "journal")] == ["plan", "request"]
    await ledger.record([JournalRow("q", "retrieve", "retrieval", "{}")])
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05)}
    await ledger.close()
    assert statuses(tmp_path) == {"call-1": ("ok", 0.05), "call-2": ("unknown", 0.1)}


async def test_a_run_whose_disk_stays_full_counts_the_call_as_unknown_when_it_is_opened_again(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    await ledger.intend(a_call(1))
    with no_room():
        with pytest.raises(OSError, match="File too large"):
            await ledger.settle(paid(a_call(1), 0.05))
        with pytest.raises(OSError, match="File too large"):
            await ledger.close()
    ledger = RunLedger(Folder.of(tmp_path), 1.0)
    totals = await ledger.totals()
    assert [totals.settled_usd, totals.unknown_usd] == pytest.approx([0.0, 0.1])
    await ledger.close()
