"""A text put together from pieces, each of which can be found in it again by its range."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from okralong.pipelines.evaluation.datasets.values import Text, make_text, text_id
from okralong.pipelines.indexing.chunking import boundaries
from okralong.pipelines.reporting.metrics import plain_words

Range = tuple[int, int]
"""``[start, end)`` in characters of a text."""

_WORD_BEFORE: Final = r"(?<!\w)(?<!\d[.,])"
_WORD_AFTER: Final = r"(?!\w)(?![.,]\d)"


class Pieces:
    """Write pieces one after another; ``text`` is what was written."""

    def __init__(self) -> None:
        self._written: list[str] = []
        self._length = 0

    def add(self, piece: str, after: str = "\n\n") -> Range:
        """Write ``piece`` without blanks around it, then ``after``; its range, without ``after``."""
        piece = piece.strip()
        start = self._length
        self._written += (piece, after)
        self._length += len(piece) + len(after)
        return start, start + len(piece)

    @property
    def text(self) -> str:
        """All that was written, without the blanks at its end."""
        return "".join(self._written).rstrip()


def keep_text(texts: dict[str, Text], document: str, text: str) -> Text:
    """The text, from now on one of ``texts``; the one kept before when it was there already.

    Where a text of the same words but other punctuation is there, ranges of the two would differ: the later one then
    gets an id in which the document, and a number, count as words.
    """
    known = texts.setdefault(text_id(text), make_text(document, text))
    number = 1
    while known.text != text:
        number += 1
        other = Text(text_id(f"{document} {number} {text}"), document, text)
        known = texts.setdefault(other.text_id, other)
    return known


def sentence_with(text: str, within: Range, wanted: str, question: str) -> Range | None:
    """The sentence of ``text[within]`` that holds ``wanted`` literally and as whole words; None when none does.

    Of several the one that shares most words with the question, of those the first. A ``wanted`` that runs over the
    end of a sentence gives the sentences from its first to its last character.
    """
    if not wanted.strip():
        return None
    start, end = within
    part = text[start:end]
    cuts = [0, *boundaries(part, ())]
    asked = frozenset(plain_words(question))
    found = []
    for match in re.finditer(_WORD_BEFORE + re.escape(wanted.strip()) + _WORD_AFTER, part):
        first = max(cut for cut in cuts if cut <= match.start())
        last = min(cut for cut in cuts if cut >= match.end())
        shared = len(asked & frozenset(plain_words(part[first:last])))
        found.append((-shared, first, last))
    if not found:
        return None
    _, first, last = min(found)
    return trimmed(text, (start + first, start + last))


def trimmed(text: str, of: Range) -> Range:
    """The range without the blanks at its ends."""
    shown = text[of[0] : of[1]]
    start = of[0] + len(shown) - len(shown.lstrip())
    return start, start + len(shown.strip())


def distinct(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges in the order of the text, each once, without those that lie inside another."""
    kept: list[Range] = []
    for start, end in sorted(set(ranges), key=lambda each: (each[0], -each[1])):
        if not kept or end > kept[-1][1]:
            kept.append((start, end))
    return tuple(kept)
