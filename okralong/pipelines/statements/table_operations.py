"""The operations that code carries out over the values of a table with a row per document.

A cell is the value of one document. Amounts are already scaled ("10,135 in thousands" is 10135000); measures of time,
weight and length are converted to one unit before they are compared. Cells with incompatible units or periods are never
compared; the operation raises ``Refused``, which names them. Documents without a value are left out and listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Final, Literal

from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import UNKNOWN, UNSCALED, plain
from okralong.pipelines.statements.periods import forms_of

OperationName = Literal[
    "max",
    "min",
    "top",
    "sort",
    "count",
    "filter",
    "bands",
    "difference",
    "growth",
    "sum",
    "mean",
    "list",
]
""""bands" groups by equal values if no bands are given; "list" names every value."""

Sign = Literal["<", "<=", "=", ">=", ">"]

AMOUNTS: Final = ("number", "money", "percent")
"""Kinds with numeric values; of the other kinds, only "date" and "period" have an order."""


class Refused(ValueError):
    """The operation cannot be carried out over these cells; the message names them."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One document's ``value`` of ``kind`` (one of ``answer_types.KINDS``), or None; ``label`` names the document."""

    label: str
    kind: str
    value: TypedValue | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with ``than``: an amount or date, or with "=" any value."""

    sign: Sign
    than: TypedValue


@dataclass(frozen=True, slots=True)
class Band:
    """A named group of the cells that meet all conditions and belong to no earlier band."""

    name: str
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation and its arguments.

    ``count`` is for "top", ``falling`` for "top" and "sort", ``bands`` for "bands". "count" and "filter" take the cells
    that meet all ``conditions``.
    """

    name: OperationName
    count: int = 1
    falling: bool = True
    conditions: tuple[Condition, ...] = ()
    bands: tuple[Band, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result in words, and as ``value`` if it is a number.

    ``chosen`` holds the indexes of the cells that the result names, in order; ``used`` those of all cells that it
    depends on, ``chosen`` first. ``groups`` pairs each band's name with its cells; ``without`` has the labels of cells
    without a value.
    """

    text: str
    value: TypedValue | None
    chosen: tuple[int, ...]
    used: tuple[int, ...]
    without: tuple[str, ...] = ()
    groups: tuple[tuple[str, tuple[int, ...]], ...] = ()


def carry_out(operation: Operation, cells: Sequence[Cell]) -> Outcome:
    """Carry out an operation over the cells that have a value.

    Raises:
        Refused: No cell has a value, units or periods are incompatible, or the values do not allow the operation.
    """
    table = [(place, each) for place, each in enumerate(cells) if each.value is not None]
    if not table:
        raise Refused("No document has a value.")
    found = _OPERATIONS[operation.name](operation, table)
    others = [place for place, _ in table if place not in found.chosen]
    without = tuple(each.label for each in cells if each.value is None)
    return replace(found, used=(*found.chosen, *others), without=without)


Table = list[tuple[int, Cell]]
"""Cells that have a value, each with its index in the whole table."""


# --------
# The operations.


def _extreme(operation: Operation, table: Table) -> Outcome:
    sign = 1 if operation.name == "max" else -1
    return _first(table, 1, sign > 0)


def _top(operation: Operation, table: Table) -> Outcome:
    return _first(table, operation.count, operation.falling)


def _first(table: Table, count: int, falling: bool) -> Outcome:
    """Return the first ``count`` cells in order, including ties with the last."""
    order = _sorted(table, falling)
    keys = _keys(order)
    last = keys[min(count, len(order)) - 1]
    chosen = [entry for entry, key in zip(order, keys, strict=True) if key == last or entry in order[:count]]
    value = chosen[0][1].value if len({_value(each).value for _, each in chosen}) == 1 else None
    return _named(chosen, value)


def _sort(operation: Operation, table: Table) -> Outcome:
    return _named(_sorted(table, operation.falling), None, numbered=True)


def _count(operation: Operation, table: Table) -> Outcome:
    held = [(place, each) for place, each in table if _holds(each, operation.conditions)]
    names = f": {', '.join(each.label for _, each in held)}" if held else ""
    number = TypedValue(str(len(held)), float(len(held)))
    return Outcome(f"{len(held)} of {len(table)}{names}", number, _places(held), ())


def _filter(operation: Operation, table: Table) -> Outcome:
    held = [(place, each) for place, each in table if _holds(each, operation.conditions)]
    return _named(held, None) if held else Outcome("none", None, (), ())


def _bands(operation: Operation, table: Table) -> Outcome:
    groups: dict[str, Table] = {band.name: [] for band in operation.bands}
    for place, each in table:
        fitting = [band.name for band in operation.bands if _holds(each, band.conditions)]
        other = "in no group" if operation.bands else written(_value(each), period=False)
        groups.setdefault(fitting[0] if fitting else other, []).append((place, each))
    said = [
        f"{name}: {', '.join(each.label for _, each in members) if members else 'none'}"
        for name, members in groups.items()
    ]
    chosen = tuple(place for members in groups.values() for place, _ in members)
    told = tuple((name, _places(members)) for name, members in groups.items())
    return Outcome("; ".join(said), None, chosen, (), groups=told)


def _difference(operation: Operation, table: Table) -> Outcome:
    """Subtract the earlier of two cells from the later, or the smaller from the larger if times are not distinct."""
    if len(table) != 2:
        raise Refused(f"A difference needs exactly two values, and {len(table)} of the documents have one.")
    one, other = _by_time(table) or _sorted(table, falling=False)
    first, last = _together([one, other])
    found = _amount(last - first, table)
    if found.unit == "%":
        found = replace(found, unit="percentage points")
    text = f"{written(found)} ({_said(other[1])} less {_said(one[1])})"
    return Outcome(text, found, _places([other, one]), ())


def _growth(operation: Operation, table: Table) -> Outcome:
    """Return the change from the earliest to the latest cell, in percent, with all cells between."""
    if len(table) < 2:
        raise Refused("Growth needs values at two times, but only one document has a value.")
    order = _by_time(table)
    if order is None:
        known = ", ".join(f"{each.label} ({_value(each).period or 'time not known'})" for _, each in table)
        raise Refused(f"Growth needs values at different times, but the order of these is unknown: {known}.")
    amounts = _together(order)
    moved = [_direction(first, last) for first, last in pairwise(amounts)]
    way = moved[0] if len(set(moved)) == 1 else f"{_direction(amounts[0], amounts[-1])} over all"
    steps = ", ".join(_said(each) for _, each in order)
    if amounts[0] == 0:
        return Outcome(f"{way}: {steps}", None, _places(order), ())
    percent = _rounded((amounts[-1] - amounts[0]) / abs(amounts[0]) * 100)
    value = TypedValue(plain(percent), float(percent), "%")
    return Outcome(f"{way} by {plain(abs(percent))} %: {steps}", value, _places(order), ())


def _direction(first: Decimal, last: Decimal) -> str:
    return "unchanged" if first == last else "rose" if last > first else "fell"


def _sum(operation: Operation, table: Table) -> Outcome:
    if any(_value(each).unit == "%" for _, each in table):
        raise Refused("Percentages of different totals cannot be summed. Ask for their mean, or list them.")
    total = sum(_together(table), Decimal(0))
    return _worked_out(table, _amount(total, table))


def _mean(operation: Operation, table: Table) -> Outcome:
    amounts = _together(table)
    mean = sum(amounts, Decimal(0)) / len(amounts)
    exact = mean if mean == mean.to_integral_value() else _rounded(mean)
    return _worked_out(table, _amount(exact, table))


def _worked_out(table: Table, found: TypedValue) -> Outcome:
    return Outcome(f"{written(found)} ({'; '.join(_said(each) for _, each in table)})", found, _places(table), ())


def _list(operation: Operation, table: Table) -> Outcome:
    return _named(_by_time(table) or table, None)


_OPERATIONS: Final[dict[OperationName, Callable[[Operation, Table], Outcome]]] = {
    "max": _extreme,
    "min": _extreme,
    "top": _top,
    "sort": _sort,
    "count": _count,
    "filter": _filter,
    "bands": _bands,
    "difference": _difference,
    "growth": _growth,
    "sum": _sum,
    "mean": _mean,
    "list": _list,
}


def _named(chosen: Table, value: TypedValue | None, numbered: bool = False) -> Outcome:
    said = [_said(each) for _, each in chosen]
    text = " ".join(f"{number}. {each};" for number, each in enumerate(said, 1)).rstrip(";") if numbered else None
    return Outcome(text or "; ".join(said), value, _places(chosen), ())


def _places(table: Table) -> tuple[int, ...]:
    return tuple(place for place, _ in table)


# --------
# Common units and order.

_MEASURES: Final[dict[str, tuple[str, Decimal]]] = {
    **{name: ("days", Decimal(days)) for name, days in (("day", 1), ("week", 7))},
    **{name: ("months", Decimal(months)) for name, months in (("month", 1), ("quarter", 3), ("year", 12))},
    **{name: ("kilograms", Decimal(1)) for name in ("kg", "kilogram")},
    **{name: ("kilograms", Decimal(1000)) for name in ("tonne", "metric ton")},
    **{name: ("metres", Decimal(1)) for name in ("m", "metre", "meter")},
    **{name: ("metres", Decimal(1000)) for name in ("km", "kilometre", "kilometer")},
}
"""Target unit and factor of measures that convert exactly, by the singular of their name. Any other word after a number
only names what is counted and is never a reason to refuse."""

_POINTS: Final = "percentage points"


def _together(table: Table) -> list[Decimal]:
    """Convert the amounts to one unit. Raises Refused, naming two cells, if they have no common unit."""
    for _, each in table:
        if _value(each).number is None:
            raise Refused(f"{_said(each)} is not an amount, so it cannot be used in a calculation.")
        if _value(each).scale == UNKNOWN and len(table) > 1:
            raise Refused(f"{_said(each)}: its table states no scale, so it was not compared.")
    for tell in (_percent, _currency, _measured):
        told = [(each, unit) for _, each in table if (unit := tell(_value(each)))]
        for (one, first), (other, second) in pairwise(told):
            if first != second:
                raise Refused(_apart(one, other))
    _check_periods(table)
    factors = _factors([_value(each) for _, each in table])
    if factors is None:
        measured = next(each for _, each in table if _measure(_value(each)) is not None)
        unsaid = next(each for _, each in table if _measure(_value(each)) is None)
        raise Refused(_apart(measured, unsaid))
    return [Decimal(_value(each).value) * factor for (_, each), factor in zip(table, factors, strict=True)]


def _apart(one: Cell, other: Cell) -> str:
    units = f"{_unit(_value(one))} and {_unit(_value(other))}"
    return f"{_said(one)} and {_said(other)} have different units ({units}), so they were not compared."


def _percent(value: TypedValue) -> str:
    return "%" if value.unit in ("%", _POINTS) else "no percentage"


def _currency(value: TypedValue) -> str:
    """Return the currency; "" (unknown) is compatible with any."""
    return value.currency


def _measured(value: TypedValue) -> str:
    measure = _measure(value)
    return "" if measure is None else measure[0]


def _measure(value: TypedValue) -> tuple[str, Decimal] | None:
    name = value.unit.casefold()
    return _MEASURES.get(name) or _MEASURES.get(name.removesuffix("s"))


def _factors(values: Sequence[TypedValue]) -> list[Decimal] | None:
    """Return the factor that converts each amount to the common unit; None if units differ and an amount has none."""
    measures = [_measure(value) for value in values]
    factors = [measure[1] for measure in measures if measure is not None]
    if len(set(factors)) < 2:
        return [Decimal(1)] * len(values)
    return factors if len(factors) == len(values) else None


def _unit(value: TypedValue) -> str:
    return value.currency or value.unit or "no unit"


_LENGTHS: Final = (
    (re.compile(r"year to |FY\d{4}$"), 12),
    (re.compile(r"Q[1-4] "), 3),
    (re.compile(r"H[12] "), 6),
    (re.compile(r"(\d+) months to "), 0),
    (re.compile(r"month to "), 1),
)
"""Length of a period in months by its canonical form; 0 stands for the number in it. Days and plain years are not
listed: they are compatible with any period."""


def _months(period: str) -> int | None:
    for pattern, months in _LENGTHS:
        if (match := pattern.match(period)) is not None:
            return months or int(match[1])
    return None


def _check_periods(table: Table) -> None:
    """Raise Refused if periods differ in length, such as a quarter and a year. Their ends may differ."""
    said = [(each, months) for _, each in table if (months := _months(_value(each).period)) is not None]
    for (one, first), (other, second) in pairwise(said):
        if first != second:
            raise Refused(
                f"{_said(one)} and {_said(other)} are of periods of different lengths ({first} and {second} months), "
                "so they were not compared."
            )


def _keys(table: Table) -> list[Decimal | str]:
    """Return the sort key of each cell. Raises Refused if the cells have no common order."""
    kinds = {each.kind for _, each in table}
    if kinds <= set(AMOUNTS):
        return list(_together(table))
    if kinds <= {"date", "period"}:
        ends = [_end(_value(each).value) for _, each in table]
        order = sorted(zip(ends, [each for _, each in table], strict=True), key=lambda pair: pair[0])
        for (first, one), (second, other) in pairwise(order):
            if first != second and second.startswith(first):
                raise Refused(f"{_said(one)} and {_said(other)} are not equally precise, so their order is unknown.")
        return list(ends)
    _, some = table[0]
    raise Refused(f"{_said(some)} is a value of the kind {some.kind}, which has no order.")


_QUARTER_ENDS: Final = ("03-31", "06-30", "09-30", "12-31")


def _end(written_time: str) -> str:
    """Return the end of a date or period as "YYYY", "YYYY-MM" or "YYYY-MM-DD". Raises Refused if it is unknown."""
    if (named := re.fullmatch(r"(?:.* to )?(\d{4}(?:-\d\d(?:-\d\d)?)?)", written_time)) is not None:
        return named[1]
    if (quarter := re.fullmatch(r"Q([1-4]) (?:FY)?(\d{4})", written_time)) is not None:
        return f"{quarter[2]}-{_QUARTER_ENDS[int(quarter[1]) - 1]}"
    if (half := re.fullmatch(r"H([12]) (?:FY)?(\d{4})", written_time)) is not None:
        return f"{half[2]}-{_QUARTER_ENDS[2 * int(half[1]) - 1]}"
    if (year := re.fullmatch(r"FY(\d{4})", written_time)) is not None:
        return year[1]
    raise Refused(f"{written_time!r} has no known end, so it cannot be ordered.")


def _sorted(table: Table, falling: bool) -> Table:
    """Sort by value; ties keep the order of the table."""
    keyed = list(zip(_keys(table), table, strict=True))
    keyed.sort(key=lambda pair: pair[0], reverse=falling)
    return [entry for _, entry in keyed]


_YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def _by_time(table: Table) -> Table | None:
    """Sort by the values' periods, or by the years in the labels; return None if neither are known and distinct."""
    said = [_value(each).period for _, each in table]
    labelled = ["".join(_YEAR.findall(each.label)[:1]) for _, each in table]
    for times in (said, labelled):
        try:
            ends = [_end(time) for time in times]
        except Refused:
            continue
        if len(set(ends)) == len(ends):
            return [entry for _, entry in sorted(zip(ends, table, strict=True), key=lambda pair: pair[0])]
    return None


def _holds(cell: Cell, conditions: Sequence[Condition]) -> bool:
    return all(_compare(cell, condition) for condition in conditions)


def _compare(cell: Cell, condition: Condition) -> bool:
    own, than = _value(cell), condition.than
    if own.number is not None and than.number is not None:
        than = replace(than, unit=than.unit or own.unit)  # "over 20" for values in percent
        first, second = _together([(0, replace(cell, kind="number")), (0, Cell("the limit", "number", than))])
        return _TESTS[condition.sign]((first > second) - (first < second))
    if condition.sign == "=":
        same = own.value.casefold() == than.value.casefold()
        return same or (cell.kind in ("date", "period") and bool(forms_of(own.value) & forms_of(than.value)))
    if cell.kind in ("date", "period"):
        first_end, second_end = _end(own.value), _end(than.value)
        if first_end != second_end and (first_end.startswith(second_end) or second_end.startswith(first_end)):
            return condition.sign in ("<=", ">=")  # 2023-05 is within 2023
        return _TESTS[condition.sign]((first_end > second_end) - (first_end < second_end))
    raise Refused(f"{_said(cell)} is a value of the kind {cell.kind}, which cannot be compared with {than.value}.")


_TESTS: Final[dict[Sign, Callable[[int], bool]]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    "=": lambda order: order == 0,
    ">=": lambda order: order >= 0,
    ">": lambda order: order > 0,
}


# --------
# In words.


def written(value: TypedValue, period: bool = True) -> str:
    """Format a value for people: "41,000,000 USD (FY2021)", "12.5 %", "41,000 USD, scale unknown"."""
    said = value.value
    if value.number is not None:
        said = f"{Decimal(value.value):,f}"
    unit = value.currency or value.unit
    said = f"{said} {unit}" if unit else said
    said = f"{said}, {UNSCALED}" if value.scale == UNKNOWN else said
    return f"{said} ({value.period})" if period and value.period else said


def _said(cell: Cell) -> str:
    return f"{cell.label}: {written(_value(cell))}"


def _value(cell: Cell) -> TypedValue:
    if cell.value is None:
        raise ValueError(f"the cell of {cell.label} has no value")
    return cell.value


def _amount(number: Decimal, table: Table) -> TypedValue:
    """Return a computed amount with the unit and currency of the first cell that has one."""
    values = [_value(each) for _, each in table]
    unit = next((value.unit for value in values if value.unit == "%" or _measure(value) is not None), "")
    factors = _factors(values)
    if factors is not None and any(factor != 1 for factor in factors):
        unit = next(_measured(value) for value in values)
    scale = UNKNOWN if any(value.scale == UNKNOWN for value in values) else ""
    return TypedValue(plain(number), float(number), unit, scale, next(filter(None, map(_currency, values)), ""))


def _rounded(number: Decimal) -> Decimal:
    """Round to two decimals, or to four significant digits below 1."""
    step = Decimal("0.01") if abs(number) >= 1 or not number else Decimal(1).scaleb(number.adjusted() - 3)
    return number.quantize(step, ROUND_HALF_UP)
