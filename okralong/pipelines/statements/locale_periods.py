"""Find dates and periods in a text of another language than English, in the canonical form of ``periods.py``.

"31. Dezember 2023" is "2023-12-31", "exercice clos le 31 décembre 2023" is "year to 2023-12-31", "2024年3月期" is "year
to 2024-03-31", "令和5年" is 2023.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.locale_words import CJK, WIDE, LocaleWords, alternatives, locale_words, patterns
from okralong.pipelines.statements.periods import DATE_YEAR, YEAR, Span, apart, dates, matches, periods

Found = tuple[Span, str]
"""The span of a date or period, and its canonical form."""

_YEAR: Final = r"(?:19|20)\d\d"


def dates_in(text: str, language: str = "en") -> list[Found]:
    """Return the days and months in a text of a language, in ISO 8601; see ``dates``."""
    words = locale_words(language)
    if words is None:
        return dates(text)
    reader = _reader(words.language)
    own = list(reader.dates(reader.plain(text)))
    return sorted(own + apart(dates(text) if not reader.cjk else [], [span for span, _ in own], _place))


def periods_in(text: str, language: str = "en") -> list[Found]:
    """Return the periods in a text of a language, in canonical form; see ``periods``."""
    words = locale_words(language)
    if words is None:
        return periods(text)
    reader = _reader(words.language)
    own = list(reader.periods(reader.plain(text)))
    return sorted(own + apart([each for each in periods(text) if each[1]], [span for span, _ in own], _place))


def years_in_text(text: str, language: str = "en", old: bool = False) -> list[Found]:
    """Return the years of a text; with ``old`` also earlier centuries', such as the year of a founding."""
    pattern = DATE_YEAR if old else YEAR
    found = [(match.span(), match[0]) for match in pattern.finditer(text)]
    if language not in CJK:
        return found
    wide = text.translate(WIDE)
    return sorted({*found, *((match.span(), str(_cjk_year(match))) for match in _CJK_YEAR.finditer(wide))})


def _place(found: Found) -> Span:
    return found[0]


@lru_cache(maxsize=64)
def _reader(language: str) -> _Alphabetic | _Cjk:
    words = locale_words(language)
    assert words is not None
    return _Cjk() if language in CJK else _Alphabetic(words)


def _day(year: int, month: int, day: int | None) -> str:
    """Return a day or month in ISO 8601, or "" if the calendar has none."""
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= calendar.monthrange(year, month)[1]):
        return ""
    return f"{year}-{month:02d}" + ("" if day is None else f"-{day:02d}")


# --------
# Languages with words for months.


