"""Passes of an encoder: every text once, texts of like length together, none too large."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.indexing import embedding as module
from okralong.pipelines.indexing.embedding import Cut, deal, passes

pytestmark = pytest.mark.slow


@given(st.lists(st.integers(1, 600)), st.integers(1, 40), st.integers(1, 4000))
def test_every_text_is_in_one_pass_that_fits(lengths: list[int], most_texts: int, most_tokens: int) -> None:
    groups = list(deal(lengths, most_texts, most_tokens))
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) <= most_texts
        assert len(group) == 1 or len(group) * max(lengths[place] for place in group) <= most_tokens
    longest = [lengths[place] for group in groups for place in group]
    assert longest == sorted(longest, reverse=True)


def test_texts_of_one_length_fill_passes() -> None:
    assert [len(group) for group in deal([100] * 50, 32, 2048)] == [20, 20, 10]
    assert [len(group) for group in deal([10] * 70, 32, 2048)] == [32, 32, 6]


def _words(texts: list[str]) -> list[Cut]:
    return [Cut(list(range(len(text.split()))), False) for text in texts]


@pytest.mark.parametrize("count", [0, 1, 256, 257, 256 + 4096, 256 + 4097])
def test_blocks_lose_nothing(count: int) -> None:
    texts = ["word " * (1 + number % 7) for number in range(count)]
    seen = {}
    for each in passes(texts, _words, 32, 10_000):
        for place, cut in zip(each.places, each.cuts, strict=True):
            seen[place] = len(cut.ids)
    assert seen == {number: 1 + number % 7 for number in range(count)}


def test_the_next_block_is_cut_while_a_pass_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_BLOCK", 2)
    monkeypatch.setattr(module, "BLOCK", 2)
    begun = threading.Event()

    def cut(texts: list[str]) -> list[Cut]:
        if "third" in texts:
            begun.set()
        return _words(texts)

    found = passes(["first", "second", "third", "fourth", "fifth"], cut, 8, 100)
    assert next(found).places == [0, 1]
    assert begun.wait(60)  # while this thread is still at the first pass
    assert [each.places for each in found] == [[2, 3], [4]]


def test_what_cutting_raises_is_raised_here() -> None:
    def cut(texts: list[str]) -> list[Cut]:
        raise MemoryError("too long")

    with pytest.raises(MemoryError, match="too long"):
        list(passes(["text"], cut, 8, 100))
