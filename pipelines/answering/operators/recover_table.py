"""Table recovery (appendix B.3 / C.3): widen a passage whose boundary cuts a table, so that the table is shown whole.

A passage is one contiguous range of its document. When the whole table would break the token bound, the passage
first grows to the table's start, because rows without their column heads say little, and then forwards, row by row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from okralong.pipelines.core.types import Document, Passage, TableSpan


def recover_tables(
    passage: Passage, document: Document, max_tokens: int, count_tokens: Callable[[str], int]
) -> Passage:
    """Widen a passage over the tables that its boundaries cut; the passage itself is returned where none is cut.

    ``document.tables`` must be sorted and disjoint. The result holds the passage's range, its text is
    ``document.text[start_char:end_char]``, its origin "table", and it has at most ``max_tokens`` tokens unless the
    passage itself has more, which is then returned as it is.
    """
    head = _table_over(document.tables, passage.start_char)
    tail = _table_over(document.tables, passage.end_char)
    start = head.start_char if head else passage.start_char
    end = tail.end_char if tail else passage.end_char
    if start == passage.start_char and end == passage.end_char:
        return passage

    def fits(low: int, high: int) -> bool:
        return count_tokens(document.text[low:high]) <= max_tokens

    if not fits(start, end):
        if not fits(passage.start_char, passage.end_char):
            return passage
        start = _earliest_line(document.text, start, passage.start_char, lambda low: fits(low, passage.end_char))
        end = _latest_line(document.text, passage.end_char, end, lambda high: fits(start, high))
        if start == passage.start_char and end == passage.end_char:
            return passage
    text = document.text[start:end]
    return replace(passage, start_char=start, end_char=end, text=text, n_tokens=count_tokens(text), origin="table")


def _table_over(tables: tuple[TableSpan, ...], offset: int) -> TableSpan | None:
    """The table that a boundary at this offset cuts, if any."""
    place = bisect_right(tables, offset, key=lambda table: table.start_char) - 1
    if place >= 0 and tables[place].start_char < offset < tables[place].end_char:
        return tables[place]
    return None


def _earliest_line(text: str, low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The smallest line start in [low, high] that fits, found by bisection; high where no line start does."""
    starts = [low] + [i + 1 for i in _breaks(text, low, high)]
    while starts:
        middle = len(starts) // 2
        if fits(starts[middle]):
            high, starts = starts[middle], starts[:middle]
        else:
            starts = starts[middle + 1 :]
    return high


def _latest_line(text: str, low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest line end in [low, high] that fits, found by bisection; low where no line end does."""
    ends = [*_breaks(text, low, high), high]
    while ends:
        middle = len(ends) // 2
        if fits(ends[middle]):
            low, ends = ends[middle], ends[middle + 1 :]
        else:
            ends = ends[:middle]
    return low


def _breaks(text: str, low: int, high: int) -> list[int]:
    """Offsets of the line breaks in [low, high)."""
    return [i for i in range(low, high) if text[i] == "\n"]
