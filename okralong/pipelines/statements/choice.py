"""Choose the cell of a document's tables that a question for one amount asks for.

A cell fits if its row names the measure, its column the time, and row, column, section and title name no other owner:
a segment, a product, the parent company. Plans, changes, percentages and superseded figures are not actual amounts.
Statements outrank other tables. Where cells fit equally and their values differ, none is chosen. Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import Final

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Answer, Document, TypedValue, Way
from okralong.pipelines.statements.amounts import SCALES, UNKNOWN, amounts
from okralong.pipelines.statements.asked import MEASURES, Asked, asked_of
from okralong.pipelines.statements.cited import BY_RULES, SHOWN, cited_answer, lines_around
from okralong.pipelines.statements.labels import Words, core, label_forms, words_of
from okralong.pipelines.statements.line_items import items_of_label, line_items, with_substitutes
from okralong.pipelines.statements.periods import Span
from okralong.pipelines.statements.report_tables import (
    PER_SHARE,
    STATEMENT,
    Column,
    Part,
    Report,
    is_time,
    marks_of,
    own_names,
    report_of,
)
from okralong.pipelines.statements.times import Time, fits, latest, time_stated, without_times
from okralong.pipelines.statements.units import around_of, cell_value, unit_of


@dataclass(frozen=True, slots=True)
class Choice:
    """The cell that a question asks for.

    ``value`` has its scale, currency and period, and ``time`` is its column's. ``signals`` say how well it fits.
    """

    table: Table
    row: TableRow
    cell: TableCell
    time: Time
    value: TypedValue
    signals: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Cells with different values that fit a question equally."""

    cells: tuple[Choice, ...]
    signals: Mapping[str, float] = field(default_factory=dict, compare=False)

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


@dataclass(frozen=True, slots=True)
class Blank:
    """A statement's cell that fits a question and says that there is no value: "—", "n.m."."""

    table: Table
    row: TableRow
    cell: TableCell
    signals: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def reason(self) -> str:
        """Why there is no value, with the place of the cell."""
        return f"no value: the statement has {_place(self)}."


def _place(chosen: Choice | Blank) -> str:
    heads = chosen.table.head(chosen.cell.column)
    where = [chosen.table.title, f"page {chosen.table.page}" if chosen.table.page else ""]
    named = ", ".join(each for each in where if each)
    below = " / ".join((*chosen.row.sections, chosen.row.label))
    return f'{chosen.cell.text} ("{below}", "{heads}"{f", {named}" if named else ""})'


Chosen = Choice | Ambiguous | Blank


def choose(question: str, kind: str, document: Document, within: Sequence[Span] = ()) -> Chosen | None:
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


def _chosen(asked: Asked, document: Document, within: Sequence[Span]) -> Chosen | None:
    report = report_of(document)
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
            best = _agreed(values)
            below = (_read(asked, each, document) for each in filled if each.rank < rank)
            others = list(islice((each for each in below if each is not None), _MOST_COMPARED))
            return replace(best, signals=_signals(asked, rank, values, others, bool(within)))
        blank = next((each for each in filled if each.rank == rank and each.is_blank), None)
        if blank is not None and blank.cell is not None and rank[0] >= STATEMENT and rank[2] > _NEAR:
            return Blank(blank.part.table, blank.row, blank.cell, _signals(asked, rank, [], [], bool(within)))
    return None


_MOST_COMPARED: Final = 20
"""The most cells that fit less well and are compared with the chosen one. project default"""


def _signals(
    asked: Asked, rank: tuple[int, int, int], values: Sequence[Choice], others: Sequence[Choice], near: bool
) -> dict[str, float]:
    """Return how well the cells of a rank fit, and how many of the ``others`` have the same or another value."""
    found = {
        "cell_label": min(rank[2] / _EXACT, 1.0),
        "cell_table": rank[0] - STATEMENT + 1.0,
        "cell_doubt": -float(rank[1]),
        "cell_item": float(asked.item is not None),
        "cell_substitute": float(asked.item is not None and not asked.names),
        "cell_owner": float(bool(asked.owner)),
        "cell_asked_time": float(bool(asked.time.year)),
        "cell_near": float(near),
    }
    if values:
        first = values[0]
        alike = sum(_alike(each, first) for each in (*values[1:], *others))
        found["cell_alike"] = math.log1p(alike)
        found["cell_rivals"] = math.log1p(len(values) - 1 + len(others) - alike)
        found["cell_scale"] = float(first.value.scale != UNKNOWN)
        found["cell_currency"] = float(bool(first.value.currency))
        found["cell_time"] = float(bool(first.time.year))
    return found


