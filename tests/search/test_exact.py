"""BM25 over a scope equals bm25s built over exactly that scope."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.archive.search import search
from okralong.pipelines.archive.terms import analyze_query
from tests.search.agreement import assert_agrees
from tests.search.oracles import bm25s_scores
from tests.search.small_archive import (
    DIMENSION,
    GRANULARITY,
    WORDS,
    Small,
    random_corpus,
    write_archive,
)

NOWHERE = [0.0] * DIMENSION


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return write_archive(tmp_path_factory.mktemp("exact"), random_corpus(5, documents=12, chunks=30), shards=3)


@pytest.mark.parametrize("scope", [("report-003",), ("report-000", "report-004", "report-011"), ()])
@pytest.mark.parametrize("query", ["growth of company revenues", "losses losses tax", "CAFÉ in 2023", "the dividend"])
async def test_equals_bm25s_over_the_scope(small: Small, scope: tuple[str, ...], query: str) -> None:
    for k in (1, 5, 20, 10_000):
        found = await search(small.open().clients(GRANULARITY), query, NOWHERE, scope, k)
        oracle = bm25s_scores(small, query, scope)
        assert oracle
        assert_agrees(found.exact, oracle, k, within=1e-4)


async def test_the_scope_changes_the_scores(small: Small) -> None:
    clients = small.open().clients(GRANULARITY)
    one = await search(clients, "impairment of goodwill", NOWHERE, ("report-003",), 1000)
    everything = await search(clients, "impairment of goodwill", NOWHERE, (), 1000)
    wide = {hit.chunk.chunk_id: hit.score for hit in everything.exact}
    assert any(abs(hit.score - wide[hit.chunk.chunk_id]) > 1e-3 for hit in one.exact)


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zyzzyva qwertz", "a b c"])
async def test_nothing_known_finds_nothing(small: Small, query: str) -> None:
    found = await search(small.open().clients(GRANULARITY), query, NOWHERE, (), 5)
    assert found.exact == ()
    assert len(found.semantic) == 5


def test_a_repeated_word_counts_each_time(small: Small) -> None:
    assert analyze_query("Companies, company; the losses") == ["compani", "compani", "loss"]
    shard = small.open().shard(GRANULARITY, 0)
    once = shard.exact(["loss"], None, None, 5)
    twice = shard.exact(["loss", "loss"], None, None, 5)
    assert [hit.score * 2 for hit in once] == pytest.approx([hit.score for hit in twice])


def test_statistics_of_parts_add_up(small: Small) -> None:
    shard = small.open().shard(GRANULARITY, 1)
    halves = shard.doc_ids[:2], shard.doc_ids[2:]
    parts = [shard.statistics(["loss", "tax", "zyzzyva"], half) for half in halves]
    assert parts[0] + parts[1] == shard.statistics(["loss", "tax", "zyzzyva"], None)
    assert (parts[0] + parts[1]).n_chunks == shard.n_chunks


async def test_a_scope_of_stop_words_alone_has_no_exact_hits(tmp_path: Path) -> None:
    small = write_archive(tmp_path, {"a": ["of the", ""], "b": ["revenue"]})
    assert not (await search(small.open().clients(GRANULARITY), "revenue", NOWHERE, ("a",), 3)).exact


_CHUNK = st.lists(st.sampled_from([*WORDS, "42", "x", "—", "Ünïcode", "re-use"]), max_size=8).map(" ".join)
_CORPUS = st.dictionaries(st.sampled_from("abcde"), st.lists(_CHUNK, min_size=1, max_size=5), min_size=1, max_size=4)


@settings(max_examples=25, deadline=None)
@given(corpus=_CORPUS, query=_CHUNK, shards=st.integers(1, 4), k=st.integers(1, 12), data=st.data())
async def test_any_small_corpus(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: dict[str, list[str]],
    query: str,
    shards: int,
    k: int,
    data: st.DataObject,
) -> None:
    location: Path = tmp_path_factory.mktemp("any")
    small = write_archive(location, corpus, shards)
    scope = tuple(data.draw(st.lists(st.sampled_from(sorted(corpus)), unique=True)))
    found = await search(small.open().clients(GRANULARITY), query, NOWHERE, scope, k)
    assert_agrees(found.exact, bm25s_scores(small, query, scope), k, within=1e-4)
