"""An archive of the layout before versions: it opens, hands its vectors on, and goes when it is vacuumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import TextIndex, VectorStore, text_keys
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.build import take_over_vectors
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.maintenance import vacuum
from okralong.pipelines.models.weights import ResolvedModel
from tests.archives.nights import made_up, night
from tests.search.small_archive import GRANULARITY, MODEL, random_corpus, write_archive

CORPUS = random_corpus(5, documents=7, chunks=6)
CONFIG = IndexConfig(granularities=[GRANULARITY], embedding=EmbeddingConfig(model=MODEL))
RESOLVED = ResolvedModel(MODEL, MODEL, None)


def as_before(location: Path) -> Folder:
    folder = Folder.of(location)
    manifest = folder.read_manifest() or {}
    manifest["embedding"] |= {"sha256": None, "max_seq_length": 512, "dtype": "float32", "precision": "bfloat16"}
    manifest["chunks_over_encoder_limit"] = {str(GRANULARITY): 0}
    folder.write_manifest(manifest)
    return folder


def test_its_vectors_are_taken_over_by_text(tmp_path: Path) -> None:
    small = write_archive(tmp_path, CORPUS)
    folder = as_before(tmp_path)
    store = VectorStore.of(folder, "taken")
    assert take_over_vectors(folder, store, CONFIG, RESOLVED) == len(set(small.texts))
    assert store.about() == (16, "bfloat16")
    index = TextIndex.open(store)
    files, rows = index.find(text_keys(small.texts))
    assert (files > 0).all()
    values, over = store.gather(files, rows)
    first = [small.texts.index(text) for text in small.texts]
    same = [i for i in range(len(first)) if small.texts.count(small.texts[i]) == 1]
    np.testing.assert_array_equal(values[same], small.vectors[same])
    assert not over.any()
    assert take_over_vectors(folder, store, CONFIG, RESOLVED) == 0


def test_vectors_of_another_encoder_are_not(tmp_path: Path) -> None:
    write_archive(tmp_path, CORPUS)
    store = VectorStore.of(as_before(tmp_path), "taken")
    other = CONFIG.model_copy(update={"embedding": EmbeddingConfig(model=MODEL, max_seq_length=256)})
    assert take_over_vectors(Folder.of(tmp_path), store, other, RESOLVED) == 0
    int8 = CONFIG.model_copy(update={"embedding": EmbeddingConfig(model=MODEL, precision="int8")})
    assert take_over_vectors(Folder.of(tmp_path), store, int8, RESOLVED) == 0
    assert take_over_vectors(Folder.of(tmp_path), store, CONFIG, ResolvedModel("x", "x", None)) == 0
    assert take_over_vectors(Folder.of(tmp_path / "none"), store, CONFIG, RESOLVED) == 0


def test_it_stays_readable_beside_versions_until_it_is_vacuumed(tmp_path: Path) -> None:
    write_archive(tmp_path, CORPUS)
    old = Archive.open(tmp_path)
    assert (old.version, old.location) == (0, f"{tmp_path}@0")
    night(tmp_path, {"a": made_up("a")})
    assert Archive.open(tmp_path).doc_ids() == ["a"]
    again = Archive.open(old.location)
    assert again.doc_ids() == sorted(CORPUS)
    assert again.document("report-000").text == " ".join(CORPUS["report-000"])
    vacuum(Folder.of(tmp_path), 2)
    assert Archive.open(old.location).shard(GRANULARITY, 0).n_chunks == sum(map(len, CORPUS.values()))
    vacuum(Folder.of(tmp_path), 1)
    assert not (tmp_path / "manifest.json").exists()
    assert not list(tmp_path.rglob("part-*"))
    assert Archive.open(tmp_path).document("a").text == made_up("a")