def _agreed(values: Sequence[Choice]) -> Choice | Ambiguous:
    """Return the first of the cells, or all if any has another value."""
    first = next((each for each in values if each.value.scale != UNKNOWN), values[0])
    other = [each for each in values if not _alike(each, first)]
    distinct = [first]
    for each in other:
        if not any(_alike(each, known) for known in distinct):
            distinct.append(each)
    return first if not other else Ambiguous(tuple(distinct))


def allows(found: Chosen, value: TypedValue | None) -> bool:
    """Return whether a value that a sentence states may be one of the chosen cells'; a blank cell allows none."""
    cells = found.cells if isinstance(found, Ambiguous) else (found,) if isinstance(found, Choice) else ()
    return value is not None and any(_alike(each, replace(each, value=value)) for each in cells)


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

    part: Part
    row: TableRow
    cell: TableCell | None
    time: Time
    rank: tuple[int, int, int]

    @property
    def is_blank(self) -> bool:
        """True if the cell is printed without a value."""
        return self.cell is not None and not any(each.isdigit() for each in self.cell.text)


def _candidates(asked: Asked, part: Part, report: Report, within: Sequence[Span]) -> Iterator[_Candidate]:
    """Iterate over the cells of a table whose row and column fit."""
    table, targets = part.table, _targets(asked)
    for row in table.rows:
        if within and not any(row.start < end and start < row.end for start, end in within):
            continue
        tier, missing = _tier(asked, targets, row, bool(within))
        if tier and _section_fits(asked, part, row):
            yield from _cells(asked, part, report, row, tier, missing)
        elif not tier and is_time(row.label):
            yield from _cells_of_time(asked, part, report, row, targets)


def _cells(asked: Asked, part: Part, report: Report, row: TableRow, tier: int, missing: Words) -> Iterator[_Candidate]:
    """Iterate over a row's cells below the columns that fit; ``missing`` must be said by columns, sections or title."""
    table, above = part.table, _words_above(row)
    if missing is _OF_TITLE:
        if not _is_titled(asked, part):
            return
        missing = frozenset()
    missing -= above
    marks = part.marks | marks_of(" ".join(row.sections))
    times = [part.time_of(row, number) for number in range(len(table.heads))]
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
        rank = 1 if stranger and part.rank(asked, report) < STATEMENT else part.rank(asked, report)
        yield _Candidate(part, row, row.cell(number), time, (rank, -doubt, tier))


def _cells_of_time(
    asked: Asked, part: Part, report: Report, row: TableRow, targets: dict[Words, int]
) -> Iterator[_Candidate]:
    """Iterate over the cells of a row that is labelled with a time, below the heads that name the measure."""
    time = time_stated(row.label, *reversed(row.sections), part.table.title)
    if time is None or not _fitting_time(asked, time, True, part, report):
        return
    if not asked.time.year and time_stated(row.label) not in latest(part.times_down):
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


def _fitting_time(asked: Asked, time: Time, dated: bool, part: Part, report: Report) -> Time | None:
    """Return the time of a column if it is the wanted one, else None.

    A table without any year belongs to the report's own period. Without a wanted year the report's own one is wanted.
    """
    own = report.own_years.get(part.statement, "") or report.own_year
    if not dated and own and asked.time.year and not time.year:
        time = replace(time, year=own)
    if not fits(report.fiscal(time) if asked.time.part else time, asked.time):
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


def _is_actual(asked: Asked, column: Column, marks: frozenset[str]) -> bool:
    """Return whether a column may have the wanted figures: no notes, changes or shares, and of the wanted kind.

    ``marks`` are those of the title and of the headings above the row.
    """
    marks |= column.marks
    if column.is_other or marks - asked.marks - {"restated"} or not marks >= asked.marks:
        return False
    return asked.per_share or not column.per_share


