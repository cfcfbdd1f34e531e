"""Selection of evidence, as SARA chooses it: what holds for every method, and worked examples of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.answering.retrieve import sort_hits
from okralong.pipelines.answering.select_evidence import (
    choose_greedily,
    choose_novel,
    choose_surprising,
    closeness,
    self_information,
    stretched,
)
from okralong.pipelines.core.types import Chunk, Hit


def hit(name: str, score: float, text: str = "x") -> Hit:
    return Hit(Chunk(name, "d", 150, 0, 0, 1, 1, text), score)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [found.chunk.chunk_id for found in hits]


pools = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 5, width=16), max_size=8).map(
    lambda scores: sort_hits([hit(name, score, f"word {name} {score}") for name, score in scores.items()])
)


async def letters(prefix: str, texts: Sequence[str]) -> list[list[float]]:
    """A reader that foresees the words that it has read."""
    seen = set(prefix.split())
    return [[-0.1 if word in seen else -3.0 for word in text.split()] for text in texts]


@given(pools, st.integers(1, 10), st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_each_chunk_once_never_more_than_asked_the_best_first(
    pool: list[Hit], count: int, trade_off: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((len(pool), 4)).astype(np.float32)
    novel = asyncio.run(choose_novel(pool, generator.standard_normal(4).astype(np.float32), vectors, count, trade_off))
    surprising = asyncio.run(choose_surprising(pool, letters, count, trade_off))
    for chosen in (novel, surprising):
        assert len(chosen) == min(count, len(pool))
        assert len(set(ids(chosen))) == len(chosen)
        assert all(found in pool for found in chosen)
        assert chosen[:1] == pool[:1]
    if trade_off == 1:
        assert novel == surprising == pool[:count]


async def test_the_trade_off_weighs_relevance_against_novelty() -> None:
    pool = [hit("a", 1.0), hit("b", 0.9), hit("c", 0.5), hit("d", 0.1)]
    gains = {"b": 0.0, "c": 8.0, "d": 10.0}

    async def novelty(chosen: Sequence[Hit], rest: Sequence[Hit]) -> Sequence[float]:
        return [gains[name] for name in ids(rest)]

    assert ids(await choose_greedily(pool, 2, 0.0, novelty)) == ["a", "d"]
    # c: 0.5 * 0.5 + 0.5 * 0.8; b and d: 0.5 each
    assert ids(await choose_greedily(pool, 2, 0.5, novelty)) == ["a", "c"]
    assert ids(await choose_greedily(pool, 4, 1.0, novelty)) == ["a", "b", "c", "d"]
    assert stretched([2.0, 2.0]) == [0.0, 0.0]


async def test_novelty_follows_the_equations_of_the_paper() -> None:
    generator = np.random.default_rng(4)
    vectors = generator.standard_normal((6, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[5]
    pool = [hit(name, 1.0 - at / 10) for at, name in enumerate("abcde")]
    chosen, wanted = [0], (asked + vectors[0]) / 2
    while len(chosen) < 4:
        left = [number for number in range(5) if number not in chosen]
        distances = [float(np.linalg.norm(wanted - vectors[[*chosen, number]].mean(axis=0))) for number in left]
        chosen.append(left[int(np.argmin(distances))])
    found = await choose_novel(pool, asked, vectors[:5], 4, 0.0)
    assert ids(found) == ["abcde"[number] for number in chosen]
    assert closeness(asked, vectors[:1], vectors[1:3])[1] == pytest.approx(
        -float(np.linalg.norm(asked - (vectors[0] + vectors[2]) / 2)), abs=1e-6
    )


async def test_novelty_leaves_a_twin_behind() -> None:
    asked = np.array([0.6, 0.8], dtype=np.float32)
    vectors = np.array([[1, 0], [0, 1], [0, 1], [0.9, -(0.19**0.5)]], dtype=np.float32)
    pool = [hit("a", 1.0), hit("b", 0.9), hit("twin of b", 0.8), hit("other", 0.1)]
    # The second is the nearest to the question; its twin is much nearer to it than the other one, and still waits.
    assert ids(await choose_novel(pool, asked, vectors, 4, 0.0)) == ["a", "b", "other", "twin of b"]


async def test_self_information_leaves_what_was_read_behind() -> None:
    pool = [hit("a", 1.0, "sales rose again"), hit("b", 0.9, "sales rose"), hit("c", 0.1, "a cat slept")]
    prefixes: list[str] = []

    async def score(prefix: str, texts: Sequence[str]) -> list[list[float]]:
        prefixes.append(prefix)
        return await letters(prefix, texts)

    assert ids(await choose_surprising(pool, score, 3, 0.0)) == ["a", "c", "b"]
    assert prefixes == ["sales rose again\n\n", "sales rose again\n\na cat slept\n\n"]
    assert self_information([-1.0, -3.0]) == 2.0
    assert self_information([]) == 0.0
