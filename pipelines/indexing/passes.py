"""Texts dealt into passes of an encoder: tokens counted once, texts of like length together, cutting in a thread.

An encoder is at its best when it is never waited with and pads little. Texts are cut into tokens block by block in a
thread, which the tokenizer lets run beside the encoder, and sorted by tokens (not by characters, which says less of
tables) within a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

FIRST_BLOCK: Final = 256
"""Texts cut before the first pass can start; ours: some hundredths of a second."""

BLOCK: Final = 4096
"""Texts of each further block; ours: longer ones would sort no better, and take memory for their tokens."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text as token ids, at most as many as the encoder sees; ``over_limit`` says that there were more."""

    ids: list[int]
    over_limit: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """Texts of one forward pass, the longest first. ``places`` are their positions among all texts."""

    places: list[int]
    cuts: list[Cut]


def passes(
    texts: Sequence[str], cut: Callable[[list[str]], list[Cut]], most_texts: int, most_tokens: int
) -> Iterator[Pass]:
    """All texts in passes of at most ``most_texts`` and, padding counted, ``most_tokens``; one text may be longer."""
    for start, cuts in _cut_ahead(texts, cut):
        for places in deal([len(each.ids) for each in cuts], most_texts, most_tokens):
            yield Pass([start + place for place in places], [cuts[place] for place in places])


def deal(lengths: Sequence[int], most_texts: int, most_tokens: int) -> Iterator[list[int]]:
    """The places of ``lengths`` in groups that fit, longest first: what is too much for memory shows at once."""
    group: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda each: -lengths[each]):
        if group and (len(group) == most_texts or (len(group) + 1) * lengths[group[0]] > most_tokens):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _cut_ahead(texts: Sequence[str], cut: Callable[[list[str]], list[Cut]]) -> Iterator[tuple[int, list[Cut]]]:
    """Where each block starts, and its texts cut; the next block is cut meanwhile."""
    if not texts:
        return
    starts = [0, *range(FIRST_BLOCK, len(texts), BLOCK)]
    blocks = [list(texts[start:end]) for start, end in zip(starts, [*starts[1:], len(texts)], strict=True)]
    with ThreadPoolExecutor(1) as thread:
        ahead = [thread.submit(cut, block) for block in blocks[:1]]
        for number, start in enumerate(starts):
            cuts = ahead.pop().result()
            ahead = [thread.submit(cut, block) for block in blocks[number + 1 : number + 2]]
            yield start, cuts
