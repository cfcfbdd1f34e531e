"""The characters of a page are found in its final text, which has other blanks and lacks or adds characters."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.indexing.formats.offsets import Offsets

BLANKS = st.text(" \n\t\u00a0", max_size=3)
WORDS = st.lists(st.text("ab1,(.\u00e9\U0001d7d8", min_size=1, max_size=6), min_size=1, max_size=60)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from(("drop", "add", "turn")), st.integers(1, 30)), max_size=4)


def places(words: list[str], text: str) -> list[tuple[int, int]]:
    """Return start and end of each word in the text."""
    ends = np.cumsum([len(word) for word in words])
    return list(zip(*Offsets("".join(words), text).of(ends - [len(word) for word in words], ends), strict=True))


@given(WORDS, st.data())
def test_blanks_move_nothing(words: list[str], data: st.DataObject) -> None:
    text = "".join(data.draw(BLANKS) + char for word in words for char in word) + data.draw(BLANKS)
    for word, (start, end) in zip(words, places(words, text), strict=True):
        assert "".join(text[start:end].split()) == word
        assert not text[start].isspace()
        assert not text[end - 1].isspace()


@given(WORDS, EDITS)
def test_a_word_is_found_as_a_whole_or_has_no_length(words: list[str], edits: list[tuple[float, str, int]]) -> None:
    text = " ".join(words)
    for share, what, count in edits:
        at = int(share * len(text))
        part = text[at : at + count]
        new = {"drop": "", "add": part + "(x)" * count, "turn": part[::-1]}[what]
        text = text[:at] + new + text[at + count :]
    found = places(words, text)
    for word, (start, end) in zip(words, found, strict=True):
        assert 0 <= start <= end <= len(text)
        assert start == end or "".join(text[start:end].split()) == word
    solid = [start for start, end in found if start < end]
    assert solid == sorted(solid)


def test_words_beside_a_difference_are_found() -> None:
    """A raised mark gets brackets, a hyphen is lost, a word is turned round, and the next page's head is cut off."""
    words = ["Sales", "1,204", "1", "co", "sold", "(7)", "drow", "end", "of", "the", "page"]
    text = "Sales 1,204 (1)\nco-\nsold (7) word end of the"
    said = [text[start:end] for start, end in places(words, text)]
    assert said == ["Sales", "1,204", "1", "co", "sold", "(7)", "", "end", "of", "the", ""]


def test_a_long_part_that_is_missing_costs_one_word_at_most() -> None:
    words = [f"word{number}" for number in range(3000)]
    text = " ".join(words[:500] + words[2500:])
    said = [text[start:end] for start, end in places(words, text)]
    assert said[:500] == words[:500]
    assert said[2501:] == words[2501:]
    assert not any(said[501:2500])


def test_texts_that_differ_everywhere_take_little_time() -> None:
    started = time.process_time()
    places(["ab" * 25_000], "ba ab bba " * 5_000)
    places(["x" * 50_000], "y" * 50_000)
    assert time.process_time() - started < 3
