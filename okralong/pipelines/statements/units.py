"""Read the value of a table cell with its scale, currency and kind.

Tables state these once for many cells: in the row's label, the column's heads, a heading within the table, the unit
line ("(in thousands, except per share data)"), the title, or a note that holds for the whole document. The nearest
statement applies. Percentages, ratios, counts and amounts per share do not inherit the scale of money. An amount whose
scale is stated nowhere has the scale "unknown": it must never be taken for units.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Final, Literal

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, TypedValue
from okralong.pipelines.statements.amounts import SCALES, UNKNOWN, plain
from okralong.pipelines.statements.cell_numbers import Printed, printed, separators_of
from okralong.pipelines.statements.unit_lines import Stated, stated, stated_in

Kind = Literal["money", "percent", "per unit", "shares", "count", ""]
"""What a cell counts. "per unit" is money per share, tonne or day; "" is unknown, mostly money."""


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
    """Return the text outside a table that may state its unit: above it, at the top of its page, in notes."""
    text = document.text
    pages = [each for each in document.sections if each.start_char <= table.start and each.kind != "heading"]
    first = pages[-1].start_char if pages else 0
    above = text[max(first, table.start - _ABOVE) : table.start]
    top = text[first : min(first + _TOP, table.start)] if pages else ""
    return _BETWEEN.join(each.replace(_BETWEEN, "\n") for each in (above, top, _notes(text)))


_BETWEEN: Final = "\f"
"""Separates the parts of ``around``, the nearest first."""
_ABOVE: Final = 400
"""Characters above a table that may state its unit. project default"""
_TOP: Final = 400
"""Characters at the top of a page that may state the unit of its tables. project default"""


@lru_cache(maxsize=16)
def _notes(text: str) -> str:
    """Return the sentences of a document that state the unit of all its amounts, and a number that shows its decimals.

    Cached for the last few documents.
    """
    found = dict.fromkeys(
        " ".join(text[max(0, match.start() - _NOTE) : match.end() + _NOTE].split()) for match in _ANCHOR.finditer(text)
    )
    said: list[str] = []
    for each in found:
        said += [sentence for sentence in _SENTENCE.split(each) if _ALL.search(sentence) and stated(sentence)]
    return "\n".join(dict.fromkeys(said))


_NOTE: Final = 200
_ANCHOR: Final = re.compile(
    r"otherwise\s(?:stated|noted|indicated|specified)|\ball\s(?:\w+\s){0,3}(?:amounts|figures|values)\b"
    r"|nearest\s(?:thousand|million|\S{0,4}000)|presentation\scurrency|(?:presented|expressed|stated|reported)\sin\s",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"(?<=[a-z)\d]{2}[.;])\s+(?=[A-Z(])")
_ALL: Final = re.compile(
    r"\b(?:amounts|figures|values|information|tables|statements|accounts|data|rounded)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A table compared by identity: hashing all its cells for each of them would be slow."""

    table: Table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.table is self.table

    def __hash__(self) -> int:
        return id(self.table)


@lru_cache(maxsize=32)
def _reader(same: _Same, around: str) -> _Reader:
    return _Reader(same.table, around)


