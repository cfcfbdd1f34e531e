"""Dense search equals numpy over all vectors of the scope, at any number of ranges and ties."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.pipelines.archive.dense import nearest
from okralong.pipelines.archive.files import RowRanges, joined
from okralong.pipelines.archive.search import search, stored_vectors
from tests.search.agreement import assert_agrees
from tests.search.oracles import inner_products
from tests.search.small_archive import GRANULARITY, Small, random_corpus, unit_vectors, write_archive


@pytest.fixture(scope="module", params=["float32", "float16"])
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Small:
    corpus = random_corpus(9, documents=15, chunks=25)
    return write_archive(tmp_path_factory.mktemp("semantic"), corpus, shards=2, precision=request.param)


@pytest.mark.parametrize("scope", [("report-002",), ("report-001", "report-002", "report-009", "report-014"), ()])
async def test_equals_brute_force(small: Small, scope: tuple[str, ...]) -> None:
    clients = small.open().clients(GRANULARITY)
    for vector in unit_vectors(77, 5):
        for k in (1, 3, 20, 100_000):
            found = await search(clients, "", vector, scope, k)
            assert_agrees(found.semantic, inner_products(small, vector.tolist(), scope), k, within=1e-6)


async def test_the_index_gives_its_vectors_back(small: Small) -> None:
    archive = small.open()
    found = (await search(archive.clients(GRANULARITY), "", unit_vectors(5, 1)[0], (), 30)).semantic
    held = await stored_vectors(archive.clients, [hit.chunk for hit in found])
    rows = [small.chunk_ids.index(hit.chunk.chunk_id) for hit in found]
    assert len({hit.chunk.doc_id for hit in found}) > 4
    assert held.dtype == np.float32
    assert np.array_equal(held, small.vectors[rows])


def test_a_vector_of_another_size_is_refused(small: Small) -> None:
    with pytest.raises(ValueError, match="16 dimensions"):
        small.open().shard(GRANULARITY, 0).semantic([1.0, 0.0], None, 3)


def test_all_that_tie_with_the_last_are_kept() -> None:
    matrix = np.repeat(unit_vectors(1, 4), 300, axis=0)
    scope = RowRanges.of([range(10, 590), range(600, 1200)])
    rows, scores = nearest(matrix, matrix[0], scope, 5)
    assert sorted(rows.tolist()) == list(range(10, 300))
    assert len(set(scores.tolist())) == 1


def test_equal_vectors_score_alike_wherever_they_stand() -> None:
    matrix = unit_vectors(2, 1000)
    twins = [3, 64, 501, 999]
    matrix[twins] = matrix[3]
    query = unit_vectors(3, 1)[0]
    scores = {
        float(value)
        for part in ([range(70)], [range(2, 4)], [range(63, 1000)], [range(1000)])
        for row, value in zip(*nearest(matrix, query, RowRanges.of(part), 1000), strict=True)
        if row in twins
    }
    assert len(scores) == 1


def test_ranges_that_touch_are_joined() -> None:
    assert joined([range(5, 9), range(2), range(2, 5), range(11, 11), range(12, 13)]) == [range(9), range(12, 13)]
    scope = RowRanges.of([range(4, 6), range(10, 13)])
    assert scope.rows_at(np.arange(5)).tolist() == [4, 5, 10, 11, 12]
