"""Read the value of a table cell with its scale, currency and kind.

Tables state these once for many cells: in the row's label, the column's heads, a heading within the table, the unit
line ("(in thousands, except per share data)"), the title, or a note that holds for the whole document. The nearest
statement applies. Percentages, ratios, counts and amounts per share do not inherit the scale of money. An amount whose
scale is stated nowhere has the scale "unknown": it must never be taken for units.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Final, Generic, Literal, TypeVar

from okralong.pipelines.core.languages import detect
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, TypedValue
from okralong.pipelines.statements.amounts import SCALES, UNKNOWN, plain
from okralong.pipelines.statements.cell_numbers import Printed, printed, proven_decimal, separators_of
from okralong.pipelines.statements.dollars import DOLLARS, own_dollar
from okralong.pipelines.statements.locale_words import locale_words
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.unit_lines import Stated, currencies_in, stated, stated_in
from okralong.pipelines.statements.unit_words import (
    AMOUNT_EACH,
    AMOUNT_HEAD,
    COUNT,
    EACH,
    EARNINGS,
    INSTRUMENTS,
    IS_PERCENT,
    MAYBE_PER_UNIT,
    MAYBE_PERCENT,
    MEASURE,
    NEVER_SCALED,
    NO_PERCENT,
    NO_SHARES,
    NOTE_HEAD,
    NOUN,
    NUMBER_OF,
    OWED,
    PER_UNIT,
    PERCENT,
    RATE_HEAD,
    SHARE_COUNT,
    SOME_SHARES,
    STAFF,
    STATEMENTS,
    STOCK,
    TERM,
    YEAR_HEAD,
)

T = TypeVar("T")
Kind = Literal["money", "percent", "per unit", "shares", "count", ""]
"""The kind of a cell's number. "per unit" is money per share, tonne or day; "" is unknown, mostly money."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a cell.

    ``scale`` is a key of ``SCALES``: "" for amounts in full, "unknown" unless ``known``. ``currency`` is an ISO 4217
    code; "" if it is unknown or the cell is not money.
    """

    scale: str = ""
    currency: str = ""
    kind: Kind = ""
    known: bool = True


def unit_of(table: Table, row: TableRow, cell: TableCell, around: str = "") -> Unit:
    """Return the unit of a cell. ``around`` is the text of ``around_of``."""
    return _reader(_Same(table), around).unit(row, cell)


def cell_value(table: Table, row: TableRow, cell: TableCell, around: str = "") -> TypedValue | None:
    """Return the value of a cell, or None if it has none ("n.m.", "—") or its separators are ambiguous.

    An amount whose scale is not known has the scale "unknown" and its number as printed.
    """
    return _reader(_Same(table), around).value(row, cell)


def around_of(document: Document, table: Table) -> str:
    """Return what a document states of a table's unit outside of it: above it, on its page, in headings and notes.

    If no text near the table states a scale, figures decide that other tables have, too: two of them, all in the same
    scale, or one in the scale of the document's note on all amounts. The note alone decides where no table states a
    scale.
    """
    return _around(_Same(document), _Same(table))


@lru_cache(maxsize=64)
def _around(document: _Same[Document], table: _Same[Table]) -> str:
    parts, notes = _stated_around(document.thing, table.thing)
    around = _BETWEEN.join((*parts, notes))
    near = _without_scales(around)
    amounts = list(_reader(table, near).amounts())
    if any(unit.known for _, unit in amounts):
        return near
    others = _figures(document)
    if not others or _reader(table, near).is_financial:
        return around
    scales = [next(iter(found)) for digits, _ in amounts if len(found := others.get(digits, ())) == 1]
    noted = {scale for line in notes.split("\n") for scale, _ in stated(line).scales}
    if len(set(scales)) == 1 and (len(scales) >= _SAME_FIGURES or noted == set(scales)):
        parts = (f"{parts[0]}\n({f'in {scales[0]}s' if scales[0] else 'in full'})", *parts[1:])
    return _without_scales(_BETWEEN.join((*parts, notes)))


@lru_cache(maxsize=4)
def _figures(document: _Same[Document]) -> dict[Decimal, set[str]]:
    """Return the scales in which the tables of a document have each large figure."""
    found: dict[Decimal, set[str]] = {}
    for table in tables_of(document.thing):
        parts, notes = _stated_around(document.thing, table)
        for digits, unit in _reader(_Same(table), _without_scales(_BETWEEN.join((*parts, notes)))).amounts():
            if unit.known:
                found.setdefault(digits, set()).add(unit.scale)
    return found


def _without_scales(around: str) -> str:
    """Remove scales that notes state for all amounts, since documents also have tables without money."""
    near, _, notes = around.rpartition(_BETWEEN)
    kept = []
    for line in notes.split("\n"):
        told = stated(line)
        if not told.scales:
            kept.append(line)
        elif len(told.currencies) == 1 and not told.plain_dollar:
            kept.append(told.currencies[0])
    return near + _BETWEEN + "\n".join(kept)


_SAME_FIGURES: Final = 2
"""Figures that a table must share with others to have their scale. Of 657 tables of 26 reports that state a scale and
share two figures, all but one, which was misread, would get it from these; and a fifth of the tables without one do."""


def _stated_around(document: Document, table: Table) -> tuple[tuple[str, ...], str]:
    """Return the texts that may state the unit of a table, nearest first, and the document's notes on all amounts."""
    text = document.text
    pages = [each for each in document.sections if each.start_char <= table.start and each.kind != "heading"]
    first = pages[-1].start_char if pages else 0
    above = text[max(first, table.start - _ABOVE) : table.start]
    top = text[first : min(first + _TOP, table.start)] if pages else ""
    headings, notes = _notes(text)
    heading = next((line for start, end, line in reversed(headings) if start <= table.start < end), "")
    return tuple(each.replace(_BETWEEN, "\n") for each in (above, top, heading)), notes.replace(_BETWEEN, "\n")


