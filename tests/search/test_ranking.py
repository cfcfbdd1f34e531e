"""Leaving chunks out changes nothing: the same places and, to the last bit, the same scores as scoring all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from okralong.pipelines.archive import bm25 as ranking
from okralong.pipelines.archive.bm25 import ScopeStatistics
from okralong.pipelines.archive.files import RowRanges

Found = list[tuple[NDArray[np.int32], NDArray[np.int32]]]


def _scope(
    seed: int, chunks: int, shares: list[float]
) -> tuple[ScopeStatistics, NDArray[np.float64], Found, RowRanges, NDArray]:
    """Terms that each stand in a share of the chunks, some in many of them alike."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 12, chunks).astype(np.int32)
    found = []
    for share in shares:
        places = np.flatnonzero(draw.random(chunks) < share).astype(np.int32)
        found.append((places, draw.integers(1, 4, len(places)).astype(np.int32)))
    frequency = {str(number): len(places) for number, (places, _) in enumerate(found)}
    statistics = ScopeStatistics(chunks, int(lengths.sum()), frequency)
    weights = [statistics.inverse_document_frequency(term) * int(draw.integers(1, 3)) for term in frequency]
    return statistics, np.array(weights), found, RowRanges.of([range(chunks)]), lengths


@settings(max_examples=300)
@given(
    seed=st.integers(0, 10_000),
    chunks=st.integers(1, 400),
    shares=st.lists(st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5, 0.95, 1.0]), min_size=1, max_size=7),
    k=st.integers(1, 30),
)
def test_equals_scoring_every_chunk(seed: int, chunks: int, shares: list[float], k: int) -> None:
    scope = _scope(seed, chunks, shares)
    with pytest.MonkeyPatch.context() as patch:
        if sum(len(places) for places, _ in scope[2]):
            every = ranking.best_places(*scope, k)
            patch.setattr(ranking, "FEW", 0)
            patch.setattr(ranking, "_LOOK_UP", 0)  # leave out as soon as it is possible
            some = ranking.best_places(*scope, k)
            assert np.array_equal(some[0], every[0])
            assert np.array_equal(some[1], every[1])


def test_common_terms_are_not_added_up_for_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    statistics, weights, found, rows, lengths = _scope(1, 60_000, [0.001, 0.9, 0.8])
    scored = []
    real = ScopeStatistics.scores

    def scores(self: ScopeStatistics, *given: NDArray) -> NDArray[np.float64]:
        scored.append(len(given[1]))
        return real(self, *given)

    monkeypatch.setattr(ScopeStatistics, "scores", scores)
    places, _ = ranking.best_places(statistics, weights, found, rows, lengths, 20)
    assert len(places) >= 20
    assert sum(scored) < 1_000 < sum(len(each) for each, _ in found)
