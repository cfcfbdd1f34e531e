"""Read tables in lines of text, whose cells are separated by wide gaps or by single blanks.

A row is a label with figures at its end: "Net sales $ 34,229 $ 35,355". Figures are read from the right end of a line.
The lines above name as many times as the rows have figures: "December 31, 2012 2011".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.tables import TableCell
from okralong.pipelines.statements.table_grid import GridTable
from okralong.pipelines.statements.table_rows import RawRow, trimmed
from okralong.pipelines.statements.table_words import (
    CHANGE,
    CLOSING,
    DAY,
    NOTE_OF_HEAD,
    PART,
    SIGN,
    SPAN,
    YEAR,
    is_figure,
    is_number,
    is_period,
    is_unit,
    is_year,
    unit_in,
)

LONGEST_LINE: Final = 600
"""Characters of a line without bars that may belong to a table. # project default"""
_MOST_COLUMNS: Final = 40
"""Figures of a line; more are a list of numbers. # project default"""
_MOST_WORDS: Final = 24
"""Words of a label. # project default"""
_STACK: Final = 8
"""Lines above the first row that are searched for heads. # project default"""
_BETWEEN: Final = 5
"""Lines without figures between two rows of a table. # project default"""
_MOST_BLANK: Final = 4
"""Blank lines between two lines of a table. # project default"""

Piece = TableCell
"""A part of a head line at ``start:end`` of the text."""


@dataclass(slots=True)
class TextLine:
    """A line of text that is not blank, and the figures at its end if it has a label before them."""

    start: int
    end: int
    text: str
    blanks: int = 0
    figures: list[TableCell] = field(default_factory=list)
    has_gaps: bool = False

    @property
    def is_prose(self) -> bool:
        """True if the line is a sentence or part of one."""
        words = self.text.count(" ") + 1
        return self.end - self.start > LONGEST_LINE or (
            words > 6 and not self.has_gaps and (words > _MOST_WORDS or self.text.rstrip().endswith((".", ";")))
        )


_GAP: Final = re.compile(r"(?<=\S)(?:[ \u00a0]{2,}|[ \u00a0]*\t[ \t\u00a0]*)(?=\S)")
_LETTER: Final = re.compile(r"[^\W\d_]")
_TOKEN: Final = re.compile(r"\S+")


def text_line(text: str, start: int, end: int, blanks: int) -> TextLine:
    """Return a line of text with the figures at its end."""
    if end - start > LONGEST_LINE:
        return TextLine(start, end, text[start : start + LONGEST_LINE], blanks)
    words = text[start:end].replace("\u200b", " ")
    gaps = list(_GAP.finditer(words))
    line = TextLine(start, end, words, blanks, has_gaps=bool(gaps))
    letter = _LETTER.search(words)
    if letter is None:
        return line
    figures = _figures(words, letter.start())
    if figures and gaps:
        label_end = next((gap.end() for gap in gaps if gap.start() > letter.start() and _begins(words, gap.end())), -1)
        behind = [cell for cell in figures if cell.end > label_end]
        figures = behind or figures
    if 0 < len(figures) <= _MOST_COLUMNS and (gaps or len(words.split()) <= _MOST_WORDS + 2 * len(figures)):
        line.figures = [TableCell(n, each.text, start + each.start, start + each.end) for n, each in enumerate(figures)]
    return line


def _begins(words: str, at: int) -> bool:
    return (
        words[at] in "$\u20ac\u00a3\u00a5([-\u2212\u2013\u2014."
        or words[at].isdigit()
        or words[at : at + 2].lower() in ("n/", "n.", "na", "nm", "ni")
    )


def _figures(words: str, letter: int) -> list[TableCell]:
    """Return the figures at the end of a line, from left to right; the first token with a letter is no figure."""
    found: list[TableCell] = []
    tail = ""
    stop = -1
    for token in reversed(list(_TOKEN.finditer(words))):
        said = token[0]
        if token.start() <= letter < token.end() and not (found and SIGN.fullmatch(said)):
            break
        if CLOSING.fullmatch(said) and not tail:
            tail, stop = said, token.end()
        elif is_number(said) or is_figure(said):
            whole = f"{said}{tail}" if not tail.startswith("%") or said.endswith("%") else f"{said} {tail}"
            found.append(TableCell(0, whole, token.start(), stop if tail else token.end()))
            tail = ""
        elif tail:
            break
        elif found and (said == "(" or SIGN.fullmatch(said)) and not SIGN.match(found[-1].text):
            last = found[-1]
            found[-1] = TableCell(0, f"{said} {last.text}", token.start(), last.end)
        elif found and said in ("(", "$("):
            last = found[-1]
            found[-1] = TableCell(0, f"{said}{last.text}", token.start(), last.end)
        else:
            break
    found.reverse()
    return found


