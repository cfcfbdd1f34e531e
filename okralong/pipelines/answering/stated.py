"""Refuse typed values that the passages do not state: amounts by value, dates and periods by their year.

Small models copy the example in the prompt's contract, and large ones recall figures from elsewhere. The result of a
calculation is accepted if its operands are in the passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from functools import cached_property
from itertools import permutations
from typing import Final

from okralong.pipelines.answering.analyzers.rules import ARITHMETIC
from okralong.pipelines.answering.answer_types import AMOUNTS
from okralong.pipelines.answering.calculator import in_english
from okralong.pipelines.answering.support import Figures, Sought
from okralong.pipelines.core.types import Passage
from okralong.pipelines.statements.amounts import Amount, in_words
from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_periods import dates_in, periods_in
from okralong.pipelines.statements.locale_words import CJK, WIDE
from okralong.pipelines.statements.periods import apart


class Stated:
    """The amounts and years that the passages of a prompt state."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._texts = list(dict.fromkeys(each.shown_text for each in passages))
        self._names = " ".join(dict.fromkeys(each.doc_id for each in passages))

    @cached_property
    def _figures(self) -> Figures:
        return Figures(self._texts)

    def require(
        self, kind: str, said: str, question: str, quotes: Sequence[str], formulas: bool, language: str = "en"
    ) -> None:
        """Raise ValueError if no passage states the value of a reply.

        An amount that no passage states is accepted as the result of a calculation with quoted amounts, or as the
        number of things quoted.

        Args:
            kind: The kind of the value; only amounts, dates and periods are checked.
            said: The words of the value, before a formula is evaluated.
            question: The question.
            quotes: The valid quotations of the value.
            formulas: Whether the prompt asks for calculations as formulas. Then a result without its formula is not
                accepted.
            language: The language of the cited passages.
        """
        if kind in AMOUNTS:
            if formulas and said.startswith("="):
                self._require_operands(in_english(said, language))
                return
            operands = [] if formulas else operands_in(quotes, language)
            for each in amounts_of(said, language):
                if not (self._figures.have(each) or _follows(each, operands, question) or _counts(kind, each, quotes)):
                    raise ValueError(f"{said[each.start : each.end].strip()} stands in no passage")
        elif kind in ("date", "period"):
            for year in _years(said, language):
                if not self.has_year(year):
                    raise ValueError(f"{year} stands in no passage")

    def has_year(self, year: str) -> bool:
        """Return whether a passage or the name of its document has the year, perhaps as "FY23" or "'23"."""
        short = re.compile(rf"(?:\b(?:FY|F|CY|[QH][1-4])[\s'\u2019/-]{{0,2}}|['\u2019]|[/-]){year[2:]}(?!\d)", re.I)
        return any(year in text or short.search(text) for text in (*self._texts, self._names))

    def _require_operands(self, formula: str) -> None:
        for written in _NUMBERS.findall(formula.partition("\n")[0]):
            digits = Decimal(written.replace(",", ""))
            if digits not in _CONSTANTS and not self._figures.have_operand(digits):
                raise ValueError(f"{written} in the calculation stands in no passage")


YEAR_DIGITS: Final = re.compile(r"(?:19|20)\d\d")


def _years(said: str, language: str) -> list[str]:
    """Return the years of a value. Those of an era ("\u4ee4\u548c5\u5e74") are not looked for."""
    return YEAR_DIGITS.findall(said.translate(WIDE) if language in CJK else said)


_NUMBERS: Final = re.compile(r"\d{1,40}(?:,\d{3}){0,9}(?:\.\d{1,40})?")
_CONSTANTS: Final = frozenset(map(Decimal, (*range(13), 52, 100, 360, 365, 366, 1000, 1_000_000, 1_000_000_000)))
"""Numbers that a formula may use without a source: counts of periods or operands, and factors between units."""


