"""The calculator: a formula that the generator gave as its answer is worked out here, not by the model.

The paper names code-aided generation as an extension; this is its smallest form. A formula reads as in a
spreadsheet: an equals sign, an expression, a unit, such as ``=(12.5 - 10) / 10 * 100 %``. How it is read is ours:

- One currency sign in it goes before the result, unless the result is in percent or a divisor has the sign too.
- Numbers marked with % stand as they are where the result is in percent: where its unit says so, and in sums of
  percentages. Elsewhere they are hundredths, so ``=5% * 1200`` is 60, and so is ``=1200 * 5%``.
- A unit behind every number of a sum counts once. Square brackets are round ones; "(461)" is 461.
- A result that the model adds ("= 25 %") is dropped; its unit is taken where the formula has none and both agree.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from okralong.pipelines.answering.operators.arithmetic import LONGEST, evaluate

_ALIKE: Final = str.maketrans(
    dict.fromkeys("\u00d7\u00b7", "*")
    | dict.fromkeys("\u2013\u2212", "-")
    | {"\u00f7": "/", "\u2248": "=", "^": "**", "[": "(", "]": ")"}
)
"""Signs for times, minus, divided by and about equal; "^" is a power."""
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TIMES: Final = re.compile(r"(?<=[\d)%])\s*[xX]\s*(?=[\d.($€£¥-])")

_CURRENCY: Final = re.compile(r"[$€£¥]")
_DIVIDED_BY_MONEY: Final = re.compile(r"/[\s(+-]*[$€£¥]")

_PARTS: Final = re.compile(r"(?P<expression>.*[\d)])\s*(?P<unit>(?:%|(?=[^\W\d_]))[^\d()+*=%]*)?\.?")
"""The expression ends at its last digit or bracket. A unit begins with "%" or a letter."""
_PERCENTAGE: Final = re.compile(r"(\d[\d.]*)\s?%")
_TWICE: Final = re.compile(r"%\s*(?=per\s?cent)", re.IGNORECASE)
"""Of "4.1% percentage points", what the words say again."""
_ENDS_IN_SHARE: Final = re.compile(
    r"(?:/\s*[\d.]+%|\*\s*(?!100(?:\.0*)?\s?(?:%|per))[\d.]+\s?(?:%|per\s?cent))$", re.IGNORECASE
)
"""As in "=1200 * 5%", where the mark belongs to the number; in "* 100%" it is the unit."""
_PER_CENT: Final = re.compile(r"per\s?cent", re.IGNORECASE)

_AGREE: Final = Decimal("0.01")
"""Share by which the model's own result may differ from ours; covers its rounding."""


def calculate(answer: str) -> str:
    """``answer`` with a formula worked out: "25%", "$1,234.5 million", "0.0938"; never raises.

    At most 2 decimals, below 1 four significant digits. An answer that does not begin with "=" comes back as it is,
    and a formula that cannot be worked out without its "=", for a person to look at. Only the first line is read.
    """
    if not answer.startswith("="):
        return answer
    try:
        return _work_out(answer[1:].strip().partition("\n")[0])
    except ValueError:
        return answer[1:].strip() or answer


def _work_out(formula: str) -> str:
    if len(formula) > LONGEST:
        raise ValueError(f"A formula has at most {LONGEST} characters.")
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), formula.translate(_ALIKE))
    text = _TIMES.sub(" * ", text)
    signs = set(_CURRENCY.findall(text))
    divided = _DIVIDED_BY_MONEY.search(text) is not None
    first, *own = _CURRENCY.sub(" ", text).split("=")
    value, unit = _read(first)
    if own and not unit:
        unit = _agreed_unit(own[-1], value)
    sign = signs.pop() if len(signs) == 1 and not divided and not _in_percent(unit) else ""
    number = f"{'-' if value < 0 else ''}{sign}{_digits(abs(value))}"
    return f"{number}{unit}" if unit.startswith("%") or not unit else f"{number} {unit}"


def _read(text: str) -> tuple[Decimal, str]:
    """The value and the unit ("" for none) of an expression in plain characters. Raises ValueError."""
    text = text.strip()
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is no expression with a unit.")
    expression, unit = parts["expression"], _TWICE.sub("", (parts["unit"] or "").strip(" ."))
    if _ENDS_IN_SHARE.search(text):
        expression, unit = _PER_CENT.sub("%", text), ""
    elif not unit and "%" in expression and not re.search(r"[^-+() ]", _PERCENTAGE.sub("", expression)):
        unit = "%"
    if unit and not re.search(r"[*/]", expression):
        expression = re.sub(rf"(?<!\w){re.escape(unit)}(?!\w)", " ", expression)
    if _in_percent(unit):
        expression = expression.replace("%", " ")
    return evaluate(_PERCENTAGE.sub(r"(\1/100)", expression)), unit


def _agreed_unit(text: str, value: Decimal) -> str:
    """The unit of the result that the model worked out by itself, where it has our value."""
    try:
        own, unit = _read(text)
    except ValueError:
        return ""
    return unit if abs(own - value) <= _AGREE * abs(value) else ""


def _in_percent(unit: str) -> bool:
    return unit.casefold().startswith(("%", "percent", "per cent"))


def _digits(value: Decimal) -> str:
    """A value from 0 on in digits, rounded half up, with separators between thousands."""
    step = Decimal("0.01") if value >= 1 or not value else Decimal(1).scaleb(value.adjusted() - 3)
    digits = f"{value.quantize(step, ROUND_HALF_UP):,f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
