"""A disk that is full and a folder that cannot be written: every command says so, without a traceback."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from ray.exceptions import RayTaskError

import okralong
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage_errors import storage_failure, writing
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_OK, BrokenError
from okralong.pipelines.samples.questions import generate, write_sample
from tests.disks import Ballast, mounted, remount
from tests.jobs.conftest import call
from tests.reporting.made_run import texts, write_archive, write_run


def commands_of(folder: Path, indexed: Path) -> list[tuple[list[object], str]]:
    """Commands that write below ``folder``, and what each cannot write."""
    run = write_run(folder / "run", write_archive(folder / "archive", texts()), 4)
    shutil.copytree(indexed, folder / "indexed")
    doc_id = Archive.open(str(indexed)).doc_ids()[0]
    return [
        (["sample", folder / "sample"], "sample"),
        (["export", run, "--to", folder / "answers.xlsx"], "answers.xlsx"),
        (["export", run, "--to", folder / "answers.duckdb"], "answers.duckdb"),
        (["report", run], "run/report.html"),
        (["diff", run, run, "--to", folder / "differences.csv"], "differences.csv"),
        (["archive", "vacuum", folder / "indexed", "--keep", "1"], "indexed/.lock"),
        (["archive", "purge", folder / "indexed", doc_id, "--yes"], "indexed/.lock"),
        (["index", folder / "indexed", "--from", folder / "run", "--embed", "none"], "indexed/.lock"),
    ]


@pytest.mark.parametrize("trouble", ["No space left on device", "Read-only file system"])
def test_every_command_says_what_cannot_be_written(
    ray_cluster: None,
    plain_archive: Path,
    tmp_path: Path,
    trouble: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with mounted(tmp_path / "disk", "size=16m") as disk:
        commands = commands_of(disk, plain_archive)
        if trouble == "Read-only file system":
            remount(disk, "ro")
            said = [call(monkeypatch, capsys, *command) for command, _ in commands]
        else:
            with Ballast(disk):
                said = [call(monkeypatch, capsys, *command) for command, _ in commands]
    for (command, file), (code, text) in zip(commands, said, strict=True):
        assert code == EXIT_BROKEN, (command, text)
        assert f"{disk / file}" in text, command
        assert f"({trouble})" in text, command
        assert "this is a bug" not in text, command
        assert "Traceback" not in text, command


def test_the_python_api_says_so_too(ray_cluster: None, plain_archive: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.txt").write_text("Alder Orchards grows apples.")
    (tmp_path / "file").write_text("no folder")

    def refused(work: Callable[[], object], path: Path) -> None:
        with pytest.raises(BrokenError, match=f"{path}.* cannot be written .*Make it writable"):
            work()

    def index(archive: Path) -> Callable[[], object]:
        return lambda: okralong.index(archive, [tmp_path / "docs"], embedding={"of": "none"})

    refused(index(tmp_path / "file"), tmp_path / "file")
    refused(index(tmp_path / "file" / "archive"), tmp_path / "file" / "archive")
    with mounted(tmp_path / "disk", "size=16m") as disk:
        shutil.copytree(plain_archive, disk / "archive")
        run = write_run(disk / "run", write_archive(disk / "made", texts()), 4)
        remount(disk, "ro")
        refused(index(disk / "archive"), disk / "archive")
        refused(lambda: okralong.export(run, disk / "answers.xlsx"), disk / "answers.xlsx")
        refused(lambda: okralong.diff(run, run, to=[disk / "differences.csv"]), disk / "differences.csv")


def test_an_index_job_goes_on_when_there_is_room_and_reads_nothing_again(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(generate(reports=3, questions=1, seed=7, words=2_000), tmp_path)
    (tmp_path / "index.yaml").write_text(yaml.safe_dump({"embedding": {"of": "none"}}))
    with mounted(tmp_path / "disk", "size=60k") as disk:
        command = ["index", disk / "archive", "--from", tmp_path / "reports", "--config", tmp_path / "index.yaml"]
        for size in ("60k", "300k"):  # full in the middle of a task that reads, and when all is read
            remount(disk, f"size={size}")
            code, text = call(monkeypatch, capsys, *command)
            assert code == EXIT_BROKEN, text
            assert f"The disk is full: {disk}/archive/" in text
            assert "this is a bug" not in text
            assert "Traceback" not in text
            assert not list(disk.rglob("*.partial"))
        remount(disk, "size=16m")
        code, text = call(monkeypatch, capsys, *command)
        assert code == EXIT_OK, text
        assert "work: 0 files read" in text


def test_a_full_disk_is_known_in_whatever_it_was_wrapped() -> None:
    def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
        try:
            raise error from cause
        except BaseException as caught:
            return caught

    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/part.parquet")
    quoted = "task failed\nOSError: [Errno 28] No space left on device: '/data/part.parquet'\n\nUDF failed."
    for error in (
        full,
        raised(RuntimeError("it failed"), full),
        RayTaskError("read", "", full),
        RuntimeError(quoted),
        RuntimeError("Error: 'write' failed on '/data/part.parquet': No space left on device"),
    ):
        found = storage_failure(error)
        assert found is not None
        assert found.exit_code == EXIT_BROKEN
        assert "The disk is full: /data/part.parquet could not be written" in str(found)
    assert "a file of this command" in str(storage_failure(OSError("131072 requested and 0 written")))
    denied = storage_failure(PermissionError(errno.EACCES, "Permission denied", "/data"))
    assert "/data cannot be written (Permission denied)" in str(denied)
    for error in (ValueError("x"), FileNotFoundError(2, "No such file", "/data"), PermissionError(errno.EPERM, "kill")):
        assert storage_failure(error) is None


def test_a_write_that_fails_names_its_file(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=64k") as disk:
        with pytest.raises(OSError, match="array") as failed, writing(disk / "array"):
            (disk / "array").write_bytes(bytes(100_000))
        assert storage_failure(failed.value) is not None
        with pytest.raises(OSError, match=r"No space|requested and") as failed:
            np.save(disk / "array.npy", np.zeros(100_000))
        assert storage_failure(failed.value) is not None
