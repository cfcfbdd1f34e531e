"""Amounts against tagged facts: periods, rounding, signs, and files that are no company-facts files."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from okralong.pipelines.core.types import Fact
from okralong.pipelines.statements.tagged import (
    Amount,
    CompanyFacts,
    FactsError,
    Reported,
    TaggedFact,
    compared,
    inline_facts,
    plain_cik,
)

ANNUAL = Reported("2023-12-31", "2023", accession="a-1")
QUARTERLY = Reported("2024-06-28", "2024", "Q2")


def fact(number: str, start: str = "2023-01-01", end: str = "2023-12-31", **more: Any) -> TaggedFact:
    return TaggedFact(
        **{"concept": "us-gaap:Revenues", "unit": "USD"} | more, number=Decimal(number), start=start, end=end
    )


def amount(number: str, period: str = "", rounding: str = "500000", currency: str = "USD") -> Amount:
    return Amount(Decimal(number), Decimal(rounding), currency, period)


@pytest.mark.parametrize(
    ("period", "result"),
    [
        ("2023", "agrees"),
        ("FY2023", "agrees"),
        ("year to 2023-12-31", "agrees"),
        ("", "agrees"),
        ("2022", "no fact"),
        ("Q4 2023", "no fact"),
        ("3 months to 2023-12-31", "no fact"),
    ],
)
def test_an_amount_is_compared_with_the_fact_of_its_period(period: str, result: str) -> None:
    known = [fact("45754000000"), fact("43004000000", "2022-01-01", "2022-12-30")]
    assert compared(amount("45754000000", period), known[:1], ANNUAL)[0] == result
    if result == "agrees":
        found = compared(amount("45754000", period), known, ANNUAL)
        assert found == ("differs", known[0]), "a thousandth of it"


@pytest.mark.parametrize(("period", "right"), [("Q2 2024", "300"), ("6 months to 2024-06-28", "590"), ("", "300")])
def test_a_quarterly_report_has_facts_of_several_lengths(period: str, right: str) -> None:
    known = [fact("590", "2023-12-30", "2024-06-28"), fact("300", "2024-03-30", "2024-06-28")]
    assert compared(amount(right, period, "0"), known, QUARTERLY)[0] == "agrees"
    assert compared(amount("890", period, "0"), known, QUARTERLY)[0] == "differs"


def test_a_balance_is_of_the_day_or_of_the_year_that_ends_then() -> None:
    assets = [fact("97703", "", "2023-12-31", concept="us-gaap:Assets"), fact("92763", "", "2022-12-31")]
    for period in ("2023-12-31", "2023", "FY2023", ""):
        assert compared(amount("97703", period, "0"), assets, ANNUAL) == ("agrees", assets[0])
    fiscal = Reported("2023-09-30", "2023")
    september = [fact("352583", "", "2023-09-30")]
    assert compared(amount("352583", "FY2023", "0"), september, fiscal)[0] == "agrees"
    assert compared(amount("352583", "FY2023", "0"), september, Reported())[0] == "no fact"


def test_rounding_of_both_sides_is_no_difference() -> None:
    printed = fact("45754123456", rounding=Decimal("500000"))
    assert compared(amount("45754000000", "2023", "0"), [printed], ANNUAL)[0] == "agrees"
    assert compared(amount("45800000000", "2023", "50000000"), [printed], ANNUAL)[0] == "agrees", "45.8 billion"
    assert compared(amount("45900000000", "2023", "50000000"), [printed], ANNUAL)[0] == "differs"


def test_a_sign_counts_except_for_money_that_goes_out() -> None:
    loss = fact("-12", concept="us-gaap:OperatingIncomeLoss")
    assert compared(amount("12", "2023", "0"), [loss], ANNUAL)[0] == "differs"
    spent = fact("12", concept="us-gaap:PaymentsToAcquirePropertyPlantAndEquipment")
    assert compared(amount("-12", "2023", "0"), [spent], ANNUAL)[0] == "agrees"


def test_other_units_are_no_facts_of_an_amount() -> None:
    each = fact("2.47", unit="USD/shares")
    assert compared(amount("2.47", "2023", "0.005"), [each, fact("2.47", unit="EUR/shares")], ANNUAL) == (
        "agrees",
        each,
    )
    assert compared(amount("2.47", "2023", "0.005"), [fact("9", unit="EUR")], ANNUAL)[0] == "no fact"


def test_the_fact_of_its_own_filing_is_named_before_a_restated_one() -> None:
    restated, own = fact("44", accession="b-2"), fact("45", accession="a-1")
    assert compared(amount("45", "2023", "0"), [restated, own], ANNUAL) == ("agrees", own)
    assert compared(amount("4.5", "2023", "0"), [restated, own], ANNUAL) == ("differs", own)


def test_facts_of_a_segment_and_texts_are_left_out() -> None:
    own = Fact("us-gaap:Assets", 0, 5, "97703000000", "USD", 6, decimals="-6", period_end="2023-12-31")
    segment = Fact("us-gaap:Assets", 9, 12, "1", "USD", period_end="2023-12-31", dimensions=(("segment", "Europe"),))
    words = Fact("us-gaap:Assets", 20, 25, "", "", period_end="2023-12-31")
    (found,) = inline_facts([segment, words, own], ["ifrs-full:Assets", "us-gaap:Assets"], "ko-10k")
    assert (found.number, found.rounding, found.source) == (97703000000, 500000, "tagged in ko-10k")


COMPANY = {
    "cik": 21344,
    "entityName": "COCA COLA CO",
    "facts": {
        "us-gaap": {
            "Revenues": {
                "units": {
                    "USD": [
                        {"start": "2023-01-01", "end": "2023-12-31", "val": 45754000000, "accn": "a-1", "form": "10-K",
                         "filed": "2024-02-20"},
                        {"start": "2023-01-01", "end": "2023-12-31", "val": 45754000001, "accn": "b-2", "form": "10-K",
                         "filed": "2025-02-20"},
                        {"end": "soon", "val": 3}, {"end": "2023-12-31", "val": "many"}, {"end": "2023-12-31"}, 7,
                    ],
                    "EUR": "none",
                }
            }
        }
    },
}  # fmt: skip


def test_company_facts_are_read_as_the_sec_publishes_them() -> None:
    read = CompanyFacts.read(json.dumps(COMPANY).encode())
    later, first = read.of(["ifrs-full:Revenue", "us-gaap:Revenues"])
    assert later.number == first.number + 1
    assert first.source == "COCA COLA CO: 10-K a-1 filed 2024-02-20"
    assert first.shown == "45,754,000,000 USD (2023-01-01 to 2023-12-31)"
    assert compared(amount("45754000000", "2023"), read.of(["us-gaap:Revenues"]), ANNUAL)[0] == "agrees"


def test_impossible_numbers_and_other_concepts_are_left_out() -> None:
    rows = ",".join(f'{{"val": {val}, "end": "2023-12-31"}}' for val in ("1E999999999", "1E-99", "NaN", "5E6"))
    units = f'{{"units": {{"USD": [{rows}]}}}}'
    read = CompanyFacts.read(f'{{"facts": {{"us-gaap": {{"Assets": {units}, "Cash": {units}}}}}}}'.encode())
    assert [each.shown for each in read.of(["us-gaap:Assets"])] == ["5,000,000 USD (2023-12-31)"]
    assert read.only({"us-gaap:Assets", "dei:Absent"}).facts == {"us-gaap": {"Assets": read.facts["us-gaap"]["Assets"]}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>Not found", "no JSON"),
        (b'{"facts": ', "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", 'no "facts"'),
        (b'{"facts": {"us-gaap": [1]}}', 'no "facts"'),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_another_file_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(FactsError, match=why):
        CompanyFacts.read(content)


@pytest.mark.parametrize(
    ("given", "name"), [("21344", "0000021344"), ("CIK0000021344", "0000021344"), ("../x", ""), ("", "")]
)
def test_a_cik_is_digits(given: str, name: str) -> None:
    assert plain_cik(given) == name
