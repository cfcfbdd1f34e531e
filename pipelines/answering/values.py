"""Numbers, money, percent, dates and periods as values: read from an answer and from the passage where it stands.

A filing writes "$(234,495)" in a table whose head says "in thousands": the amount is -234495000 US dollars. What the
words of the value leave open (scale, currency, sign, period) is taken from its line, from the heads above it in the
passage, and the period also from the question. What stays open is left empty, and what does not fit raises ValueError.

Names of currencies are those of Unicode's CLDR (the package babel). Dates are read here and not by dateutil, which
fills a month or day that is not there with today's.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Final

from babel import Locale
from babel.numbers import get_currency_name

from okralong.pipelines.core.types import TypedValue

Span = tuple[int, int]

SCALES: Final = {
    "": Decimal(1),
    "hundred": Decimal(100),
    "thousand": Decimal(1000),
    "lakh": Decimal(100_000),
    "million": Decimal(1_000_000),
    "crore": Decimal(10_000_000),
    "billion": Decimal(1_000_000_000),
    "trillion": Decimal(1_000_000_000_000),
}
"""By what a number is multiplied that stands with this word."""
_LETTERS: Final = {
    "k": "thousand",
    "m": "million",
    "mm": "million",
    "mn": "million",
    "mln": "million",
    "mil": "million",
    "b": "billion",
    "bn": "billion",
    "tn": "trillion",
    "cr": "crore",
}


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


def agrees(kind: str, said: TypedValue, gold: str) -> bool:
    """Whether a value is the one that a gold answer writes; amounts within the rounding of the gold one's last digit.

    A currency, a unit or a scale that the gold answer does not write is not asked for: a gold "234,495" agrees with
    234495000 that a table gave in thousands.
    """
    if kind in ("number", "money", "percent"):
        found = amounts(gold.strip()) or _in_words(gold)
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
# Amounts: numbers with what stands directly at them.


@lru_cache(maxsize=1)
def _currencies() -> dict[str, str]:
    """Codes of ISO 4217 by sign, code and English name, names in lower case."""
    locale = Locale("en")
    names = {name.casefold(): code for code, name in locale.currencies.items()}
    names |= {get_currency_name(code, 2, locale).casefold(): code for code in map(str, locale.currencies)}
    codes = {code: code for code in locale.currencies if code not in ("ALL", "SOS", "TOP", "XXX")}
    return names | codes | _SIGNS


_SIGNS: Final = {
    "US$": "USD",
    "U.S.$": "USD",
    "U.S. $": "USD",
    "$": "USD",
    "USD$": "USD",
    "C$": "CAD",
    "CA$": "CAD",
    "Cdn$": "CAD",
    "A$": "AUD",
    "AU$": "AUD",
    "NZ$": "NZD",
    "HK$": "HKD",
    "S$": "SGD",
    "NT$": "TWD",
    "R$": "BRL",
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "₩": "KRW",
    "₪": "ILS",
    "₽": "RUB",
    "₺": "TRY",
    "฿": "THB",
    "Rs.": "INR",
    "Rs": "INR",
    "RMB": "CNY",
    "Fr.": "CHF",
    "kr": "SEK",
    "dollars": "USD",
    "dollar": "USD",
    "u.s. dollars": "USD",
    "u.s. dollar": "USD",
    "euro": "EUR",
    "euros": "EUR",
    "pounds sterling": "GBP",
    "sterling": "GBP",
    "pounds": "GBP",
    "yen": "JPY",
    "renminbi": "CNY",
    "yuan": "CNY",
    "swiss francs": "CHF",
    "rupees": "INR",
}
_BEFORE: Final = "|".join(
    re.escape(sign)
    for sign in sorted((sign for sign in _SIGNS if not sign.islower() and sign != "kr"), key=len, reverse=True)
)
_WORD_SCALE: Final = r"hundred|thousand|lakh|million|crore|billion|trillion"
_MINUS: Final = "-\u2212\u2013"
_DIGITS: Final = (
    r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?(?![\d,])"  # 1,234,567.8 and 12,34,567
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"  # 1.234,5
    r"|\d{1,3}(?:[\u00a0\u202f\u2009'\u2019]\d{3})+(?:[.,]\d+)?"  # 1 234 567 with a hard blank, 1'234'567
    r"|\d+,\d{1,2}(?![\d,])|\d+(?:\.\d+)?|\.\d+"
)
_AMOUNT: Final = re.compile(
    rf"""
    (?<![\w.,/])(?:(?P<code>[A-Z]{{3}})\s?)?
    (?P<open>[(\[]\s?)?(?P<sign>[{_MINUS}+]\s?)?(?:(?P<code2>[A-Z]{{3}})\s)?(?P<mark>{_BEFORE})?\s?(?P<open2>\(\s?)?(?P<inner>[{_MINUS}]\s?)?
    (?P<digits>{_DIGITS})
    (?P<close>\s?[)\]])?
    (?:\s?(?P<percent>%|(?i:per\s?cent(?:age\spoints?)?|pct|pp)\b)|\s?(?P<basis>(?i:basis\spoints?|bps?)\b))?
    (?P<close2>\s?[)\]])?
    (?:[\s-]?(?:(?P<scale>(?i:{_WORD_SCALE}))s?|(?P<letter>mln|mil|bn|mn|mm|tn|cr|[kKmMbB]))\b)?
    (?P<close3>\s?[)\]])?
    (?![\w]|[.,]\d|-[a-z])
    """,
    re.VERBOSE,
)
_AFTER: Final = re.compile(r"\s?(?:of\s)?(?P<name>[A-Za-z.]+(?:\s[A-Za-z.]+){0,2})")
_IN_SCALE: Final = re.compile(rf"[\s,]*\(?\s?in\s(?:[a-z.]+\s){{0,2}}?(?P<scale>{_WORD_SCALE})s?\b", re.IGNORECASE)
_NO_COUNT: Final = frozenset(
    [
        "in",
        "of",
        "for",
        "at",
        "as",
        "and",
        "or",
        "to",
        "by",
        "on",
        "the",
        "a",
        "an",
        "was",
        "were",
        "is",
        "are",
        "from",
        "with",
        "than",
        "during",
        "per",
        "compared",
        "respectively",
        "which",
        "that",
        "since",
        "over",
        "under",
        "after",
        "before",
        "due",
        "while",
        "including",
        "excluding",
        "through",
        "until",
    ]
)
_WORDS: Final = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_IN_WORDS: Final = re.compile(
    rf"\b(?P<word>{'|'.join(reversed(_WORDS))}|nil)\b(?:\s(?P<scale>{_WORD_SCALE}))?(?:\s(?P<percent>per\s?cent))?",
    re.I,
)
_DASH: Final = re.compile(rf"(?:{_BEFORE})?\s*[{_MINUS}\u2014]+\s*%?")
"""How a table writes that there is nothing."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as written at ``start:end``: ``digits`` with its sign, ``places`` of them after the point. Basis points
    stand as percent. ``bracketed`` says that brackets stand around it, ``year`` that it may be a year.
    """

    start: int
    end: int
    digits: Decimal
    places: int
    unit: str = ""
    scale: str = ""
    currency: str = ""
    bracketed: bool = False
    year: bool = False

    @property
    def factor(self) -> Decimal:
        """By what the digits are multiplied."""
        return SCALES[self.scale]

    @property
    def key(self) -> tuple[Decimal, str, str]:
        """What two ways to write the same amount have in common."""
        return self.digits * self.factor, self.unit, self.currency


def amounts(text: str) -> list[Amount]:
    """The numbers of a text in their order, with sign, percent, scale and currency that stand at them."""
    return [_amount(text, match) for match in _AMOUNT.finditer(text)]


def _amount(text: str, match: re.Match[str]) -> Amount:
    digits = _decimal(match["digits"])
    percent = bool(match["percent"] or match["basis"])
    if match["basis"]:
        digits /= 100
    letter = match["letter"] or ""
    currency = _SIGNS.get(match["mark"] or "", "")
    start, end = match.span()
    apart = False
    if code := match["code"] or match["code2"]:
        currency = _currencies().get(code, "") or currency
        if code not in _currencies():  # other capitals: what stands before them is not the number's
            start, apart = match.end("code" if match["code"] else "code2"), bool(match["code2"])
    after = _AFTER.match(text, end)
    if not currency and after is not None:
        currency, end = _named(text, after, end)
    # A lone small letter is a scale only of money: 5 m may be metres.
    lettered = len(letter) > 1 or (letter and (currency or letter.isupper()))
    scale = (match["scale"] or "").lower() or (_LETTERS[letter.lower()] if lettered else "")
    if not scale and (told := _IN_SCALE.match(text, end)) is not None:
        scale, end = told["scale"].lower(), told.end()
    opened = bool((match["open"] and not apart) or match["open2"])
    bracketed = opened and bool(match["close"] or match["close2"] or match["close3"])
    if opened and not bracketed and (closed := re.compile(r"\s?[)\]]").match(text, end)) is not None:
        bracketed, end = True, closed.end()  # "(5 dollars)"
    # "($5 million)" and "(12 %)" in a sentence are asides; "$(5)" and "(5)" are below zero, and so is a whole cell.
    aside = bool(match["open"]) and bool(scale or percent or currency) and bool(_prose(text, start, end))
    if bracketed and (match["open2"] or not aside):
        digits = -abs(digits)
    if (match["sign"] and match["sign"][0] in _MINUS and not apart) or match["inner"]:
        digits = -abs(digits)
    plain = re.fullmatch(r"(?:19|20)\d\d", match["digits"]) is not None and not (percent or scale or currency)
    places = max(0, -int(digits.as_tuple().exponent))
    return Amount(start, end, digits, places, "%" if percent else "", scale, currency, bracketed, plain)


def _prose(text: str, start: int, end: int) -> bool:
    """Whether what stands at these characters is part of a sentence and no cell."""
    first, last = _line(text, start)
    return _SAYS.search(text[first:start] + text[end:last]) is not None and not _has_cells(text[first:last])


def _named(text: str, after: re.Match[str], end: int) -> tuple[str, int]:
    """The currency whose name or code follows a number, and where it ends."""
    words = after["name"].rstrip(".").split()
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count])
        code = _currencies().get(name if len(name) == 3 and name.isupper() else name.casefold())
        if code is not None:
            return code, after.start("name") + len(name)
    return "", end


def _decimal(written: str) -> Decimal:
    plain = re.sub(r"[\u00a0\u202f\u2009'\u2019]", "", written)
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d+,\d{1,2}", plain):
        plain = plain.replace(",", ".")
    return Decimal(plain.replace(",", ""))


def _in_words(text: str) -> list[Amount]:
    """Small numbers in words: "twelve", "two million"."""
    found = []
    for match in _IN_WORDS.finditer(text):
        word = match["word"].lower()
        digits = Decimal(0 if word == "nil" else _WORDS.index(word))
        unit, scale = "%" if match["percent"] else "", (match["scale"] or "").lower()
        found.append(Amount(*match.span(), digits, 0, unit, scale))
    return found


def _read_amount(kind: str, said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _candidates(kind, text, wanted)
    if not found:
        if _DASH.fullmatch(said.strip()):
            found = [Amount(0, 0, Decimal(0), 0)]
        else:
            raise ValueError(f"{_NAMED[kind]} was asked for, and there is none in it")
    if len({each.key for each in found}) > 1:
        several = ", ".join(text[each.start : each.end].strip() for each in found[:4])
        raise ValueError(f"{_NAMED[kind]} was asked for, and it has several: {several}")
    one = max(found, key=lambda each: (bool(each.scale), bool(each.currency)))
    place = _place(said, text, one, context)
    if place >= 0:
        one = _completed(kind, one, context.text, place)
    if kind == "percent" and not one.unit:
        one = replace(one, unit="%")
    number = one.digits * (1 if one.unit == "%" else one.factor)
    unit = one.unit or ("" if kind == "money" or one.currency else _counted(text, one.end))
    scale = "" if one.unit == "%" else one.scale
    period = _period_of(text, context, place)
    return TypedValue(_written(number), float(number), unit, scale, one.currency, period)


_NAMED: Final = {"number": "one number", "money": "one amount of money", "percent": "one percentage"}


def _around(said: str, context: Context) -> tuple[str, Span | None]:
    """The text in which to look for a value, and the characters of it that are meant: read words belong to a line."""
    if not context.verbatim or context.start < 0:
        return said, None
    first, last = _line(context.text, context.start)
    last = max(last, context.end)
    return context.text[first:last], (context.start - first, context.end - first)


def _candidates(kind: str, text: str, wanted: Span | None) -> list[Amount]:
    """The amounts that may be meant, of the kind that is asked for where there are any."""
    found = amounts(text) or _in_words(text)
    if wanted is not None:
        touched = [each for each in found if each.start < wanted[1] and each.end > wanted[0]]
        found = touched or found
    # "$ -6.2 ( 6.2 )": FinQA's files write a cell twice, with its sign and as it stood.
    pairs = pairwise([None, *found])
    found = [
        each for last, each in pairs if each and not (last and each.bracketed and abs(last.digits) == abs(each.digits))
    ]
    taken = [span for span, _ in [*_periods(text), *_dates(text)]]
    free = [each for each in found if not any(start < each.end and each.start < end for start, end in taken)]
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


def _counted(text: str, end: int) -> str:
    """The word or two for what a number counts: "employees", "shares"."""
    words = []
    for word in re.findall(r"\s*([A-Za-z][A-Za-z-]*|\S)", text[end : end + 60])[:2]:
        if not word[0].isalpha() or word.lower() in _NO_COUNT:
            break
        words.append(word)
    return " ".join(words)


# --------
# What the passage says of an amount: its line, the heads of its table.

_MARKED: Final = rf"(?:{_BEFORE})"
_HEAD: Final = re.compile(
    rf"""
    \bin\s(?:[A-Za-z.$€£]+\s){{0,3}}?(?P<a>(?:{_WORD_SCALE})s?)\b
    | \b(?P<b>(?:{_WORD_SCALE})s)\sof\s(?:[A-Za-z.]+\s){{0,2}}(?:dollars?|euros?|yen|pounds|francs|rupees|yuan|kron)
    | {_MARKED}['\u2018\u2019]?\s?(?:in\s)?(?P<c>(?:{_WORD_SCALE})s?|bn|mn|mm|m|k|b)\b
    | (?<![\d,.\w])['\u2018\u2019]?(?P<d>000)(?:['\u2018\u2019]?s\b|\b)(?![.,]\d)
    | {_MARKED}['\u2018\u2019]?(?P<e>000)(?:['\u2018\u2019]?s)?\b
    | \(\s*(?P<f>(?:{_WORD_SCALE})s?|mn|mm|bn)\s*\)
    | (?:[a-z]+,?\s)(?P<g>(?:{_WORD_SCALE})s)\b(?=[^\n]{{0,30}}(?:\)|except|\n|$))
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
_SHARES_IN: Final = re.compile(rf"\b(?:shares|units)\sin\s(?:{_WORD_SCALE})s\b", re.IGNORECASE)
_SENTENCE_WORDS: Final = 12
_SAYS: Final = re.compile(
    r"\b(?:was|were|is|are|has|had|have|will|be|been|paid|received|we|it|which|that|grew|rose|fell|increased|decreased)\b",
    re.IGNORECASE,
)
"""Words of sentences, which the label of a row has hardly ever."""


