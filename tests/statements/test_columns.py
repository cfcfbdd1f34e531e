"""The column of a statement that a question asks for, by the time that its heads bear: the right cell or none."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.sentences import stated
from okralong.pipelines.answering.workflows.documents_rules import task_by_rules
from okralong.pipelines.core.types import Document
from okralong.pipelines.statements.asked import line_item_of
from okralong.pipelines.statements.choice import Choice, answer_of, choose
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.times import Time, fits, time_of

QUARTERS = """| $ millions | Q1 2024 | Q2 2024 | Q3 2024 |
| --- | --- | --- | --- |
| Net sales | 100 | 200 | 300 |
"""
SIX_MONTHS = """(in millions)
                 Three Months Ended June 30,      Six Months Ended June 30,
                     2024          2023              2024         2023
Net sales             100            90               210          180
"""
NINE_MONTHS = """| (in millions) | Three months ended September 30, | | Nine months ended September 30, | |
| --- | --- | --- | --- | --- |
| | 2024 | 2023 | 2024 | 2023 |
| Net sales | 10 | 9 | 31 | 28 |
"""
MERGED = NINE_MONTHS.replace(", | |", ",  |")
"""Its upper head has one cell for two columns."""
WHOLE = "| in millions | Three months ended June 30, 2024 | Six months ended June 30, 2024 |\n| Net sales | 7 | 13 |\n"
DAYS = """In millions              June 30, 2024     March 31, 2024
Net sales                       60                70
"""
RETAIL = """In millions     13 Weeks Ended            39 Weeks Ended
            October 28,  October 29,   October 28,  October 29,
                2023         2022          2023         2022
Net sales         5            4            15           12
"""
TITLED = """For the three months ended March 31, 2024 and 2023 (in millions)
              2024     2023
