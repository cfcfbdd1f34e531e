"""Answer plainly worded arithmetic questions from table rows: a percentage change, difference, ratio or average.

"By what percentage did revenue fall from 2022 to 2023?" needs two cells of one row and a division. This replaces the
generator where it is small. No answer is returned if no row matches or the cells are incompatible. Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from statistics import fmean
from typing import Final

from okralong.pipelines.core.types import Answer, Citation, TypedValue
from okralong.pipelines.statements.amounts import SCALES, UNKNOWN, UNSCALED, plain
from okralong.pipelines.statements.periods import YEAR

_MOVED: Final = (
    r"(?:changes?|increas\w*|decreas\w*|declin\w*|growth|gr[eo]w|rises?|rose|falls?|fell|drop\w*|reduc\w*|variation|"
    r"difference)"
)
_PERCENT: Final = r"(?:\bpercent(?:age|ual)?|\bper\s+cent|%)"
_FELL: Final = re.compile(r"\b(?:decreas|declin|fall|fell|drop|reduc)\w*", re.IGNORECASE)
"""Words that ask how much something fell. If it rose, the question has no answer here."""
_DAY: Final = r"(?:the|fiscal|financial|years?|year-end|fy|end|as|at|of|[a-z]{3,9}\s+\d{1,2}|\d{1,2}|,)"
_TIMES: Final = rf"(?P<times>(?:from|between|in|over|during|for|of)\s+(?:{_DAY}\s*)*(?:19|20)\d\d\b.*)"
"""The times that follow the measure: "from 2022 to 2023", "in 2019 compared to 2018", "between December 31, 2012 and
2013"."""
_IN_YEAR: Final = r"(?:in|for|during|at\s+the\s+end\s+of)\s+(?:fiscal\s+)?(?:19|20)\d\d"
_PATTERNS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("percent", rf"\bby\s+(?:what|which)\s+{_PERCENT}\s+(?:did|has|have|had)\s+(?P<one>.+?)\s+{_MOVED}\s+{_TIMES}"),
        (
            "percent",
            rf"{_PERCENT}(?:\s+of)?(?:\s+the)?\s+{_MOVED}(?:\s+rate)?\s+(?:in|of|for)\s+(?P<one>.+?)\s+{_TIMES}",
        ),
        ("percent", rf"\b(?:growth\s+rate|rate\s+of\s+growth)\s+(?:in|of|for)\s+(?P<one>.+?)\s+{_TIMES}"),
        ("ratio", r"\bratio\s+of\s+(?P<one>.+?)\s+to\s+(?P<two>.+)"),
        ("part", rf"\b(?:average|mean)\s+(?P<part>quarterly|monthly)\s+(?P<one>.+?)\s+{_TIMES}"),
        ("average", rf"\b(?:average|mean)\s+(?:of\s+)?(?P<one>.+?)\s+{_TIMES}"),
        (
            "difference",
            r"\bdifference\s+between\s+(?P<one>.+?)\s+"
            rf"(?P<times>{_IN_YEAR}\s+and\s+(?:{_IN_YEAR}|(?:19|20)\d\d))(?=[,\s]*$)",
        ),
        ("difference", rf"\b{_MOVED}\s+(?:in|of|for)\s+(?P<one>.+?)\s+{_TIMES}"),
        (
            "each",
            rf"(?:^|,\s)what\s+(?:was|were)\s+(?P<one>.+?)\s+(?P<times>{_IN_YEAR}\s+and\s+(?:{_IN_YEAR}|(?:19|20)\d\d))$",
        ),
        ("difference", rf"\bhow\s+much\s+did\s+(?P<one>.+?)\s+{_MOVED}\s+{_TIMES}"),
    )
)
_LEAD: Final = re.compile(
    r"(?:in\s+\S+\s*,\s*)?(?:what(?:'s|\s+(?:is|was|were|are))?|how\s+much(?:\s+(?:is|was))?|by|by\s+how\s+much|"
    r"calculate|compute|give|state)?(?:\s*\b(?:the|a|company's|net|total|overall|nominal|amount|value|year|on|of)\b-?)*",
    re.IGNORECASE,
)
"""Text allowed before a calculation. It excludes "what drove the increase in revenue", for example."""
_REPORTS_OF: Final = re.compile(
    r"^according\s+to\s+the\s+(?:[a-z]+\s+){0,3}reports\s+of\s+(?P<whose>[^,?]{2,80}),\s+"
    r"(?P<asks>.+?)(?=\s+(?:in|for)\s+(?:19|20)\d\d)",
    re.IGNORECASE,
)
"""An introduction that names the reports: "According to the two annual reports of Alder, what was"."""
_WORKED_OUT: Final = re.compile(
    rf"\b(?:{_MOVED}|sum|ratio|average|mean|proportion|percent\w*|combined)\b|%", re.IGNORECASE
)
"""Words of measures that are themselves results of calculations."""
_END: Final = re.compile(r"(?:,?\s*(?:in|of|for|at|by|compared|respectively)\b[^,;]*)?", re.IGNORECASE)
"""Text allowed after the years of an average. It excludes "and why", for example."""
_OTHER: Final = re.compile(
    r"\b(?:if|assum\w*|cumulative|return|portion|points?|considering|excluding|including|without|roi|cagr|compound\w*|"
    r"absolute|as\s+an?\s+percent\w*)\b",
    re.IGNORECASE,
)
"""Words of questions that need more than one operation over table cells."""
_NEAREST: Final = re.compile(
    r",?\s*(?:rounded\s+)?to\s+the\s+nearest\s+(?P<scale>dollar|thousand|million|billion)(?:\s+dollars?)?$",
    re.IGNORECASE,
)
_PARTS: Final = {"quarterly": 4, "monthly": 12}
_FLOW: Final = re.compile(
    r"\b(?:revenues?|sales|turnover|income|profit|earnings|loss(?:es)?|expens\w*|expenditures?|costs?|spending|cash\s+flows?)\b",
    re.IGNORECASE,
)
"""Amounts that can be summed over the quarters of a year, unlike balances at a date, such as cash."""
_YEAR_TO_YEAR: Final = re.compile(
    r"\s(?:(?:from|between|for|in|over|during)\s+)?(?P<first>(?:19|20)\d\d)\s?[-\u2013]\s?(?P<last>(?:19|20)\d\d)\b"
)
"""A range of years such as "between 2017-2019"."""
_WHOLE_SPAN: Final = re.compile(r"\bfrom\b.*?\b(?:to|through)\b", re.IGNORECASE)
"""Wording that includes the years between the two that it names."""
MOST_YEARS: Final = 6
"""Largest number of years in an average. project default"""


