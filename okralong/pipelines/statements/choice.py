"""Choose the cell of a document's tables that a question for one amount asks for.

A cell fits if its row names the measure, its column the time, and row, column, section and title name no other owner:
a segment, a product, the parent company. Plans, changes, percentages and superseded figures are not actual amounts.
Statements outrank other tables. Where cells fit equally and their values differ, none is chosen. Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue
from okralong.pipelines.statements.amounts import SCALES, UNKNOWN, amounts
from okralong.pipelines.statements.asked import MARKS, MEASURES, Asked, asked_of
from okralong.pipelines.statements.labels import Words, core, label_forms, words_of
from okralong.pipelines.statements.line_items import items_of_label, line_items, with_substitutes
from okralong.pipelines.statements.periods import Span
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.times import Time, fits, latest, time_stated, without_times
from okralong.pipelines.statements.units import around_of, cell_value, unit_of


@dataclass(frozen=True, slots=True)
class Choice:
    """The cell that a question asks for. ``value`` has its scale, currency and period; ``time`` is its column's."""

    table: Table
    row: TableRow
    cell: TableCell
    time: Time
    value: TypedValue


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Cells with different values that fit a question equally."""

    cells: tuple[Choice, ...]

    @property
    def reason(self) -> str:
        """Why there is no value, with the places of the cells."""
        places = "; ".join(_place(each) for each in self.cells[:_LISTED])
        more = f"; and {len(self.cells) - _LISTED} more" if len(self.cells) > _LISTED else ""
        return (
            f"ambiguous: {len(self.cells)} cells fit the question equally: {places}{more}. Name the period, segment or "
            "table in the question."
        )


_LISTED: Final = 4


def _place(chosen: Choice) -> str:
    heads = chosen.table.head(chosen.cell.column)
    where = [chosen.table.title, f"page {chosen.table.page}" if chosen.table.page else ""]
    named = ", ".join(each for each in where if each)
    below = " / ".join((*chosen.row.sections, chosen.row.label))
    return f'{chosen.cell.text} ("{below}", "{heads}"{f", {named}" if named else ""})'


def choose(question: str, kind: str, document: Document, within: Sequence[Span] = ()) -> Choice | Ambiguous | None:
    """Return the cell that a question asks for, the cells that fit equally, or None if no cell fits.

    Args:
        question: The question, which should not name the document.
        kind: The wanted answer type: "money", "number" or "percent".
        document: The document.
        within: Spans of the document's text. If given, only rows there are used, and a label may have more words than
            the question asks for.
    """
    asked = asked_of(question, kind, own_names(document))
    if asked is None:
        return None
    found = _chosen(asked, document, within)
    for other in with_substitutes(asked.item)[1:] if asked.item is not None and found is None else ():
        found = found or _chosen(asked.instead(other), document, within)
    return found


def _chosen(asked: Asked, document: Document, within: Sequence[Span]) -> Choice | Ambiguous | None:
    report = _report_of(_Same(tables_of(document)), document.text)
    found = [each for part in report.parts for each in _candidates(asked, part, report, within)]
    if asked.item is not None and asked.item.kind == "money" and not asked.owner and not within:
        # A note without the group's name may be of an associate; the statement itself does not have the item.
        known = asked.item.statement in report.own_years
        found = [each for each in found if not known or each.part.statement or each.part.is_summary]
    filled = [each for each in found if each.cell is not None]
    for rank in sorted({each.rank for each in filled}, reverse=True):
        read = [_read(asked, each, document) for each in filled if each.rank == rank]
        values = [each for each in read if each is not None]
        if values:
            return _agreed(values)
    return None


def _agreed(values: Sequence[Choice]) -> Choice | Ambiguous:
    """Return the first of the cells, or all if any has another value."""
    first = next((each for each in values if each.value.scale != UNKNOWN), values[0])
    other = [each for each in values if not _alike(each, first)]
    distinct = [first]
    for each in other:
        if not any(_alike(each, known) for known in distinct):
            distinct.append(each)
    return first if not other else Ambiguous(tuple(distinct))


def _alike(one: Choice, other: Choice) -> bool:
    """Return whether two cells may mean the same amount: a loss with or without brackets, rounded, or without scale."""
    first, second = one.value, other.value
    if first.number is None or second.number is None:
        return first.value == second.value
    if first.unit != second.unit or (first.currency and second.currency and first.currency != second.currency):
        return False
    scaled = UNKNOWN not in (first.scale, second.scale)
    numbers, steps = [], []
    for each, chosen in ((first, one), (second, other)):
        factor = float(SCALES.get(each.scale, Decimal(1)))
        numbers.append(abs(each.number or 0.0) / (1.0 if scaled else factor))
        places = max((found.places for found in amounts(chosen.cell.text)), default=0)
        steps.append(10.0**-places * (factor if scaled else 1.0))
    rounded = 0.0 if math.isclose(*steps) else max(steps) / 2
    return math.isclose(*numbers) or abs(numbers[0] - numbers[1]) <= rounded * 1.001


def _read(asked: Asked, found: _Candidate, document: Document) -> Choice | None:
    """Return the cell with its value, or None if it has none of the wanted kind and currency."""
    if found.cell is None:
        return None
    around = around_of(document, found.part.table)
    value = cell_value(found.part.table, found.row, found.cell, around)
    if value is None or value.number is None or (value.unit == "%") != asked.percent:
        return None
    is_count = unit_of(found.part.table, found.row, found.cell, around).kind in ("shares", "count")
    if (asked.kind == "money" and (is_count or asked.counts)) or (asked.counts and value.currency and not is_count):
        return None
    if asked.currency and value.currency and value.currency != asked.currency:
        return None
    return Choice(found.part.table, found.row, found.cell, found.time, replace(value, period=found.time.written))


# --------
# Cells that fit.


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A cell below a column that fits, or None if it is empty there, with how well table, column and label fit."""

    part: _Part
    row: TableRow
    cell: TableCell | None
    time: Time
    rank: tuple[int, int, int]