_OF_CHANGES: Final = re.compile(r"\bchanges? in\b|\badjustments? to reconcile\b", re.IGNORECASE)
_NUMBER_OF_SHARES: Final = re.compile(r"\b(?:weighted|number|average)\b.*\bshares\b", re.IGNORECASE)
_NO_CASH: Final = re.compile(r"\bnon-?\s?cash\b", re.IGNORECASE)
_RELATIVE: Final = re.compile(r"%|\bpercent|\bas a share of\b", re.IGNORECASE)


def _section_fits(asked: Asked, part: Part, row: TableRow) -> bool:
    """Return whether the headings above a row allow the wanted figure there."""
    nearest = row.sections[-1] if row.sections else ""
    if not asked.per_share and (PER_SHARE.search(nearest) or PER_SHARE.search(row.label)):
        return False
    if asked.per_share and _NUMBER_OF_SHARES.search(nearest) and not PER_SHARE.search(nearest):
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


def _is_titled(asked: Asked, part: Part) -> bool:
    """Return whether a table's title says that it holds the wanted line item, and no other measure."""
    said = core(part.title_words)
    return any(name <= said and not (said & MEASURES) - name for name in asked.names)


def _near(asked: Asked, row: TableRow) -> tuple[int, Words]:
    words = words_of(row.label)
    alike = len(words & asked.words) / max(len(words | asked.words), 1)
    return (_NEAR if asked.words <= words and alike >= ALIKE else 0), frozenset()


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
# Answers.

_MARK: Final = re.compile(r"(?<=\d)\s*\(\w{1,2}\)$")
"""A footnote mark behind a figure."""


def answer_of(chosen: Chosen, document: Document) -> Answer:
    """Return the answer that cites the chosen row, or an unanswerable one with the reason and the rows."""
    if not isinstance(chosen, Choice):
        cells = chosen.cells[:_LISTED] if isinstance(chosen, Ambiguous) else (chosen,)
        rows = tuple(lines_around(document, each.row.start, each.row.end, SHOWN) for each in cells)
        way: Way = "ambiguous" if isinstance(chosen, Ambiguous) else "blank"
        refused = Answer("unanswerable", "unanswerable", context=rows, error=chosen.reason, replied_by=(BY_RULES,))
        return replace(refused, way=way, signals=chosen.signals)
    said = _MARK.sub("", chosen.cell.text)
    found = cited_answer(document, said, chosen.value, chosen.row.start, chosen.row.end)
    return replace(found, way="cell", signals=chosen.signals)


def with_unit(answer: Answer, document: Document) -> Answer:
    """Add the scale and currency that a table states for the answer's value, if the value is one of its cells."""
    value, found = answer.value, _cell_of(answer, document)
    if found is None or value is None or (value.scale and value.currency):
        return answer
    part, row, cell = found
    whole = cell_value(part.table, row, cell, around_of(document, part.table))
    if whole is None or (whole.unit == "%") != (value.unit == "%") or (value.scale and whole.scale != value.scale):
        return answer
    time = part.time_of(row, cell.column)
    period = value.period or (time.written if time else "")
    return replace(answer, value=replace(whole, currency=whole.currency or value.currency, period=period))


def contradicts(question: str, kind: str, answer: Answer, document: Document) -> bool:
    """Return whether an answer is a table's cell of another period, line item or kind of figure than the question's."""
    asked, found = asked_of(question, kind, own_names(document)), _cell_of(answer, document)
    if asked is None or found is None:
        return False
    part, row, cell = found
    time, report = part.time_of(row, cell.column), report_of(document)
    marks = part.marks | marks_of(" ".join(row.sections))
    if time is None or not _is_actual(asked, part.columns[cell.column], marks):
        return True
    if time.year and not fits(report.fiscal(time) if asked.time.part else time, asked.time):
        return True
    other = asked.item is not None and items_of_label(row.label, row.sections)
    return bool(other) and not _tier(asked, _targets(asked), row, near=True)[0]


def _cell_of(answer: Answer, document: Document) -> tuple[Part, TableRow, TableCell] | None:
    """Return the cell that holds an answer's number, or None."""
    if answer.value is None or answer.value.number is None or not answer.citations:
        return None
    cited = answer.citations[0]
    at = document.text.find(answer.answer, cited.start_char, cited.end_char)
    parts = [part for part in report_of(document).parts if part.table.start <= at < part.table.end]
    cells = ((part, row, cell) for part in parts for row, cell in part.table.values())
    return next((each for each in cells if each[2].start <= at < each[2].end), None)
