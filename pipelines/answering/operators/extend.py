"""Context extension: a passage is widened on both sides, to where a sentence or a line begins (paper section 3.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from okralong.pipelines.core.types import Document, Passage

_SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+")
_WORD = re.compile(r"\s+")
_CHARS_PER_TOKEN = 12
"""How far one looks, in characters for each token; ours. Prose has 4 to 5, the leaders of a table up to 10."""


def extend(passage: Passage, document: Document, tokens: int, count: Callable[[str], int]) -> Passage:
    """``passage`` widened by up to ``tokens`` tokens (as ``count`` counts) on each side, never past the document.

    Each side ends where a sentence or line ends if one fits, else between words; where not even a word fits, that
    side stays. The passage comes back unchanged when neither side grows.
    """
    text = document.text
    reach = tokens * _CHARS_PER_TOKEN
    start = _widen_left(text, passage.start_char, max(0, passage.start_char - reach), tokens, count)
    end = _widen_right(text, passage.end_char, min(len(text), passage.end_char + reach), tokens, count)
    if (start, end) == (passage.start_char, passage.end_char):
        return passage
    wider = text[start:end]
    return replace(passage, start_char=start, end_char=end, text=wider, n_tokens=count(wider), origin="extended")


def _widen_left(text: str, start: int, limit: int, tokens: int, count: Callable[[str], int]) -> int:
    for boundary in (_SENTENCE, _WORD):
        places = [match.end() for match in boundary.finditer(text, limit, start) if match.end() < start]
        # From the nearest to the farthest, so that the text between grows along the list.
        places = [*reversed(places), *([0] if limit == 0 and start > 0 else [])]
        fitting = _count_fitting(places, lambda place: count(text[place:start]) <= tokens)
        if fitting:
            return places[fitting - 1]
    return start


def _widen_right(text: str, end: int, limit: int, tokens: int, count: Callable[[str], int]) -> int:
    for boundary in (_SENTENCE, _WORD):
        places = [match.end() for match in boundary.finditer(text, end, limit) if match.end() < limit]
        places = [*places, *([limit] if limit == len(text) and limit > end else [])]
        fitting = _count_fitting(places, lambda place: count(text[end:place]) <= tokens)
        if fitting:
            return places[fitting - 1]
    return end


def _count_fitting(places: Sequence[int], fits: Callable[[int], bool]) -> int:
    """How many of ``places`` fit, each one being wider than the one before: a binary search."""
    low, high = 0, len(places)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(places[middle - 1]):
            low = middle
        else:
            high = middle - 1
    return low