_BETWEEN: Final = "\f"
"""Separates the parts of ``around``, the nearest first."""
_ABOVE: Final = 400
"""Characters above a table that may state its unit. project default"""
_TOP: Final = 400
"""Characters at the top of a page that may state the unit of its tables. project default"""


@lru_cache(maxsize=16)
def _notes(text: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Return what a document says of the unit of many tables. Cached for the last few documents.

    These are the unit lines below headings such as "Notes to the financial statements", with the stretch that each
    holds for; and in one text, a line each, notes on all amounts and a number that shows the decimal separator.
    """
    headings = []
    for match in _HEADING.finditer(text):
        if stated(match["unit"]).scales:
            ended = _ITEM.search(text, match.end())
            headings.append((match.start(), len(text) if ended is None else ended.start(), match["unit"]))
    said: dict[str, None] = {}
    for anchor in _ANCHOR.finditer(text):
        near = " ".join(text[max(0, anchor.start() - _NOTE) : anchor.end() + _NOTE].split())
        said |= dict.fromkeys(
            told for each in _ALL_IN.finditer(near) if stated(told := each["said"] or each["said2"] or "")
        )
    numbers = Counter(mark for each in _NUMBER.findall(text[:_SAMPLED]) if (mark := proven_decimal(each)))
    if numbers and max(numbers.values()) > _CLEARLY * (numbers.total() - max(numbers.values())):
        said["1.5" if max(numbers, key=lambda mark: numbers[mark]) == "." else "1,5"] = None
    elif not numbers and (words := locale_words(detect(text[:_SAMPLED]))) is not None and words.decimal == ",":
        said["1,5"] = None
    if _is_unscaled(text) or {each.lower() for each in _NEAREST.findall(text)} in ({"dollar"}, {"euro"}, {"pound"}):
        said["in full"] = None
    if dollar := own_dollar(text):
        said[_DOLLAR_IS + dollar] = None
    return tuple(headings), "\n".join(said)


def _is_unscaled(text: str) -> bool:
    """Return whether a document states no scale anywhere and prints its amounts in full."""
    if len(_IN_FULL.findall(text)) < _PRINTED_IN_FULL:
        return False
    return not any(
        _MAY_SCALE.search(line) and any(each.scales for each in stated_in(line)) for line in text.split("\n")
    )


_NEAREST: Final = re.compile(
    r"\bnearest\s(?:(?:whole|Australian|Canadian|one|hundred)\s)?(dollar|euro|pound|thousand|million|ten|\S*000)",
    re.IGNORECASE,
)
"""A statement of the unit to which a document's amounts are rounded."""
_DOLLAR_IS: Final = "$ is "
"""Begins the note of what "$" means in a document."""
_IN_FULL: Final = re.compile(r"(?<![\d,.])\d{1,3}(?:[,.'\u2019\u00a0 ]\d{3}){2,}(?![\d])")
_PRINTED_IN_FULL: Final = 20
"""Numbers of seven digits or more of a document that prints its amounts in full. project default"""
_MAY_SCALE: Final = re.compile(
    r"(?i:thousand|million|billion|000s?\b|tausend|tsd|mio|mrd|mln|lakh|crore)|[a-z$\u20ac\u00a3]\s?[KkMm]\b|[TKM](?:EUR|SEK)"
)


_HEADING: Final = re.compile(
    r"^\W{0,3}notes\sto\s(?:the\s)?(?:\w+\s){0,3}statements\b[^\n]{0,60}(?:\n[^\n(]{0,60}){0,2}\n\W{0,3}(?P<unit>\([^()\n]{4,150}\))\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_ITEM: Final = re.compile(r"^\W*item\s+\d", re.IGNORECASE | re.MULTILINE)


_NOTE: Final = 160
"""Characters on each side of words that begin such a note. project default"""
_ANCHOR: Final = re.compile(
    r"otherwise\s(?:stated|noted|indicated|specified)|\ball\s(?:\w+\s){0,3}(?:amounts|figures|values)\b"
    r"|presentation\s+currency"
    r"|(?:presented|expressed|stated|reported)\s+in\s+(?:thousands|millions|\S+\s+dollars|euros?|US|EUR|GBP|CHF)\b",
    re.IGNORECASE,
)
_ALL_IN: Final = re.compile(
    r"\b(?:amounts?|figures|values|statements?|accounts|data|tables?|information)\b[^.;$\d]{0,120}?"
    r"\s(?P<said>in\s(?!addition|the\b)[^.;:]{2,50})|\b(?P<said2>presentation\scurrency\b[^.;]{1,60})",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?<![\d.,])\d[\d.,]*\d(?![\d.,])")
_SAMPLED: Final = 300_000
"""Characters of a document whose numbers are looked at. project default"""
_CLEARLY: Final = 20
"""A document's decimal separator is at least this many times as frequent as the other. project default"""


@dataclass(frozen=True, slots=True, eq=False)
class _Same(Generic[T]):
    """Something compared by identity: hashing all cells of a table for each of them would be slow."""

    thing: T

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


@lru_cache(maxsize=64)
def _reader(table: _Same[Table], around: str) -> _Reader:
    return _Reader(table.thing, around)


class _Reader:
    """Reads the cells of one table."""

    def __init__(self, table: Table, around: str) -> None:
        self._table, self._around = table, around
        self._percents: dict[int, Literal["percent", "?", ""]] = {}
        parts = around.split(_BETWEEN)
        cells = (cell.text for _, cell in table.values())
        self._separators = separators_of(cells, around)
        self._own = [stated(each) for each in (table.stub, table.unit, table.title)]
        self._far = _side_by_side([each for part in parts[:-1] or parts for each in reversed(stated_in(part))])
        notes = parts[-1].split("\n") if len(parts) > 1 else []
        self._dollar = next((each[len(_DOLLAR_IS) :] for each in notes if each.startswith(_DOLLAR_IS)), "")
        self._notes = [stated(each) for each in notes if not each.startswith(_DOLLAR_IS)]
        self._proofs: dict[tuple[int, int], bool] = {}

    def value(self, row: TableRow, cell: TableCell) -> TypedValue | None:
        number = printed(cell.text, self._separators)
        if number is None or (number.year and self._separators.groups) or self._is_reference(cell):
            return None
        unit = self._unit(row, cell, number)
        full = number.digits * SCALES[unit.scale]
        counts = {"percent": "%", "shares": "shares"}.get(unit.kind, number.unit if unit.kind == "count" else "")
        return TypedValue(plain(full), float(full), counts, unit.scale, unit.currency)

    def _is_reference(self, cell: TableCell) -> bool:
        """Return whether a cell has the number of a note."""
        return NOTE_HEAD.fullmatch(self._table.head(cell.column)[:_LONGEST]) is not None

    def amounts(self) -> Iterator[tuple[Decimal, Unit]]:
        """Yield the amounts of four digits or more, as printed without their sign, with their units."""
        for row, cell in self._table.values():
            number = printed(cell.text, self._separators)
            if number is None or number.scale or number.year or len(_significant(number.digits)) < _TELLING:
                continue
            unit = self._unit(row, cell, number)
            if unit.kind in ("money", ""):
                yield abs(number.digits), unit

    def unit(self, row: TableRow, cell: TableCell) -> Unit:
        number = printed(cell.text, self._separators)
        return self._unit(row, cell, number or Printed(Decimal(0)))

    def _unit(self, row: TableRow, cell: TableCell, number: Printed) -> Unit:
        kind = self._kind(row, cell, number)
        if kind == "percent":
            return Unit("", "", "percent")
        near = [stated(each) for each in self._near(row, cell)]
        if kind == "count":
            scale = number.scale or self._scale_of_count(row, near, self._near(row, cell))
            return Unit(scale, "", "count", scale != UNKNOWN)
        if kind == "shares":
            scale = self._scale_of_shares(row, number, near)
        elif kind == "per unit":
            scale = self._scale_per_unit(number, near)
        else:
            scale = self._scale(cell, number, near)
            scale = UNKNOWN if kind == "?" and scale else scale
        currency = "" if kind == "shares" else self._currency(number, near)
        return Unit(scale, currency, "" if kind == "?" else kind, scale != UNKNOWN)

    def _near(self, row: TableRow, cell: TableCell) -> list[str]:
        """Return the texts that a cell belongs to, nearest first: its label, heads and sections."""
        heads = self._table.heads[cell.column] if cell.column < len(self._table.heads) else ()
        return [each[:_LONGEST] for each in (row.label, *reversed(heads), *reversed(row.sections))]

    # ---- Kinds.

    def _kind(self, row: TableRow, cell: TableCell, number: Printed) -> Kind | Literal["?"]:
        """Return what a cell counts; "" for an amount that is mostly money, "?" for one that may be something else."""
        if number.unit == "%":
            return "percent"
        if number.unit:
            shares = number.unit.lower() in ("share", "shares")
            return "shares" if shares else "count" if MEASURE.fullmatch(number.unit) else "?"
        label, *above = self._near(row, cell)
        heads, sections = " | ".join(above[: len(above) - len(row.sections)]), " | ".join(row.sections)
        large = number.grouped or abs(number.digits) >= _LARGE
        money = bool(number.currency or number.scale)
        if _has(PERCENT, heads):
            return "?" if money or large else "percent"
        if _has(PERCENT, label):
            return "money" if money else "?" if large else "percent"
        if not money and not large and _has(RATE_HEAD, heads):
            return "percent"
        if not money and not large and (percents := self._percents_of(cell.column)):
            return percents
        if not money and self._are_percents:
            return "?" if large else "percent"
        if not money and (kind := self._counted_by_head(cell.column, label, above, number)):
            return kind
        if not money and above and _is_change(above[0]) and (changed := self._change(row, cell, number)):
            return changed
        for place in (label, heads):
            if not money and _has(SHARE_COUNT, without := PER_UNIT.sub(" ", place)) and not _has(STOCK, without):
                return "shares"
            if number.cents or _has(PER_UNIT, AMOUNT_EACH.sub(" ", place[:_LONGEST]) if place is label else place):
                return "?" if place is heads and large and not number.places else "per unit"
            if not money and (kind := _counted(place, self._table.title + sections)):
                return kind
        if _has(PER_UNIT, sections) and not (large and not number.places):
            return "?" if _has(EARNINGS, label) else "per unit"
        if not money and not _has(NO_SHARES, label) and (kind := _counted(sections, "")):
            return kind
        amount = _has(NO_SHARES, label) or _has(NO_SHARES, heads)
        if not money and (_has(COUNT, sections) or (not amount and _has(NUMBER_OF, self._table.title))):
            return "?" if amount else "count"
        if _has(PERCENT, sections) and not money:
            return "?" if large else "percent"
        if _has(MAYBE_PERCENT, label) and not money and not large:
            return "percent" if _has(IS_PERCENT, label) and not _has(NO_PERCENT, label) else "?"
        if _has(MAYBE_PER_UNIT, AMOUNT_EACH.sub(" ", label)) and not large and not number.scale:
            return "?"
        excepted = any(each.shares is not None for each in self._own)
        for place in (label, heads, sections) if not money else ():
            instruments = _has(INSTRUMENTS, place) or (excepted and _has(SOME_SHARES, place))
            if instruments and not _has(NO_SHARES, place) and not (place is sections and _has(NO_SHARES, label)):
                return "?"
        return "money" if number.currency else ""

    @cached_property
    def _are_percents(self) -> bool:
        """True if the table's unit is percent: "(%)", "in %", "percent of sales"."""
        return any(
            _has(PERCENT, place) and not (told.scales or told.currencies or told.excepted)
            for place, told in zip((self._table.stub, self._table.unit), self._own, strict=False)
        )

    def _counted_by_head(self, column: int, label: str, above: list[str], number: Printed) -> Kind | Literal["?"]:
        """Return "count" for cells below "Tenants" beside "Rent", for terms in years, and for "Orders per customer"."""
        head = above[0] if above else ""
        if _has(EACH, label) or (number.year and _has(YEAR_HEAD, head)):
            return "count"
        if not number.grouped and abs(number.digits) < _LARGE and (_has(TERM, head) or _has(TERM, label)):
            return "count"
        if (noun := NOUN.fullmatch(head)) is None:
            return ""
        beside = (self._table.head(place) for place in range(len(self._table.heads)) if place != column)
        if not any(_has(AMOUNT_HEAD, each) for each in beside):
            return ""
        return "?" if noun["both"] else "count"

    def _percents_of(self, column: int) -> Literal["percent", "?", ""]:
        """Return "?" for a column that may be percentages whose sign only some cells have, "percent" if its ends do.

        A percentage in a row such as "Growth" says nothing of the others, unless these are all small and have decimals.
        """
        if column not in self._percents:
            found = [
                (row.label, number)
                for row, cell in self._table.values()
                if cell.column == column and (number := printed(cell.text, self._separators)) is not None
            ]
            marked = [label for label, number in found if number.unit == "%"]
            others = [number for _, number in found if number.unit != "%"]
            small = not any(each.grouped or abs(each.digits) >= _LARGE or each.currency for each in others)
            own = all(_has(PERCENT, label) or _has(MAYBE_PERCENT, label) for label in marked)
            decimals = all(each.places and abs(each.digits) <= _WHOLE for each in others)
            ends = len(found) > 1 and all(number.unit == "%" for _, number in (found[0], found[-1]))
            may_be = bool(marked) and small and (not own or decimals)
            self._percents[column] = ("percent" if ends and decimals else "?") if may_be else ""
        return self._percents[column]

    def _change(self, row: TableRow, cell: TableCell, number: Printed) -> Kind | Literal["?"]:
        """Return whether a change is in percent or an amount, by the row's other cells; "" for an amount."""
        others = [
            each.digits
            for other in row.cells
            if other.column != cell.column and (each := printed(other.text, self._separators)) and each.unit != "%"
        ]
        half = Decimal(5).scaleb(-number.places - 1) + Decimal("0.000001")
        amount = percent = False
        for one, two in permutations(others[:_MOST], 2):
            amount = amount or abs(abs(number.digits) - abs(one - two)) <= half
            percent = percent or (two != 0 and abs(abs(number.digits) - abs((one - two) / two * 100)) <= half)
        if amount != percent:
            return "percent" if percent else ""
        return "" if number.grouped or abs(number.digits) >= _LARGE else "?"

    # ---- Scales.

    def _scale(self, cell: TableCell, number: Printed, near: list[Stated]) -> str:
        if number.scale:
            return number.scale
        currency, plain_dollar = number.currency, number.plain_dollar
        if not currency:
            units = (each for each in near if each.only_currency or each.in_full or each.ends_in_currency)
            named_here = next((each for each in units if len(each.currencies) == 1), Stated())
            currency, plain_dollar = "".join(named_here.currencies), named_here.plain_dollar
        told = self._told(near, currency, plain_dollar)
        if told is None and len(self._units_of_heads) > 1 and not currency:
            return UNKNOWN
        told = self._told(self._own, currency, plain_dollar) if told is None else told
        if told is not None:
            return told
        far = self._told(self._far, currency, plain_dollar)
        if any(each.in_full for each in self._own):
            return "" if far is None or self._is_in_full(cell.column, _DIGITS_BESIDE) else UNKNOWN
        if far is not None:
            return far
        if any(each.in_full for each in self._far):
            return ""
        noted = {each.scale or UNKNOWN for each in self._notes if each.scales}
        bare = any(each.in_full or each.ends_in_currency for each in near[1:])
        if noted:
            return noted.pop() if len(noted) == 1 and not bare and self.is_financial else UNKNOWN
        if bare or any(each.in_full and not each.currencies for each in self._notes) or _is_in_full(number):
            return ""
        if any(each.only_currency for each in [*near, *self._own]) and self._is_in_full(cell.column, _DIGITS_IN_FULL):
            return ""
        return UNKNOWN

    @cached_property
    def _units_of_heads(self) -> set[tuple[str, str]]:
        """The scales, with their currencies, that the heads of the columns state."""
        return {scale for levels in self._table.heads for each in levels for scale in stated(each[:_LONGEST]).scales}

    def _is_in_full(self, column: int, digits: int) -> bool:
        """Return whether an amount of a column has too many digits, or six and two decimals, to be in thousands."""
        if (column, digits) not in self._proofs:
            self._proofs[column, digits] = any(
                len(str(abs(int(number.digits)))) >= (_DIGITS_WITH_CENTS if number.places == 2 else digits)
                and self._kind(row, cell, number) in ("money", "")
                for row, cell in self._table.values()
                if cell.column == column and (number := printed(cell.text, self._separators)) is not None
            )
        return self._proofs[column, digits]

    @cached_property
    def is_financial(self) -> bool:
        """True if a note on all amounts applies to the table: it belongs to the statements and counts no shares."""
        top = self._around.split(_BETWEEN)[1:2]
        if not any(STATEMENTS.search(each[:_HEAD_OF_PAGE]) for each in [self._table.title, *top]):
            return False
        texts = [*(" ".join(each) for each in self._table.heads), *(row.label for row in self._table.rows)]
        return not any(_has(INSTRUMENTS, each) or _has(SOME_SHARES, each) for each in texts)

    @staticmethod
    def _told(places: list[Stated], currency: str, plain_dollar: bool) -> str | None:
        """Return the scale of the nearest statement with one, None if there is none.

        It is "unknown" if the statement names several, or is of another currency than that of the cell.
        """
        for each in places:
            if not each.scales:
                continue
            codes = {code for _, code in each.scales}
            if currency and "" not in codes:
                any_dollar = currency in DOLLARS and (plain_dollar or each.plain_dollar)
                same = {scale for scale, code in each.scales if code == currency}
                same = same or {scale for scale, code in each.scales if any_dollar and code in DOLLARS}
                return same.pop() if len(same) == 1 else UNKNOWN
            return each.scale if each.scale and (len(codes) == 1 or not each.of_money) else UNKNOWN
        return None

    def _scale_of_shares(self, row: TableRow, number: Printed, near: list[Stated]) -> str:
        """Return the scale of a count of shares; "(in thousands)" at the table may speak of money only."""
        if number.scale:
            return number.scale
        in_full = "" if _is_in_full(number) else UNKNOWN
        of_row = _has(SHARE_COUNT, " | ".join((row.label, *row.sections)))
        for place, each in enumerate([*near, *self._own, *self._far]):
            if each.shares is not None:
                return each.shares
            if each.scale and not each.of_money and place < len(near):
                return each.scale
            if each.scale and (("per" in each.excepted) or (of_row and not each.of_money)):
                return each.scale if abs(number.digits) * SCALES[each.scale] < _MOST_SHARES else in_full
            if each.scales:
                return in_full
        return in_full

    def _scale_of_count(self, row: TableRow, near: list[Stated], texts: list[str]) -> str:
        own = next((each.scale for each in near if each.scale and not each.of_money), "")
        if own or not any(each.scale and not each.of_money for each in self._own):
            return own
        if any(_has(NEVER_SCALED, each) for each in texts):
            return own
        excepted = set(" ".join(each.excepted for each in self._own).replace(",", " ").split()) - {
            "of",
            "number",
            "and",
        }
        return "" if excepted & set(row.label.lower().split()) else UNKNOWN

    def _scale_per_unit(self, number: Printed, near: list[Stated]) -> str:
        if number.scale:
            return number.scale
        if number.cents or any(each.cents for each in [*near, *self._own[:2]]):
            return "cent"
        for each in near:
            if each.scale:
                return each.scale
        return ""

    # ---- Currencies.

    def _currency(self, number: Printed, near: list[Stated]) -> str:
        """Return the currency that is named nearest: in the cell, its table, other cells, around it.

        "$" means the dollar that the texts at the table name, or else the document's own, or else USD.
        """
        own = next((each for each in [*near, *self._own] if each.currencies), None)
        if number.currency:
            codes, plain_dollar = [number.currency], number.plain_dollar
        elif own is not None:
            codes, plain_dollar = list(own.currencies), own.plain_dollar
        elif self._signs:
            codes, plain_dollar = list({code for code, _ in self._signs}), any(plain for _, plain in self._signs)
            if len(self._signs) > len(codes) and self._dollar not in ("", "USD"):
                return ""  # some cells have "US$", some "$"
        else:
            far = next((each for each in [*self._far, *self._notes] if each.currencies), Stated())
            codes, plain_dollar = list(far.currencies), far.plain_dollar
        if len(codes) != 1:
            return ""
        if codes == ["USD"] and plain_dollar:
            for each in [*near, *self._own, *self._far, *(() if self._dollar else self._notes)]:
                exact = [code for code in each.currencies if code in (DOLLARS[1:] if each.plain_dollar else DOLLARS)]
                if exact:
                    return exact[0] if len(exact) == 1 else ""
            if self._dollar:
                return "" if self._dollar == UNKNOWN else self._dollar
            return next(iter(self._dollars)) if len(self._dollars) == 1 else "USD"
        return codes[0]

    @cached_property
    def _dollars(self) -> frozenset[str]:
        """The dollars other than USD that are named around the table."""
        return frozenset(code for code in currencies_in(self._around) if code in DOLLARS[1:])

    @cached_property
    def _signs(self) -> set[tuple[str, bool]]:
        """The currencies that cells of the table have, and whether they are "$" alone."""
        found = (printed(cell.text, self._separators) for _, cell in self._table.values())
        return {(each.currency, each.plain_dollar) for each in found if each is not None and each.currency}


_TELLING: Final = 4
"""Digits, without zeros at the end, of figures that are searched in other tables. project default"""
_WHOLE: Final = 100
_MOST_SHARES: Final = 20_000_000_000
"""Shares from here on show that the table prints them in full. project default"""
_LARGE: Final = 1000
"""Numbers from here on are not taken for percentages or amounts per share. project default"""
_MOST: Final = 8
"""Cells of a row that a change is compared with. project default"""


def _side_by_side(far: list[Stated]) -> list[Stated]:
    """Join the two nearest scales around a table if they are in different currencies: they are of different columns."""
    one, two = ([each for each in far if each.scales] + [Stated(), Stated()])[:2]
    if not (one.of_money and two.of_money) or set(one.currencies) & set(two.currencies):
        return far
    if one.plain_dollar or two.plain_dollar:
        return far
    currencies = tuple(dict.fromkeys(one.currencies + two.currencies))
    return [Stated(one.scales + two.scales, currencies, of_money=True), *far]


def _significant(number: Decimal) -> str:
    return f"{abs(number):f}".replace(".", "").strip("0")


def _is_in_full(number: Printed) -> bool:
    """Return whether a number has too many digits to be in thousands or millions."""
    return len(str(abs(int(number.digits)))) >= _DIGITS_IN_FULL


_DIGITS_IN_FULL: Final = 9  # project default
_DIGITS_BESIDE: Final = 7
"""Digits of an amount that is in units if its table says so, though another scale is stated near it. project default"""
_DIGITS_WITH_CENTS: Final = 6
"""Digits before two decimals of an amount that is in units. project default"""


_LONGEST: Final = 400
"""Characters of a label or head that are read: files may be built to make searches slow. project default"""


@lru_cache(maxsize=32768)
def _has(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a label or head matches; cached, because each is looked at for each of its cells."""
    return pattern.search(text[:_LONGEST]) is not None


def _is_change(head: str) -> bool:
    """Return whether a head says only that its column has changes: "Change 2023 vs 2022"."""
    words = set(re.findall(r"[^\W\d_]+", head.casefold()))
    return bool(words & _CHANGES or "\u0394" in head or "+/-" in head) and words <= _CHANGES | _IN_CHANGES


_CHANGES: Final = frozenset(
    re.findall(
        r"\w+",
        "change changes variance variation growth yoy increase decrease delta var ver\u00e4nderung abweichung"
        " \u00e9volution variaci\u00f3n vs versus diff difference",
    )
)
_IN_CHANGES: Final = frozenset(
    re.findall(
        r"\w+",
        "over from to in of the and or prior previous last current year years period quarter fy q h on y o b w fav"
        " unfav favorable unfavorable better worse annual december june march september ended",
    )
)


def _counted(text: str, around: str) -> Kind:
    """Return "shares" or "count" if a label or head says so, else ""."""
    if _has(SHARE_COUNT, text) and not _has(STOCK, text):
        return "shares"
    if _has(COUNT, text):
        return "count"
    people = _has(STAFF, text)
    return "count" if people and not _has(NO_SHARES, text) and not _has(OWED, around) else ""


_HEAD_OF_PAGE: Final = 150  # project default