def amounts_of(said: str, language: str = "en") -> list[Amount]:
    """Return the amounts in the words of a value; its dates and years count only if there is no other amount."""
    found = amounts_in(said, language) or in_words(said)
    taken = [span for span, _ in [*dates_in(said, language), *periods_in(said, language)]]
    free = [each for each in apart(found, taken, lambda each: each.place) if not each.year]
    return free or found


def sought_for(said: str, question: str, value: str, kind: str = "text", language: str = "en") -> Sought:
    """Return what the source of a reply's value must contain.

    Args:
        said: The words of the value in the reply.
        question: The question.
        value: The value with its formula evaluated. The source of a formula need only contain one of its operands.
        kind: The kind of the value. Yes and no have no words of their own: their source is about the question.
        language: The language of the cited passages.
    """
    if said.startswith("=") and value != said:
        operands = [each for each in amounts_of(said, language) if abs(each.digits) not in _CONSTANTS]
        return Sought(tuple(operands), (), frozenset(), Sought.of("", question).topic, language)
    sought = Sought.of("" if kind == "boolean" else value, question, language)
    if kind in AMOUNTS:
        return Sought(tuple(amounts_of(value, language)), (), frozenset(), sought.topic, language)
    if kind in ("date", "period"):
        return Sought((), sought.days or tuple(_years(value, language)), frozenset(), sought.topic, language)
    return sought


# --------
# Accept results of calculations for which a reply gives no formula, and counts.

_MOST_OPERANDS: Final = 12  # project default
_UNEXPLAINED: Final = 3  # project default
"""With this many operands or more, the calculation may have several steps, and its result is not checked."""
_RELATIVE: Final = Decimal("0.005")  # project default: models round operands and results; a relative error
_FACTORS: Final = (Decimal(1), Decimal(100), Decimal("0.01"), Decimal(1000), Decimal("0.001"))
"""Factors by which a result may differ: a percentage as a fraction, or thousands."""


def operands_in(quotes: Sequence[str], language: str = "en") -> list[Decimal]:
    """Return the distinct amounts in ``quotes``, without their signs; dates and years are left out."""
    found: dict[Decimal, None] = {}
    for quote in quotes:
        found.update(dict.fromkeys(abs(each.digits) for each in amounts_of(quote, language) if not each.year))
    return list(found)


def _follows(result: Amount, operands: Sequence[Decimal], question: str) -> bool:
    """Return whether an amount is the sum, difference, product, mean, ratio or change of quoted amounts.

    If the question asks for a calculation and at least three amounts are quoted, any result is accepted.
    """
    if len(operands) < 2:
        return False
    if len(operands) >= _UNEXPLAINED and any(pattern.search(question) for pattern, _ in ARITHMETIC):
        return True
    wanted = abs(result.digits)
    half = Decimal(5).scaleb(-result.places - 1)
    with localcontext(prec=28):
        found = _results(operands[:_MOST_OPERANDS])
        return any(
            abs(abs(each) * factor - wanted) <= max(half, _RELATIVE * wanted) for each in found for factor in _FACTORS
        )


def _results(operands: Sequence[Decimal]) -> set[Decimal]:
    found = {sum(operands, Decimal()), sum(operands, Decimal()) / len(operands)}
    for one, other in permutations(operands, 2):
        found |= {one - other, one + other, (one + other) / 2, one * other}
        if other:
            found |= {one / other, (one - other) / other}
    return found


_ITEMS: Final = re.compile(r"[,;\n]|\band\b|\bor\b")
_MOST_COUNTED: Final = 50  # project default


def _counts(kind: str, said: Amount, quotes: Sequence[str]) -> bool:
    """Return whether a value is the number of quotations, or of the things listed in one or in all of them."""
    if kind != "number" or said.places or said.scale or said.unit or not 0 < said.digits <= _MOST_COUNTED:
        return False
    listed = [sum(bool(part.strip()) for part in _ITEMS.split(quote)) for quote in quotes]
    return said.digits in (len(quotes), sum(listed), *listed)