def _candidates(asked: Asked, part: _Part, report: _Report, within: Sequence[Span]) -> Iterator[_Candidate]:
    """Iterate over the cells of a table whose row and column fit."""
    table, targets = part.table, _targets(asked)
    for row in table.rows:
        if within and not any(row.start < end and start < row.end for start, end in within):
            continue
        tier, missing = _tier(asked, targets, row, bool(within))
        if tier and _section_fits(asked, part, row):
            yield from _cells(asked, part, report, row, tier, missing)
        elif not tier and _is_time(row.label):
            yield from _cells_of_time(asked, part, report, row, targets)


def _cells(
    asked: Asked, part: _Part, report: _Report, row: TableRow, tier: int, missing: Words
) -> Iterator[_Candidate]:
    """Iterate over a row's cells below the columns that fit; ``missing`` must be said by columns, sections or title."""
    table, above = part.table, _words_above(row)
    if missing is _OF_TITLE:
        if not _is_titled(asked, part):
            return
        missing = frozenset()
    missing -= above
    marks = part.marks | _marks_of(" ".join(row.sections))
    times = [
        time_stated(table.head(number), *reversed(row.sections), table.stub, table.title, table.unit)
        for number in range(len(table.heads))
    ]
    open_times = [
        (number, time)
        for number, time in enumerate(times)
        if time is not None and _is_actual(asked, part.columns[number], marks)
    ]
    dated = any(time.year for _, time in open_times)
    fitting = [(n, time) for n, time in open_times if (missing - part.title_words) <= part.columns[n].owner]
    fitting = [(n, each) for n, time in fitting if (each := _fitting_time(asked, time, dated, part, report))]
    if missing and any(missing <= part.columns[n].owner for n, _ in fitting):
        fitting = [(n, time) for n, time in fitting if missing <= part.columns[n].owner]
    if not asked.time.year:
        there = latest([time for _, time in fitting])
        fitting = [(n, time) for n, time in fitting if time in there]
    foreign = {n: part.columns[n].owner - asked.words - part.common for n, _ in fitting}
    if any(not each for each in foreign.values()):
        fitting = [(n, time) for n, time in fitting if not foreign[n]]
    stranger = bool(above - _known_words() - asked.words)
    for number, time in fitting:
        doubt = 2 * bool(foreign[number]) + stranger + (dated is False and bool(asked.time.year))
        rank = 1 if stranger and part.rank(asked, report) < _STATEMENT else part.rank(asked, report)
        yield _Candidate(part, row, row.cell(number), time, (rank, -doubt, tier))


