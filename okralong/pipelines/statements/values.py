"""Read typed values (numbers, money, percent, dates, periods) from an answer and its passage.

A filing writes "$(234,495)" in a table headed "in thousands": the amount is -234495000 US dollars. A missing scale,
currency, sign or period is taken from the line and the heads above it, a period also from the question. A field that is
still unknown stays empty. Text without the wanted value raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import (
    AMOUNT,
    DASH,
    NO_COUNT,
    SCALES,
    UNKNOWN,
    Amount,
    amounts,
    in_words,
    line_of,
    plain,
)
from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_heads import completed_in
from okralong.pipelines.statements.locale_periods import dates_in, periods_in, years_in_text
from okralong.pipelines.statements.locale_words import CJK, alternatives, locale_words
from okralong.pipelines.statements.periods import Span, apart, forms_of
from okralong.pipelines.statements.table_heads import cells_above, completed, is_row


@dataclass(frozen=True, slots=True)
class Context:
    """The passage and question that a value belongs to.

    ``text`` is the passage; ``start`` and ``end`` delimit the cited characters (-1 if none are). If ``verbatim``, the
    value is exactly these characters, and only scale, currency and period come from the text around them. ``language``
    decides numbers and dates that languages write differently.
    """

    text: str = ""
    start: int = -1
    end: int = -1
    question: str = ""
    verbatim: bool = False
    language: str = "en"


NOWHERE: Final = Context()


def read_value(kind: str, said: str, context: Context = NOWHERE, choices: Sequence[str] = ()) -> TypedValue:
    """Parse the value of ``kind`` (one of ``answer_types.KINDS``) in ``said``.

    Raises:
        ValueError: There is no value, or there are several; the message names them.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return TypedValue(_choice(said, choices) if kind == "choices" else said.strip())
    return reader(said, context)


def spans_of(kind: str, text: str, language: str = "en") -> list[Span]:
    """Return the spans of a text that may be a value of ``kind``, in order; none for yes/no and choices.

    For percentages, return the amounts with a percent sign if there are any, else all that are not money: table cells
    may lack the sign.
    """
    if kind == "date":
        found = [span for span, _ in dates_in(text, language)]
        return sorted([*found, *_apart([span for span, _ in years_in_text(text, language, old=True)], found)])
    if kind == "period":
        found = [span for span, value in periods_in(text, language) if value]
        others = [span for span, _ in [*dates_in(text, language), *years_in_text(text, language)]]
        return sorted([*found, *_apart(others, found)])
    if kind not in ("number", "money", "percent"):
        return []
    taken = [span for span, _ in [*periods_in(text, language), *dates_in(text, language)]]
    free = apart([each for each in amounts_in(text, language) if not each.year], taken, lambda each: each.place)
    if kind == "percent":
        marked = [each for each in free if each.unit == "%"]
        return [each.place for each in marked or free if not each.currency and _may_be_percent(each)]
    return [each.place for each in free if kind == "number" or each.unit != "%"]


