"""The one cell that a question asks for: never a neighbouring row, year, segment or kind of figure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.types import Answer, Citation, Document, TypedValue
from okralong.pipelines.statements.choice import Ambiguous, Blank, Choice, answer_of, choose, contradicts
from tests.statements.tables import Writer

INCOME = Writer().add(
    ["2024", "2023", "2022"],
    [
        ("Net sales", "1,200", "1,100", "1,000"),
        ("Cost of sales", "700", "650", "600"),
        ("Gross profit", "500", "450", "400"),
        ("Interest income", "9", "8", "7"),
        ("Net interest income", "4", "3", "2"),
        ("Income before income taxes", "120", "n.m.", "90"),
        ("Income taxes", "20", "15", "10"),
        ("Net income", "n.m.", "85", "80"),
        ("Net income per share:",),
        ("Basic", "1.10", "1.05", "1.00"),
        ("Diluted", "1.08", "1.03", "0.98"),
    ],
    "Consolidated Statements of Income",
    stub="Year ended December 31,",
    page="40",
)
BALANCE = Writer().add(
    ["December 31, 2024", "December 31, 2023"],
    [
        ("Current assets:",),
        ("Cash and cash equivalents", "50", "40"),
        ("Inventories, net", "60", "55"),
        ("Total current assets", "150", "140"),
        ("Total assets", "900", "850"),
        ("Current liabilities:",),
        ("Accounts payable", "70", "65"),
        ("Total current liabilities", "110", "100"),
    ],
    "Consolidated Balance Sheets",
)
QUARTERS = Writer().add(
    ["Q1 2024", "Q2 2024", "Q3 2024", "Q4 2024", "FY2024"],
    [("Net sales", "290", "300", "305", "", "1,200")],
    "Quarterly results",
)
MONTHS = Writer().add(
    [
        ("Three months ended June 30,", "2024"),
        ("Three months ended June 30,", "2023"),
        ("Six months ended June 30,", "2024"),
        ("Six months ended June 30,", "2023"),
    ],
    [("Net sales", "100", "90", "210", "180")],
    "Condensed Consolidated Statements of Operations",
)
PRODUCTS = Writer().add(
    ["2024", "2023"],
    [("AB-3", "11", "10"), ("AB-4", "22", "20"), ("Total revenue", "33", "30")],
    "Revenue by product",
)
SEGMENTS = Writer().add(
    ["2024", "2023"],
    [
        ("Europe:",),
        ("Revenue", "11", "10"),
        ("Operating income", "3", "2"),
        ("Asia:",),
        ("Revenue", "22", "20"),
        ("Operating income", "5", "4"),
    ],
    "Segment information",
)
BESIDE = Writer().add(
    [("Europe", "2024"), ("Asia", "2024"), ("Total", "2024")],
    [("Revenue", "11", "22", "33")],
    "Segment results",
)
GROUP = Writer().add(
    [("Group", "2024"), ("Group", "2023"), ("Parent company", "2024"), ("Parent company", "2023")],
    [("Total assets", "900", "850", "400", "390")],
    "Statements of financial position",
)
PARENT = Writer().add(
    ["2024", "2023"], [("Total assets", "400", "390")], "Condensed balance sheets (parent company only)"
)
CHANGES = Writer().add(
    ["2024", "2023", "Change", "% Change", "% of net sales"],
    [("Net sales", "1,200", "1,100", "100", "9.1%", "100.0%")],
    "Results of operations",
)
PLANS = Writer().add(
    [("Actual", "2024"), ("Budget", "2024"), ("Forecast", "2025")],
    [("Net sales", "1,200", "1,250", "1,300")],
    "Budget comparison of the year",
)
RESTATED = Writer().add(
    [("As previously reported", "2023"), ("Adjustments", "2023"), ("As restated", "2023")],
    [("Net income", "90", "(5)", "85")],
    "Restatement",
)
FISCAL = Writer().add(
    ["FY24", "FY23", "2021/22"], [("Turnover", "7", "6", "5")], "Profit and loss account", "(\u00a3m)"
)
YEARS_DOWN = Writer().add(
    ["Net sales", "Net income"],
    [("2023", "1,100", "85"), ("2024", "1,200", "95")],
    "Five years",
)
PER_SHARE = Writer().add(
    ["2024", "2023"],
    [
        ("Net income", "95", "85"),
        ("Per share:",),
        ("Net income", "1.10", "1.05"),
        ("Dividends", "0.20", "0.10"),
    ],
    "Selected data",
)


@pytest.mark.parametrize(
    ("writer", "question", "value", "period"),
    [
        (INCOME, "What were net sales in 2023?", "1100000000", "year to 2023-12-31"),
        (INCOME, "What was revenue?", "1200000000", "year to 2024-12-31"),
        (INCOME, "What was the cost of sales in 2022?", "600000000", "year to 2022-12-31"),
        (INCOME, "What was interest income in 2024?", "9000000", "year to 2024-12-31"),
        (INCOME, "What was net interest income in 2024?", "4000000", "year to 2024-12-31"),
        (INCOME, "What was net income in 2023?", "85000000", "year to 2023-12-31"),
        (INCOME, "What was net income in 2024?", None, ""),
        (INCOME, "What was net income?", None, ""),
        (INCOME, "What was income before income taxes in 2023?", None, ""),
        (INCOME, "What was diluted earnings per share in 2024?", "1.08", "year to 2024-12-31"),
        (INCOME, "What was diluted EPS?", "1.08", "year to 2024-12-31"),
        (INCOME, "What was basic EPS in 2022?", "1", "year to 2022-12-31"),
        (INCOME, "What were net sales in 2021?", None, ""),
        (INCOME, "What was goodwill in 2024?", None, ""),
        (INCOME, "What were net sales of AB-3 in 2024?", None, ""),
        (BALANCE, "What were total assets?", "900000000", "2024-12-31"),
        (BALANCE, "What were current assets at December 31, 2023?", "140000000", "2023-12-31"),
        (BALANCE, "What were inventories?", "60000000", "2024-12-31"),
        (BALANCE, "What was accounts payable?", "70000000", "2024-12-31"),
        (BALANCE, "What were net assets?", None, ""),
        (BALANCE, "What were other current assets?", None, ""),
        (QUARTERS, "What were net sales in Q2 2024?", "300000000", "Q2 2024"),
        (QUARTERS, "What were net sales in Q1 2024?", "290000000", "Q1 2024"),
        (QUARTERS, "What were net sales in Q4 2024?", None, ""),
        (QUARTERS, "What were net sales in the third quarter of 2024?", "305000000", "Q3 2024"),
        (QUARTERS, "What were net sales in 2024?", "1200000000", "2024"),
        (QUARTERS, "What were net sales?", "1200000000", "2024"),
        (MONTHS, "What were net sales for the six months ended June 30, 2024?", "210000000", "6 months to 2024-06-30"),
        (MONTHS, "What were net sales for the three months ended June 30, 2023?", "90000000", "3 months to 2023-06-30"),
        (MONTHS, "What were net sales in Q2 2024?", "100000000", "3 months to 2024-06-30"),
        (MONTHS, "What were net sales for the nine months ended June 30, 2024?", None, ""),
        (MONTHS, "What were net sales in 2024?", None, ""),
        (PRODUCTS, "What was the revenue of AB-3 in 2024?", "11000000", "2024"),
        (PRODUCTS, "What was AB-4 revenue in 2023?", "20000000", "2023"),
        (PRODUCTS, "What was AB-3's revenue in 2024?", "11000000", "2024"),
        (PRODUCTS, "What was the revenue of AB-5 in 2024?", None, ""),
        (PRODUCTS, "What was total revenue in 2024?", "33000000", "2024"),
        (SEGMENTS, "What was the revenue of Europe in 2024?", "11000000", "2024"),
        (SEGMENTS, "What was the operating income of Asia in 2023?", "4000000", "2023"),
        (SEGMENTS, "What was the revenue of Africa in 2023?", None, ""),
        (BESIDE, "What was revenue in Asia in 2024?", "22000000", "2024"),
        (BESIDE, "What was revenue in 2024?", "33000000", "2024"),
        (GROUP, "What were total assets in 2024?", "900000000", "2024"),
        (GROUP, "What were total assets of the parent company in 2023?", "390000000", "2023"),
        (PARENT, "What were total assets in 2024?", None, ""),
        (CHANGES, "What were net sales in 2024?", "1200000000", "2024"),
        (CHANGES, "What were net sales?", "1200000000", "2024"),
        (PLANS, "What were net sales in 2024?", "1200000000", "2024"),
        (PLANS, "What were net sales in 2025?", None, ""),
        (PLANS, "What were budgeted net sales in 2024?", "1250000000", "2024"),
        (RESTATED, "What was net income in 2023?", "85000000", "2023"),
        (RESTATED, "What was net income in 2023 as previously reported?", "90000000", "2023"),
        (RESTATED, "What was restated net income in 2023?", "85000000", "2023"),
        (FISCAL, "What was revenue in FY2023?", "6000000", "2023"),
        (FISCAL, "What was revenue in fiscal 2022?", "5000000", "2022"),
        (YEARS_DOWN, "What was net income in 2024?", "95000000", "2024"),
        (YEARS_DOWN, "What were net sales?", "1200000000", "2024"),
        (PER_SHARE, "What was net income in 2024?", "95000000", "2024"),
        (PER_SHARE, "What was net income per share in 2024?", "1.1", "2024"),
    ],
)
def test_the_cell_that_is_asked_for_or_none(writer: Writer, question: str, value: str | None, period: str) -> None:
    found = choose(question, "money", writer.document())
    if value is None:
        assert found is None or isinstance(found, Blank)
        return
    assert isinstance(found, Choice)
    assert (found.value.value, found.value.period) == (value, period)
    assert writer.text[found.cell.start : found.cell.end] == found.cell.text
    assert found.row in found.table.rows


def _report(*tables: tuple[str, list[str], list[tuple[str, ...]]], unit: str = "(in millions of dollars)") -> Document:
    writer = Writer()
    for title, heads, lines in tables:
        writer.add(heads, lines, title, unit)
    return writer.document()


YEARS = ["2024", "2023"]
INCOME_STATEMENT = ("Consolidated Statements of Income", YEARS, [("Revenue", "100", "90"), ("Net income", "9", "8")])


@pytest.mark.parametrize(
    ("document", "question", "value"),
    [
        pytest.param(
            _report(("Overview", YEARS, [("Revenue", "150", "140")]), INCOME_STATEMENT),
            "What was revenue in 2024?",
            "100000000",
            id="a statement outranks another table",
        ),
        pytest.param(
            _report(
                INCOME_STATEMENT,
                ("Outlook on payments due", ["2025", "2026"], [("Revenue", "1", "2"), ("Leases", "3", "4")]),
            ),
            "What was revenue?",
            "100000000",
            id="years to come are not the report's own",
        ),
        pytest.param(
            _report(INCOME_STATEMENT, ("Older", ["2022", "2021"], [("Leases", "3", "4")])),
            "What were leases?",
            None,
            id="an earlier year is not the report's own",
        ),
        pytest.param(
            _report(INCOME_STATEMENT, ("Quarterly data", ["Q3 2024", "Q4 2024"], [("Bookings", "3", "4")])),
            "What were bookings?",
            None,
            id="a quarter is not an annual report's own period",
        ),
        pytest.param(
            _report(
                ("Statements of cash flows", YEARS, [("Changes in operating assets:",), ("Inventories", "(5)", "4")]),
                INCOME_STATEMENT,
            ),
            "What were inventories in 2024?",
            None,
            id="a change of a balance is not the balance",
        ),
        pytest.param(
            _report(("Balance sheets", YEARS, [("Assets", "", ""), ("Total assets", "\u2014", "80")])),
            "What were total assets?",
            None,
            id="a dash is no value, and neither is that of the year before",
        ),
        pytest.param(
            _report(
                INCOME_STATEMENT, ("Pro forma results", YEARS, [("Revenue", "130", "120"), ("Synergies", "1", "2")])
            ),
            "What were synergies in 2024?",
            None,
            id="pro forma figures are not actual ones",
        ),
        pytest.param(
            _report(INCOME_STATEMENT, ("Segment Alpha", YEARS, [("Backlog", "7", "6")])),
            "What was the backlog of Alpha in 2024?",
            "7000000",
            id="a title names the segment",
        ),
        pytest.param(
            _report(INCOME_STATEMENT, ("Alpha and Beta", ["Alpha", "Beta"], [("Backlog", "7", "6")])),
            "What was the backlog of Beta in 2024?",
            "6000000",
            id="a table without years is of the report's own year",
        ),
        pytest.param(
            _report(INCOME_STATEMENT, ("Alpha and Beta", ["Alpha", "Beta"], [("Backlog", "7", "6")])),
            "What was the backlog of Beta in 2023?",
            None,
            id="but not of the year before",
        ),
        pytest.param(
            _report(("Results", YEARS, [("Revenue growth", "5%", "4%"), ("Revenue", "100", "90")])),
            "What was revenue in 2024?",
            "100000000",
            id="growth is not the amount",
        ),
        pytest.param(
            _report(("Results", YEARS, [("As a percentage of revenue:",), ("Net income", "9", "8")])),
            "What was net income in 2024?",
            None,
            id="a share is not the amount",
        ),
    ],
)
def test_of_several_tables_the_right_one(document: Document, question: str, value: str | None) -> None:
    found = choose(question, "money", document)
    assert (found.value.value if isinstance(found, Choice) else None if isinstance(found, Blank) else found) == value


def test_cells_that_fit_equally_give_no_value_and_a_reason_that_names_them() -> None:
    document = SEGMENTS.document()
    found = choose("What was revenue in 2024?", "money", document)
    assert isinstance(found, Ambiguous)
    answer = answer_of(found, document)
    assert (answer.status, answer.value, answer.citations) == ("unanswerable", None, ())
    for part in ("ambiguous", "11", "22", "Europe", "Asia", "Segment information"):
        assert part in answer.error
    assert any("Asia" in passage.text for passage in answer.context)


def test_tables_that_round_alike_agree_and_others_do_not() -> None:
    exact = Writer().add(YEARS, [("Backlog", "8,929.4", "1")], "One", "(in millions of dollars)")
    exact.add(YEARS, [("Backlog", "8.9", "1")], "Two", "(in billions of dollars)")
    found = choose("What was the backlog in 2024?", "money", exact.document())
    assert isinstance(found, Choice)
    assert found.value.value == "8929400000"
    exact.add(YEARS, [("Backlog", "9.1", "1")], "Three", "(in billions of dollars)")
    assert isinstance(choose("What was the backlog in 2024?", "money", exact.document()), Ambiguous)


def test_of_two_currencies_the_wanted_one() -> None:
    writer = Writer().add(YEARS, [("Backlog", "7", "6")], "One", "(in millions of dollars)")
    document = writer.add(YEARS, [("Backlog", "8", "7")], "Two", "(in millions of euros)").document()
    assert isinstance(choose("What was the backlog in 2024?", "money", document), Ambiguous)
    found = choose("What was the backlog in 2024 in EUR?", "money", document)
    assert isinstance(found, Choice)
    assert (found.value.value, found.value.currency) == ("8000000", "EUR")


def test_an_answer_cites_the_row() -> None:
    document = BALANCE.document()
    found = choose("What were total assets?", "money", document)
    assert found is not None
    answer = answer_of(found, document)
    (source,) = answer.citations
    assert (answer.answer, answer.replied_by) == ("900", ("statement-rules",))
    assert source.quote == document.text[source.start_char : source.end_char] == "Total assets | 900 | 850"
    assert source.quote in answer.context[0].text


@pytest.mark.parametrize(
    ("question", "said", "wrong"),
    [
        ("What was net income in 2024?", "85", True),
        ("What was net income in 2023?", "85", False),
        ("What was net income in 2023?", "450", True),
        ("What was the profit of the shop in 2023?", "450", False),
        ("What was it?", "85", False),
    ],
)
def test_a_cell_that_a_model_read_may_be_of_another_year_or_line_item(question: str, said: str, wrong: bool) -> None:
    document = INCOME.document()
    at = document.text.index(f" {said} ") + 1
    row = next(row for row in document.tables[0].rows if row.start < at < row.end) if document.tables else None
    assert row is not None
    cited = Citation("alder", row.start, row.end, document.text[row.start : row.end])
    answer = Answer("answered", said, (cited,), value=TypedValue(said, float(said)))
    assert contradicts(question, "money", answer, document) == wrong


@pytest.mark.parametrize(
    ("when", "value"),
    [
        ("Q4 of fiscal 2024", "100000000"),
        ("Q2 2024", None),
        ("the fourth quarter of 2023", "90000000"),
        ("Q4 2025", None),
    ],
)
def test_quarters_are_those_of_the_fiscal_year(when: str, value: str | None) -> None:
    writer = Writer()
    writer.text = "For the fiscal year ended June 30, 2024 and the fiscal years ended June 30, 2023 and 2022.\n"
    heads = [("Three months ended June 30,", "2024"), ("Three months ended June 30,", "2023")]
    document = writer.add(heads, [("Net sales", "100", "90")], "Quarterly results").document()
    found = choose(f"What were net sales in {when}?", "money", document)
    assert (found.value.value if isinstance(found, Choice) else None if isinstance(found, Blank) else found) == value


LABELS = st.lists(
    st.text("bcdfgklmnprstvz", min_size=5, max_size=9).map(lambda word: f"{word}o quix"),
    min_size=1,
    max_size=6,
    unique=True,
)
HEADS = st.one_of(
    st.lists(st.integers(1995, 2035).map(str), min_size=1, max_size=6, unique=True),
    st.lists(
        st.sampled_from([f"{part} {year}" for part in ("Q1", "Q2", "Q3", "Q4", "H1") for year in (2022, 2023)]),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.lists(
        st.tuples(st.sampled_from(["Three", "Six", "Nine"]), st.integers(2019, 2024)).map(
            lambda pair: (f"{pair[0]} months ended September 30,", str(pair[1]))
        ),
        min_size=1,
        max_size=6,
        unique=True,
    ),
)


@settings(max_examples=60, deadline=None)
@given(LABELS, HEADS, st.data())
def test_each_cell_is_found_by_its_label_and_head(
    labels: list[str], heads: list[str | tuple[str, ...]], data: st.DataObject
) -> None:
    numbers = st.lists(
        st.integers(100, 99_999).map(lambda number: f"{number:,}"), min_size=len(heads), max_size=len(heads)
    )
    lines = [(label, *data.draw(numbers)) for label in labels]
    document = Writer().add(heads, lines).document()
    for number, line in enumerate(lines):
        for column, head in enumerate(heads):
            when = head if isinstance(head, str) else " ".join(head)
            said = f"in {when}" if isinstance(head, str) else f"for the {when}"
            found = choose(f"What was the {line[0]} {said}?", "number", document)
            assert isinstance(found, Choice)
            assert (found.row.label, found.cell.column) == (lines[number][0], column)
            assert found.cell.text == line[column + 1]
            assert choose(f"What was the bazqua {line[0]} {said}?", "number", document) is None
            assert choose(f"What was the bazqua {said}?", "number", document) is None


def test_a_blank_cell_of_a_statement_is_no_value_and_no_note_takes_its_place() -> None:
    writer = Writer().add(
        ["2024", "2023"],
        [("Total revenues", "—", "139,709")],
        "Consolidated Statements of Operations",
        "(in thousands)",
    )
    document = writer.add(["2024", "2023"], [("Revenues", "12", "11")], "Segment results", "(in thousands)").document()
    found = choose("What was the revenue in 2024?", "money", document)
    assert isinstance(found, Blank)
    answer = answer_of(found, document)
    assert (answer.status, answer.context[0].doc_id) == ("unanswerable", document.doc_id)
    assert (
        answer.error
        == 'no value: the statement has — ("Total revenues", "2024", Consolidated Statements of Operations).'
    )


def test_amounts_per_share_are_not_taken_from_numbers_of_shares() -> None:
    rows: list[tuple[str, ...]] = [
        ("Net income per share:",),
        ("Diluted earnings per share attributable to common stockholders", "0.46"),
        ("Weighted-average common shares used in calculating:",),
        ("Diluted earnings per share attributable to common stockholders", "53,622,904"),
    ]
    document = Writer().add(["2024"], rows, "Consolidated Statements of Operations").document()
    found = choose("What were the diluted earnings per share in 2024?", "money", document)
    assert isinstance(found, Choice)
    assert found.cell.text == "0.46"
