"""The tables in texts: heads, labels, sections, units, titles and exact positions, in every notation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.tables import Table
from okralong.pipelines.core.types import Document, Section
from okralong.pipelines.statements.text_tables import read_text_tables, tables_of
from tests.statements import test_columns as shapes

JUNE, SEPTEMBER = "ended June 30,", "ended September 30,"


@pytest.mark.parametrize(
    ("text", "unit", "heads"),
    [
        (shapes.QUARTERS, "$ millions", [("Q1 2024",), ("Q2 2024",), ("Q3 2024",)]),
        (
            shapes.SIX_MONTHS,
            "(in millions)",
            [(f"{span} Months Ended June 30,", year) for span in ("Three", "Six") for year in ("2024", "2023")],
        ),
        (
            shapes.NINE_MONTHS,
            "(in millions)",
            [(f"{span} months {SEPTEMBER}", year) for span in ("Three", "Nine") for year in ("2024", "2023")],
        ),
        (
            shapes.MERGED,
            "(in millions)",
            [(f"{span} months {SEPTEMBER}", year) for span in ("Three", "Nine") for year in ("2024", "2023")],
        ),
        (shapes.WHOLE, "in millions", [(f"{span} months {JUNE} 2024",) for span in ("Three", "Six")]),
        (shapes.DAYS, "In millions", [("June 30, 2024",), ("March 31, 2024",)]),
        (
            shapes.RETAIL,
            "In millions",
            [
                (f"{weeks} Weeks Ended", f"October {day},", year)
                for weeks in ("13", "39")
                for day, year in (("28", "2023"), ("29", "2022"))
            ],
        ),
        (
            shapes.TITLED,
            "(in millions)",
            [("For the three months ended March 31,", year) for year in ("2024", "2023")],
        ),
        (shapes.THIRD, "(in millions)", [("Third quarter of", year) for year in ("2024", "2023")]),
        (shapes.NO_SPANS, "In millions", [("2024",), ("2023",), ("2024",), ("2023",)]),
    ],
)
def test_heads_in_every_notation(text: str, unit: str, heads: list[tuple[str, ...]]) -> None:
    (table,) = read_text_tables(text)
    assert (table.unit, list(table.heads)) == (unit, heads)
    (row,) = table.rows
    assert row.label == "Net sales"
    assert [cell.column for cell in row.cells] == list(range(len(heads)))
    for cell in row.cells:
        assert text[cell.start : cell.end] == cell.text


# Random tables in each notation.

_WORDS = ("Net", "Gross", "Deferred", "Other", "Current", "Trade", "Lease", "Service", "Export", "Rental")
_NOUNS = ("sales", "costs", "assets", "receivables", "liabilities", "revenue", "taxes", "inventories", "equity")
_labels = st.builds("{} {}".format, st.sampled_from(_WORDS), st.sampled_from(_NOUNS))
_plain = st.integers(1, 9_999_999).map("{:,}".format)
_amounts = st.one_of(
    _plain,
    _plain.map("({})".format),
    st.decimals(0, 99, places=2).map(str),
    st.just("\u2014"),
    st.integers(1, 99).map("{}.5%".format),
)
_spans = (
    (),
    ("Three Months Ended June 30,", "Six Months Ended June 30,"),
    ("Quarter ended March 31,", "Year ended March 31,"),
)


@dataclass(frozen=True)
class Made:
    """A table as it is written: rows with a section, a label and as many cells as there are heads."""

    title: str
    unit: str
    spans: tuple[str, ...]
    years: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]

    @property
    def heads(self) -> list[tuple[str, ...]]:
        """The heads of each column."""
        return [(span, year) for span in self.spans for year in self.years] or [(year,) for year in self.years]


@st.composite
def tables(draw: st.DrawFn) -> Made:
    last = draw(st.integers(1995, 2030))
    years = tuple(str(last - back) for back in range(draw(st.integers(2, 4))))
    spans = draw(st.sampled_from(_spans))
    count = len(years) * max(1, len(spans))
    labels = draw(st.lists(_labels, min_size=2, max_size=8, unique=True))
    section, rows = "", []
    for number, label in enumerate(labels):
        if draw(st.booleans()) and number < len(labels) - 1:
            section = f"Part {'ABCDEFGH'[number]}:"
        rows.append((section, label, tuple(draw(st.lists(_amounts, min_size=count, max_size=count)))))
    unit = draw(st.sampled_from(("", "(in thousands)", "(EUR million)", "(in millions, except per share data)")))
    return Made(draw(st.sampled_from(("", "Income statement", "Note 7. Leases"))), unit, spans, years, tuple(rows))


def lines(made: Made) -> Iterator[list[str]]:
    """Yield the cells of each line, of which the first is the label's."""
    if made.spans:
        yield ["", *(text for span in made.spans for text in (span, *[""] * (len(made.years) - 1)))]
    yield ["", *(made.years * max(1, len(made.spans)))]
    section = ""
    for own, label, cells in made.rows:
        if own != section:
            section = own
            yield [section, *[""] * len(cells)]
        yield [label, *cells]