def _cells_of_time(
    asked: Asked, part: _Part, report: _Report, row: TableRow, targets: dict[Words, int]
) -> Iterator[_Candidate]:
    """Iterate over the cells of a row that is labelled with a time, below the heads that name the measure."""
    time = time_stated(row.label, *reversed(row.sections), part.table.title)
    if time is None or not _fitting_time(asked, time, True, part, report):
        return
    there = [each for other in part.table.rows if _is_time(other.label) and (each := time_stated(other.label))]
    if not asked.time.year and (time_stated(row.label) not in latest(there)):
        return
    for number, column in enumerate(part.columns):
        tier = targets.get(core(column.words), 0)
        if (
            tier
            and not column.time.year
            and _is_actual(asked, column, part.marks)
            and asked.owner <= part.title_words | column.words
        ):
            yield _Candidate(part, row, row.cell(number), time, (part.rank(asked, report), 0, tier))


def _fitting_time(asked: Asked, time: Time, dated: bool, part: _Part, report: _Report) -> Time | None:
    """Return the time of a column if it is the wanted one, else None.

    A table without any year belongs to the report's own period. Without a wanted year the report's own one is wanted.
    """
    own = report.own_years.get(part.statement, "") or report.own_year
    if not dated and own and asked.time.year and not time.year:
        time = replace(time, year=own)
    if not fits(time, asked.time):
        return None
    if not time.year and report.own_years and not asked.owner:  # the components of equity, for example
        return None
    if not asked.time.year and time.year:
        if own and time.year > own:  # a plan, or the years in which debt falls due
            return None
        if part.statement and own and time.year != own:
            return None
        if report.own_years and time.year not in report.own_years.values():
            return None
        if report.is_annual and not asked.time.hard and not asked.time.loose and time.months not in (0, 12):
            return None
    return time


def _is_actual(asked: Asked, column: _Column, marks: frozenset[str]) -> bool:
    """Return whether a column may have the wanted figures: no notes, changes or shares, and of the wanted kind.

    ``marks`` are those of the title and of the headings above the row.
    """
    marks |= column.marks
    if column.is_other or marks - asked.marks - {"restated"} or not marks >= asked.marks:
        return False
    return asked.per_share or not column.per_share


_PER_SHARE: Final = re.compile(r"\bper\s(?:\w+\s){0,3}(?:shares?|units?|ads|adss?|stock)\b|\beps\b", re.IGNORECASE)
_OF_CHANGES: Final = re.compile(r"\bchanges? in\b|\badjustments? to reconcile\b", re.IGNORECASE)
_NO_CASH: Final = re.compile(r"\bnon-?\s?cash\b", re.IGNORECASE)
_RELATIVE: Final = re.compile(r"%|\bpercent|\bas a share of\b", re.IGNORECASE)


def _section_fits(asked: Asked, part: _Part, row: TableRow) -> bool:
    """Return whether the headings above a row allow the wanted figure there."""
    nearest = row.sections[-1] if row.sections else ""
    if not asked.per_share and (_PER_SHARE.search(nearest) or _PER_SHARE.search(row.label)):
        return False
    if _NO_CASH.search(" ".join(row.sections)) and not _NO_CASH.search(" ".join(asked.words)):
        return False
    if not asked.percent and _RELATIVE.search(nearest) and not _RELATIVE.search(row.label):
        return False
    balance = asked.item is not None and asked.item.period == "instant" and "cash" not in asked.words
    if (balance or (asked.item is None and "increase" not in asked.words)) and _OF_CHANGES.search(
        " ".join(row.sections)
    ):
        return False
    if balance and part.statement == "cash flow":
        return False
    return not (asked.owner and _words_above(row) - _known_words() - asked.words)