def _apart(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """Return the ``spans`` that overlap none of ``taken``."""
    return apart(spans, taken, lambda one: one)


def agrees(kind: str, said: TypedValue, gold: str) -> bool:
    """Return whether a value equals a gold answer, up to the rounding of the gold answer's last digit.

    A currency, unit or scale that the gold answer omits is ignored: a gold "234,495" agrees with 234495000, which a
    table gave in thousands.
    """
    if kind in ("number", "money", "percent"):
        found = amounts(gold.strip()) or in_words(gold)
        if said.number is None or len(found) != 1:
            return False
        wanted, mine = found[0], Decimal(said.value)
        if wanted.currency and said.currency and wanted.currency != said.currency:
            return False
        if wanted.scale and said.scale == UNKNOWN:
            return False
        factors = {wanted.factor} if wanted.scale else {Decimal(1), SCALES[said.scale]}
        half = Decimal(5).scaleb(-wanted.places - 1)
        return any(abs(mine - wanted.digits * factor) <= half * factor for factor in factors)
    if kind == "period":
        return same_period(said.value, gold)
    try:
        return read_value(kind, gold).value == said.value
    except ValueError:
        return said.value.casefold() == gold.strip().casefold()


# --------
# Amounts.


def _read_amount(kind: str, said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _candidates(kind, text, wanted, context.language)
    if not found:
        if DASH.fullmatch(said.strip()):
            found = [Amount(0, 0, Decimal(0), 0)]
        else:
            raise ValueError(f"{_NAMED[kind]} was asked for, and there is none in it")
    if len({each.key for each in found}) > 1:
        several = ", ".join(text[each.start : each.end].strip() for each in found[:4])
        raise ValueError(f"{_NAMED[kind]} was asked for, and it has several: {several}")
    one = max(found, key=lambda each: (bool(each.scale), bool(each.currency)))
    place = _place(text, one, context)
    if place >= 0:
        local = context.language != "en"
        one = (completed_in if local else _completed)(kind, one, context.text, place, context.language)
    if kind == "percent" and not one.unit:
        one = replace(one, unit="%")
    number = one.digits * (1 if one.unit == "%" else one.factor)
    unit = one.unit or ("" if kind == "money" or one.currency else counted(text, one.end, context.language))
    scale = "" if one.unit == "%" else one.scale
    period = _period_of(text, context, place)
    return TypedValue(plain(number), float(number), unit, scale, one.currency, period)


_NAMED: Final = {"number": "one number", "money": "one amount of money", "percent": "one percentage"}


def _around(said: str, context: Context) -> tuple[str, Span | None]:
    """Return the text to parse and the wanted span in it (None: all of it).

    Verbatim text is parsed within its line.
    """
    if not context.verbatim or context.start < 0:
        return said, None
    first, last = line_of(context.text, context.start)
    last = max(last, context.end)
    return context.text[first:last], (context.start - first, context.end - first)


def _completed(kind: str, one: Amount, text: str, place: int, language: str) -> Amount:
    return completed(kind, one, text, place)


def _candidates(kind: str, text: str, wanted: Span | None, language: str) -> list[Amount]:
    """Return the amounts that may be meant; only those that clearly are of the wanted kind if there are any."""
    found = amounts_in(text, language) or (in_words(text) if language == "en" else [])
    if wanted is not None:
        touched = [each for each in found if each.start < wanted[1] and each.end > wanted[0]]
        found = touched or found
    # "$ -6.2 ( 6.2 )": FinQA writes a cell twice, with its sign and as printed.
    pairs = pairwise([None, *found])
    found = [
        each for last, each in pairs if each and not (last and each.bracketed and abs(last.digits) == abs(each.digits))
    ]
    taken = [span for span, _ in [*periods_in(text, language), *dates_in(text, language)]]
    free = apart(found, taken, lambda each: each.place)
    found = free or [each for each in found if not each.year and kind != "percent"]
    tests: list[Callable[[Amount], bool]] = [lambda each: not each.year]
    if kind == "percent":
        tests.append(lambda each: each.unit == "%")
        found = [each for each in found if not each.currency and _may_be_percent(each)]
    else:
        found = [each for each in found if kind == "number" or each.unit != "%"]
        tests.append(lambda each: bool(each.currency) or kind == "number")
        tests.append(lambda each: bool(each.scale) or kind == "number")
        tests.append(lambda each: not (each.bracketed and abs(each.digits) < 20 and not each.places))  # a footnote mark
    for test in tests:
        found = [each for each in found if test(each)] or found
    return found


def _may_be_percent(one: Amount) -> bool:
    """Return whether an amount is a percentage, or a bare cell of a table that may be one: no "15,133"."""
    return one.unit == "%" or not (one.scale or abs(one.digits) >= _NO_PERCENT)


_NO_PERCENT: Final = 1000  # project default


def counted(text: str, end: int, language: str = "en") -> str:
    """Return the one or two words that a number counts: "employees", "shares"; in German the noun after it."""
    if language != "en":
        noun = _NOUN.match(text, end) if language == "de" else None
        return noun[1] if noun is not None else ""
    words = []
    for word in re.findall(r"\s*([A-Za-z][A-Za-z-]*|\S)", text[end : end + 60])[:2]:
        if not word[0].isalpha() or word.lower() in NO_COUNT:
            break
        words.append(word)
    return " ".join(words)


_NOUN: Final = re.compile(r"\s([A-Z\u00c4\u00d6\u00dc][^\W\d_]+)")
"""A noun of German, which is capitalized."""


def _place(text: str, one: Amount, context: Context) -> int:
    """Return the position of the amount in the passage, preferring the cited characters, or -1."""
    if context.verbatim and context.start >= 0:
        return line_of(context.text, context.start)[0] + one.start
    digits = (AMOUNT if context.language == "en" else _DIGITS).search(text, one.start)
    if not context.text or digits is None:
        return -1
    same = re.compile(rf"(?<![\d.,]){re.escape(digits['digits'])}(?![\d]|[.,]\d)")
    if context.start >= 0 and (found := same.search(context.text, context.start, context.end)) is not None:
        return found.start()
    found = same.search(context.text)
    return -1 if found is None else found.start()


_DIGITS: Final = re.compile(r"(?P<digits>\d(?:[\d.,'\u2019\u00a0\u202f\u2009]*\d)?)")

# --------
# Dates and periods.


def _read_date(said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _meant([*dates_in(text, context.language)], wanted)
    days = [each for each in found if len(each) == 10]
    found = days or found or _meant(years_in_text(text, context.language, old=True), wanted)
    return TypedValue(_the_one(found, "one date"))


def _meant(found: Sequence[tuple[Span, str]], wanted: Span | None) -> list[str]:
    """Return the distinct values, or only those that overlap the wanted span if any do."""
    touching = [value for (start, end), value in found if wanted and start < wanted[1] and end > wanted[0]]
    return list(dict.fromkeys(touching or [value for _, value in found]))


def _the_one(found: Sequence[str], name: str) -> str:
    if not found:
        raise ValueError(f"{name} was asked for, and there is none in it")
    if len(found) > 1:
        raise ValueError(f"{name} was asked for, and it has several: {', '.join(found[:4])}")
    return found[0]


def _read_period(said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    named = [each for each in periods_in(text, context.language) if each[1]]
    found = _meant(named, wanted) if wanted is None or _touching(named, wanted) else []
    if not found:
        found = _meant(dates_in(text, context.language), wanted)
    if not found:
        found = _meant(years_in_text(text, context.language), wanted)
    return TypedValue(_the_one(found or _meant(named, wanted), "one period"))


def _touching(found: Sequence[tuple[Span, str]], wanted: Span) -> bool:
    return any(start < wanted[1] and end > wanted[0] for (start, end), _ in found)


def _period_of(text: str, context: Context, place: int) -> str:
    """Return the period of an amount, or "" if it is ambiguous.

    The first that names exactly one period is used: the answer's text, the column's heads, the sentence, the question.
    """
    said = text if not context.verbatim else ""
    line = context.text[slice(*line_of(context.text, place))] if place >= 0 else ""
    above = cells_above(context.text, place) if place >= 0 else []
    for each in (said, *above, "" if is_row(line) else line, context.question):
        language = context.language
        found = {value for _, value in periods_in(each, language) if value}
        found = found or {value for _, value in dates_in(each, language)}
        found = found or {year for _, year in years_in_text(each, language)}
        if len(found) == 1:
            return found.pop()
    return ""


def same_period(one: str, other: str) -> bool:
    """Return whether two texts name the same period.

    FY2023, 2023 and any twelve months that end in 2023 are the same period.
    """
    first, second = (_read_or_none(each) for each in (one, other))
    if first is None or second is None:
        return one.strip().casefold() == other.strip().casefold()
    return first == second or bool(forms_of(first) & forms_of(second))


def _read_or_none(text: str) -> str | None:
    try:
        return _read_period(text, NOWHERE).value
    except ValueError:
        return None


# --------
# Yes or no, and choices.

_YES_NO: Final = re.compile(r"\W*(?P<yes>yes|true|y)\b|\W*(?P<no>no|false|n)\b", re.IGNORECASE)


def _read_boolean(said: str, context: Context) -> TypedValue:
    match = _YES_NO.match(said)
    if match is not None:
        return TypedValue("yes" if match["yes"] else "no")
    if (words := locale_words(context.language)) is not None:
        end = "" if context.language in CJK else r"\b"
        for value, names in (("no", words.words.no), ("yes", words.words.yes)):
            if re.match(rf"\W*(?:{alternatives(names)}){end}", said, re.IGNORECASE):
                return TypedValue(value)
    raise ValueError("yes or no was asked for, and it begins with neither")


def _choice(said: str, choices: Sequence[str]) -> str:
    """Return the choice that equals the text or occurs in it; if one choice contains another, the longer one."""
    plain = _plain(said)
    for each in choices:
        if _plain(each) == plain:
            return each
    held = [each for each in choices if _plain(each) and _names(plain, _plain(each))]
    outer = [each for each in held if not any(_plain(each) in _plain(other) for other in held if other != each)]
    if len(outer) != 1:
        which = f"it names {' and '.join(outer)}" if outer else "it names none of them"
        raise ValueError(f"one of {', '.join(choices)} was asked for, and {which}")
    return outer[0]


def _names(text: str, choice: str) -> bool:
    """Return whether a text has a choice as words; scripts without blanks have no ends of words."""
    edges = [r"\b" if char < "\u2e80" else "" for char in (choice[0], choice[-1])]
    return re.search(f"{edges[0]}{re.escape(choice)}{edges[1]}", text) is not None


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


_READERS: Final[dict[str, Callable[[str, Context], TypedValue]]] = {
    "number": lambda said, context: _read_amount("number", said, context),
    "money": lambda said, context: _read_amount("money", said, context),
    "percent": lambda said, context: _read_amount("percent", said, context),
    "date": _read_date,
    "period": _read_period,
    "boolean": _read_boolean,
}
