"""Numbers, money, percent, dates and periods as values: read from an answer and from the passage where it stands.

A filing writes "$(234,495)" in a table whose head says "in thousands": the amount is -234495000 US dollars. What the
words of the value leave open (scale, currency, sign, period) is taken from its line, from the heads above it in the
passage, and the period also from the question. What stays open is left empty, and what does not fit raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import (
    AMOUNT,
    BEFORE,
    DASH,
    LETTERS,
    NO_COUNT,
    SCALES,
    SIGNS,
    WORD_SCALE,
    Amount,
    amounts,
    currencies,
    has_cells,
    in_words,
    line_of,
)
from okralong.pipelines.statements.periods import DATE_YEAR, NO_AMOUNT, YEAR, Span, apart, dates, forms_of, periods


@dataclass(frozen=True, slots=True)
class Context:
    """Where a value comes from. ``text`` is the passage, ``start`` and ``end`` the characters of it that are cited (or
    read: ``verbatim``, then the value is these characters and what belongs to them); -1 where there are none.
    """

    text: str = ""
    start: int = -1
    end: int = -1
    question: str = ""
    verbatim: bool = False


NOWHERE: Final = Context()


def read_value(kind: str, said: str, context: Context = NOWHERE, choices: Sequence[str] = ()) -> TypedValue:
    """The value of ``kind`` (of ``answer_types.KINDS``) that ``said`` gives.

    Raises ValueError with a sentence that says what is missing, or which values it might be.
    """
    reader = _READERS.get(kind)
    if reader is None:
        return TypedValue(_choice(said, choices) if kind == "choices" else said.strip())
    return reader(said, context)


def spans_of(kind: str, text: str) -> list[Span]:
    """Where in a text values of a kind stand that may be an answer, in their order; none for kinds of words.

    Amounts of money and percentages are those that say so, where the text has any: a cell of a table may not.
    """
    if kind == "date":
        found = [span for span, _ in dates(text)]
        return sorted([*found, *_apart([match.span() for match in DATE_YEAR.finditer(text)], found)])
    if kind == "period":
        found = [span for span, value in periods(text) if value]
        others = [*(span for span, _ in dates(text)), *(match.span() for match in YEAR.finditer(text))]
        return sorted([*found, *_apart(others, found)])
    if kind not in ("number", "money", "percent"):
        return []
    taken = [span for span, _ in [*periods(text), *dates(text)]]
    free = apart([each for each in amounts(text) if not each.year], taken, _place_of)
    if kind == "percent":
        marked = [each for each in free if each.unit == "%"]
        return [(each.start, each.end) for each in marked or free if not each.currency]
    return [(each.start, each.end) for each in free if kind == "number" or each.unit != "%"]


def _apart(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """Those of ``spans`` that overlap none of ``taken``."""
    return apart(spans, taken, lambda one: one)


def _place_of(amount: Amount) -> Span:
    return amount.start, amount.end


def agrees(kind: str, said: TypedValue, gold: str) -> bool:
    """Whether a value is the one that a gold answer writes; amounts within the rounding of the gold one's last digit.

    A currency, a unit or a scale that the gold answer does not write is not asked for: a gold "234,495" agrees with
    234495000 that a table gave in thousands.
    """
    if kind in ("number", "money", "percent"):
        found = amounts(gold.strip()) or in_words(gold)
        if said.number is None or len(found) != 1:
            return False
        wanted, mine = found[0], Decimal(said.value)
        if wanted.currency and said.currency and wanted.currency != said.currency:
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
# Amounts, with what the passage says of them.


def _read_amount(kind: str, said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _candidates(kind, text, wanted)
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
        one = _completed(kind, one, context.text, place)
    if kind == "percent" and not one.unit:
        one = replace(one, unit="%")
    number = one.digits * (1 if one.unit == "%" else one.factor)
    unit = one.unit or ("" if kind == "money" or one.currency else counted(text, one.end))
    scale = "" if one.unit == "%" else one.scale
    period = _period_of(text, context, place)
    return TypedValue(_written(number), float(number), unit, scale, one.currency, period)


_NAMED: Final = {"number": "one number", "money": "one amount of money", "percent": "one percentage"}


def _around(said: str, context: Context) -> tuple[str, Span | None]:
    """The text in which to look for a value, and the characters of it that are meant: read words belong to a line."""
    if not context.verbatim or context.start < 0:
        return said, None
    first, last = line_of(context.text, context.start)
    last = max(last, context.end)
    return context.text[first:last], (context.start - first, context.end - first)


def _candidates(kind: str, text: str, wanted: Span | None) -> list[Amount]:
    """The amounts that may be meant, of the kind that is asked for where there are any."""
    found = amounts(text) or in_words(text)
    if wanted is not None:
        touched = [each for each in found if each.start < wanted[1] and each.end > wanted[0]]
        found = touched or found
    # "$ -6.2 ( 6.2 )": FinQA's files write a cell twice, with its sign and as it stood.
    pairs = pairwise([None, *found])
    found = [
        each for last, each in pairs if each and not (last and each.bracketed and abs(last.digits) == abs(each.digits))
    ]
    taken = [span for span, _ in [*periods(text), *dates(text)]]
    free = apart(found, taken, _place_of)
    found = free or [each for each in found if not each.year and kind != "percent"]
    tests: list[Callable[[Amount], bool]] = [lambda each: not each.year]
    if kind == "percent":
        tests.append(lambda each: each.unit == "%")
        found = [each for each in found if not each.currency]
    else:
        found = [each for each in found if kind == "number" or each.unit != "%"]
        tests.append(lambda each: bool(each.currency) or kind == "number")
        tests.append(lambda each: bool(each.scale) or kind == "number")
        tests.append(
            lambda each: not (each.bracketed and abs(each.digits) < 20 and not each.places)
        )  # a footnote's mark
    for test in tests:
        found = [each for each in found if test(each)] or found
    return found


def _written(number: Decimal) -> str:
    """The exact decimal without an exponent, and without zeros that say nothing."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) if number else "0"


