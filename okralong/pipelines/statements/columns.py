"""Find the nearest head above a table row, and the time of each of its columns.

A head is a line that names years, with the lines right above it that name quarters, spans or days. Columns are matched
to a question by the text of their heads, never by position alone. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.periods import NO_AMOUNT, dates

ABOVE: Final = 16_000
"""Characters before a value that are searched for its table's head. project default, because a cash flow statement has
about 50 lines of 150 characters, with blank lines between."""
_HEADS: Final = 60
"""Non-blank lines above a row that are searched for its years. project default"""
ROW_WORDS: Final = 14
"""A line without cell separators is a table row up to this many words, else a sentence. project default"""
FAR: Final = 100
"""A small bracketed number is a footnote mark if the amounts beside it are at least this large. project default"""


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
        return round(self.count * 12 / 52) if self.unit == "week" else self.count

    @property
    def hard(self) -> bool:
        """True if any field other than ``loose`` is stated."""
        return bool(self.year or self.part or self.count or self.end)

    @property
    def written(self) -> str:
        """The period in the canonical form of ``periods.py``; "" for a span without a known end."""
        if self.count < 0:
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


_COUNTS: Final = {"three": 3, "six": 6, "nine": 9, "twelve": 12, "thirteen": 13, "twenty-six": 26, "thirty-nine": 39}
_COUNT: Final = rf"{'|'.join(_COUNTS)}|\d{{1,2}}"
_SPAN: Final = re.compile(
    rf"(?<![\w,.])(?:(?P<also>{_COUNT})(?:[\s-](?:month|week)s?)?\s(?:and|or)\s)?(?P<count>{_COUNT})[\s-](?P<unit>month|week)"
    r"s?\b|\b(?P<whole>quarter(?:ly)?|year)s?(?:\speriods?)?\s(?:ended|ending)\b",
    re.IGNORECASE,
)
_PART_OF: Final = re.compile(
    r"\b(?:(?P<q>Q)(?P<a>[1-4])|(?P<b>[1-4])Q|(?P<c>first|second|third|fourth|1st|2nd|3rd|4th)[\s-](?:fiscal\s)?quarter"
    r"|H(?P<d>[12])|(?P<e>[12])H|(?P<f>first|second)[\s-]half)(?![a-z])",
    re.IGNORECASE,
)
_ORDER: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_MONTH: Final = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DAY: Final = re.compile(rf"\b{_MONTH}\s\d{{1,2}}\b|\b\d{{1,2}}\s{_MONTH}(?!\w)", re.IGNORECASE)
_Marks = list[tuple[int, str, int, str]]
"""Time marks of one kind in a line: position, text, count and unit."""


def _spans(text: str) -> _Marks:
    found: _Marks = []
    for match in _SPAN.finditer(text):
        if match["whole"]:
            found.append((match.start(), "", 12 if match["whole"].lower() == "year" else 3, "month"))
            continue
        for count in filter(None, (match["also"], match["count"])):
            found.append((match.start(), "", _COUNTS.get(count.lower()) or int(count), match["unit"].lower()))
    return found


def _parts(text: str) -> _Marks:
    found: _Marks = []
    for match in _PART_OF.finditer(text):
        half, quarter = match["d"] or match["e"] or match["f"], match["a"] or match["b"] or match["c"]
        said = (half or quarter).lower()
        found.append((match.start(), f"{'H' if half else 'Q'}{_ORDER.get(said, said)}", 0, ""))
    return found


def _ends(text: str) -> _Marks:
    """Return the days of a text as "MM-DD", whether or not they have a year; a month with a year gives "MM"."""
    whole = {span: day[5:] for span, day in dates(text)}
    found = {span[0]: day for span, day in whole.items()}
    for match in _DAY.finditer(text):
        day = dates(f"{match[0]} 2000")
        if day and not any(start <= match.start() < end for start, end in whole):
            found[match.start()] = day[0][1][5:]
    return [(start, day, 0, "") for start, day in sorted(found.items())]


_LOOSE_TIME: Final = re.compile(r"\b(?:(?P<quarter>quarter(?:ly)?)|year|annual|twelve months)\b", re.IGNORECASE)


def time_of(question: str) -> Time | None:
    """Return the time that a question asks for, or None if it names several."""
    years = {year for _, year in years_in(question)}
    spans, parts, ends = ({mark[1:] for mark in marks(question)} for marks in (_spans, _parts, _ends))
    if max(len(years), len(spans), len(parts), len(ends)) > 1 or re.search(r"year[\s-]to[\s-]date", question, re.I):
        return None
    _, count, unit = next(iter(spans), ("", 0, ""))
    part, end = (next(iter(each), ("", 0, ""))[0] for each in (parts, ends))
    loose = _LOOSE_TIME.search(question)
    return Time(
        next(iter(years), ""),
        part,
        count,
        unit,
        end,
        0 if loose is None or part or count else 3 if loose["quarter"] else 12,
    )


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
    own = column.months or ({"Q": 3, "H": 6}[column.part[0]] if column.part else 0)
    if own != months and (own or (asked.months and months != 12)) and months:
        return False
    if asked.end and column.end:
        return column.end.startswith(asked.end) or asked.end.startswith(column.end)
    if asked.end and column.part:
        return asked.end[:2] == f"{own * int(column.part[1]):02d}"
    return True


_STACK: Final = 6
"""Most non-blank lines above a head's line of years that may belong to the head. project default"""


