"""Read tables whose cells are separated by bars or tabs: which rows are heads, and what each column stands below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.tables import TableCell
from okralong.pipelines.statements.table_rows import RawRow
from okralong.pipelines.statements.table_words import (
    CHANGE,
    CLOSING,
    MARK,
    NOTE_OF_HEAD,
    SIGN,
    is_figure,
    is_number,
    is_period,
    is_unit,
    is_year,
    unit_in,
)

_MOST_HEAD_ROWS: Final = 12
"""Rows of heads. # project default"""
_LONGEST_HEAD: Final = 200
"""The longest text of a cell, in characters, that may be a head. # project default"""


@dataclass(slots=True)
class GridTable:
    """A table of a grid: ``columns`` maps the grid's columns to those of ``heads``, ``rows`` are below them.

    ``above`` are rows with a single text above the heads, such as titles and units.
    """

    start: int
    end: int
    heads: list[tuple[str, ...]]
    columns: dict[int, int]
    rows: list[RawRow]
    above: list[str] = field(default_factory=list)
    unit: list[str] = field(default_factory=list)
    stub: str = ""


def grid_tables(rows: Sequence[RawRow]) -> Iterator[GridTable]:
    """Yield the tables of a grid in order; heads further down begin another one.

    The cells of ``rows`` have their column from 0, empty ones are left out, and labels are still cells.
    """
    whole = [_joined(row) for row in rows]
    for part in _side_by_side(whole):
        yield from _stacked(_with_labels(part))


def _stacked(rows: Sequence[RawRow]) -> Iterator[GridTable]:
    above: list[RawRow] = []
    body: list[RawRow] = []
    known: list[RawRow] = []
    starts = _starts(rows)
    for number, row in enumerate(rows):
        is_data = any(is_figure(cell.text) for cell in row.cells)
        if body and (number in starts or (row.cells and not is_data and _is_head(row, body))):
            yield from _table(above, body, known)
            known = above or known if number not in starts else []
            above, body = [], []
        if body or is_data or (row.cells and _is_complete(above, row)):
            body.append(row)
        else:
            above.append(row)
    if not body and len(above) > 2:  # words only
        filled = [row for row in above if row.cells]
        if len(filled) > 2 and all(len(row.cells) == len(filled[0].cells) for row in filled):
            first = 1 if len(filled[0].cells) > 1 or filled[0].is_ruled else 0
            above, body = filled[:first], filled[first:]
    yield from _table(above, body, known)


def _starts(rows: Sequence[RawRow]) -> set[int]:
    """Return the rows below blank lines that begin another table: one with heads, or with a single column."""
    found = set()
    begin = -1
    for number, row in enumerate(rows):
        if row.is_apart:
            begin = number
        is_data = any(is_figure(cell.text) for cell in row.cells)
        if begin >= 0 and row.cells:
            if not is_data or len(row.cells) == 1:
                found.add(begin)
            begin = -1
    return found


def _side_by_side(rows: Sequence[RawRow]) -> list[list[RawRow]]:
    """Return the tables that stand side by side: the second begins with a column of labels that has no head.

    Its heads may also be those of the first once more.
    """
    data = [row for row in rows if any(cell.column and is_figure(cell.text) for cell in row.cells)]
    figures, words = Counter[int](), Counter[int]()
    for row in data:
        for cell in row.cells:
            (figures if is_figure(cell.text) else words)[cell.column] += 1
    if not figures or len(data) < 2:
        return [list(rows)]
    first, last = min(figures), max(figures)
    labels = [
        column
        for column, count in words.items()
        if first < column < last and figures[column + 1] and count * 2 > len(data) and not figures[column]
    ]
    heads = [row for row in rows[: rows.index(data[0])] if len(row.cells) > 1] if rows[0] is not data[0] else []
    said = {cell.column: cell.text for row in heads[-1:] for cell in row.cells}
    for column in sorted(labels):
        left = [said.get(at) for at in range(1, column)]
        right = [said.get(at) for at in range(column + 1, last + 1)]
        if heads and (column not in said or (right and left == right)):
            return [_between(rows, 0, column), *_side_by_side(_between(rows, column, last + 1))]
    return [list(rows)]


