"""Write the tables of web pages as lines ``| cell | cell |`` in which each column keeps its place.

Filings put the parts of one figure into cells of their own: ``$``, ``(1,204`` and ``)``. They are joined, and a head
that spans them stands above the figure. A table that only arranges text on the page becomes text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from okralong.pipelines.indexing.formats.flow import Flow, Place, on_one_line
from okralong.pipelines.indexing.formats.text import PLACES_A_CELL

_MOST_SPAN: Final = 1_000
"""Columns that a cell may span, as in browsers."""
_STEPS_A_CELL: Final = 16
_MOST_REPEATED_CHARS: Final = 80
"""Longest label that is written again in each row that it spans. # project default"""


@dataclass(slots=True)
class Cell:
    """A cell: its text with the places in it, and its columns ``[start, end)``, of which ``at`` has the text."""

    start: int
    end: int
    text: str
    places: list[Place] = field(default_factory=list)
    at: int = -1
    has_table: bool = False
    is_mark: bool = False


@dataclass(slots=True)
class _Spec:
    flow: Flow
    columns: int
    rows: int


class Table:
    """Collects the rows of a table.

    ``caption`` is the text of its caption, ``group`` says whether rows that begin are of its head (0), body (1) or
    foot (2).
    """

    def __init__(self) -> None:
        self.caption = Flow()
        self.group = 1
        self._rows: list[tuple[int, list[_Spec]]] = []

    def row(self) -> None:
        """Begin a row."""
        self._rows.append((self.group, []))

    def cell(self, columns: str | None, rows: str | None) -> Flow:
        """Begin a cell with its ``colspan`` and ``rowspan``, and return its text."""
        if not self._rows:
            self.row()
        flow = Flow()
        self._rows[-1][1].append(_Spec(flow, _span(columns), _span(rows, zero=_MOST_SPAN)))
        return flow

    def write(self, out: Flow, within: bool) -> None:
        """Write the table to ``out``; ``within`` says that this is the text of a cell of another table."""
        if self.caption.size:
            out.newline(2)
            out.add(self.caption.finished(), self.caption.places)
            out.newline()
        placed = (line for row in _placed(self._in_order()) for line in _unstacked(row))
        rows = [row for row in map(_joined, placed) if row]
        if not rows:
            return
        columns = _align(rows)
        if within and len(rows) == 1:
            for cell in rows[0]:
                out.blank()
                out.add(cell.text, cell.places, cell.has_table)
            out.blank()
            return
        out.newline(2)
        is_layout = len(columns) == 1 or all(len(row) == 1 or _is_item(row) for row in rows)
        filled = len(rows) * len(columns) <= PLACES_A_CELL * sum(map(len, rows))
        places = columns if filled else None
        for as_text, group in groupby(rows, lambda row: is_layout or any(cell.has_table for cell in row)):
            if as_text:
                for row in group:
                    _write_text(row, out)
            else:
                _write_lines(list(group), places, out)
        out.newline(2)

    def _in_order(self) -> list[list[_Spec]]:
        return [row for _, row in sorted(self._rows, key=lambda each: each[0])]


def _span(said: str | None, zero: int = 1) -> int:
    digits = (said or "").strip()[:6]
    if not digits.isascii() or not digits.isdigit():
        return 1
    return min(int(digits), _MOST_SPAN) or zero


def _placed(rows: Sequence[Sequence[_Spec]]) -> Iterator[list[Cell]]:
    """Yield the cells of each row that have text, in their columns; a label is repeated in all rows that it spans."""
    held: list[tuple[int, int, int, Cell | None]] = []  # (start, end, rows left, the label to repeat) from rows above
    steps = _STEPS_A_CELL * (sum(map(len, rows)) + len(rows))
    for row in rows:
        found: list[Cell] = []
        kept: list[tuple[int, int, int, Cell | None]] = []
        column, number = 0, 0
        for start, end, left, label in held:
            steps -= 1
            while number < len(row) and column < start:
                column = _take(row[number], column, found, kept)
                number += 1
            column = max(column, end)
            if label is not None:
                found.append(Cell(start, end, label.text, at=start))
            if left > 1:
                kept.append((start, end, left - 1, label))
        for spec in row[number:]:
            column = _take(spec, column, found, kept)
        held = sorted(kept, key=lambda each: each[0]) if steps > 0 else []
        yield sorted(found, key=lambda cell: cell.start)


