"""Read tables in lines of text, whose cells are separated by wide gaps or by single blanks.

A row is a label with figures at its end: "Net sales $ 34,229 $ 35,355". Figures are read from the right end of a line.
The lines above name as many times as the rows have figures: "December 31, 2012 2011".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.tables import TableCell
from okralong.pipelines.statements.table_grid import GridTable
from okralong.pipelines.statements.table_rows import CONNECTS, RawRow, trimmed
from okralong.pipelines.statements.table_words import (
    CHANGE,
    NOTE_OF_HEAD,
    PERIOD,
    SPAN,
    YEAR,
    is_figure,
    is_period,
    is_unit,
    is_year,
    unit_in,
)
from okralong.pipelines.statements.text_lines import (
    LONGEST_PIECE,
    MOST_LEAD,
    HeadLine,
    Piece,
    TextLine,
    has_period,
    head_line,
    pieces_of,
    times_in,
)

_STACK: Final = 8
"""Lines above the first row that are searched for heads. # project default"""
_BETWEEN: Final = 5
"""Lines without figures between two rows of a table. # project default"""
_MOST_BLANK: Final = 8
"""Blank lines between two lines of a table. # project default"""


# Tables.

Found = tuple[list[TextLine], GridTable]
"""A table with the lines above its heads."""


def line_tables(lines: Iterable[TextLine]) -> Iterator[Found]:
    """Yield the tables in consecutive lines."""
    stack: list[TextLine] = []
    between: list[TextLine] = []
    body: list[RawRow] = []
    for line in lines:
        if line.figures and not _is_head_line(line):
            if body and any(_begins_heads(each, body[-1]) for each in between):
                yield from _table(stack, body)
                stack, body = between, []
            elif body:
                body += [RawRow(each.start, each.end, each.text, [], 0, _indent(each.text)) for each in between]
            else:
                stack = [*stack, *between]
            between = []
            body.append(_raw(line))
            continue
        between.append(line)
        if body and (line.is_prose or len(between) > _BETWEEN or line.blanks > _MOST_BLANK):
            yield from _table(stack, body)
            stack, body = [], []
        if not body:
            stack = [line] if line.is_prose else [*stack, *between][-2 * _STACK :]
            between = []
    yield from _table(stack, body)


def _raw(line: TextLine) -> RawRow:
    label = line.text[: line.figures[0].start - line.start]
    gaps = 2 if "\t" in line.text else int(line.has_gaps)
    return RawRow(line.start, line.end, label, line.figures, gaps, _indent(line.text))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _is_head_line(line: TextLine) -> bool:
    """Return whether a line that ends in numbers is one of heads: its numbers are years or days."""
    if not all(is_year(cell.text) or (cell.text.isdigit() and len(cell.text) < 3) for cell in line.figures):
        return False
    found = head_line(line)
    return found is not None and has_period(found)


def _begins_heads(line: TextLine, row: RawRow) -> bool:
    """Return whether a line between two rows is one of heads: it has a unit, or times above the figures."""
    found = head_line(line)
    if found is None or not (found.unit or has_period(found)):
        return False
    first = row.cells[0].start - row.start if row.cells else 0
    return bool(found.unit) or not row.width or any(piece.end > first for level in found.levels for piece in level)


def _table(stack: Sequence[TextLine], body: list[RawRow]) -> Iterator[Found]:
    rows = [row for row in body if row.cells]
    if not rows:
        return
    counts = Counter(len(row.cells) for row in rows)
    usual = max(counts, key=lambda count: (counts[count], count))
    if sum(bool(row.width) for row in rows) * 2 > len(rows):
        found = _in_places(stack, body, usual)
    else:
        found = _in_order(stack, body, usual)
    if found is not None:
        yield found


# Rows with wide gaps: heads stand above their columns.

Place = tuple[int, int]
"""The first and last character of a column in its lines."""