def _between(rows: Sequence[RawRow], first: int, end: int) -> list[RawRow]:
    out = []
    for row in rows:
        cells = [
            TableCell(cell.column - first, cell.text, cell.start, cell.end)
            for cell in row.cells
            if first <= cell.column < end
        ]
        if cells:
            width = min(row.width, end) - first
            out.append(RawRow(cells[0].start, cells[-1].end, row.label, cells, width, 0, row.is_apart, row.is_ruled))
    return out


def _joined(row: RawRow) -> RawRow:
    """Join the parts of a figure that have separate cells: "$", "1,204" and ")"."""
    out: list[TableCell] = []
    for cell in row.cells:
        before = out[-1] if out else None
        if before is not None and len(before.text) < 60:
            if _opens(before.text) and before.column > 0 and is_number(cell.text.lstrip("(").rstrip(")")):
                out[-1] = TableCell(cell.column, f"{before.text} {cell.text}", before.start, cell.end)
                continue
            closes = bool(CLOSING.fullmatch(cell.text)) and cell.column == before.column + 1
            if closes and is_number(before.text.lstrip("$ (").rstrip(") ")) and not is_year(before.text):
                out[-1] = TableCell(before.column, f"{before.text}{cell.text}", before.start, cell.end)
                continue
        out.append(cell)
    return RawRow(row.start, row.end, row.label, out, row.width, 0, row.is_apart, row.is_ruled)


def _opens(text: str) -> bool:
    return text == "(" or (len(text) <= 4 and not text.isalpha() and SIGN.fullmatch(text) is not None)


def _with_labels(rows: Sequence[RawRow]) -> list[RawRow]:
    """Return the rows with their label set apart from their cells.

    The label is in the first column, and in further ones before the figures that have neither figures nor heads.
    """
    figures, words, heads = Counter[int](), Counter[int](), Counter[int]()
    begun = False
    for row in rows:
        is_data = any(cell.column and is_figure(cell.text) for cell in row.cells)
        begun = begun or is_data
        alone = len(row.cells) == 1
        for cell in row.cells:
            if begun:
                (figures if is_number(cell.text) or is_figure(cell.text) else words)[cell.column] += 1
            elif not alone:
                heads[cell.column] += 1
    last = 0
    top = max([*figures, *words, *heads, 0])
    if figures[0] and not words[0] and words[1] > len(rows) // 2 and not is_year(_first(rows)):
        last = 1  # the rows are numbered
    while last < top and not figures[last + 1] and not heads[last + 1] and (words[last + 1] or not last):
        if not words[last + 1]:
            break
        last += 1
    out = []
    for row in rows:
        label = " ".join(cell.text for cell in row.cells if cell.column <= last)
        cells = [cell for cell in row.cells if cell.column > last]
        out.append(RawRow(row.start, row.end, label, cells, row.width, 0, row.is_apart, row.is_ruled))
    return out


def _first(rows: Sequence[RawRow]) -> str:
    return next((cell.text for row in rows for cell in row.cells if cell.column == 0 and is_number(cell.text)), "")


def _is_complete(above: Sequence[RawRow], row: RawRow) -> bool:
    """Return whether a row of words is below complete heads, and so a row of the table."""
    if not row.label or is_unit(row.label) or any(is_period(cell.text) for cell in row.cells):
        return False
    heads = [each for each in above if each.cells]
    return bool(heads) and bool(heads[-1].label) and len(heads[-1].cells) >= max(2, len(row.cells))


