"""Show a cell's value as a spreadsheet program does: with decimals, separators, scale, signs and words of its format.

Formats have up to four sections for positive numbers, negative numbers, zero and text: ``#,##0.0,;(#,##0.0,);"-";@``
shows thousands. Dates come in ISO 8601, with the parts that the format shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""
    "(?P<quoted>[^"]*)"? | [\\!](?P<escaped>.) | [_*](?P<blank>.)
    | \[\$(?P<currency>[^\]-]*)[^\]]*\] | \[(?P<op><=|>=|<>|<|>|=)(?P<bound>-?[\d.]+)\]
    | \[(?P<elapsed>h+|m+|s+)\] | \[[^\]]*\]
    | (?P<general>General) | (?P<noon>AM/PM|A/P) | (?P<exponent>E[+-])
    | (?P<digit>[0#?]) | (?P<part>[ymdhsegb]+) | (?P<plain>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_EXACT: Final = Context(prec=400, rounding=ROUND_HALF_UP)
"""Enough digits for every float; spreadsheet programs round halves up."""
_MOST_DECIMALS: Final = 30
_MOST_FORMAT_CHARS: Final = 255


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of a format: tokens (kind, text), and the condition of its numbers, such as (">=", 1000)."""

    tokens: tuple[tuple[str, str], ...]
    op: str = ""
    bound: float = 0.0

    def has(self, kind: str) -> bool:
        return any(each == kind for each, _ in self.tokens)

    @property
    def words(self) -> str:
        return "".join(text for kind, text in self.tokens if kind == "text").strip()


@lru_cache(maxsize=1024)
def _sections(number_format: str) -> tuple[_Section, ...]:
    found: list[list[tuple[str, str]]] = [[]]
    conditions = [("", 0.0)]
    for match in _TOKEN.finditer(number_format[:_MOST_FORMAT_CHARS]):
        kind = match.lastgroup
        if kind == "plain" and match[0] == ";":
            found.append([])
            conditions.append(("", 0.0))
        elif kind == "bound":
            conditions[-1] = (match["op"], _float(match["bound"]))
        elif kind == "plain" and match[0] in ".,%/@":
            found[-1].append((match[0], match[0]))
        elif kind in ("quoted", "escaped", "currency", "plain"):
            found[-1].append(("text", match[kind]))
        elif kind == "blank":
            found[-1].append(("text", " "))
        elif kind is not None:
            found[-1].append((kind, match[0].lower()))
    return tuple(_Section(tuple(tokens), *told) for tokens, told in zip(found, conditions, strict=True))


def _float(words: str) -> float:
    try:
        return float(words)
    except ValueError:
        return 0.0


def is_date_format(number_format: str) -> bool:
    """Return whether numbers of this format are dates, times or durations."""
    return _is_date(_sections(number_format)[0])


def is_duration_format(number_format: str) -> bool:
    """Return whether numbers of this format are durations, such as ``[h]:mm``."""
    return _sections(number_format)[0].has("elapsed")


def _is_date(section: _Section) -> bool:
    letters = {letter for kind, text in section.tokens if kind == "part" for letter in text}
    return section.has("elapsed") or bool(letters & set("ymdhs"))


