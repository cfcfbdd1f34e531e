"""Shards answer as one big index does: at 1, 3 and 7 of them, for scopes of one document, of some, of all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.types import Hit
from tests.search.agreement import assert_agrees
from tests.search.oracles import bm25s_scores, inner_products
from tests.search.small_archive import GRANULARITY, Small, random_corpus, unit_vectors, write_archive

CORPUS = random_corpus(31, documents=18, chunks=25)
QUERIES = ("growing cash losses", "goodwill impairment of leases, leases and leases", "board", "the of and", "unheard")
SCOPES = {
    "one document": ("report-000",),
    "some": ("report-003", "report-004", "report-011", "report-016"),
    "all": (),
    "all, by name": tuple(sorted(CORPUS)),
}
WITHIN = 1e-5


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Small, Archive]:
    small = write_archive(tmp_path_factory.mktemp("one"), CORPUS, shards=1)
    return small, small.open()


@pytest.fixture(scope="module", params=[1, 3, 7])
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return write_archive(tmp_path_factory.mktemp("many"), CORPUS, shards=request.param).open()


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
async def test_the_same_ids_and_scores(one: tuple[Small, Archive], many: Archive, scope: tuple[str, ...]) -> None:
    small, single = one
    for number, query in enumerate(QUERIES):
        vector = unit_vectors(number, 1)[0]
        found = await search(many.clients(GRANULARITY), query, vector, scope, 20)
        whole = await search(single.clients(GRANULARITY), query, vector, scope, 20)
        assert _ids(found.exact) == _ids(whole.exact)
        assert _ids(found.semantic) == _ids(whole.semantic)
        assert_agrees(found.exact, bm25s_scores(small, query, scope), 20, WITHIN)
        assert_agrees(found.semantic, inner_products(small, vector.tolist(), scope), 20, WITHIN)


def _ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]