# --------
# Labels.

_EXACT: Final = 60
_NAMED: Final = 30
_ITEM: Final = 20
_INSTEAD: Final = 10
_NEAR: Final = 1
ALIKE: Final = 0.5
"""Least share of all words of label and question that both must contain. project default"""


@lru_cache(maxsize=16)
def _targets(asked: Asked) -> dict[Words, int]:
    """Return how well each label fits, by its words without those that may be missing."""
    found = {core(asked.words): _EXACT}
    for place, name in enumerate(asked.names):
        found.setdefault(name | asked.owner, _NAMED - min(place, 5))
        if asked.owner:
            found.setdefault(name, _NAMED - min(place, 5))
    if asked.owner:
        found.setdefault(asked.owner, _ITEM)
    return found


def _tier(asked: Asked, targets: dict[Words, int], row: TableRow, near: bool) -> tuple[int, Words]:
    """Return how well a row's label fits (0: not at all), and the words that something else must say."""
    best: tuple[int, Words] = (0, frozenset())
    nearest = row.sections[-1] if row.sections else ""
    for words, left_out in label_forms(row.label):
        for completed in (words, words | words_of(nearest)) if nearest else (words,):
            plain = core(completed)
            if completed is not words and not _completes(words, asked):
                continue
            tier = targets.get(plain, 0)
            if tier == 0 and plain - {"basic&diluted"} != plain:
                tier = max(targets.get((plain - {"basic&diluted"}) | extra, 0) for extra in _BOTH)
            if not tier:
                continue
            missing = asked.owner - plain
            if plain == asked.owner and plain != core(asked.words):
                missing = frozenset() if core(words_of(nearest)) in asked.names else _OF_TITLE
            tier += 2 * (completed == asked.words) + (completed is words) - left_out
            best = max(best, (tier, missing), key=lambda each: each[0])
    if _other_dilution(asked, row.label):
        return 0, frozenset()
    if best[0] or asked.item is None:
        return best if best[0] or not near else _near(asked, row)
    if asked.item in items_of_label(row.label, row.sections):
        return _ITEM, asked.owner
    return _near(asked, row) if near else best


_OF_TITLE: Final = frozenset(["\x00"])
"""The missing words of a row that is labelled with the owner alone: the title must say the line item."""
_BOTH: Final = (frozenset[str](), frozenset(["diluted"]))


def _other_dilution(asked: Asked, label: str) -> bool:
    """Return whether a row has the basic amounts per share and diluted ones are wanted, or the reverse."""
    said = words_of(label) & {"basic", "diluted"}
    return len(said) == 1 and asked.per_share and ("diluted" in said) != ("diluted" in asked.words)


def _completes(words: Words, asked: Asked) -> bool:
    """Return whether a label is only a part of the wanted words, so that the section above may complete it."""
    return words <= asked.words | {"total", "basic", "diluted", "net"} or bool(core(words) & asked.owner)


def _is_titled(asked: Asked, part: _Part) -> bool:
    """Return whether a table's title says that it holds the wanted line item, and no other measure."""
    said = core(part.title_words)
    return any(name <= said and not (said & MEASURES) - name for name in asked.names)


def _near(asked: Asked, row: TableRow) -> tuple[int, Words]:
    words = words_of(row.label)
    alike = len(words & asked.words) / max(len(words | asked.words), 1)
    return (_NEAR if asked.words <= words and alike >= ALIKE else 0), frozenset()


def _is_time(label: str) -> bool:
    return any(digit in label for digit in "0123456789") and not without_times(words_of(label))


def _words_above(row: TableRow) -> Words:
    """Return what the headings above a row say besides times."""
    return without_times(frozenset().union(*(words_of(each) for each in row.sections)))


@cache
def _known_words() -> Words:
    """Return the words of line items and statements; a section with others may be a segment's."""
    names = [name for item in line_items().values() for name in item.names]
    return frozenset().union(*(words_of(name) for name in names)) | words_of(_STATEMENT_WORDS)