class _Reader:
    """Reads the cells of one table."""

    def __init__(self, table: Table, around: str) -> None:
        self._table = table
        parts = around.split(_BETWEEN)
        cells = (cell.text for _, cell in table.values())
        self._separators = separators_of(cells, around)
        self._own = [stated(each) for each in (table.stub, table.unit, table.title)]
        self._far = [each for part in parts[:-1] or parts for each in reversed(stated_in(part))]
        self._notes = [stated(each) for each in parts[-1].split("\n")] if len(parts) > 1 else []

    def value(self, row: TableRow, cell: TableCell) -> TypedValue | None:
        number = printed(cell.text, self._separators)
        if number is None or (number.year and self._separators.groups):
            return None
        unit = self._unit(row, cell, number)
        full = number.digits * SCALES[unit.scale]
        counts = {"percent": "%", "shares": "shares"}.get(unit.kind, number.unit if unit.kind == "count" else "")
        return TypedValue(plain(full), float(full), counts, unit.scale, unit.currency)

    def unit(self, row: TableRow, cell: TableCell) -> Unit:
        number = printed(cell.text, self._separators)
        return self._unit(row, cell, number or Printed(Decimal(0)))

    def _unit(self, row: TableRow, cell: TableCell, number: Printed) -> Unit:
        kind = self._kind(row, cell, number)
        if kind == "percent":
            return Unit("", "", "percent")
        near = [stated(each) for each in self._near(row, cell)]
        if kind == "count":
            own = number.scale or next((each.scale for each in near if each.scale and not each.of_money), "")
            return Unit(own, "", "count")
        if kind == "shares":
            scale = self._scale_of_shares(number, near)
        elif kind == "per unit":
            scale = self._scale_per_unit(number, near)
        else:
            scale = UNKNOWN if kind == "?" else self._scale(number, near)
        currency = "" if kind == "shares" else self._currency(number, near)
        return Unit(scale, currency, "" if kind == "?" else kind, scale != UNKNOWN)

    def _near(self, row: TableRow, cell: TableCell) -> list[str]:
        """Return the texts that a cell belongs to, nearest first: its label, heads and sections."""
        heads = self._table.heads[cell.column] if cell.column < len(self._table.heads) else ()
        return [row.label, *reversed(heads), *reversed(row.sections)]

    # ---- Kinds.

    def _kind(self, row: TableRow, cell: TableCell, number: Printed) -> Kind | Literal["?"]:
        """Return what a cell counts; "" for an amount that is mostly money, "?" if it may be a percentage."""
        label = row.label
        heads = " | ".join(self._table.heads[cell.column]) if cell.column < len(self._table.heads) else ""
        sections = " | ".join(row.sections)
        if number.unit == "%":
            return "percent"
        if number.unit:
            return "count"
        large = number.grouped or abs(number.digits) >= _LARGE
        money = bool(number.currency or number.scale)
        if _PERCENT.search(heads):
            return "?" if money or large else "percent"
        if _PERCENT.search(label):
            return "money" if money else "?" if large else "percent"
        if _CHANGE.search(heads) and not money:
            changed = self._change(row, cell, number)
            if changed != "":
                return changed
        for place in (label, heads, sections):
            if _PER_UNIT.search(place) and not (place is sections and large and not number.places):
                return "per unit"
            if number.cents:
                return "per unit"
            if _NO_SHARES.search(place):
                continue
            if _SHARES.search(place) and not money:
                return "shares"
            if _COUNT.search(place) and not money:
                return "count"
        if _PERCENT.search(sections) and not money:
            return "?" if large else "percent"
        if _MAYBE_PERCENT.search(label) and not money and not large:
            return "percent" if _IS_PERCENT.search(label) and not _NO_PERCENT.search(label) else "?"
        if _MAYBE_PER_UNIT.search(label) and not large and not number.scale:
            return "?"
        return "money" if number.currency else ""

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

    def _scale(self, number: Printed, near: list[Stated]) -> str:
        if number.scale:
            return number.scale
        told = self._told([*near, *self._own], number.currency)
        if told is not None:
            return told
        far = self._told(self._far, number.currency)
        named = any(each.in_full for each in self._own)
        if named and far is None:
            return ""
        if named:
            return UNKNOWN
        if far is not None:
            return far
        if any(each.in_full for each in self._far):
            return ""
        noted = {each.scale or UNKNOWN for each in self._notes if each.scales}
        bare = any(each.in_full for each in near)
        if noted:
            return noted.pop() if len(noted) == 1 and not bare else UNKNOWN
        if bare or any(each.in_full for each in self._notes) or _is_in_full(number):
            return ""
        return UNKNOWN

    @staticmethod
    def _told(places: list[Stated], currency: str) -> str | None:
        """Return the scale of the nearest statement with one, "unknown" if it names several, None if there is none."""
        for each in places:
            if each.scales:
                own = {scale for scale, code in each.scales if code == currency} if currency else set()
                return own.pop() if len(own) == 1 else each.scale or UNKNOWN
        return None

    def _scale_of_shares(self, number: Printed, near: list[Stated]) -> str:
        if number.scale:
            return number.scale
        places = [*near, *self._own, *self._far]
        for each in places:
            if each.shares is not None:
                return each.shares
            if each.scale and (not each.of_money or "per" in each.excepted):
                return each.scale
            if each.scales:
                return "" if _is_in_full(number) else UNKNOWN
        return "" if _is_in_full(number) else UNKNOWN

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
        """Return the currency that is named nearest; a "$" is the dollar that the rest of the text names, or USD."""
        places = [*near, *self._own, *self._far, *self._notes]
        if number.currency and number.currency != "USD":
            return number.currency
        first: Stated | None = None
        for each in places:
            if each.currencies:
                first = each
                break
        signs = self._signs
        if number.currency:
            plain_dollar = True
        elif first is not None and first not in (*self._far, *self._notes):
            if len(first.currencies) > 1:
                return ""
            if first.currencies[0] != "USD" or not first.plain_dollar:
                return first.currencies[0]
            plain_dollar = True
        elif len(signs) == 1:
            only = next(iter(signs))
            if only != "USD":
                return only
            plain_dollar = True
        elif signs or first is None or len(first.currencies) > 1:
            return ""
        else:
            if first.currencies[0] != "USD" or not first.plain_dollar:
                return first.currencies[0]
            plain_dollar = True
        if plain_dollar:
            for each in places:
                exact = [
                    code for code in each.currencies if code in _DOLLARS and not (code == "USD" and each.plain_dollar)
                ]
                if exact:
                    return exact[0] if len(exact) == 1 else ""
        return "USD"

    @cached_property
    def _signs(self) -> set[str]:
        """The currencies that cells of the table have."""
        found = (printed(cell.text, self._separators) for _, cell in self._table.values())
        return {each.currency for each in found if each is not None and each.currency}


