"""Does an answer give the gold number? In the way of FinQA: signs of currency and separators aside, within 1 %.

What is compared with what:

- A gold answer counts as a number only when nothing else stands in it but currency, percent sign and a word of scale
  ("$ 93,662", "(461)", "17966 million"). A bare year ("2018") does not: 2019 lies within 1 % of it.
- A prediction may have words around its number, but must commit itself to one: bare years are left aside where another
  number remains, and of two different numbers neither counts.
- Percent against percent and plain against plain are compared as they stand. A prediction in percent meets a plain
  gold as a fraction (12 % is 0.12, never 12). A plain prediction meets a gold in percent as either, since the unit may
  have been in the question: 12 and 0.12 both meet 12 %.
- Words of scale multiply: "1.5 million" is "1,500,000". Signs count: "(461)" is -461 and not 461.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TOLERANCE: Final = 0.01
"""Relative to the larger of the two numbers. Ours; the FinQA evaluation rounds instead."""

_SCALES: Final = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<open>\()?\s*(?P<sign>[-\u2212\u2013])?(?P<currency>[$€£]\s*)?(?P<inner>[-\u2212\u2013])?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?![\w]|[.,]\d|-[a-z])"
    r"\s*(?P<close>\))?\s*(?P<percent>%|per\s?cent\b)?\s*(?P<late>\))?"
    r"(?:\s*(?P<scale>thousand|million|billion|trillion)s?\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it was written. ``value`` has its sign and scale; 12 % is 12 with ``percent``."""

    value: float
    percent: bool
    year_like: bool


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text in their order. Digits inside words ("Q3", "10-K") are none."""
    return [_quantity(match) for match in _NUMBER.finditer(text)]


def gold_quantity(gold: str) -> Quantity | None:
    """The number that a gold answer is, or None when it is a text or a bare year."""
    match = _NUMBER.fullmatch(gold.strip().rstrip("."))
    found = _quantity(match) if match else None
    return None if found is None or found.year_like else found


def committed_quantity(prediction: str) -> Quantity | None:
    """The one number to which a prediction commits itself, or None."""
    found = quantities(prediction)
    found = [each for each in found if not each.year_like] or found
    return found[0] if len({(each.value, each.percent) for each in found}) == 1 else None


def numeric_match(prediction: str, golds: Iterable[str]) -> bool | None:
    """Whether the prediction gives one of the gold numbers; None when no gold answer is a number."""
    numbers = [number for gold in golds if (number := gold_quantity(gold)) is not None]
    if not numbers:
        return None
    said = committed_quantity(prediction)
    return said is not None and any(_agree(said, number) for number in numbers)


def _agree(said: Quantity, gold: Quantity) -> bool:
    if said.percent == gold.percent:
        return _close(said.value, gold.value)
    if said.percent:
        return _close(said.value / 100, gold.value)
    return _close(said.value, gold.value) or _close(said.value, gold.value / 100)


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=TOLERANCE)


def _quantity(match: re.Match[str]) -> Quantity:
    digits = match["digits"]
    bracketed = match["open"] and (match["close"] or match["late"])
    negative = bool(bracketed) != bool(match["sign"] or match["inner"])
    value = float(digits.replace(",", "")) * _SCALES.get((match["scale"] or "").lower(), 1.0)
    plain = len(digits) == 4 and digits.isdigit() and not (match["percent"] or match["scale"] or match["currency"])
    return Quantity(-value if negative else value, bool(match["percent"]), plain and 1900 <= value <= 2100)
