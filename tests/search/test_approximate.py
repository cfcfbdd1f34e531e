"""Approximate indexes: where they stand, what they find again, and where every vector is compared all the same."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from okralong.pipelines.archive import dense
from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.dense import GpuRows, build_approximate, nearest
from okralong.pipelines.archive.files import DenseConfig, RowRanges
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.indexing.config import IndexConfig
from tests.archives.written import write_version
from tests.search.agreement import assert_agrees
from tests.search.oracles import inner_products
from tests.search.small_archive import DIMENSION, GRANULARITY, MODEL, Small, unit_vectors, write_archive, write_shards

pytestmark = pytest.mark.slow

IVF = DenseConfig.model_construct(index="ivf", above=700, recall=0.97)
"""For small shards, which the validator refuses."""


@pytest.fixture(autouse=True)
def _twelve_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "cells_for", lambda chunks: 12)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return write_archive(tmp_path, {f"doc-{n:02d}": [f"word{n} text {m}" for m in range(100)] for n in range(30)})


def _rebuilt(small: Small, config: DenseConfig, shards: int = 1) -> Small:
    write_shards(small, shards, config)
    documents = [{"doc_id": doc_id, "n_tokens": 1} for doc_id in sorted(set(small.doc_ids))]
    write_version(small.location, documents, [GRANULARITY], {"name": MODEL}, shards)
    return small


async def test_most_of_the_best_are_found_again_with_exact_scores(small: Small) -> None:
    archive = _rebuilt(small, IVF).open()
    shard = archive.shard(GRANULARITY, 0)
    assert shard.approximate is not None
    found_again = 0
    for vector in unit_vectors(4, 50):
        oracle = inner_products(small, vector.tolist(), ())
        hits = (await search(archive.clients(GRANULARITY), "", vector, (), 20)).semantic
        assert [hit.score for hit in hits] == pytest.approx([oracle[hit.chunk.chunk_id] for hit in hits], abs=1e-6)
        found_again += len({hit.chunk.chunk_id for hit in hits} & set(sorted(oracle, key=lambda c: -oracle[c])[:20]))
    assert found_again / 1000 > 0.9


async def test_a_scope_within_the_shard_and_a_large_k_stay_exact(small: Small) -> None:
    clients = _rebuilt(small, IVF).open().clients(GRANULARITY)
    vector = unit_vectors(6, 1)[0]
    for scope, k in ((("doc-03",), 20), (("doc-03", "doc-04", "doc-20"), 64), ((), 65), ((), 5000)):
        found = await search(clients, "", vector, scope, k)
        assert_agrees(found.semantic, inner_products(small, vector.tolist(), scope), k, within=1e-6)


def test_only_large_shards_get_one(small: Small) -> None:
    archive = _rebuilt(small, IVF, shards=4).open()
    shards = [archive.shard(GRANULARITY, number) for number in range(4)]
    assert [shard.approximate is not None for shard in shards] == [shard.n_chunks > 700 for shard in shards]
    assert {shard.n_chunks > 700 for shard in shards} == {True, False}
    flat = _rebuilt(small, DenseConfig(), shards=4).open()
    assert all(flat.shard(GRANULARITY, number).approximate is None for number in range(4))
    assert not list(small.location.glob(f"**/{layout.APPROXIMATE}"))


def test_a_damaged_or_foreign_index_is_refused(small: Small) -> None:
    path = _rebuilt(small, IVF).location / f"index/granularity={GRANULARITY}/shard-00000" / layout.APPROXIMATE
    for damage in (path.read_bytes()[:5000], b"", _of_other_vectors()):
        path.write_bytes(damage)
        with pytest.raises(ArchiveError, match=r"approximate\.faiss.*okralong index"):
            small.open().shard(GRANULARITY, 0)


async def test_a_graph_of_an_earlier_release_is_ignored(small: Small) -> None:
    place = _rebuilt(small, IVF).location / f"index/granularity={GRANULARITY}/shard-00000"
    vectors = np.load(place / layout.VECTORS)
    graph = faiss.index_factory(DIMENSION, "HNSW32,SQ8", faiss.METRIC_INNER_PRODUCT)
    graph.train(vectors)
    graph.add(vectors)
    (place / layout.APPROXIMATE).write_bytes(faiss.serialize_index(graph).tobytes())
    archive = small.open()
    assert archive.shard(GRANULARITY, 0).approximate is None
    vector = unit_vectors(6, 1)[0]
    found = await search(archive.clients(GRANULARITY), "", vector, (), 20)
    assert_agrees(found.semantic, inner_products(small, vector.tolist(), ()), 20, within=1e-6)


def _of_other_vectors() -> bytes:
    other = faiss.IndexFlatIP(DIMENSION)
    other.add(unit_vectors(1, 3))
    return bytes(faiss.serialize_index(other).tobytes())


def _clustered(rows: int) -> NDArray[np.float32]:
    draw = np.random.default_rng(3)
    near = unit_vectors(2, 40)[draw.integers(40, size=rows)] + 0.2 * draw.standard_normal((rows, DIMENSION))
    return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)


def test_the_effort_grows_with_the_recall_that_is_wanted() -> None:
    matrix = _clustered(3000)
    built = [build_approximate(matrix, IVF.model_copy(update={"recall": recall})) for recall in (0.6, 0.9, 0.99)]
    efforts = [each.effort for each in built if each]
    assert len(efforts) == 3
    assert efforts == sorted(efforts)
    assert efforts[0] < efforts[-1] <= 12
    assert all(each and each.recall >= wanted for each, wanted in zip(built, (0.6, 0.9, 0.99), strict=True))


def test_the_same_vectors_give_the_same_index() -> None:
    first, second = build_approximate(_clustered(2000), IVF), build_approximate(_clustered(2000), IVF)
    assert first == second is not None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("dense: {index: pq}", "dense.index"),
        ("dense: {index: ivf, above: 1000}", "above must be 24336 or more"),
        ("dense: {recall: 1.01}", "dense.recall"),
        ("dense: {probes: 8}", "dense.probes is not a known key"),
    ],
)
def test_what_cannot_be_is_refused(text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        parse_config(IndexConfig, text, "index.yaml")


_HAS_GPU = hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0


@pytest.mark.skipif(_HAS_GPU, reason="this FAISS has a GPU")
def test_a_gpu_that_is_not_there_is_refused(small: Small) -> None:
    with pytest.raises(ConfigError, match=r"search\.gpus_per_shard.*faiss-gpu"):
        small.open().shard(GRANULARITY, 0).on_a_gpu()


@pytest.mark.skipif(not _HAS_GPU, reason="needs a GPU and the GPU build of FAISS")
def test_a_gpu_finds_what_the_processor_finds() -> None:
    matrix = unit_vectors(7, 5000)
    matrix[100:140] = matrix[100]
    rows = GpuRows(matrix)
    for ranges in ([range(5000)], [range(90, 4000)], [range(10), range(120, 130), range(4000, 4900)]):
        scope = RowRanges.of(ranges)
        for k in (1, 20, 2100):
            for vector in (*unit_vectors(8, 3), matrix[100]):
                here, there = nearest(matrix, vector, scope, k), nearest(matrix, vector, scope, k, rows)
                assert sorted(zip(*here, strict=True)) == sorted(zip(*there, strict=True))