# Head lines.


@dataclass(slots=True)
class _Head:
    """A line of heads: its levels from top to bottom, each with pieces from left to right."""

    levels: list[list[Piece]]
    unit: str = ""
    stub: str = ""


def _head(line: TextLine) -> _Head | None:
    """Return the heads in a line, or None if it has other words than heads."""
    words = line.text
    if line.is_prose:
        return None
    unit, stub = "", ""
    span = unit_in(words) if not line.has_gaps else None
    pieces = [(words, 0)]
    if line.has_gaps:
        cut = [0, *(at for gap in _GAP.finditer(words) for at in gap.span()), len(words)]
        pieces = [(words[a:b], a) for a, b in zip(cut[::2], cut[1::2], strict=True)]
    levels: list[list[Piece]] = [[]]
    for number, (said, at) in enumerate(pieces):
        span = unit_in(said)
        if span is not None and (number == 0 or not is_period(said)):
            unit = f"{unit}; {said[slice(*span)]}".strip("; ")
            said, at = (said[span[1] :], at + span[1]) if not said[: span[0]].strip() else (said[: span[0]], at)
            if not said.strip():
                continue
        parts = _times(said, line.start + at)
        if parts is None:
            if not line.has_gaps:
                return None
            if number == 0 and not is_period(said):
                stub = said.strip()
                continue
            parts = [[_piece(said, line.start + at, 0, len(said))]]
        if len(parts) > 1 and len(pieces) == 1:
            levels = parts
            continue
        levels[-1] += parts[-1] if len(parts) == 1 else [_both(parts)]
    levels = [level for level in levels if level]
    if levels and not line.has_gaps and len(levels[0]) == 1 and len(levels) > 1 and not is_period(levels[0][0].text):
        stub = levels.pop(0)[0].text
    return _Head(levels, unit, stub) if levels or unit else None


def _both(parts: Sequence[Sequence[Piece]]) -> Piece:
    flat = [piece for level in parts for piece in level]
    return Piece(0, " ".join(piece.text for piece in flat), flat[0].start, flat[-1].end)


def _piece(words: str, base: int, start: int, end: int) -> Piece:
    said = words[start:end]
    left = len(said) - len(said.lstrip(" \t\u00a0"))
    shown = " ".join(said.split())
    return Piece(0, shown, base + start + left, base + start + len(said.rstrip()))


_JOINS: Final = re.compile(r"[\s,&]*(?:and|to|vs\.?|versus|[\u2013-])?[\s,]*", re.IGNORECASE)
_MOST_LEAD: Final = 9
"""Words before the first time in a line of heads. # project default"""


def _times(words: str, base: int) -> list[list[Piece]] | None:
    """Split a line of heads with single blanks into levels of pieces, or None if it holds other words."""
    years = list(re.finditer(YEAR, words))
    if not years:
        return _without_years(words, base)
    tail = _changes(words, base, years[-1].end())
    if tail is None or len(words[: years[0].start()].split()) > _MOST_LEAD:
        return None
    between = [words[one.end() : other.start()] for one, other in pairwise(years)]
    lead = words[: years[0].start()].strip(" \t\u00a0,")
    if len(years) > 1 and all(_JOINS.fullmatch(each) for each in between):
        lower = [_piece(words, base, year.start(), year.end()) for year in years] + tail
        if not lead:
            return [lower]
        if CHANGE.fullmatch(lead):
            return [[_piece(words, base, 0, years[0].start()), *lower]]
        return [[_piece(words, base, 0, years[0].start())], lower]
    if any(len(each.split()) > 6 for each in between):
        return None
    if lead and not is_period(lead) and len(years) == 1 and len(lead.split()) > 3:
        return None
    ends = [0, *(year.end() for year in years)]
    return [[_piece(words, base, a, b) for a, b in pairwise(ends)] + tail]


def _changes(words: str, base: int, at: int) -> list[Piece] | None:
    """Return the heads of changes and shares from ``at`` to the end of a line, or None if there are other words."""
    found = []
    while at < len(words):
        if words[at].isspace():
            at += 1
            continue
        match = CHANGE.match(words, at)
        if match is None or not match[0]:
            return None
        found.append(_piece(words, base, *match.span()))
        at = match.end()
    return found


def _without_years(words: str, base: int) -> list[list[Piece]] | None:
    changes = _changes(words, base, 0)
    if changes is not None:
        return [changes] if changes else None
    for pattern in (SPAN, DAY, PART):
        marks = [match.start() for match in pattern.finditer(words)]
        if not marks:
            continue
        lead = words[: marks[0]].strip()
        if len(lead.split()) > 3:
            return None
        cut = [0 if not lead or is_period(lead) or pattern is not SPAN else marks[0], *marks[1:], len(words)]
        if any(len(words[a:b].split()) > 9 for a, b in pairwise(cut)):
            return None
        return [[_piece(words, base, a, b) for a, b in pairwise(cut)]]
    return None


