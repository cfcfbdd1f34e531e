"""Read the number printed in a table cell by the convention of its table: "(1,234)", "1.234,5-", "$ 5.2m", "12'345".

A comma or point before three digits may separate thousands or decimals. The other cells of the table decide, then the
numbers around it. If both readings remain possible, the cell has no number: none is better than one wrong by 1,000.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from okralong.pipelines.statements.amounts import BEFORE, LETTERS, SIGNS, WORD_SCALE, currencies

_MINUS: Final = "-\u2010\u2011\u2012\u2013\u2014\u2212\u25b2\u25b3\u25b5"
"""Signs of negative numbers; Japanese reports use triangles."""
_BLANK: Final = "\u00a0\u202f\u2009\u2007 "
_QUOTE: Final = "'\u2019\u02bc`"
_PLAIN: Final = re.compile(rf"\d[\d.,{_QUOTE}{_BLANK}]*(?<=\d)|[.,]\d+")
_CELL: Final = re.compile(
    rf"""
    (?P<code>[A-Z]{{2,4}}(?=[\s\d({_MINUS}]))?\s?
    (?P<open>[(\[]\s?)?(?P<sign>[{_MINUS}+]\s?)?(?P<mark>{BEFORE})?\s?(?P<open2>\(\s?)?(?P<sign2>[{_MINUS}+]\s?)?
    (?P<digits>\d(?:[\d.,{_QUOTE}{_BLANK}]*\d)?|[.,]\d+)
    (?P<after>.*)
    """,
    re.VERBOSE | re.DOTALL,
)
_AFTER: Final = re.compile(
    rf"""
    \s?(?P<trail>[{_MINUS}](?=\s?(?:$|[%)\]])))?
    \s?(?P<close>[)\]])?\s?(?P<mark>{BEFORE}|\u20ac|\$|(?-i:[A-Z]{{3}}(?![A-Za-z])))?
    \s?(?P<percent>%|per\s?cent\b|pct\b|percentage\spoints?\b|p\.?p\.?(?![a-z])|pts?\b|ppts?\b|\bpoints\b)?
    \s?(?P<basis>basis\spoints?|bps?\b)?
    \s?(?:(?:(?P<scale>(?:{WORD_SCALE})s?)|(?P<letter>mln|mio|mrd|bn|mn|mm|tn|cr|[kmb])|(?P<cents>cents?|pence|[cp]|\u00a2))(?![a-z]))?
    \s?(?P<mark2>{BEFORE}|\u20ac|(?-i:[A-Z]{{3}}(?![A-Za-z])))?
    \s?(?P<times>x|times|\u00d7)?(?![a-z])
    \s?(?P<close2>[)\]])?\s?(?P<percent2>%)?
    \s?(?P<words>[^\W\d_][^\W\d]*(?:\s[^\W\d_]+)*\.?)?
    (?:\s?(?:[*\u2020\u2021#\u00b9\u00b2\u00b3\u2070-\u2079]+|\(\s?[a-z\d]{{1,2}}\s?\)|[a-z\d]\)))*\s*
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Separators:
    """The number format of a table: its decimal separator ("." or ","), or "" if unknown.

    ``both`` means that cells contradict each other; ``groups`` that some cell separates thousands; ``blanks`` that
    blanks do so.
    """

    decimal: str = ""
    both: bool = False
    groups: bool = False
    blanks: bool = True


@dataclass(frozen=True, slots=True)
class Printed:
    """A number as printed, before any scale of its table.

    ``grouped`` means that it has thousands separators, ``places`` counts its decimals. ``scale``, ``currency``,
    ``unit`` ("%", "x", or a word after it) are what the cell itself says; ``cents`` that it says cents or pence;
    ``plain_dollar`` that its sign is "$", which may mean another dollar than USD.
    """

    digits: Decimal
    places: int = 0
    grouped: bool = False
    unit: str = ""
    scale: str = ""
    currency: str = ""
    cents: bool = False
    year: bool = False
    plain_dollar: bool = False


def separators_of(cells: Iterable[str], around: str = "") -> Separators:
    """Decide the separators of a table from its cells; those of ``around`` decide if the cells do not."""
    own, groups, blanks = _votes(cells)
    if "." in own and "," in own:
        return Separators("", True, groups, blanks)
    if own:
        return Separators(own.pop(), False, groups, blanks)
    far, _, _ = _votes(_IN_TEXT.findall(around))
    return Separators(far.pop() if len(far) == 1 else "", False, groups, blanks)


def _votes(cells: Iterable[str]) -> tuple[set[str], bool, bool]:
    """Return the decimal separators that cells prove, whether any has groups, and whether blanks may separate them."""
    votes: set[str] = set()
    groups, blanks = False, True
    for cell in cells:
        match = _PLAIN.search(cell)
        if match is None:
            continue
        written = match[0]
        if (decimal := proven_decimal(written)) is not None:
            votes.add(decimal)
        groups = groups or _GROUPED.search(written) is not None
        blanks = blanks and re.search(r"\d[.,]\d{3}(?:[.,]|$)", written) is None
    return votes, groups, blanks


_IN_TEXT: Final = re.compile(r"(?<![\w.,])\d[\d.,]*\d(?![\w.,]*\w)")
"""A number in a text. In "December 31, 2022" the comma is no decimal separator."""
_GROUPED: Final = re.compile(rf"\d[.,{_QUOTE}{_BLANK}]\d\d\d(?!\d)")


def proven_decimal(written: str) -> str | None:
    """Return the decimal separator that a number proves, "." or ",", or None."""
    points, commas = written.count("."), written.count(",")
    if points and commas:
        last = "." if written.rindex(".") > written.rindex(",") else ","
        return last if written.count(last) == 1 else None
    if points > 1 or commas > 1:
        if not re.fullmatch(r"\d{1,3}(?:[.,]\d{2,3})+", written):
            return None
        return "," if points else "."
    if not points and not commas:
        return None
    mark = "." if points else ","
    before, after = written.split(mark)
    if re.search(rf"\d[{_QUOTE}{_BLANK}]\d\d\d$", before):
        return mark
    if len(after) != 3 or before == "0" or not before or len(before) > 3:
        return mark
    return None


def decimal_of(written: str, by: Separators) -> tuple[Decimal, int, bool] | None:
    """Return a number, its decimals and whether it has groups; None if it is malformed or ambiguous."""
    compact = re.sub(rf"[{_QUOTE}]", "'", re.sub(rf"[{_BLANK}]", " ", written))
    marks = set(re.findall(r"[.,' ]", compact))
    decimal = _decimal_mark(compact, marks, by)
    if decimal is None:
        return None
    whole, _, rest = compact.partition(decimal) if decimal else (compact, "", "")
    if re.search(r"\D", rest) or (decimal and not rest):
        return None
    groups = set(re.findall(r"\D", whole))
    if len(groups) > 1:
        return None
    if groups:
        mark = re.escape(groups.pop())
        if mark == r"\ " and not by.blanks:
            return None
        indian = rf"|\d{{1,2}}(?:{mark}\d\d)*{mark}\d{{3}}" if mark == "," else ""
        if not re.fullmatch(rf"\d{{1,3}}(?:{mark}\d{{3}})+{indian}", whole) or whole.startswith("0"):
            return None
        whole = re.sub(r"\D", "", whole)
        return Decimal(f"{whole}.{rest}" if rest else whole), len(rest), True
    return Decimal(f"{whole or 0}.{rest}" if rest else whole), len(rest), False


def _decimal_mark(compact: str, marks: set[str], by: Separators) -> str | None:
    """Return the decimal separator in a number, "" if it has no decimals, None if that is ambiguous."""
    points = [mark for mark in ".," if mark in marks]
    if not points:
        return ""
    if len(points) == 2:
        last = max(points, key=compact.rindex)
        return None if by.decimal and by.decimal != last else last
    mark = points[0]
    if compact.count(mark) > 1:
        return None if by.decimal == mark else ""
    if (proved := proven_decimal(compact)) is not None:
        return None if by.decimal and by.decimal != proved else proved
    if by.both:
        return None
    if by.decimal:
        return mark if by.decimal == mark else ""
    return "" if mark == "," else None  # "1,234" alone is a thousand; "1.234" is one only in some countries


def printed(cell: str, by: Separators) -> Printed | None:
    """Return the number in a cell, or None if it has none, or more than one, or an ambiguous one."""
    match = _CELL.fullmatch(cell.strip()) if len(cell) <= _LONGEST else None
    after = None if match is None else _AFTER.fullmatch(match["after"])
    number = None if match is None else decimal_of(match["digits"], by)
    if match is None or after is None or number is None:
        return None
    digits, places, grouped = number
    opened, closed = match["open"] or match["open2"], after["close"] or after["close2"]
    if closed and not opened:
        return None
    if opened or any(each and each[0] in _MINUS for each in (match["sign"], match["sign2"], after["trail"])):
        digits = -digits
    marks = [each for each in (match["code"], match["mark"], after["mark"], after["mark2"]) if each]
    codes = [SIGNS.get(each) or (each if each in currencies() else "") for each in marks]
    if not all(codes) or len(set(codes)) > 1:
        return None
    letter = (after["letter"] or after["cents"] or "").lower()
    if len(letter) == 1 and letter != "\u00a2" and not codes and match["after"][0].isspace():
        return None  # "1,234 b" has a footnote mark or metres
    scale = (after["scale"] or "").lower().rstrip("s") or _LETTERS.get(letter, "")
    percent = after["percent"] or after["percent2"] or after["basis"]
    if after["basis"]:
        digits /= 100
    unit = "%" if percent else "x" if after["times"] else (after["words"] or "").strip()
    year = re.fullmatch(r"\(?(?:19|20)\d\d\)?", cell.strip()) is not None
    code = codes[0] if codes else ""
    return Printed(digits, places, grouped, unit, scale, code, bool(after["cents"]), year, set(marks) == {"$"})


_LONGEST: Final = 60
"""Characters of a cell that may be a number. project default"""
_LETTERS: Final = {**LETTERS, "mio": "million", "mrd": "billion"}