def _line(text: str, at: int) -> Span:
    last = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if last < 0 else last


def _is_row(line: str) -> bool:
    """Whether a line is a table's row: it has cells, or figures and few words, and does not end as a sentence does."""
    if _has_cells(line):
        return True
    words = re.findall(r"[A-Za-z]{2,}", line)
    return (
        len(words) <= _SENTENCE_WORDS
        and not line.rstrip().endswith((".", ";", "?", "!"))
        and bool(re.search(r"\d", line))
    )


def _has_cells(line: str) -> bool:
    return "|" in line or "\t" in line or re.search(r"\S\s{2,}[$€£(\d]", line) is not None


def _place(said: str, text: str, one: Amount, context: Context) -> int:
    """Where the amount stands in the passage, in the cited characters before all others; -1 where it does not."""
    if context.verbatim and context.start >= 0:
        return _line(context.text, context.start)[0] + one.start
    digits = _AMOUNT.search(text, one.start)
    if not context.text or digits is None:
        return -1
    same = re.compile(rf"(?<![\d.,]){re.escape(digits['digits'])}(?![\d]|[.,]\d)")
    if context.start >= 0 and (found := same.search(context.text, context.start, context.end)) is not None:
        return found.start()
    found = same.search(context.text)
    return -1 if found is None else found.start()


