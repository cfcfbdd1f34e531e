"""The arithmetic evaluator agrees with exact fractions, and refuses what is no arithmetic or would cost too much."""

from __future__ import annotations

import operator
import time
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.calculator import DEEPEST, LONGEST, evaluate

Written = tuple[str, Fraction]
"""An expression in full brackets, and its exact value."""

OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
NUMBERS = st.decimals(0, 10_000, places=2).map(lambda number: (str(number), Fraction(number)))
DIVISORS = st.decimals("0.01", 10_000, places=2).map(lambda number: (str(number), Fraction(number)))


def larger(smaller: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    def joined(sign: str, left: Written, right: Written) -> Written:
        return f"({left[0]} {sign} {right[0]})", OPERATORS[sign](left[1], right[1])

    return (
        st.builds(joined, st.sampled_from(sorted(OPERATORS)), smaller, smaller)
        | st.builds(lambda left, right: (f"({left[0]}/{right[0]})", left[1] / right[1]), smaller, DIVISORS)
        | smaller.map(lambda inner: (f"-{inner[0]}", -inner[1]))
    )


@given(st.recursive(NUMBERS, larger, max_leaves=4))
def test_values_are_those_of_exact_fractions(written: Written) -> None:
    expression, exact = written
    if len(expression) <= LONGEST and abs(exact) < 10**16:
        assert abs(Fraction(evaluate(expression)) - exact) < Fraction(1, 10**6)


@given(st.lists(st.tuples(st.sampled_from(["+", "-", "*", "**"]), st.integers(0, 3)), max_size=6), st.integers(0, 3))
def test_operators_bind_as_in_python(rest: list[tuple[str, int]], first: int) -> None:
    expression = f"{first}" + "".join(f" {sign} {number}" for sign, number in rest)
    try:
        value = evaluate(expression)
    except ValueError:
        return  # 0 ** 0 and towers of exponents, which the next test is about
    assert value == eval(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        " ",
        "1 +",
        "1 2",
        "(1",
        "...",
        "5 // 2",
        "(1, 2)",
        "1_000",
        "1e5",
        "1j",
        "0x10",
        "True",
        "open('f')",
        "().__class__",
        "1\n+ 1",
        "\u0661 + 1",
        "1 / 0",
        "0 / 0",
        "0 ** 0",
        "0 ** -1",
        "1 / 0 ** -1",
        "(-8) ** 0.5",
    ],
)
def test_what_has_no_value_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"expression|evaluated"):
        evaluate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "2 ** 65",
        "2 ** -65",
        "9 ** 9 ** 9 ** 9",
        "((((10 ** 64) ** 64) ** 64) ** 64) ** 64",
        "((10 ** -20) ** 20) ** 20",
        "9" * LONGEST,
        "9" * (LONGEST - 1) + ".",
        "1 + " * LONGEST + "1",
        "-" * (LONGEST - 1) + "1",
        "(" * (LONGEST // 2) + ")" * (LONGEST // 2),
        "(" * LONGEST,
        "+".join("1" * (DEEPEST + 2)),
        "*".join(["9" * 20] * 14),
    ],
)
def test_what_would_cost_too_much_is_refused_at_once(expression: str) -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match=r"expression|evaluated|exponent"):
        evaluate(expression)
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-2 ** 2", "-4"),
        ("2 ** 3 ** 2", "512"),
        ("0.1 + 0.2", "0.3"),
        ("2.675 * 100", "267.5"),
        ("1.05 ** 64 - 1.05 ** 64", "0"),
        ("+".join("1" * (DEEPEST + 1)), "101"),
    ],
)
def test_values(expression: str, value: str) -> None:
    assert evaluate(expression) == Decimal(value)