_STATEMENT_WORDS: Final = """
    assets liabilities equity current non-current noncurrent operating investing financing activities cash flows
    revenues expenses income loss costs other comprehensive total net share per common stock data amounts
    statement statements operations balance sheet adjustments reconcile provided used items basic diluted weighted
    average shares outstanding continuing discontinued attributable parent owners noncontrolling interests
    shareholders stockholders changes working capital supplemental disclosure information consolidated year
    quarter ended period interest tax taxes before after property plant equipment deferred financial results
    selected summary highlights key figures and of the from group fixed long term short debt non-operating
    reserves funds employed sources uses
"""


# --------
# Columns and tables.


@dataclass(frozen=True, slots=True)
class _Column:
    """What the heads of a column say: its time, whose figures they are, and whether they are others than amounts."""

    time: Time
    words: Words
    owner: Words
    marks: frozenset[str]
    is_other: bool
    per_share: bool


_OTHER_COLUMN: Final = re.compile(
    r"%|(?<!except )\bpercent\w*|\b(?:year|period)[\s-]over[\s-](?:year|period)\b|\by[/-]?o[/-]?y\b|\bchanges?\b"
    r"|\bchg\b|\bvariance\b|\bincreases?\b|\bdecreases?\b|\bgrowth\b|\bvs\.?(?=\s|$)|\bversus\b|\bdifferences?\b"
    r"|\bfavou?rable\b|\u0394|\+/-|\bcagr\b|\badjustments?\b|\breclassif\w*|\b(?:effects?|impact)\s+of\b|\beliminations?\b"
    r"|\bmargin\b|^\s*(?:notes?|ref(?:erence)?s?\.?|pages?|note\s+no\.?|notes?\s+ref\w*)\s*$",
    re.IGNORECASE,
)
"""Heads of changes, shares, adjustments and references to notes."""
_PLANNED: Final = re.compile(
    r"\bplan(?:ned)?\b|\btargets?\b|\bestimated?\b|\bexpected\b|\bconsensus\b|\b20\d\dE\b", re.I
)
_AS_REPORTED: Final = re.compile(r"\b(?:as\s+)?reported\b|\bas\s+filed\b", re.IGNORECASE)
_HARMLESS: Final = frozenset(
    [
        *("actual", "audited", "unaudited", "total", "consolidated", "group", "restated", "revised", "recast", "note"),
        *("million", "thousand", "billion", "crore", "lakh", "dollar", "euro", "pound", "yen", "rupee", "us", "usd"),
        *(
            "eur",
            "gbp",
            "jpy",
            "inr",
            "rs",
            "chf",
            "cny",
            "rmb",
            "mn",
            "m",
            "bn",
            "k",
            "cr",
            "mio",
            "mrd",
            "teur",
            "tsd",
        ),
        *("adjusted", "company", "overall", "except", "share", "per", "data", "000", "00", "percent", "footnote", "hk"),
        *("successor", "reclassified", "current", "prior", "previous", "all", "amount", "balance", "s", "un"),
    ]
)
"""Words of heads that name no owner."""


@lru_cache(maxsize=4096)
def _column(head: str) -> _Column:
    words = without_times(words_of(head))
    marks = _marks_of(head) | (frozenset(["plan"]) if _PLANNED.search(head) else frozenset())
    owner = words - _HARMLESS
    for name in marks:
        owner -= words_of(" ".join(match[0] for match in MARKS[name].finditer(head)))
    time = time_stated(head)
    is_other = time is None or _OTHER_COLUMN.search(head) is not None
    return _Column(time or Time(), words - _HARMLESS, owner, marks, is_other, _PER_SHARE.search(head) is not None)


@lru_cache(maxsize=4096)
def _marks_of(text: str) -> frozenset[str]:
    return frozenset(name for name, pattern in MARKS.items() if pattern.search(text))