def shown(value: Any, number_format: str = "General") -> str:
    """Return a cell's value as a spreadsheet program shows it; "" if its format hides it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    sections = _sections(number_format)
    if isinstance(value, int | float):
        return _number(value, sections)
    if isinstance(value, datetime):
        return _moment(value, sections[0])
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, str):
        return _text(value, sections)
    return value.isoformat(timespec="seconds") if isinstance(value, time) else str(value)


def _text(value: str, sections: Sequence[_Section]) -> str:
    last = sections[-1]
    if len(sections) < 4 and not last.has("@"):
        return value
    return "".join(value if kind == "@" else text for kind, text in last.tokens if kind in ("@", "text")).strip()


def _moment(value: datetime, section: _Section) -> str:
    """Return the date without parts that the format leaves out at its end: the year and month of ``mmm-yy``."""
    letters = "".join(text for kind, text in section.tokens if kind == "part")
    timed = "h" in letters or "s" in letters
    if timed and not ("y" in letters or "d" in letters):
        return value.time().isoformat(timespec="seconds")
    if timed or not letters:
        at_midnight = (value.hour, value.minute, value.second) == (0, 0, 0)
        return value.date().isoformat() if at_midnight else value.isoformat(" ", timespec="seconds")
    length = 10 if "d" in letters else 7 if "m" in letters else 4
    return value.date().isoformat()[:length]


def _duration(value: timedelta) -> str:
    seconds = round(abs(value).total_seconds())
    sign = "-" if value < timedelta(0) else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _number(value: int | float, sections: Sequence[_Section]) -> str:
    if value != value or abs(value) == float("inf"):
        return str(value)
    place = _section_of(value, sections)
    if place is None:
        return _general(value)
    section = sections[place]
    if section.tokens == _GENERAL:
        return _general(value)
    exact = Decimal(f"{value:.15g}") if isinstance(value, float) else Decimal(value)
    try:
        words, rounded = _in_section(abs(exact), section)
    except InvalidOperation:  # hundreds of digits
        return _general(value)
    if words is None:
        return _general(value)
    if value >= 0:
        return words
    if rounded == 0:
        return _in_section(Decimal(0), sections[0])[0] or ""
    own_sign = place == 1 and not section.op and section.words != sections[0].words
    return words if own_sign or section.op in ("<", "<=") or not words else f"-{words}"


_GENERAL: Final = (("general", "general"),)


def _section_of(value: int | float, sections: Sequence[_Section]) -> int | None:
    """Return the place of the section for a number, or None."""
    numbers = sections[:3] if len(sections) < 4 and not sections[-1].has("@") else sections[: min(3, len(sections) - 1)]
    if not numbers:
        return None if sections[0].has("@") and not sections[0].words else 0
    if len(numbers) == 1 and not numbers[0].op:
        return 0
    for place, section in enumerate(numbers):
        usual = {"": True, "+": value >= 0 if len(numbers) == 2 else value > 0, "-": value < 0}
        default = "" if place == len(numbers) - 1 else "+-"[place]
        if _holds(value, section) if section.op else usual[default]:
            return place
    return None


def _holds(value: int | float, section: _Section) -> bool:
    bound = section.bound
    return {
        "<": value < bound,
        "<=": value <= bound,
        ">": value > bound,
        ">=": value >= bound,
        "=": value == bound,
        "<>": value != bound,
    }[section.op]


def _in_section(value: Decimal, section: _Section) -> tuple[str | None, Decimal]:
    """Return a number that is not negative in a section's form (None: without a form), and as rounded there."""
    digits = _digits_of(section)
    if digits is None:
        return _without_digits(value, section), value
    rounded = (value.scaleb(digits.shift) if digits.shift else value).quantize(digits.unit, context=_EXACT)
    whole, _, decimals = f"{rounded:f}".partition(".")
    if digits.around is not None and digits.least_decimals == len(decimals):
        before, after = digits.around
        whole = whole if whole != "0" else ""
        whole = whole.rjust(digits.least, "0")
        if digits.grouped and len(whole) > 3:
            whole = f"{int(whole):0{len(whole) + (len(whole) - 1) // 3},}"
        return f"{before}{whole}{'.' if decimals else ''}{decimals}{after}", rounded
    while len(decimals) > digits.least_decimals and decimals[-1] == "0":
        decimals = decimals[:-1]
    filled = _filled(whole, digits, len(digits.whole))
    said = {**dict(zip(digits.whole, filled, strict=False)), **dict(zip(digits.fraction, decimals, strict=False))}
    point = ("" if digits.whole else filled[0]) + ("." if decimals else "")
    parts = []
    for place, (kind, text) in enumerate(section.tokens):
        if place == digits.point:
            parts.append(point)
        elif kind == "digit":
            parts.append(said.get(place, ""))
        elif kind in ("text", "%"):
            parts.append(text)
    return " ".join("".join(parts).split()), rounded


