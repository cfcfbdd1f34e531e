"""The lock of a folder on an object store, which a killed process leaves behind: who holds it, and what to do."""

from __future__ import annotations

import os

import pytest
from pyarrow import fs

from okralong.pipelines.errors import LockedError
from okralong.pipelines.storage import Folder


def test_a_lock_that_was_left_behind_names_its_holder_and_the_file_to_delete() -> None:
    store: fs.FileSystem = fs._MockFileSystem()
    folder = Folder(store, "bucket/run")
    with folder.locked("okralong answer"):
        with pytest.raises(LockedError, match=f'"pid": {os.getpid()}') as refused, folder.locked("okralong answer"):
            pass
        assert "delete bucket/run/lock.json" in str(refused.value)
    with folder.locked("okralong answer"):  # given back at a good end
        pass