_STATEMENT: Final = 3
"""The least rank of statements."""
_TITLES: Final = (
    ("cash flow", re.compile(r"\bcash\s*flows?\b(?!.*\b(?:reconcil|free)\w*)", re.IGNORECASE)),
    (
        "balance sheet",
        re.compile(
            r"\bbalance\s*sheets?\b|\b(?:statements?|position)\s+of\s+(?:financial\s+(?:position|condition))", re.I
        ),
    ),
    (
        "income",
        re.compile(
            r"\bstatements?\s+of\s+(?:consolidated\s+)?(?:net\s+)?(?:operations?|income|earnings|profit|loss"
            r"|comprehensive)|\bincome\s+statements?\b|\bprofit\s+(?:and|or|&)\s+loss\b",
            re.IGNORECASE,
        ),
    ),
)
_NO_STATEMENT: Final = re.compile(
    r"^\s*notes?\s+\d|\b(?:following|below|sets?\s+forth|presents?|shows?|compared\s+with)\b|\bselected\b|\bsummar|\bhighlights?\b|\bquarterly\b|\breconcil|\bsegments?\b|\bgeograph|\bby\b|\bregistrant\b"
    r"|\bguarantor|\bconsolidating\b|\bsupplement|\bdiscontinued\b|\bacqui|\beffects?\b|\bimpact\b|\bnotes?\s+to\b|\bfive[\s-]year\b"
    r"|\bkey\b|\bline\s+items?\b|\bpension|\bsubsidiar(?!ies$)|\bvariable\s+interest\b|\bparent\b|\bdata\b",
    re.IGNORECASE,
)
_POOR: Final = re.compile(
    r"\bsegments?\b|\bgeograph|\bregistrant\b|\bguarantor|\bconsolidating\b|\bdiscontinued\b|\bacqui|\bvariable\s+interest\b"
    r"|\bjoint\s+ventures?\b|\bequity\s+method\b|\baffiliates?\b|\bdivisions?\b|\bsubsidiary\b|\bimpact\b|\beffects?\s+of\b",
    re.IGNORECASE,
)
"""Words in titles of tables whose figures may belong to a part of the group."""
_ROWS: Final = (
    (
        "balance sheet",
        re.compile(r"\btotal (?:current )?(?:assets|liabilities)\b|\bliabilities and\b.*\bequity\b", re.I),
    ),
    ("cash flow", re.compile(r"\bcash\b.*\b(?:operat|invest|financ)ing activities\b", re.IGNORECASE)),
    (
        "income",
        re.compile(
            r"\bbefore\b.*\btax|\bnet (?:\(?loss\)? ?)?(?:income|earnings|loss|profit)\b|\bper (?:\w+ )?share\b", re.I
        ),
    ),
)
"""Labels of rows that statements have; at least two of them, and none of another statement's, make a statement."""


class _Part:
    """A table with what its heads and title say."""

    def __init__(self, table: Table, of_parent: bool) -> None:
        self.table = table
        self.columns = [_column(table.head(number)) for number in range(len(table.heads))]
        owners = [column.owner for column in self.columns if not column.is_other]
        self.common: Words = frozenset.intersection(*owners) if len(owners) > 1 else frozenset()
        if any("restated" in column.marks for column in self.columns):
            self.columns = [
                replace(each, marks=each.marks | {"old"}) if _AS_REPORTED.search(table.head(number)) else each
                for number, each in enumerate(self.columns)
            ]
        self.title_words = without_times(words_of(table.title))
        self.marks = _marks_of(table.title).difference(*(column.marks for column in self.columns))
        if of_parent:
            self.marks |= {"parent"}
        self.is_summary = _SUMMARY.search(table.title) is not None
        self.statement, self.is_titled = _statement_of(table)
        self.is_consolidated = any(_CONSOLIDATED.search(each) for each in (table.title, *map(" ".join, table.heads)))

    def rank(self, asked: Asked, report: _Report) -> int:
        """Return 5 to 3 for statements, 2 for other tables, 1 for those that may be of a part of the group.

        Statements with a title outrank those with typical rows only, and the one that has the line item the others.
        """
        if not self.statement:
            return 1 if _POOR.search(self.table.title) else 2
        if not self.is_consolidated and self.statement in report.consolidated:
            return 1
        return _STATEMENT + self.is_titled + (asked.item is None or asked.item.statement == self.statement)


