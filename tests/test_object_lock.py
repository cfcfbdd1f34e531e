"""The lock of a folder on an object store, which a killed process leaves behind: who holds it, and what to do."""

from __future__ import annotations

import os
import threading
import time

import pytest
from pyarrow import fs

from okralong.pipelines.core import storage
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import LockedError


def test_a_lock_that_was_left_behind_names_its_holder_and_the_file_to_delete() -> None:
    store: fs.FileSystem = fs._MockFileSystem()
    folder = Folder(store, "bucket/run")
    with folder.locked("okralong answer"):
        with pytest.raises(LockedError, match=f'"pid": {os.getpid()}') as refused, folder.locked("okralong answer"):
            pass
        assert "delete bucket/run/lock.json" in str(refused.value)
    with folder.locked("okralong answer"):  # given back at a good end
        pass


def test_of_two_that_come_in_the_same_instant_one_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(fs._MockFileSystem(), "bucket/run")
    monkeypatch.setattr(storage, "LOOK_AGAIN_S", 0.2)
    both_have_looked = threading.Barrier(2)
    looked = Folder.exists

    def exists(self: Folder, name: str) -> bool:
        found = looked(self, name)
        both_have_looked.wait()
        return found

    outcomes = []

    def work() -> None:
        try:
            with folder.locked("okralong index"):
                monkeypatch.setattr(Folder, "exists", looked)
                outcomes.append("wrote")
                time.sleep(0.5)
        except LockedError:
            outcomes.append("refused")

    monkeypatch.setattr(Folder, "exists", exists)
    both = [threading.Thread(target=work) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert sorted(outcomes) == ["refused", "wrote"]
    assert not folder.names()
