"""Checks of a table's values against each other: identities and bounds of a row, scales over periods, currencies.

A rule is one line. Names are those of columns; one with blanks or signs is in single quotes:

    assets = liabilities + 'total equity'
    margin = operating_income / revenue within 1 %
    revenue > 0
    revenue steady by company
    revenue, prior_revenue agree by company
    revenue in one currency
    revenue tagged us-gaap:Revenues, us-gaap:SalesRevenueNet in 'companyfacts' by cik

Percentages count as shares (12.5 % is 0.125). An identity holds within ``TOLERANCE``, or what the rule names, and the
rounding of its amounts; <= and >= within the rounding and what the rule names. A rule with a value that is missing, is
no amount or has no known scale is not applied. ``tagged`` compares with facts in XBRL (``statements/tagged.py``).
There is no model call.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DivisionByZero, InvalidOperation
from itertools import pairwise
from typing import Final, Literal

from okralong.pipelines.statements.amounts import SCALES

TOLERANCE: Final = Decimal("0.005")  # project default
"""Relative difference that an identity may have: amounts are rounded, and percentages often to whole ones."""
SCALE_FACTORS: Final = (Decimal(1000), Decimal(1_000_000))
"""The factors between periods that suggest a wrong scale."""
NEAR: Final = Decimal(2)  # project default
"""A change between periods is near such a factor if it is within this multiple of it."""
LONGEST_RULE: Final = 300  # project default
"""The most characters of a rule, which bounds how deep its parentheses go."""


class RuleError(ValueError):
    """A rule that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A typed value of the table.

    ``number`` is in full, percent per hundred. ``unit`` is "%" or a thing counted, ``scale`` the source's multiplier.
    ``period`` and ``place`` (document and page) are for ordering and messages; ``shown`` is the value as a reader sees
    it.
    """

    number: Decimal
    unit: str = ""
    scale: str = ""
    currency: str = ""
    period: str = ""
    place: str = ""
    shown: str = ""

    @property
    def amount(self) -> Decimal:
        """The number that rules calculate with."""
        return self.number / 100 if self.unit == "%" else self.number

    @property
    def rounding(self) -> Decimal:
        """Half a unit of the last digit that the source prints."""
        scale = Decimal("0.01") if self.unit == "%" else Decimal(SCALES.get(self.scale, 1))
        printed = self.number if self.unit == "%" else self.number / scale
        return Decimal(1).scaleb(min(0, int(printed.normalize().as_tuple().exponent))) / 2 * scale


Key = tuple[str, str]
"""A document and a column."""
Row = Mapping[str, Value]
"""The values of a document by column."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that failed: its ``rule``, the cells that it compares, and what it found, with the places of both."""

    rule: str
    cells: tuple[Key, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A parsed rule over ``columns``; ``by`` is the metadata column that documents are grouped by.

    A rule of the kind "tagged" names ``concepts``, and perhaps a ``folder`` of company-facts files with ``by`` for the
    CIK. It has no failures here, because facts have to be read.
    """

    text: str
    kind: Literal["compare", "steady", "agree", "currency", "tagged"]
    columns: tuple[str, ...]
    left: Node | None = None
    right: Node | None = None
    sign: str = ""
    within: Decimal = TOLERANCE
    by: str = ""
    concepts: tuple[str, ...] = ()
    folder: str = ""

    def failures(self, rows: Mapping[str, Row], groups: Callable[[str], Mapping[str, str]]) -> Iterator[Failure]:
        """Yield the failures over ``rows``, which are by doc_id.

        ``groups`` returns the value of a metadata column by doc_id.
        """
        if self.kind == "compare":
            yield from (found for doc_id, row in rows.items() if (found := self._compared(doc_id, row)))
        elif self.kind == "steady":
            yield from self._jumps(rows, groups(self.by))
        elif self.kind == "agree":
            yield from self._contradictions(rows, groups(self.by))
        elif self.kind == "currency":
            yield from self._mixed(rows)

    def _compared(self, doc_id: str, row: Row) -> Failure | None:
        assert self.left is not None
        assert self.right is not None
        if not all(name in row for name in self.columns):
            return None
        currencies = {row[name].currency for name in self.columns} - {""}
        if len(currencies) > 1:
            return None  # "in one currency" is a rule of its own
        try:
            left, right = self.left.value(row), self.right.value(row)
        except (DivisionByZero, InvalidOperation):
            return None
        slack = self.within * max(abs(left), abs(right)) + self.left.slack(row) + self.right.slack(row)
        if _HOLDS[self.sign](left, right, slack):
            return None
        sides = f"{self.left.shown(row)} and {self.right.shown(row)} ({_figure(left)} and {_figure(right)})"
        cells = tuple((doc_id, name) for name in self.columns)
        return Failure(self.text, cells, f"{sides}{_places(row, self)}")

    def _jumps(self, rows: Mapping[str, Row], group: Mapping[str, str]) -> Iterator[Failure]:
        for name in self.columns:
            series: dict[tuple[str, str], list[tuple[str, str, Value]]] = defaultdict(list)
            for doc_id, row in rows.items():
                if name in row and row[name].period and group.get(doc_id):
                    at = (group[doc_id].casefold(), row[name].currency)
                    series[at].append((_end_of(row[name].period), doc_id, row[name]))
            for values in series.values():
                for (_, before, old), (_, after, new) in pairwise(sorted(values, key=lambda each: each[:2])):
                    factor = _scale_between(old.amount, new.amount)
                    if factor is None:
                        continue
                    more = "more" if abs(new.amount) > abs(old.amount) else "less"
                    says = (
                        f"{name} is {new.shown} ({new.place}) after {old.shown} ({old.place}), about {factor:,} times "
                        f"{more}: one of the two may have the wrong scale"
                    )
                    yield Failure(self.text, ((before, name), (after, name)), says)

    def _contradictions(self, rows: Mapping[str, Row], group: Mapping[str, str]) -> Iterator[Failure]:
        """Yield the values of one company and period that differ by more than their rounding."""
        same: dict[tuple[str, ...], list[tuple[str, str, Value]]] = defaultdict(list)
        for doc_id, row in sorted(rows.items()):
            for name in self.columns:
                if name in row and row[name].period and group.get(doc_id):
                    at = (group[doc_id].casefold(), row[name].period, row[name].currency)
                    same[at].append((doc_id, name, row[name]))
        for (_, period, _), held in same.items():
            first_doc, first_name, first = held[0]
            for doc_id, name, other in held[1:]:
                slack = self.within * max(abs(first.amount), abs(other.amount)) + first.rounding + other.rounding
                if abs(first.amount - other.amount) > slack:
                    why = "two values in one document" if doc_id == first_doc else "one document restates the other"
                    says = f"{period}: {first.shown} ({first.place}) and {other.shown} ({other.place}), {why}"
                    yield Failure(self.text, ((first_doc, first_name), (doc_id, name)), says)

    def _mixed(self, rows: Mapping[str, Row]) -> Iterator[Failure]:
        for name in self.columns:
            held = {doc_id: row[name] for doc_id, row in rows.items() if name in row and row[name].currency}
            counts: dict[str, int] = defaultdict(int)
            for value in held.values():
                counts[value.currency] += 1
            usual = max(counts, key=lambda each: counts[each], default="")
            if sum(count == counts[usual] for count in counts.values()) > 1:
                continue  # none is the usual one
            for doc_id, value in held.items():
                if value.currency != usual:
                    says = f"{name} is in {value.currency} ({value.place}), where {counts[usual]} are in {usual}"
                    yield Failure(self.text, ((doc_id, name),), says)


def parse_rule(text: str, columns: Iterable[str]) -> Rule:
    """Parse a rule over ``columns``, whose names are not case-sensitive.

    Raises RuleError for an unknown column or a malformed rule.
    """
    if len(text) > LONGEST_RULE and not _TAGGED.fullmatch(text.strip()):
        raise RuleError(f"it has {len(text):,} characters, more than {LONGEST_RULE}")
    known = {each.casefold(): each for each in columns}
    if tagged := _TAGGED.fullmatch(text.strip()):
        concepts = tuple(each.strip() for each in tagged["concepts"].split(","))
        folder, by = (tagged["folder"] or "").strip("'"), tagged["by"] or ""
        one = (_column(tagged["name"], known),)
        return Rule(text.strip(), "tagged", one, by=by, concepts=concepts, folder=folder)
    if steady := _STEADY.fullmatch(text.strip()):
        return Rule(text.strip(), "steady", (_column(steady["name"], known),), by=steady["by"])
    if agree := _AGREE.fullmatch(text.strip()):
        names = tuple(_column(name.strip(), known) for name in re.findall(_NAME, agree["names"]))
        return Rule(text.strip(), "agree", names, within=Decimal(0), by=agree["by"])
    if currency := _CURRENCY.fullmatch(text.strip()):
        return Rule(text.strip(), "currency", (_column(currency["name"], known),))
    found = _COMPARED.fullmatch(text.strip())
    if found is None:
        raise RuleError(
            "it compares nothing. Write an identity (assets = liabilities + equity), a bound (revenue > 0), "
            "'NAME steady by COLUMN', 'NAME, NAME agree by COLUMN', 'NAME in one currency' or 'NAME tagged "
            "us-gaap:CONCEPT'"
        )
    left, right = (_parse(found[side], known) for side in ("left", "right"))
    names = tuple(dict.fromkeys((*left.names(), *right.names())))
    if not names:
        raise RuleError("it names no column")
    if found["within"] and found["sign"] in ("<", ">"):
        raise RuleError(f"{found['sign']} has no tolerance. Leave out within, or write {found['sign']}=")
    default = TOLERANCE if found["sign"] == "=" else Decimal(0)
    within = default if found["within"] is None else Decimal(found["within"]) / 100
    return Rule(text.strip(), "compare", names, left, right, found["sign"], within)


def failures_of(
    rules: Iterable[Rule], rows: Mapping[str, Row], groups: Callable[[str], Mapping[str, str]]
) -> list[Failure]:
    """Return the failures of all rules, rule by rule."""
    return [failure for rule in rules for failure in rule.failures(rows, groups)]


# --------
# Expressions: columns, numbers, + - * / and parentheses.

_NAME: Final = r"(?:'[^']+'|[A-Za-z_][\w.]*)"
_STEADY: Final = re.compile(rf"(?P<name>{_NAME})\s+steady\s+by\s+(?P<by>[\w.]+)")
_AGREE: Final = re.compile(rf"(?P<names>{_NAME}(?:\s*,\s*{_NAME})*)\s+agrees?\s+by\s+(?P<by>[\w.]+)")
_CURRENCY: Final = re.compile(rf"(?P<name>{_NAME})\s+in\s+one\s+currency")
_CONCEPT: Final = r"[A-Za-z][\w-]*:[A-Za-z]\w*"
_TAGGED: Final = re.compile(
    rf"(?P<name>{_NAME})\s+tagged\s+(?P<concepts>{_CONCEPT}(?:\s*,\s*{_CONCEPT})*)"
    r"(?:\s+in\s+(?P<folder>'[^']+')\s+by\s+(?P<by>[\w.]+))?"
)
_COMPARED: Final = re.compile(
    r"(?P<left>(?:'[^']+'|[^'<>=])+)(?P<sign><=|>=|<|>|=)(?P<right>(?:'[^']+'|[^'<>=])+?)(?:\s+within\s+(?P<within>\d+(?:\.\d+)?)\s*%)?"
)
_TOKEN: Final = re.compile(rf"\s*(?:(?P<number>\d+(?:\.\d+)?)\s*(?P<percent>%)?|(?P<name>{_NAME})|(?P<sign>[-+*/()]))")
_HOLDS: Final[Mapping[str, Callable[[Decimal, Decimal, Decimal], bool]]] = {
    "=": lambda left, right, slack: abs(left - right) <= slack,
    "<": lambda left, right, _: left < right,
    "<=": lambda left, right, slack: left <= right + slack,
    ">": lambda left, right, _: left > right,
    ">=": lambda left, right, slack: left >= right - slack,
}


@dataclass(frozen=True, slots=True)
class Node:
    """A number, a column, or two nodes joined by a sign."""

    sign: str
    number: Decimal = Decimal(0)
    name: str = ""
    parts: tuple[Node, ...] = ()

    def names(self) -> Iterator[str]:
        """Yield the columns."""
        if self.sign == "name":
            yield self.name
        for part in self.parts:
            yield from part.names()

    def value(self, row: Row) -> Decimal:
        """Return the value over a row. Raises DivisionByZero or InvalidOperation for a division by zero."""
        if self.sign == "number":
            return self.number
        if self.sign == "name":
            return row[self.name].amount
        one, other = (part.value(row) for part in self.parts)
        if self.sign == "+":
            return one + other
        if self.sign == "-":
            return one - other
        return one * other if self.sign == "*" else one / other

    def slack(self, row: Row) -> Decimal:
        """Return by how much rounding may change the value: a sum's parts each; products only by ``TOLERANCE``."""
        if self.sign == "name":
            return row[self.name].rounding
        return sum((part.slack(row) for part in self.parts), Decimal(0)) if self.sign in "+-" else Decimal(0)

    def shown(self, row: Row) -> str:
        """Return the expression with the values of a row in place of the names."""
        if self.sign == "number":
            return f"{self.number:f}"
        if self.sign == "name":
            return row[self.name].shown
        plain = self.sign == "+"
        return f" {self.sign} ".join(
            part.shown(row) if plain or not part.parts else f"({part.shown(row)})" for part in self.parts
        )


def quoted(name: str) -> str:
    """Return a column's name as rules write it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"'{name}'"


def _parse(text: str, known: Mapping[str, str]) -> Node:
    tokens: list[Node] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise RuleError(f"{text[at:]!r} cannot be read. Use columns, numbers, + - * / and parentheses")
        at = found.end()
        if found["number"]:
            number = Decimal(found["number"])
            tokens.append(Node("number", number / 100 if found["percent"] else number))
        elif found["name"]:
            tokens.append(Node("name", name=_column(found["name"], known)))
        else:
            tokens.append(Node(found["sign"]))
    node, rest = _sum(tokens)
    if rest:
        raise RuleError(f"{text!r} is not a calculation. Join values by + - * /")
    return node


def _sum(tokens: Sequence[Node]) -> tuple[Node, Sequence[Node]]:
    if tokens and tokens[0].sign == "-" and not tokens[0].parts:
        tokens = [Node("number"), *tokens]
    return _joined(tokens, ("+", "-"), lambda rest: _joined(rest, ("*", "/"), _single))


_Read = Callable[[Sequence[Node]], tuple[Node, Sequence[Node]]]


def _joined(tokens: Sequence[Node], signs: tuple[str, ...], read: _Read) -> tuple[Node, Sequence[Node]]:
    node, rest = read(tokens)
    while rest and rest[0].sign in signs and not rest[0].parts:
        other, after = read(rest[1:])
        node, rest = Node(rest[0].sign, parts=(node, other)), after
    return node, rest


def _single(tokens: Sequence[Node]) -> tuple[Node, Sequence[Node]]:
    if not tokens:
        raise RuleError("a value is missing")
    first, rest = tokens[0], tokens[1:]
    if first.sign == "(":
        node, rest = _sum(rest)
        if not rest or rest[0].sign != ")":
            raise RuleError("a parenthesis is not closed")
        return node, rest[1:]
    if first.sign not in ("number", "name"):
        raise RuleError(f"a value is missing before {first.sign!r}")
    return first, rest


def _column(name: str, known: Mapping[str, str]) -> str:
    plain = name.strip("'")
    if plain.casefold() not in known:
        raise RuleError(f"it names {plain!r}, which is none of the columns ({', '.join(known.values())})")
    return known[plain.casefold()]


def _scale_between(old: Decimal, new: Decimal) -> Decimal | None:
    """Return the factor of a scale that is between two amounts, or None."""
    if not old or not new:
        return None
    change = max(abs(new / old), abs(old / new))
    return next((factor for factor in SCALE_FACTORS if factor / NEAR <= change <= factor * NEAR), None)


def _end_of(period: str) -> str:
    """Return about when a period ends, for ordering: "2024-09" for "Q3 2024" and "nine months to 2024-09-30"."""
    dates = re.findall(r"\b\d{4}-\d\d\b", period)
    if dates:
        return str(dates[-1])
    year, quarter = re.search(r"\d{4}", period), re.search(r"\bQ([1-4])\b", period)
    return f"{year[0] if year else period}-{3 * int(quarter[1]) if quarter else 12:02d}"


def _figure(number: Decimal) -> str:
    return f"{number:,.4f}".rstrip("0").rstrip(".") if abs(number) < 100 else f"{number:,.0f}"


def _places(row: Row, rule: Rule) -> str:
    places = list(dict.fromkeys(f"{name}: {row[name].place}" for name in rule.columns if row[name].place))
    return f"; {', '.join(places)}" if places else ""
