"""The whole index job on real Ray Data: good and bad files in, an archive out, read back from its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray.data

from okralong.actors.index_streams import index_archive
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import version_numbers
from okralong.pipelines.core.config import IndexPlacement, Place
from okralong.pipelines.core.schemas import CHUNKS, FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import BrokenError, ConfigError, InputError, LockedError
from okralong.pipelines.indexing.chunking import cut_name
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig, LimitsConfig
from okralong.pipelines.indexing.ingest import chunks_folder
from okralong.pipelines.indexing.job import IndexProgress, IndexResult
from tests.conftest import FERRY, LANTERN, ORCHARD
from tests.indexing.hostile import word_bomb
from tests.indexing.tiny_pdf import tiny_pdf

pytestmark = pytest.mark.slow

CONFIG = IndexConfig(
    granularities=[32, 150],
    embedding=EmbeddingConfig(of="each", dtype="float16"),
    limits=LimitsConfig(document_gib=0.25),
)
Indexed = tuple[Path, Path, IndexResult, list[IndexProgress]]


@pytest.fixture(scope="module")
def indexed(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Indexed:
    sources = tmp_path_factory.mktemp("sources")
    (sources / "sub").mkdir()
    (sources / "alder.txt").write_text(ORCHARD, encoding="utf-8")
    (sources / "lantern.md").write_text(LANTERN, encoding="utf-8")
    (sources / "sub" / "ferry.html").write_text(FERRY, encoding="utf-8")
    (sources / "page.pdf").write_bytes(tiny_pdf(["The Petrel crossed 1,204 times."]))
    rows = [{"doc_id": "row-1", "text": "A row of its own."}, {"doc_id": "alder", "text": "Not the first alder."}]
    (sources / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (sources / "empty.txt").write_bytes(b"")
    (sources / "torn.pdf").write_bytes(b"%PDF-1.7")
    (sources / "old.docx").write_bytes(b"no zip")
    word_bomb(sources / "bomb.docx", b" ", 2**29)
    (sources / "notes.xyz").write_bytes(b"unknown")
    seen: list[IndexProgress] = []
    archive = sources / "archive"
    return sources, archive, index_archive(str(archive), [str(sources)], CONFIG, seen.append), seen


def test_counts_failures_and_progress(indexed: Indexed) -> None:
    _, archive, result, seen = indexed
    assert (result.documents, result.failures, result.up_to_date) == (5, 6, False)
    assert [Path(name).name for name in result.skipped] == ["notes.xyz"]
    assert result.over_limit == {32: 0, 150: 0}
    assert list(dict.fromkeys(p.stage for p in seen)) == ["read", "embed", "build", "done"]
    assert (seen[-1].documents, seen[-1].failures) == (5, 6)
    assert seen[-1].embedded == seen[-1].expected_chunks == result.work["texts_embedded"] <= seen[-1].chunks
    failures = Folder.of(archive).at("failures").read_tables(FAILURES).to_pylist()
    unread = failures.pop(0)
    assert "notes.xyz has an unsupported format" in unread["message"]
    assert [row["id"] for row in failures] == ["alder", "bomb", "empty", "old", "torn"]
    assert "rows.jsonl, row 2 is left out" in failures[0]["message"]
    assert "limits.document_gib = 0.25" in failures[1]["message"]
    assert all(str(archive.parent) in row["message"] for row in failures)


def test_documents_hold_what_was_read(indexed: Indexed) -> None:
    _, archive, _, _ = indexed
    opened = Archive.open(archive)
    assert opened.doc_ids() == ["alder", "lantern", "page", "row-1", "sub/ferry"]
    documents = {doc_id: opened.document(doc_id) for doc_id in opened.doc_ids()}
    assert documents["alder"].text == ORCHARD
    assert documents["lantern"].title == "Lantern Works"
    assert "| Petrel | 1,204 |" in documents["sub/ferry"].text
    assert len({document.sha256 for document in documents.values()}) == 5
    assert all(document.n_tokens == count_tokens(document.text) for document in documents.values())


@pytest.mark.parametrize("granularity", [32, 150])
def test_chunks_tile_and_vectors_are_unit(indexed: Indexed, granularity: int) -> None:
    _, archive, result, _ = indexed
    folder = Folder.of(archive)
    texts = {doc_id: Archive.open(archive).document(doc_id).text for doc_id in Archive.open(archive).doc_ids()}
    chunks = sorted(
        chunks_folder(folder, granularity, cut_name()).read_tables(CHUNKS).to_pylist(),
        key=lambda chunk: (chunk["doc_id"], chunk["ordinal"]),
    )
    chunks = [chunk for chunk in chunks if chunk["text"] != "Not the first alder."]
    assert len(chunks) == result.chunks[granularity]
    assert list(dict.fromkeys(chunk["doc_id"] for chunk in chunks)) == sorted(texts)
    for doc_id, text in texts.items():
        own = [chunk for chunk in chunks if chunk["doc_id"] == doc_id]
        assert "".join(chunk["text"] for chunk in own) == text
        assert [chunk["ordinal"] for chunk in own] == list(range(len(own)))
        assert all(chunk["n_tokens"] == count_tokens(chunk["text"]) <= granularity for chunk in own)
    opened = Archive.open(archive)
    shard = opened.shard(granularity, 0)
    assert {chunk.chunk_id for chunk in shard.chunks(range(shard.n_chunks))} == {chunk["chunk_id"] for chunk in chunks}
    np.testing.assert_allclose(np.linalg.norm(shard.vectors, axis=1), 1.0, atol=2e-3)


def test_files_carry_their_schema_and_the_manifest_says_how(indexed: Indexed) -> None:
    _, archive, result, _ = indexed
    for file in archive.glob("documents/*.parquet"):
        assert pq.read_schema(file).metadata[b"okralong.table"] == b"documents"
    manifest = Archive.open(archive).manifest
    assert (manifest["version"], result.version) == (1, 1)
    assert manifest["embedding"]["dimension"] == 384
    assert manifest["embedding"]["sha256"].startswith("53aa5117")
    assert manifest["granularities"] == [32, 150]
    assert manifest["chunks"] == {str(size): count for size, count in result.chunks.items()}
    assert set(manifest["seconds"]) == {"list", "read", "embed", "build"}
    assert not Folder.of(archive).exists("work")


def test_a_second_run_does_nothing(indexed: Indexed) -> None:
    sources, archive, first, _ = indexed
    before = {file: file.stat().st_mtime_ns for file in archive.rglob("[!.]*") if file.is_file()}
    seen: list[IndexProgress] = []
    again = index_archive(str(archive), [str(sources)], CONFIG, seen.append)
    assert again.up_to_date
    assert (again.version, again.documents, again.chunks, seen) == (1, first.documents, first.chunks, [])
    assert {f: f.stat().st_mtime_ns for f in before} == before
    with Folder.of(archive).locked("another job"), pytest.raises(LockedError, match="another job"):
        index_archive(str(archive), [str(sources)], CONFIG)


def test_what_changed_is_read_and_the_version_before_stays(indexed: Indexed) -> None:
    sources, archive, first, _ = indexed
    old = Archive.open(archive)
    (sources / "lantern.md").unlink()
    (sources / "new.txt").write_text("A harbour that is new.", encoding="utf-8")
    (sources / "alder.txt").unlink()  # now the row of that name is seen, which nobody has to read again
    result = index_archive(str(archive), [str(sources)], CONFIG)
    assert (result.version, result.documents, result.up_to_date) == (2, 5, False)
    assert result.changes == {"added": 1, "changed": 1, "removed": 1, "unchanged": 3}
    assert (result.work["files_read"], result.work["texts_embedded"]) == (1, 1)
    assert result.failures == first.failures - 1
    opened = Archive.open(archive)
    assert opened.doc_ids() == ["alder", "new", "page", "row-1", "sub/ferry"]
    assert opened.document("alder").text == "Not the first alder."
    assert (old.version, Archive.open(old.location).document("alder").text) == (1, ORCHARD)
    assert "lantern" in Archive.open(f"{archive}@1").doc_ids()
    narrow = index_archive(str(archive), [str(sources)], CONFIG.model_copy(update={"granularities": [32]}))
    assert (narrow.version, list(narrow.chunks), narrow.work["files_read"]) == (3, [32], 0)
    assert (narrow.work["texts_embedded"], narrow.work["shards_written"]) == (0, 0)


def test_only_bad_documents_is_an_error_with_reasons(ray_cluster: None, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    with pytest.raises(InputError, match=r"The only document .* is empty"):
        index_archive(str(tmp_path / "archive"), [str(tmp_path)], CONFIG)
    assert version_numbers(Folder.of(tmp_path / "archive")) == []


def test_a_version_that_is_there_is_not_indexed_into(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"archive@1 names a version.*Leave out @"):
        index_archive(str(tmp_path / "archive@1"), [str(tmp_path)], CONFIG)


def test_an_archive_has_four_granularities_unless_told_otherwise(sample_archive: Path) -> None:
    manifest = Archive.open(sample_archive).manifest
    assert list(manifest["chunks"]) == ["150", "256", "400", "512"]
    assert manifest["documents"] == 3


def test_a_job_whose_nodes_do_not_come_ends_and_says_so(
    ray_cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "alder.txt").write_text(ORCHARD, encoding="utf-8")
    nowhere = CONFIG.model_copy(update={"placement": IndexPlacement(readers=Place(resources={"moon": 1.0}))})
    monkeypatch.setattr(ray.data.DataContext.get_current(), "execution_no_progress_timeout_s", 2.0)
    with pytest.raises(BrokenError, match=r"no progress for 2 s.*have not joined.*run the same command again"):
        index_archive(str(tmp_path / "archive"), [str(tmp_path / "alder.txt")], nowhere)