def bars(made: Made) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines(made))


def markdown(made: Made) -> str:
    first, *rest = bars(made).split("\n")
    return "\n".join([first, "| --- " * (len(made.heads) + 1) + "|", *rest])


def bars_between(made: Made) -> str:
    return "\n".join(" | ".join(cells) for cells in lines(made))


def tabs(made: Made) -> str:
    return "\n".join("\t".join(cells) for cells in lines(made))


def gaps(made: Made) -> str:
    width = 34 if made.spans else 16
    out = []
    for label, *cells in lines(made):
        if made.spans and cells[0] in made.spans:
            wide = width * len(made.years)
            out.append(" " * 40 + "".join(f"{span:^{wide}}" for span in made.spans))
        else:
            out.append(f"{label:40}" + "".join(f"{cell:>{width}}" for cell in cells))
    return "\n".join(line.rstrip() for line in out)


def blanks(made: Made) -> str:
    return "\n".join(" ".join(cell for cell in cells if cell) for cells in lines(made))


def below_each_other(made: Made) -> str:
    return "\n".join(cell for cells in lines(made) for cell in cells if cell)


@pytest.mark.parametrize("written", [bars, markdown, bars_between, tabs, gaps, blanks, below_each_other])
@settings(max_examples=60, deadline=None)
@given(made=tables(), after=st.booleans())
def test_a_table_is_read_as_it_was_written(written: Callable[[Made], str], made: Made, after: bool) -> None:
    if written is below_each_other and made.spans:
        return  # the columns of the years are not told apart
    above = "".join(f"{line}\n" for line in (made.title, made.unit) if line)
    text = f"We sold more than ever in that year and will go on.\n\n{above}{written(made)}\n"
    text += "\nSee the notes to these statements, which are a part of it.\n" * after
    (table,) = read_text_tables(text)
    assert (table.title, table.unit, table.stub) == (made.title, made.unit, "")
    assert list(table.heads) == made.heads
    found = [(row.sections, row.label, tuple(cell.text for cell in row.cells)) for row in table.rows]
    assert found == [((section,) if section else (), label, cells) for section, label, cells in made.rows]
    check_places(text, table)


def check_places(text: str, table: Table) -> None:
    """Check that the positions are those of the words, in order."""
    last = table.start
    for row in table.rows:
        assert last <= row.start < row.end <= table.end <= len(text)
        assert [cell.column for cell in row.cells] == sorted({cell.column for cell in row.cells})
        for cell in row.cells:
            assert row.start <= cell.start < cell.end <= row.end
            assert "".join(text[cell.start : cell.end].replace("|", "").split()) == cell.text.replace(" ", "")
            assert cell.column < len(table.heads)
        last = row.end


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "| ",
                    " | ",
                    "|",
                    "\n",
                    "\n\n",
                    "  ",
                    "     ",
                    "\t",
                    " ",
                    "$",
                    "(",
                    ")",
                    "%",
                    "2023",
                    "2022",
                    "1,204",
                    "(5)",
                ),
                *(
                    "Net sales",
                    "Total",
                    "December 31,",
                    "Three Months Ended",
                    "(in thousands)",
                    "Change",
                    "\u2014",
                    "of",
                    ":",
                ),
                *("Note", "1", "(1)", "FY19", "Q3 2024", "as of", "respectively", ".", "\u00a0", "\u200b", "x" * 700),
            ]
        ),
        max_size=60,
    )
)
def test_any_text_has_tables_with_true_positions(parts: list[str]) -> None:
    text = "".join(parts)
    end = 0
    for table in read_text_tables(text):
        check_places(text, table)
        assert len(table.heads) == 1 or all(table.heads)
        assert end <= table.end
        end = max(end, table.end)


# Shapes of real reports. A table is shown as its heads, and its rows as "sections / label | cells".


def shown(table: Table) -> list[str]:
    """Return the heads of a table and its rows in lines, an empty cell as nothing."""
    lines = [" | ".join("/".join(head) for head in table.heads)]
    for row in table.rows:
        cells = [cell.text if (cell := row.cell(column)) else "" for column in range(len(table.heads))]
        lines.append(" | ".join([" / ".join([*row.sections, row.label]), *cells]))
    return lines


