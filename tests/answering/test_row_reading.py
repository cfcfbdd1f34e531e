"""Values off the rows of tables: the label that is asked for, the column of the year, the scale above."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.row_reading import row_answer, with_heads
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue

TEXT = """Alder's year. Revenue was a word that the board used often in 2023.

Table: Income statement (in thousands of dollars)
                                  2023        2022
Revenue                        462,539     421,196
Revenue of other firms           1,000       2,000
Net loss                       (6,003)      81,499
Basic loss per common share      (0.04)       0.60

Cash and cash equivalents at beginning of period    $   9,284   $  14,373
"""
DOCUMENT = Document("alder", TEXT)
PIECE = TEXT.index("Revenue   ")
"""The passage begins below the head, as a cut table does."""


def shown(start: int = PIECE) -> list[Passage]:
    return [Passage("alder", start, len(TEXT), TEXT[start:], 0, 1.0)]


@pytest.mark.parametrize(
    ("question", "value", "line"),
    [
        ("What was the revenue in 2023?", "462539000", "Revenue  "),
        ("What was the revenue in 2022?", "421196000", "Revenue  "),
        ("What is the Net Profit?", "-6003000", "Net loss"),
        ("What are the Basic Earnings Per Share?", "-0.04", "Basic loss"),
        ("What is the Beginning Balance of Cash and Cash Equivalents?", "9284000", "Cash and cash"),
    ],
)
def test_the_row_and_the_column_that_are_asked_for(question: str, value: str, line: str) -> None:
    answer = row_answer(question, "money", shown(), DOCUMENT)
    assert answer is not None
    assert answer.value is not None
    assert (answer.value.value, answer.value.currency) == (value, "USD")
    (source,) = answer.citations
    assert source.quote.startswith(line)
    assert TEXT[source.start_char : source.end_char] == source.quote


@pytest.mark.parametrize("question", ["What was the revenue in 2021?", "What is the goodwill?", "Who leads Alder?"])
def test_no_row_is_better_than_another_ones(question: str) -> None:
    assert row_answer(question, "money", shown(), DOCUMENT) is None


def test_what_stands_above_the_piece_that_was_shown_is_said_of_its_values() -> None:
    at = TEXT.index("421,196")
    cited = Citation("alder", PIECE, TEXT.index("\n", at), TEXT[PIECE : TEXT.index("\n", at)])
    bare = Answer("answered", "421,196", (cited,), value=TypedValue("421196", 421196.0, period="2022"))
    found = with_heads("What was the revenue?", "money", bare, DOCUMENT)
    assert found.value is not None
    assert (found.value.value, found.value.scale, found.value.currency) == ("421196000", "thousand", "USD")
    assert with_heads("x", "money", Answer("answered", "421,196"), DOCUMENT).value is None