def _without_digits(value: Decimal, section: _Section) -> str | None:
    """Return a number in a section without plain digits: general, scientific or only words; None in other ones."""
    if section.has("@") or section.has("/") or _is_date(section):
        return None
    if section.has("general"):
        number = int(value) if value == value.to_integral_value() and abs(value) < 10**15 else float(value)
        return "".join(_general(number) if kind == "general" else text for kind, text in section.tokens).strip()
    return _scientific(value, section) if section.has("exponent") and section.has("digit") else section.words


@dataclass(frozen=True, slots=True)
class _Digits:
    """The digits of a section: places of its tokens before and after the ``point``, and how they are filled.

    ``shift`` is the power of ten of percent signs and scaling commas, ``unit`` the last digit. ``around`` are the words
    before and after the digits if nothing stands between them.
    """

    whole: tuple[int, ...]
    fraction: tuple[int, ...]
    point: int
    least: int
    least_decimals: int
    grouped: bool
    shift: int
    unit: Decimal
    around: tuple[str, str] | None


@lru_cache(maxsize=1024)
def _digits_of(section: _Section) -> _Digits | None:
    tokens = section.tokens
    kinds = [kind for kind, _ in tokens]
    odd = any(section.has(kind) for kind in ("@", "/", "general", "exponent"))
    if odd or "digit" not in kinds or _is_date(section):
        return None
    point = kinds.index(".") if "." in kinds else len(kinds)
    whole = [place for place, kind in enumerate(kinds[:point]) if kind == "digit"]
    fraction = [place for place, kind in enumerate(kinds) if kind == "digit" and place > point][:_MOST_DECIMALS]
    ends = {max(places) + 1 for places in (whole, whole + fraction) if places}
    scaling = {at + more for at in ends for more in range(_commas_from(kinds, at))}
    grouped = bool(whole) and "," in kinds[whole[0] : whole[-1]]
    signs = [tokens[place][1] for place in whole]
    least = len(signs) - signs.index("0") if "0" in signs else int(bool(fraction))
    least_decimals = max((n for n, place in enumerate(fraction, start=1) if tokens[place][1] == "0"), default=0)
    inside = range((whole or fraction)[0], (whole + fraction)[-1] + 1)
    words = [text if kind in ("text", "%") else "" for kind, text in tokens]
    whole_words = "".join(words[inside.start : inside.stop])
    before = " ".join("".join(words[: inside.start]).split(" ")).lstrip()
    around = None
    if whole and not whole_words.strip() and " " not in whole_words:
        around = (re.sub(" +", " ", before), re.sub(" +", " ", "".join(words[inside.stop :])).rstrip())
    return _Digits(
        tuple(whole), tuple(fraction), point, least, least_decimals, grouped,
        2 * kinds.count("%") - 3 * len(scaling), Decimal(1).scaleb(-len(fraction)), around,
    )  # fmt: skip


def _commas_from(kinds: Sequence[str], at: int) -> int:
    count = 0
    while at + count < len(kinds) and kinds[at + count] == ",":
        count += 1
    return count


def _filled(digits: str, form: _Digits, count: int) -> list[str]:
    """Return what each of ``count`` places of the whole part shows; the first shows all digits that are left over."""
    digits = digits.lstrip("0").rjust(form.least, "0")
    spelt = [
        digit + ("," if form.grouped and left and left % 3 == 0 else "")
        for digit, left in zip(digits, range(len(digits) - 1, -1, -1), strict=True)
    ]
    count = max(count, 1)
    head = max(0, len(spelt) - count + 1)
    filled = ["".join(spelt[:head]), *spelt[head:]] if len(spelt) >= count else spelt
    return [""] * (count - len(filled)) + filled


def _scientific(value: Decimal, section: _Section) -> str:
    kinds = [kind for kind, _ in section.tokens]
    mantissa = kinds[: kinds.index("exponent")]
    places = min(mantissa[mantissa.index(".") :].count("digit"), _MOST_DECIMALS) if "." in mantissa else 0
    base, _, power = f"{value:.{places}E}".partition("E")
    width = max(1, kinds[kinds.index("exponent") :].count("digit"))
    return f"{base}E{power[0]}{power[1:].lstrip('0').rjust(width, '0')}"


def _general(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"
