"""The value of an arithmetic expression: numbers, ``+ - * / **``, signs and round brackets, nothing else.

Expressions are written by a generator that has read documents of anyone, so what one may cost is bounded: its length,
its depth, its exponents and the size of each value on the way. Values are decimal, so that 2.675 is 2.675;
numbers are read to 17 digits. The bounds
are ours.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, InvalidOperation, Overflow, Underflow, localcontext
from typing import Final

LONGEST: Final = 300
"""Characters of an expression."""

DEEPEST: Final = 100
"""Operations inside each other; a sum of n numbers is n - 1 deep."""

LARGEST_EXPONENT: Final = 64

_CONTEXT: Final = Context(
    prec=28, Emin=-24, Emax=24, traps=[DivisionByZero, InvalidOperation, Overflow, Underflow], clamp=0
)
"""Values from 1e-24 to 1e25: all of them are computed at once and can be written in digits."""

_ALPHABET: Final = re.compile(r"[0-9.+\-*/() ]+")
"""Without letters there are no names, calls, hexadecimal or imaginary numbers to think of."""

_BINARY: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Decimal], Decimal]]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}


def evaluate(expression: str) -> Decimal:
    """The value, to 28 digits. Operators bind as in Python: ``-2 ** 2`` is -4.

    Raises ValueError for what is no such expression, has no finite real value, or goes beyond the bounds.
    """
    if len(expression) > LONGEST or not _ALPHABET.fullmatch(expression):
        raise ValueError(f"{expression[:80]!r} is no arithmetic expression of at most {LONGEST} characters.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        with localcontext(_CONTEXT):
            return _value(tree.body, DEEPEST)
    except (SyntaxError, ArithmeticError, MemoryError, RecursionError) as error:
        # Python's parser answers brackets that are too deep for it with any of the last two, or a SyntaxError.
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
        if not value.is_finite():  # 0 ** -1, which Decimal lets pass
            raise ValueError(f"The expression {left} {type(node.op).__name__} {right} is infinite.")
        return value
    raise ValueError(f"An expression holds only numbers and + - * / **, at most {DEEPEST} deep.")
