"""The lock of a folder: who holds it, what a killed process leaves behind, and that of many one has it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pyarrow import fs

from okralong.pipelines.core import storage
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import BrokenError, LockedError
from tests.fakes.object_store import BUCKET, Fault, ObjectStore

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def test_a_lock_that_was_left_behind_names_its_holder_and_the_file_to_delete() -> None:
    store: fs.FileSystem = fs._MockFileSystem()
    folder = Folder(store, "bucket/run")
    with folder.locked("okralong answer"):
        with pytest.raises(LockedError, match=f'"pid": {os.getpid()}') as refused, folder.locked("okralong answer"):
            pass
        assert "delete bucket/run/lock.json" in str(refused.value)
    with folder.locked("okralong answer"):  # given back at a good end
        pass


def test_the_lock_of_a_local_folder_names_its_holder_and_a_killed_process_gives_it_back(tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    hold = f"with Folder.of({str(tmp_path)!r}).locked('okralong index'): print('held', flush=True); sys.stdin.read()"
    script = f"import sys; from okralong.pipelines.core.storage import Folder\n{hold}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(LockedError, match=f'"what": "okralong index".*"pid": {holder.pid}'), folder.locked("other"):
            pass
        holder.kill()
    with folder.locked("okralong answer"), pytest.raises(LockedError, match="okralong answer"), folder.locked("again"):
        pass


def test_of_two_that_come_in_the_same_instant_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    # A filesystem without a conditional put.
    monkeypatch.setattr(storage, "LOOK_AGAIN_S", 0.2)
    assert race(Folder(fs._MockFileSystem(), "bucket/run"), 2, monkeypatch) == ["refused", "wrote"]


def test_of_many_that_come_in_the_same_instant_to_a_store_that_errs_one_writes(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOOK_AGAIN_S", 3600.0)  # nothing waits
    store.faults = (Fault("error", "PUT", 3), Fault("cut", "PUT", 4))
    for number in range(3):
        assert race(Folder.of(f"s3://{BUCKET}/run-{number}"), 5, monkeypatch) == ["refused"] * 4 + ["wrote"]
    assert store.met["error"]
    assert store.met["cut"]


def test_a_put_whose_reply_was_lost_counts_as_written(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    create = storage.create_object

    def twice(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
        return create(filesystem, path, data) and create(filesystem, path, data)  # as the client sends it again

    monkeypatch.setattr(storage, "create_object", twice)
    folder.create_bytes("000001.json", b"{}")
    assert folder.read_bytes("000001.json") == b"{}"
    monkeypatch.setattr(Folder, "exists", lambda *_: False)
    with pytest.raises(FileExistsError):
        folder.create_bytes("000001.json", b"[]")
    assert folder.read_bytes("000001.json") == b"{}"


def test_a_lock_that_went_while_it_was_looked_at_is_refused_as_held(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "create_object", lambda *_: False)  # another held it, and has just ended
    with pytest.raises(LockedError), Folder.of(f"s3://{BUCKET}/run").locked("okralong answer"):
        pass


def test_the_lock_is_taken_with_the_keys_of_the_credentials_file(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "credentials"
    keys = "".join(f"{name.lower()} = {store.environment[name]}\n" for name in KEYS)
    file.write_text(f"[default]\naws_access_key_id = none\n[team]\n{keys}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "team")
    for name in KEYS:
        monkeypatch.delenv(name)
    folder = Folder.of(f"s3://{BUCKET}/run")
    with folder.locked("okralong answer"):
        assert folder.names() == ["lock.json"]
    assert not folder.names()


def race(folder: Folder, writers: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of writers that have all seen that no lock is there."""
    all_have_looked = threading.Barrier(writers)
    looked = Folder.exists
    waited = threading.local()  # a slow one looks once more, at a lock whose holder has ended: nobody else comes then

    def exists(self: Folder, name: str) -> bool:
        found = looked(self, name)
        if not getattr(waited, "once", False):
            waited.once = True
            all_have_looked.wait(60)
        return found

    outcomes: list[str] = []

    def work() -> None:
        try:
            with folder.locked("okralong index"):
                outcomes.append("wrote")
                deadline = time.monotonic() + 60
                while len(outcomes) < writers and time.monotonic() < deadline:  # until each has an outcome
                    time.sleep(0.01)
        except LockedError:
            outcomes.append("refused")

    with monkeypatch.context() as patched:
        patched.setattr(Folder, "exists", exists)
        threads = [threading.Thread(target=work) for _ in range(writers)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not folder.names()
    return sorted(outcomes)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks_is_named(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    message = f"{tmp_path} cannot be locked .*Choose a folder on another disk"
    with pytest.raises(BrokenError, match=message), Folder.of(tmp_path).locked("okralong answer"):
        pass
