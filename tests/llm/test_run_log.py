from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from okralong.pipelines.core.schemas import FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, LockedError
from okralong.pipelines.llm.journal import (
    MERGE_EVERY,
    FragmentedTable,
    JournalRow,
    RunLog,
    read_run_table,
)


def failure(name: str, message: str = "m") -> dict[str, Any]:
    return {"id": name, "stage": "s", "error_type": "E", "message": message, "at": datetime(2026, 1, 1, tzinfo=UTC)}


def failures(run: Folder) -> list[tuple[str, str]]:
    return [(row["id"], row["message"]) for row in read_run_table(run, "failures").to_pylist()]


@pytest.fixture(params=["local", "object store"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    """A folder on the local disk, and one on a filesystem that is known only as a pyarrow filesystem."""
    if request.param == "local":
        return Folder.of(tmp_path / "run")
    return Folder(fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "run")


def test_rows_are_readable_once_committed_and_the_last_of_a_key_wins(run: Folder) -> None:
    log = RunLog.open(run)
    log.append("failures", failure("a", "first"))
    assert failures(run) == []
    log.commit()
    log.append("failures", failure("b"))
    log.append("failures", failure("a", "second"))
    log.commit()
    assert failures(run) == [("b", "m"), ("a", "second")]
    log.close()
    assert failures(run) == [("b", "m"), ("a", "second")]
    assert run.at("failures").names(".parquet") == ["part-000000001-000000002.parquet"]


def test_many_commits_are_merged_while_the_run_goes_on(run: Folder) -> None:
    log = RunLog.open(run)
    for number in range(MERGE_EVERY + 3):
        log.append("failures", failure(f"q{number}"))
        log.commit()
        if log.needs_compaction:
            log.compact()
    assert len(run.at("failures").names(".parquet")) == 4
    log.close()
    assert [name for name, _ in failures(run)] == [f"q{number}" for number in range(MERGE_EVERY + 3)]
    reopened = RunLog.open(run)
    reopened.append("failures", failure("later"))
    reopened.close()
    assert len(failures(run)) == MERGE_EVERY + 4


@pytest.mark.parametrize("survivors", [0, 1, 2, 3])
def test_a_merge_that_died_between_writing_and_deleting_loses_and_doubles_nothing(run: Folder, survivors: int) -> None:
    log = RunLog.open(run)
    for text in ("first", "second", "third"):
        log.append("failures", failure("a", text))
        log.append("failures", failure(f"only {text}"))
        log.commit()
    folder = run.at("failures")
    singles = {name: folder.read_bytes(name) for name in folder.names(".parquet")}
    log.close()
    for name in list(singles)[:survivors]:
        folder.write_bytes(name, singles[name])  # as if the process had died before it deleted these
    expected = [("only first", "m"), ("only second", "m"), ("a", "third"), ("only third", "m")]
    assert failures(run) == expected
    again = RunLog.open(run)
    assert len(folder.names(".parquet")) == 1
    again.close()
    assert failures(run) == expected


def test_what_could_not_be_written_is_kept_for_the_next_commit(run: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunLog.open(run)
    log.append_step(JournalRow("q", "p", "plan", "{}"))
    log.append("failures", failure("a"))

    def full_disk(self: FragmentedTable, rows: list[dict[str, Any]]) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(FragmentedTable, "write", full_disk)
        with pytest.raises(OSError, match="No space"):
            log.commit()
    log.append("failures", failure("b"))
    log.close()
    assert failures(run) == [("a", "m"), ("b", "m")]
    assert read_run_table(run, "journal")["seq"].to_pylist() == [1]


def test_a_broken_surrogate_is_mended_wherever_it_stands(run: Folder) -> None:
    broken = "cut \ud83d short"
    log = RunLog.open(run)
    log.append("failures", failure(broken, broken))
    span = {"doc_id": broken, "start_char": 0, "end_char": 1}
    log.append("answers", {"query_id": "q\ud83d", "answer": "☃", "citations": [span], "seconds": [(broken, 1.0)]})
    log.close()
    assert failures(run) == [("cut ? short", "cut ? short")]
    (answer,) = read_run_table(run, "answers").to_pylist()
    assert (answer["query_id"], answer["answer"]) == ("q?", "☃")
    assert answer["citations"][0]["doc_id"] == answer["seconds"][0][0] == "cut ? short"


def test_a_row_that_no_table_takes_is_left_out_alone(run: Folder) -> None:
    log = RunLog.open(run)
    log.append("failures", failure("a"))
    log.append("failures", {**failure("b"), "at": "yesterday"})
    log.append("failures", failure("c"))
    with pytest.raises(ValueError, match="failures for 'b' cannot be written"):
        log.commit()
    log.close()
    assert failures(run) == [("a", "m"), ("c", "m")]


def test_a_run_has_one_writer(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    log = RunLog.open(run)
    with pytest.raises(LockedError, match="one writer"):
        RunLog.open(run, lock_wait_s=0.2)
    log.close()
    RunLog.open(run).close()


def test_a_file_of_another_schema_version_is_refused(run: Folder) -> None:
    other = pa.schema(list(FAILURES), metadata={"okralong.schema_version": "99"})
    run.at("failures").write_table("part-000000001.parquet", pa.Table.from_pylist([failure("a")], schema=other))
    with pytest.raises(ArchiveError, match="99"):
        RunLog.open(run)
    with pytest.raises(ArchiveError, match="99"):
        read_run_table(run, "failures")


def test_a_run_without_a_table_reads_as_empty_with_the_columns_asked_for(run: Folder) -> None:
    table = read_run_table(run, "ledger", ["status", "cost_usd"])
    assert table.num_rows == 0
    assert table.schema.names == ["status", "cost_usd"]


def test_a_file_whose_writer_was_killed_in_the_middle_of_it_is_cleared_away(run: Folder) -> None:
    journal, half = run.at("journal"), ".part-000000001.parquet.0f.partial"
    journal.write_bytes(half, b"PAR1")
    read_run_table(run, "journal")
    assert journal.exists(half), "a reader leaves alone what may still be written"
    RunLog.open(run).close()
    assert not journal.exists(half)
