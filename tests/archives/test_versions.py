"""Manifests: numbered, never written over, and plain words when one cannot be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from okralong.pipelines.archive.versions import LAYOUT, Location, latest_version, publish, read_version, version_numbers
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, LockedError


def manifest(number: int) -> dict[str, object]:
    needed = {"granularities": [150], "embedding": {}, "shards": 1, "files": {}}
    return {"version": number, "schema_version": SCHEMA_VERSION, "layout": LAYOUT, **needed}


def mock_store() -> fs.FileSystem:
    return fs._MockFileSystem()


@pytest.mark.parametrize("remote", [False, True])
def test_a_version_is_never_written_over(tmp_path: Path, remote: bool) -> None:
    archive = Folder(mock_store(), "bucket/archive") if remote else Folder.of(tmp_path)
    assert latest_version(archive) is None
    publish(archive, manifest(1))
    publish(archive, manifest(2))
    with pytest.raises(LockedError, match=r"000002.json was published by another process"):
        publish(archive, manifest(2) | {"shards": 9})
    assert read_version(archive, 2) == manifest(2) == latest_version(archive)
    assert version_numbers(archive) == [1, 2]
    assert archive.at("versions").names() == ["000001.json", "000002.json"]


def test_a_version_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    archive = Folder.of(tmp_path)
    publish(archive, manifest(1))
    with pytest.raises(ArchiveError, match=r"no version 7; it has 1\. It was vacuumed"):
        read_version(archive, 7)
    publish(archive, manifest(2) | {"layout": 99})
    with pytest.raises(ArchiveError, match=r"000002.json has schema version 1 and layout 99, not 1 and 2"):
        latest_version(archive)
    archive.at("versions").write_bytes("000002.json", b"{")
    with pytest.raises(ArchiveError, match=r"not valid JSON.*the version before it"):
        latest_version(archive)


def test_an_at_sign_pins_a_version_unless_a_folder_is_called_so(tmp_path: Path) -> None:
    assert Location.of(f"{tmp_path}/archive@3") == Location(f"{tmp_path}/archive", 3)
    assert str(Location("a", 3)) == "a@3"
    assert Location.of(f"{tmp_path}/me@home") == Location(f"{tmp_path}/me@home")
    (tmp_path / "july@7").mkdir()
    assert Location.of(tmp_path / "july@7") == Location(f"{tmp_path}/july@7")