def _is_head(row: RawRow, body: Sequence[RawRow]) -> bool:
    """Return whether a row without figures, below other rows, begins new heads."""
    times = [is_period(cell.text) for cell in row.cells]
    if is_year(row.label):
        return False
    if all(times):
        years = [cell.text[:4] for cell in row.cells if is_year(cell.text)]
        falling = len(years) > 1 and all(one > other for one, other in pairwise(years))
        plain = not row.label or is_period(row.label) or unit_in(row.label) is not None
        return falling or plain or len(years) < len(row.cells)
    used = {cell.column for each in body[-20:] for cell in each.cells if is_figure(cell.text)}
    over = [cell for cell in row.cells if cell.column in used]
    if row.label and not any(times):
        return False
    return len(over) == len(row.cells) and len(over) >= min(2, len(used))


def _table(above: Sequence[RawRow], body: list[RawRow], known: Sequence[RawRow]) -> Iterator[GridTable]:
    rows = [row for row in body if row.cells]
    if not rows:
        return
    over = [row for row in above if row.cells][-_MOST_HEAD_ROWS:]
    if len(over) > 1 and all(len(row.cells) == 1 and row.label for row in over) and _is_single([*over, *rows]):
        body, rows, over = [*above[above.index(over[0]) :], *body], [*over, *rows], []  # "Founded | 1999"
        above = above[: above.index(body[0])]
    used = _columns_of(rows, {cell.column for row in over for cell in row.cells})
    found = GridTable(min(row.start for row in [*above, *body][:1]), body[-1].end, [], {}, body)
    first = next((place for place, row in enumerate(above) if row.cells), len(above))
    last = max((place for place, row in enumerate(above) if row.cells), default=-1)
    found.above = [row.label for row in above[:first]]
    stubs: list[str] = []
    later: list[RawRow] = []
    for place, row in enumerate(above[first:], first):
        span = unit_in(row.label)
        said = row.label
        if span is not None:
            found.unit.append(said[slice(*span)])
            said = f"{said[: span[0]]} {said[span[1] :]}".strip()
        if not said:
            continue
        if place > last or (place == last and all(NOTE_OF_HEAD.fullmatch(cell.text) for cell in row.cells)):
            later.append(RawRow(row.start, row.end, said, [], row.width))
        elif said not in stubs:
            stubs.append(said)
    if over and len(over[-1].cells) == 1 and len(used) > 1 and known:  # new spans over the years above
        over = [*over, *[row for row in known if row.cells][-1:]]
    levels: list[RawRow] = []
    for row in over:
        cells = [cell for cell in row.cells if len(cell.text) <= _LONGEST_HEAD]
        apart = [cell for cell in cells if is_unit(cell.text)]
        is_aside = len(apart) == 1 and (apart[0].column not in used or apart[0].text.startswith("("))
        if apart and (len(cells) == 1 or (is_aside and len(cells) > 2)):
            found.unit.append(apart[0].text)
            cells.remove(apart[0])
        if len(cells) == 1 and levels and cells[0].text.endswith(":"):
            later.append(RawRow(row.start, row.end, cells[0].text, [], row.width))
        elif cells:
            levels.append(RawRow(row.start, row.end, row.label, cells, row.width))
    found.rows = [*later, *body]
    width = max(row.width for row in [*above, *body])
    heads = heads_of(levels, used, width)
    if levels and len(levels[-1].cells) * 2 == len(used) and _alternate(rows, used):
        halves = heads_of(levels, used[::2], width)
        heads = {column: halves[used[place - place % 2]] for place, column in enumerate(used)}
    if not levels and len(used) == 1:
        heads = {used[0]: ()} if len(rows) > 1 or found.unit else {}
    found.stub = " ".join(stubs)
    found.columns = {column: number for number, column in enumerate(sorted(heads))}
    found.heads = [heads[column] for column in sorted(heads)]
    if heads:
        yield found


def _is_single(rows: Sequence[RawRow]) -> bool:
    """Return whether rows have a single column of cells."""
    return len({cell.column for row in rows for cell in row.cells}) == 1