# Tables.


def line_tables(lines: Iterator[TextLine]) -> Iterator[tuple[list[TextLine], GridTable]]:
    """Yield the tables in consecutive lines, each with the lines above its heads."""
    stack: list[TextLine] = []
    between: list[TextLine] = []
    body: list[RawRow] = []
    for line in lines:
        if line.figures and not _is_head_line(line):
            if body and between and _separates(between):
                yield from _found(stack, body)
                stack, body = between, []
            elif body:
                body += [RawRow(each.start, each.end, trimmed(each.text)) for each in between]
            elif between:
                stack = [*stack, *between]
            between = []
            body.append(_raw(line))
            continue
        between.append(line)
        if body and (line.is_prose or len(between) > _BETWEEN or line.blanks > _MOST_BLANK):
            yield from _found(stack, body)
            stack, body = [], []
        if not body:
            stack = [*stack, *between][-_STACK - 4 :]
            between = []
            if line.is_prose:
                stack = [line]
    yield from _found(stack, body)


def _raw(line: TextLine) -> RawRow:
    label = line.text[: line.figures[0].start - line.start]
    return RawRow(line.start, line.end, label, line.figures, int(line.has_gaps))


def _is_head_line(line: TextLine) -> bool:
    """Return whether a line that ends in numbers is one of heads: its numbers are years or days."""
    if not any(is_year(cell.text) or cell.text.rstrip(",").isdigit() for cell in line.figures):
        return False
    found = _head(line)
    return found is not None and any(is_period(piece.text) for level in found.levels for piece in level)


def _separates(between: Sequence[TextLine]) -> bool:
    """Return whether the lines between two rows begin another table: they hold heads or a unit."""
    for line in between:
        found = _head(line)
        if found is not None and (found.unit or any(is_period(each.text) for level in found.levels for each in level)):
            return True
    return False


def _found(stack: Sequence[TextLine], body: list[RawRow]) -> Iterator[tuple[list[TextLine], GridTable]]:
    table = _table(stack, body) if stack and body else None
    if table is not None:
        yield table


def _table(stack: Sequence[TextLine], body: list[RawRow]) -> tuple[list[TextLine], GridTable] | None:
    """Return the table of rows below heads, with the lines above the heads, or None if they do not match."""
    heads: list[_Head] = []
    units: list[str] = []
    stub = ""
    sections: list[RawRow] = []
    top = len(stack)
    for place in range(len(stack) - 1, max(-1, len(stack) - 1 - _STACK), -1):
        line = stack[place]
        found = _head(line)
        if found is None:
            if heads or line.is_prose:
                break
            sections.insert(0, RawRow(line.start, line.end, trimmed(line.text)))
            continue
        if found.unit:
            units.insert(0, found.unit)
        if found.levels:
            heads.insert(0, found)
            if found.stub:
                if all(NOTE_OF_HEAD.fullmatch(piece.text) for level in found.levels for piece in level):
                    sections.insert(0, RawRow(line.start, line.end, trimmed(found.stub)))
                else:
                    stub = f"{found.stub} {stub}".strip()
        elif not heads:
            top = place
            continue
        top = place
    levels = [level for head in heads for level in head.levels]
    return _below(stack[:top] if heads else stack, levels, units, stub, sections if heads else [], body)


