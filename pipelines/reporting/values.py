"""Whether two answers say the same: numbers and dates compared as values, with unit and scale, the words around them
normalised.

"$1.2 billion" says what "1,200 million dollars" says, "3 March 2023" what "2023-03-03" does. Nothing is rounded: an
answer that gives a number with other digits says something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from okralong.pipelines.reporting.metrics import normalise


@dataclass(frozen=True, slots=True)
class Value:
    """A number or a date in an answer. ``unit`` is a currency ("USD"), "%", "date", or "" where none is said."""

    amount: Decimal | date
    unit: str = ""

    def agrees(self, other: Value) -> bool:
        """Whether both are the same. A currency that only one of them names may have been in the question."""
        open_ones = ("", *_CURRENCIES)
        units = self.unit == other.unit or ("" in (self.unit, other.unit) and {self.unit, other.unit} <= {*open_ones})
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
    found: list[str | Value] = []
    at = 0
    for match in _VALUE.finditer(text):
        value = _value(match)
        if value is None:
            continue
        found += [*normalise(text[at : match.start()]).split(), value]
        at = match.end()
    return [*found, *normalise(text[at:]).split()]


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

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CURRENCIES: Final = {
    "USD": ("us$", "$", "usd", "us dollars", "us dollar", "u.s. dollars", "dollars", "dollar"),
    "EUR": ("€", "eur", "euros", "euro"),
    "GBP": ("£", "gbp", "pounds sterling", "pounds"),
    "JPY": ("¥", "jpy", "yen"),
    "CHF": ("chf", "swiss francs", "francs"),
}
_UNITS: Final = {word: unit for unit, words in _CURRENCIES.items() for word in words}
_SCALES: Final = {
    "thousand": 3,
    "k": 3,
    "million": 6,
    "mn": 6,
    "m": 6,
    "billion": 9,
    "bn": 9,
    "b": 9,
    "trillion": 12,
    "tn": 12,
}
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_MARKS: Final = "|".join(re.escape(word) for word in sorted(_UNITS, key=len, reverse=True))
_VALUE: Final = re.compile(
    rf"""
    \b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})\.?,?\s+(?P<year>\d{{4}})\b
    | \b(?P<month2>{_MONTH})\.?\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year2>\d{{4}})\b
    | (?<![\w.-])(?P<year3>\d{{4}})-(?P<month3>\d{{2}})-(?P<day3>\d{{2}})(?![\w-])
    | (?<![\w.,])(?P<open>\()?(?P<sign>[-\u2212\u2013+])?\s?(?P<mark>{_MARKS})?\s?(?P<open2>\()?
      (?P<inner>[-\u2212\u2013])?
      (?P<digits>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)
      (?P<close>\))?
      (?:\s?(?P<letter>bn|mn|tn|[kmb])\b|\s*[-\s]?(?P<scale>thousand|million|billion|trillion)s?\b)?
      (?![\w]|[.,]\d)
      \s*(?P<close2>\))?\s*(?P<percent>%|per\s?cent\b)?
      (?:\s*(?:of\s+)?(?P<after>{_MARKS})(?!\w))?
      \s*(?P<close3>(?<=[%\d])\))?
    """,
    re.IGNORECASE | re.VERBOSE,
)


def _value(match: re.Match[str]) -> Value | None:
    if match["digits"] is None:
        year, month, day = (
            next(match[f"{name}{end}"] for end in ("", "2", "3") if match[f"{name}{end}"])
            for name in ("year", "month", "day")
        )
        number = int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1
        try:
            return Value(date(int(year), number, int(day)), "date")
        except ValueError:
            return None
    unit = _UNITS.get((match["mark"] or match["after"] or "").lower(), "")
    letter = (match["letter"] or "").lower()
    if len(letter) == 1 and not unit:
        return None  # 5 m may be metres
    power = _SCALES.get((match["scale"] or letter).lower(), 0)
    opened = bool(match["open"] or match["open2"])
    bracketed = opened and bool(match["close"] or match["close2"] or match["close3"])
    minus = bool((match["sign"] and match["sign"] != "+") or match["inner"])
    amount = (Decimal(match["digits"].replace(",", "")) * 10**power).normalize()
    return Value(-amount if minus or bracketed else amount, "%" if match["percent"] else unit)
