"""A set's calculation becomes a formula only where working it out gives the set's own answer."""

from __future__ import annotations

import pytest

from okralong.lab.datasets.gold import program_expression
from okralong.lab.training.rows.reader_replies import formula
from okralong.pipelines.answering.calculator import calculate


@pytest.mark.parametrize(
    ("calculation", "answers", "result"),
    [
        ("44.1-56.7", ("-12.6", "-12.6 million"), "-12.6 million"),
        ("(44.1-56.7)/56.7", ("-22.22%",), "-22.22%"),
        ("4.00 - 1.90 ", ("2.1%",), "2.1%"),
        ("[(166+178)/2] - [(57+44)/2]", ("121.5", "121.5 million"), "121.5 million"),
        ("25048 / 44572", ("56%", "0.56197"), "56.2%"),
        ("2,664/909", ("2.93",), "2.93"),
        ("$(1,200 - 200) thousand", ("$1,000 thousand", "1,000"), "$1,000 thousand"),
        ("(12.5 - 10) / 10 * 100 %", ("25.0%",), "25%"),
    ],
)
def test_a_calculation_that_gives_the_gold_answer(calculation: str, answers: tuple[str, ...], result: str) -> None:
    found = formula(calculation, answers)
    assert found is not None
    assert found.startswith("=")
    assert calculate(found) == result


@pytest.mark.parametrize("calculation", ["", "44.1-56.8-3", "the sum of both", "5/0"])
def test_one_that_does_not_is_refused(calculation: str) -> None:
    assert formula(calculation, ("-12.6", "-12.6 million")) is None


@pytest.mark.parametrize(
    ("program", "expression"),
    [
        ("divide(25048, 44572)", "25048 / 44572"),
        ("subtract(303, 189), divide(#0, 189)", "(303 - 189) / 189"),
        ("divide(18, const_100), divide(1.3, #0)", "1.3 / (18 / 100)"),
        ("multiply(45, const_4), add(#0, 44), divide(#1, const_5)", "((45 * 4) + 44) / 5"),
        ("greater(3, 2)", ""),
        ("table_average(revenue, none)", ""),
        ("divide(#3, 2)", ""),
        ("", ""),
    ],
)
def test_a_finqa_program_as_one_expression(program: str, expression: str) -> None:
    assert program_expression(program) == expression