class _Alphabetic:
    """Reads the times of a language whose months have names."""

    cjk: Final = False

    def __init__(self, words: LocaleWords) -> None:
        self._words = words
        own = words.words
        month = rf"(?:{alternatives(words.months)})\.?"
        day = rf"(?:\d{{1,2}}(?:\.|º|°|er)?|{alternatives(own.day_prefix)})"
        link = r"\s(?:de\s|del\s)?"
        self._dates = re.compile(
            rf"\b(?P<day>{day}){link}(?P<month>{month}){link}(?P<year>{_YEAR})\b"
            rf"|\b(?P<month2>{month}){link}(?P<year2>{_YEAR})\b"
            rf"|(?<![\w./-])(?P<one>\d{{1,2}})(?P<by>[/.-])(?P<two>\d{{1,2}})(?P=by)(?P<year3>{_YEAR})(?![\w-])",
            re.IGNORECASE,
        )
        date = rf"(?:{day}{link}{month}{link}{_YEAR}|\d{{1,2}}[./]\d{{1,2}}[./]{_YEAR}|{_YEAR}-\d\d-\d\d)"
        fiscal, of = patterns(own.fiscal), alternatives(own.of)
        ordinals = "|".join(rf"(?P<o{at}>{alternatives(words)})" for at, words in enumerate(own.ordinals, start=1))
        halves = "|".join(rf"(?P<h{at}>{alternatives(words)})" for at, words in enumerate(own.ordinals[:2], start=1))
        quarter, half = f"Q{own.quarter_letter}", f"H{own.half_letter}"
        count = rf"(?P<count>\d{{1,2}}|{alternatives(word for words in own.counts.values() for word in words)})"
        count2, count3 = count.replace("<count>", "<count2>"), count.replace("<count>", "<count3>")
        year = rf"(?:(?P<fiscal_%s>{fiscal})\s)?(?P<year_%s>{_YEAR}(?:/\d{{2,4}})?)\b(?!,\d)"
        article = r"(?:l['\u2019])"
        months, first, to = alternatives(own.months), alternatives(own.first), alternatives(own.to)
        self._periods = re.compile(
            rf"""
            \b(?:{fiscal}),?\s?(?:{alternatives(own.ended)})\s(?P<end>{date})
            | (?<!\w)(?:{ordinals or "(?!)"})\s(?:{patterns(own.quarter)})(?:\s(?:{of}))?\s{article}?{year % ("q", "q")}
            | \b(?:[{quarter}](?P<q>[1-4])|(?P<q2>[1-4])[{quarter}])[\s/-]?(?:(?:{of})\s)?{year % ("q2", "q2")}
            | (?<!\w)(?:{halves or "(?!)"})\s(?:{patterns(own.half)})(?:\s(?:{of}))?\s{article}?{year % ("h", "h")}
            | \b(?:[{half}](?P<half>[12])|(?P<half2>[12])[{half}])[\s/-]?(?:(?:{of})\s)?{year % ("h2", "h2")}
            | \b{count}[\s-](?:{months})\s(?:{alternatives(own.ended)})\s(?P<until>{date})
            | \b(?:(?:{first})\s{count2}\s(?:{months})|{count3}(?:\s(?:{first}))?\s(?:{months}))
              (?:\s(?:{of}))?\s{year % ("m", "m")}
            | \b(?:{fiscal})\s(?:de\s)?(?P<fy>{_YEAR}(?:[/-]\d{{2,4}})?)\b(?!,\d)
            | (?P<from>{date}|(?<![\w.,/-]){_YEAR})\s?(?:\b(?:{to})\b|[-\u2013\u2014])
              \s?(?P<last>{date}|{_YEAR}(?![\w.,/-]))
            """,
            re.IGNORECASE | re.VERBOSE,
        )

    def plain(self, text: str) -> str:
        return text

    def dates(self, text: str) -> Iterator[Found]:
        for match in matches(self._dates, text):
            year = int(match["year"] or match["year2"] or match["year3"])
            if match["one"]:
                one, two = int(match["one"]), int(match["two"])
                day, month = (one, two) if self._words.words.day_first or one > 12 else (two, one)
            else:
                named = str(match["month"] or match["month2"]).lower().rstrip(".")
                month = self._words.months[named]
                day = int(re.sub(r"\D", "", match["day"])) if match["day"] else 0
            if written := _day(year, month, day or None):
                yield match.span(), written

    def periods(self, text: str) -> Iterator[Found]:
        for match in matches(self._periods, text):
            if written := self._period(match):
                yield match.span(), written

    def _period(self, match: re.Match[str]) -> str:
        said = match.groupdict()
        if said["end"]:
            return f"year to {self._iso(said['end'])}"
        if said["until"]:
            return f"{self._count(said['count'])} to {self._iso(said['until'])}".replace("12 months", "year")
        for kind, names, places in (("Q", ("q", "q2"), "o1 o2 o3 o4"), ("H", ("half", "half2"), "h1 h2")):
            ordinal = next((at for at, name in enumerate(places.split(), start=1) if said.get(name)), 0)
            number = ordinal or next((int(said[name]) for name in names if said[name]), 0)
            if number:
                suffixes = ("q", "q2") if kind == "Q" else ("h", "h2")
                suffix = next(each for each in suffixes if said[f"year_{each}"])
                return f"{kind}{number} {self._year(said[f'year_{suffix}'], bool(said[f'fiscal_{suffix}']))}"
        if said["year_m"]:
            count = self._count(said["count2"] or said["count3"])
            return f"{count} of {self._year(said['year_m'], bool(said['fiscal_m']))}"
        if said["fy"]:
            return self._year(said["fy"].replace("-", "/"), True)
        first, last = self._iso(said["from"]), self._iso(said["last"])
        return f"{first} to {last}" if first < last else ""

    def _iso(self, written: str) -> str:
        found = dates_in(written, self._words.language)
        return found[0][1] if found else written

    def _count(self, written: str) -> str:
        named = (number for number, words in self._words.words.counts.items() if written.lower() in words)
        return f"{int(written) if written.isdecimal() else next(named)} months"

    @staticmethod
    def _year(written: str, fiscal: bool) -> str:
        first, _, last = written.partition("/")
        year = first[: 4 - len(last)] + last if last else first
        return f"{'FY' if fiscal or last else ''}{year}"


# --------
# Chinese and Japanese.

_ERAS: Final = {"令和": 2018, "平成": 1988, "昭和": 1925, "民國": 1911, "民国": 1911}
"""The year before the first of an era, in Japan and Taiwan."""
_ERA: Final = "|".join(_ERAS)
_NUMERALS: Final = {digit: value for value, digit in enumerate("〇一二三四五六七八九")} | {"零": 0, "○": 0}
_DIGIT: Final = f"[{''.join(_NUMERALS)}]"
_IN_NUMERALS: Final = f"[一二]{_DIGIT}{{3}}"


def _year_of(suffix: str = "") -> str:
    """Return the pattern of a year with its 年, with groups whose names end in ``suffix``."""
    era = rf"(?P<era{suffix}>{_ERA})\s?(?P<in_era{suffix}>\d{{1,3}}|元)"
    return rf"(?:{era}|(?<!\d)(?P<year{suffix}>{_YEAR}|{_IN_NUMERALS}))\s?年"