@dataclass(frozen=True, slots=True)
class Calculation:
    """An ``operation`` and its ``operands``, each a question that asks for one amount.

    "each" states both amounts. "difference" subtracts the earlier amount from the later one, or the reverse for a
    ``fall``; "percent" divides the difference by the earlier amount. "ratio" divides the first by the second. "average"
    divides the mean by ``parts``, the number of quarters or months. ``nearest`` is the rounding step; 0 means no
    rounding.
    """

    operation: str
    operands: tuple[str, ...]
    fall: bool = False
    parts: int = 1
    nearest: float = 0.0


def calculation_of(question: str) -> Calculation | None:
    """Return the calculation that a question asks for in plain words, or None."""
    plain = _REPORTS_OF.sub(r"\g<asks> of \g<whose>", " ".join(question.split()).rstrip(" ?."))
    if _OTHER.search(plain):
        return None
    rounded = _NEAREST.search(plain)
    nearest = float(SCALES.get(rounded["scale"].lower(), 1)) if rounded else 0.0
    plain = _YEAR_TO_YEAR.sub(r" from \g<first> to \g<last>", plain[: rounded.start()] if rounded else plain)
    for operation, pattern in _PATTERNS:
        match = pattern.search(plain)
        if match is None or (operation == "each" and _WORKED_OUT.search(match["one"])):
            continue
        if operation != "each" and not _LEAD.fullmatch(plain[: match.start()].strip()):
            return None
        if operation == "ratio":
            return _ratio(match["one"], match["two"])
        years = sorted(set(YEAR.findall(match["times"])))  # "in 2019 from 2018" also means 2019 minus 2018
        outside = YEAR.findall(plain[: match.start("times")])
        of_year = operation == "part"
        if not years or outside or of_year != (len(years) == 1) or (of_year and not _FLOW.search(match["one"])):
            return None
        if operation == "average":
            years = _all_years(match["times"], years)
        elif not of_year and len(years) != 2:
            return None
        if len(years) > MOST_YEARS:
            return None
        rest = match["times"][list(YEAR.finditer(match["times"]))[-1].end() :].rstrip(" ,")
        if not _END.fullmatch(rest):
            return None
        of = f" {rest.strip()}" if re.match(r"\s*(?:of|at|for|by)\b", rest) else ""
        asked = tuple(f"What was {match['one']}{of} in {year}?" for year in years)
        if of_year:
            return Calculation("average", asked, parts=_PARTS[match["part"].lower()], nearest=nearest)
        if operation == "average":
            return Calculation(operation, asked, nearest=nearest)
        fall = _FELL.search(match[0].replace(match["one"], " ")) is not None
        return Calculation(operation, asked, fall, nearest=nearest if operation == "difference" else 0.0)
    return None


def _ratio(one: str, two: str) -> Calculation | None:
    """Return the ratio, applying the words after the second measure ("of Alder at the end of 2024") to both."""
    years = set(YEAR.findall(f"{one} {two}"))
    if len(years) != 1 or YEAR.search(one):
        return None
    behind = re.search(r"\s+(?:of|at|in|for|as|during|on)\s+.*$", two)
    if behind is None:
        return None
    return Calculation("ratio", (f"What was {one}{behind[0]}?", f"What was {two}?"))


