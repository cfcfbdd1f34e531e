"""Tell figures, heads, unit lines and notes apart in the cells and lines of a table.

All patterns look at a single cell or a short line, so that the time is linear in the text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LONGEST_CELL: Final = 80
"""Characters of the longest text that may be a figure. # project default"""
_CURRENCY: Final = (
    r"(?:(?:US|U\.S\.|A|C|CA|Cdn|HK|NZ|S|NT|R|AU|MX)?\s?\$|[\u20ac\u00a3\u00a5\u20b9\u20a9\u20aa\u20bd\u20ba]"
    r"|[A-Z]{3}|Rs\.?|RMB|TEUR|kr|Fr\.)"
)
_MINUS: Final = "-\u2212\u2013"
_DIGITS: Final = r"(?:\d[\d.,'\u2019]*|[.,]\d+|\d{1,3}(?:[ \u00a0\u202f\u2009]\d{3})+(?:[.,]\d+)?)"
_AFTER: Final = r"(?:%|x|bps?|pts?|pp|million|billion|thousand|mn|bn|m|k)"
_MARKS: Final = (
    r"(?:\s?(?:\([\da-z]{1,2}\)|\[[\da-z]{1,2}\]|[*\u2020\u2021#]{1,3}|[\u00b9\u00b2\u00b3\u2070-\u2079]+))*"
)
_FIGURE: Final = re.compile(
    rf"{_CURRENCY}?\s?[(\[]?\s?[{_MINUS}+]?\s?{_CURRENCY}?\s?[(\[]?[{_MINUS}]?\s?{_DIGITS}[{_MINUS}]?\s?[)\]]?\s?{_AFTER}?\s?[)\]]?"
    rf"\s?(?:{_CURRENCY})?(?:\s\(\s?{_DIGITS}\s?%?\s?\)(?:\s\))?)?{_MARKS}"
)
_NOTHING: Final = re.compile(
    rf"(?:{_CURRENCY}\s?)?(?:[{_MINUS}\u2014]{{1,3}}|n\.?\s?[ma]\.?|n/[am]|nil|none)\s?%?{_MARKS}", re.IGNORECASE
)
_YEAR: Final = re.compile(rf"(?:19|20)\d\d(?:\s?[/{_MINUS}]\s?(?:\d\d){{1,2}})?\s?[AEF]?{_MARKS}")
_DATE: Final = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}-\d\d(?:-\d\d)?")
SIGN: Final = re.compile(_CURRENCY)
"""A currency sign or code that may have a separate cell."""
CLOSING: Final = re.compile(r"\)\s?%?|%\s?\)?|\]")
"""The end of a figure that may have a separate cell."""
MARK: Final = re.compile(
    r"(?:\([\da-z]{1,2}\)|\[[\da-z]{1,2}\]|[*\u2020\u2021#]{1,3}|[\u00b9\u00b2\u00b3\u2070-\u2079]+)"
)
"""A footnote mark."""


@lru_cache(maxsize=65536)
def is_figure(text: str) -> bool:
    """Return whether a cell holds a number or the sign for an empty cell, and not a year or date."""
    if not text or len(text) > LONGEST_CELL:
        return False
    if _NOTHING.fullmatch(text):
        return True
    return _FIGURE.fullmatch(text) is not None and not is_year(text) and _DATE.fullmatch(text) is None


@lru_cache(maxsize=65536)
def is_number(text: str) -> bool:
    """Return whether a cell holds a number, a year included."""
    return bool(text) and len(text) <= LONGEST_CELL and _FIGURE.fullmatch(text) is not None


def is_year(text: str) -> bool:
    """Return whether a cell is just a year or a financial year: "2023", "2023/24", "2024E", "2023(1)"."""
    return len(text) <= LONGEST_CELL and _YEAR.fullmatch(text) is not None


# Heads.

MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_COUNT: Final = r"(?:three|six|nine|twelve|thirteen|twenty-six|thirty-nine|fifty-two|fifty-three|\d{1,2})"
YEAR: Final = r"(?<![\d,.$/])(?:19|20)\d\d(?:[/\u2013-]\d\d(?:\d\d)?)?(?![\d,])[AEF]?\b"
PERIOD: Final = re.compile(
    rf"{YEAR}|\bFY\s?'?\d\d|\b{_COUNT}[\s-](?:months?|weeks?)\b|\b(?:years?|quarters?|periods?|months?|weeks?)\s(?:ended|ending|to)\b"
    rf"|\b(?:as\s(?:of|at)|at)\s(?:{MONTH}|\d)|\b{MONTH}\s?'?\d{{1,2}}\b|\b\d{{1,2}}\s{MONTH}|\b[QH][1-4]\b|\b[1-4][QH]\b|\b[1-4][QH]\d\d"
    rf"|\b(?:first|second|third|fourth|1st|2nd|3rd|4th)[\s-](?:quarter|half)\b|\b{MONTH}[\s-]'?\d\d|\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}"
    rf"|\b{MONTH}(?=$)|\bfiscal\b|\bas\s(?:of|at)$",
    re.IGNORECASE,
)
"""Words in a head that tell a time."""
SPAN: Final = re.compile(
    rf"\b(?:for\s(?:the\s)?)?(?:(?:{_COUNT}\s(?:and|or)\s)?{_COUNT}[\s-](?:months?|weeks?)|(?:fiscal\s)?(?:years?|quarters?|periods?)(?=\s(?:ended|ending)))",
    re.IGNORECASE,
)
DAY: Final = re.compile(rf"\b(?:as\s(?:of|at)\s)?(?:{MONTH}\s\d{{1,2}}\b,?|\d{{1,2}}\s{MONTH})", re.IGNORECASE)
PART: Final = re.compile(
    r"\b(?:[QH][1-4]|[1-4][QH]\d{0,2})\b|\b(?:first|second|third|fourth|1st|2nd|3rd|4th)[\s-](?:quarter|half)\b",
    re.IGNORECASE,
)
NOTE_OF_HEAD: Final = re.compile(
    r"\(?(?:un)?audited\)?|\(?(?:as\s)?(?:restated|revised|adjusted|reported)\)?|\(?pro\s?forma\)?|\([\da-z]{1,2}\)",
    re.IGNORECASE,
)
"""A remark below a head that says nothing about its time."""
CHANGE: Final = re.compile(
    r"%\sof\s(?:total\s)?(?:net\s)?(?:revenues?|sales)|[$%]?\s?(?:yoy\s)?(?:change|variance|growth)(?:\s?\([$%]\)|\sin\s%|\s?%(?=\s*$))?"
    r"|(?:increase|decrease)(?:\s?/?\s?\(?(?:decrease|increase)\)?)?|percent(?:age)?(?:\schange)?|%|\$|total|notes?|\(?(?:un)?audited\)?",
    re.IGNORECASE,
)
"""A head that may follow those of the times on a line."""