_CJK_YEAR: Final = re.compile(_year_of())
_CJK_DATE: Final = re.compile(rf"{_year_of()}\s?(?P<month>\d{{1,2}})\s?月(?:\s?(?P<day>\d{{1,2}})\s?[日号號])?(?!期)")
_DASH: Final = "[-\u2013\u2014~\uff5e至到]|から"
_OF_MONTHS: Final = r"(?P<count>\d{1,2}|三|六|九|十二)\s?(?:个月|個月|か月|ヶ月|カ月)(?:期间|期間)?"
_WHOLE: Final = "(?P<whole>[财財]政年度|连续会计年度|年度|一年)"
_FISCAL: Final = "[财財]政?年度?"
_HALF: Final = "(?P<half>[上下]半年度?|[上下]半?期|半年度)"
_CJK_PERIOD: Final = re.compile(
    rf"""
    (?:截至|截止)?\s?{_year_of()}\s?(?P<m>\d{{1,2}})\s?月(?:\s?(?P<d>\d{{1,2}})\s?日)?(?:
        (?P<ki>期)(?:\s?第?(?P<kq>[1-4一二三四])(?:四半期|Q))?(?:\s?(?P<mid>中間期))?
        | \s?(?:止|に終了(?:した|する))\s?[的之]?\s?(?:{_OF_MONTHS}|{_WHOLE})
        | \s?(?:{_DASH})\s?(?:{_year_of("2")}\s?)?(?P<m2>\d{{1,2}})\s?月(?:\s?(?P<d2>\d{{1,2}})\s?日)?)
    | {_year_of("3")}(?P<fiscal>度|{_FISCAL})?\s?(?:
        第?\s?(?P<quarter>[1-4一二三四])\s?(?:季度?|四半期)
        | {_HALF}
        | 1\s?(?:{_DASH})\s?(?P<to>\d{{1,2}})\s?月)
    | {_year_of("4").removesuffix("年")}(?:年度|年?{_FISCAL})
    """,
    re.VERBOSE,
)
_QUARTERS: Final = {"一": 1, "二": 2, "三": 3, "四": 4}
_COUNTS: Final = {"三": 3, "六": 6, "九": 9, "十二": 12}


def _cjk_year(match: re.Match[str], suffix: str = "") -> int:
    """Return the year of a match, of an era or written in numerals too."""
    if era := match[f"era{suffix}"]:
        counted = match[f"in_era{suffix}"]
        return _ERAS[era] + (1 if counted == "元" else int(counted))
    year = match[f"year{suffix}"]
    return int(year) if year.isdecimal() and year.isascii() else int("".join(str(_NUMERALS[each]) for each in year))


@dataclass(frozen=True)
class _Cjk:
    """Reads the times of Chinese and Japanese."""

    cjk: Final = True

    def plain(self, text: str) -> str:
        return text.translate(WIDE)

    def dates(self, text: str) -> Iterator[Found]:
        for match in matches(_CJK_DATE, text):
            if written := _day(_cjk_year(match), int(match["month"]), int(match["day"]) if match["day"] else None):
                yield match.span(), written
        yield from dates(text)

    def periods(self, text: str) -> Iterator[Found]:
        for match in matches(_CJK_PERIOD, text):
            if written := self._period(match):
                yield match.span(), written

    def _period(self, match: re.Match[str]) -> str:
        if match["m"]:
            return self._ended(match)
        if match["quarter"] or match["half"] or match["to"]:
            year = f"{'FY' if match['fiscal'] else ''}{_cjk_year(match, '3')}"
            if match["to"]:
                end = int(match["to"])
                return f"{end} months to {_month_end(_cjk_year(match, '3'), end)}" if 1 < end <= 12 else ""
            if match["quarter"]:
                return f"Q{_QUARTERS.get(match['quarter']) or int(match['quarter'])} {year}"
            return f"H{2 if match['half'][0] == '下' else 1} {year}"
        return f"FY{_cjk_year(match, '4')}"

    @staticmethod
    def _ended(match: re.Match[str]) -> str:
        year, month = _cjk_year(match), int(match["m"])
        if not 1 <= month <= 12:
            return ""
        end = _day(year, month, int(match["d"])) if match["d"] else _month_end(year, month)
        if match["ki"]:
            if quarter := match["kq"]:
                return f"Q{_QUARTERS.get(quarter) or int(quarter)} FY{year}"
            return f"H1 FY{year}" if match["mid"] else f"year to {end}"
        if match["whole"]:
            return f"year to {end}"
        if match["count"]:
            count = _COUNTS.get(match["count"]) or int(match["count"])
            return f"{'year' if count == 12 else f'{count} months'} to {end}"
        last = _cjk_year(match, "2") if match["year2"] or match["era2"] else year
        until = int(match["m2"])
        if not 1 <= until <= 12:
            return ""
        first = _day(year, month, int(match["d"])) if match["d"] else f"{year}-{month:02d}"
        stop = _day(last, until, int(match["d2"])) if match["d2"] else f"{last}-{until:02d}"
        return f"{first} to {stop}" if first < stop else ""


def _month_end(year: int, month: int) -> str:
    return f"{year}-{month:02d}-{calendar.monthrange(year, month)[1]:02d}"