def head_above(text: str, start: int) -> tuple[int, str, list[tuple[int, Time]]] | None:
    """Return the nearest head above ``start``: its position, its text, and the position and time of each column."""
    lines = [line for line in text[max(0, start - ABOVE) : start].split("\n") if line.strip()][-_HEADS:]
    at = next((n for n in reversed(range(len(lines))) if _is_head(lines[n])), -1)
    if at < 0:
        return None
    line, years = lines[at], years_in(lines[at])
    stack = [line]
    for upper in reversed(lines[max(0, at - _STACK) : at]):
        if _has_row(upper) or (len(upper.split()) > ROW_WORDS and upper.rstrip().endswith(".")):
            break
        stack.append(upper)
    spans, parts, ends = (_of_columns(stack, years, marks) for marks in (_spans, _parts, _ends))
    columns = [(where, Time(year, parts[n][0], *spans[n][1:], ends[n][0])) for n, (where, year) in enumerate(years)]
    return text.rfind(line, 0, start), line, columns


_NO_MARK: Final = ("", 0, "")
_SEVERAL: Final = ("", -1, "month")
"""The mark of every column if a head names several spans that cannot be assigned to single columns."""
_APART: Final = re.compile(r"\||\s{2}")


def _said(mark: tuple[int, str, int, str]) -> tuple[str, int, str]:
    return mark[1], mark[2], mark[3]


def _same_bars(upper: str, line: str) -> bool:
    return "|" in line and upper.count("|") == line.count("|")


def _of_columns(
    stack: Sequence[str], years: Sequence[tuple[int, str]], marks: Callable[[str], _Marks]
) -> list[tuple[str, int, str]]:
    """Return each column's mark of one kind, from the line of the head nearest to the years that has any.

    ``stack`` has the head's lines from the one with the years upwards. In that line, and in lines with the same number
    of bars, a mark applies to all columns up to the next mark. In other lines, the marks share the columns equally.
    """
    line, none = stack[0], [_NO_MARK] * len(years)
    for upper in stack:
        found = marks(upper)
        if not found:
            continue
        if len({at for at, *_ in found}) < len(found) > len(years) // 2:
            return [_SEVERAL] * len(years)  # "three and six months ended June 30, 2024 and 2023"
        if len({at for at, *_ in found}) < len(found) or (upper is not line and not _same_bars(upper, line)):
            each_holds, left = divmod(len(years), len(found))
            return none if left else [_said(found[n // each_holds]) for n in range(len(years))]
        places = [at if upper is line else line[:at].count("|") for at, _ in years]
        held = [(mark[0] if upper is line else upper[: mark[0]].count("|"), mark) for mark in found]
        before = [[mark for at, mark in held if at <= place] for place in places]
        if marks is _parts and upper is line:  # "Q4 2024 | 2024": Q4 applies to the first year only
            own = [[mark for at, mark in held if at <= place and not _APART.search(line[at:place])] for place in places]
            before = own if any(own) else before
        return [_said(each[-1]) if each else _NO_MARK for each in before]
    return none


def _is_head(line: str) -> bool:
    """Return whether a line names years and has no amounts other than footnote marks, days and time spans."""
    return 0 < len(years_in(line)) <= MOST_COLUMNS and not _has_row(line)


MOST_COLUMNS: Final = 100
"""A line with more years than this is not a head. project default"""


@lru_cache(maxsize=4096)
def _has_row(line: str) -> bool:
    """Return whether a line has amounts as rows do; small whole numbers beside two or more years are ignored."""
    taken = [span for span, _ in dates(line)] + [match.span() for match in NO_AMOUNT.finditer(line)]
    taken += [(at, at + 1) for at, _ in years_in(line)]  # a year followed by "(in millions)" reads as an amount
    found = [
        each
        for each in amounts(line)
        if not (each.bracketed and abs(each.digits) < 20 and not each.places)
        and not any(start < each.end and each.start < end for start, end in taken)
    ]
    small = all(each.digits == 0 or (abs(each.digits) < FAR and not each.places) for each in found)
    return bool(found) and not (small and len(years_in(line)) > 1)


def years_in(text: str) -> list[tuple[int, str]]:
    """Return the years of a text with their positions; "FY18" is one."""
    found = re.finditer(r"(?<!\d)((?:19|20)\d\d)(?!\d|,\d)|\bFY?[\s'\u2019]?(\d\d)\b", text)
    return [(match.start(), match[1] or f"20{match[2]}") for match in found]
