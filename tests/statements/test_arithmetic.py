"""Calculations by code: what a question wants to be worked out, of which cells, and what they come to."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.calculation import read_calculation
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Answer, Citation, Document, Question, TypedValue
from okralong.pipelines.methods.registry import FullPolicy, load_strategy
from okralong.pipelines.statements.arithmetic import calculation_of, worked_out
from tests.fakes.tools import ScriptedTools, analysis

TEXT = """Alder: annual report 2023

Table: Income statement (in thousands of dollars)
                      2023        2022        2021
Revenue            462,539     421,196     400,000
Audit fee              330         402         310
Tax rate             24.0%       21.0%       22.0%
Net loss           (6,003)      81,499      70,000

Table: Balance sheet at 31 December (in thousands of dollars)
                      2023        2022        2021
Current assets          187,768     182,381     170,000
Current liabilities      52,470      58,947      60,000
"""
DEFAULT = load_config(FullPolicy, "policy/default.yaml")
DOCUMENT = Document("alder", TEXT, title="Alder")


@pytest.mark.parametrize(
    ("question", "operation", "operands"),
    [
        (
            "By what percentage did the audit fee at Alder fall from 2022 to 2023?",
            "percent",
            ("What was the audit fee at Alder in 2022?", "What was the audit fee at Alder in 2023?"),
        ),
        (
            "What was the percentage change in revenue from software in 2019 from 2018?",
            "percent",
            ("What was revenue from software in 2018?", "What was revenue from software in 2019?"),
        ),
        ("What was the % change in sales between 2013 and 2012?", "percent", ("sales in 2012", "sales in 2013")),
        ("What is the growth rate of sales from 2006 to 2007?", "percent", ("sales in 2006", "sales in 2007")),
        (
            "What was the ratio of current assets to current liabilities of Alder at the end of 2024?",
            "ratio",
            ("current assets of Alder at the end of 2024", "current liabilities of Alder at the end of 2024"),
        ),
        ("What was the average net sales for aeronautics from 2014 to 2016?", "average", ("2014", "2015", "2016")),
        ("What was the average cost of revenue for 2017-2019?", "average", ("in 2017", "in 2018", "in 2019")),
        (
            "What was the average cost of revenue between 2017 \u2013 2019?",
            "average",
            ("in 2017", "in 2018", "in 2019"),
        ),
        ("What was the average of sales in 2014 and 2016?", "average", ("sales in 2014", "sales in 2016")),
        (
            "What were average monthly operating costs of Alder in 2019?",
            "average",
            ("operating costs of Alder in 2019",),
        ),
        ("What was the change in sales between 2018 and 2019?", "difference", ("sales in 2018", "sales in 2019")),
    ],
)
def test_what_is_worked_out_of_what(question: str, operation: str, operands: tuple[str, ...]) -> None:
    found = calculation_of(question)
    assert found is not None
    assert found.operation == operation
    assert len(found.operands) == len(operands)
    assert all(part in whole for part, whole in zip(operands, found.operands, strict=True))


@pytest.mark.parametrize(
    "question",
    [
        "What was revenue in 2022?",
        "Why did revenue fall from 2022 to 2023?",
        "What would revenue be if it grew by the percentage change in sales from 2022 to 2023?",
        "What is the cumulative total return from 2014 to 2019?",
        "What was the absolute percentage change in the tax rate between 2018 and 2019?",
        "What was the growth of the additions in 2004?",
        "What was the ratio of sales in 2003 to sales in 2004?",
        "What was the average price?",
        "What was the average price in 2018-19?",
        "What was the change in sales from 2018-19 to 2020-21?",
        "What was the average quarterly cash balance in 2019?",
        "What was the average quarterly revenue from 2018 to 2019?",
        "What was the average revenue in 2019?",
        "What was the average of sales from 1990 to 2020?",
        "What drove the increase in revenue from 2022 to 2023?",
        "What caused the percentage change in sales between 2018 and 2019?",
        "How did the change in revenue from 2022 to 2023 affect the margin?",
        "By what percentage did revenue rise from 2022 to 2023, and why?",
        "What is the impact of the change in the tax rate from 2018 to 2019?",
    ],
)
def test_what_is_not_said_in_plain_words_is_left_to_others(question: str) -> None:
    assert calculation_of(question) is None


def amount(number: float, period: str, at: int = 0, **more: str) -> Answer:
    value = TypedValue(str(number), number, period=period, **more)
    return Answer("answered", str(number), (Citation("alder", at, at + 5, "row"),), value=value)


def test_amounts_that_do_not_fit_together_are_not_worked_with() -> None:
    change = calculation_of("By what percentage did sales fall from 2022 to 2023?")
    ratio = calculation_of("What was the ratio of assets to debts of Alder in 2023?")
    assert change is not None
    assert ratio is not None
    fits = worked_out(change, [amount(80, "2022"), amount(60, "2023")])
    assert fits is not None
    assert (fits.answer, fits.value, len(fits.citations)) == ("25.0%", TypedValue("25", 25.0, "%"), 1)
    assert (fits.way, fits.signals["operands"]) == ("calculation", 2)
    for others in (
        [amount(80, "2022"), amount(60, "2023", at=9)],  # another row
        [amount(80, "2022"), amount(60, "2022")],
        [amount(80, "2022"), amount(60, "")],
        [amount(0, "2022"), amount(60, "2023")],
        [amount(60, "2022"), amount(80, "2023")],  # it rose, and the question has it fall
        [amount(80, "2022"), amount(-60, "2023")],
        [amount(80, "2022", currency="USD"), amount(60, "2023", currency="EUR")],
        [amount(80, "2022", unit="%"), amount(60, "2023", unit="%")],
        [amount(80, "2022")],
    ):
        assert worked_out(change, others) is None
    assert worked_out(ratio, [amount(8, "2023"), amount(4, "2023")]) is None, "one row"
    assert worked_out(ratio, [amount(8, "2023"), amount(4, "2022", at=9)]) is None
    halves = worked_out(ratio, [amount(8, "2023"), amount(3, "2023", at=9)])
    assert halves is not None
    assert (halves.answer, len(halves.citations)) == ("2.67", 2)


@pytest.mark.parametrize(
    ("question", "answer", "rows"),
    [
        ("By what percentage did the audit fee of Alder fall from 2022 to 2023?", "17.9%", ("Audit fee",)),
        ("What was the percentage change in the audit fee from 2022 to 2023?", "-17.9%", ("Audit fee",)),
        ("What was the percentage decrease in the audit fee from 2022 to 2023?", "17.9%", ("Audit fee",)),
        ("By how much did revenue fall from 2022 to 2023?", None, ()),
        ("What was the percentage change in net loss from 2022 to 2023?", None, ()),
        ("What was the ratio of current assets to current liabilities of Alder in 2023?", "3.58", ("C", "C")),
        (
            "What was the ratio of current assets to current liabilities of Alder at the end of 2023?",
            "3.58",
            ("C", "C"),
        ),
        ("What was the change in revenue from 2022 to 2023?", "$41,343 thousand", ("Revenue",)),
        ("What was the change in net loss between 2022 and 2023?", "-$87,502 thousand", ("Net loss",)),
        ("What was the average revenue from 2021 to 2023?", "$427,911.67 thousand", ("Revenue",)),
        ("What was the average quarterly revenue in 2023?", "$115,634.75 thousand", ("Revenue",)),
        (
            "What was the average quarterly revenue in 2023, to the nearest thousand dollars?",
            "$115,635 thousand",
            ("Revenue",),
        ),
        ("What was the change in revenue from 2022 to 2023, to the nearest million?", "$41,000 thousand", ("Revenue",)),
        ("What was the difference in the tax rate between 2022 and 2023?", "3%", ("Tax rate",)),
        ("By what percentage did goodwill rise from 2022 to 2023?", None, ()),
        ("By what percentage did revenue rise from 2019 to 2023?", None, ()),
    ],
)
async def test_rows_of_the_document_are_worked_with(question: str, answer: str | None, rows: tuple[str, ...]) -> None:
    tools = ScriptedTools([DOCUMENT], reads_answers=True)
    found = await read_calculation(tools, question)
    assert (found and found.answer) == answer
    if found is not None:
        assert tuple(each.quote[: len(row)] for each, row in zip(found.citations, rows, strict=True)) == rows
        assert all(TEXT[each.start_char : each.end_char] == each.quote for each in found.citations)


async def test_the_method_takes_it_before_any_call_where_the_policy_says_so() -> None:
    question = Question("q", "By what percentage did the audit fee of Alder fall from 2022 to 2023?")
    tools = ScriptedTools([DOCUMENT], analysis=analysis("arithmetic"), reads_answers=True, policy=DEFAULT)
    found = await load_strategy("okralong")(question, tools)
    assert (found.status, found.answer) == ("answered", "17.9%")
    assert [each.quote for each in found.citations] == ["Audit fee              330         402         310"]
    assert not [call for call in tools.calls if call.tool == "complete"]
    typed = Question("q", question.question, answer_type="percent")
    tools = ScriptedTools(
        [DOCUMENT], analysis=analysis("arithmetic"), reads_answers=True, policy=DEFAULT, answer_type="percent"
    )
    value = (await load_strategy("okralong")(typed, tools)).value
    assert value is not None
    assert (value.value, value.unit) == ("17.910448", "%"), "all digits, which the text rounds"
    others = ScriptedTools([DOCUMENT], {"generate": ["Answer: 1"]}, analysis=analysis("arithmetic"), reads_answers=True)
    assert (await load_strategy("okralong")(question, others)).answer == "1", "the paper's policy asks the generator"
