"""Rules over a table's values: what they find, what they leave alone, and what cannot be a rule."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from okralong.pipelines.statements.checks import Failure, RuleError, Value, failures_of, parse_rule

COLUMNS = ("assets", "liabilities", "Total equity", "revenue", "income", "margin")


def value(number: str, **more: Any) -> Value:
    return Value(Decimal(number), place="report, page 4", shown=number, **more)


def failures(rule: str, companies: dict[str, str] | None = None, **rows: dict[str, Value]) -> list[Failure]:
    return failures_of([parse_rule(rule, COLUMNS)], rows, lambda _: companies or {})


def sheet(equity: str) -> dict[str, Value]:
    return {"assets": value("352583"), "liabilities": value("290437"), "Total equity": value(equity)}


def test_an_identity_holds_or_names_both_sides_and_their_places() -> None:
    rule = "assets = liabilities + 'total equity'"
    assert failures(rule, a=sheet("62146")) == []
    (found,) = failures(rule, a=sheet("50000"))
    assert found.rule == rule
    assert found.cells == (("a", "assets"), ("a", "liabilities"), ("a", "Total equity"))
    assert found.says.startswith("352583 and 290437 + 50000 (352,583 and 340,437)")
    assert "assets: report, page 4" in found.says


def test_rounding_of_the_source_is_no_failure() -> None:
    rows = {"assets": value("9000000", scale="million"), "liabilities": value("6000000", scale="million")}
    rows["Total equity"] = value("2000000", scale="million")
    assert failures("assets = liabilities + 'Total equity'", a=rows) == [], "9 is 6.4 + 2.4, each rounded to millions"
    printed = {
        name: value(number, scale="billion") for name, number in (("revenue", "1200000000"), ("income", "1900000000"))
    }
    assert len(failures("revenue = income", a=printed)) == 1, "1.2 and 1.9 billion are rounded to tenths of one"
    printed["income"] = value("1249000000", scale="million")
    assert failures("revenue = income", a=printed) == []
    rows["Total equity"] = value("1000000", scale="million")
    assert len(failures("assets = liabilities + 'Total equity'", a=rows)) == 1


@pytest.mark.parametrize(("margin", "right"), [("12.5", True), ("12", True), ("14.5", False), ("0.125", False)])
def test_a_percentage_counts_as_a_share(margin: str, right: bool) -> None:
    row = {"revenue": value("800"), "income": value("100"), "margin": value(margin, unit="%")}
    assert (failures("margin = income / revenue", a=row) == []) is right


def test_a_tolerance_can_be_named() -> None:
    row = {"revenue": value("1000"), "income": value("1040")}
    assert len(failures("revenue = income", a=row)) == 1
    assert failures("revenue = income within 5 %", a=row) == []


@pytest.mark.parametrize(
    ("rule", "failed"),
    [
        ("revenue > 0", False),
        ("income > 0", True),
        ("income <= revenue", False),
        ("revenue <= income", True),
        ("revenue <= 799", True),
        ("revenue <= 799.5", False),
        ("revenue <= 700 within 20 %", False),
        ("margin < 100 %", False),
        ("revenue = (income - margin) * 2", True),
    ],
)
def test_bounds_and_signs(rule: str, failed: bool) -> None:
    row = {"revenue": value("800"), "income": value("-100"), "margin": value("12", unit="%")}
    assert bool(failures(rule, a=row)) is failed


def test_what_cannot_be_compared_is_left_alone() -> None:
    rule = "assets = liabilities + 'Total equity'"
    assert failures(rule, a={"assets": value("5")}) == []
    mixed = {
        "assets": value("5", currency="USD"),
        "liabilities": value("1", currency="EUR"),
        "Total equity": value("1"),
    }
    assert failures(rule, a=mixed) == []
    assert (
        failures("margin = income / revenue", a={"margin": value("1"), "income": value("1"), "revenue": value("0")})
        == []
    )


def test_a_jump_by_a_thousand_between_periods_is_a_wrong_scale() -> None:
    rows = {
        "y21": {"revenue": value("394000", period="FY2021")},
        "y23": {"revenue": value("401", period="FY2023")},
        "y22": {"revenue": value("398000", period="FY2022")},
        "other": {"revenue": value("12", period="FY2022")},
    }
    companies = {"y21": "Alder", "y22": "ALDER", "y23": "Alder", "other": "Birch"}
    (found,) = failures("revenue steady by company", companies, **rows)
    assert found.cells == (("y22", "revenue"), ("y23", "revenue"))
    assert "about 1,000 times less" in found.says
    assert failures("revenue steady by company", {}, **rows) == [], "no company is known"
    rows["y23"] = {"revenue": value("401", period="FY2023", currency="USD")}
    rows["y22"] = {"revenue": value("398000", period="FY2022", currency="KRW")}
    assert failures("revenue steady by company", companies, **rows) == [], "currencies are not compared"
    rows["y22"] = {"revenue": value("398000", period="FY2022")}
    rows["y23"] = {"revenue": value("40000", period="FY2023")}
    assert failures("revenue steady by company", companies, **rows) == [], "a tenth can be true"


def test_one_period_has_one_value_whatever_document_and_column_has_it() -> None:
    rows = {
        "y22": {"revenue": value("398000", period="FY2022")},
        "y23": {"revenue": value("401000", period="FY2023"), "income": value("371000", period="FY2022")},
        "z22": {"revenue": value("5000", period="FY2022"), "income": value("6000", period="FY2022")},
    }
    companies = {"y22": "Alder", "y23": "alder", "z22": "Birch"}
    restated, twice = failures("revenue, income agree by company", companies, **rows)
    assert restated.cells == (("y22", "revenue"), ("y23", "income"))
    assert restated.says.endswith("one document restates the other")
    assert twice.says.endswith("two values in one document")
    rows["y23"]["income"] = value("398400", period="FY2022")
    assert len(failures("revenue, income agree by company", companies, **rows)) == 2, "a restatement may be small"
    rows["y23"]["income"] = value("398000", period="FY2022", scale="thousand")
    rows["y22"]["revenue"] = value("398400", period="FY2022")
    assert len(failures("revenue, income agree by company", companies, **rows)) == 1, "rounded"


def test_the_odd_currency_of_a_column() -> None:
    rows = {
        name: {"revenue": value("1", currency=code)} for name, code in zip("abc", ("USD", "USD", "EUR"), strict=True)
    }
    (found,) = failures("revenue in one currency", **rows)
    assert found.cells == (("c", "revenue"),)
    assert "2 are in USD" in found.says
    assert failures("revenue in one currency", a=rows["a"], c=rows["c"]) == [], "neither is the usual one"


def test_names_with_signs_are_quoted() -> None:
    columns = ("x = y", "<z>")
    (rule,) = [parse_rule("'X = Y' >= '<z>'", columns)]
    assert rule.columns == columns
    assert parse_rule("'x = y' agrees by company", columns).columns == ("x = y",)


def test_periods_are_in_the_order_of_their_ends() -> None:
    periods = {"a": "Q4 2023", "b": "Q1 2024", "c": "nine months to 2024-09-30", "d": "FY2024"}
    rows = {name: {"revenue": value("5000", period=period)} for name, period in periods.items()}
    rows["b"] = {"revenue": value("5", period="Q1 2024")}
    found = failures("revenue steady by company", dict.fromkeys(periods, "Alder"), **rows)
    assert [each.cells for each in found] == [
        (("a", "revenue"), ("b", "revenue")),
        (("b", "revenue"), ("c", "revenue")),
    ]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("asets = liabilities", "names 'asets', which is none of the columns"),
        ("assets", "it compares nothing"),
        ("assets = ", "it compares nothing"),
        ("assets = (liabilities", "parenthesis is not closed"),
        ("assets = liabilities revenue", "is not a calculation"),
        ("assets = liabilities + ", "a value is missing"),
        ("assets = liabilities ^ 2", "cannot be read"),
        ("1 = 1", "names no column"),
        ("assets > 0 within 5 %", "> has no tolerance"),
        (f"assets = {'(' * 2000}liabilities{')' * 2000}", "more than 300"),
        ("assets = " + " + ".join(["liabilities"] * 600), "more than 300"),
    ],
)
def test_what_cannot_be_a_rule_says_why(rule: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_rule(rule, COLUMNS)


def test_signs_bind_as_in_arithmetic() -> None:
    row = {"assets": value("14"), "liabilities": value("2"), "revenue": value("3"), "income": value("4")}
    assert failures("assets = liabilities + revenue * income", a=row) == []
    assert failures("assets = -liabilities + revenue * income + 4", a=row) == []
    assert failures("assets = (liabilities + revenue) * income - 6", a=row) == []
