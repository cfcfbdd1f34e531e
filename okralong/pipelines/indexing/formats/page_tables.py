"""Read the tables of one page from the positions of its words and rules.

Words become lines of pieces (`page_lines`). Lines with amounts below each other are the rows of a table; their amounts
make columns where their digits overlap. Heads stand above the first row (`page_heads`), labels left of the columns
(`page_rows`), title and unit above the heads.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.core.tables import Table
from okralong.pipelines.indexing.formats.page_heads import (
    Column,
    Heads,
    is_data,
    is_date_line,
    is_unit,
    read_heads,
    unit_in,
)
from okralong.pipelines.indexing.formats.page_lines import Line, PageTable, Piece, Rule, Word, read_lines
from okralong.pipelines.indexing.formats.page_rows import RowReader, row_pitch

__all__ = ["page_tables"]

_PAGE_TOP: Final = 6
"""First lines of a page, where a unit counts for all of its tables."""
_MOST_COLUMNS: Final = 40
"""Columns of a table; more are no table of a report. # project default"""


def page_tables(words: Sequence[Word], rules: Sequence[Rule]) -> list[PageTable]:
    """Return the tables of a page in reading order.

    A column without a head is left out with its cells, unless no column of the table has one: such a table may continue
    the one of the page before.

    Args:
        words: The words of the page, in any order.
        rules: Its horizontal lines.
    """
    tables: list[PageTable] = []
    for part in _parts(words):
        left, right = min(word.x0 for word in part), max(word.x1 for word in part)
        near = [rule for rule in rules if rule.x0 < right and rule.x1 > left]
        for lines in _beside(part, read_lines(part)):
            tables.extend(_Page(lines, near).tables())
    return tables


# Parts of the page: two columns of text, or two tables side by side.


def _parts(words: Sequence[Word]) -> list[list[Word]]:
    """Return the words of the page's columns of text."""
    words = [word for word in words if word.x1 > 0]
    if not words:
        return []
    gutter = _gutter(words)
    if gutter is None:
        return [list(words)]
    sides = [word for word in words if word.x0 < gutter], [word for word in words if word.x0 >= gutter]
    return [side for side in sides if side]


_LEAST_STARTS: Final = 7
"""Lines of a right text column that make one."""


def _gutter(words: Sequence[Word]) -> float | None:
    """Return where the right column of text begins: the left edge of many words near the middle of the page."""
    page_left, page_right = min(word.x0 for word in words), max(word.x1 for word in words)
    width = page_right - page_left
    rows: defaultdict[int, list[Word]] = defaultdict(list)
    for word in words:
        rows[round(word.y)].append(word)
    starts: list[float] = []
    for row in rows.values():
        row.sort(key=lambda word: word.x0)
        for before, word in zip([None, *row], row, strict=False):
            if (
                page_left + 0.4 * width < word.x0 < page_left + 0.62 * width
                and word.text[:1].isalpha()
                and (before is None or word.x0 - before.x1 > word.height)
            ):
                starts.append(word.x0)
    starts.sort()
    edge, most, end = 0.0, 0, 0
    for place, start in enumerate(starts):
        while end < len(starts) and starts[end] - start < 3.5:
            end += 1
        if end - place > most:
            edge, most = start, end - place
    if most < _LEAST_STARTS:
        return None
    crossing = sum(word.x0 < edge - 2 < word.x1 for word in words)
    return edge - 1.5 if crossing <= max(2, 0.01 * len(words)) else None


_LEAST_BESIDE: Final = 3
"""Rows of two tables side by side that make them two."""


