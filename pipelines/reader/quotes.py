"""The words that a perfect reader would quote: of each piece of evidence those around the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.core.types import Passage
from okralong.pipelines.evaluation.datasets.pooling import Span
from okralong.pipelines.evaluation.recall import words
from okralong.pipelines.indexing.chunking import boundaries

Quote = tuple[int, str]
"""The number of a passage, from 1, and words of it."""

MOST_WORDS: Final = 20
"""Of a quotation; ours. A citation must lead to its place, and each word of it is paid for."""

LEAST_WORDS: Final = 6
"""Of a quotation where its sentence or row has more; ours. A bare figure would be found in too many places."""

MOST_QUOTES: Final = 3
"""Of a reply; ours."""

_WORD: Final = re.compile(r"\S+")


def quotes(passages: Sequence[Passage], evidence: Sequence[Span], answer: str = "") -> list[Quote]:
    """A quotation for each piece of ``evidence`` that the passages show, at most ``MOST_QUOTES``, each once.

    Of a long piece the ``MOST_WORDS`` words around ``answer`` are kept, or its first ones; a piece of a word or two is
    quoted with its sentence or row.
    """
    found: dict[Quote, None] = {}
    for piece in evidence:
        for number, passage in enumerate(passages, start=1):
            start = max(piece.start_char, passage.start_char)
            end = min(piece.end_char, passage.end_char)
            if piece.doc_id != passage.doc_id or start >= end:
                continue
            words_of_it = quotable(_enough(passage, start, end), answer)
            if words_of_it:
                found.setdefault((number, words_of_it))
            break
    return list(found)[:MOST_QUOTES]


def _enough(passage: Passage, start: int, end: int) -> str:
    """The text of a range of the document, or where it is too short of the units of the passage that hold it."""
    first, last = start - passage.start_char, end - passage.start_char
    piece = passage.text[first:last]
    if len(piece.split()) >= LEAST_WORDS:
        return piece
    ends = list(boundaries(passage.text, ()))
    return passage.text[
        max((each for each in ends if each <= first), default=0) : min(each for each in ends if each >= last)
    ]


def quotable(text: str, answer: str) -> str:
    """Words of ``text`` that stand on one line between quote marks and are found again; empty where there are none."""
    stretches = [stretch for stretch in text.split('"') if any(char.isalnum() for char in stretch)]
    if not stretches:
        return ""
    told = " ".join(words(answer))
    holding = [stretch for stretch in stretches if told and told in " ".join(words(stretch))]
    chosen = holding[0] if holding else max(stretches, key=len)
    found = [match.group() for match in _WORD.finditer(chosen)]
    first = _place(found, words(answer)) if holding else 0
    start = max(0, min(first - MOST_WORDS // 3, len(found) - MOST_WORDS))
    return " ".join(found[start : start + MOST_WORDS]).strip(" |")


def _place(found: Sequence[str], wanted: Sequence[str]) -> int:
    """Where among the words the answer begins."""
    for at, word in enumerate(found):
        if wanted and wanted[0] in words(word):
            return at
    return 0
