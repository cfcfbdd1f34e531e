"""Find the numbers in a text of another language than English: "1.234,5 Mio. €", "1 234,5 M€", "12.3亿元".

The language decides whether a comma or point separates thousands or decimals: "1.234" is 1234 in German. A number that
can be read in one way only is read so in every language.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.amounts import SCALES, WORD_SCALE, Amount, amounts, has_cells, line_of
from okralong.pipelines.statements.locale_words import CJK, WIDE, LocaleWords, alternatives, locale_words
from okralong.pipelines.statements.periods import matches

_MINUS: Final = "-\u2212\u2013\u25b2\u25b3"


def amounts_in(text: str, language: str = "en") -> list[Amount]:
    """Return the numbers of a text in a language, in order; see ``amounts``."""
    words = locale_words(language)
    if words is None:
        return amounts(text)
    reader = _reader(words.language)
    plain = text.translate(WIDE) if language in CJK else text
    return [reader.amount(plain, match) for match in matches(reader.pattern, plain)]


@lru_cache(maxsize=64)
def _reader(language: str) -> _Reader:
    words = locale_words(language)
    assert words is not None
    return _Reader(words, re.compile(_pattern(words), re.VERBOSE))


def _pattern(words: LocaleWords) -> str:
    cjk = words.language in CJK
    edge = "A-Za-z\\d_" if cjk else "\\w"
    group = f"[{re.escape(words.groups)}]"
    decimal = re.escape(words.decimal)
    other = re.escape("." if words.decimal == "," else ",")
    currency, scale = alternatives(words.currencies), alternatives(words.scales)
    letter = alternatives(words.letters)
    percent, basis = alternatives(words.words.percent), alternatives(words.words.basis_points)
    end_of_word, end_of_name = ("", "") if cjk else (r"(?!\w)", r"(?![a-z\u00e0-\u00ff])")
    # Scales of Chinese and Japanese may follow each other: 1兆2,345億円.
    more = rf"(?:(?:{scale})\s?(?P<lower>\d[\d,.]*)\s?)?" if cjk else ""
    return rf"""
    (?<![{edge}.,/])
    (?P<open>[(\[]\s?)?(?P<sign>[{_MINUS}+]\s?)?
    (?:(?P<before>(?:(?P<pre>{letter})\s?)?(?P<mark>{currency}))\s?(?P<sign2>[{_MINUS}+]\s?)?)?
    (?P<digits>
      \d{{1,3}}(?:(?P<by>{group})\d{{3}})(?:(?P=by)\d{{3}})*(?:{decimal}\d+)?(?![\d])
      | \d{{1,3}}(?:{other}\d{{3}}){{2,}}(?:{decimal}\d+)? | \d{{1,3}}(?:,\d{{3}})+\.\d+ | \d+{decimal}\d+
      | \d+(?:[.,]\d+)?
    )
    (?P<close>\s?[)\]])?
    {more}
    (?:\s?(?:(?P<percent>%|(?:{percent}){end_of_word})|(?P<basis>(?:{basis}){end_of_word})))?
    (?:[\s-]?(?:(?P<scale>{scale})|(?P<english>(?:{WORD_SCALE})s?)){end_of_word})?
    (?:\s?(?P<letter>{letter})(?=\s?(?:{currency})))?
    (?:\s?(?:de\s|d['\u2019])?(?P<after>{currency}){end_of_name})?
    (?P<close2>\s?[)\]])?
    (?![{edge}]|[.,]\d)
    """


@dataclass(frozen=True, slots=True)
class _Reader:
    words: LocaleWords
    pattern: re.Pattern[str]

    def amount(self, text: str, match: re.Match[str]) -> Amount:
        written, scale = match["digits"], self._scale(match)
        digits = self._decimal(written)
        if lower := match.groupdict().get("lower"):
            digits, scale = self._joined(match, digits, lower, scale)
        if match["basis"]:
            digits /= 100
        percent = bool(match["percent"] or match["basis"])
        currency = self._currency(match)
        bracketed = bool(match["open"] and (match["close"] or match["close2"]))
        aside = bool(bracketed and (scale or percent or currency)) and not has_cells(
            text[slice(*line_of(text, match.start()))]
        )
        sign = match["sign"] or match["sign2"] or ""
        if sign[:1] in tuple(_MINUS) or (bracketed and not aside):
            digits = -abs(digits)
        places = max(0, -int(digits.as_tuple().exponent))
        year = not (percent or scale or currency) and re.fullmatch(r"(?:19|20)\d\d", written) is not None
        return Amount(
            match.start(), match.end(), digits, places, "%" if percent else "", scale, currency, bracketed, year
        )

    def _scale(self, match: re.Match[str]) -> str:
        if match["english"]:
            return str(match["english"]).rstrip("s")
        word = match["scale"] or match["letter"] or match["pre"]
        return self.words.letters.get(word, "") if word else ""

    def _currency(self, match: re.Match[str]) -> str:
        named = match["after"] or match["mark"]
        return self.words.currencies.get(named, "") if named else ""

    def _joined(self, match: re.Match[str], digits: Decimal, lower: str, scale: str) -> tuple[Decimal, str]:
        """Return the sum of two parts in the scale of the second: 1兆2,345億 is 12,345億."""
        between = match.string[match.end("digits") : match.start("lower")].strip()
        first = SCALES[self.words.scales[between]] / SCALES[scale]
        return digits * first + self._decimal(lower), scale

    def _decimal(self, written: str) -> Decimal:
        """Return the number; the language decides only where both readings are possible."""
        plain = re.sub(r"[\s'\u2019\u00a0\u202f\u2009]", "", written)
        points, commas = plain.count("."), plain.count(",")
        decimal = self.words.decimal
        if points and commas:
            decimal = max(".,", key=plain.rindex)
        elif points > 1 or commas > 1:
            decimal = "," if points else "."
        elif points or commas:
            mark = "." if points else ","
            whole, after = plain.split(mark)
            if mark != decimal and not (len(after) == 3 and 1 <= len(whole) <= 3 and whole != "0"):
                decimal = mark
        other = "," if decimal == "." else "."
        return Decimal(plain.replace(other, "").replace(decimal, "."))