def _beside(words: Sequence[Word], lines: list[Line]) -> list[list[Line]]:
    """Return the lines of a page, apart from them those of the right one of two tables side by side.

    Both have the same heads, and the labels of the right one have a common left edge.
    """
    starts = sorted((label.left, place) for place, line in enumerate(lines) if (label := _second_label(line)))
    edge, most, end = 0, 0, 0
    for place, (start, _) in enumerate(starts):
        while end < len(starts) and starts[end][0] - start < 4.0:
            end += 1
        if end - place > most:
            edge, most = place, end - place
    if most < _LEAST_BESIDE:
        return [lines]
    x = starts[edge][0] - 1.0
    rows = [place for _, place in starts[edge : edge + most]]
    first, last = min(rows), max(rows)
    if not any(_has_same_heads(line, x) for line in lines[max(0, first - 3) : first]):
        return [lines]
    while first > 0 and _is_free(lines[first - 1], x) and lines[first].y - lines[first - 1].y < 3 * lines[first].height:
        first -= 1
    while (
        last + 1 < len(lines)
        and _is_free(lines[last + 1], x)
        and lines[last + 1].y - lines[last].y < 3 * lines[last].height
    ):
        last += 1
    top, bottom = lines[first].y - lines[first].height, lines[last].y + 0.3 * lines[last].height
    right = {word for word in words if word.x0 >= x and top <= word.y <= bottom}
    return [read_lines(word for word in words if word not in right), read_lines(right)]


def _second_label(line: Line) -> Piece | None:
    """Return the only piece of words between amounts."""
    found = [
        label
        for before, label, after in zip(line.pieces, line.pieces[1:], line.pieces[2:], strict=False)
        if before.amount and after.amount and not label.amount and label.text[0].isalpha()
    ]
    return found[0] if len(found) == 1 and not line.pieces[0].amount else None


def _has_same_heads(line: Line, x: float) -> bool:
    """Return whether a line has the same periods left and right of ``x``."""
    left = [piece.text for piece in line.pieces if piece.right < x and piece.is_period]
    right = [piece.text for piece in line.pieces if piece.left > x and piece.is_period]
    return bool(left) and left == right


def _is_free(line: Line, x: float) -> bool:
    return not any(piece.left < x < piece.right for piece in line.pieces)


