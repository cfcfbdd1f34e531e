"""The scores of table cells: what counts as right, incomplete, extra and wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from benchmarks.tables import (
    Found,
    Mark,
    judge_amount,
    judge_head,
    misses,
    number_of,
    plain,
    plain_value,
    read_marks,
    score,
    shares,
)
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import TypedValue

YEARS = (("Year ended December 31,", "2023"), ("Year ended December 31,", "2022"), ("Change", "%"), ("Change", "$"))
MARK = Mark(
    "a.pdf", 3, ("note",), "Sales, net", YEARS, 0, "(1,234)", "(in thousands)", "money", 1000, "USD", "Revenue:"
)


def found(
    text: str = "$ (1,234 )",
    label: str = "Sales, net (1)",
    head: tuple[str, ...] = YEARS[0],
    unit: str = "(in thousands, except per share data)",
    value: TypedValue | None = None,
) -> Found:
    cell = TableCell(0, text, 0, len(text))
    row = TableRow(label, 0, 9, (cell,), ("Revenue",))
    return Found(Table(0, 9, (head,), (row,), "3", "", unit), row, cell, value)


def test_blanks_dashes_quotes_and_footnote_marks_make_no_difference() -> None:
    assert plain("Stockholders\u2019 equity \u2013 total (2)......") == plain("STOCKHOLDERS'  EQUITY - TOTAL")
    assert plain("LLP^1") == plain("LLP¹") == plain("LLP")
    assert plain("Loans (Stage 2)") != plain("Loans (Stage 1)")
    assert plain_value("$ (1,234 )") == plain_value("(1,234)")
    assert plain_value("\u201336%*") == plain_value("-36 %")
    assert plain_value("1,234") != plain_value("(1,234)")


@pytest.mark.parametrize(
    ("said", "number"),
    [("(1,234)", "-1234"), ("\u20130.5 %", "-0.5"), ("$ .25", "0.25"), ("—", None), ("210 bps", "210")],
)
def test_numbers_of_marked_values(said: str, number: str | None) -> None:
    assert number_of(said) == (None if number is None else Decimal(number))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("Year ended December 31, 2023", "right"),
        ("Year ended December 31, 2023 (in thousands)", "right"),
        ("December 31, 2023", "incomplete"),
        ("Consolidated Year ended December 31, 2023", "extra"),
        ("Year ended December 31, 2022", "wrong"),
        ("Year ended December 31, 2023 2022", "wrong"),
        ("2021", "wrong"),
        ("Change $ 2023", "wrong"),
    ],
)
def test_heads(head: str, expected: str) -> None:
    assert judge_head(head, MARK) == expected


def test_another_columns_heads_are_wrong_even_if_the_own_ones_have_the_same_words() -> None:
    mark = replace(MARK, heads=(("Change %",), ("Change",)), column=0)
    assert judge_head("Change", mark) == "wrong"


def test_unit_levels_missing_levels_and_footnote_marks_of_heads() -> None:
    mark = replace(MARK, heads=(("~Millions of yen", "?2022", "RMB^1"),), column=0, unit="*")
    for head in ("Millions of yen 2022 RMB", "2022 RMB 1", "RMB", "Millions of yen RMB¹"):
        assert judge_head(head, mark, "in Millions of yen; Thousands of dollars") == "right", head
    assert judge_head("Millions of yen 2022", mark) == "incomplete"
    assert judge_head("2022 RMB", mark) == "incomplete"


def test_a_cell_that_is_right_in_every_respect() -> None:
    right = score(MARK, [found(value=TypedValue("-1234000", scale="thousand", currency="USD"))])
    assert right.full
    assert (right.lowest, right.section, right.amount) == (True, True, "right")
    assert not list(misses([right]))


def test_the_best_of_several_cells_with_the_value_counts() -> None:
    others = [found(label="Other"), found(head=YEARS[1]), found(), found(head=("2023",))]
    assert score(MARK, others).full
    assert score(MARK, others[:2]).head == "wrong"
    assert score(MARK, [found("1,234")]).found is None


def test_each_respect_is_counted_by_itself() -> None:
    scores = [
        score(MARK, cells)
        for cells in ([found()], [found(unit="")], [found(head=("2023",))], [found(head=YEARS[1])], [])
    ]
    assert shares("all", scores) == ["all", "5", "0.800", "0.800", "0.600", "0.400", "0.200", "1 (0.200)", "4/4"]
    assert any("not found" in line for line in misses(scores))


def test_a_unit_where_there_is_none_is_not_right() -> None:
    mark = replace(MARK, unit="")
    assert score(mark, [found(unit="")]).full
    assert not score(mark, [found()]).full


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TypedValue("-1234000", scale="thousand", currency="USD"), "right"),
        (TypedValue("-1234000", scale="thousand"), "no currency"),
        (TypedValue("-1234", scale="unknown", currency="USD"), "unknown"),
        (TypedValue("-1234", currency="USD"), "wrong"),
        (TypedValue("-1234000", scale="thousand", currency="CAD"), "wrong"),
        (TypedValue("1234000", scale="thousand", currency="USD"), "wrong"),
        (None, "none"),
    ],
)
def test_amounts(value: TypedValue | None, expected: str) -> None:
    assert judge_amount(value, MARK) == expected


def test_a_dash_has_no_value_and_an_unstated_scale_must_stay_unknown() -> None:
    dash = replace(MARK, value="—", kind="none")
    assert judge_amount(None, dash) == "right"
    assert judge_amount(TypedValue("0"), dash) == "wrong"
    unstated = replace(MARK, scale="unknown")
    assert judge_amount(TypedValue("-1234", scale="unknown"), unstated) == "unknown"
    assert judge_amount(TypedValue("-1234"), unstated) == "wrong"


def test_basis_points_may_be_read_as_percent() -> None:
    points = replace(MARK, value="(180) bps", kind="ratio", scale=1, currency="")
    assert judge_amount(TypedValue("-1.8", unit="%"), points) == "right"
    assert judge_amount(TypedValue("-180", unit="bps"), points) == "right"
    assert judge_amount(TypedValue("-180", unit="%"), points) == "wrong"


def test_marks_with_and_without_values_are_read(tmp_path: Path) -> None:
    file = tmp_path / "marks.json"
    cells = [["Sales", 0, "5"], ["Margin", 1, "3 %", {"kind": "percent", "scale": 1, "currency": ""}]]
    table = {"heads": [["2023"], ["2022"]], "cells": cells}
    page = {"pdf": "a.pdf", "page": 2, "kind": "note, wrapped", "unit": "in thousands", "tables": [table]}
    file.write_text(json.dumps([page]))
    first, second = read_marks(file)
    assert (first.features, first.unit, first.kind) == (("note", "wrapped"), "in thousands", "")
    assert (second.kind, second.scale, second.heads[1]) == ("percent", 1, ("2022",))