def is_period(text: str) -> bool:
    """Return whether a head tells a time."""
    return PERIOD.search(text[:200]) is not None


# Units.

_CODES: Final = (
    "USD|EUR|GBP|JPY|CHF|CNY|CAD|AUD|INR|SEK|NOK|DKK|HKD|SGD|NZD|BRL|MXN|ZAR|KRW|RUB|TRY|PLN|CZK|HUF|ILS|THB|RMB"
)

_SCALES: Final = (
    r"(?:thousands?|millions?|billions?|trillions?|hundreds?|lakhs?|lacs|crores?|mill?ionen|tausend|mio\.?|mrd\.?|mln|mn|bn"
    r"|['\u2018\u2019]?000s?(?:['\u2019]s)?)"
)
_MONEY: Final = (
    r"(?:(?i:(?:U\.?S\.?\s|Canadian\s|Australian\s|Hong\sKong\s)?dollars?|euros?|pounds?|sterling|yen|rupees?|rs\.?"
    r"|renminbi|yuan|swiss\sfrancs?)|(?:US|A|C|HK|S|NZ)?\$|[\u20ac\u00a3\u00a5\u20b9]"
    rf"|{_CODES}|T\u20ac|TEUR|TUSD|KEUR|kEUR|k\u20ac)"
)
_UNIT: Final = re.compile(
    rf"\([^()\n]{{0,60}}?(?i:\bin\s(?:[\w.$\u20ac\u00a3]+\s){{0,3}}{_SCALES}|{_SCALES})(?![A-Za-z])[^()\n]{{0,120}}\)"
    rf"|\((?:(?i:expressed\s|stated\s|amounts?\s|figures\s|all\s)){{0,3}}(?i:in\s)?(?:{_MONEY})(?:\s?['\u2018\u2019]?(?:{_SCALES}|[mk]\b|000))?[^()\n]{{0,80}}\)"
    rf"|(?i:(?:\b(?:all\s)?(?:amounts|figures|dollars?|numbers|values)\s(?:are\s)?(?:(?:expressed|stated|presented|shown)\s)?)\bin\s(?:[\w.$\u20ac\u00a3]+\s){{0,3}}?{_SCALES}\b[^\n|]{{0,100}})"
    rf"|(?i:\b(?:expressed|stated|presented)\sin\s(?:[\w.$\u20ac\u00a3]+\s){{0,3}}?{_SCALES}\b[^\n|]{{0,100}})"
)
_WHOLE_UNIT: Final = re.compile(
    rf"\(?\s?(?:(?i:expressed|stated|amounts?|figures|all|unit|units|currency|dollars|euros|shares)[\s:]+){{0,4}}(?i:in\s)?(?:(?i:of\s)?{_MONEY}|(?i:{_SCALES}))"
    rf"(?:[\s']{{0,2}}(?:(?i:of|in)\s)?(?:{_MONEY}|(?i:{_SCALES})|[mkb]\b|[MK]\b|000)){{0,3}}(?:[,;]?\s(?i:except|unless|other\sthan|and)\b[^\n|]{{0,100}})?\s?\)?[.:]?"
)
_IN_UNIT: Final = re.compile(
    rf"(?i:^\(?in\s(?:[\w.$\u20ac\u00a3\u00a5\u20b9]+\s){{0,3}}?{_SCALES})(?![A-Za-z])[^\n|]{{0,100}}"
    rf"|^\(?(?i:in\s)(?:TEUR|T\u20ac|k\u20ac|{_MONEY})(?:\s(?:m|k|{_SCALES}))?(?![\w])(?:[,;]?\s(?i:except|unless)\b[^\n|]{{0,100}})?\)?$"
)


def unit_in(text: str) -> tuple[int, int] | None:
    """Return the span of a unit in a cell, head line or title: "(in thousands)", "EUR million", "in TEUR"; or None."""
    shown = text[:300]
    plain = shown.strip()
    if not plain:
        return None
    at = shown.index(plain)
    if is_unit(plain):
        return at, at + len(plain)
    if (found := _IN_UNIT.match(plain)) is not None and len(plain) <= 160:
        end = found.end()
        return at + found.start(), at + end
    match = _UNIT.search(shown)
    return None if match is None else match.span()


def is_unit(text: str) -> bool:
    """Return whether a text consists of a unit."""
    plain = text.strip()
    if len(plain) > 160 or is_number(plain):
        return False
    if _WHOLE_UNIT.fullmatch(plain) and not plain.isdigit():
        return True
    if (found := _IN_UNIT.match(plain)) is not None and found.end() == len(plain):
        return True
    match = _UNIT.match(plain)
    return match is not None and match.end() == len(plain)
