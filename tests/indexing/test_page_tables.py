"""Tables of a page are read from the positions of its words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.indexing.formats.page_lines import Rule, Word
from okralong.pipelines.indexing.formats.page_tables import page_tables
from tests.indexing.growth import LINEAR, growth
from tests.indexing.page_words import CHAR, PageOfWords, grid


def balance_sheet() -> PageOfWords:
    page = PageOfWords()
    page.line((200, "CONSOLIDATED BALANCE SHEETS"))
    page.line((220, "(in thousands)"))
    page.line((-400, "2023"), (-500, "2022"), gap=20)
    page.line((50, "Current assets:"))
    page.line((60, "Cash and cash equivalents"), (350, "$"), (-400, "31,750"), (450, "$"), (-500, "36,092"))
    page.line((60, "Receivables"), (-400, "1,204"), (-500, "—"))
    page.line((50, "Total assets"), (350, "$"), (-400, "32,954"), (450, "$"), (-500, "36,092"))
    return page


def test_a_balance_sheet() -> None:
    (table,) = balance_sheet().tables()
    assert table.title == "CONSOLIDATED BALANCE SHEETS"
    assert table.unit == "(in thousands)"
    assert table.heads == (("2023",), ("2022",))
    assert grid(table) == [
        ["Cash and cash equivalents", "$ 31,750", "$ 36,092"],
        ["Receivables", "1,204", "—"],
        ["Total assets", "$ 32,954", "$ 36,092"],
    ]
    assert [row.sections for row in table.rows] == [("Current assets:",), ("Current assets:",), ()]


def test_no_words() -> None:
    assert page_tables([], []) == []
    assert page_tables([], [Rule(0, 100, 10)]) == []


def test_prose_has_no_tables() -> None:
    page = PageOfWords()
    for _ in range(20):
        page.line((50, "Revenue rose by 5.2% to $1,234 million in 2023 from $1,173 million in 2022, see note 12"))
    assert page.tables() == []


def test_footnote_marks_in_a_column_of_numbers_are_dropped() -> None:
    page = PageOfWords()
    page.line((-400, "2023"), (-500, "2022"))
    page.line((50, "Sales"), (-400, "10,200"), (-500, "9,800"))
    page.raised(401, "(1)")
    page.raised(501, "2")
    page.line((50, "Other"), (-400, "12*"), (-500, "14"), (503, "(a)"))
    (table,) = page.tables()
    assert grid(table) == [["Sales", "10,200", "9,800"], ["Other", "12", "14"]]


def test_heads_over_several_columns_by_their_rules() -> None:
    page = PageOfWords()
    page.rule(40, 600, below=2)  # a border of the whole table
    page.line((300, "Three months"), (480, "Nine months"))
    page.rule(270, 390)
    page.rule(450, 570)
    page.line((-320, "2023"), (-390, "2022"), (-500, "2023"), (-570, "2022"))
    page.line((50, "Sales"), (-320, "10"), (-390, "20"), (-500, "30"), (-570, "40"))
    page.line((50, "Costs"), (-320, "(1)"), (-390, "(2)"), (-500, "(3)"), (-570, "(4)"))
    (table,) = page.tables()
    assert table.heads == (
        ("Three months", "2023"), ("Three months", "2022"), ("Nine months", "2023"), ("Nine months", "2022")
    )  # fmt: skip
    assert grid(table)[1] == ["Costs", "(1)", "(2)", "(3)", "(4)"]


def test_a_rule_in_two_parts_below_a_spanning_head() -> None:
    page = PageOfWords()
    page.line((290, "Issued"), (-470, "Capital"), (-560, "Total"))
    page.rule(250, 298)
    page.rule(312, 360)
    page.line((-298, "Shares"), (340, "$"), (-470, "paid"), (-560, "equity"))
    for label in ("Opening", "Closing"):
        page.line((50, label), (-298, "17,274"), (-360, "6,509"), (-470, "1,100"), (-560, "2,200"))
    (table,) = page.tables()
    assert table.heads == (("Issued", "Shares"), ("Issued", "$"), ("Capital paid",), ("Total equity",))


def test_years_over_pairs_of_columns_without_rules() -> None:
    page = PageOfWords()
    page.line((330, "2023"), (485, "2022"))
    page.line((-320, "Amount"), (-390, "Percent"), (-470, "Amount"), (-540, "Percent"))
    page.line((50, "Federal"), (-320, "1,100"), (-390, "21.0%"), (-470, "1,000"), (-540, "21.0%"))
    page.line((50, "State"), (-320, "90"), (-390, "1.7%"), (-470, "80"), (-540, "1.6%"))
    (table,) = page.tables()
    assert table.heads == (("2023", "Amount"), ("2023", "Percent"), ("2022", "Amount"), ("2022", "Percent"))


def test_repeated_heads_below_right_aligned_years() -> None:
    page = PageOfWords()
    page.line((-390, "2023"), (-540, "2022"))
    page.line((-320, "Pension"), (-390, "Other"), (-470, "Pension"), (-540, "Other"))
    for label in ("Cost", "Interest"):
        page.line((50, label), (-320, "1,100"), (-390, "2,100"), (-470, "1,000"), (-540, "2,000"))
    (table,) = page.tables()
    assert table.heads == (("2023", "Pension"), ("2023", "Other"), ("2022", "Pension"), ("2022", "Other"))


def test_a_wrapped_head_in_the_middle_of_a_group_does_not_span_it() -> None:
    page = PageOfWords()
    for left in (245, 440):
        page.rule(left, left + 150, below=17)
    page.line((270, "December 31, 2023"), (465, "December 31, 2022"))
    page.line((-345, "Accumulated"), (-540, "Accumulated"))
    page.line(
        (-270, "Gross"), (-350, "Amortization"), (-400, "Net"), (-465, "Gross"), (-545, "Amortization"), (-595, "Net"),
        gap=10,
    )  # fmt: skip
    for label in ("Software", "Patents"):
        values = [(-right, "1,100") for right in (270, 340, 400, 465, 535, 595)]
        page.line((50, label), *values)
    (table,) = page.tables()
    assert table.heads[:3] == (
        ("December 31, 2023", "Gross"), ("December 31, 2023", "Accumulated Amortization"), ("December 31, 2023", "Net")
    )  # fmt: skip
    assert table.heads[4] == ("December 31, 2022", "Accumulated Amortization")


def test_a_title_over_the_columns_is_no_head() -> None:
    page = PageOfWords()
    page.line((180, "EXAMPLE CORP. AND SUBSIDIARIES"))
    page.line((150, "CONSOLIDATED STATEMENTS OF CHANGES IN EQUITY"))
    columns = (150, 220, 290, 360, 430)
    page.line(
        *(
            (-right, head)
            for right, head in zip(columns, ("Stock", "Capital", "Deficit", "Other", "Total"), strict=True)
        )
    )
    for label in ("Opening", "Closing"):
        page.line((20, label), *((-right, "1,100") for right in columns))
    (table,) = page.tables()
    assert table.heads == (("Stock",), ("Capital",), ("Deficit",), ("Other",), ("Total",))
    assert table.title == "CONSOLIDATED STATEMENTS OF CHANGES IN EQUITY"


def test_columns_of_words_have_heads_and_cells_of_their_own() -> None:
    page = PageOfWords()
    page.line((50, "Director"), (150, "Type"), (-300, "Opening"), (340, "Maturity"), (-480, "Closing"))
    page.line((50, "A Smith"), (150, "Ordinary"), (-300, "1,100"), (340, "June 24"), (-480, "2,100"))
    page.line((50, "B Jones"), (150, "Preferred"), (-300, "1,200"), (340, "May 25"), (-480, "2,200"))
    (table,) = page.tables()
    assert table.stub == "Director"
    assert table.heads == (("Type",), ("Opening",), ("Maturity",), ("Closing",))
    assert grid(table) == [
        ["A Smith", "Ordinary", "1,100", "June 24", "2,100"],
        ["B Jones", "Preferred", "1,200", "May 25", "2,200"],
    ]


def test_the_title_is_the_sentence_that_introduces_the_table() -> None:
    page = PageOfWords()
    page.line((50, "Leases"))
    page.line((50, "We lease offices. The following table shows the payments (in thousands) of our"), gap=24)
    page.line((50, "leases:"))
    page.line((-350, "2023"), (-440, "2022"), gap=24)
    page.line((50, "Operating"), (-350, "1,100"), (-440, "1,000"))
    page.line((50, "Finance"), (-350, "90"), (-440, "80"))
    (table,) = page.tables()
    assert table.title == "The following table shows the payments (in thousands) of our leases:"
    assert table.unit == "(in thousands)"


def test_a_unit_at_the_top_of_the_page_counts_for_all_its_tables() -> None:
    page = PageOfWords()
    page.line((180, "(dollars in thousands, except per share data)"))
    for _ in range(3):
        for _ in range(6):
            page.line((50, "Some text about the taxes that the group pays in the countries that it is active in."))
        page.line((-350, "2023"), (-440, "2022"), gap=24)
        page.line((50, "Local"), (-350, "1,100"), (-440, "1,000"))
        page.line((50, "Foreign"), (-350, "90"), (-440, "80"))
        page.line((50, "End."), gap=30)
    assert [table.unit for table in page.tables()] == ["(dollars in thousands, except per share data)"] * 3


def test_wrapped_heads_and_labels_are_joined() -> None:
    page = PageOfWords()
    page.line((-400, "Enterprise"))
    page.line((-400, "Ventures"), (-500, "Total"))
    page.line((-400, "£’000"), (-500, "£’000"))  # noqa: RUF001 - as reports write it
    page.line((50, "Goodwill"), (-400, "7,873"), (-500, "16,642"))
    page.line((50, "Income from continuing operations before"), gap=20)
    page.line((60, "income taxes"), (-400, "387"), (-500, "501"), gap=11)
    page.line((50, "Other"), (-400, "1"), (-500, "2"), gap=20)
    (table,) = page.tables()
    assert table.heads == (("Enterprise Ventures", "£’000"), ("Total", "£’000"))  # noqa: RUF001 - see above
    assert table.unit == "£’000"  # noqa: RUF001 - see above
    assert [row.label for row in table.rows] == [
        "Goodwill", "Income from continuing operations before income taxes", "Other"
    ]  # fmt: skip


def test_footnote_marks_and_numbers_of_sections_are_no_amounts_of_a_row() -> None:
    page = PageOfWords()
    page.line((50, "Note"), (90, "7"), (110, "Home loans"), (-500, "Home"))
    page.line((-400, "Bonds"), (-480, "equity"), (490, "(2)"))
    page.line((-400, "($000)"), (-500, "($000)"))
    page.line((50, "7.1"), (90, "From continuing operations:"), gap=20)
    page.line((50, "Opening balance of the year, as reported"), (-400, "7,873"), (-500, "16,642"))
    page.line((50, "Closing balance"), (-400, "387"), (-500, "501"))
    (table,) = page.tables()
    assert table.heads == (("Bonds", "($000)"), ("Home equity", "($000)"))
    assert grid(table) == [
        ["Opening balance of the year, as reported", "7,873", "16,642"],
        ["Closing balance", "387", "501"],
    ]


def test_a_first_row_of_ranges() -> None:
    page = PageOfWords()
    page.line((-350, "2023"), (-450, "2022"), (-550, "2021"))
    page.line((50, "Volatility"), (-370, "44.1%-45.4%"), (-470, "42.9%-43.2%"), (-550, "20.3%"))
    page.line((50, "Dividends"), (-350, "0.00%"), (-450, "0.00%"), (-550, "0.00%"))
    page.line((50, "Term"), (-350, "6.50"), (-450, "7.00"), (-550, "6.00"))
    (table,) = page.tables()
    assert table.heads == (("2023",), ("2022",), ("2021",))
    assert grid(table)[0] == ["Volatility", "44.1%-45.4%", "42.9%-43.2%", "20.3%"]


def test_the_first_column_labels_rows_without_labels() -> None:
    page = PageOfWords()
    page.line((50, "Warrants outstanding at the end of the year"))
    page.line((-200, "Exercise price"), (-350, "Issued"), (-450, "Exercised"), (-550, "Outstanding"), gap=24)
    for price in (15, 18, 20, 25):
        page.line((-200, f"${price}.00"), (-350, f"6,{price}0"), (-450, f"2,{price}0"), (-550, f"4,{price}0"))
    page.line((-350, "18,530"), (-450, "6,530"), (-550, "12,530"))
    (table,) = page.tables()
    assert table.stub == "Exercise price"
    assert table.heads == (("Issued",), ("Exercised",), ("Outstanding",))
    assert [row.label for row in table.rows] == ["$15.00", "$18.00", "$20.00", "$25.00", ""]
    assert grid(table)[0] == ["$15.00", "6,150", "2,150", "4,150"]


def test_rows_below_new_heads_do_not_go_on_with_the_table_above() -> None:
    page = balance_sheet()
    page.line((-300, "Land"), (-400, "Plant"), (-500, "Other"), gap=60)
    page.line((50, "The costs of these assets are:"), gap=30)
    page.line((50, "Opening"), (-400, "2,000"), (-500, "3,000"), gap=40)
    page.line((50, "Closing"), (-400, "2,100"), (-500, "3,100"))
    assert [grid(table)[-1][0] for table in page.tables() if table.heads == (("2023",), ("2022",))] == ["Total assets"]


def test_a_unit_in_a_bracket_of_two_lines() -> None:
    page = PageOfWords()
    for text in ("We lease offices and plants, and the table shows the payments of the leases (in", "thousands):"):
        page.line((50, text))
    page.line((-350, "2023"), (-440, "2022"), gap=24)
    page.line((50, "Operating"), (-350, "1,100"), (-440, "1,000"))
    page.line((50, "Finance"), (-350, "90"), (-440, "80"))
    (table,) = page.tables()
    assert table.unit == "(in thousands)"
    assert table.title.endswith("payments of the leases (in thousands):")


def test_a_table_over_two_columns_of_text() -> None:
    page = PageOfWords()
    page.line((440, "2023"), (500, "2022"))
    for label in ("Cash", "Deposits", "Net cash"):
        page.line((50, label), (-464, "1,100"), (-524, "1,200"))
    page.y += 40
    for number in range(12):
        page.line(
            (50, f"Our business grew in region {number} this year"), (310, f"Growth was strong in region {number}")
        )
    (table,) = page.tables()
    assert table.heads == (("2023",), ("2022",))
    assert [row.label for row in table.rows] == ["Cash", "Deposits", "Net cash"]


def test_a_unit_of_two_lines_over_a_column() -> None:
    page = PageOfWords()
    page.line((452, "Thousands of"))
    page.line((318, "Millions of yen"), (452, "U.S. dollars"))
    page.rule(300, 430)
    page.rule(452, 512)
    page.line((-350, "2023"), (-430, "2022"), (-505, "2023"))
    for label in ("Net sales of products", "Cost of sales"):
        page.line((50, label), (-350, "1,100"), (-430, "1,100"), (-505, "1,100"))
    (table,) = page.tables()
    assert table.heads == (
        ("Millions of yen", "2023"), ("Millions of yen", "2022"), ("Thousands of U.S. dollars", "2023")
    )  # fmt: skip


def test_a_column_without_head_is_left_out() -> None:
    page = PageOfWords()
    page.line((-400, "2023"))
    page.line((50, "Sales"), (-300, "1,111"), (-400, "10,200"), (-500, "9,800"))
    page.line((50, "Costs"), (-300, "2,222"), (-400, "8,200"), (-500, "7,800"))
    (table,) = page.tables()
    assert table.heads == (("2023",),)
    assert grid(table) == [["Sales", "10,200"], ["Costs", "8,200"]]


def test_columns_without_any_head_are_kept_for_the_table_of_the_page_before() -> None:
    page = PageOfWords()
    page.line((50, "Sales"), (-400, "10,200"), (-500, "9,800"))
    page.line((50, "Costs"), (-400, "8,200"), (-500, "7,800"))
    (found,) = page_tables(page.words, [])
    assert found.table.heads == ((), ())
    assert not found.has_heads
    assert found.columns == ((370.0, 400.0), (475.0, 500.0))


def test_a_single_column_needs_no_head() -> None:
    page = PageOfWords()
    page.line((50, "Cash paid:"))
    page.line((50, "Interest"), (-400, "1,200"))
    page.line((50, "Taxes"), (-400, "800.5"))
    (table,) = page.tables()
    assert table.heads == ((),)
    assert grid(table) == [["Interest", "1,200"], ["Taxes", "800.5"]]


def test_a_contents_page_is_no_table() -> None:
    page = PageOfWords()
    page.line((50, "Contents"))
    for number, item in enumerate(["Business", "Risk factors", "Properties", "Legal proceedings"]):
        page.line((50, item + " ......"), (-500, str(3 + 8 * number)))
    assert page.tables() == []


def test_numbers_of_a_chart_are_no_table() -> None:
    page = PageOfWords()
    page.line((-400, "Low"), (-500, "High"))
    for value in range(5):
        page.line((-400, f"{value}.50"), (-500, f"{value}.00"))
    assert page.tables() == []


def test_a_section_heading_of_two_lines() -> None:
    page = PageOfWords()
    page.line((-400, "2023"), (-500, "2022"))
    page.line((50, "Adjustments to reconcile income to net cash used in operating"))
    page.line((50, "activities:"))
    page.line((50, "Interest"), (-400, "1,200"), (-500, "1,100"))
    page.line((50, "Dividends"), (-400, "200"), (-500, "100"))
    (table,) = page.tables()
    assert {row.sections for row in table.rows} == {
        ("Adjustments to reconcile income to net cash used in operating activities:",)
    }


def test_a_column_of_notes_is_dropped() -> None:
    page = PageOfWords()
    page.line((-320, "Note"), (-400, "2023"), (-500, "2022"))
    page.line((50, "Sales"), (-315, "5"), (-400, "10,200"), (-500, "9,800"))
    page.line((50, "Costs"), (-315, "6, 7"), (-400, "(8,200)"), (-500, "(7,800)"))
    page.line((50, "Taxes"), (-315, "12(a)"), (-400, "(20)"), (-500, "(30)"))
    (table,) = page.tables()
    assert table.heads == (("2023",), ("2022",))
    assert grid(table) == [["Sales", "10,200", "9,800"], ["Costs", "(8,200)", "(7,800)"], ["Taxes", "(20)", "(30)"]]


def test_years_as_labels() -> None:
    page = PageOfWords()
    page.line((50, "Year"), (-400, "Operating"), (-500, "Finance"))
    for year in range(2024, 2028):
        page.line((50, str(year)), (-400, "1,200"), (-500, "80"))
    page.line((50, "Thereafter"), (-400, "200"), (-500, "10"))
    (table,) = page.tables()
    assert table.heads == (("Operating",), ("Finance",))
    assert [row.label for row in table.rows] == ["2024", "2025", "2026", "2027", "Thereafter"]


def test_cells_that_stand_for_a_number() -> None:
    page = PageOfWords()
    page.line((-300, "2023"), (-400, "2022"), (-500, "Change %"))
    page.line((50, "Sales"), (-300, "10,200"), (-400, "NA"), (-500, "n.m."))
    page.line((50, "Costs"), (-300, "nil"), (-400, "—"), (-490, "5.1"), (500, "%"))
    (table,) = page.tables()
    assert table.heads == (("2023",), ("2022",), ("Change %",))
    assert grid(table) == [["Sales", "10,200", "NA", "n.m."], ["Costs", "nil", "—", "5.1%"]]


@pytest.mark.parametrize("amount", ["1 234", "12 345 678", "(1 234)", "1.234,5", "1'234", "+4.5%", "2.5x", "123-"])
def test_notations_of_amounts(amount: str) -> None:
    page = PageOfWords()
    page.line((-400, "31.12.2022"), (-500, "2021/22"))
    page.y += 14
    for label in ("Umsatz", "Kosten"):
        page.y += 14
        x = 50.0
        for text, right in ((label, None), (amount, 400.0), (amount, 500.0)):
            x = 50.0 if right is None else right - len(text) * CHAR
            for word in text.split():  # blanks within an amount are thin
                start = len(page.text)
                page.text += word + " "
                page.words.append(Word(x, x + len(word) * CHAR, page.y, 10.0, word, start, start + len(word)))
                x += len(word) * CHAR + 2.0
        page.text += "\n"
    (table,) = page.tables()
    assert table.heads == (("31.12.2022",), ("2021/22",))
    assert grid(table) == [["Umsatz", amount, amount], ["Kosten", amount, amount]]


def test_stacked_tables_each_have_their_heads() -> None:
    page = PageOfWords()
    for title, years in (("Income statement", ("2023", "2022")), ("Cash flows", ("2021", "2020"))):
        page.line((50, title), gap=30)
        page.line((-400, years[0]), (-500, years[1]))
        page.line((50, "First"), (-400, "10,200"), (-500, "9,800"))
        page.line((50, "Second"), (-400, "8,200"), (-500, "7,800"))
    first, second = page.tables()
    assert (first.title, first.heads) == ("Income statement", (("2023",), ("2022",)))
    assert (second.title, second.heads) == ("Cash flows", (("2021",), ("2020",)))


def test_two_columns_of_text() -> None:
    page = PageOfWords()
    left = ["Our business grew in all of our regions", "and we expect it to go on growing in the", "coming year."] * 4
    page.line((50, left[0]), (-480, "2023"), (-560, "2022"))
    for number, text in enumerate(left[1:]):
        page.line((50, text), (310, f"Item number {number}"), (-480, f"{number + 1},200"), (-560, f"{number + 1},100"))
    (table,) = page.tables()
    assert table.heads == (("2023",), ("2022",))
    assert grid(table)[0] == ["Item number 0", "1,200", "1,100"]


def test_the_end_of_a_page_is_no_row() -> None:
    page = balance_sheet()
    page.line((-400, "126"), gap=60)
    (table,) = page.tables()
    assert grid(table)[-1][0] == "Total assets"


def word_list(rows: int, cells: int) -> list[Word]:
    words, at = [], 0
    for row in range(rows):
        for place, text in enumerate(["Item", *(f"{row + place},{place:03d}" for place in range(cells))]):
            x = 50.0 + 60 * place
            words.append(Word(x, x + len(text) * CHAR, 50.0 + 12 * row, 10.0, text, at, at + len(text)))
            at += len(text) + 1
    return words


HOSTILE = {
    "one row": lambda size: word_list(1, size),
    "many rows": lambda size: word_list(size, 3),
    "one place": lambda size: [Word(10, 20, 10, 10, "1,234", at, at + 5) for at in range(size)],
    "diagonal": lambda size: [Word(at, at + 9, at * 3.0, 10, "1,234", at, at + 5) for at in range(size)],
    "signs": lambda size: [Word(at, at + 9, 10.0, 10, "$", at, at + 1) for at in range(size)],
    "labels": lambda size: [Word(10, 90, at * 12.0, 10, "text", at, at + 4) for at in range(size)],
    "single amounts": lambda size: [
        Word(x, x + 20, at * 12.0, 10, text, at, at + 4)
        for at in range(size)
        for x, text in ((10, "text"), (300, "1,2"))
    ],
    "sizes": lambda size: [Word(at % 500, at % 500 + 5, at % 97, 1 + at % 50, "12", at, at + 2) for at in range(size)],
    "spread columns": lambda size: [
        Word(x + at, x + at + 5, row * 12.0, 10, "1,2", at, at + 3)
        for at in range(size // 10)
        for row, x in enumerate(range(0, 100, 10))
    ],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_grows_with_the_number_of_words(kind: str) -> None:
    assert growth(lambda size: page_tables(HOSTILE[kind](size), []), 1_500) < LINEAR


def test_rules_without_end() -> None:
    words = balance_sheet().words
    assert growth(lambda size: page_tables(words, [Rule(x, x + 50, 100.0) for x in range(size)]), 2_000) < LINEAR


def test_many_tables_with_many_rules() -> None:
    def work(size: int) -> None:
        page = PageOfWords()
        for _ in range(size):
            page.line((-400, "2023"), (-500, "2022"), gap=60)
            page.rules += [Rule(x, x + 50, page.y + 2) for x in range(0, 600, 60)]
            page.line((50, "Sales"), (-400, "10,200"), (-500, "9,800"))
            page.line((50, "Costs"), (-400, "8,200"), (-500, "7,800"))
        assert len(page_tables(page.words, page.rules)) == size

    assert growth(work, 40) < LINEAR


AMOUNTS = st.one_of(
    st.integers(1000, 9_999_999).map(lambda value: f"{value:,}"),
    st.integers(1000, 999_999).map(lambda value: f"({value:,})"),
    st.decimals(1, 99, places=1).map(lambda value: f"{value}%"),
    st.just("—"),
)
LABEL_WORDS = st.sampled_from(
    ["Revenue", "costs", "deferred", "assets", "of", "tax", "other", "total", "income", "net"]
)
LABELS = st.lists(LABEL_WORDS, min_size=1, max_size=4).map(lambda words: "Item " + " ".join(words))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    columns = draw(st.integers(2, 5))
    heads = [str(2024 - place) for place in range(columns)]
    first = ["Sales", *(f"{place + 1},234" for place in range(columns))]
    rows = [[draw(LABELS), *(draw(AMOUNTS) for _ in range(columns))] for _ in range(draw(st.integers(1, 12)))]
    return heads, [first, *rows]


@settings(max_examples=150, deadline=None)
@given(tables(), st.booleans(), st.booleans(), st.integers(0, 2**32))
def test_any_table_comes_back(table: tuple[list[str], list[list[str]]], marks: bool, shuffled: bool, seed: int) -> None:
    heads, rows = table
    page = PageOfWords()
    page.line((50, "Statement of income"))
    page.line((50, "(in millions)"))
    rights = [270.0 + 75 * (place + 1) for place in range(len(heads))]
    page.line(*((-right, head) for right, head in zip(rights, heads, strict=True)))
    for label, *cells in rows:
        page.line((50, label), *((-right, cell) for right, cell in zip(rights, cells, strict=True)))
        if marks:
            page.raised(rights[0] + 1, "(1)")
    if shuffled:
        random.Random(seed).shuffle(page.words)
    (read,) = page.tables()
    assert read.heads == tuple((head,) for head in heads)
    assert grid(read) == rows
    assert (read.title, read.unit) == ("Statement of income", "(in millions)")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(
            Word,
            st.floats(0, 600), st.floats(0, 600), st.floats(0, 800), st.floats(0.5, 40),
            st.sampled_from(["12", "1,234", "$", "(", ")", "%", "—", "2023", "text", "(1)", "Note", "(in thousands)"]),
            st.just(0), st.just(3),
        ),
        max_size=60,
    ),
    st.lists(st.builds(Rule, st.floats(0, 600), st.floats(0, 600), st.floats(0, 800)), max_size=8),
)  # fmt: skip
def test_any_words_are_read(words: list[Word], rules: list[Rule]) -> None:
    for found in page_tables(words, rules):
        assert found.has_heads or not any(found.table.heads)
        assert len(found.columns) == len(found.table.heads)
        for _, cell in found.table.values():
            assert 0 <= cell.column < len(found.table.heads)
