"""Read the tables of pages within limits, and give those that go on over a page what their first page says."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.indexing.documents import Losses
from okralong.pipelines.indexing.formats.page_lines import PageTable, Rule, Word
from okralong.pipelines.indexing.formats.page_tables import page_tables
from okralong.pipelines.indexing.formats.time_limit import TooSlow, processor_time

_MOST_WORDS: Final = 6_000
"""Words of a page whose tables are read; a page of a newspaper has 5,000. # project default"""
_PAGE_S: Final = 1.0
"""Processor time for the tables of a page; 2,000 pages took 0.02 s in the mean. # project default"""
_DOCUMENT_S: Final = 40.0
"""The same for those of a document, a third of what reading it may take. # project default"""
_LEAST_LINES: Final = 2

_AMOUNT: Final = re.compile(r"(?<![^\s($\u20ac\u00a3+\u2212-])\d[\d.,]*[)%*-]*[A-Za-z]{0,3}(?=\s|$)")
"""A number that stands alone, also "1.2m"."""


@dataclass
class TableReader:
    """Reads the tables of a document's pages within a limit of processor time; ``unread`` counts pages without."""

    _left: float = _DOCUMENT_S
    unread: list[int] = field(default_factory=list)

    def of_words(self, number: int, words: Sequence[Word], rules: Sequence[Rule] = ()) -> tuple[PageTable, ...]:
        """Return the tables of page ``number``, from 1, with offsets into the page's text."""
        if not words:
            return ()
        started = time.process_time()
        try:
            if len(words) <= _MOST_WORDS and self._left > 0:
                with processor_time(min(_PAGE_S, self._left)):
                    return tuple(_with_whole_rows(page_tables(words, rules), words))
        except TooSlow:
            pass
        finally:
            self._left -= time.process_time() - started
        self.unread.append(number)
        return ()

    def count_losses(self, losses: Losses) -> None:
        """Count the pages whose tables were not read."""
        count_pages(losses, "whose tables were not read", self.unread)


def may_have_tables(text: str) -> bool:
    """Return whether a page has lines with numbers enough for a table."""
    found = 0
    for line in text.split("\n"):
        if _AMOUNT.search(line):
            found += 1
            if found == _LEAST_LINES:
                return True
    return False


_MOST_PLACES: Final = 10
"""Ranges of pages that are listed. # project default"""


def count_pages(losses: Losses, what: str, numbers: Sequence[int], remedy: str = "") -> None:
    """Count pages by their numbers: "4 pages with damage: 1, 3-5"."""
    found = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        found.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    places = ", ".join(found[:_MOST_PLACES]) + (", ..." if len(found) > _MOST_PLACES else "")
    losses.add(f"page {what}: {places}", f"pages {what}: {places}", len(numbers), remedy)


def _with_whole_rows(tables: Sequence[PageTable], words: Sequence[Word]) -> list[PageTable]:
    """Return tables without the rows of which the page's text lacks a word."""
    missing = sorted({word.start for word in words if word.start == word.end})
    if not missing:
        return list(tables)
    whole = []
    for each in tables:
        rows = tuple(row for row in each.table.rows if not any(row.start <= at <= row.end for at in missing))
        if rows:
            whole.append(replace(each, table=replace(each.table, rows=rows)))
    return whole


# Tables over pages.

_TOP_CHARS: Final = 300
"""Characters of a running head above a table at the top of a page. # project default"""
_CONTINUED: Final = ("continued", "cont'd", "cont\u2019d", "contd", "fortsetzung", "suite")
_BESIDE: Final = " ().,:;-\u2013\u2014*[]"
_MOST_SECTION: Final = 80
"""Characters of a section's heading, which ends in a colon as sentences before a table do. # project default"""
_SHIFT: Final = 40.0
"""Points by which the columns of a table may stand elsewhere on the next page, as left and right pages do. # project
default"""


@dataclass(frozen=True, slots=True)
class PageTables:
    """The tables of a page with this name and text, which begins at ``start`` in the document's text."""

    name: str
    start: int
    text: str
    tables: tuple[PageTable, ...]


