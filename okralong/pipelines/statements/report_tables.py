"""Classify the tables of a report as statements, notes or tables of the parent, and interpret their columns.

Not in the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from okralong.pipelines.core.tables import Table, TableRow
from okralong.pipelines.core.types import Document
from okralong.pipelines.statements.asked import MARKS, Asked
from okralong.pipelines.statements.labels import Words, words_of
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.times import MONTHS, Time, time_stated, without_times

PER_SHARE: Final = re.compile(r"\bper\s(?:\w+\s){0,3}(?:shares?|units?|ads|adss?|stock)\b|\beps\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Column:
    """The meaning of a column by its heads: time, owner of the figures, and whether they are amounts."""

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
def _column(head: str) -> Column:
    words = without_times(words_of(head))
    marks = marks_of(head) | (frozenset(["plan"]) if _PLANNED.search(head) else frozenset())
    owner = words - _HARMLESS
    for name in marks:
        owner -= words_of(" ".join(match[0] for match in MARKS[name].finditer(head)))
    time = time_stated(head)
    is_other = time is None or _OTHER_COLUMN.search(head) is not None
    return Column(time or Time(), words - _HARMLESS, owner, marks, is_other, PER_SHARE.search(head) is not None)


@lru_cache(maxsize=4096)
def marks_of(text: str) -> frozenset[str]:
    """Return the names of those ``MARKS`` that a text has."""
    return frozenset(name for name, pattern in MARKS.items() if pattern.search(text))


STATEMENT: Final = 3
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


class Part:
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
        self.marks = marks_of(table.title).difference(*(column.marks for column in self.columns))
        if of_parent:
            self.marks |= {"parent"}
        self.is_summary = _SUMMARY.search(table.title) is not None
        self.statement, self.is_titled = _statement_of(table)
        self.is_consolidated = any(_CONSOLIDATED.search(each) for each in (table.title, *map(" ".join, table.heads)))

    def time_of(self, row: TableRow, column: int) -> Time | None:
        """Return the time of a cell by its heads, the headings above it and the title, or None if it has several."""
        table = self.table
        return time_stated(table.head(column), *reversed(row.sections), table.stub, table.title, table.unit)

    @cached_property
    def times_down(self) -> list[Time]:
        """The times that label rows."""
        labels = (row.label for row in self.table.rows if is_time(row.label))
        return [time for label in labels if (time := time_stated(label)) is not None]

    def rank(self, asked: Asked, report: Report) -> int:
        """Return 5 to 3 for statements, 2 for other tables, 1 for those that may be of a part of the group.

        Statements with a title outrank those with typical rows only, and the one that has the line item the others.
        """
        if not self.statement:
            return 1 if _POOR.search(self.table.title) else 2
        if not self.is_consolidated and self.statement in report.consolidated:
            return 1
        return STATEMENT + self.is_titled + (asked.item is None or asked.item.statement == self.statement)


_SUMMARY: Final = re.compile(
    r"\bselected\b|\bsummary\b|\bhighlights?\b|\bkey\s+(?:figures|data|financials?)\b|\b(?:five|ten)[\s-]year\b",
    re.IGNORECASE,
)
"""Titles of tables that repeat figures of the statements."""


def is_time(label: str) -> bool:
    """Return whether a label says nothing but a time."""
    return any(digit in label for digit in "0123456789") and not without_times(words_of(label))


_CONSOLIDATED: Final = re.compile(r"\bconsolidated\b|\bgroup\b", re.IGNORECASE)
_OF_PARENT: Final = re.compile(
    r"\bparent[\s-]+(?:company[\s-]+)?only\b|\bparent\s+(?:company|entity)\s+(?:condensed\s+)?(?:financial|information|disclosures?)\b|\bschedule\s+i\b"
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
    title = table.title[:_LONGEST_TITLE]
    if _NO_STATEMENT.search(title) or marks_of(title) & {"plan", "parent"}:
        return "", False
    titled = {name for name, pattern in _TITLES if pattern.search(title)}
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


_LONGEST_TITLE: Final = 400  # project default
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
class Report:
    """A document's tables and its own period.

    ``own_years`` are the latest years by statement, since a fiscal year may end in the next calendar year.
    ``consolidated`` are the statements of which one is consolidated; others of their kind may be the parent's.
    ``year_end`` is the month in which the fiscal year ends, 0 if unknown.
    """

    parts: tuple[Part, ...]
    own_years: dict[str, str]
    is_annual: bool
    consolidated: frozenset[str]
    year_end: int

    def fiscal(self, time: Time) -> Time:
        """Return the fiscal quarter or half of a span that ends on a day: the second quarter may end in December."""
        if self.year_end in (0, 12) or time.part or not time.end or not time.year or time.months not in (3, 6):
            return time
        month = int(time.end[:2])
        number, rest = divmod((month - self.year_end - 1) % 12 + 1, time.months)
        if rest:
            return time
        year = str(int(time.year) + (month > self.year_end))
        return Time(year, f"{'Q' if time.months == 3 else 'H'}{number}")

    @property
    def own_year(self) -> str:
        """The latest year of most statements, or ""."""
        years = list(self.own_years.values())
        return max(years, key=lambda each: (years.count(each), each), default="")


def report_of(document: Document) -> Report:
    """Return the tables of a document with what they are; cached for the last few documents."""
    return _report_of(_Same(tables_of(document)), document.text)


@lru_cache(maxsize=8)
def _report_of(same: _Same, text: str) -> Report:
    parts: list[Part] = []
    for table in same.tables:
        near = bool(parts) and "parent" in parts[-1].marks and table.start - parts[-1].table.end < _NEXT
        parts.append(
            Part(table, near or _OF_PARENT.search(text[max(0, table.start - _ABOVE) : table.start]) is not None)
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
    ends = Counter(match["month"][:3].lower() for match in _YEAR_END.finditer(text))
    ((month, count),) = ends.most_common(1) or [("", 0)]
    year_end = MONTHS.index(month) + 1 if count > max(1, sum(ends.values()) // 2) else 0
    return Report(tuple(parts), own, bool(lengths & {0, 12}), consolidated, year_end)


_YEAR_END: Final = re.compile(
    rf"\byears? end(?:ed|ing|s)?(?: on)? (?:\d{{1,2}} )?(?P<month>{'|'.join(MONTHS)})[a-z]* ?\d", re.IGNORECASE
)


@lru_cache(maxsize=64)
def _names(doc_id: str, title: str, cover: str) -> Words:
    named = " ".join(match[0] for match in _FIRM.finditer(cover))
    return words_of(re.sub(r"[_\W]+", " ", f"{doc_id} {title} {named}"))


_COVER: Final = 2500  # project default
_FIRM: Final = re.compile(
    r"(?<!\w)(?:[A-Z][\w&.'-]*,?[ \t]+){1,6}"
    r"(?i:inc|corp|corporation|company|co|ltd|limited|plc|group|holdings?|ag|se|s\.?a|n\.?v|llc|lp)\b"
)
"""A company's name with its legal form."""


def own_names(document: Document) -> Words:
    """Return the words of the names that a document gives to its company: id, title, firms on its title page."""
    return _names(document.doc_id, document.title, document.text[:_COVER])