def _completed(kind: str, one: Amount, text: str, place: int) -> Amount:
    """``one`` with the scale and the currency that its passage says where it does not itself."""
    first, last = _line(text, place)
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
    lines = text[:before].split("\n")[-80:]
    return [line for line in reversed(lines) if line.strip() and not _has_amounts(line)]


def _has_amounts(line: str) -> bool:
    dated = [span for span, _ in [*_periods(line), *_dates(line)]]
    return any(
        not each.year
        and not any(start < each.end and each.start < end for start, end in dated)
        and not (each.bracketed and abs(each.digits) < 20 and not each.currency)
        for each in amounts(_HEAD.sub(lambda match: " " * len(match[0]), line))
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
    first, last = _line(text, place)
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
    return "thousand" if word == "000" else _LETTERS.get(word, word.rstrip("s"))


def _marks(text: str) -> set[str]:
    """The currencies that a text names by sign, code or name."""
    signs = {_SIGNS[match[0]] for match in re.finditer(rf"(?<![A-Za-z])(?:{_BEFORE})", text)}
    codes = {
        _currencies().get(code, "")
        for code in re.findall(r"\b(USD|EUR|GBP|JPY|CHF|CNY|CAD|AUD|INR|SEK|NOK|DKK)\b", text)
    }
    names = re.findall(
        r"\b((?:(?:u\.?s\.?|canadian|australian|hong kong|singapore|new zealand) )?dollars|euros?|pounds sterling"
        r"|sterling|(?:japanese )?yen|renminbi|swiss francs|(?:indian )?rupees)\b",
        text,
        re.IGNORECASE,
    )
    named = {_currencies().get(name.casefold().replace("us ", "u.s. "), "") for name in names}
    return (signs | codes | named) - {""}


# --------
# Dates and periods.

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
_YEAR: Final = re.compile(r"(?<![\w.,$€£/-])(?:19|20)\d\d(?![\w%]|[.,]\d|-\d)")


def _dates(text: str) -> list[tuple[Span, str]]:
    """Days and months in a text, in ISO 8601."""
    found = []
    for match in _DATE.finditer(text):
        year, month, day = (_part(match, name) for name in ("year", "month", "day"))
        if match["one"]:
            # Americans write the month first; a first number beyond twelve, or a full stop, is a day.
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


def _read_date(said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    found = _meant([*_dates(text)], wanted)
    days = [each for each in found if len(each) == 10]
    found = days or found or _meant([(match.span(), match[0]) for match in _YEAR.finditer(text)], wanted)
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


_COUNTS: Final = {"three": 3, "six": 6, "nine": 9, "twelve": 12, "eighteen": 18, "thirteen": 13, "fifty-two": 52}
_ORDINALS: Final = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_DAY: Final = (
    rf"(?:{_MONTH}\s\d{{1,2}}\s?,?\s?(?:19|20)\d\d|\d{{1,2}}\s{_MONTH},?\s(?:19|20)\d\d|(?:19|20)\d\d-\d\d-\d\d)"
)
_TO: Final = r"\s?(?:\bto\b|\bthrough\b|\buntil\b|\band\b|[-\u2013\u2014])\s?"
_PERIOD: Final = re.compile(
    rf"""
    (?:(?P<count>\d{{1,2}}|{"|".join(_COUNTS)})[\s-](?P<what>month|week)s?|(?P<whole>(?:fiscal\s|financial\s)?year
      |quarter(?:ly\speriod)?|half[\s-]year|month)s?)(?:[\s-]periods?)?\s(?:ended|ending|to)\s(?:on\s)?(?P<end>{_DAY})
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


def _periods(text: str) -> list[tuple[Span, str]]:
    """Spans of time that a text names as such, in their one written form."""
    return [(match.span(), _written_period(match)) for match in _PERIOD.finditer(text)]


def _written_period(match: re.Match[str]) -> str:
    if match["end"]:
        end = _dates(match["end"])
        if not end:
            return ""
        if match["count"]:
            count = _COUNTS.get(match["count"].lower()) or int(match["count"])
            if match["what"].lower() == "week":  # quarters and years of retailers
                return f"{'year' if count > 50 else f'{count} weeks'} to {end[0][1]}"
        else:
            word = match["whole"].lower()
            count = 6 if "half" in word else 12 if "year" in word else 3 if "quarter" in word else 1
        return f"{'year' if count == 12 else f'{count} months' if count > 1 else 'month'} to {end[0][1]}"
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
    first, last = (dict(_dates(each)).get((0, len(each)), each) for each in (match["from"], match["until"]))
    return f"{first} to {last}" if first < last else ""


def _full_year(written: str) -> str:
    year = written.strip("'")
    return year if len(year) == 4 else f"20{year}"


def _read_period(said: str, context: Context) -> TypedValue:
    text, wanted = _around(said, context)
    periods = [each for each in _periods(text) if each[1]]
    found = _meant(periods, wanted) if wanted is None or _touching(periods, wanted) else []
    if not found:
        found = _meant(_dates(text), wanted)
    if not found:
        found = _meant([(match.span(), match[0]) for match in _YEAR.finditer(text)], wanted)
    return TypedValue(_the_one(found or _meant(periods, wanted), "one period"))


def _touching(found: Sequence[tuple[Span, str]], wanted: Span) -> bool:
    return any(start < wanted[1] and end > wanted[0] for (start, end), _ in found)


def _period_of(text: str, context: Context, place: int) -> str:
    """The time that an amount belongs to: as its own words say, else the head of its column, its sentence, or the
    question; "" where none of these names exactly one.
    """
    said = text if not context.verbatim else ""
    line = context.text[slice(*_line(context.text, place))] if place >= 0 else ""
    above = []
    if place >= 0 and (column := _column(context.text, place)) is not None:
        above = [_cell(head, column) for head in _heads(context.text, _line(context.text, place)[0])]
    for each in (said, *above, "" if _is_row(line) else line, context.question):
        found = {value for _, value in _periods(each) if value} or {value for _, value in _dates(each)}
        found = found or set(_YEAR.findall(each))
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
    return first == second or bool(_forms(first) & _forms(second))


def _read_or_none(text: str) -> str | None:
    try:
        return _read_period(text, NOWHERE).value
    except ValueError:
        return None


def _forms(period: str) -> set[str]:
    """What a written period may be called: "year to 2023-06-30" also "FY2023"."""
    forms = {period, period.replace("FY", "")}
    if (year := re.fullmatch(r"year to (\d{4})-\d\d-\d\d", period)) is not None:
        forms |= {year[1]}
    if re.fullmatch(r"\d{4}", period):
        forms.add(f"year to {period}-12-31")
    if (quarter := re.fullmatch(r"3 months to (\d{4})-(03-31|06-30|09-30|12-31)", period)) is not None:
        forms.add(f"Q{int(quarter[2][:2]) // 3} {quarter[1]}")
    return forms


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