def _below(
    above: Sequence[TextLine],
    levels: list[list[Piece]],
    units: list[str],
    stub: str,
    sections: list[RawRow],
    body: list[RawRow],
) -> tuple[list[TextLine], GridTable] | None:
    rows = [row for row in body if row.cells]
    counts = Counter(len(row.cells) for row in rows)
    usual = max(counts, key=lambda count: (counts[count], count))
    has_gaps = sum(bool(row.width) for row in rows) * 2 > len(rows)
    while levels and all(is_unit(piece.text) for piece in levels[-1]) and len(levels[-1]) == 1 and usual > 1:
        units.append(levels.pop()[0].text)
    sizes = [len(level) for level in levels if not all(NOTE_OF_HEAD.fullmatch(piece.text) for piece in level)]
    n = sizes[-1] if sizes else 0
    if n == usual + 1 and not is_period(levels[-1][0].text):
        stub, n = levels[-1].pop(0).text, usual
    if n and usual > n and usual % n == 0 and n > 1 and _alternates(rows, usual, n):
        n = usual
    if not n:
        if usual > 1 or len(rows) < 2 or not has_gaps:
            return None
        n = 1
    elif (
        n == 1
        and not has_gaps
        and usual == 1
        and not all(_is_strong(cell.text) for row in rows for cell in row.cells[-1:])
    ):
        return None
    fitted = _fitted(body, n)
    whole = [row for row in fitted if len(row.cells) == n]
    if not whole or len(whole) * 3 < len(rows):
        return None
    places = [
        (min(_at(row, number)[0] for row in whole), max(_at(row, number)[1] for row in whole)) for number in range(n)
    ]
    out = []
    for row in fitted:
        if len(row.cells) == n:
            cells = [TableCell(number, each.text, each.start, each.end) for number, each in enumerate(row.cells)]
        else:
            cells = _in_columns(row, places) if row.width else []
            if row.cells and not cells:
                continue
        out.append(RawRow(row.start, row.end, row.label, cells, row.width))
    chains = _chains(levels, n, places, has_gaps)
    if chains is None:
        return None
    start = min(
        [sections[0].start if sections else body[0].start, *(piece.start for level in levels for piece in level)]
    )
    kept = [number for number in range(n) if chains[number] or not levels]
    columns = {number: place for place, number in enumerate(kept)}
    heads = [chains[number] for number in kept]
    if not kept:
        return None
    return list(above), GridTable(start, body[-1].end, heads, columns, [*sections, *out], [], units, stub)


def _is_strong(text: str) -> bool:
    return any(char in text for char in ",.%$\u20ac\u00a3(") or len(text) > 3


def _alternates(rows: Sequence[RawRow], usual: int, n: int) -> bool:
    """Return whether each head stands above a figure and its share: "100 10% 90 9%"."""
    each = usual // n
    whole = [row for row in rows if len(row.cells) == usual]
    shares = [sum("%" in row.cells[number].text for row in whole) * 2 > len(whole) for number in range(usual)]
    return each == 2 and all(not shares[number] and shares[number + 1] for number in range(0, usual, 2))


def _fitted(body: Sequence[RawRow], n: int) -> list[RawRow]:
    """Return the rows with at most ``n`` cells: numbers and marks that belong to the label go back to it.

    A row whose cells are more, without a sign which of them are too many, is left out.
    """
    out = []
    for row in body:
        cells = list(row.cells)
        while len(cells) > n and _is_of_label(cells):
            cells.pop(0)
        if (
            len(cells) > n
            and all("%" in cell.text for cell in cells[n:])
            and not any("%" in cell.text for cell in cells[:n])
        ):
            cells = cells[:n]
        if len(cells) > n:
            continue
        label = row.label
        if cells and cells[0] is not row.cells[0]:
            skipped = [cell.text for cell in row.cells[: row.cells.index(cells[0])]]
            label = f"{label} {' '.join(skipped)}"
        label = trimmed(label)
        if row.cells and not any(char.isalpha() for char in label):
            continue
        out.append(RawRow(row.start, row.end, label, cells, row.width))
    return out


def _is_of_label(cells: Sequence[TableCell]) -> bool:
    first = cells[0].text.strip("()[]")
    if is_year(cells[0].text):
        return True
    others = [re.sub(r"\D", "", cell.text) for cell in cells[1:]]
    return first.isdigit() and len(first) <= 2 and all(len(each) > 2 for each in others if each)


def _at(row: RawRow, number: int) -> tuple[int, int]:
    cell = row.cells[number]
    return cell.start - row.start, cell.end - row.start


def _in_columns(row: RawRow, places: Sequence[tuple[int, int]]) -> list[TableCell]:
    """Return the cells of a row with empty ones, by their position in the line; none if that does not tell."""
    out = []
    last = -1
    for number in range(len(row.cells)):
        start, end = _at(row, number)
        near = [place for place, (a, b) in enumerate(places) if start < b and a < end]
        if len(near) != 1 or near[0] <= last:
            return []
        last = near[0]
        cell = row.cells[number]
        out.append(TableCell(last, cell.text, cell.start, cell.end))
    return out


def _chains(
    levels: Sequence[Sequence[Piece]], n: int, places: Sequence[tuple[int, int]], has_gaps: bool
) -> list[tuple[str, ...]] | None:
    """Return the heads of each column from top to bottom, or None if the heads cannot be told apart."""
    del has_gaps, places
    chains: list[list[str]] = [[] for _ in range(n)]
    for level in levels:
        texts = [piece.text for piece in level]
        if len(texts) == n or n % len(texts) == 0:
            for number in range(n):
                text = texts[number * len(texts) // n]
                if not chains[number] or chains[number][-1] != text:
                    chains[number].append(text)
    return [tuple(chain) for chain in chains]