_SUMMARY: Final = re.compile(
    r"\bselected\b|\bsummary\b|\bhighlights?\b|\bkey\s+(?:figures|data|financials?)\b|\b(?:five|ten)[\s-]year\b",
    re.IGNORECASE,
)
"""Titles of tables that repeat figures of the statements."""
_CONSOLIDATED: Final = re.compile(r"\bconsolidated\b|\bgroup\b", re.IGNORECASE)
_OF_PARENT: Final = re.compile(
    r"\bparent[\s-]+(?:company[\s-]+)?only\b|\bparent\s+(?:company|entity)\s+(?:condensed\s+)?financial\b|\bschedule\s+i\b"
    r"|\bcondensed\s+financial\s+(?:information|statements)\s+of\s+(?:the\s+)?(?:registrant|parent)\b",
    re.IGNORECASE,
)
"""Text above tables of the parent company alone."""
_ABOVE: Final = 400  # project default
"""Characters above a table that may say so."""
_NEXT: Final = 1_500  # project default
"""Characters between such a table and one that continues it."""


def _statement_of(table: Table) -> tuple[str, bool]:
    """Return which statement a table is, "" if none, and whether its title says so."""
    if _NO_STATEMENT.search(table.title) or _marks_of(table.title) & {"plan", "parent"}:
        return "", False
    titled = {name for name, pattern in _TITLES if pattern.search(table.title)}
    return (titled.pop(), True) if len(titled) == 1 else (_with_rows_of(table), False)


def _with_rows_of(table: Table) -> str:
    """Return which statement has such rows as a table: "balance sheet", "income", "cash flow", or ""."""
    labels = [row.label for row in table.rows if len(row.label) < _LONGEST_LABEL]
    found = {name: sum(1 for label in labels if pattern.search(label)) for name, pattern in _ROWS}
    if found["cash flow"] > 1:
        return "cash flow"
    if found["balance sheet"] > 1:
        return "" if found["income"] else "balance sheet"
    return "income" if found["income"] > 1 and not found["balance sheet"] and not found["cash flow"] else ""


_LONGEST_LABEL: Final = 200  # project default


class _Same:
    """A document's tables, compared by identity: comparing their cells would take longer than reading them."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.tables is self.tables

    def __hash__(self) -> int:
        return id(self.tables)


@dataclass(frozen=True, slots=True)
class _Report:
    """A document's tables and its own period.

    ``own_years`` are the latest years by statement, since a fiscal year may end in the next calendar year.
    ``consolidated`` are the statements of which one is consolidated; others of their kind may be the parent's.
    """

    parts: tuple[_Part, ...]
    own_years: dict[str, str]
    is_annual: bool
    consolidated: frozenset[str]

    @property
    def own_year(self) -> str:
        """The latest year of most statements, or ""."""
        years = list(self.own_years.values())
        return max(years, key=lambda each: (years.count(each), each), default="")


@lru_cache(maxsize=8)
def _report_of(same: _Same, text: str) -> _Report:
    """Return the tables with what they are. Cached for the last few documents."""
    parts: list[_Part] = []
    for table in same.tables:
        near = bool(parts) and "parent" in parts[-1].marks and table.start - parts[-1].table.end < _NEXT
        parts.append(
            _Part(table, near or _OF_PARENT.search(text[max(0, table.start - _ABOVE) : table.start]) is not None)
        )
    years: dict[str, Counter[str]] = {}
    lengths: set[int] = set()
    for part in parts:
        if not part.statement:
            continue
        table = part.table
        times = [
            time
            for number, column in enumerate(part.columns)
            if not column.is_other
            and not column.marks & {"plan"}
            and (time := time_stated(table.head(number), table.stub, table.title, table.unit)) is not None
        ]
        if last := max((time.year for time in times), default=""):
            years.setdefault(part.statement, Counter())[last] += 1
        if part.statement != "balance sheet":
            lengths |= {time.months for time in times}
    own = {name: max(counts, key=lambda each: (counts[each], each)) for name, counts in years.items()}
    consolidated = frozenset(part.statement for part in parts if part.is_consolidated and part.is_titled)
    return _Report(tuple(parts), own, bool(lengths & {0, 12}), consolidated)


@lru_cache(maxsize=64)
def _names(doc_id: str, title: str, cover: str) -> Words:
    named = " ".join(match[0] for match in _FIRM.finditer(cover))
    return words_of(re.sub(r"[_\W]+", " ", f"{doc_id} {title} {named}"))


_COVER: Final = 2500  # project default
_FIRM: Final = re.compile(
    r"(?:[A-Z][\w&.'-]*,?[ \t]+){1,6}"
    r"(?i:inc|corp|corporation|company|co|ltd|limited|plc|group|holdings?|ag|se|s\.?a|n\.?v|llc|lp)\b"
)
"""A company's name with its legal form."""


