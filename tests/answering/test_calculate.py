"""The calculator: what a generator may write behind an equals sign, and how the result reads."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.calculator import calculate


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=(12.5 - 10) / 10 * 100 %", "25%"),
        ("= [12.5 \u2212 10] \u00f7 10 \u00d7 100%", "25%"),
        ("=3 x 4 \u2013 2", "10"),
        ("=2^10 years", "1,024 years"),
        ("=1,234.5 + 1,000,000", "1,001,234.5"),
        ("=2021 - 2016 years.", "5 years"),
        ("=4 + 5 % of sales", "9% of sales"),
        ("=12 / 4 x", "3 x"),
        ("=5 - 7", "-2"),
    ],
)
def test_signs_and_units(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=2 / 3", "0.6667"),
        ("=3 / 32", "0.09375"),
        ("=2.675 * 1", "2.68"),
        ("=0.99999", "1"),
        ("=1 / 3 * 3", "1"),
        ("=10 - 10", "0"),
        ("=0 * -1", "0"),
        ("=1 / 8000", "0.000125"),
        ("=-1 / 3", "-0.3333"),
        ("=99.999", "100"),
        ("=9,999,999.996", "10,000,000"),
    ],
)
def test_rounding(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=$(12 - 10)", "$2"),
        ("= $ 12 - $ 10", "$2"),
        ("=$10 - $12 million", "-$2 million"),
        ("=($1,500.25 + $20) / 2", "$760.13"),
        ("=12 \u20ac - 10 \u20ac", "\u20ac2"),
        ("=$12 / $10", "1.2"),
        ("=$12 / ($5 + $5)", "1.2"),
        ("=$3 / 12 * 100 %", "25%"),
        ("=$12 + \u20ac10", "22"),
    ],
)
def test_currency(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=5.2% - 4.1%", "1.1%"),
        ("=(5.2% - 4.1%)", "1.1%"),
        ("=5.2 % - 4.1 percent", "1.1 percent"),
        ("=5.2% - 4.1% percentage points", "1.1 percentage points"),
        ("=(5% + 4%) / 2 %", "4.5%"),
        ("=5% * $1,200", "$60"),
        ("=1200 * 5%", "60"),
        ("=1200 * 5 %", "60"),
        ("=$5,000 * 12 percent", "$600"),
        ("=12 / 48 * 100 %", "25%"),
        ("=12 / 48 * 100 percent", "25 percent"),
        ("=(1 + 5%) * 200 million", "210 million"),
        ("=60 / 5%", "1,200"),
    ],
)
def test_percentages(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=12 million - 10 million", "2 million"),
        ("=5 percent + 3 percent", "8 percent"),
        ("=10 m + 5 m2", "10 m + 5 m2"),
    ],
)
def test_a_unit_behind_every_number_of_a_sum(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "result"),
    [
        ("=(12.5 - 10) / 10 * 100 % = 25 %", "25%"),
        ("=12 - 10 = 3", "2"),
        ("=12 - 10 million = 3 billion", "2 million"),
        ("=2 / 3 \u2248 0.67 years", "0.6667 years"),
        ("=(12 - 10) / 8 = 0.25 = 25%", "0.25"),
        ("=12 - 10 = two", "2"),
        ("=12 - 10 =", "2"),
        ("=12 - 10\nThat is 3.", "2"),
    ],
)
def test_our_result_counts(formula: str, result: str) -> None:
    assert calculate(formula) == result


@pytest.mark.parametrize(
    ("formula", "left"),
    [
        ("=1 / 0", "1 / 0"),
        ("=0 ** -1", "0 ** -1"),
        ("= revenue - cost", "revenue - cost"),
        ("=(12 million - 10 million) / 10 million", "(12 million - 10 million) / 10 million"),
        ("=5 % 3", "5 % 3"),
        ("=1,5 + 2", "1,5 + 2"),
        ("=1 - million", "1 - million"),
        ("=9 ** 9 ** 9", "9 ** 9 ** 9"),
        ("=__import__('os').getcwd()", "__import__('os').getcwd()"),
        ("=1 + 1" + " " * 300 + "years", "1 + 1" + " " * 300 + "years"),
        ("=", "="),
    ],
)
def test_what_cannot_be_worked_out_is_left_to_a_reader(formula: str, left: str) -> None:
    assert calculate(formula) == left


@given(st.text().filter(lambda text: not text.startswith("=")))
def test_other_answers_stay_as_they_are(answer: str) -> None:
    assert calculate(answer) == answer


@given(st.text() | st.text(alphabet="0123456789.,+-*/^x%$=()[] \nmilo", max_size=60))
def test_nothing_makes_it_raise_or_swallow_the_answer(text: str) -> None:
    result = calculate(f"={text}")
    assert result.strip() or not text.strip()


@given(st.decimals(-(10**9), 10**9, places=4))
def test_a_result_is_read_back(number: Decimal) -> None:
    result = Decimal(calculate(f"={number}").replace(",", ""))
    assert abs(result - number) <= Decimal("0.005")
    assert calculate(f"={result}") == calculate(f"={number}")
