"""The compact form of tables: heads first, one line per row, and every number of the text still there."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.context import merge, with_tables
from okralong.pipelines.answering.prompt_text import Evidence, render_passages
from okralong.pipelines.answering.stated import Stated
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Passage
from okralong.pipelines.statements.compact import compact, shown_parts

TEXT = """Our auditors had no objection to the statements.
Consolidated Balance Sheets
(in millions)
December 31,
2019 2018
Current assets:
Cash and cash equivalents $ 36,092 $ 31,750
Receivables from customers, net of an
allowance of $12 5,288 5,425
Total assets 225,248 162,648
The notes are part of these statements.
"""
HEADS = (("December 31,", "2019"), ("December 31,", "2018"))


def row_of(label: str, line: str, *cells: str, sections: tuple[str, ...] = ()) -> TableRow:
    start = TEXT.index(line)
    end = start + len(line)
    at = TEXT.index(cells[0], start) if cells else start
    found = []
    for column, cell in enumerate(cells):
        at = TEXT.index(cell, at)
        found.append(TableCell(column, cell, at, at + len(cell)))
        at += len(cell)
    return TableRow(label, start, end, tuple(found), sections)


TABLE = Table(
    TEXT.index("Consolidated"),
    TEXT.index("The notes"),
    HEADS,
    (
        row_of("Cash and cash equivalents", "Cash and cash equivalents $ 36,092 $ 31,750", "$ 36,092", "$ 31,750",
               sections=("Current assets:",)),
        row_of("Receivables from customers, net of an allowance of $12",
               "Receivables from customers, net of an\nallowance of $12 5,288 5,425", "5,288", "5,425",
               sections=("Current assets:",)),
        row_of("Total assets", "Total assets 225,248 162,648", "225,248", "162,648"),
    ),
    page="40",
    title="Consolidated Balance Sheets",
    unit="(in millions)",
)  # fmt: skip
DOCUMENT = Document("apple", TEXT, tables=(TABLE,))


def shown_of(start: int, end: int, document: Document = DOCUMENT, chunks: int = 1) -> Passage:
    text = document.text[start:end]
    ids = tuple(map(str, range(chunks)))
    return with_tables(Passage(document.doc_id, start, end, text, count_tokens(text), 1.0, ids), document, 600)


def test_title_unit_page_and_heads_stand_above_the_rows() -> None:
    assert compact(TABLE).splitlines() == [
        "[Consolidated Balance Sheets | in millions | page 40]",
        "December 31,|2019|2018",
        "# Current assets:",
        "Cash and cash equivalents|$ 36,092|$ 31,750",
        "Receivables from customers, net of an allowance of $12|5,288|5,425",
        "Total assets|225,248|162,648",
    ]


def test_the_needed_rows_come_first_with_the_same_heads() -> None:
    assert compact(TABLE, [TABLE.rows[2], TABLE.rows[0]]).splitlines()[1:] == [
        "December 31,|2019|2018",
        "Total assets|225,248|162,648",
        "# Current assets:",
        "Cash and cash equivalents|$ 36,092|$ 31,750",
    ]


def test_an_empty_cell_keeps_its_place_and_an_unused_column_is_left_out() -> None:
    first, _, last = TABLE.rows
    sparse = replace(first, cells=first.cells[1:])
    assert compact(replace(TABLE, rows=(sparse, last))).splitlines()[3] == "Cash and cash equivalents||$ 31,750"
    assert compact(replace(TABLE, rows=(sparse,))).splitlines()[1] == "|December 31, 2018"


def test_a_chunk_from_the_middle_of_a_table_has_its_heads() -> None:
    start = TEXT.index("Total assets")
    passage = shown_of(start, len(TEXT))
    assert passage.shown_text == (
        "[Consolidated Balance Sheets | in millions | page 40]\nDecember 31,|2019|2018\n"
        "Total assets|225,248|162,648\nThe notes are part of these statements.\n"
    )
    assert passage.text == TEXT[start:]
    assert passage.n_tokens == count_tokens(passage.shown_text)
    assert "in millions" in render_passages([passage])


def test_text_around_a_table_stays_and_lines_that_the_heads_repeat_go() -> None:
    passage = shown_of(0, len(TEXT), chunks=2)
    lines = passage.shown_text.splitlines()
    assert lines[0] == "Our auditors had no objection to the statements."
    assert lines[1:7] == compact(TABLE).splitlines()
    assert lines[7:] == ["The notes are part of these statements."]


def test_a_row_with_a_number_that_no_cell_has_stays_as_it_is() -> None:
    """Its column had no head, so that the table lacks it; the text has it."""
    first, second, last = TABLE.rows
    table = replace(TABLE, rows=(first, second, replace(last, cells=last.cells[:1])))
    parts = shown_parts(TEXT, 0, len(TEXT), [table])
    assert parts[-2].text == "Total assets 225,248 162,648\n"


def test_words_of_the_compact_form_cite_the_rows_that_they_are_from() -> None:
    passage = shown_of(TEXT.index("Receivables"), len(TEXT))
    for quote, row in [
        ("Total assets|225,248|162,648", 2),
        ("Total assets | 225,248", 2),
        ("Receivables from customers, net of an allowance of $12|5,288", 1),
    ]:
        (citation,) = find_citations([Evidence(1, quote)], [passage])
        expected = TABLE.rows[row]
        assert (citation.start_char, citation.end_char) == (expected.start, expected.end)
        assert citation.quote == TEXT[expected.start : expected.end]
    (verbatim,) = find_citations([Evidence(1, "part of these statements")], [passage])
    assert verbatim.quote == "part of these statements"
    assert find_citations([Evidence(1, "Cash and cash equivalents|$ 36,092")], [passage]) == ()


def test_only_what_is_shown_is_stated() -> None:
    cash = TABLE.rows[0]
    rows = Passage("apple", cash.start, len(TEXT), TEXT[cash.start :], 1, 1.0, shown=shown_of(0, cash.end).shown)
    Stated([rows]).require("money", "$36,092 million", "How much cash?", [], formulas=False)
    try:
        Stated([rows]).require("money", "225,248", "What are total assets?", [], formulas=False)
    except ValueError:
        return
    raise AssertionError("a row that was not shown counts as stated")


def test_what_outgrows_the_reserve_of_the_plan_is_shown_as_text() -> None:
    passage = Passage("apple", 0, len(TEXT), TEXT, count_tokens(TEXT), 1.0, ("c",))
    assert with_tables(passage, DOCUMENT, 60) is passage
    long = replace(TABLE, title="Assets " * 10_000, heads=(("Head " * 10_000,), ("Other " * 10_000,)))
    assert len(compact(long)) < 1_000


def test_merged_passages_show_text_until_they_are_put_in_the_compact_form_again() -> None:
    one, other = shown_of(0, TEXT.index("Total")), shown_of(TEXT.index("Total"), len(TEXT))
    (joined,) = merge([one, other])
    assert joined.text == TEXT
    assert joined.shown == ()


@given(st.integers(0, len(TEXT)), st.integers(1, len(TEXT)))
def test_every_number_of_a_stretch_is_shown_and_maps_back_into_it(start: int, length: int) -> None:
    end = min(len(TEXT), start + length)
    passage = shown_of(start, end, chunks=10)
    if not passage.shown:
        return
    shown = passage.shown_text
    for match in re.finditer(r"\d+,\d+", TEXT):
        if start <= match.start() and match.end() <= end:
            assert match[0] in shown
            place = shown.rindex(match[0])
            span = passage.span_of(place, place + len(match[0]))
            assert span is not None
            assert match[0] in passage.text[slice(*span)]
