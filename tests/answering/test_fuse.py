"""The fusion's arithmetic, and what holds for every pair of lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.answering.rerank import stretched
from okralong.pipelines.answering.retrieve import (
    fuse,
    pool,
    select,
    sort_hits,
    within_tokens,
)
from okralong.pipelines.core.types import Candidates, Chunk, Hit


def hit(name: str, score: float, n_tokens: int = 1) -> Hit:
    return Hit(Chunk(name, "d", 150, 0, 0, 1, n_tokens, "x"), score)


def ids(hits: list[Hit]) -> list[str]:
    return [found.chunk.chunk_id for found in hits]


scored = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-50, 50, width=16), max_size=8).map(
    lambda scores: tuple(sort_hits([hit(name, score) for name, score in scores.items()]))
)


def test_worked_example() -> None:
    candidates = Candidates((hit("a", 9.0), hit("b", 6.0), hit("c", 3.0)), (hit("b", 0.8), hit("d", 0.4)))
    fused = fuse(candidates, 3.0, 2.0)
    # a: 3*1; b: 3*0.5 + 2*1; c: 3*0; d: 2*0
    assert [(found.chunk.chunk_id, found.score) for found in fused] == [("b", 3.5), ("a", 3.0), ("c", 0.0), ("d", 0.0)]


def test_constant_and_single_lists_count_one() -> None:
    assert stretched([hit.score for hit in [hit("a", 0.2)]]) == [1.0]
    assert stretched([4.0, 4.0]) == [1.0, 1.0]
    assert fuse(Candidates((), ()), 1.0, 1.0) == []


@given(scored, scored, st.sampled_from([(3.0, 2.0), (2.0, 3.0), (1.0, 1.0), (0.0, 1.0)]))
@settings(deadline=None)
def test_every_candidate_once_within_the_weights(
    exact: tuple[Hit, ...], semantic: tuple[Hit, ...], weights: tuple[float, float]
) -> None:
    fused = fuse(Candidates(exact, semantic), *weights)
    assert sorted(ids(fused)) == sorted({found.chunk.chunk_id for found in (*exact, *semantic)})
    assert all(0.0 <= found.score <= sum(weights) for found in fused)
    assert fused == sort_hits(fused)


@given(scored, scored, st.sampled_from([0.5, 2.0, 8.0]), st.integers(-8, 8))
@settings(deadline=None)
def test_the_scale_of_a_side_does_not_matter(
    exact: tuple[Hit, ...], semantic: tuple[Hit, ...], factor: float, shift: int
) -> None:
    stretched = tuple(Hit(found.chunk, found.score * factor + shift) for found in exact)
    before = {found.chunk.chunk_id: found.score for found in fuse(Candidates(exact, semantic), 3.0, 2.0)}
    after = {found.chunk.chunk_id: found.score for found in fuse(Candidates(stretched, semantic), 3.0, 2.0)}
    assert after == pytest.approx(before, abs=1e-6)


def test_select_drops_what_is_far_behind_then_counts() -> None:
    hits = [hit("a", 2.0), hit("b", 1.0), hit("c", 0.2), hit("d", 0.19)]
    assert ids(select(hits, 10, 0.1)) == ["a", "b", "c"]
    assert ids(select(hits, 2, 0.1)) == ["a", "b"]
    assert select([], 5, 0.1) == []


def test_a_budget_takes_the_best_until_it_is_full() -> None:
    hits = [hit("a", 3.0, 150), hit("b", 2.0, 140), hit("c", 1.5, 150), hit("d", 1.0, 5)]
    assert ids(within_tokens(hits, None)) == ["a", "b", "c", "d"]
    assert ids(within_tokens(hits, 440)) == ["a", "b", "c"]
    # d would fit, but it would be shown in place of the better c.
    assert ids(within_tokens(hits, 300)) == ["a", "b"]
    assert ids(within_tokens(hits, 20)) == ["a"]
    assert within_tokens([], 20) == []


@given(st.lists(scored, max_size=4))
@settings(deadline=None)
def test_pool_keeps_every_chunk_once_with_its_best_score(finds: list[tuple[Hit, ...]]) -> None:
    pooled = pool(finds)
    best: dict[str, float] = {}
    for found in (found for hits in finds for found in hits):
        best[found.chunk.chunk_id] = max(found.score, best.get(found.chunk.chunk_id, found.score))
    assert {found.chunk.chunk_id: found.score for found in pooled} == best
    assert len(pooled) == len(best)


def test_pool_takes_turns_so_that_a_weak_query_keeps_its_best() -> None:
    strong = [hit("a", 5.0), hit("b", 4.0), hit("c", 3.0)]
    weak = [hit("x", 0.2), hit("a", 6.0)]
    assert ids(pool([strong, weak])) == ["a", "x", "b", "c"]
    assert pool([strong, weak])[0].score == 6.0
