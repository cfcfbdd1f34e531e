"""Read the tables of one page from the positions of its words and rules.

Words become lines of pieces (`page_lines`), in each part of the page (`page_parts`). Lines with amounts below each
other are the rows of a table; their amounts make columns where their digits overlap (`page_columns`). Heads stand above
the first row (`page_heads`), labels left of the columns (`page_rows`), title and unit above the heads (`page_titles`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.core.tables import Table, TableRow
from okralong.pipelines.indexing.formats.page_columns import (
    MOST_COLUMNS,
    NOTE_HEAD,
    Column,
    columns_of,
    is_note,
    is_note_reference,
    overlap,
    same_columns,
    without_notes,
)
from okralong.pipelines.indexing.formats.page_heads import Heads, read_heads
from okralong.pipelines.indexing.formats.page_lines import DASHES, PERIOD, Line, PageTable, Piece, Rule, Word
from okralong.pipelines.indexing.formats.page_parts import parts_of
from okralong.pipelines.indexing.formats.page_rows import RowReader, row_pitch
from okralong.pipelines.indexing.formats.page_titles import is_unit, table_title, table_unit, unit_in

__all__ = ["page_tables"]

_UNIT_LINES: Final = 7
"""Lines above the heads that the unit may be in. # project default"""
_FAR: Final = 6.0
"""Heights below a table of several columns at which a single one is no longer part of it. # project default"""
_NOTE_LINES: Final = 6
"""Lines above the first row where the head "Note" may stand. # project default"""
_LEAST_LABELED: Final = 0.34
"""Share of rows with a label; charts have fewer. # project default"""
_LEAST_COLUMNS: Final = 3
"""Columns of a table with fewer labels. # project default"""
_LEAST_FILLED: Final = 0.8
"""Share of the cells that such a table has. # project default"""
_LONGEST_HEAD: Final = 250
"""Characters; longer ones are prose. # project default"""


def page_tables(words: Sequence[Word], rules: Sequence[Rule]) -> list[PageTable]:
    """Return the tables of a page in reading order.

    A column without a head is left out with its cells, unless no column of the table has one: such a table may continue
    the one of the page before.

    Args:
        words: The words of the page, in any order.
        rules: Its horizontal lines.
    """
    tables: list[PageTable] = []
    rules = sorted(rules, key=lambda rule: rule.y)
    for lines in parts_of(words):
        left, right = min(line.pieces[0].left for line in lines), max(line.pieces[-1].right for line in lines)
        near = [rule for rule in rules if rule.x0 < right and rule.x1 > left]
        tables.extend(_Page(lines, near, right - left).tables())
    return tables


# Runs of rows.


@dataclass(slots=True)
class _Run:
    """The lines of a table's body: indices of its rows, and the left edge of its values."""

    rows: list[int]
    zone: float
    label_left: float


@dataclass(slots=True)
class _Found:
    """A table with the positions that the next one is compared with."""

    columns: list[Column]
    reader: RowReader
    heads: Heads
    first: int
    last: int
    title: str
    title_pieces: list[Piece]
    unit: str