SHAPES = {
    "parts of a figure in cells of their own": (
        "|  | 2023 |  |  | 2022 |  |  |\n| Sales | $ | 1,204 |  | $ | 900 |  |\n| Loss |  | (12 | ) |  | (7 | ) |\n",
        ["2023 | 2022", "Sales | $ 1,204 | $ 900", "Loss | (12) | (7)"],
    ),
    "footnote marks in a column of their own": (
        "|  |  | 2023 | 2022 |\n| Sales | (1) | 50 | 40 |\n| Costs | (2) | 30 | 20 |\n",
        ["2023 | 2022", "Sales | 50 | 40", "Costs | 30 | 20"],
    ),
    "a column of notes": (
        "|  | Note | 2023 | 2022 |\n| Sales | 4 | 500 | 400 |\n| Costs |  | 30 | 20 |\n",
        ["Note | 2023 | 2022", "Sales | 4 | 500 | 400", "Costs |  | 30 | 20"],
    ),
    "a merged head that repeats over an amount and its share": (
        "|  | 2023 | 2023 | 2022 | 2022 |\n|  | EUR million | % | EUR million | % |\n| Sales | 5 | 10 | 4 | 9 |\n",
        ["2023/EUR million | 2023/% | 2022/EUR million | 2022/%", "Sales | 5 | 10 | 4 | 9"],
    ),
    "years above amounts and shares without heads of their own": (
        "| | 2013 | 2012 | | |\n| Silicon | $ 1295 | 55% | $ 705 | 44% |\n| Display | 361 | 15% | 206 | 13% |\n",
        ["2013 | 2013 | 2012 | 2012", "Silicon | $ 1295 | 55% | $ 705 | 44%", "Display | 361 | 15% | 206 | 13%"],
    ),
    "a column without a head is left out": (
        "|  | 2023 | 2022 |  |\n| Sales | 5 | 4 | 1 |\n| Costs | 3 | 2 | 1 |\n",
        ["2023 | 2022", "Sales | 5 | 4", "Costs | 3 | 2"],
    ),
    "remarks below the years": (
        "|  | March 31, 2024 | December 31, 2023 |\n| Assets | (Unaudited) |  |\n| Cash | 5 | 4 |\n",
        ["March 31, 2024/(Unaudited) | December 31, 2023", "Assets / Cash | 5 | 4"],
    ),
    "spans at the middle of their columns": (
        "|  |  | Years Ended December 31, |  |\n|  | 2019 | 2018 | 2017 |\n"
        "|  |  | (in thousands) |  |\n| Tax | 1 | 2 | 3 |\n",
        [" | ".join(f"Years Ended December 31,/{year}" for year in (2019, 2018, 2017)), "Tax | 1 | 2 | 3"],
    ),
    "the time in the head of the labels": (
        "| december 31 ( in millions ) | 2012 | 2011 |\n| loans | 5 | -16108 ( 16108 ) |\n",
        ["december 31/2012 | december 31/2011", "loans | 5 | -16108 ( 16108 )"],
    ),
    "words beside amounts": (
        "| Entity | Country | 2023 |\n| Alder | Norway | 5 |\n| Birch | Spain | 6 |\n",
        ["Country | 2023", "Alder | Norway | 5", "Birch | Spain | 6"],
    ),
    "words only": (
        "| Auditor | City |\n| --- | --- |\n| KPMG | Berlin |\n| EY | Paris |\n",
        ["City", "KPMG | Berlin", "EY | Paris"],
    ),
    "key facts": (
        "| Company | Alder |\n| Founded | 1999 |\n| Employees | 120 |\n",
        ["", "Company | Alder", "Founded | 1999", "Employees | 120"],
    ),
    "key facts with gaps": ("Revenue:        100\nEmployees:       12\n", ["", "Revenue | 100", "Employees | 12"]),
    "sections end with their totals": (
        "| | 2023 |\n| ASSETS | |\n| Current assets: | |\n| Cash | 5 |\n| Total current assets | 5 |\n| Land | 9 |\n",
        [
            "2023",
            "ASSETS / Current assets: / Cash | 5",
            "ASSETS / Current assets: / Total current assets | 5",
            "ASSETS / Land | 9",
        ],
    ),
    "sections end with their indentation": (
        "                2023   2022\nShares:\n  Basic           5      4\nCash             9      8\n",
        ["2023 | 2022", "Shares: / Basic | 5 | 4", "Cash | 9 | 8"],
    ),
    "labels of several lines": (
        "2022 2021\nReceivables, net of\nallowances of $7 and $9 12,000 11,000\nLand 1,000 1,000\n",
        ["2022 | 2021", "Receivables, net of allowances of $7 and $9 | 12,000 | 11,000", "Land | 1,000 | 1,000"],
    ),
    "labels that go on below their figures": (
        "                         2023        2022\nOther receivables,      1,000         900\n"
        "  respectively\nCash                    2,000       1,900\n",
        ["2023 | 2022", "Other receivables, respectively | 1,000 | 900", "Cash | 2,000 | 1,900"],
    ),
    "single blanks below spans": (
        "Three Months Ended June 30, Six Months Ended June 30,\n2024 2023 2024 2023\nNet sales $ 10 $ 9 $ 31 $ 28\n",
        [
            "Three Months Ended June 30,/2024 | Three Months Ended June 30,/2023 | "
            "Six Months Ended June 30,/2024 | Six Months Ended June 30,/2023",
            "Net sales | $ 10 | $ 9 | $ 31 | $ 28",
        ],
    ),
    "one day for several years": (
        "December 31, 2012 2011\n(in thousands)\nCash $ 5,990 $ 5,831\nLand ( 12 ) ( 13 )\n",
        ["December 31,/2012 | December 31,/2011", "Cash | $ 5,990 | $ 5,831", "Land | ( 12) | ( 13)"],
    ),
    "marks and years of labels": (
        "2022 2021\nNet income (1) 500 400\nBonds due 2028 300 200\nSales 1,000 2,000\n",
        ["2022 | 2021", "Net income (1) | 500 | 400", "Bonds due 2028 | 300 | 200", "Sales | 1,000 | 2,000"],
    ),
    "changes after the years": (
        "2022 2021 $ Change % Change\nSales $ 12 $ 10 $ 2 20.0 %\nCosts 8 9 (1) (11.1)%\n",
        ["2022 | 2021 | $ Change | % Change", "Sales | $ 12 | $ 10 | $ 2 | 20.0 %", "Costs | 8 | 9 | (1) | (11.1)%"],
    ),
    "a title with the same years": (
        "Pay for the years ended December 31, 2022, 2021, and\n2020 (in thousands):\n2022 2021 2020\n"
        "Shares $ 1,874 $ 1,304 $ 774\nTax (394) (274) (163)\n",
        ["2022 | 2021 | 2020", "Shares | $ 1,874 | $ 1,304 | $ 774", "Tax | (394) | (274) | (163)"],
    ),
    "dot leaders": (
        "2022 2021\nCash . . . . . . . . . . $ 639,729 $ 593,599\nLand . . . . . . . . 12,000 13,000\n",
        ["2022 | 2021", "Cash | $ 639,729 | $ 593,599", "Land | 12,000 | 13,000"],
    ),
    "heads and cells below each other": (
        "Three Months Ended\nJune 25,\n2022\nJune 26,\n2021\n"
        "Net sales\n$\n27,502 \n$\n34,940 \nCosts\n(5,433)\n(6,580)\n",
        [
            "Three Months Ended/June 25, 2022 | Three Months Ended/June 26, 2021",
            "Net sales | $ 27,502 | $ 34,940",
            "Costs | (5,433) | (6,580)",
        ],
    ),
    "gaps with heads left of their figures": (
        f"{'For the three months ended March 31,':>80}\n{'2024':>50}{'2023':>26}\n"
        f"{'Net loss':40}{'(1,244)':>20}{'(289)':>25}\n{'Cash':40}{'14':>19}{'-':>25}\n",
        [
            "For the three months ended March 31,/2024 | For the three months ended March 31,/2023",
            "Net loss | (1,244) | (289)",
            "Cash | 14 | -",
        ],
    ),
    "empty cells between gaps": (
        f"{'2024':>40}{'2023':>12}\n{'Sales':30}{'1,000':>10}{'2,000':>12}\n{'Costs':30}{'':>10}{'3,000':>12}\n",
        ["2024 | 2023", "Sales | 1,000 | 2,000", "Costs |  | 3,000"],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_tables(name: str) -> None:
    text, expected = SHAPES[name]
    (table,) = read_text_tables(text)
    assert shown(table) == expected
    check_places(text, table)


@pytest.mark.parametrize(
    "text",
    [
        "| Sales | 5 | 4 |\n| Costs | 3 | 2 |\n",  # several columns without heads
        "Sales   5   4\nCosts   3   2\n",
        "In 2023 and 2022 we sold 500 400\nof all of them, and a few more of 1,000 2,000.\n",
        "Contents                Page\nIncome statement           4\nNotes                     12\n",
        "Alder Inc. | Form 10-Q | 5\n\nMore words.\n\nAlder Inc. | Form 10-Q | 6\n",
        "Change 2023 2022\nSales 1 2\nCosts 3 4\n",  # the heads have lost their order
        "2023 2022\nSales 5 4 3\nCosts 3 2 1\n",  # more figures than heads
        "QUARTERLY REPORT PURSUANT TO SECTION 13 OF THE ACT OF 1934\nFor the period ended March 31, 2024\n",
    ],
)
def test_text_without_a_table(text: str) -> None:
    assert read_text_tables(text) == ()


def test_new_heads_begin_another_table() -> None:
    first, second = read_text_tables("| | 2023 |\n| Sales | 5 |\n| | Q1 2024 |\n| Sales | 2 |\n")
    assert (shown(first), shown(second)) == (["2023", "Sales | 5"], ["Q1 2024", "Sales | 2"])
    text = "Income\n  2023    2022\nSales    5       4\n\nBalance (in thousands)\n  2021    2020\nCash     7       8\n"
    first, second = read_text_tables(text)
    assert (first.title, first.unit, first.heads) == ("Income", "", (("2023",), ("2022",)))
    assert (second.title, second.unit, second.heads) == (
        "Balance (in thousands)",
        "(in thousands)",
        (("2021",), ("2020",)),
    )


def test_tables_beside_and_below_each_other_are_apart() -> None:
    text = (
        "| Assets |  |  | Debts |  |  |\n|  | 2023 | 2022 |  | 2023 | 2022 |\n| Cash | 5 | 6 | Loans | 50 | 60 |\n"
        "| Land | 7 | 8 | Leases | 9 | 10 |\n\n"
        "| Staff |  |  |  |  |  |\n|  | 2021 | 2020 |  |  |  |\n| Bakers | 4 | 3 |  |  |  |\n"
    )
    found = read_text_tables(text)
    assert {each.title: shown(each) for each in found} == {
        "Assets": ["2023 | 2022", "Cash | 5 | 6", "Land | 7 | 8"],
        "Staff": ["2021 | 2020", "Bakers | 4 | 3"],
        "Debts": ["2023 | 2022", "Loans | 50 | 60", "Leases | 9 | 10"],
    }


def test_rows_below_a_blank_line_stay_below_their_heads() -> None:
    text = "|  | 2022 | 2023 |\n| Ashcombe | 120 | 131 |\n\n| Belford |  |  |\n| Loans | 88.5 | 90.5 |\n"
    (table,) = read_text_tables(text)
    assert shown(table) == ["2022 | 2023", "Ashcombe | 120 | 131", "Belford / Loans | 88.5 | 90.5"]


def test_pages_and_sheets_name_the_place() -> None:
    text = "One\n| | 2023 |\n| A | 1 |\nTwo\n| | 2022 |\n| B | 2 |\n"
    sections = (Section("page", "1", 0), Section("heading", "Two", 5), Section("page", "2", text.index("Two")))
    assert [table.page for table in read_text_tables(text, sections)] == ["1", "2"]
    assert tables_of(Document("d", text, tables=())) == ()
    assert len(tables_of(Document("d", text))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "| | 2023 | 2022 |\n" + "| a | 1 | 2 |\n" * 40_000,
        "x 1 " * 2_500_000,
        "1 " * 5_000_000,
        "|" * 10_000_000,
        "2023 2022\n" * 100_000,
        "Three Months Ended June 30,  2023  2022\n" * 30_000,
        "| | 2023 | 2022 |\n" * 100_000,
        "| a | b | c |\n" * 60_000,
        "| a | |\n" * 100_000,
        "| a | 1 | b | 2 |\n" * 50_000,
        "Net sales   1   2\n" * 30_000,
        "Net sales\n1\n" * 40_000,
        "a\tb\t1\n" * 40_000,
        "(in " * 150_000,
        ("(in " * 140 + "\n") * 2_000,
        ("Revenue " + ". " * 290 + "\n") * 5_000,
        ("1 234 " * 99 + "\n") * 2_000,
        "\n".join(["| x " + "| 1 " * 200 + "|"] * 5_000),
    ],
    ids=lambda text: text[:12],
)
def test_long_texts_take_no_longer_than_their_length(text: str) -> None:
    """No clock is read: what takes quadratic time here would take minutes."""
    assert len(read_text_tables(text)) <= 1