def _all_years(times: str, years: Sequence[str]) -> list[str]:
    if len(years) == 2 and _WHOLE_SPAN.search(times):
        first, last = map(int, years)
        return [str(year) for year in range(first, last + 1)]
    return list(years)


def worked_out(wanted: Calculation, found: Sequence[Answer]) -> Answer | None:
    """Compute the result from the operands' typed answers and cite their rows; None if they are incompatible.

    Percentages have a value, which is not rounded as the text is.
    """
    values = [answer.value for answer in found if answer.value is not None and answer.value.number is not None]
    rows = [citation for answer in found for citation in answer.citations[:1]]
    if not len(values) == len(rows) == len(wanted.operands) or not _fit(wanted.operation, values, rows):
        return None
    said = _each(wanted, found) if wanted.operation == "each" else _result(wanted, values)
    if said is None:
        return None
    value = None
    if isinstance(said, float):
        value = TypedValue(plain(Decimal(f"{said:.6f}")), said, "%")
        said = f"{said:.1f}%"
    cited = tuple(dict.fromkeys(citation for answer in found for citation in answer.citations))
    context = tuple(dict.fromkeys(passage for answer in found for passage in answer.context))
    signals = {"operands": float(len(found)), **_worst(found)}
    return replace(
        found[0], answer=said, citations=cited, context=context, value=value, way="calculation", signals=signals
    )


def _worst(found: Sequence[Answer]) -> dict[str, float]:
    """Return the signals that all operands have, each of the one that it speaks against most."""
    names = frozenset.intersection(*(frozenset(answer.signals) for answer in found))
    return {
        name: (max if name in _AGAINST else min)(answer.signals[name] for answer in found) for name in sorted(names)
    }


_AGAINST: Final = frozenset({"cell_doubt", "cell_rivals", "cell_substitute", "cell_owner", "cell_near"})
"""Signals that are high where a cell may be the wrong one."""


def _each(wanted: Calculation, found: Sequence[Answer]) -> str:
    """Return "41 tons in 2019 and 42 tons in 2020"."""
    said: list[str] = []
    for operand, answer in zip(wanted.operands, found, strict=True):
        value, year = answer.value, YEAR.findall(operand)[-1]
        if value is not None and value.number is not None and (value.scale or value.currency):
            said.append(f"{_amount(value.number, value)} in {year}")
        else:
            unit = "" if value is None or value.unit == "%" or "number of" in operand else f" {value.unit}".rstrip()
            said.append(f"{answer.answer}{unit} in {year}")
    return " and ".join(said)


def _fit(operation: str, values: Sequence[TypedValue], rows: Sequence[Citation]) -> bool:
    """Return whether the amounts share a unit and are different cells of one row (for a ratio, of two rows)."""
    one = values[0]
    if any((each.currency, each.unit, each.scale) != (one.currency, one.unit, one.scale) for each in values):
        return False
    if operation == "percent" and one.unit == "%":  # "the percentage change in the tax rate" may mean percentage points
        return False
    if operation == "ratio":
        if one.scale == UNKNOWN:  # two tables may have different scales
            return False
        return rows[0] != rows[1] and values[0].period == values[1].period
    same_row = all(a.start_char == b.start_char for a, b in pairwise(rows))
    return same_row and len({each.period for each in values}) == len(values) and all(each.period for each in values)


def _result(wanted: Calculation, values: Sequence[TypedValue]) -> str | float | None:
    """Return the result as text, a percentage as a number.

    Return None if a "fall" was a rise, or if a percentage's amounts differ in sign.
    """
    numbers = [each.number or 0.0 for each in values]
    first, last = numbers[0], numbers[-1]
    if wanted.operation == "average":
        return _amount(_rounded(fmean(numbers) / wanted.parts, wanted.nearest), values[0])
    if wanted.operation == "ratio":
        return f"{first / last:.2f}" if last else None
    change = last - first
    if wanted.operation == "percent":
        if first * last < 0 or not first:
            return None
        change = 100 * change / first
    if wanted.fall:
        change = -change
        if change < 0:
            return None
    return change if wanted.operation == "percent" else _amount(_rounded(change, wanted.nearest), values[0])


def _rounded(number: float, nearest: float) -> float:
    return math.floor(number / nearest + 0.5) * nearest if nearest else number


def _amount(number: float, like: TypedValue) -> str:
    """Format a number with the scale and currency of ``like``; hundredths become units of the currency."""
    scale = "" if like.scale == "cent" else like.scale
    shown = number / float(SCALES[scale])
    text = f"{abs(shown):,.2f}".rstrip("0").rstrip(".")
    sign = "-" if shown < 0 and text != "0" else ""
    currency = "$" if like.currency == "USD" else f"{like.currency} " if like.currency else ""
    said = f", {UNSCALED}" if scale == UNKNOWN else f" {scale}" if scale else ""
    return f"{sign}{currency}{text}{like.unit if like.unit == '%' else ''}{said}"
