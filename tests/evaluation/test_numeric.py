"""When a number counts as the gold number, case by case."""

from __future__ import annotations

import pytest

from okralong.pipelines.reporting.metrics import committed_quantity, numeric_match, quantities


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("1544", "1,544", True),
        ("$ 93,662", "93662", True),
        ("It was 1,544 thousand dollars.", "1,544 thousand", True),
        ("$1.544 million", "1,544 thousand", True),
        ("1,544 million", "1,544 thousand", False),
        ("(461)", "-461", True),
        ("461", "(461)", False),  # the sign counts
        ("-$27", "-27", True),
        ("$-27", "-27", True),
        ("101", "100", True),  # 1/101 is within 1 %
        ("102", "100", False),  # 2/102 is not
        ("99", "100", True),
        ("0", "0", True),
        ("0.001", "0", False),
        ("12%", "12 percent", True),
        ("12", "12%", True),
        ("0.12", "12%", True),
        ("12%", "0.12", True),
        ("12%", "12", False),  # a percentage is no count
        ("-26.7%", "-0.26689", True),
        ("The change from 2018 to 2019 was 1,073", "1073", True),  # bare years are left aside
        ("2,151 in 2019", "2151", True),
        ("55 or 56", "55", False),  # of two numbers neither
        ("55, that is 55", "55", True),
        ("Q3 of the 10-K", "3", False),  # digits inside words
        ("many", "55", False),
        ("", "55", False),
    ],
)
def test_one_gold_number(prediction: str, gold: str, expected: bool) -> None:
    assert numeric_match(prediction, [gold]) is expected


@pytest.mark.parametrize("gold", ["2018", "March 29, 1988", "1.61 years", "yes", "17,520; 17,332", "LWAY", ""])
def test_a_gold_answer_that_is_no_number_has_no_numeric_mark(gold: str) -> None:
    assert numeric_match("2018", [gold]) is None


def test_any_of_the_gold_numbers_will_do() -> None:
    assert numeric_match("-0.267", ["-27.0%", "-0.26689"]) is True
    assert numeric_match("3.8", ["no number", "380", "3.8"]) is True


def test_a_range_holds_two_numbers_and_no_negative_one() -> None:
    assert [each.value for each in quantities("5.99-8.40 in 2018-2019")] == [5.99, 8.40, 2018, 2019]
    assert committed_quantity("in 2018 and 2019") is None