def _columns_of(rows: Sequence[RawRow], headed: set[int]) -> list[int]:
    """Return the columns with cells, without those that hold footnote marks only."""
    filled = {cell.column for row in rows for cell in row.cells}
    more = {cell.column for row in rows for cell in row.cells if MARK.fullmatch(cell.text) is None}
    return sorted(column for column in filled if column in more or column in headed)


def _alternate(rows: Sequence[RawRow], used: Sequence[int]) -> bool:
    """Return whether each second column has shares of the one before: "100 | 10% | 90 | 9%"."""
    filled, shares = Counter[int](), Counter[int]()
    for row in rows:
        for cell in row.cells:
            filled[cell.column] += 1
            shares[cell.column] += "%" in cell.text
    return all((shares[column] * 2 > filled[column]) == bool(place % 2) for place, column in enumerate(used))


def heads_of(levels: Sequence[RawRow], used: Sequence[int], width: int) -> dict[int, tuple[str, ...]]:
    """Return the heads of each column of figures; columns without any are left out."""
    chains: dict[int, list[str]] = {column: [] for column in used}
    bounds: set[int] = set()
    for number, level in enumerate(levels):
        found = _spread(level, used, width, bounds, is_lowest=number == len(levels) - 1)
        for column, text in found.items():
            if not chains[column] or chains[column][-1] != text:
                chains[column].append(text)
        bounds |= {column for before, column in pairwise(used) if found.get(before) != found.get(column)}
    return {column: _plausible(chain) for column, chain in chains.items() if chain}


def _plausible(chain: Sequence[str]) -> tuple[str, ...]:
    """Return the heads of a column; a year is not below the head of a change."""
    if is_year(chain[-1]):
        return tuple(text for text in chain if CHANGE.fullmatch(text) is None)
    return tuple(chain)


def _spread(level: RawRow, used: Sequence[int], width: int, bounds: set[int], is_lowest: bool) -> dict[int, str]:
    """Return the text of a row of heads for each column that it stands above; no text stands on both sides of a bound.

    A text stands above the columns up to the next one, as merged cells do, or at the middle of its columns.
    """
    cells, n = level.cells, len(used)
    texts = [cell.text for cell in cells]
    exact = {cell.column: cell.text for cell in cells}
    if len(cells) == n:
        return dict(zip(used, texts, strict=True))
    if all(column in exact for column in used):
        return {column: exact[column] for column in used}
    if all(NOTE_OF_HEAD.fullmatch(text) for text in texts):
        return {column: exact[column] for column in used if column in exact}
    first, last = cells[0].column, cells[-1].column
    if len(cells) == 1 and (first <= used[0] or (is_period(texts[0]) and (n == 2 or first < used[-1]))):
        return dict.fromkeys(used, texts[0])
    if len(cells) > 1 and n % len(cells) == 0:
        shares = {column: texts[place * len(cells) // n] for place, column in enumerate(used)}
        own = {place * len(cells) // n for place, column in enumerate(used) if column in exact}
        starts = {column for before, column in pairwise(used) if shares[before] != shares[column]}
        if level.width < width or (first > used[0] and len(own) == len(cells) and bounds <= starts):
            return shares
    groups: dict[int, list[int]] = {cell.column: [] for cell in cells}
    for column in used:
        head = max((at for at in groups if at <= column), default=None)
        if head is None and not is_lowest and last > first:
            head = first
        if head is not None and not any(head < at <= column for at in bounds):
            groups[head].append(column)
    sizes = {len(group) for group in groups.values() if group}
    if is_lowest and len(sizes) > 1:
        return {column: exact[column] for column in used if column in exact} or {
            group[0]: exact[head] for head, group in groups.items() if len(group) == 1
        }
    alone = sum(len(group) == 1 for group in groups.values())
    if alone > 1 and alone == len(cells) - 1 and len(groups[last]) > 1:
        groups[last] = [column for column in groups[last] if column in exact]
    return {column: exact[head] for head, group in groups.items() for column in group}
