"""What vacuum must leave alone, files that okralong did not write, and what it takes that was left half-written."""

from __future__ import annotations

from pathlib import Path

from okralong.pipelines.archive.vectors import VectorStore
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.maintenance import vacuum
from tests.archives.nights import made_up, night


def test_files_that_okralong_did_not_write_are_left(tmp_path: Path) -> None:
    mine = [tmp_path / "documents" / "report.pdf", tmp_path / "index" / "notes.txt", tmp_path / "work" / "plan.md"]
    for path in mine:
        path.parent.mkdir()
        path.write_text("mine")
    for name in "ab":
        night(tmp_path, {name: made_up(name)})
    vacuum(Folder.of(tmp_path), 1)
    assert [path for path in mine if not path.exists()] == []


def test_half_written_vector_files_go(tmp_path: Path) -> None:
    archive = night(tmp_path, {name: made_up(name) for name in "ab"})
    store = VectorStore.of(Folder.of(tmp_path), archive.manifest["files"]["encoder"])
    left = Path(store.folder.path, ".00000009.parquet.0123.partial")
    left.write_bytes(b"vectors of a job that was killed")
    vacuum(Folder.of(tmp_path), 1)
    assert not left.exists()
