"""The answer that a reader learns to say: the first of the gold wordings that is short enough."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")


def spoken_answer(answers: Sequence[str], most_words: int) -> str | None:
    """On one line; a text that is too long ends with its last whole sentence. None where nothing is left."""
    for answer in answers:
        plain = " ".join(answer.split())
        if plain and len(plain.split()) <= most_words:
            return plain
    for answer in answers:
        kept: list[str] = []
        for sentence in _SENTENCE_END.split(" ".join(answer.split())):
            if len(" ".join([*kept, sentence]).split()) > most_words:
                break
            kept.append(sentence)
        if kept:
            return " ".join(kept)
    return None
