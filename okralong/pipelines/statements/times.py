"""The time that a question asks for, the time that a table's heads state, and whether the two are compatible.

Heads are matched to a question by what they say, never by their position. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.periods import dates


@dataclass(frozen=True, slots=True)
class Time:
    """The time of a question or column, as far as it is stated.

    ``part`` is a quarter or half of the year ("Q3", "H1"). ``count`` and ``unit`` ("month" or "week") are the length of
    a span, ``end`` its last day ("06-30"). ``loose`` is a length of 3 or 12 months that a question only implies ("of
    the quarter"), or 0.
    """

    year: str = ""
    part: str = ""
    count: int = 0
    unit: str = ""
    end: str = ""
    loose: int = 0

    @property
    def months(self) -> int:
        """The span's length in months; 0 if unknown, negative if ambiguous."""
        if self.part and not self.count:
            return 3 if self.part[0] == "Q" else 6
        return round(self.count * 12 / 52) if self.unit == "week" else self.count

    @property
    def hard(self) -> bool:
        """True if any field other than ``loose`` is stated."""
        return bool(self.year or self.part or self.count or self.end)

    @property
    def written(self) -> str:
        """The period in the canonical form of ``periods.py``; "" for a span without a known end."""
        if self.count < 0 or not self.year:
            return ""
        if self.part:
            return f"{self.part} {self.year}"
        if not self.end:
            return self.year if self.months in (0, 12) else ""
        day = f"{self.year}-{self.end}"
        if not self.count:
            return day
        span = f"{self.count} {self.unit}s" if self.count > 1 else self.unit
        return f"{'year' if self.months == 12 else span} to {day}" if len(self.end) == 5 else ""


_COUNTS: Final = {
    word: count
    for count, word in (
        *((3, "three"), (6, "six"), (9, "nine"), (12, "twelve"), (13, "thirteen"), (14, "fourteen"), (16, "sixteen")),
        *((18, "eighteen"), (26, "twenty-six"), (39, "thirty-nine"), (40, "forty"), (52, "fifty-two")),
        *((53, "fifty-three"), (2, "two"), (4, "four"), (8, "eight"), (10, "ten"), (11, "eleven")),
    )
}
_COUNT: Final = rf"{'|'.join(sorted(_COUNTS, key=len, reverse=True))}|\d{{1,2}}"
_SPAN: Final = re.compile(
    rf"(?<![\w,.])(?:(?P<also>{_COUNT})(?:[\s-](?:month|week)s?)?\s(?:and|or)\s)?(?P<count>{_COUNT})[\s-](?P<unit>month|week)"
    r"s?\b|\b(?P<whole>quarter(?:ly)?|half[\s-]year|year)s?(?:\speriods?)?\s(?:ended|ending)\b",
    re.IGNORECASE,
)
_PART_OF: Final = re.compile(
    r"\b(?:(?P<q>Q)(?P<a>[1-4])|(?P<b>[1-4])Q|(?P<c>first|second|third|fourth|1st|2nd|3rd|4th)[\s-](?:fiscal\s)?quarter"
    r"|H(?P<d>[12])|(?P<e>[12])H|(?P<f>first|second)[\s-]half)(?![a-eg-z])",
    re.IGNORECASE,
)
_ORDER: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DAY: Final = re.compile(rf"\b{_MONTH}\s\d{{1,2}}\b|\b\d{{1,2}}\s{_MONTH}(?!\w)", re.IGNORECASE)
_YEARS: Final = re.compile(
    r"(?<![\d.,])(?:(?:19|20)\d\d\s?[/\u2013-]\s?(?P<last>\d\d)(?![\d/-])|(?P<whole>(?:19|20)\d\d)(?!\d|,\d|\.\d{3}))"
    r"|\b(?:Q[1-4]|[1-4]Q|H[12]|[12]H)?[\s'\u2019]*FY?E?[\s'\u2019-]?(?P<fiscal>\d\d)(?:[EA]\b|\b)(?![/.,]\d)"
    r"|\b(?:Q[1-4]|[1-4]Q|H[12]|[12]H)[\s'\u2019]*(?P<short>\d\d)\b"
    r"|\b(?i:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?\s?[-'\u2019]\s?(?P<month>\d\d)\b"
)
"""A year: "2024", "2023/24" (its second year), "FY24", "Q3'24", "Dec-23"."""
_LOOSE_TIME: Final = re.compile(r"\b(?:(?P<quarter>quarter(?:ly)?)|year|annual|twelve months)\b", re.IGNORECASE)


_TIME_WORDS: Final = (
    r"(?:the|its|our|this|that|whole|full|entire|current|same|latest|last|recent|most|reporting|reported|fiscal|financial"
    r"|calendar|first|second|third|fourth|three|six|nine|twelve|thirteen|one|two|both|quarter(?:s|ly)?|years?|annual"
    r"|year-to-date|months?|weeks?|days?|periods?|half|ended|ending|and|of|to|in|for|during|on|as|at|end|close"
    r"|january|february|march|april|may|june|july|august|september|october|november|december|respectively"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|fy\d*|q[1-4]|[1-4]q|h[12]|\d{1,4}(?:st|nd|rd|th)?)"
)
TIME_PHRASE: Final = rf"(?:for|in|during|of|at|as\sof|through|on)\s(?:{_TIME_WORDS}\b[\s,.'\u2019\u2013-]*){{1,24}}"
"""A phrase of time: a preposition, then up to 24 of these words. No two alternatives may match the same text, or
matching takes exponential time."""
_TIME_WORD: Final = re.compile(
    rf"{_TIME_WORDS}|forty|fifty|ten|four|eight|unaudited|audited|ended|months?|weeks?|fye?|cy|dec|ending",
    re.IGNORECASE,
)