def _take(spec: _Spec, column: int, found: list[Cell], kept: list[tuple[int, int, int, Cell | None]]) -> int:
    text = spec.flow.finished()
    end = column + spec.columns
    cell = Cell(column, end, text, spec.flow.places, column, spec.flow.has_table)
    if text:
        cell.is_mark = spec.flow.mark_end == len(text) or bool(_MARK.fullmatch(text))
        found.append(cell)
    if spec.rows > 1:
        label = len(text) <= _MOST_REPEATED_CHARS and "\n" not in text and any(map(str.isalpha, text))
        kept.append((column, end, spec.rows - 1, cell if label else None))
    return end


def _unstacked(row: list[Cell]) -> list[list[Cell]]:
    """Return the rows that a row stacks in its cells: a label, and a figure beside it, on each line."""
    lines = [len(_LINE_ENDS.findall(cell.text)) + 1 for cell in row]
    is_stack = len(row) > 1 and lines[0] > 1 and len(set(lines)) == 1 and not any(cell.has_table for cell in row)
    if not is_stack or not any(all(map(_FIGURES.fullmatch, cell.text.split())) for cell in row):
        return [row]
    found: list[list[Cell]] = [[] for _ in range(lines[0])]
    for cell in row:
        places, at = sorted(cell.places, key=lambda place: place.start), 0
        number = 0
        for line, end in zip(found, [*_LINE_ENDS.finditer(cell.text), None], strict=True):
            stop = end.start() if end else len(cell.text)
            part = Cell(cell.start, cell.end, cell.text[at:stop], at=cell.at)
            while number < len(places) and (places[number].start <= stop or not end):
                place = places[number]
                place.start, place.end = max(0, place.start - at), max(0, min(place.end, stop) - at)
                part.places.append(place)
                number += 1
            line.append(part)
            at = end.end() if end else stop
    return found


_LINE_ENDS: Final = re.compile(r"\n+")
_FIGURES: Final = re.compile(r"[$\u20ac\u00a3(\[+\-\u2212\u2013\u2014]*[\d.,]*[)\]%]*")

# The parts of a figure.

_MOST_FIGURE_CHARS: Final = 60
"""Longest text that a part is joined to, so that a row of a million parts takes linear time. # project default"""
_CURRENCY: Final = re.compile(r"[A-Z]{0,3}[$€£¥₹₩]|[$€£¥₹₩]\s?[A-Z]{0,3}")
_FIGURE: Final = re.compile(r"[(\[+\-\u2212\u2013\u2014]*\s?[.\d]|[\u2014\u2013-]+$|\(")
_CLOSING: Final = re.compile(r"\)\s?%?|%\s?\)?|\]|pts?\.?|bps?\.?")
_ENDS_FIGURE: Final = re.compile(r"[\d)%.\u2014\u2013-]$")
_MARK: Final = re.compile(r"\([a-z]\)(?:\s?\([a-z]\))*|[*\u2020\u2021#]{1,3}")


def _joined(row: Sequence[Cell]) -> list[Cell]:
    """Join the cells that hold parts of one figure."""
    out: list[Cell] = []
    follows = _has_currency_behind(row)
    for cell in row:
        before = out[-1] if out else None
        if before is not None and len(before.text) < _MOST_FIGURE_CHARS and not (before.has_table or cell.has_table):
            if follows and _CURRENCY.fullmatch(cell.text) and _ENDS_FIGURE.search(before.text):
                out[-1] = _both(before, " ", cell, before.at)
                continue
            opens = before.text in ("(", "[") or (not follows and bool(_CURRENCY.fullmatch(before.text)))
            if opens and _FIGURE.match(cell.text):
                gap = "" if before.text in ("(", "[") else " "
                out[-1] = _both(before, gap, cell, cell.at)
                continue
            if _continues(before, cell):
                out[-1] = _both(before, " " if cell.text[0].isalpha() or cell.is_mark else "", cell, before.at)
                continue
        out.append(cell)
    return out