Net sales        8        7
"""
TWO_SPANS = TITLED.replace("three months", "three and six months")
THIRD = "Third quarter of 2024 and 2023 (in millions)\nNet sales        8        7\n"
NO_SPANS = "In millions    2024    2023    2024    2023\nNet sales    8   7   16   14\n"
GAP = QUARTERS.replace("| 100 |", "| |")
WITH_YEAR = "| $ millions | Q3 2024 | Q4 2024 | 2024 |\n| Net sales | 3 | 4 | 15 |\n"
NOTE_ABOVE = f"{QUARTERS}| Notes due 2028 | 5 | 5 | 6 |\n| Net sales | 100 | 200 | 300 |\n"


@pytest.mark.parametrize(
    ("text", "when", "value", "period"),
    [
        (QUARTERS, "in Q3 2024", "300", "Q3 2024"),
        (QUARTERS, "in the third quarter of 2024", "300", "Q3 2024"),
        (QUARTERS, "", "300", "Q3 2024"),
        (QUARTERS, "in 2024", None, ""),
        (QUARTERS, "in Q4 2024", None, ""),
        (QUARTERS, "in Q3 2023", None, ""),
        (GAP, "in Q1 2024", None, ""),
        (GAP, "in Q2 2024", "200", "Q2 2024"),
        (QUARTERS.replace("300", "300 (1)"), "in Q3 2024", "300", "Q3 2024"),
        (NOTE_ABOVE, "in Q2 2024", "200", "Q2 2024"),
        (WITH_YEAR, "in Q4 2024", "4", "Q4 2024"),
        (WITH_YEAR, "in 2024", "15", "2024"),
        (SIX_MONTHS, "for the six months ended June 30, 2024", "210", "6 months to 2024-06-30"),
        (SIX_MONTHS, "for the three months ended June 30, 2023", "90", "3 months to 2023-06-30"),
        (SIX_MONTHS, "in Q2 2024", "100", "3 months to 2024-06-30"),
        (SIX_MONTHS, "in the first half of 2023", "180", "6 months to 2023-06-30"),
        (SIX_MONTHS, "", "100", "3 months to 2024-06-30"),
        (SIX_MONTHS, "in 2024", None, ""),
        (SIX_MONTHS, "in Q3 2024", None, ""),
        (SIX_MONTHS, "for the nine months ended September 30, 2024", None, ""),
        (SIX_MONTHS, "for the year ended June 30, 2024", None, ""),
        (NINE_MONTHS, "for the nine months ended September 30, 2024", "31", "9 months to 2024-09-30"),
        (NINE_MONTHS, "for the three months ended September 30, 2023", "9", "3 months to 2023-09-30"),
        (NINE_MONTHS, "in 2024", None, ""),
        (MERGED, "for the nine months ended September 30, 2023", "28", "9 months to 2023-09-30"),
        (WHOLE, "for the six months ended June 30, 2024", "13", "6 months to 2024-06-30"),
        (DAYS, "at March 31, 2024", "70", "2024-03-31"),
        (DAYS, "at June 30, 2024", "60", "2024-06-30"),
        (DAYS, "at September 30, 2024", None, ""),
        (DAYS, "in 2024", None, ""),
        (DAYS, "", "60", "2024-06-30"),
        (RETAIL, "for the 39 weeks ended October 29, 2022", "12", "39 weeks to 2022-10-29"),
        (RETAIL, "for the thirteen weeks ended October 28, 2023", "5", "13 weeks to 2023-10-28"),
        (TITLED, "for the three months ended March 31, 2023", "7", "3 months to 2023-03-31"),
        (TITLED, "in 2023", None, ""),
        (TWO_SPANS, "in 2024", None, ""),
        (TWO_SPANS, "for the six months ended March 31, 2023", None, ""),
        (TWO_SPANS, "", "8", ""),
        (THIRD, "in 2023", None, ""),
        (THIRD, "in Q3 2023", "7", "Q3 2023"),
        (THIRD.replace("2024 and 2023", "   2024    2023"), "in 2023", None, ""),
        (NO_SPANS, "in 2024", None, ""),
        (NO_SPANS, "for the six months ended June 30, 2024", None, ""),
        (NO_SPANS, "", None, ""),
        (NO_SPANS, "in 2023 and 2024", None, ""),
    ],
)
def test_the_column_of_the_time_that_is_asked_for_and_its_own_period(
    text: str, when: str, value: str | None, period: str
) -> None:
    document = Document("alder", text)
    found = choose(f"What were net sales {when}?", "money", document)
    if value is None:
        assert not isinstance(found, Choice)
        return
    assert isinstance(found, Choice)
    assert (answer_of(found, document).answer, found.value.value) == (value, f"{value}000000")
    assert found.value.period == period


HEAD = "In millions        2024       2023\n"


@pytest.mark.parametrize(
    ("rows", "question", "value"),
    [
        ("Net income (loss)   (12)   (15)\n", "What was net income in 2024?", "-12000000"),
        ("Net income (loss)   (12)   (15)\n", "What was net income in 2023?", "-15000000"),
        ("Net income (1)   30   20\n", "What was net income in 2024?", "30000000"),
        ("Net income   (1)   30\n", "What was net income in 2024?", "-1000000"),
        ("Net sales (% change)   12   10\nNet sales   500   400\n", "What were net sales in 2024?", "500000000"),
        ("Net sales %   12   10\nNet sales   500   400\n", "What were net sales in 2024?", "500000000"),
        ("Net sales (per share)   12   10\nNet sales   500   400\n", "What were net sales in 2024?", "500000000"),
        (
            "Europe\nNet sales   50   40\nAmericas\nNet sales   70   60\nTotal\nNet sales   120   100\n",
            "What were net sales in 2024?",
            "120000000",
        ),
        (
            "Net sales   500   400\nMade of, in millions        2024       2023\nNet sales   30   20\n",
            "What were net sales in 2024?",
            None,
        ),
        ("Net sales   500   400\nTables:\nNet sales   500.4   399.8\n", "What were net sales in 2024?", "500000000"),
    ],
)
def test_marks_changes_and_rows_that_differ(rows: str, question: str, value: str | None) -> None:
    found = choose(question, "money", Document("alder", HEAD + rows))
    assert (found.value.value if isinstance(found, Choice) else None) == value


def test_a_question_of_several_times_has_none() -> None:
    assert time_of("What were net sales in 2023 and 2024?") is None
    assert time_of("What were net sales of the three and six months ended June 30, 2024?") is None
    assert time_of("What were net sales?") == Time()
    assert fits(Time("2024"), Time("2024", count=12, unit="month", end="12-31"))
    assert not fits(Time("2024"), Time("2024", part="Q3"))


def test_long_texts_take_no_longer_than_their_length() -> None:
    """No clock is read: what takes exponential or quadratic time here would take minutes."""
    for words in ("half ", "halfs ", "fy 1 ", "q1 and ", "2024 "):
        asked = f"What were net sales for {words * 5_000}x?"
        assert line_item_of(asked) is None
    item = line_item_of("What were net sales?")
    assert item is not None
    for text in (
        f"Net sales for {'half ' * 5_000}x",
        "Net sales " + "  1" * 20_000,
        "1  2" * 20_000,
        f"{'2024  ' * 5_000}\nNet sales  5  6\n",
        "Dollars in millions\n" + "In 2023, net sales were $38,314. " * 800,
    ):
        document = Document("alder", text)
        assert sum(len(table.rows) for table in tables_of(document)) <= 2
        found = stated("What were net sales?", "money", item, document)
        assert (found is not None) == text.startswith("Dollars")
    assert task_by_rules(f"Which company has {'1 in a ' * 10_000}") is None
