"""Opening archives: scopes, documents, and every way in which one can be unusable."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from pyarrow import fs

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.archive.shard_builder import write_shard
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, QuestionError, TableSpan
from tests.archives.nights import made_up, night
from tests.search.small_archive import DIMENSION, GRANULARITY, Small, random_corpus, unit_vectors, write_archive

CORPUS = random_corpus(3, documents=20, chunks=6) | {"notes[1]": ["an odd name"], "notes1": ["another"]}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return write_archive(tmp_path, CORPUS, shards=2)


def test_scopes_are_ids_and_globs(small: Small) -> None:
    archive = small.open()
    assert archive.resolve(()) == ()
    assert archive.resolve(("report-01?", "report-003")) == ("report-003", *(f"report-{n:03d}" for n in range(10, 20)))
    assert archive.resolve(("notes[1]",)) == ("notes[1]",)
    assert archive.doc_ids() == sorted(CORPUS)


def test_a_scope_that_names_nothing_says_what_is_near(small: Small) -> None:
    with pytest.raises(QuestionError, match=r"'reprot-007' matches no document.*'report-007'"):
        small.open().resolve(("report-001", "reprot-007"))
    with pytest.raises(QuestionError, match=r"'zzz\*' matches no document"):
        small.open().resolve(("zzz*",))


def test_documents_are_read_whole(small: Small) -> None:
    archive = small.open()
    for doc_id in [*CORPUS, "report-000"]:
        document = archive.document(doc_id)
        assert document.text == " ".join(CORPUS[doc_id])
        assert document.table_spans == (TableSpan("t0", 0, 3),)
        assert document.metadata == {"year": "2024"}
    sizes = [(doc_id, len(archive.document(doc_id).text.split())) for doc_id in ("notes1", "report-004")]
    assert archive.document_tokens(["report-004", "notes1"]) == sizes
    assert [doc_id for doc_id, _ in archive.document_tokens(())] == sorted(CORPUS)
    with pytest.raises(QuestionError, match="no document 'missing'"):
        archive.document("missing")


def test_reopening_gives_the_same(small: Small) -> None:
    vector = unit_vectors(8, 1)[0]
    assert Archive.open(small.open().location).doc_ids() == sorted(CORPUS)
    first, second = (small.open().shard(GRANULARITY, 0) for _ in range(2))
    assert first is not second
    assert first.exact(["tax"], None, None, 9) == second.exact(["tax"], None, None, 9)
    assert first.semantic(vector, None, 9) == second.semantic(vector, None, 9)


def test_a_shard_on_another_filesystem_is_copied(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = layout.granularity_folder(Folder.of(small.location), GRANULARITY).at("shard-00000")
    far = Folder(fs.SubTreeFileSystem(str(small.location), fs.LocalFileSystem()), "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    copied = Shard.open(Folder(far.filesystem, f"index/granularity={GRANULARITY}/shard-00000"))
    assert not list(tmp_path.glob("okralong-*")), "a process that is killed leaves no copy behind"
    assert copied.exact(["tax"], None, None, 9) == Shard.open(near).exact(["tax"], None, None, 9)


def test_an_archive_that_is_not_there_or_not_finished(tmp_path: Path, small: Small) -> None:
    with pytest.raises(ArchiveError, match=r"has no versions/.*Run okralong index"):
        Archive.open(tmp_path / "nothing")
    manifest = small.location / "versions" / "000001.json"
    manifest.write_text("{")
    with pytest.raises(ArchiveError, match=r"not valid JSON.*okralong index"):
        small.open()
    manifest.write_text('{"schema_version": 99, "layout": 2, "granularities": [], "embedding": {}, "shards": 1}')
    with pytest.raises(ArchiveError, match="lacks files"):
        small.open()
    manifest.write_text(
        '{"schema_version": 99, "layout": 2, "granularities": [], "embedding": {}, "shards": 1, "files": 1}'
    )
    with pytest.raises(ArchiveError, match=r"schema version 99 and layout 2, not 1 and 2.*a new folder"):
        small.open()


def test_a_folder_of_the_layout_before_versions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema_version": 1, "granularities": [150], "shards": 1}')
    with pytest.raises(ArchiveError, match=r"layout from before the first release.*into a new folder"):
        Archive.open(tmp_path)
    with pytest.raises(ArchiveError, match="layout from before the first release"):
        night(tmp_path, {"a": made_up("a")})


def test_a_granularity_that_was_not_indexed(small: Small) -> None:
    with pytest.raises(ArchiveError, match=r"no shard 0 at granularity 512.*at 150 tokens"):
        small.open().shard(512, 0)


@pytest.mark.parametrize("name", ["vectors.npy", "postings-rows.npy", "rows.arrow", "vocabulary.arrow", "lengths.npy"])
@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_shard_is_refused(small: Small, name: str, damage: str) -> None:
    path = small.location / f"index/granularity={GRANULARITY}/shard-00001/{name}"
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()
    with pytest.raises(ArchiveError, match=r"shard-00001 cannot be used.*okralong index"):
        small.open().shard(GRANULARITY, 1)


def test_an_unfinished_shard_is_refused(small: Small) -> None:
    (small.location / f"index/granularity={GRANULARITY}/shard-00000/manifest.json").unlink()
    with pytest.raises(ArchiveError, match="never finished"):
        small.open().shard(GRANULARITY, 0)


def test_an_archive_without_chunks_answers_nothing(tmp_path: Path) -> None:
    none = np.zeros((0, DIMENSION), dtype=np.float32)
    write_shard(Folder.of(tmp_path), GRANULARITY, layout.ROWS_SCHEMA.empty_table(), none)
    shard = Shard.open(Folder.of(tmp_path))
    assert shard.exact(["tax"], None, None, 5) == []
    assert shard.semantic(unit_vectors(1, 1)[0], None, 5) == []
    assert shard.statistics(["tax"], None).n_chunks == 0
