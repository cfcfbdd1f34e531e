"""Build texts from pieces, and find places in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.reporting.metrics import plain_words

Range = tuple[int, int]
"""A range ``[start, end)`` of characters in a text."""
_WORD_BEFORE: Final = r"(?<!\w)(?<!\d[.,])"
_WORD_AFTER: Final = r"(?!\w)(?![.,]\d)"


class Pieces:
    """Writes pieces one after another into a text."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._length = 0

    def add(self, piece: str, after: str = "\n\n") -> Range:
        """Write ``piece`` stripped, then ``after``; return the range without ``after``."""
        piece = piece.strip()
        start = self._length
        self._written += (piece, after)
        self._length += len(piece) + len(after)
        return start, start + len(piece)

    @property
    def text(self) -> str:
        """The text written so far, without trailing blanks."""
        return "".join(self._written).rstrip()


def sentence_with(text: str, within: Range, wanted: str, question: str) -> Range | None:
    """Return the sentence of ``text[within]`` that contains ``wanted`` literally and as whole words, or None.

    Of several sentences, return the one that shares most words with the question, of ties the first. If ``wanted``
    extends over the end of a sentence, return all sentences that it touches.
    """
    if not wanted.strip():
        return None
    start, end = within
    part = text[start:end]
    cuts = _cuts(part)
    asked = frozenset(plain_words(question))
    found = []
    for match in re.finditer(_WORD_BEFORE + re.escape(wanted.strip()) + _WORD_AFTER, part):
        first, last = _sentence(cuts, match.span())
        shared = len(asked & frozenset(plain_words(part[first:last])))
        found.append((-shared, first, last))
    if not found:
        return None
    _, first, last = min(found)
    return trimmed(text, (start + first, start + last))


def sentence_at(text: str, within: Range, place: Range) -> Range:
    """Return the sentence or sentences of ``text[within]`` that contain the range ``place`` of ``text``."""
    start, end = within
    first, last = _sentence(_cuts(text[start:end]), (place[0] - start, place[1] - start))
    return trimmed(text, (start + first, start + last))


def _cuts(part: str) -> list[int]:
    return [0, *boundaries(part, ())]


def _sentence(cuts: Sequence[int], place: Range) -> Range:
    return max(cut for cut in cuts if cut <= place[0]), min(cut for cut in cuts if cut >= place[1])


def trimmed(text: str, of: Range) -> Range:
    """Return the range without the blanks at its ends."""
    shown = text[of[0] : of[1]]
    start = of[0] + len(shown) - len(shown.lstrip())
    return start, start + len(shown.strip())


def distinct(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges in text order, without duplicates and without those inside another."""
    kept: list[Range] = []
    for start, end in sorted(set(ranges), key=lambda each: (each[0], -each[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return tuple(kept)