class _Page:
    """The lines and rules of a page or one of its columns of text."""

    def __init__(self, lines: Sequence[Line], rules: Sequence[Rule], width: float) -> None:
        self.lines = lines
        self.rules = rules
        self.width = width

    def tables(self) -> Iterator[PageTable]:
        """Iterate over the tables from top to bottom."""
        found: list[_Found] = []
        floor, index = 0, 0
        while index < len(self.lines):
            run = self._run(index)
            if run is None:
                index += 1
                continue
            index = run.rows[-1] + 1
            table = self._table(run, floor, found[-1] if found else None)
            if table is not None:
                found.append(table)
                floor = index
            elif found and len(run.rows) > 1:
                floor = index
        for table in found:
            if (whole := self._assembled(table)) is not None:
                yield whole

    def _run(self, first: int) -> _Run | None:
        """Return the rows that begin at a line, or None if none does."""
        lines = self.lines
        line = lines[first]
        if not line.is_data and not self._begins_single_column(first):
            return None
        amounts = line.amounts
        many = len(amounts) > 1
        rows, zone = [first], min(piece.left for piece in amounts)
        columns = [(piece.x0, piece.x1) for piece in amounts]
        label_left = line.pieces[0].left
        for index in range(first + 1, len(lines)):
            line = lines[index]
            height = line.height
            gap = line.y - lines[index - 1].y
            if gap > 4 * height or (line.is_prose(self.width) and line.pieces[-1].right > zone + 2 * height):
                break
            cells = [piece for piece in line.amounts if piece.right > zone - 2]
            others = any(
                not piece.amount and piece.right > zone + 2 * height and piece.left > zone - 12 * height
                for piece in line.pieces
            )
            if not many and sum(piece.amount for piece in line.pieces[1:]) > 1:
                break
            if len(cells) > 1 and all(piece.is_year for piece in cells):
                break
            alone = len(line.pieces) == len(cells) == 1
            if alone and (
                gap > 2.6 * height or not any(min(cells[0].x1, x1) > max(cells[0].x0, x0) for x0, x1 in columns)
            ):
                if gap > 2.6 * height:
                    break
                continue
            if cells:
                rows.append(index)
                label_left = min(label_left, line.pieces[0].left)
                if len(cells) > 1:
                    zone = min(zone, *(piece.left for piece in cells))
                    if len(columns) < MOST_COLUMNS * 3:
                        columns.extend((piece.x0, piece.x1) for piece in cells)
            elif others and not _goes_on(line, lines[rows[-1]], zone):
                break
        if first and self._is_row_of_ranges(first - 1, zone, columns):
            rows.insert(0, first - 1)
        return _Run(rows, zone, label_left)

    def _is_row_of_ranges(self, index: int, zone: float, columns: Sequence[tuple[float, float]]) -> bool:
        """Return whether a line is a label and ranges or amounts below heads: "Volatility 41.1% - 45.4% 20.3%"."""
        line = self.lines[index]
        over = [piece for piece in line.pieces[1:] if piece.right > zone]
        return (
            len(over) == len(line.pieces) - 1 > 0
            and line.pieces[0].left < zone - 3 * line.height
            and not line.pieces[0].amount
            and self.lines[index + 1].y - line.y < 2 * line.height
            and all((piece.amount and not piece.may_be_head) or _RANGE.fullmatch(piece.text) for piece in over)
            and all(any(piece.x0 < x1 and piece.x1 > x0 for x0, x1 in columns) for piece in over)
        )

    def _begins_single_column(self, first: int) -> bool:
        """Return whether two lines near each other have a label and an amount below each other."""
        if not _is_single(self.lines[first]):
            return False
        amount = self.lines[first].pieces[-1]
        return any(
            _is_single(line) and min(amount.x1, line.pieces[-1].x1) > max(amount.x0, line.pieces[-1].x0)
            for line in self.lines[first + 1 : first + 3]
        )

    # One table.

    def _table(self, run: _Run, floor: int, before: _Found | None) -> _Found | None:
        """Return the table with these rows, or None if it is none or was added to the one before."""
        lines = self.lines
        first, last = run.rows[0], run.rows[-1]
        cells_of = {index: self._cells(lines[index], run) for index in run.rows}
        cells = [piece for pieces in cells_of.values() for piece in pieces if piece.amount]
        if len(cells) < 2:
            return None
        columns = columns_of(list(cells_of.values()))
        if len(columns) > MOST_COLUMNS:
            return None
        notes = self._note_heads(first, floor)
        columns, cells_of = without_notes(columns, cells_of, notes)
        if not columns:
            return None
        zone = min(column.left for column in columns)
        heads = read_heads(
            lines, first, floor, columns, (run.label_left, self._label_right(run, cells_of, zone)), self.rules
        )
        headless = not any(heads.levels)
        texts = self._text_columns(run, cells_of, heads, zone)
        columns = [*texts, *columns]
        if headless and before is not None and self._goes_on_with(before, columns, first, zone):
            reader = RowReader(lines, before.columns, zone, before.reader.pitch, before.reader.rows)
            reader.sections = before.reader.sections
        else:
            reader = RowReader(lines, columns, zone, row_pitch(lines, run.rows))
        for index in range(heads.bottom if not headless else self._labels_begin(first, floor, zone), last + 1):
            line = lines[index]
            values = cells_of.get(index, [])
            of_columns = set(values)
            labels = [
                piece
                for piece in line.pieces
                if piece not in of_columns and piece.left < zone and not is_note_reference(piece, notes)
            ]
            if texts:
                words = [piece for piece in labels[1:] if any(overlap(piece, text) > 0 for text in texts)]
                values = [*words, *values]
                of_columns = set(words)
                labels = [piece for piece in labels if piece not in of_columns]
            if texts and index not in cells_of:
                labels = [piece for piece in labels if piece.left < texts[0].x0]
            if index < first and (labels == [] or unit_in(line.text) or (headless and line.is_prose(self.width))):
                continue
            reader.read(index, values, labels)
        if headless and before is not None and reader.rows is before.reader.rows:
            before.last = last
            return None
        if len(columns) == 1 and not _is_plausible_single(columns, cells, heads):
            return None
        title, title_pieces = table_title(lines, heads.top if not headless else first, floor, self.width)
        above = [*range(max(floor, heads.top - _UNIT_LINES), heads.top), *range(heads.bottom, first)]
        unit = table_unit(lines, [*heads.stub, *heads.units], heads.levels, above, heads.top)
        return _Found(columns, reader, heads, first, last, title, title_pieces, unit)

    def _goes_on_with(self, before: _Found, columns: Sequence[Column], first: int, zone: float) -> bool:
        """Return whether rows without heads go on with the table before: nothing that could be a head is between."""
        lines = self.lines
        between = lines[before.last + 1 : first]
        if any(_may_have_heads(line, zone) for line in between):
            return False
        alone = len(columns) == 1 < len(before.columns)
        far = lines[first].y - lines[before.last].y > _FAR * lines[first].height
        return same_columns(columns, before.columns) and not (alone and far)

    def _cells(self, line: Line, run: _Run) -> list[Piece]:
        """Return the amounts of a row that are no labels."""
        cells = [piece for piece in line.amounts if piece.right > run.zone - 2]
        first = line.pieces[0]
        if len(line.pieces) > 1 and cells and cells[0] is first and first.left <= run.label_left + 2 * line.height:
            cells = cells if line.pieces[1].amount and not first.may_be_head else cells[1:]
        if not cells:
            return []
        cells += [piece for piece in line.pieces[1:] if not piece.amount and piece.right > run.zone + line.height]
        return sorted(cells, key=lambda piece: piece.left)

    def _text_columns(self, run: _Run, cells_of: dict[int, list[Piece]], heads: Heads, zone: float) -> list[Column]:
        """Return columns of words between labels and values that have a head, which is moved from the stub."""
        height = self.lines[run.rows[0]].height
        groups: list[tuple[Column, list[Piece]]] = []
        for piece in heads.stub:
            if piece.left < run.label_left + 3 * height or NOTE_HEAD.fullmatch(piece.text):
                continue
            for column, pieces in groups:
                if overlap(piece, column) > 0:
                    column.add(piece)
                    pieces.append(piece)
                    break
            else:
                groups.append((Column(piece.x0, piece.x1, piece.left, piece.right), [piece]))
        groups.sort(key=lambda group: group[0].x0)
        values = {piece for pieces in cells_of.values() for piece in pieces}
        texts: list[Column] = []
        for column, pieces in groups:
            cells = [
                piece
                for index in run.rows
                for piece in self.lines[index].pieces[1:]
                if piece.left < zone and piece not in values and overlap(piece, column) > 0
            ]
            if len(cells) < min(2.0, 0.5 * len(run.rows)):
                continue
            for cell in cells:
                column.add(cell)
            heads.stub = [piece for piece in heads.stub if piece not in pieces]
            heads.pieces.extend(pieces)
            heads.levels.insert(len(texts), (" ".join(piece.text for piece in pieces),))
            texts.append(column)
        return texts

    def _note_heads(self, first: int, floor: int) -> list[Piece]:
        """Return the heads "Note" above a row."""
        lines = self.lines[max(floor, first - _NOTE_LINES) : first]
        return [piece for line in lines for piece in line.pieces if NOTE_HEAD.fullmatch(piece.text)]

    def _label_right(self, run: _Run, cells_of: dict[int, list[Piece]], zone: float) -> float:
        """Return the right edge of the labels."""
        values = {piece for pieces in cells_of.values() for piece in pieces}
        rights = [
            piece.right
            for index in run.rows
            for piece in self.lines[index].pieces
            if piece.right < zone and piece not in values
        ]
        return max(rights, default=zone - 4 * self.lines[run.rows[0]].height)

    def _labels_begin(self, first: int, floor: int, zone: float) -> int:
        """Return the first of the lines above a row without heads that may begin its label."""
        start = first
        while start > max(floor, first - 2):
            line = self.lines[start - 1]
            if (
                line.amounts
                or line.pieces[-1].right > zone + line.height
                or self.lines[start].y - line.y > 2 * line.height
            ):
                break
            start -= 1
        return start

    def _assembled(self, found: _Found) -> PageTable | None:
        """Return a table without the columns that have no head, unless none has one."""
        kept = [
            place
            for place, levels in enumerate(found.heads.levels)
            if levels and not is_note(levels) and sum(map(len, levels)) <= _LONGEST_HEAD
        ]
        if not kept:
            if any(found.heads.levels):
                return None
            kept = list(range(len(found.columns)))
        rows = found.reader.table_rows({place: new for new, place in enumerate(kept)})
        labelled = sum(bool(row.label) for row in rows)
        if not rows or (
            labelled < _LEAST_LABELED * len(rows)
            and not _needs_no_labels([found.heads.levels[place] for place in kept], rows)
        ):
            return None
        pieces = [*found.heads.pieces, *found.heads.stub, *found.title_pieces]
        levels = [found.heads.levels[place] for place in kept]
        label_head = ""
        if not labelled and _are_labels(rows):
            rows = tuple(_labelled(row) for row in rows)
            label_head, levels, kept = levels[0][-1], levels[1:], kept[1:]
        stub = label_head or " ".join(
            piece.text for piece in found.heads.stub if not is_unit(piece.text) and not NOTE_HEAD.fullmatch(piece.text)
        )
        table = Table(
            min([rows[0].start, *(piece.start for piece in pieces)]),
            max(row.end for row in rows),
            tuple(levels),
            rows,
            title=found.title,
            unit=found.unit,
            stub=stub,
        )
        columns = [found.columns[place] for place in kept]
        return PageTable(table, tuple((column.left, column.right) for column in columns))