_TITLE_LINES: Final = 14
"""Lines above a table in which its title is looked for. # project default"""
_SENTENCE_START: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_INTRODUCES: Final = re.compile(
    r"\b(?:table|follow\w*|below|set forth|sets out|summar\w+|as shown|shown)\b", re.IGNORECASE
)


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

    def __init__(self, lines: Sequence[Line], rules: Sequence[Rule]) -> None:
        self.lines = lines
        self.rules = rules
        self.width = (
            max(line.pieces[-1].right for line in lines) - min(line.pieces[0].left for line in lines) if lines else 0.0
        )

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
        if not is_data(line) and not self._begins_single_column(first):
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
            if gap > 4 * height or (self._is_prose(line) and line.pieces[-1].right > zone + 2 * height):
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
                    if len(columns) < _MOST_COLUMNS * 3:
                        columns.extend((piece.x0, piece.x1) for piece in cells)
            elif others and not _goes_on(line, lines[rows[-1]], zone):
                break
        return _Run(rows, zone, label_left)

    def _begins_single_column(self, first: int) -> bool:
        """Return whether two lines near each other have a label and an amount below each other."""
        if not _is_single(self.lines[first]):
            return False
        amount = self.lines[first].pieces[-1]
        return any(
            _is_single(line) and min(amount.x1, line.pieces[-1].x1) > max(amount.x0, line.pieces[-1].x0)
            for line in self.lines[first + 1 : first + 3]
        )

    def _is_prose(self, line: Line) -> bool:
        piece = line.pieces[0]
        return len(line.pieces) <= 2 and piece.right - piece.left > 0.62 * self.width and not piece.amount

    # One table.

    def _table(self, run: _Run, floor: int, before: _Found | None) -> _Found | None:
        """Return the table with these rows, or None if it is none or was added to the one before."""
        lines = self.lines
        first, last = run.rows[0], run.rows[-1]
        cells_of = {index: self._cells(lines[index], run) for index in run.rows}
        cells = [piece for pieces in cells_of.values() for piece in pieces if piece.amount]
        if len(cells) < 2:
            return None
        columns = _columns(list(cells_of.values()))
        if len(columns) > _MOST_COLUMNS:
            return None
        notes = self._note_heads(first, floor)
        columns, cells_of = _without_notes(columns, cells_of, notes)
        if not columns:
            return None
        zone = min(column.left for column in columns)
        heads = read_heads(
            lines, first, floor, columns, (run.label_left, self._label_right(run, cells_of, zone)), self.rules
        )
        headless = not any(heads.levels)
        texts = self._text_columns(run, cells_of, heads, zone)
        columns = [*texts, *columns]
        if headless and before is not None and _same_columns(columns, before.columns):
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
                if piece not in of_columns and piece.left < zone and not _is_note_reference(piece, notes)
            ]
            if texts:
                words = [piece for piece in labels[1:] if any(_overlap(piece, text) > 0 for text in texts)]
                values = [*words, *values]
                of_columns = set(words)
                labels = [piece for piece in labels if piece not in of_columns]
            if texts and index not in cells_of:
                labels = [piece for piece in labels if piece.left < texts[0].x0]
            if index < first and (labels == [] or unit_in(line.text) or self._is_prose(line)):
                continue
            reader.read(index, values, labels)
        if headless and before is not None and reader.rows is before.reader.rows:
            before.last = last
            return None
        if len(columns) == 1 and not _is_plausible_single(columns, cells, heads):
            return None
        title, title_pieces = self._title(heads.top if not headless else first, floor)
        unit = self._unit(heads, first, floor)
        return _Found(columns, reader, heads, first, last, title, title_pieces, unit)

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
            if piece.left < run.label_left + 3 * height or _NOTE_HEAD.fullmatch(piece.text):
                continue
            for column, pieces in groups:
                if _overlap(piece, column) > 0:
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
                if piece.left < zone and piece not in values and _overlap(piece, column) > 0
            ]
            if len(cells) < 0.5 * len(run.rows):
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
        return [piece for line in lines for piece in line.pieces if _NOTE_HEAD.fullmatch(piece.text)]

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

    def _title(self, top: int, floor: int) -> tuple[str, list[Piece]]:
        """Return the title above a table, with the period that stands below it.

        It is the heading or the sentence that introduces the table; with neither, the heading of its paragraph.
        """
        dates: list[Line] = []
        below = self.lines[top].y
        index, least = top, max(floor, top - _TITLE_LINES)
        while index > least:
            index -= 1
            line = self.lines[index]
            text = line.text
            if below - line.y > 6 * line.height or is_data(line):
                break
            below = line.y
            if unit_in(text) == text:
                continue
            if is_date_line(text) and len(text) < 70 and text[-1] not in ".:,;" and len(dates) < 2:
                dates.insert(0, line)
            elif text[-1] == ":" or (text[-1] == "." and len(text) > 40):
                first, paragraph = self._paragraph(index, least)
                sentences = _SENTENCE_START.split(paragraph)
                if text[-1] == ":":
                    return sentences[-1], list(line.pieces)
                if told := [sentence for sentence in sentences if _INTRODUCES.search(sentence)]:
                    return told[-1], list(line.pieces)
                dates.clear()
                index, below = first, self.lines[first].y
            elif self._is_heading(index):
                title = " ".join([text, *(date.text for date in dates)])
                return title, [piece for each in (line, *dates) for piece in each.pieces]
        return " ".join(date.text for date in dates), [piece for date in dates for piece in date.pieces]

    def _is_heading(self, index: int) -> bool:
        """Return whether a line stands alone and starts as a heading does."""
        line = self.lines[index]
        text = line.text
        if len(text) > 120 or text[-1] in ".,;" or not (text[0].isupper() or text[0].isdigit() or text[0] in "("):
            return False
        above = self.lines[index - 1] if index else None
        near = above is not None and line.y - above.y < 1.5 * line.height and self._is_prose(above)
        return not near or line.height > 1.1 * (above.height if above else 0.0)

    def _paragraph(self, last: int, least: int) -> tuple[int, str]:
        """Return the first line of the paragraph that ends in a line, and its text."""
        first = last
        while first > least:
            above = self.lines[first - 1]
            if not self._is_prose(above) or self.lines[first].y - above.y > 1.6 * above.height:
                break
            first -= 1
        return first, " ".join(line.text for line in self.lines[first : last + 1])

    def _unit(self, heads: Heads, first: int, floor: int) -> str:
        """Return the unit line of a table: in its heads, above them, or at the top of the page."""
        pieces = [*heads.stub, *heads.units]
        found = [unit_in(piece.text) for piece in pieces]
        found.extend(unit_in(self.lines[index].text) for index in range(first - 1, max(floor, heads.top - 7) - 1, -1))
        tops = [line.text for line in self.lines[: min(_PAGE_TOP, floor)]]
        found.extend(text for text in tops if unit_in(text) == text and " " in text)
        common = set.intersection(*({level for level in levels if is_unit(level)} for levels in heads.levels))
        found[len(pieces) : len(pieces)] = sorted(common)
        return next(filter(None, found), "")

    def _assembled(self, found: _Found) -> PageTable | None:
        """Return a table without the columns that have no head, unless none has one."""
        kept = [place for place, levels in enumerate(found.heads.levels) if levels and not _is_note(levels)]
        values = [place for place, levels in enumerate(found.heads.levels) if not _is_note(levels)]
        kept = kept or values
        rows = found.reader.table_rows({place: new for new, place in enumerate(kept)})
        if not rows:
            return None
        pieces = [*found.heads.pieces, *found.heads.stub, *found.title_pieces]
        stub = " ".join(
            piece.text for piece in found.heads.stub if not is_unit(piece.text) and not _NOTE_HEAD.fullmatch(piece.text)
        )
        table = Table(
            min([rows[0].start, *(piece.start for piece in pieces)]),
            max(row.end for row in rows),
            tuple(found.heads.levels[place] for place in kept),
            rows,
            title=found.title,
            unit=found.unit,
            stub=stub,
        )
        columns = [found.columns[place] for place in kept]
        return PageTable(table, tuple((column.left, column.right) for column in columns))


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