_LARGE: Final = 1000
"""Numbers from here on are not taken for percentages or amounts per share. project default"""
_MOST: Final = 8
"""Cells of a row that a change is compared with. project default"""
_DOLLARS: Final = frozenset(["USD", "CAD", "AUD", "NZD", "HKD", "SGD", "TWD"])


def _is_in_full(number: Printed) -> bool:
    """Return whether a number has so many digits that it is in units."""
    return len(str(abs(int(number.digits)))) >= _DIGITS_IN_FULL


_DIGITS_IN_FULL: Final = 9  # project default

_PERCENT: Final = re.compile(
    r"%|\bper\s?cent(?:age)?s?\b|\bpct\b|\bin\sprozent\b|\bpourcentage\b|\bporcentaje\b|\bbasis\spoints\b|\bbps\b",
    re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"\b(?:change|variance|variation|growth|yoy|y-o-y|increase|decrease|delta|vs\.?|ver\u00e4nderung|abweichung"
    r"|\u00e9volution|variaci\u00f3n|var\.?)(?!\w)|\u0394|\+/-",
    re.IGNORECASE,
)
_PER_UNIT: Final = re.compile(
    r"\b(?:per|je|par|por)[\s-](?!cent\b|annum\b|year\b|cents?\b)(?:[\w-]+\s){0,3}?"
    r"(?:shares?|units?|ads|adr|stock|aktie|action|acci\u00f3n|tonnes?|tons?|barrels?|boe|bbl|ounces?|oz|mwh|kwh|day|month"
    r"|employees?|customers?|users?|subscribers?|m2|sqm|sq\.?\s?ft|square|kg|lb|pound|gallon|litre|liter|passenger|asm|room"
    r"|night|vehicle|store|mcf|mmbtu)\b"
    r"|\b(?:d?eps|dps|navps|arpu|adr|revpar)\b|/\s?(?:share|oz|t|boe|bbl|mwh)\b|\bcents\b|\bpence\b"
    r"|\b(?:exercise|strike|share|stock|closing|market|offer|average|issue|subscription|conversion)\sprices?\b"
    r"|\bgrant[\s-]date\sfair\svalue\b|\bergebnis\sje\b|\bprice\s(?:high|low)\b",
    re.IGNORECASE,
)
_MAYBE_PER_UNIT: Final = re.compile(r"^\W*(?:(?:basic|diluted|and)\W*)+$|\bprices?\b|\bpar\svalue\b", re.IGNORECASE)
_NO_SHARES: Final = re.compile(
    r"\b(?:repurchases?|purchases?|repurchased|issuances?|issue|proceeds|acquisitions?|sales?|buy-?backs?|dividends?|costs?"
    r"|cancellation|treasury|redemption|par\svalue|premium|capital|payments?|profit|income|loss|earnings|equity|reserve"
    r"|benefits?|compensation|expenses?|salaries|wages|pay|payable|loans?|remuneration|taxes|value|amount|due)\b",
    re.IGNORECASE,
)
"""Words of labels that name money, though they also name shares or employees."""
_SHARES: Final = re.compile(
    r"\b(?:weighted|average|number\sof|no\.\sof|diluted|basic|outstanding|total|ordinary|common|used|denominator)\b[^|]*?"
    r"\b(?:shares|aktien|actions|adss?)\b|\bshares\b[^|]*\b(?:outstanding|in\sissue|issued|used|authori[sz]ed)\b"
    r"|(?:^|\|)\W*(?:number\sof\s)?shares\W*(?:\||$)|\bshares\s\(|\bshare\scount\b",
    re.IGNORECASE,
)
_COUNT: Final = re.compile(
    r"\b(?:number|no\.|#)\sof\b|\(#\)|\bemployees\b|\bheadcount\b|\bftes?\b|\bworkforce\b|\bpersonnel\snumbers?\b"
    r"|\bdays\b|\(years\)|\bin\syears\b|\b(?:useful\s)?lives\b|\(months\)|\bratio\b|\(x\)|\btimes\b|\bmultiple\b"
    r"|\bstores\b|\brestaurants\b|\bbranches\b|\bhotels\b|\baircraft\b|\bmitarbeiter(?:zahl)?\b|\beffectifs?\b"
    r"|\bcountries\b|\bsites\b|\((?:mwh|gwh|twh|kwh|mw|gw|tonnes|tons|kt|mt|koz|oz|boe|bbl|km|km2|m2|sqm|units|number|count)\)",
    re.IGNORECASE,
)
_MAYBE_PERCENT: Final = re.compile(
    r"\brates?\W*(?:\([^)]*\))?\W*$|\bmargins?\b|\byields?\b|\breturn\son\b|\bro[eai]\b|\broce\b|\bpayout\b|\bgrowth\b"
    r"|\bquote\b|\bmarge\b|\bcet\s?1\b|\btier\s1\b|\boccupancy\b|\bgearing\b",
    re.IGNORECASE,
)
_IS_PERCENT: Final = re.compile(
    r"\b(?:tax|interest|discount|churn|occupancy|vacancy|unemployment|growth|inflation|coupon)\srates?\b"
    r"|\breturn\son\b|\bro[ei]\b|\broce\b|\bpayout\sratio\b|\b(?:dividend|yield)\b|\bmargin\b",
    re.IGNORECASE,
)
_NO_PERCENT: Final = re.compile(r"\b(?:at|effect|impact|changes?|differences?|due|gross)\b|\bmargin\b", re.IGNORECASE)
