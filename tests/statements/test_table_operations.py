"""The closed operations over cells: what they find, what they refuse, and what holds of them whatever the cells are."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import UNKNOWN
from okralong.pipelines.statements.table_operations import (
    Band,
    Cell,
    Condition,
    Operation,
    Outcome,
    Refused,
    carry_out,
    written,
)
from okralong.pipelines.statements.values import read_value


def cell(label: str, kind: str, said: str, period: str = "") -> Cell:
    value = read_value(kind, said)
    return Cell(label, kind, TypedValue(value.value, value.number, value.unit, value.scale, value.currency, period))


def than(sign: str, kind: str, said: str) -> Condition:
    return Condition(sign, read_value(kind, said))  # type: ignore[arg-type]


REVENUES = [
    cell("Alder", "money", "$41 million"),
    cell("Birch", "money", "$9,500 in thousands"),
    Cell("Cedar", "money"),
    cell("Dorn", "money", "$120,000"),
]


def done(name: str, cells: list[Cell], **more: object) -> Outcome:
    return carry_out(Operation(name, **more), cells)  # type: ignore[arg-type]


def test_an_amount_of_unknown_scale_is_not_combined_with_others() -> None:
    """ "9,500" may be thousands: it is neither less nor more than 41 million, and no part of a sum."""
    unscaled = Cell("Birch", "money", TypedValue("9500", 9500.0, "", UNKNOWN, "USD"))
    for name in ("max", "sum", "sort", "difference"):
        with pytest.raises(Refused, match=r"Birch: 9,500 USD, scale unknown: its table states no scale"):
            done(name, [REVENUES[0], unscaled])
    with pytest.raises(Refused, match="scale unknown"):
        done("filter", [unscaled], conditions=(than(">", "money", "$1,000"),))
    assert done("list", [unscaled]).text == "Birch: 9,500 USD, scale unknown"


def test_scales_are_brought_together_and_documents_without_a_value_are_named() -> None:
    most = done("max", REVENUES)
    assert (most.text, most.chosen, most.used) == ("Alder: 41,000,000 USD", (0,), (0, 1, 3))
    assert most.without == ("Cedar",)
    assert most.value is not None
    assert most.value.value == "41000000"
    assert done("min", REVENUES).text == "Dorn: 120,000 USD"
    assert done("top", REVENUES, count=2).chosen == (0, 1)
    assert done("sort", REVENUES, falling=False).chosen == (3, 1, 0)
    assert done("sort", REVENUES).text.startswith("1. Alder: 41,000,000 USD; 2. Birch: 9,500,000 USD; 3. Dorn")
    total, mean = done("sum", REVENUES).value, done("mean", REVENUES).value
    assert total is not None
    assert (total.value, total.currency) == ("50620000", "USD")
    assert mean is not None
    assert mean.value == "16873333.33"
    assert done("list", REVENUES).chosen == (0, 1, 3)


def test_conditions_and_bands() -> None:
    over = (than(">", "number", "9,000,000"),)
    count = done("count", REVENUES, conditions=over)
    assert (count.text, count.chosen) == ("2 of 3: Alder, Birch", (0, 1))
    assert done("filter", REVENUES, conditions=over).chosen == (0, 1)
    none = done("filter", REVENUES, conditions=(than(">", "money", "$1 billion"),))
    assert (none.text, none.chosen, none.used) == ("none", (), (0, 1, 3))
    bands = (
        Band("high", (than(">=", "money", "$20 million"),)),
        Band("medium", (than(">=", "money", "$1 million"), than("<", "money", "$20 million"))),
        Band("loss", (than("<", "money", "$0"),)),
    )
    found = done("bands", REVENUES, bands=bands)
    assert found.groups == (("high", (0,)), ("medium", (1,)), ("loss", ()), ("in no group", (3,)))
    assert found.text == "high: Alder; medium: Birch; loss: none; in no group: Dorn"
    answers = [cell("Alder", "boolean", "yes"), cell("Birch", "boolean", "no"), cell("Dorn", "boolean", "Yes.")]
    assert done("bands", answers).groups == (("yes", (0, 2)), ("no", (1,)))
    assert done("count", answers, conditions=(than("=", "boolean", "yes"),)).chosen == (0, 2)


def test_times() -> None:
    built = [cell("A", "date", "3 May 2011"), cell("B", "date", "12 March 2009"), cell("C", "date", "2015-01-02")]
    assert done("min", built).chosen == (1,)
    assert done("filter", built, conditions=(than(">", "date", "2010"),)).chosen == (0, 2)
    with pytest.raises(Refused, match=r"A: 2011-05-03 and B: 2011 .* exactly|B: 2011 and A: 2011-05-03"):
        done("max", [built[0], cell("B", "date", "2011")])
    quarters = [cell("A", "period", "Q3 2023"), cell("B", "period", "second quarter of 2024")]
    assert done("max", quarters).chosen == (1,)


def test_growth_follows_the_periods_or_the_years_of_the_labels() -> None:
    years = [cell("Arvana 2024", "money", "$(120,294)"), cell("Arvana 2022", "money", "$3,340")]
    growth = done("growth", years)
    assert growth.chosen == (1, 0)
    assert growth.value is not None
    assert growth.value.value == "-3701.62"
    assert growth.text.startswith("fell by 3701.62 %: Arvana 2022: 3,340 USD, Arvana 2024: -120,294 USD")
    told = [cell("x", "money", "$5", "year to 2023-12-31"), cell("y", "money", "$10", "year to 2022-12-31")]
    fall = done("growth", told)
    assert (fall.chosen, fall.value and fall.value.value) == ((1, 0), "-50")
    change = done("difference", told)
    assert change.value is not None
    assert change.value.value == "-5"
    with pytest.raises(Refused, match=r"order of these is unknown: x .time not known., y"):
        done("growth", [cell("x", "money", "$5"), cell("y", "money", "$10")])
    assert done("growth", [cell("2022", "money", "$0"), cell("2023", "money", "$7")]).value is None


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            cell("Alder", "money", "$5"),
            cell("Birch", "money", "€7"),
            "Alder: 5 USD and Birch: 7 EUR have different units",
        ),
        (cell("Alder", "percent", "5%"), cell("Birch", "number", "7"), "Alder: 5 % and Birch: 7 have different units"),
        (cell("Alder", "number", "5 km"), cell("Birch", "number", "7 days"), "Alder: 5 km and Birch: 7 days"),
        (
            cell("Alder", "money", "$5", "3 months to 2023-03-31"),
            cell("Birch", "money", "$7", "year to 2023-12-31"),
            r"Alder: 5 USD \(3 months to 2023-03-31\) and Birch: .* different lengths \(3 and 12 months\)",
        ),
        (cell("Alder", "text", "a chair"), cell("Birch", "text", "a desk"), "Alder: a chair .* no order"),
    ],
)
def test_what_cannot_be_brought_together_is_refused_with_both_named(one: Cell, other: Cell, said: str) -> None:
    with pytest.raises(Refused, match=said):
        done("max", [one, Cell("nothing", "money"), other])


def test_other_refusals() -> None:
    with pytest.raises(Refused, match="No document has a value"):
        done("max", [Cell("Alder", "money")])
    with pytest.raises(Refused, match="exactly two values, and 3"):
        done("difference", REVENUES)
    with pytest.raises(Refused, match="different totals"):
        done("sum", [cell("A", "percent", "5%"), cell("B", "percent", "6%")])
    points = done("difference", [cell("A", "percent", "5%"), cell("B", "percent", "6.5%")]).value
    assert points is not None
    assert (points.value, points.unit) == ("1.5", "percentage points")


def test_measures_are_converted() -> None:
    stays = [cell("A", "number", "3 weeks"), cell("B", "number", "20 days")]
    assert done("max", stays).chosen == (0,)
    total = done("sum", stays).value
    assert total is not None
    assert (total.value, total.unit) == ("41", "days")
    with pytest.raises(Refused, match="C: 5"):
        done("sum", [*stays, cell("C", "number", "5")])
    assert done("sum", [stays[1], cell("C", "number", "5")]).value == TypedValue("25", 25.0, "days")


numbers = st.decimals(min_value=-(10**12), max_value=10**12, places=2)
tables = st.lists(st.one_of(st.none(), numbers), min_size=1, max_size=12).filter(
    lambda each: any(x is not None for x in each)
)


def table_of(found: list[Decimal | None], unit: str = "", currency: str = "USD") -> list[Cell]:
    return [
        Cell(f"doc {n}", "money", None if x is None else TypedValue(str(x), float(x), unit, "", currency))
        for n, x in enumerate(found)
    ]


@given(tables)
def test_of_every_table(found: list[Decimal | None]) -> None:
    cells = table_of(found)
    known = {n: x for n, x in enumerate(found) if x is not None}
    without = tuple(f"doc {n}" for n, x in enumerate(found) if x is None)
    assert {known[n] for n in done("max", cells).chosen} == {max(known.values())}
    assert {known[n] for n in done("min", cells).chosen} == {min(known.values())}
    order = [known[n] for n in done("sort", cells, falling=False).chosen]
    assert order == sorted(known.values())
    total, mean = done("sum", cells).value, done("mean", cells).value
    assert total is not None
    assert Decimal(total.value) == sum(known.values())
    assert mean is not None
    assert abs(Decimal(mean.value) - sum(known.values()) / len(known)) <= Decimal("0.006")
    for name in ("max", "min", "sort", "sum", "mean", "list", "top"):
        outcome = done(name, cells, count=3)
        assert outcome.without == without
        assert sorted(outcome.used) == sorted(known), "each cell with a value is used once"
        assert outcome.used[: len(outcome.chosen)] == outcome.chosen


@given(tables, numbers, numbers)
def test_bands_part_the_table_and_agree_with_filter_and_count(
    found: list[Decimal | None], one: Decimal, other: Decimal
) -> None:
    low, high = sorted((one, other))
    cells = table_of(found)

    def limit(sign: str, at: Decimal) -> Condition:
        return Condition(sign, TypedValue(str(at), float(at)))  # type: ignore[arg-type]

    bands = (
        Band("low", (limit("<", low),)),
        Band("middle", (limit(">=", low), limit("<=", high))),
        Band("high", (limit(">", high),)),
    )
    groups = dict(done("bands", cells, bands=bands).groups)
    assert sorted(n for members in groups.values() for n in members) == [
        n for n, x in enumerate(found) if x is not None
    ]
    for band in bands:
        assert groups[band.name] == done("filter", cells, conditions=band.conditions).chosen
        counted = done("count", cells, conditions=band.conditions).value
        assert counted is not None
        assert counted.value == str(len(groups[band.name]))


@given(tables, st.integers(0, 11), st.sampled_from(["EUR", "%"]))
def test_one_cell_in_another_unit_is_always_refused(found: list[Decimal | None], at: int, unit: str) -> None:
    cells = table_of(found)
    at %= len(cells)
    odd, others = cells[at], [x for n, x in enumerate(found) if n != at and x is not None]
    assume(odd.value is not None and others)
    assert odd.value is not None
    currency = "EUR" if unit == "EUR" else ""
    cells[at] = Cell(
        odd.label, "money", TypedValue(odd.value.value, odd.value.number, unit.replace("EUR", ""), "", currency)
    )
    for name in ("max", "min", "top", "sort", "sum", "mean"):
        with pytest.raises(Refused, match=rf"{odd.label}:|different totals"):
            done(name, cells)


@given(numbers, numbers)
def test_difference_and_growth_undo_each_other(first: Decimal, last: Decimal) -> None:
    cells = [cell("a", "number", "1", "2021"), cell("b", "number", "1", "2022")]
    pair = [
        Cell(each.label, "number", TypedValue(str(x), float(x), period=f"20{year}-12-31"))
        for each, x, year in zip(cells, (first, last), (21, 22), strict=True)
    ]
    change = done("difference", pair).value
    assert change is not None
    assert Decimal(change.value) == last - first
    growth = done("growth", pair)
    if first:
        assert growth.value is not None
        exact = (last - first) / abs(first) * 100
        assert abs(Decimal(growth.value.value) - exact) <= max(Decimal("0.006"), abs(exact) / 1000)
    else:
        assert growth.value is None


def test_written() -> None:
    assert written(read_value("money", "$(234,495)")) == "-234,495 USD"
    assert written(read_value("percent", "12.50%")) == "12.5 %"
    assert written(TypedValue("0.04", 0.04, "", "", "USD", "FY2023")) == "0.04 USD (FY2023)"