def _in_places(stack: Sequence[TextLine], body: Sequence[RawRow], n: int) -> Found | None:
    whole = [row for row in body if len(row.cells) == n]
    places = [
        (min(_at(row, number)[0] for row in whole), max(_at(row, number)[1] for row in whole)) for number in range(n)
    ]
    levels: list[list[Piece]] = []
    units: list[str] = []
    stubs: list[str] = []
    sections: list[RawRow] = []
    start = body[0].start
    top = len(stack)
    for line in reversed(stack[-_STACK:]):
        if line.is_prose:
            break
        pieces = pieces_of(line)
        over = _behind_label(pieces, places)
        label = " ".join(piece.text for piece in pieces if piece not in over)
        told = None
        if not levels and len(pieces) == 1 and pieces[0].at < places[0][0] and (found := head_line(line)) is not None:
            told = _shared(found, n)  # "Third quarter of 2024 and 2023"
            if told is not None and found.unit:
                units.insert(0, found.unit)
        told = told or _over(over, places)
        if told is None:
            span = unit_in(line.text)
            if span is not None and is_unit(" ".join(line.text.split())):
                units.insert(0, line.text[slice(*span)])
            elif levels or (over and not label):
                break
            else:
                sections.insert(0, RawRow(line.start, line.end, line.text))
                continue
        else:
            is_note = all(NOTE_OF_HEAD.fullmatch(piece.text) for level in told for piece in level)
            span = unit_in(label)
            if span is not None:
                units.insert(0, label[slice(*span)])
                label = f"{label[: span[0]]} {label[span[1] :]}".strip()
            if label and is_note:
                sections.insert(0, RawRow(line.start, line.end, label))
            elif label:
                stubs.insert(0, label)
            if len(told[0]) == 1 and is_unit(told[0][0].text):
                units.insert(0, told[0][0].text)
            else:
                levels[:0] = told
        top, start = stack.index(line), line.start
    chains = _above(levels, places)
    if not levels:
        if n > 1 or len(whole) < 2:
            return None
        top, chains = len(stack), [()]
        sections = []
        start = body[0].start
    if n == 1 and len(whole) < 2 and not any(is_period(text) for text in chains[0]):
        return None
    rows = _fitted(body, n, places)
    return _finished(stack[:top], chains, [*sections, *rows], units, stubs, start)


def _behind_label(pieces: Sequence[Piece], places: Sequence[Place]) -> list[Piece]:
    """Return the pieces of a line that are not above the labels."""
    n = len(places)
    if len(pieces) in (n, n + 1) and n > 1 and not is_unit(pieces[-n].text):
        return list(pieces[-n:])
    first = next((number for number, piece in enumerate(pieces) if piece.end > places[0][0]), len(pieces))
    while first and len(pieces) - first < n and is_period(pieces[first - 1].text):
        first -= 1
    return list(pieces[first:])


