"""The calculator, which evaluates formulas that the generator gives as answers.

The paper names code-aided generation as an extension; this is a minimal form of it. A formula is written as in a
spreadsheet: an equals sign, an expression and a unit, such as ``=(12.5 - 10) / 10 * 100 %``. The rules (project
default):

- The result gets the formula's currency sign, unless it is in percent or a divisor has the sign too.
- If the result is in percent, numbers with % keep their value. The result is in percent if its unit is, and in sums of
  percentages. Otherwise % means hundredths: ``=5% * 1200`` and ``=1200 * 5%`` are 60.
- A unit that follows every number of a sum is the unit of the result. Square brackets count as round ones; "(461)" is
  461.
- A result that the model appends ("= 25 %") is dropped. Its unit is used if the formula has none and both results
  agree.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow, localcontext
from decimal import Context as Arithmetic
from typing import Final

from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_words import locale_words

_ALIKE: Final = str.maketrans(
    dict.fromkeys("\u00d7\u00b7", "*")
    | dict.fromkeys("\u2013\u2212", "-")
    | {"\u00f7": "/", "\u2248": "=", "^": "**", "[": "(", "]": ")"}
)
"""Replacements of other signs for multiplication, minus, division, "about equal" and power, and of square brackets."""
_THOUSANDS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TIMES: Final = re.compile(r"(?<=[\d)%])\s*[xX]\s*(?=[\d.($€£¥-])")

_CURRENCY: Final = re.compile(r"[$€£¥]")
_DIVIDED_BY_MONEY: Final = re.compile(r"/[\s(+-]*[$€£¥]")

_PARTS: Final = re.compile(r"(?P<expression>.*[\d)])\s*(?P<unit>(?:%|(?=[^\W\d_]))[^\d()+*=%]*)?\.?")
"""An expression, which ends with a digit or bracket, and its unit, which begins with "%" or a letter."""
_PERCENTAGE: Final = re.compile(r"(\d[\d.]*)\s?%")
_TWICE: Final = re.compile(r"%\s*(?=per\s?cent)", re.IGNORECASE)
"""The superfluous percent sign in "4.1% percentage points"."""
_ENDS_IN_SHARE: Final = re.compile(
    r"(?:/\s*[\d.]+%|\*\s*(?!100(?:\.0*)?\s?(?:%|per))[\d.]+\s?(?:%|per\s?cent))$", re.IGNORECASE
)
"""The end of a formula such as "=1200 * 5%", in which "%" belongs to the number. After "* 100" it is the unit."""
_PER_CENT: Final = re.compile(r"per\s?cent", re.IGNORECASE)

_AGREE: Final = Decimal("0.01")  # project default: covers the model's rounding
"""Largest relative difference between the model's own result and the computed one."""


def calculate(answer: str, language: str = "en") -> str:
    """Return ``answer`` with its formula evaluated, such as "25%", "$1,234.5 million" or "0.0938"; never raises.

    Results have at most 2 decimals, and four significant digits below 1. An answer without a leading "=" is returned
    unchanged; a formula that cannot be evaluated loses its "=". Only the first line is read. Figures are read and
    written as ``language`` writes them.
    """
    if not answer.startswith("="):
        return answer
    try:
        result = _work_out(in_english(answer[1:], language).strip().partition("\n")[0])
        return _in_language(result, language)
    except ValueError:
        return answer[1:].strip() or answer


_FIGURE: Final = re.compile(r"\d(?:[\d.,'\u2019\u00a0\u202f\u2009]*\d)?")


def in_english(formula: str, language: str) -> str:
    """Return a formula with its figures as English writes them, without thousands separators."""
    if locale_words(language) is None:
        return formula
    return _FIGURE.sub(lambda match: f"{amounts_in(match[0], language)[0].digits:f}", formula)


def _in_language(result: str, language: str) -> str:
    words = locale_words(language)
    if words is None or words.decimal == ".":
        return result
    marks = str.maketrans({",": words.groups[0].replace(" ", "\u202f"), ".": words.decimal})
    return _FIGURE.sub(lambda match: match[0].translate(marks), result)


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
    """Return the value and the unit ("" for none) of an expression. Raises ValueError."""
    text = text.strip()
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not an expression with a unit.")
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
    """Return the unit of the model's own result, if it has the same value."""
    try:
        own, unit = _read(text)
    except ValueError:
        return ""
    return unit if abs(own - value) <= _AGREE * abs(value) else ""


def _in_percent(unit: str) -> bool:
    return unit.casefold().startswith(("%", "percent", "per cent"))


def _digits(value: Decimal) -> str:
    """Format a non-negative value, rounded half up, with thousands separators."""
    step = Decimal("0.01") if value >= 1 or not value else Decimal(1).scaleb(value.adjusted() - 3)
    digits = f"{value.quantize(step, ROUND_HALF_UP):,f}"
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


# Evaluate arithmetic expressions of numbers, ``+ - * / **``, signs and round brackets.
#
# Expressions are untrusted, since the generator has read arbitrary documents. So length, depth, exponents and
# intermediate values are bounded (project defaults). Values are decimal, so that 2.675 is exact; numbers are read to 17
# digits.

LONGEST: Final = 300
"""Most characters of an expression."""

DEEPEST: Final = 100
"""Most nested operations; a sum of n numbers has n - 1."""

LARGEST_EXPONENT: Final = 64

_CONTEXT: Final = Arithmetic(
    prec=28, Emin=-24, Emax=24, traps=[DivisionByZero, InvalidOperation, Overflow, Underflow], clamp=0
)
"""The range of intermediate values, 1e-24 to 1e25: they are cheap to compute and can be written without an exponent."""

_ALPHABET: Final = re.compile(r"[0-9.+\-*/() ]+")
"""The characters of an expression. There are no letters, hence no names, calls, hexadecimal or imaginary numbers."""

_BINARY: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Decimal], Decimal]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def evaluate(expression: str) -> Decimal:
    """Return the value of an arithmetic expression, to 28 digits. Operators bind as in Python: ``-2 ** 2`` is -4.

    Raises:
        ValueError: The text is not such an expression, has no finite real value, or exceeds the bounds.
    """
    if len(expression) > LONGEST or not _ALPHABET.fullmatch(expression):
        raise ValueError(f"{expression[:80]!r} is not an arithmetic expression of at most {LONGEST} characters.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        with localcontext(_CONTEXT):
            return _value(tree.body, DEEPEST)
    except (SyntaxError, ArithmeticError, MemoryError, RecursionError) as error:
        # Python's parser raises one of the last two, or a SyntaxError, if brackets are nested too deeply.
        raise ValueError(f"{expression!r} cannot be evaluated: {type(error).__name__}.") from error


def _value(node: ast.expr, depth: int) -> Decimal:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _CONTEXT.create_decimal(repr(node.value))
    if depth and isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, depth - 1))
    if depth and isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, depth - 1), _value(node.right, depth - 1)
        if isinstance(node.op, ast.Pow) and abs(right) > LARGEST_EXPONENT:
            raise ValueError(f"The exponent {right} is beyond {LARGEST_EXPONENT}.")
        value = _BINARY[type(node.op)](left, right)
        if not value.is_finite():  # 0 ** -1, which Decimal accepts
            raise ValueError(f"The expression {left} {type(node.op).__name__} {right} is infinite.")
        return value
    raise ValueError(f"An expression holds only numbers and + - * / **, at most {DEEPEST} deep.")