def _are_labels(rows: Sequence[TableRow]) -> bool:
    """Return whether the first column tells rows without labels apart: "+300", "$15.00"."""
    firsts = [row.cells[0].text for row in rows if row.cells[0].column == 0]
    return len(set(firsts)) == len(firsts) >= _LEAST_FILLED * len(rows) and all(len(row.cells) > 1 for row in rows)


def _labelled(row: TableRow) -> TableRow:
    """Return a row with its cell in the first column as its label."""
    label = row.cells[0].text if row.cells[0].column == 0 else ""
    cells = tuple(replace(cell, column=cell.column - 1) for cell in row.cells if cell.column)
    return replace(row, label=label, cells=cells)


def _may_have_heads(line: Line, zone: float) -> bool:
    """Return whether a line has periods over the columns, or nothing but several pieces over them."""
    over = [piece for piece in line.pieces if piece.left > zone - line.height]
    return any(piece.is_period for piece in over) or len(over) == len(line.pieces) > 1


def _needs_no_labels(heads: Sequence[tuple[str, ...]], rows: Sequence[TableRow]) -> bool:
    """Return whether columns with heads of their own and nearly no blank cell make a table; a chart has no such."""
    if len(heads) < _LEAST_COLUMNS or len(rows) < 2 or len(set(heads)) < len(heads):
        return False
    filled = sum(len(row.cells) for row in rows)
    return all(map(_is_worded, heads)) and filled >= _LEAST_FILLED * len(heads) * len(rows)