_NOTE_LINES: Final = 6
"""Lines above the first row where the head "Note" may stand. # project default"""
_NOTE_HEAD: Final = re.compile(r"(?:foot)?notes?(?: (?:no|ref|number)s?\.?)?|refs?\.?", re.IGNORECASE)
_NOTE_NUMBER: Final = r"\d{1,2}(?:[.(]?[a-z0-9]{1,3}\)?){0,3}"
_NOTE_REFERENCE: Final = re.compile(
    rf"(?:[A-Z]{{1,2}}\d{{0,2}}|{_NOTE_NUMBER})(?:(?:,| ?&| and|,? ?[-\u2013]) ?{_NOTE_NUMBER}){{0,4}}"
)


def _without_notes(
    columns: list[Column], cells_of: dict[int, list[Piece]], notes: Sequence[Piece]
) -> tuple[list[Column], dict[int, list[Piece]]]:
    """Return columns and cells without the numbers of notes."""
    if not notes:
        return columns, cells_of
    numbers = {piece for cells in cells_of.values() for piece in cells if _is_note_reference(piece, notes)}
    kept = [
        column
        for column in columns
        if any(_overlap(cell, column) > 0 for cells in cells_of.values() for cell in cells if cell not in numbers)
        or not any(_overlap(cell, column) > 0 for cell in numbers)
    ]
    if len(kept) == len(columns):
        return columns, cells_of
    return kept, {index: [cell for cell in cells if cell not in numbers] for index, cells in cells_of.items()}


def _is_note(levels: Sequence[str]) -> bool:
    return any(_NOTE_HEAD.fullmatch(level) for level in levels)


def _is_note_reference(piece: Piece, notes: Sequence[Piece]) -> bool:
    """Return whether a piece is the number of a note, below the head "Note"."""
    width = piece.words[0].height
    return any(
        note.left - 1.5 * width < piece.middle < note.right + 1.5 * width and _NOTE_REFERENCE.fullmatch(piece.text)
        for note in notes
    )


_PRECISE: Final = re.compile(r"[,.$€£%()]")