def own_names(document: Document) -> Words:
    """Return the words of the names that a document gives to its company: id, title, firms on its title page."""
    return _names(document.doc_id, document.title, document.text[:_COVER])


# --------
# Answers.

BY_RULES: Final = "statement-rules"
"""The value of ``replied_by`` in answers that code read from a row or sentence."""
SHOWN: Final = 600
"""Characters of context on each side of a value, extended to the end of a line. project default"""


_MARK: Final = re.compile(r"(?<=\d)\s*\(\w{1,2}\)$")
"""A footnote mark behind a figure."""


def answer_of(chosen: Choice | Ambiguous, document: Document) -> Answer:
    """Return the answer that cites the chosen row, or an unanswerable one with the reason and the rows."""
    if isinstance(chosen, Ambiguous):
        rows = tuple(lines_around(document, each.row.start, each.row.end, SHOWN) for each in chosen.cells[:_LISTED])
        return Answer("unanswerable", "unanswerable", context=rows, error=chosen.reason, replied_by=(BY_RULES,))
    said = _MARK.sub("", chosen.cell.text)
    return cited_answer(document, said, chosen.value, chosen.row.start, chosen.row.end)


def cited_answer(document: Document, said: str, value: TypedValue, start: int, end: int) -> Answer:
    """Return an answer that cites a span, with the text around it as context."""
    cited = Citation(document.doc_id, start, end, document.text[start:end])
    passage = lines_around(document, start, end, SHOWN)
    return Answer("answered", said, (cited,), context=(passage,), value=value, replied_by=(BY_RULES,))


def with_unit(answer: Answer, document: Document) -> Answer:
    """Add the scale and currency that a table states for the answer's value, if the value is one of its cells."""
    value = answer.value
    if value is None or value.number is None or not answer.citations or (value.scale and value.currency):
        return answer
    cited = answer.citations[0]
    at = document.text.find(answer.answer, cited.start_char, cited.end_char)
    around = [each for each in tables_of(document) if each.start <= at < each.end]
    for table, row, cell in ((each, row, cell) for each in around for row, cell in each.values()):
        if not cell.start <= at < cell.end:
            continue
        whole = cell_value(table, row, cell, around_of(document, table))
        if whole is None or (whole.unit == "%") != (value.unit == "%") or (value.scale and whole.scale != value.scale):
            return answer
        time = time_stated(table.head(cell.column), *reversed(row.sections), table.stub, table.title, table.unit)
        period = value.period or (time.written if time else "")
        return replace(answer, value=replace(whole, currency=whole.currency or value.currency, period=period))
    return answer


def lines_around(document: Document, start: int, end: int, around: int) -> Passage:
    """Return a span extended by up to ``around`` characters on each side, to the end of a line."""
    text = document.text
    first, last = max(0, start - around), min(len(text), end + around)
    first = max(first, text.find("\n", first, start) + 1) if first else first
    last = max(text.rfind("\n", end, last), end) if last < len(text) and "\n" in text[end:last] else last
    return Passage(document.doc_id, first, last, text[first:last], count_tokens(text[first:last]), 1.0)