def document_tables(pages: Iterable[PageTables | None]) -> tuple[Table, ...]:
    """Return the tables of a document from those of its pages, None for a page without text.

    A table without heads at the top of a page takes heads, title and unit of the last table of the page before if its
    columns stand as there. So does a table with the same heads and no title, and one whose title is the same, with
    or without "(continued)", for a title and unit that it lacks. Other tables without heads are left out.
    """
    tables: list[Table] = []
    before: PageTable | None = None
    for page in pages:
        last: PageTable | None = None
        if page is None:
            before = None
            continue
        for at, each in enumerate(page.tables):
            is_at_top = at == 0 and len(page.text[: each.table.start].strip()) <= _TOP_CHARS
            last = _continued(_as_in(page.text, each), before if is_at_top else None)
            if last is not None:
                tables.append(_moved(last.table, page.start, page.name))
        before = last
    return tuple(tables)


def _as_in(text: str, each: PageTable) -> PageTable:
    """Return a table without cells that the text does not have in one piece, as where it mixes two columns of words."""

    def is_there(cell: TableCell) -> bool:
        return "".join(text[cell.start : cell.end].split()) == "".join(cell.text.split())

    if all(is_there(cell) for _, cell in each.table.values()):
        return each
    rows = tuple(replace(row, cells=tuple(filter(is_there, row.cells))) for row in each.table.rows)
    return replace(each, table=replace(each.table, rows=tuple(row for row in rows if row.cells)))


def _continued(each: PageTable, before: PageTable | None) -> PageTable | None:
    """Return a table with what it takes from the one before, None if it has no heads."""
    table = each.table
    if before is not None:
        first, title = before.table, _first_title(table.title)
        same_title = bool(title) and title == _first_title(first.title)
        columns = _same_columns(each.columns, before.columns)
        if not any(table.heads) and any(first.heads) and columns is not None:
            if table.title.endswith(":") and len(table.title) <= _MOST_SECTION:
                table = _below(table.title, table)
            if same_title or not table.title:
                heads = tuple(first.heads[column] for column in columns)
                table = replace(table, heads=heads, stub=table.stub or first.stub)
                return replace(each, table=_with_head(table, first))
        goes_on = not title and table.heads == first.heads and columns and table.unit in ("", first.unit)
        if any(table.heads) and (same_title or goes_on):
            return replace(each, table=_with_head(table, first))
    return each if all(table.heads) or len(table.heads) == 1 else None


def _below(section: str, table: Table) -> Table:
    """Return a table whose title is rather the section that its rows are below."""
    rows = tuple(replace(row, sections=(section, *row.sections)) for row in table.rows)
    return replace(table, rows=rows, title="")


def _first_title(title: str) -> str:
    """Return the title that a table has on its first page, in lower case."""
    bare = title.casefold().strip(_BESIDE)
    ending = next((ending for ending in _CONTINUED if bare.endswith(ending)), "")
    return bare.removesuffix(ending).strip(_BESIDE)


def _with_head(table: Table, first: Table) -> Table:
    return replace(table, title=table.title or first.title, unit=table.unit or first.unit)


def _same_columns(
    columns: Sequence[tuple[float, float]], before: Sequence[tuple[float, float]]
) -> tuple[int, ...] | None:
    """Return for each column which one before it continues, or None if they do not stand alike."""
    if not columns or len(columns) > len(before) or len(columns) == 1 < len(before):
        return None
    shift = columns[-1][1] - before[-1][1] if len(columns) == len(before) else 0.0
    if abs(shift) > _SHIFT:
        return None
    found = []
    for left, right in columns:
        over = [min(right - shift, x1) - max(left - shift, x0) for x0, x1 in before]
        most = max(range(len(before)), key=over.__getitem__)
        if over[most] <= 0 or most in found:
            return None
        found.append(most)
    return tuple(found)


def _moved(table: Table, by: int, page: str) -> Table:
    """Return a table with offsets into the document's text."""
    rows = tuple(_moved_row(row, by) for row in table.rows)
    return replace(table, start=table.start + by, end=table.end + by, rows=rows, page=page)


def _moved_row(row: TableRow, by: int) -> TableRow:
    cells = tuple(replace(cell, start=cell.start + by, end=cell.end + by) for cell in row.cells)
    return replace(row, start=row.start + by, end=row.end + by, cells=cells)
