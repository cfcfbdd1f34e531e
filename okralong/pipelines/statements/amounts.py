"""Find the numbers in a text, with their sign, brackets, percent, scale and currency.

Currency names come from Unicode's CLDR (package babel).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from babel import Locale
from babel.numbers import get_currency_name

from okralong.pipelines.statements.periods import Span, matches

UNKNOWN: Final = "unknown"
"""The scale of a cell's amount if its table states none; the number is as printed and must not be taken for units."""
UNSCALED: Final = "scale unknown"
"""How a written amount says that its scale is unknown."""
SCALES: Final = {
    "": Decimal(1),
    UNKNOWN: Decimal(1),
    "cent": Decimal("0.01"),
    "hundred": Decimal(100),
    "thousand": Decimal(1000),
    "ten thousand": Decimal(10_000),
    "lakh": Decimal(100_000),
    "million": Decimal(1_000_000),
    "ten million": Decimal(10_000_000),
    "crore": Decimal(10_000_000),
    "hundred million": Decimal(100_000_000),
    "billion": Decimal(1_000_000_000),
    "trillion": Decimal(1_000_000_000_000),
}
"""The factor of each scale."""
LETTERS: Final = {
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


_SIGNS_BY_CODE: Final = {
    "USD": ("US$", "U.S.$", "U.S. $", "$", "USD$", "dollars", "dollar", "u.s. dollars", "u.s. dollar"),
    "CAD": ("C$", "CA$", "Cdn$"),
    "AUD": ("A$", "AU$"),
    "NZD": ("NZ$",),
    "HKD": ("HK$",),
    "SGD": ("S$",),
    "TWD": ("NT$",),
    "BRL": ("R$",),
    "EUR": ("€", "euro", "euros"),
    "GBP": ("£", "pounds sterling", "sterling", "pounds"),
    "JPY": ("¥", "yen"),
    "INR": ("₹", "Rs.", "Rs", "rupees"),
    "KRW": ("₩",),
    "ILS": ("₪",),
    "RUB": ("₽",),
    "TRY": ("₺",),
    "THB": ("฿",),
    "CNY": ("RMB", "renminbi", "yuan"),
    "CHF": ("Fr.", "swiss francs"),
    "SEK": ("kr",),
}
SIGNS: Final = {sign: code for code, signs in _SIGNS_BY_CODE.items() for sign in signs}


@lru_cache(maxsize=1)
def currencies() -> dict[str, str]:
    """Map signs, codes and lower-case English names of currencies to ISO 4217 codes."""
    locale = Locale("en")
    names = {name.casefold(): code for code, name in locale.currencies.items()}
    names |= {get_currency_name(code, 2, locale).casefold(): code for code in map(str, locale.currencies)}
    codes = {code: code for code in locale.currencies if code not in ("ALL", "SOS", "TOP", "XXX")}
    return names | codes | SIGNS


BEFORE: Final = "|".join(
    re.escape(sign)
    for sign in sorted((sign for sign in SIGNS if not sign.islower() and sign != "kr"), key=len, reverse=True)
)
WORD_SCALE: Final = r"hundred|thousand|lakh|million|crore|billion|trillion"
_MINUS: Final = "-\u2212\u2013"
_DIGITS: Final = (
    r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?(?![\d,])"  # 1,234,567.8 and 12,34,567
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"  # 1.234,5
    r"|\d{1,3}(?:[\u00a0\u202f\u2009'\u2019]\d{3})+(?:[.,]\d+)?"  # 1 234 567 with a no-break space, 1'234'567
    r"|\d+,\d{1,2}(?![\d,])|\d+(?:\.\d+)?|\.\d+"
)
AMOUNT: Final = re.compile(
    rf"""
    (?<![\w.,/])(?:(?P<code>[A-Z]{{3}})\s?)?
    (?P<open>[(\[]\s?)?(?P<sign>[{_MINUS}+]\s?)?(?:(?P<code2>[A-Z]{{3}})\s)?(?P<mark>{BEFORE})?\s?(?P<open2>\(\s?)?(?P<inner>[{_MINUS}]\s?)?
    (?P<digits>{_DIGITS})
    (?P<close>\s?[)\]])?
    (?:\s?(?P<percent>%|(?i:per\s?cent(?:age\spoints?)?|pct|pp)\b)|\s?(?P<basis>(?i:basis\spoints?|bps?)\b))?
    (?P<close2>\s?[)\]])?
    (?:[\s-]?(?:(?P<scale>(?i:{WORD_SCALE}))s?|(?P<letter>mln|mil|bn|mn|mm|tn|cr|[kKmMbB]))\b)?
    (?P<close3>\s?[)\]])?
    (?![\w]|[.,]\d|-[a-z])
    """,
    re.VERBOSE,
)
_AFTER: Final = re.compile(r"\s?(?:of\s)?(?P<name>[A-Za-z.]+(?:\s[A-Za-z.]+){0,2})")
_IN_SCALE: Final = re.compile(rf"[\s,]*\(?\s?in\s(?:[a-z.]+\s){{0,2}}?(?P<scale>{WORD_SCALE})s?\b", re.IGNORECASE)
NO_COUNT: Final = frozenset(
    [
        *("in", "of", "for", "at", "as", "and", "or", "to", "by", "on", "the", "a", "an", "was", "were", "is", "are"),
        *(
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
        ),
        *("under", "after", "before", "due", "while", "including", "excluding", "through", "until"),
    ]
)
"""Words after a number that do not name what it counts."""
_WORDS: Final = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_IN_WORDS: Final = re.compile(
    rf"\b(?P<word>{'|'.join(reversed(_WORDS))}|nil)\b(?:\s(?P<scale>{WORD_SCALE}))?(?:\s(?P<percent>per\s?cent))?",
    re.I,
)
DASH: Final = re.compile(rf"(?:{BEFORE})?\s*[{_MINUS}\u2014]+\s*%?")
"""The dash that tables write in an empty cell."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number as written at ``start:end``.

    ``digits`` is the signed number without its scale, with ``places`` decimals; basis points are converted to percent.
    ``bracketed`` is true for a number in brackets, ``year`` for one that may be a year.
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
    def place(self) -> Span:
        """The span of its characters."""
        return self.start, self.end

    @property
    def factor(self) -> Decimal:
        """The factor of its scale."""
        return SCALES[self.scale]

    @property
    def key(self) -> tuple[Decimal, str, str]:
        """The full value, unit and currency; equal for two spellings of the same amount."""
        return self.digits * self.factor, self.unit, self.currency


def amounts(text: str) -> list[Amount]:
    """Return the numbers of a text in order, with their sign, percent, scale and currency."""
    lines = _Lines(text)
    return [_amount(text, match, lines) for match in matches(AMOUNT, text)]


def _amount(text: str, match: re.Match[str], lines: _Lines) -> Amount:
    start, end, currency, detached = _currency_at(text, match)
    scale, end = _scale_at(text, match, start, end, bool(currency))
    percent = bool(match["percent"] or match["basis"])
    opened = bool((match["open"] and not detached) or match["open2"])
    bracketed = opened and bool(match["close"] or match["close2"] or match["close3"])
    if opened and not bracketed and (closed := _CLOSING.match(text, end)) is not None:
        bracketed, end = True, closed.end()  # "(5 dollars)"
    # "($5 million)" and "(12 %)" in a sentence are asides. "$(5)", "(5)" and a table cell that is wholly in brackets
    # are negative.
    aside = bool(match["open"] and (scale or percent or currency)) and lines.is_prose(start, end)
    signed = match["inner"] or (match["sign"] and match["sign"][0] in _MINUS and not detached)
    digits = _decimal(match["digits"])
    if match["basis"]:
        digits /= 100
    if signed or (bracketed and (match["open2"] or not aside)):
        digits = -abs(digits)
    places = max(0, -int(digits.as_tuple().exponent))
    year = not (percent or scale or currency) and _YEAR_DIGITS.fullmatch(match["digits"]) is not None
    return Amount(start, end, digits, places, "%" if percent else "", scale, currency, bracketed, year)


_CLOSING: Final = re.compile(r"\s?[)\]]")
_YEAR_DIGITS: Final = re.compile(r"(?:19|20)\d\d")


def _currency_at(text: str, match: re.Match[str]) -> tuple[int, int, str, bool]:
    """Return an amount's start, end, currency, and whether it was detached from the capitals before it.

    Capitals that are not a currency code do not belong to the amount, nor do a sign and bracket before them.
    """
    start, end = match.span()
    currency, detached = SIGNS.get(match["mark"] or "", ""), False
    if code := match["code"] or match["code2"]:
        currency = currencies().get(code, "") or currency
        if code not in currencies():
            start, detached = match.end("code" if match["code"] else "code2"), bool(match["code2"])
    after = None if currency else _AFTER.match(text, end)
    if after is not None:
        currency, end = _named(after, end)
    return start, end, currency, detached


def _scale_at(text: str, match: re.Match[str], start: int, end: int, money: bool) -> tuple[str, int]:
    """Return the scale written after a number ("" if none), and where the amount ends."""
    letter, scale = match["letter"] or "", (match["scale"] or "").lower()
    if len(letter) > 1 or (letter and (money or letter.isupper())):
        scale = scale or LETTERS[letter.lower()]
    elif letter:  # a lone lower-case letter is a scale only after money: 5 m may be meters
        end = start + len(text[start : match.start("letter")].rstrip(" -"))
    if not scale and (told := _IN_SCALE.match(text, end)) is not None:
        return told["scale"].lower(), told.end()
    return scale, end


class _Lines:
    """Tells sentences from table cells. Amounts are passed in order, so that each line is examined once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last = -1
        self._says: tuple[int, int] | None = None

    def is_prose(self, start: int, end: int) -> bool:
        """Return whether a span is part of a sentence, not of a table cell."""
        if start > self._last:
            first, self._last = line_of(self._text, start)
            said = [match.span() for match in _SAYS.finditer(self._text, first, self._last)]
            self._says = None
            if said and not has_cells(self._text[first : self._last]):
                self._says = said[0][1], said[-1][0]
        return self._says is not None and (self._says[0] <= start or self._says[1] >= end)


def _named(after: re.Match[str], end: int) -> tuple[str, int]:
    """Return the currency whose name or code follows a number, and where it ends."""
    words = after["name"].rstrip(".").split()
    for count in range(len(words), 0, -1):
        name = " ".join(words[:count])
        code = currencies().get(name if len(name) == 3 and name.isupper() else name.casefold())
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


def in_words(text: str) -> list[Amount]:
    """Return small numbers that are spelled out: "twelve", "two million"."""
    found = []
    for match in _IN_WORDS.finditer(text):
        word = match["word"].lower()
        digits = Decimal(0 if word == "nil" else _WORDS.index(word))
        unit, scale = "%" if match["percent"] else "", (match["scale"] or "").lower()
        found.append(Amount(*match.span(), digits, 0, unit, scale))
    return found


_SAYS: Final = re.compile(
    r"\b(?:was|were|is|are|has|had|have|will|be|been|paid|received|we|it|which|that|grew|rose|fell|increased|decreased)\b",
    re.IGNORECASE,
)
"""Words that occur in sentences but hardly ever in row labels."""


def line_of(text: str, at: int) -> Span:
    """Return the span of the line at ``at``, without its line break."""
    last = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if last < 0 else last


def has_cells(line: str) -> bool:
    """Return whether a line looks like a table's row: it has bars, tabs, or a gap before a number."""
    return "|" in line or "\t" in line or re.search(r"\S\s{2,}[$€£(\d]", line) is not None


def plain(number: Decimal) -> str:
    """Return the exact decimal without an exponent or trailing zeros."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) if number else "0"