def _has_currency_behind(row: Sequence[Cell]) -> bool:
    """Return whether the currency stands behind the figures of a row: ``1.204 | €``."""
    signs = [bool(_CURRENCY.fullmatch(cell.text)) for cell in row]
    if len(row) < 2 or not signs[-1]:
        return False
    return bool(_FIGURE.match(row[signs.index(True) - 1].text)) and signs.index(True) > 0


def _continues(before: Cell, cell: Cell) -> bool:
    if not _ENDS_FIGURE.search(before.text) or not any(map(_is_figure_char, before.text)):
        return False
    if cell.text.startswith(")"):
        return bool(_CLOSING.fullmatch(cell.text)) and before.text.count("(") > before.text.count(")")
    return cell.is_mark or bool(_CLOSING.fullmatch(cell.text))


def _is_figure_char(char: str) -> bool:
    return char.isdigit() or char in "\u2014\u2013-"


def _both(first: Cell, gap: str, second: Cell, at: int) -> Cell:
    shift = len(first.text) + len(gap)
    for place in second.places:
        place.start += shift
        place.end += shift
    text = f"{first.text}{gap}{second.text}"
    return Cell(first.start, second.end, text, first.places + second.places, at)


# The columns of the text.


def _align(rows: Iterable[Sequence[Cell]]) -> list[int]:
    """Move each cell to a column that narrower cells within its span use, and return the columns."""
    cells = sorted((cell for row in rows for cell in row), key=lambda cell: cell.end - cell.start)
    used: list[int] = []
    known: set[int] = set()
    for cell in cells:
        if cell.at not in known:
            place = bisect_left(used, cell.start)
            if place < len(used) and used[place] < cell.end:
                cell.at = used[place]
            else:
                insort(used, cell.at)
                known.add(cell.at)
    return used


_ITEM: Final = re.compile(
    r"[\u2022\u25cf\u25cb\u25aa\u25a0\u2023\u00b7\u2013*o-]|\(?(?:\d{1,2}|[a-z]{1,4})[.)]", re.IGNORECASE
)
_ITEM_WORDS: Final = 4


def _is_item(row: Sequence[Cell]) -> bool:
    """Return whether a row is an item of a list: a bullet or number and text."""
    return len(row) == 2 and bool(_ITEM.fullmatch(row[0].text)) and row[1].text.count(" ") >= _ITEM_WORDS


def _write_text(row: Sequence[Cell], out: Flow) -> None:
    apart = out.fresh_line if _is_item(row) else out.newline
    apart()
    for cell in row:
        if cell.has_table:
            out.newline(2)
        out.blank()
        out.add(cell.text, cell.places, cell.has_table)
    apart()


def _write_lines(rows: Sequence[Sequence[Cell]], columns: Sequence[int] | None, out: Flow) -> None:
    parts: list[str] = []
    places: list[Place] = []
    size = 0
    numbers = {column: number for number, column in enumerate(columns)} if columns is not None else {}
    for row in rows:
        begin = "\n| " if parts else "| "
        parts.append(begin)
        size += len(begin)
        written = 0
        for cell in row:
            text = on_one_line(cell.text, cell.places).replace("|", "/")
            skip = numbers[cell.at] - written if columns is not None else 0
            gap = (" | " if written else "") + " | " * skip
            parts += (gap, text)
            size += len(gap)
            for place in cell.places:
                place.start += size
                place.end += size
                places.append(place)
            size += len(text)
            written += skip + 1
        end = " | " * (len(columns) - written) + " |" if columns is not None else " |"
        parts.append(end)
        size += len(end)
    out.newline()
    out.add("".join(parts), places, has_table=len(rows) > 1 and any(len(row) > 1 for row in rows))
    out.newline()
