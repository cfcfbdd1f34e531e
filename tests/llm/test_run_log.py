from __future__ import annotations

import resource
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from okralong.pipelines.core.schemas import FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, LockedError
from okralong.pipelines.llm import frames
from okralong.pipelines.llm.frames import SEGMENTS_OPEN, STEP_BYTES, Batches, Segments, numbers
from okralong.pipelines.llm.journal import FragmentedTable, JournalRow, RunLog, read_run_table
from okralong.pipelines.run.rows import purge_run


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
    (part,) = run.at("failures").names(".parquet")
    assert part == ("part-000000001.parquet" if run.is_local else "part-000000001-000000002.parquet")
    assert not numbers(run.at("journal"))


def test_the_log_becomes_parquet_while_the_run_goes_on(run: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SEGMENT_BYTES", 20_000)
    log = RunLog.open(run)
    for number in range(SEGMENTS_OPEN + 3):
        log.append("failures", failure(f"q{number}", "m" * 300))
        log.commit()
        if log.full:
            sealed = log.seal()
            log.append("failures", failure(f"beside {number}"))
            log.commit()  # while the sealed part is worked on
            log.absorb(sealed)
    names = [name for name, _ in failures(run)]
    assert [name for name in names if not name.startswith("beside")] == [f"q{n}" for n in range(SEGMENTS_OPEN + 3)]
    assert len(run.at("failures").names(".parquet")) == sum(name.startswith("beside") for name in names) >= 1
    assert numbers(run.at("journal"))
    log.close()
    assert [name for name, _ in failures(run)] == names
    assert len(run.at("failures").names(".parquet")) == 1
    reopened = RunLog.open(run)
    reopened.append("failures", failure("later"))
    reopened.close()
    assert len(failures(run)) == len(names) + 1


@pytest.mark.parametrize("survivors", [0, 1, 2])
def test_a_writer_that_died_between_parquet_and_log_loses_and_doubles_nothing(run: Folder, survivors: int) -> None:
    for text in ("first", "second", "third"):
        log = RunLog.open(run)
        log.append("failures", failure("a", text))
        log.append("failures", failure(f"only {text}"))
        log.commit()
        log.abandon()  # killed
    folder = run.at("journal")
    segments = {name: folder.read_bytes(name) for name in folder.names(".frames")}
    assert len(segments) == 3
    expected = [("only first", "m"), ("only second", "m"), ("a", "third"), ("only third", "m")]
    assert failures(run) == expected
    RunLog.open(run).close()
    for name in list(segments)[:survivors]:
        folder.write_bytes(name, segments[name])  # as if the process had died before it deleted these
    assert failures(run) == expected
    assert [table.num_rows for table in FragmentedTable(run, "failures").read_fragments()] == [4]
    again = RunLog.open(run)
    again.append("failures", failure("later"))
    again.close()
    assert failures(run) == [*expected, ("later", "m")]
    assert not numbers(folder)


def test_a_merge_that_died_before_it_deleted_its_sources_is_known(run: Folder) -> None:
    for text in ("first", "second"):
        log = RunLog.open(run)
        log.append("failures", failure("a", text))
        log.commit()
        log.absorb(log.seal())
        log.abandon()
    folder = run.at("failures")
    sources = {name: folder.read_bytes(name) for name in folder.names(".parquet")}
    assert len(sources) == 2
    RunLog.open(run).close()
    for name, data in sources.items():
        folder.write_bytes(name, data)
    assert failures(run) == [("a", "second")]
    RunLog.open(run).close()
    assert folder.names(".parquet") == ["part-000000001-000000002.parquet"]


def test_what_could_not_be_written_is_kept_for_the_next_commit(run: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    log = RunLog.open(run)
    log.append_step(JournalRow("q", "p", "plan", "{}"))
    log.append("failures", failure("a"))

    def full_disk(self: Segments, batches: Batches) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Segments, "append", full_disk)
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


def test_an_incomplete_last_commit_is_nothing_and_damage_before_the_end_is_told(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    log = RunLog.open(run)
    sizes = []
    (file,) = [tmp_path / "journal" / "log-000000001.frames"]
    for name in ("a", "b", "c"):
        log.append("failures", failure(name))
        log.commit()
        sizes.append(log._segments._size)
    assert file.stat().st_size == STEP_BYTES
    assert len(failures(run)) == 3, "what is preallocated is ignored"
    log.abandon()
    assert file.stat().st_size == sizes[2]
    whole = file.read_bytes()
    acknowledged = whole
    whole = whole[:8] + sizes[1].to_bytes(8, "little") + whole[16:]
    for end in range(sizes[1], sizes[2]):  # killed in the middle of the last write, wherever that was
        for rest in (b"", bytes(4096 + sizes[2] - end)):  # without and with preallocated bytes behind it
            if rest and whole[end:].strip(b"\0") == b"":
                continue
            file.write_bytes(whole[:end] + rest)
            assert failures(run) == [("a", "m"), ("b", "m")]
    whole = whole[:8] + bytes(8) + whole[16:]
    for rest in (b"", bytes(4096)):
        for end in (0, 5, 8, 12, 100):  # a segment has its name when its schemas are on disk, so it lost them
            file.write_bytes(whole[:end] + rest)
            with pytest.raises(ArchiveError, match="is damaged at byte"):
                failures(run)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # a block that never reached the disk
    assert failures(run) == [("a", "m"), ("b", "m")]
    whole = acknowledged
    file.write_bytes(whole[: sizes[2]] + bytes(4096))
    assert len(failures(run)) == 3
    log = RunLog.open(run)
    log.append("failures", failure("d"))
    log.close()
    assert [name for name, _ in failures(run)] == ["a", "b", "c", "d"]
    file.write_bytes(whole[: sizes[1] - 40] + b"?" + whole[sizes[1] - 39 :])
    (tmp_path / "failures" / "part-000000001-000000002.parquet").unlink()
    with pytest.raises(ArchiveError, match="damaged at byte"):
        failures(run)


def test_a_write_that_fails_halfway_leaves_nothing_before_the_next(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    log = RunLog.open(run)
    log.append("failures", failure("a"))
    log.commit()
    size = log._segments._size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    log.append("failures", failure("b", "m" * 4000))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1000, hard))  # some of it still fits
    try:
        with pytest.raises(OSError, match="File too large"):
            log.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "journal" / "log-000000001.frames").stat().st_size == size
    log.append("failures", failure("c"))
    log.commit()
    log.abandon()
    assert [name for name, _ in failures(run)] == ["a", "b", "c"]


def test_what_a_killed_run_has_of_a_document_is_purged_from_its_log_too(tmp_path: Path) -> None:
    run = Folder.of(tmp_path)
    run.write_bytes("run.json", b"{}")
    log = RunLog.open(run)
    log.append_step(JournalRow("q1", "a", "retrieval", '{"doc_id": "secret"}'))
    log.append_step(JournalRow("q2", "a", "retrieval", '{"doc_id": "public"}'))
    log.append("answers", {"query_id": "q1", "status": "answered", "answer": "whispered"})
    log.commit()
    with pytest.raises(LockedError, match="being written"):
        purge_run(run, "secret")
    log.abandon()  # killed
    assert purge_run(run, "secret") == ["q1"]
    assert read_run_table(run, "journal")["query_id"].to_pylist() == ["q2"]
    assert read_run_table(run, "answers")["status"].to_pylist() == ["failed"]
    assert b"secret" not in read_run_table(run, "journal")["body"].to_pylist()[0].encode()
    assert not any(b"whispered" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