def without_times(words: Iterable[str]) -> frozenset[str]:
    """Return the words of a head that say something else than a time."""
    return frozenset(word for word in words if _TIME_WORD.fullmatch(word) is None)


def years_in(text: str) -> list[str]:
    """Return the years of a text in order; "FY18" and "2017/18" are 2018."""
    found = []
    for match in _YEARS.finditer(text):
        short = match["last"] or match["fiscal"] or match["short"] or match["month"]
        found.append(match["whole"] or f"20{short}")
    return found


def _spans(text: str) -> set[tuple[int, str]]:
    """Return the lengths of the spans of a text, in months or weeks."""
    found: set[tuple[int, str]] = set()
    for match in _SPAN.finditer(text):
        if whole := match["whole"]:
            found.add((12 if whole.lower() == "year" else 3 if whole.lower().startswith("q") else 6, "month"))
        for count in filter(None, (match["also"], match["count"])):
            found.add((_COUNTS.get(count.lower()) or int(count), match["unit"].lower()))
    return found


def _parts(text: str) -> set[str]:
    """Return the quarters and halves of years that a text names."""
    found = set()
    for match in _PART_OF.finditer(text):
        half, quarter = match["d"] or match["e"] or match["f"], match["a"] or match["b"] or match["c"]
        said = (half or quarter).lower()
        found.add(f"{'H' if half else 'Q'}{_ORDER.get(said, said)}")
    return found


def _ends(text: str) -> set[str]:
    """Return the days of a text as "MM-DD", whether or not they have a year; a month with a year gives "MM"."""
    whole = {span: day[5:] for span, day in dates(text)}
    found = set(whole.values())
    for match in _DAY.finditer(text):
        day = dates(f"{match[0]} 2000")
        if day and not any(start <= match.start() < end for start, end in whole):
            found.add(day[0][1][5:])
    return found - {""}


def time_of(question: str) -> Time | None:
    """Return the time that a question asks for, or None if it names several."""
    years, spans, parts, ends = set(years_in(question)), _spans(question), _parts(question), _ends(question)
    if max(len(years), len(spans), len(parts), len(ends)) > 1 or re.search(r"year[\s-]to[\s-]date", question, re.I):
        return None
    count, unit = next(iter(spans), (0, ""))
    part, end = (next(iter(each), "") for each in (parts, ends))
    loose = _LOOSE_TIME.search(question)
    implied = 0 if loose is None or part or count else 3 if loose["quarter"] else 12
    return Time(next(iter(years), ""), part, count, unit, end, implied)


@lru_cache(maxsize=65_536)
def time_stated(*told: str) -> Time | None:
    """Return the time of a column or row, or None if its own head names several years.

    Args:
        *told: The head, then what may complete it, from near to far: sections, the title. Each adds only what is
            missing and what it states without a doubt.
    """
    if len(set(years_in(told[0]))) > 1:
        return None
    found = Time()
    for text in told:
        years, spans, parts, ends = set(years_in(text)), _spans(text), _parts(text), _ends(text)
        own = text is told[0]
        if not found.year and len(years) == 1:
            found = replace(found, year=next(iter(years)))
        if not found.part and not found.count:
            if len(parts) == 1 and (own or not spans):
                found = replace(found, part=next(iter(parts)))
            elif len(spans) == 1 and not parts and (own or not found.end):
                count, unit = next(iter(spans))
                found = replace(found, count=count, unit=unit)
            elif len(spans) > 1:  # "three and six months ended June 30, 2024"
                found = replace(found, count=-1, unit="month")
        if not found.end and not found.part and len(ends) == 1:
            found = replace(found, end=next(iter(ends)))
    return found


def fits(column: Time, asked: Time) -> bool:
    """Return whether a column's time is compatible with the time asked for.

    A quarter or span that the question asks for must be stated by the column. A year alone means twelve months in both.
    """
    if asked.year and column.year != asked.year:
        return False
    if asked.part:
        if column.part:
            return column.part == asked.part
        length = 3 if asked.part[0] == "Q" else 6
        return column.months in (0, length) and column.end[:2] == f"{length * int(asked.part[1]):02d}"
    months = asked.months or asked.loose or (12 if asked.year and not asked.end else 0)
    own = column.months
    if own != months and (own or (asked.months and months != 12)) and months:
        return False
    if asked.end and column.end:
        return column.end.startswith(asked.end) or asked.end.startswith(column.end)
    if asked.end and column.part:
        return asked.end[:2] == f"{own * int(column.part[1]):02d}"
    return True


def latest(times: Sequence[Time]) -> list[Time]:
    """Return the latest of the times; of several spans with the same end the year, else the shortest."""
    if not times:
        return []
    year = max(each.year for each in times)
    there = [each for each in times if each.year == year]
    there = [each for each in there if each.months in (0, 12)] or there
    ends = max((each.end, each.part) for each in there)
    there = [each for each in there if (each.end, each.part) == ends]
    shortest = min(each.months for each in there)
    return [each for each in there if each.months == shortest]
