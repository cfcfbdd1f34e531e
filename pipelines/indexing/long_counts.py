"""Counting the tokens of texts of any length.

The tokenizer refuses a text of a million characters or of 200,000 tokens. Longer ones are counted in stretches, cut
where o200k_base never joins what stands on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from okralong.pipelines.tokens import count_tokens_batch

STRETCH_CHARS: Final = 50_000
"""A character has at most four tokens, so that a stretch stays below the tokenizer's limit."""

_LOOK_BACK: Final = 5_000


def count_each(texts: Sequence[str]) -> list[int]:
    """Tokens of each text.

    Exact, but for a text that has 5,000 characters without a place to cut: there each cut may add a token or two.
    """
    stretches = [list(_stretches(text)) for text in texts]
    counts = iter(count_tokens_batch([stretch for each in stretches for stretch in each]))
    return [sum(next(counts) for _ in each) for each in stretches]


def count_long(text: str) -> int:
    """Tokens of one text of any length."""
    return count_each([text])[0]


def _stretches(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > STRETCH_CHARS:
        end = _cut(text, start + STRETCH_CHARS)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, latest: int) -> int:
    """The last offset up to ``latest`` that always parts two tokens, or ``latest`` when none is near."""
    for at in range(latest, latest - _LOOK_BACK, -1):
        before, after = text[at - 1], text[at]
        if before == "\n" and not after.isspace() and after != "/":
            return at
        if after == " " and not before.isspace() and text[at + 1 : at + 2].isalpha():
            return at
    return latest