def _is_plausible_single(columns: Sequence[Column], cells: Sequence[Piece], heads: Heads) -> bool:
    """Return whether a table with one column is one, rather than a list of pages or items."""
    if any(re.fullmatch(r"pages?(?: no\.?)?", level, re.IGNORECASE) for level in heads.levels[0]):
        return False
    return sum(bool(_PRECISE.search(cell.text)) for cell in cells) >= 0.5 * len(cells)


def _columns(rows: Sequence[Sequence[Piece]]) -> list[Column]:
    """Return the columns of rows, at most one more than are allowed: cells that overlap.

    Numbers come first, the wide ones before the narrow ones: two digits of a column need not overlap, but both overlap
    its wide numbers. What stands for a number need only be near a column that is empty in its rows. Words make a column
    where they overlap no other.
    """
    placed = [(row, cell) for row, cells in enumerate(rows) for cell in cells]
    placed.sort(key=lambda each: each[1].x0 - each[1].x1)
    columns: list[Column] = []
    taken: list[set[int]] = []
    for row, cell in placed:
        if not cell.amount or not _has_digit(cell):
            continue
        place = _best(columns, cell.x0, cell.x1)
        if place is None or _overlap(cell, columns[place]) <= 0.3 * (cell.x1 - cell.x0):
            place = len(columns)
            columns.append(Column(cell.x0, cell.x1, cell.left, cell.right))
            taken.append(set())
            if len(columns) > _MOST_COLUMNS:
                return columns
        columns[place].add(cell)
        taken[place].add(row)
    groups: list[tuple[Column, set[int], bool]] = []
    for row, cell in placed:
        if cell.amount and _has_digit(cell):
            continue
        for column, rows_of, amounts in groups:
            if amounts == cell.amount and _overlap(cell, column) > 0:
                column.add(cell)
                rows_of.add(row)
                break
        else:
            if len(groups) > _MOST_COLUMNS:
                return [*columns, *(column for column, _, _ in groups)]
            groups.append((Column(cell.x0, cell.x1, cell.left, cell.right), {row}, cell.amount))
    least = len(columns)
    for group, rows_of, amounts in groups:
        height = 1.5 * placed[0][1].words[0].height
        place = _best(columns[:least], group.x0, group.x1)
        near = place is not None and _shared(group, columns[place]) > (-height if amounts else 0.0)
        apart = place is None or not near or (amounts and bool(taken[place] & rows_of))
        if apart and (amounts or len(rows_of) > 1):
            columns.append(group)
            taken.append(rows_of)
    return _merged(columns, taken)


def _merged(columns: list[Column], rows_of: list[set[int]]) -> list[Column]:
    """Return the columns from left to right; those that overlap with their signs and share no row are one."""
    merged: list[tuple[Column, set[int]]] = []
    for column, rows in sorted(zip(columns, rows_of, strict=True), key=lambda each: each[0].x0):
        last, taken = merged[-1] if merged else (None, set())
        if last is not None and column.left < last.right and not taken & rows:
            last.x0, last.x1 = min(last.x0, column.x0), max(last.x1, column.x1)
            last.left, last.right = min(last.left, column.left), max(last.right, column.right)
            taken |= rows
        else:
            merged.append((column, set(rows)))
    return [column for column, _ in merged]


def _has_digit(cell: Piece) -> bool:
    return any(char.isdigit() for char in cell.text)


def _best(columns: Sequence[Column], x0: float, x1: float) -> int | None:
    """Return the column that shares most with an extent, or is closest to it."""
    shared = [min(x1, column.x1) - max(x0, column.x0) for column in columns]
    return max(range(len(columns)), key=shared.__getitem__) if columns else None


def _shared(one: Column, other: Column) -> float:
    return min(one.x1, other.x1) - max(one.x0, other.x0)


def _overlap(cell: Piece, column: Column) -> float:
    return min(cell.x1, column.x1) - max(cell.x0, column.x0)


def _same_columns(columns: Sequence[Column], others: Sequence[Column]) -> bool:
    """Return whether each column is in line with one of the others."""
    return all(any(min(column.x1, other.x1) > max(column.x0, other.x0) for other in others) for column in columns)
