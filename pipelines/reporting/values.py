"""Whether two answers say the same: numbers and dates compared as values, with unit and scale, the words around them
normalised.

"$1.2 billion" says what "1,200 million dollars" says, "3 March 2023" what "2023-03-03" does. Nothing is rounded: an
answer that gives a number with other digits says something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from okralong.pipelines.answering.amounts import amounts
from okralong.pipelines.answering.periods import dates
from okralong.pipelines.reporting.metrics import normalise


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a date in an answer. ``unit`` is a currency ("USD"), "%", "date", or "" where none is said."""

    amount: Decimal | date
    unit: str = ""

    def agrees(self, other: Value) -> bool:
        """Whether both are the same. A currency that only one of them names may have been in the question."""
        said = self.unit or other.unit
        units = self.unit == other.unit or ("" in (self.unit, other.unit) and said not in ("%", "date"))
        return units and self.amount == other.amount


def same_answer(before: str, after: str, question: str = "") -> bool:
    """Whether two answers to the ``question`` say the same.

    Words must agree one by one, but for those of a frame ("it is", "the"). Around a single value also words of the
    question make no difference: "Revenue was $5 million" says what "$5 million" does, when revenue was asked for.
    Words that deny always count.
    """
    first, second = pieces(before), pieces(after)
    numbers, others = ([each for each in found if isinstance(each, Value)] for found in (first, second))
    if len(numbers) != len(others) or not all(map(Value.agrees, numbers, others)):
        return False
    if len(numbers) == 1:
        free = _FRAME | (set(normalise(question).split()) - _DENYING)
        words, found = ({each for each in said if isinstance(each, str)} - free for said in (first, second))
        return words == found
    return _shape(first) == _shape(second)


def pieces(text: str) -> list[str | Value]:
    """The words of an answer, normalised, and the values among them, in their order."""
    days = [(span, Value(date.fromisoformat(day), "date")) for span, day in dates(text) if len(day) == _DAY]
    numbers = [
        ((each.start, each.end), Value((each.digits * each.factor).normalize(), each.unit or each.currency))
        for each in amounts(text)
        if not any(start < each.end and each.start < end for (start, end), _ in days)
    ]
    found: list[str | Value] = []
    at = 0
    for (start, end), value in sorted([*days, *numbers], key=lambda each: each[0]):
        found += [*normalise(text[at:start]).split(), value]
        at = end
    return [*found, *normalise(text[at:]).split()]


_DAY: Final = len("2023-06-30")


def _shape(said: list[str | Value]) -> list[str]:
    """The words in order, with a mark where each value stands."""
    return ["#" if isinstance(each, Value) else each for each in said if each not in _FRAME]


_FRAME: Final = frozenset(
    ("it", "its", "is", "was", "are", "were", "be", "been", "that", "this", "there", "of", "in", "at", "for", "answer")
)
"""Words that say nothing by themselves. Ours."""
_DENYING: Final = frozenset(
    ("no", "not", "never", "none", "neither", "nor", "without", "isnt", "wasnt", "didnt", "doesnt")
)
