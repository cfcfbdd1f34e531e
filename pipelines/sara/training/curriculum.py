"""From short and plain to long and rich in names: the order of the alignment stage (SARA appendix A.1).

The paper ranks sentences by their token count and by the entities that spaCy finds. No model of spaCy is at hand here,
so entities are counted by a rule of ours: runs of capitalised words that do not merely begin a sentence, dates, and
other numbers, each once for every time it is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.sara.training.examples import MixedExample

_MONTH: Final = (
    "(?:January|February|March|April|May|June|July|August|September|October|November|December|"
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
)
_DATE: Final = re.compile(
    rf"\b(?:\d{{1,2}}\s+{_MONTH}\.?(?:,?\s+\d{{4}})?|{_MONTH}\.?\s+\d{{1,2}}(?:,?\s+\d{{4}})?|{_MONTH}\.?\s+\d{{4}})\b"
)
_NUMBER: Final = re.compile(r"\d[\d.,:/]*")
_NAME: Final = re.compile(r"\b[A-Z][\w'\u2019&-]*(?:\s+(?:of|the|and|de|von)?\s*[A-Z][\w'\u2019&-]*)*")
_BEFORE_SENTENCE: Final = re.compile(r"(?:^|[.!?:\n]['\"\u201d)]*)\s*$")


def count_entities(text: str) -> int:
    """Dates, other numbers and names in ``text``. A single capitalised word that opens a sentence is no name."""
    rest, dates = _DATE.subn(" ", text)
    numbers = len(_NUMBER.findall(rest))
    names = sum(
        " " in match[0] or not _BEFORE_SENTENCE.search(rest[: match.start()][-8:]) for match in _NAME.finditer(rest)
    )
    return dates + numbers + names


def from_plain_to_rich(examples: Sequence[MixedExample]) -> list[MixedExample]:
    """The examples by rising mean of two ranks: that of their tokens and that of their entities. Ties keep their order.

    That the two ranks weigh the same is ours; the paper names both measures and not how they are joined.
    """
    by_tokens = _ranks([count_tokens(each.reply) for each in examples])
    by_entities = _ranks([count_entities(each.reply) for each in examples])
    order = sorted(range(len(examples)), key=lambda number: by_tokens[number] + by_entities[number])
    return [examples[number] for number in order]


def _ranks(values: Sequence[int]) -> list[float]:
    """The rank of each value; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + end - 1) / 2
        start = end
    return ranks