def _is_worded(levels: Sequence[str]) -> bool:
    """Return whether the lowest head of a column is a word or a period, and no head has an amount."""
    worded = bool(PERIOD.fullmatch(levels[-1]) or re.search(r"[^\W\d]{3}|[%$€£]", levels[-1]))
    return worded and not any(re.search(r"\d(?:,\d{3}|\s?%)", level) for level in levels)


def _goes_on(line: Line, row: Line, zone: float) -> bool:
    """Return whether a line holds nothing but further lines of the words among a row's values."""
    words = [piece for piece in row.pieces[1:] if not piece.amount and piece.right > zone]
    return bool(words) and all(
        any(piece.left < word.right and piece.right > word.left for word in words) for piece in line.pieces
    )


def _is_single(line: Line) -> bool:
    """Return whether a line is a label and, far from it, one amount."""
    pieces = line.pieces
    return (
        len(pieces) > 1
        and pieces[-1].amount
        and not any(piece.amount for piece in pieces[:-1])
        and pieces[-1].left - pieces[-2].right > 3 * line.height
        and not pieces[-1].is_year
    )


_RANGE: Final = re.compile(rf"[$€£]?\d[\d,.]*(?:[.]\d+|%)%? ?(?:[{DASHES}]|to) ?[$€£]?\d[\d,.]*%?")
"""Two numbers with a decimal point or a percent sign."""
_PRECISE: Final = re.compile(r"[,.$€£%()]")


def _is_plausible_single(columns: Sequence[Column], cells: Sequence[Piece], heads: Heads) -> bool:
    """Return whether a table with one column is one, rather than a list of pages or items."""
    if any(re.fullmatch(r"pages?(?: no\.?)?", level, re.IGNORECASE) for level in heads.levels[0]):
        return False
    return sum(bool(_PRECISE.search(cell.text)) for cell in cells) >= 0.5 * len(cells)
