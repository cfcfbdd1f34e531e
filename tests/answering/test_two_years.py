"""Amounts of two years that one sentence states, and calculations over them."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.two_years import amounts_of_years
from okralong.pipelines.core.types import Document
from okralong.pipelines.statements.arithmetic import calculation_of, worked_out

YEARS = ["2018", "2019"]


def _said(measure: str, *sentences: str) -> list[str] | None:
    document = Document("report", "The year in numbers\n---\n\n" + " ".join(sentences) + "\n\nThe end.")
    found = amounts_of_years(f"What was {measure} in 2018?", YEARS, document)
    return None if found is None else [f"{each.answer} {each.value.period}" for each in found if each.value]


@pytest.mark.parametrize(
    "sentence",
    [
        "Workshops settled 1,558 warranty claims in 2019, against 1,393 in 2018.",
        "Warranty claims were 1,558 and 1,393 in 2019 and 2018, respectively.",
        "At the end of 2019 there were 1,558 warranty claims, and 1,393 a year before.",
        "In 2018 we had 1,393 warranty claims, where 2019 saw 1,558.",
    ],
)
def test_each_year_gets_its_amount(sentence: str) -> None:
    assert _said("the number of warranty claims", sentence) == ["1,393 2018", "1,558 2019"]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Workshops settled 1,558 other cases in 2019, against 1,393 in 2018."],
        ["Workshops settled 1,558 warranty claims in 2019, against $1,393 in 2018."],
        ["Warranty claims rose by 165 in 2019 to 1,558 from those of 2018."],
        ["Workshops settled 1,558 warranty claims in 2019, against 1,393 in 2017."],
        [
            "Alder had 1,558 warranty claims in 2019, against 1,393 in 2018.",
            "Birch had 9 warranty claims in 2019, against 8 in 2018.",
        ],
    ],
)
def test_other_and_ambiguous_sentences_state_nothing(sentences: list[str]) -> None:
    assert _said("the number of warranty claims", *sentences) is None


def test_a_change_is_worked_out_over_them() -> None:
    wanted = calculation_of("By what percentage did the audit fee rise from 2018 to 2019?")
    assert wanted is not None
    text = "The audit fee for 2019 was $3.74 million; the fee for 2018 had been $3.36 million."
    found = amounts_of_years(wanted.operands[0], YEARS, Document("report", text))
    assert found is not None
    answer = worked_out(wanted, found)
    assert answer is not None
    assert (answer.answer, [each.quote for each in answer.citations]) == ("11.3%", [text])


def test_a_difference_between_two_years_is_a_calculation() -> None:
    wanted = calculation_of("What is the difference between total revenue in 2021 and in 2020?")
    assert wanted is not None
    assert wanted.operands == ("What was total revenue in 2020?", "What was total revenue in 2021?")
    assert calculation_of("What is the difference between sales in 2021 and the cost of sales in 2020?") is None


def test_the_amounts_of_two_years_are_stated() -> None:
    question = "According to the two annual reports of Alder, what was the water use in 2018 and in 2019?"
    wanted = calculation_of(question)
    assert wanted is not None
    assert wanted.operands == ("What was the water use of Alder in 2018?", "What was the water use of Alder in 2019?")
    text = "Water use came to 188,352 cubic metres in 2019, where 2018 had needed 209,280 cubic metres."
    found = amounts_of_years("What was the water use in 2018?", YEARS, Document("report", text))
    assert found is not None
    answer = worked_out(wanted, found)
    assert answer is not None
    assert answer.answer == "209,280 cubic metres in 2018 and 188,352 cubic metres in 2019"


@pytest.mark.parametrize(
    "question",
    [
        "What was the change in sales in 2018 and 2019?",
        "What was the average of sales and costs in 2018 and in 2019, and why?",
        "What was discussed with the board in 2018 and at the fair in 2019?",
    ],
)
def test_other_questions_over_two_years_are_not(question: str) -> None:
    wanted = calculation_of(question)
    assert wanted is None or wanted.operation != "each"