def counted(text: str, end: int) -> str:
    """The word or two for what a number counts: "employees", "shares"."""
    words = []
    for word in re.findall(r"\s*([A-Za-z][A-Za-z-]*|\S)", text[end : end + 60])[:2]:
        if not word[0].isalpha() or word.lower() in NO_COUNT:
            break
        words.append(word)
    return " ".join(words)


# --------
# What the passage says of an amount: its line, the heads of its table.

_MARKED: Final = rf"(?:{BEFORE})"
_HEAD: Final = re.compile(
    rf"""
    \bin\s(?:[A-Za-z.$€£]+\s){{0,3}}?(?P<a>(?:{WORD_SCALE})s?)\b
    | \b(?P<b>(?:{WORD_SCALE})s)\sof\s(?:[A-Za-z.]+\s){{0,2}}(?:dollars?|euros?|yen|pounds|francs|rupees|yuan|kron)
    | {_MARKED}['\u2018\u2019]?\s?(?:in\s)?(?P<c>(?:{WORD_SCALE})s?|bn|mn|mm|m|k|b)\b
    | (?<![\d,.\w])['\u2018\u2019]?(?P<d>000)(?:['\u2018\u2019]?s\b|\b)(?![.,]\d)
    | {_MARKED}['\u2018\u2019]?(?P<e>000)(?:['\u2018\u2019]?s)?\b
    | \(\s*(?P<f>(?:{WORD_SCALE})s?|mn|mm|bn)\s*\)
    | (?<![a-z])(?:[a-z]++,?\s)(?P<g>(?:{WORD_SCALE})s)\b(?=[^\n]{{0,30}}(?:\)|except|\n|$))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PER_SHARE: Final = re.compile(
    r"\bper\s(?:\w+\s){0,3}(?:share|unit|ads|stock|day|ton|barrel|ounce)s?\b|\beps\b|\bcents\b", re.IGNORECASE
)
_NO_MONEY: Final = re.compile(
    r"\bratio\b|\brates?\W*$|\byield\W*$|\bpercent(?:age)?\b|%|\bdays\b|\byears\)|\bin years\b"
    r"|\blives\b|\bemployees\b|\bheadcount\b",
    re.IGNORECASE,
)
"""Of rows that a head's "in thousands" does not speak of; the second kind only where no sign of a currency stands."""
_EXCEPT_SHARES: Final = re.compile(r"except\b[^)\n]{0,40}\bshares?\b(?!\s?(?:price|amounts?\sper))", re.IGNORECASE)
_SHARES: Final = re.compile(r"\bshares\b", re.IGNORECASE)
_SHARES_IN: Final = re.compile(rf"\b(?:shares|units)\sin\s(?:{WORD_SCALE})s\b", re.IGNORECASE)
_SENTENCE_WORDS: Final = 12


def _is_row(line: str) -> bool:
    """Whether a line is a table's row: it has cells, or figures and few words, and does not end as a sentence does."""
    if has_cells(line):
        return True
    words = re.findall(r"[A-Za-z]{2,}", line)
    return (
        len(words) <= _SENTENCE_WORDS
        and not line.rstrip().endswith((".", ";", "?", "!"))
        and bool(re.search(r"\d", line))
    )


def _place(text: str, one: Amount, context: Context) -> int:
    """Where the amount stands in the passage, in the cited characters before all others; -1 where it does not."""
    if context.verbatim and context.start >= 0:
        return line_of(context.text, context.start)[0] + one.start
    digits = AMOUNT.search(text, one.start)
    if not context.text or digits is None:
        return -1
    same = re.compile(rf"(?<![\d.,]){re.escape(digits['digits'])}(?![\d]|[.,]\d)")
    if context.start >= 0 and (found := same.search(context.text, context.start, context.end)) is not None:
        return found.start()
    found = same.search(context.text)
    return -1 if found is None else found.start()


def _completed(kind: str, one: Amount, text: str, place: int) -> Amount:
    """``one`` with the scale and the currency that its passage says where it does not itself."""
    first, last = line_of(text, place)
    line = text[first:last]
    if not _is_row(line):
        return one
    heads = _heads(text, first)
    column = _column(text, place)
    above = [cell for head in heads if (cell := _cell(head, column))] if column else []
    label = _label(text, first, place)
    if kind != "percent" and not one.unit and not one.scale:
        speaks = [label, *above]
        # A row without amounts just above heads a part of the table: "Earnings per share (in cents)".
        part = heads[0] if heads and not _scale(heads[0]) else ""
        exempt = (
            any(_PER_SHARE.search(each) for each in (*speaks, part))
            or (not one.currency and any(_NO_MONEY.search(each) for each in speaks))
            or (bool(_SHARES.search(label)) and any(_EXCEPT_SHARES.search(head) for head in heads))
        )
        told = [scale for each in speaks if (scale := _scale(each))]
        if not told and not exempt:
            shares = bool(_SHARES.search(label))
            heads = [_of_shares(head, shares) for head in heads]
            told = [scale for head in heads if (scale := _scale(head, column is not None))]
            if shares and (counted := _SHARES_IN.search(text)) is not None:
                told = [_scale(counted[0])]
            elif not told and (later := _scale(_of_shares(text[last:], shares))):  # said below the table
                told = [later]
        one = replace(one, scale=told[0] if told else "")
    if not one.currency and kind == "money":
        named = {code for each in (label, *above) for code in _marks(each)} or _marks(line)
        for head in heads if not named else []:
            named = named or _marks(head)
        named = named or _marks(text)
        one = replace(one, currency=named.pop() if len(named) == 1 else "")
    return one


def _of_shares(text: str, shares: bool) -> str:
    """``text`` without "shares in thousands", which says nothing of amounts that count no shares."""
    return text if shares else _SHARES_IN.sub(" ", text)


def _heads(text: str, before: int) -> list[str]:
    """The lines above without amounts (years are none), the nearest first: heads, titles, what introduces a table."""
    lines = [line for line in text[:before].split("\n") if line.strip()]
    return [line for line in reversed(lines[-_LINES_ABOVE:]) if not _has_amounts(line)]


_LINES_ABOVE: Final = 80
"""Lines above a row, blank ones not counted, that may be heads of its table; ours."""


@lru_cache(maxsize=4096)
def _has_amounts(line: str) -> bool:
    """Kept by line: the heads of a statement are looked for once for each of its rows."""
    if re.search(r"\d", line) is None:
        return False
    dated = [span for span, _ in [*periods(line), *dates(line)]]
    dated += [match.span() for match in NO_AMOUNT.finditer(line)]
    return any(
        not each.year and not (each.bracketed and abs(each.digits) < 20 and not each.currency)
        for each in apart(amounts(_HEAD.sub(lambda match: " " * len(match[0]), line)), dated, _place_of)
    )


def _label(text: str, first: int, place: int) -> str:
    """What stands before the row's first amount; of a row without words the line of words above it."""
    before = text[first:place]
    start = next((each.start for each in amounts(before) if not each.year), len(before))
    label = before[:start].strip(" |\t$(")
    if re.search(r"[A-Za-z]{2}", label):
        return label
    for line in reversed(text[:first].split("\n")[-12:]):
        if re.search(r"[A-Za-z]{2}", line):
            return "" if _has_amounts(line) and "|" in line else line.strip()
    return ""


def _column(text: str, place: int) -> int | None:
    """Which cell of its row a character stands in, where cells are parted by bars or tabs."""
    first, last = line_of(text, place)
    bar = next((each for each in "|\t" if each in text[first:last]), None)
    return None if bar is None else text[first:place].strip(" ").count(bar)


def _cell(head: str, column: int) -> str:
    bar = next((each for each in "|\t" if each in head), None)
    cells = [cell.strip() for cell in head.strip(" ").split(bar)] if bar else []
    # A head over several columns stands in the first of them; the leftmost cells belong to the labels.
    if column >= len(cells) or cells[column]:
        return cells[column] if column < len(cells) else ""
    filled = [cell for cell in cells[2:column] if cell]
    return filled[-1] if filled and not _NO_MONEY.search(filled[-1]) else ""


def _scale(text: str, by_column: bool = False) -> str:
    """The scale that a head names. In a row of heads that names several, each is its own column's alone."""
    found = list(_HEAD.finditer(text))
    words = {_scale_word(next(each for each in match.groups() if each)) for match in found}
    if by_column and len(words) > 1 and ("|" in text or "\t" in text):
        return ""
    return _scale_word(next(each for each in found[0].groups() if each)) if found else ""


def _scale_word(written: str) -> str:
    word = written.lower()
    return "thousand" if word == "000" else LETTERS.get(word, word.rstrip("s"))


def _marks(text: str) -> set[str]:
    """The currencies that a text names by sign, code or name."""
    signs = {SIGNS[match[0]] for match in re.finditer(rf"(?<![A-Za-z])(?:{BEFORE})", text)}
    codes = {
        currencies().get(code, "")
        for code in re.findall(r"\b(USD|EUR|GBP|JPY|CHF|CNY|CAD|AUD|INR|SEK|NOK|DKK)\b", text)
    }
    names = re.findall(
        r"\b((?:(?:u\.?s\.?|canadian|australian|hong kong|singapore|new zealand) )?dollars|euros?|pounds sterling"
        r"|sterling|(?:japanese )?yen|renminbi|swiss francs|(?:indian )?rupees)\b",
        text,
        re.IGNORECASE,
    )
    named = {currencies().get(name.casefold().replace("us ", "u.s. "), "") for name in names}
    return (signs | codes | named) - {""}


# --------
# Dates and periods.


def _read_date(said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _meant([*dates(text)], wanted)
    days = [each for each in found if len(each) == 10]
    found = days or found or _meant([(match.span(), match[0]) for match in DATE_YEAR.finditer(text)], wanted)
    return TypedValue(_the_one(found, "one date"))


def _meant(found: Sequence[tuple[Span, str]], wanted: Span | None) -> list[str]:
    """The different values, of those that touch the words that are meant where any do."""
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
    named = [each for each in periods(text) if each[1]]
    found = _meant(named, wanted) if wanted is None or _touching(named, wanted) else []
    if not found:
        found = _meant(dates(text), wanted)
    if not found:
        found = _meant([(match.span(), match[0]) for match in YEAR.finditer(text)], wanted)
    return TypedValue(_the_one(found or _meant(named, wanted), "one period"))


def _touching(found: Sequence[tuple[Span, str]], wanted: Span) -> bool:
    return any(start < wanted[1] and end > wanted[0] for (start, end), _ in found)


def _period_of(text: str, context: Context, place: int) -> str:
    """The time that an amount belongs to: as its own words say, else the head of its column, its sentence, or the
    question; "" where none of these names exactly one.
    """
    said = text if not context.verbatim else ""
    line = context.text[slice(*line_of(context.text, place))] if place >= 0 else ""
    above = []
    if place >= 0 and (column := _column(context.text, place)) is not None:
        above = [_cell(head, column) for head in _heads(context.text, line_of(context.text, place)[0])]
    for each in (said, *above, "" if _is_row(line) else line, context.question):
        found = {value for _, value in periods(each) if value} or {value for _, value in dates(each)}
        found = found or set(YEAR.findall(each))
        if len(found) == 1:
            return found.pop()
    return ""


def same_period(one: str, other: str) -> bool:
    """Whether two texts name the same time. A fiscal year is the year of its name and the twelve months to its end; a
    year that is not said to be fiscal may be either.
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
    if match is None:
        raise ValueError("yes or no was asked for, and it begins with neither")
    return TypedValue("yes" if match["yes"] else "no")


def _choice(said: str, choices: Sequence[str]) -> str:
    """The choice that is said: the whole of it, or the one that stands in it (of two within each other the longer)."""
    plain = _plain(said)
    for each in choices:
        if _plain(each) == plain:
            return each
    held = [each for each in choices if _plain(each) and re.search(rf"\b{re.escape(_plain(each))}\b", plain)]
    outer = [each for each in held if not any(_plain(each) in _plain(other) for other in held if other != each)]
    if len(outer) != 1:
        which = f"it names {' and '.join(outer)}" if outer else "it names none of them"
        raise ValueError(f"one of {', '.join(choices)} was asked for, and {which}")
    return outer[0]


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
