"""A question over many documents taken apart: by the generator's contract, and by rules."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.workflows.documents_rules import options_of, task_by_rules
from okralong.pipelines.answering.workflows.documents_task import (
    DocumentsTask,
    read_conditions,
    read_task,
    task_prompt,
)
from okralong.pipelines.core.types import ReplyError
from okralong.pipelines.statements.table_operations import Operation


def limits(said: str, kind: str = "number") -> list[tuple[str, str]]:
    return [(each.sign, each.than.value) for each in read_conditions(said, kind)]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("> 10 million", [(">", "10000000")]),
        (">= 5 and < 10", [(">=", "5"), ("<", "10")]),
        ("20,000,000 and above", [(">=", "20000000")]),
        ("10,000,000 to 19,999,999", [(">=", "10000000"), ("<=", "19999999")]),
        ("above 0 and below 100,000", [(">", "0"), ("<", "100000")]),
        ("over $100,000 and up to $1,000,000", [(">", "100000"), ("<=", "1000000")]),
        ("0 and below", [("<=", "0")]),
        ("between 5 and 7 percent", [(">=", "5"), ("<=", "7")]),
        ("over 10,000 and below 50,000 in thousands", [(">", "10000000"), ("<", "50000000")]),
        ("exceeding 10,000,000 shares", [(">", "10000000")]),
        ("at least 12", [(">=", "12")]),
        ("12", [("=", "12")]),
        ("of no amount", []),
    ],
)
def test_limits_in_signs_and_in_words(said: str, wanted: list[tuple[str, str]]) -> None:
    assert limits(said) == wanted


def test_limits_of_other_kinds() -> None:
    assert limits("after 3 May 2011", "date") == [(">", "2011-05-03")]
    assert limits("before 2010", "date") == [("<", "2010")]
    assert limits("= yes", "boolean") == [("=", "yes")]


def test_the_contract() -> None:
    reply = "Sure.\n**Ask:** What was the revenue in 2021?\nType: Money.\nDo: top 3"
    assert read_task(reply) == DocumentsTask("What was the revenue in 2021?", "money", Operation("top", 3))
    plain = read_task("Ask: Who leads the company?")
    assert (plain.answer_type, plain.operation) == ("", None)
    bands = read_task("Ask: x y?\nType: number\nDo: bands high: > 20 million; low: <= 20 million").operation
    assert bands is not None
    assert [(band.name, [c.sign for c in band.conditions]) for band in bands.bands] == [
        ("high", [">"]),
        ("low", ["<="]),
    ]
    for said, wanted in (
        ("sort rising", Operation("sort", falling=False)),
        ("bottom 2", Operation("top", 2, False)),
        ("min", Operation("min", falling=False)),
        ("language model", None),
    ):
        assert read_task(f"Ask: x y?\nType: number\nDo: {said}").operation == wanted


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("I cannot.", "does not say what each document is asked"),
        ("Ask: x?\nType: colour\nDo: max", "The line Type cannot be read. The answer_type 'colour' is not known"),
        ("Ask: x?\nType: number\nDo: divide", "names no operation: 'divide'"),
        ("Ask: x?\nType: number\nDo: filter", "a filter without a condition"),
        ("Ask: x?\nType: number\nDo: bands high; low: > 2", "The group 'high' has no condition"),
    ],
)
def test_what_breaks_the_contract_is_said(reply: str, said: str) -> None:
    with pytest.raises(ReplyError, match=said.replace(".", r"\.")):
        read_task(reply)


@given(st.text(max_size=300))
def test_any_reply_is_a_task_or_an_error_that_says_why(reply: str) -> None:
    with suppress(ReplyError):
        assert read_task(f"Ask: {reply}\nDo: {reply}").ask
    task_by_rules(reply)
    read_conditions(reply)


def test_a_question_cannot_end_the_prompt() -> None:
    asked = task_prompt("What is <|im_end|> revenue?", 7)[1].content
    assert "<|im_end|>" not in asked
    assert asked.startswith("The question, over 7 documents: What is")


@pytest.mark.parametrize(
    ("question", "ask", "kind", "operation"),
    [
        ("Which company had the highest revenue in 2021?", "What was the revenue in 2021?", "money", "max"),
        ("Which of the companies has the lowest 'Net Profit'?", "What is the Net Profit?", "money", "min"),
        ("Which company has the most employees?", "What is the number of employees?", "number", "max"),
        ("Which firm spent the most on research in 2021?", "How much was spent on research in 2021?", "money", "max"),
        ("Which company was founded first?", "When was the company founded?", "date", "min"),
        (
            "Which company had the higher margin in 2020, Alder or Birch?",
            "What was the margin in 2020?",
            "percent",
            "max",
        ),
        ("What are the top 3 companies by total assets?", "What are the total assets?", "money", "top"),
        ("Rank the companies by revenue.", "What is the revenue?", "money", "sort"),
        (
            "Please list the 'Net Profit' of each of the aforementioned companies in ascending order.",
            "What is the Net Profit?",
            "money",
            "sort",
        ),
        (
            "How many companies had revenue above 5 million dollars in 2023?",
            "What was the revenue in 2023?",
            "money",
            "count",
        ),
        ("Which companies have more debt than 5 million?", None, "", ""),
        ("Which companies had revenue below $2 million in 2023?", "What was the revenue in 2023?", "money", "filter"),
        ("What is the combined revenue of the companies in 2023?", "What was the revenue in 2023?", "money", "sum"),
        (
            "What is the average net income of the three companies in 2023?",
            "What was the net income in 2023?",
            "money",
            "mean",
        ),
        (
            "What is the difference in revenue between Alder and Birch in 2021?",
            "What was the revenue in 2021?",
            "money",
            "difference",
        ),
        ("How did ALDER INC's net profit change from 2022 to 2024?", "What is the net profit?", "money", "growth"),
        (
            "What is the trend in Total Liabilities from 2023 to 2024?",
            "What are the Total Liabilities?",
            "money",
            "growth",
        ),
        ("List the revenue of each company.", "What is the revenue?", "money", "list"),
        ("Who founded Alder?", None, "", ""),
        ("Why did the sales of Alder rise in 2021?", None, "", ""),
        ("What was the revenue of Alder in 2021?", None, "", ""),
    ],
)
def test_questions_that_rules_read(question: str, ask: str | None, kind: str, operation: str) -> None:
    task = task_by_rules(question)
    if ask is None:
        assert task is None
        return
    assert task is not None
    assert task.operation is not None
    assert (task.ask, task.answer_type, task.operation.name) == (ask, kind, operation)


def test_groups_that_rules_read() -> None:
    asked = (
        "Please categorize the companies listed above by 'Total Shares' into the following groups: high shares "
        "(20,000,000 and above), medium (10,000,000 to 19,999,999), and low shares (below 10,000,000). Place companies "
        "into the same collection for the same category."
    )
    task = task_by_rules(asked)
    assert task is not None
    assert task.operation is not None
    found = [(band.name, [(c.sign, c.than.value) for c in band.conditions]) for band in task.operation.bands]
    assert found == [
        ("high shares", [(">=", "20000000")]),
        ("medium", [(">=", "10000000"), ("<=", "19999999")]),
        ("low shares", [("<", "10000000")]),
    ]
    plain = task_by_rules(
        "Group the companies by cash flow into the following categories: positive cash flow, negative cash flow."
    )
    assert plain is not None
    assert plain.operation is not None
    assert [(b.name, b.conditions[0].sign) for b in plain.operation.bands] == [
        ("positive cash flow", ">"),
        ("negative cash flow", "<"),
    ]


def test_options() -> None:
    assert options_of("Which had more revenue, Alder, Birch or Cedar Ltd?") == ("Alder", "Birch", "Cedar Ltd")
    assert options_of("Which company had the highest revenue?") == ()


@pytest.mark.parametrize(
    ("question", "ask", "value"),
    [
        (
            "What is the name of the company with accounts payable of $2,181 thousand?",
            "What is the accounts payable?",
            "2181000",
        ),
        (
            "What company has accounts receivable amounting to $28,160 in thousands?",
            "What is the accounts receivable?",
            "28160000",
        ),
        (
            "What is the name of the company with $30,179 in Accounts Receivable?",
            "What is the Accounts Receivable?",
            "30179",
        ),
        ("Which company had revenue of 5 million in 2023?", "What was the revenue in 2023?", "5000000"),
    ],
)
def test_a_question_for_whose_value_an_amount_is(question: str, ask: str, value: str) -> None:
    task = task_by_rules(question)
    assert task is not None
    assert (task.ask, task.answer_type) == (ask, "money")
    assert task.operation is not None
    assert task.operation.name == "filter"
    assert [(each.sign, each.than.value) for each in task.operation.conditions] == [("=", value)]


@pytest.mark.parametrize(
    "question",
    [
        "Which company has 5 employees in Germany?",
        "Which company has 3 plants in Europe?",
        "Which company has 10% of its sales in China?",
        "Which company has $5 million in Germany?",
        "Which company has 5 million shares in Germany?",
        "Which company has sales of 10%?",
    ],
)
def test_an_amount_of_other_things_is_no_measures_amount(question: str) -> None:
    assert task_by_rules(question) is None


def test_an_amount_in_thousands_is_no_measure_called_thousands() -> None:
    task = task_by_rules("What company has $28,160 in thousands in accounts receivable?")
    assert task is not None
    assert task.operation is not None
    assert (task.ask, task.operation.conditions[0].than.value) == ("What is the accounts receivable?", "28160000")
