"""Find the characters of a page in its final text, which has other blanks, and where some were dropped or added."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import chain
from typing import Any, Final

import numpy as np

_ANCHOR: Final = 6
"""Characters that must agree after a difference. # project default"""
_LONG_ANCHOR: Final = 16
"""The same if many characters are dropped or added at once. # project default"""
_NEAR: Final = 24
"""Characters dropped and added together that are tried one by one. # project default"""
_MOST_DIFFERENCES: Final = 300
"""Differences of a page, after which no more characters are found: a search takes time. # project default"""
_BLANKS: Final = np.array([*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
                           0x202F, 0x205F, 0x3000], dtype=np.uint32)  # fmt: skip
"""The characters that ``str.split`` splits at."""


def codes_of(text: str) -> Any:
    """Return the code points of a text, an array."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def is_blank(codes: Any) -> Any:
    """Return for each code point whether it is a blank, an array."""
    return np.isin(codes, _BLANKS)


class Offsets:
    """The places in ``text`` of the characters of ``said``, which has no blanks."""

    def __init__(self, said: str, text: str) -> None:
        self._places = np.flatnonzero(~is_blank(codes_of(text)))
        solid = "".join(text.split())
        # For each character of ``said`` its index in ``solid``, or -1.
        self._found = np.arange(len(said)) if said == solid else _aligned(said, solid)
        self._reached = np.maximum.accumulate(self._found) if len(said) else self._found

    def of(self, starts: Any, ends: Any) -> tuple[list[int], list[int]]:
        """Return start and end in the text for each part ``said[start:end]`` of at least a character.

        A part of which a character was dropped, or among which one was added, has no length: it stands after the last
        character that was found before.
        """
        if not len(self._places) or not len(starts):
            return [0] * len(starts), [0] * len(starts)
        first, last = self._found[starts], self._found[ends - 1]
        missing = np.concatenate(([0], np.cumsum(self._found < 0)))
        whole = (missing[ends] == missing[starts]) & (last - first == ends - 1 - starts)
        before = self._reached[starts]
        gap = np.where(before >= 0, self._places[np.maximum(before, 0)] + 1, 0)
        begin = np.where(whole, self._places[np.maximum(first, 0)], gap)
        end = np.where(whole, self._places[np.maximum(last, 0)] + 1, gap)
        return begin.tolist(), end.tolist()


def _aligned(said: str, solid: str) -> Any:
    """Return for each character of ``said`` its index in ``solid`` or -1; both without blanks, in the same order."""
    found = np.full(len(said), -1, dtype=np.int64)
    i = j = 0
    for _ in range(_MOST_DIFFERENCES):
        same = _common_start(said, i, solid, j)
        found[i : i + same] = np.arange(j, j + same)
        i, j = i + same, j + same
        if i == len(said) or j == len(solid):
            break
        dropped, added = _difference(said, i, solid, j)
        if max(dropped, added) <= 2 * _NEAR:
            within = SequenceMatcher(None, said[i : i + dropped], solid[j : j + added], autojunk=False)
            for block in within.get_matching_blocks():
                found[i + block.a : i + block.a + block.size] = np.arange(j + block.b, j + block.b + block.size)
        i, j = i + dropped, j + added
    return found


def _common_start(one: str, i: int, other: str, j: int) -> int:
    """Return how many characters of ``one`` from ``i`` and of ``other`` from ``j`` are the same."""
    most = min(len(one) - i, len(other) - j)
    same, step = 0, 16
    while step <= most - same and one[i + same : i + same + step] == other[j + same : j + same + step]:
        same, step = same + step, 2 * step
    while step := step // 2:
        if step <= most - same and one[i + same : i + same + step] == other[j + same : j + same + step]:
            same += step
    return same


def _difference(one: str, i: int, other: str, j: int) -> tuple[int, int]:
    """Return how many characters to skip in each text so that both go on alike."""
    found = _near_difference(one[i : i + 4 * _NEAR], other[j : j + 4 * _NEAR], _LONG_ANCHOR, _LONG_ANCHOR)
    if found is None:
        dropped = one.find(other[j : j + _LONG_ANCHOR], i) - i
        added = other.find(one[i : i + _LONG_ANCHOR], j) - j
        if dropped >= 0 or added >= 0:
            return (dropped, 0) if added < 0 or 0 <= dropped <= added else (0, added)
        found = _near_difference(one[i : i + 4 * _NEAR], other[j : j + 4 * _NEAR], _ANCHOR, 1)
    return found or (1, 1)


def _near_difference(one: str, other: str, anchor: int, least: int) -> tuple[int, int] | None:
    """Return the same for a small difference, after which ``anchor`` characters agree, or ``least`` up to both ends."""
    both = ((skip, total - skip) for total in range(1, _NEAR + 1) for skip in range(total + 1))
    same = ((count, count) for count in range(_NEAR // 2 + 1, 2 * _NEAR))  # such as a word that was turned round
    for dropped, added in chain(both, same):
        after = one[dropped : dropped + anchor]
        if after == other[added : added + anchor] and len(after) >= least:
            return dropped, added
    return None
