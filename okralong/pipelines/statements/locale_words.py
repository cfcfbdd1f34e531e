"""The words and signs with which a language writes numbers, currencies and dates.

Separators, months and names of currencies come from Unicode's CLDR (package babel), other words from
``configs/locales.yaml``. English has rules of its own (``amounts.py``, ``periods.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from babel import Locale, UnknownLocaleError
from babel.numbers import get_currency_name, get_currency_symbol
from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.statements.amounts import SCALES, SIGNS, currencies

FILE: Final = "locales.yaml"

WIDE: Final = {0xFF01 + at: 0x21 + at for at in range(94)} | {0x3000: 0x20, 0xFFE5: 0xA5, 0xFFE1: 0xA3}
"""Full-width digits and signs, with the characters that ``str.translate`` replaces them by."""
CJK: Final = frozenset(("zh", "ja"))
"""Languages whose words are not separated by spaces and whose dates are numbered."""


class Words(Settings):
    """The entry of a language in ``locales.yaml``.

    Attributes:
        scales: Words after a number, by scale.
        beside_currency: Letters of scales that count only beside a currency.
        currencies: More names of currencies, by ISO 4217 code.
        percent: Words after a percentage.
        basis_points: Words after basis points.
        fiscal: Patterns of words before a fiscal year.
        ended: Words between a fiscal year and its last day.
        ordinals: The words for first to fourth.
        quarter: Patterns of the word for a quarter.
        quarter_letter: The letter of quarters: "T3 2023".
        half: Patterns of the word for half a year.
        half_letter: The letter of halves.
        of: Words between a quarter and its year.
        months: The word for months.
        counts: Numbers of months in words.
        first: Words before "nine months of 2023".
        to: Words between two days or years.
        day_prefix: Forms of the first day of a month.
        day_first: Whether "1/2/2023" is in February.
        yes: Words for yes.
        no: Words for no.
    """

    scales: dict[str, list[str]] = Field(default_factory=dict)
    beside_currency: dict[str, list[str]] = Field(default_factory=dict)
    currencies: dict[str, list[str]] = Field(default_factory=dict)
    percent: list[str] = Field(default_factory=list)
    basis_points: list[str] = Field(default_factory=list)
    fiscal: list[str] = Field(default_factory=list)
    ended: list[str] = Field(default_factory=list)
    ordinals: list[list[str]] = Field(default_factory=list)
    quarter: list[str] = Field(default_factory=list)
    quarter_letter: str = "Q"
    half: list[str] = Field(default_factory=list)
    half_letter: str = "H"
    of: list[str] = Field(default_factory=list)
    months: list[str] = Field(default_factory=list)
    counts: dict[int, list[str]] = Field(default_factory=dict)
    first: list[str] = Field(default_factory=list)
    to: list[str] = Field(default_factory=list)
    day_prefix: list[str] = Field(default_factory=list)
    day_first: bool = True
    yes: list[str] = Field(default_factory=list)
    no: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _scales_are_known(self) -> Words:
        unknown = sorted({*self.scales, *self.beside_currency} - SCALES.keys())
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: no such scale; choose from {', '.join(filter(None, SCALES))}")
        return self


class Locales(Settings):
    """The content of ``locales.yaml``."""

    languages: dict[str, Words]


@cache
def _locales() -> Mapping[str, Words]:
    return load_config(Locales, FILE).languages


@dataclass(frozen=True, slots=True)
class LocaleWords:
    """A language's words, from ``locales.yaml`` and CLDR.

    Attributes:
        language: Its ISO 639-1 code.
        words: Its entry in ``locales.yaml``, or an empty one.
        decimal: Its decimal separator.
        groups: The characters that may separate thousands.
        currencies: Codes by sign, ISO code or name as written.
        months: Numbers by name in lower case without a point.
    """

    language: str
    words: Words
    decimal: str
    groups: str
    currencies: Mapping[str, str]
    months: Mapping[str, int]

    @property
    def scales(self) -> dict[str, str]:
        """The scales by word."""
        return {word: scale for scale, words in self.words.scales.items() for word in words}

    @property
    def letters(self) -> dict[str, str]:
        """The scales of letters beside a currency, and of the abbreviations of ``scales`` too."""
        letters = {word: scale for scale, words in self.words.beside_currency.items() for word in words}
        return self.scales | letters


@lru_cache(maxsize=64)
def locale_words(language: str) -> LocaleWords | None:
    """Return the words of a language, or None for English and for codes that CLDR does not know."""
    if language in ("", "en"):
        return None
    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        return None
    symbols = locale.number_symbols.get("latn", {})
    decimal, group = str(symbols.get("decimal", ".")), str(symbols.get("group", ","))
    words = _locales().get(language, Words())
    months = {
        str(name).lower().rstrip("."): number
        for form in locale.months.values()
        for width in ("wide", "abbreviated")
        for number, name in form.get(width, {}).items()
    }
    return LocaleWords(language, words, decimal, _groups(decimal, group), _currencies(locale, words), months)


_APOSTROPHES: Final = "'\u2019"
_SPACES: Final = "\u00a0\u202f\u2009"


def _groups(decimal: str, group: str) -> str:
    """Return the separators of thousands. Ordinary spaces count where the language writes a space."""
    own = " " if group in _SPACES else group
    other = "" if decimal == "." else "."
    return "".join(dict.fromkeys(own + other + _SPACES + _APOSTROPHES))


_NAMED_TEXT: Final = """USD EUR GBP JPY CHF CNY CAD AUD HKD SGD TWD KRW INR BRL MXN RUB TRY PLN CZK HUF SEK NOK DKK ZAR
AED SAR ILS"""
_NAMED: Final = tuple(_NAMED_TEXT.split())
"""Currencies whose names are read."""


def _currencies(locale: Locale, words: Words) -> dict[str, str]:
    found = {
        name: code
        for code in reversed(_NAMED)
        for name in (
            get_currency_name(code, None, locale),
            get_currency_name(code, 1, locale),
            get_currency_name(code, 2, locale),
        )
    }
    signs = {sign: code for sign, code in SIGNS.items() if not sign.islower() or sign in ("euros", "euro")}
    signs |= {get_currency_symbol(code, locale): code for code in reversed(_NAMED)}
    more = {name: code for code, names in words.currencies.items() for name in names}
    codes = {code: code for code in currencies().values() if len(code) == 3}
    if locale.language == "zh":
        signs |= {"\u00a5": "CNY"}
    return found | codes | signs | more


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern of any of the words, longer ones first; a space in a word matches any white space."""
    longest = sorted(set(words), key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s") for word in longest) or "(?!)"


def patterns(parts: Sequence[str]) -> str:
    """Return a pattern of any of the patterns of ``locales.yaml``."""
    return "|".join(parts) or "(?!)"