def _over(pieces: Sequence[Piece], places: Sequence[Place]) -> list[list[Piece]] | None:
    """Return the pieces of a line if they are heads above the columns, else None."""
    if not pieces or any(len(piece.text) > LONGEST_PIECE or piece.text.count(" ") > MOST_LEAD for piece in pieces):
        return None
    left = places[0][0]
    if len(pieces) == 1 and not _is_time_or_note(pieces[0].text) and pieces[0].at < left - (left // 3):
        return None
    if any(is_figure(piece.text) for piece in pieces):
        return None
    out: list[Piece] = []
    for piece in pieces:
        split = times_in(piece.text, piece.at)
        out += split[0] if split is not None and len(split) == 1 else [piece]
    return [out]


def _is_time_or_note(text: str) -> bool:
    return is_period(text) or bool(NOTE_OF_HEAD.fullmatch(text)) or bool(CHANGE.fullmatch(text)) or is_unit(text)


def _shared(head: HeadLine, n: int) -> list[list[Piece]] | None:
    """Return the levels of a line of heads that stands beside its columns if its times are as many."""
    return list(head.levels) if n > 1 and head.levels and len(head.levels[-1]) == n else None


def _above(levels: Sequence[Sequence[Piece]], places: Sequence[Place]) -> list[tuple[str, ...]]:
    """Return the heads above each column from top to bottom."""
    wide = list(places)
    chains: list[list[str]] = [[] for _ in places]
    is_lowest = True
    for level in reversed(levels):
        for column, text in enumerate(_texts_above(level, wide, is_lowest)):
            if text and (not chains[column] or chains[column][0] != text):
                chains[column].insert(0, text)
        if all(NOTE_OF_HEAD.fullmatch(piece.text) for piece in level):
            continue
        is_lowest = False
        if len(level) == len(places):
            wide = [(min(a, piece.at), max(b, piece.end)) for (a, b), piece in zip(wide, level, strict=True)]
    return [tuple(chain) for chain in chains]


def _texts_above(level: Sequence[Piece], places: Sequence[Place], is_lowest: bool) -> list[str]:
    n = len(places)
    if len(level) == n:
        return [piece.text for piece in level]
    times = [piece for piece in level if is_period(piece.text)]
    if not is_lowest and len(times) == len(level) and n % len(level) == 0 and not is_year(level[0].text):
        return [level[place * len(level) // n].text for place in range(n)]
    out = []
    for start, end in places:
        piece = min(level, key=lambda each: (_distance(each, start, end), abs(each.at + each.end - start - end)))
        reach = 0 if is_lowest or is_year(piece.text) else _NEAR if piece in times else 1
        out.append(piece.text if _distance(piece, start, end) <= reach else "")
    return out


_NEAR: Final = 25
"""Most characters between a time that spans columns and one of them. # project default"""


def _distance(piece: Piece, start: int, end: int) -> int:
    """Return the blanks between a head and a column; negative if they overlap."""
    return max(piece.at - end, start - piece.end)


# Rows with single blanks: heads are counted.


def _in_order(stack: Sequence[TextLine], body: Sequence[RawRow], usual: int) -> Found | None:
    levels: list[list[Piece]] = []
    units: list[str] = []
    stubs: list[str] = []
    sections: list[RawRow] = []
    top = len(stack)
    for place in range(len(stack) - 1, max(-1, len(stack) - 1 - 2 * _STACK), -1):
        line = stack[place]
        found = head_line(line)
        if found is None:
            if levels or line.is_prose:
                break
            sections.insert(0, RawRow(line.start, line.end, line.text))
            continue
        if levels and len(levels[-1]) > 1 and _has_years(levels[-1]) and any(map(_has_years, found.levels)):
            break  # a title with the years of the heads
        if found.unit:
            units.insert(0, found.unit)
        if found.stub:
            stubs.insert(0, found.stub)
        levels[:0] = found.levels
        if levels:
            top = place
    levels = _one_level(levels, usual)
    if not levels:
        return None
    n = len(levels[-1])
    if n > usual or (n < usual and not _alternates(body, usual, n)):
        n = n if any(len(row.cells) == n for row in body) else 0
    elif n < usual:
        n = usual
    rows = _fitted(body, n, None) if n else []
    whole = [row for row in rows if len(row.cells) == n]
    if not whole or len(whole) * 3 < sum(bool(row.cells) for row in body):
        return None
    if n == 1 and (len(whole) < 2 or not all(_is_strong(row.cells[0].text) for row in whole)):
        return None
    if n == 1 and not all(PERIOD.match(piece.text) for level in levels for piece in level):
        return None
    if n == 1 and not any(char in row.cells[0].text for row in whole for char in ",$\u20ac\u00a3(%"):
        return None
    if n > 1 and any(len(level) < n and all(CHANGE.fullmatch(piece.text) for piece in level) for level in levels):
        return None
    chains: list[list[str]] = [[] for _ in range(n)]
    for level in levels:
        if n % len(level):
            continue
        for column in range(n):
            text = level[column * len(level) // n].text
            if not chains[column] or chains[column][-1] != text:
                chains[column].append(text)
    heads = [tuple(chain) for chain in chains]
    if len(set(heads)) < n and len(levels[-1]) == n and len({piece.text for piece in levels[-1]}) == n:
        return None
    return _finished(stack[:top], heads, [*sections, *rows], units, stubs, stack[top].start)


def _has_years(level: Sequence[Piece]) -> bool:
    return any(re.search(YEAR, piece.text) for piece in level)


def _one_level(levels: list[list[Piece]], n: int) -> list[list[Piece]]:
    """Join heads on separate lines, each with its year: "June 30, 2024" above "June 30, 2023".

    Spans between them stand above those that follow.
    """
    first = len(levels)
    while first and len(levels[first - 1]) == 1 and len(levels) - first < 2 * n:
        first -= 1
    alone = [level[0] for level in levels[first:]]
    dated = [number for number, piece in enumerate(alone) if re.search(YEAR, piece.text)]
    if n < 2 or len(dated) != n:
        return levels
    rest, lower = levels[:first], [alone[number] for number in dated]
    spans, others = alone[: dated[0]], [number for number in range(dated[0], len(alone)) if number not in dated]
    if any(CHANGE.fullmatch(piece.text) for piece in alone):
        return []
    if not others:
        if len(spans) > 1 and n % len(spans) == 0 and all(SPAN.match(piece.text) for piece in spans):
            return [*rest, spans, lower]
        return [*rest, *([piece] for piece in spans), lower]
    above, over = spans, list[Piece]()
    for number in range(dated[0], len(alone)):
        if number in dated:
            over += above[-1:]
        else:
            above = [alone[number]]
    return [*rest, over, lower] if len(over) == n and len(spans) == 1 else []


def _is_strong(text: str) -> bool:
    plain = text.strip("()[] ")
    return not is_year(plain) and (any(char in plain for char in ",.%$\u20ac\u00a3") or len(plain) > 3)


def _alternates(rows: Sequence[RawRow], usual: int, n: int) -> bool:
    """Return whether each head stands above a figure and its share: "100 10% 90 9%"."""
    whole = [row for row in rows if len(row.cells) == usual]
    shares = [sum("%" in row.cells[number].text for row in whole) * 2 > len(whole) for number in range(usual)]
    return usual == 2 * n and all(shares[number] == bool(number % 2) for number in range(usual))


# Both.


def _finished(
    above: Sequence[TextLine],
    heads: Sequence[tuple[str, ...]],
    rows: list[RawRow],
    units: list[str],
    stubs: Sequence[str],
    start: int,
) -> Found | None:
    kept = [number for number, head in enumerate(heads) if (head and _has_one_year(head)) or len(heads) == 1]
    if not kept:
        return None
    if len(kept) == 1 and _is_contents(heads[kept[0]], rows):
        return None
    table = GridTable(start, rows[-1].end, [heads[number] for number in kept], {}, rows, [], units, " ".join(stubs))
    table.columns = {number: place for place, number in enumerate(kept)}
    return list(above), table


def _is_contents(head: Sequence[str], rows: Sequence[RawRow]) -> bool:
    """Return whether a table is one of contents: its only figures are page numbers."""
    if head and not (len(head) == 1 and head[0].lower().startswith("page")):
        return False
    figures = [cell.text for row in rows for cell in row.cells]
    return all(text.isdigit() and len(text) < 4 for text in figures) and all(
        int(one) <= int(other) for one, other in pairwise(figures)
    )


def _has_one_year(head: Sequence[str]) -> bool:
    """Return whether the heads of a column name one year at most, or a span of years in one of them."""
    years = [set(re.findall(YEAR, text)) for text in head]
    named = [each for each in years if each]
    return len(named) < 2 or all(each & named[-1] for each in named)


def _fitted(body: Sequence[RawRow], n: int, places: Sequence[Place] | None) -> list[RawRow]:
    """Return the rows with their cells in the columns; numbers and marks that belong to the label go back to it.

    A row whose cells cannot be assigned is left out.
    """
    out = []
    for row in body:
        cells = list(row.cells)
        if places is not None and len(cells) != n:
            cells = [] if row.width > 1 else _in_columns(row, places)
        while places is None and len(cells) > n and (_is_of_label(cells) or CONNECTS.search(row.label.rstrip())):
            cells.pop(0)
        if (
            len(cells) > n
            and all("%" in cell.text for cell in cells[n:])
            and not any("%" in each.text for each in cells[:n])
        ):
            cells = cells[:n]
        if row.cells and (not cells or (places is None and len(cells) != n)):
            continue
        if places is None or len(cells) == n:
            cells = [TableCell(number, each.text, each.start, each.end) for number, each in enumerate(cells)]
        skipped = [each.text for each in row.cells if cells and each.start < cells[0].start]
        label = trimmed(f"{row.label} {' '.join(skipped)}")
        out.append(RawRow(row.start, row.end, label, cells, row.width, row.indent))
    return out


def _is_of_label(cells: Sequence[TableCell]) -> bool:
    first = cells[0].text.strip("()[]")
    if is_year(cells[0].text):
        return True
    others = [re.sub(r"\D", "", cell.text) for cell in cells[1:]]
    return first.isdigit() and len(first) <= 2 and all(len(each) > 2 for each in others if each)


def _at(row: RawRow, number: int) -> Place:
    cell = row.cells[number]
    return cell.start - row.start, cell.end - row.start


def _in_columns(row: RawRow, places: Sequence[Place]) -> list[TableCell]:
    """Return the cells of a row with empty ones or marks by their places in the line; none if these do not tell."""
    out: list[TableCell] = []
    for number, cell in enumerate(row.cells):
        start, end = _at(row, number)
        near = [place for place, (a, b) in enumerate(places) if start < b and a < end]
        if not near and not out and _is_of_label(row.cells[number:]):
            continue
        if len(near) != 1 or (out and near[0] <= out[-1].column):
            return []
        out.append(TableCell(near[0], cell.text, cell.start, cell.end))
    return out
