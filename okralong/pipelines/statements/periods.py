"""Find dates and periods in a text, in canonical form: "2023-06-30", "FY2023", "Q3 2024", "3 months to 2024-09-30".

dateutil is not used, because it replaces a missing month or day by today's.
"""

from __future__ import annotations

import calendar
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

Span = tuple[int, int]
"""Start and end (exclusive) in characters."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DATE: Final = re.compile(
    rf"""
    \b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s|day\sof\s)?(?P<month>{_MONTH}),?\s(?P<year>(?:19|20)\d\d)\b
    | \b(?P<month2>{_MONTH})\s(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\s?,?\s?(?P<year2>(?:19|20)\d\d)\b
    | (?<![\w.-])(?P<year3>(?:19|20)\d\d)[-/.](?P<month3>\d{{1,2}})[-/.](?P<day3>\d{{1,2}})(?:T[\d:.]+Z?)?(?![\w-])
    | (?<![\w./-])(?P<one>\d{{1,2}})(?P<by>[/.-])(?P<two>\d{{1,2}})(?P=by)(?P<year4>(?:19|20)\d\d)(?![\w-])
    | \b(?P<month5>{_MONTH}),?\s(?:of\s)?(?P<year5>(?:19|20)\d\d)\b
    | (?<![\w.-])(?P<year6>(?:19|20)\d\d)-(?P<month6>0[1-9]|1[0-2])(?![\w-])
    """,
    re.IGNORECASE | re.VERBOSE,
)
NO_AMOUNT: Final = re.compile(
    rf"\b{_MONTH}\s\d{{1,2}}\b|\b\d{{1,2}}\s{_MONTH}(?![\w.])|(?<![\w,.])\d{{1,2}}[\s-](?:month|week)s?\b",
    re.IGNORECASE,
)
"""A day without a year, or a number of months or weeks. Such numbers are not amounts."""
YEAR: Final = re.compile(r"(?<![\w.,$€£/-])(?:19|20)\d\d(?![\w%]|[.,]\d|-\d)")

DATE_YEAR: Final = re.compile(YEAR.pattern.replace("(?:19|20)", "(?:1[6-9]|20)"))
"""A year given as a date, including old ones such as the founding of a company."""


_BLOCK: Final = 20_000
"""Characters per search. project default: the slowest pattern of this module needs less than 0.1 s for them."""
_MARGIN: Final = 400
"""Longest match, in characters, that is surely found at a block's end. project default: periods have about 100."""


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Iterate like ``finditer``, but search in blocks, so that other threads can run between them."""
    at, size = 0, len(text)
    while at < size:
        stop = at + _BLOCK
        match = pattern.search(text, at, min(stop + _MARGIN, size))
        if match is not None and match.end() > stop:  # the block's end may have truncated it
            start = match.start()
            match = pattern.match(text, start, min(start + _BLOCK, size))
            stop = start + 1
        if match is None:
            at = stop
            continue
        yield match
        at = max(match.end(), match.start() + 1)


def apart(spans: Sequence[T], taken: Iterable[Span], of: Callable[[T], Span]) -> list[T]:
    """Return the ``spans`` that overlap none of ``taken``; ``of`` returns the range of each."""
    joined: list[Span] = []
    for start, end in sorted(taken):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif start < end:
            joined.append((start, end))
    starts = [start for start, _ in joined]

    def is_free(span: Span) -> bool:
        before = bisect_left(starts, span[1]) - 1
        return before < 0 or joined[before][1] <= span[0]

    return [each for each in spans if is_free(of(each))]


def dates(text: str) -> list[tuple[Span, str]]:
    """Return the days and months in a text, in ISO 8601."""
    found = []
    for match in matches(_DATE, text):
        year, month, day = (_part(match, name) for name in ("year", "month", "day"))
        if match["one"]:
            # The month comes first, as in the US, unless the first number exceeds 12 or dots separate the numbers.
            first, second = int(match["one"]), int(match["two"])
            days_first = first > 12 or match["by"] == "."
            month, day = str(second if days_first else first), str(first if days_first else second)
        number = int(month) if month.isdecimal() else _MONTHS.index(month[:3].lower()) + 1
        if not 1 <= number <= 12 or (day and not 1 <= int(day) <= calendar.monthrange(int(year), number)[1]):
            continue
        found.append((match.span(), f"{year}-{number:02d}" + (f"-{int(day):02d}" if day else "")))
    return found


def _part(match: re.Match[str], name: str) -> str:
    return next((found for key, found in match.groupdict().items() if found and key.rstrip("0123456789") == name), "")


_COUNTS: Final = {"three": 3, "six": 6, "nine": 9, "twelve": 12, "eighteen": 18, "thirteen": 13, "fifty-two": 52}
_ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_DAY: Final = (
    rf"(?:{_MONTH}\s\d{{1,2}}\s?,?\s?(?:19|20)\d\d|\d{{1,2}}\s{_MONTH},?\s(?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d)"
)
_TO: Final = r"\s?(?:\bto\b|\bthrough\b|\buntil\b|\band\b|[-\u2013\u2014])\s?"
_PERIOD: Final = re.compile(
    rf"""
    (?:(?:(?P<also>\d{{1,2}}|{"|".join(_COUNTS)})(?:[\s-](?:month|week)s?)?\sand\s)?
      (?P<count>\d{{1,2}}|{"|".join(_COUNTS)})[\s-](?P<what>month|week)s?|(?P<whole>(?:fiscal\s|financial\s)?year
      |quarter(?:ly\speriod)?|half[\s-]year|month)s?)(?:[\s-]periods?)?\s(?:ended|ending|to)\s(?:on\s)?(?P<end>{_DAY})
    | \bfirst\s(?P<months>{"|".join(_COUNTS)}|\d{{1,2}})\smonths\sof\s
      (?P<fiscal5>fiscal\s(?:year\s)?)?(?P<of5>(?:19|20)\d\d)\b
    | \b(?P<quarter>q[1-4]|[1-4]q|(?:{"|".join(_ORDINALS)})\s(?:fiscal\s)?quarter)(?:\sof|,)?[\s']*
      (?P<fiscal>fiscal\s(?:year\s)?|fy\s?)?(?P<of>(?:19|20)\d\d|'?\d\d)\b
    | \b(?P<of2>(?:19|20)\d\d)[\s-](?P<quarter2>q[1-4])\b
    | \b(?P<half>h[12]|[12]h|(?:first|second)\shalf)(?:\sof|,)?[\s']*
      (?P<fiscal3>fiscal\s(?:year\s)?|fy\s?)?(?P<of3>(?:19|20)\d\d|'?\d\d)\b
    | \b(?:fiscal(?:\syear)?|financial\syear|fye?)[\s'-]{{0,2}}(?P<of4>(?:19|20)\d\d(?:[/-]\d\d)?|\d\d)\b
    | (?:\bfrom\s|\bbetween\s)?(?P<from>{_DAY}|(?<![\w.,/-])(?:19|20)\d\d){_TO}
      (?P<until>{_DAY}|(?:19|20)\d\d(?![\w.,/-]))
    """,
    re.IGNORECASE | re.VERBOSE,
)


def periods(text: str) -> list[tuple[Span, str]]:
    """Return the periods in a text, in canonical form; "the three and six months ended ..." gives two."""
    found = []
    for match in matches(_PERIOD, text):
        start, end = match.span()
        if match["also"]:
            found.append((match.span("also"), _written_period(match, match["also"])))
            start = match.start("count")
        found.append(((start, end), _written_period(match, match["count"])))
    return found


def _written_period(match: re.Match[str], counted: str | None) -> str:
    if match["end"]:
        end = dates(match["end"])
        if not end:
            return ""
        if counted:
            count = _COUNTS.get(counted.lower()) or int(counted)
            if match["what"].lower() == "week":  # retailers' quarters and years
                return f"{'year' if count > 50 else f'{count} weeks'} to {end[0][1]}"
        else:
            word = match["whole"].lower()
            count = 6 if "half" in word else 12 if "year" in word else 3 if "quarter" in word else 1
        return f"{'year' if count == 12 else f'{count} months' if count > 1 else 'month'} to {end[0][1]}"
    if match["months"]:
        count = _COUNTS.get(match["months"].lower()) or int(match["months"])
        return f"{count} months of {'FY' if match['fiscal5'] else ''}{match['of5']}"
    if quarter := match["quarter"] or match["quarter2"]:
        found = re.search(r"[1-4]", quarter)
        number = int(found[0]) if found else _ORDINALS[quarter.split()[0].lower()]
        fiscal = "FY" if match["fiscal"] or "fiscal" in quarter.lower() else ""
        return f"Q{number} {fiscal}{_full_year(match['of'] or match['of2'])}"
    if match["half"]:
        number = 2 if re.match(r"h2|2h|second", match["half"], re.IGNORECASE) else 1
        return f"H{number} {'FY' if match['fiscal3'] else ''}{_full_year(match['of3'])}"
    if match["of4"]:
        first, _, second = match["of4"].replace("/", "-").partition("-")
        return f"FY{first[:2] + second if second else _full_year(first)}"
    first, last = (dict(dates(each)).get((0, len(each)), each) for each in (match["from"], match["until"]))
    return f"{first} to {last}" if first < last else ""


def _full_year(written: str) -> str:
    year = written.strip("'")
    return year if len(year) == 4 else f"20{year}"


def forms_of(period: str) -> set[str]:
    """Return a period's canonical form and equivalent ones: "year to 2023-06-30" gives "2023" too."""
    forms = {period, period.replace("FY", "")}
    if (year := re.fullmatch(r"year to (\d{4})-\d\d-\d\d", period)) is not None:
        forms |= {year[1]}
    if re.fullmatch(r"\d{4}", period):
        forms.add(f"year to {period}-12-31")
    if (quarter := re.fullmatch(r"3 months to (\d{4})-(03-31|06-30|09-30|12-31)", period)) is not None:
        forms.add(f"Q{int(quarter[2][:2]) // 3} {quarter[1]}")
    return forms
