"""Read the tables of a text whose cells are separated by bars, tabs, wide gaps or single blanks.

``table_grid.py`` reads bars and tabs, ``table_lines.py`` gaps and blanks. This module finds the lines of each table,
and its title, unit and page.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, Section
from okralong.pipelines.statements.table_grid import GridTable, grid_tables
from okralong.pipelines.statements.table_lines import line_tables
from okralong.pipelines.statements.table_rows import RawRow, finished
from okralong.pipelines.statements.table_words import (
    DAY,
    NOTE_OF_HEAD,
    SPAN,
    YEAR,
    is_number,
    is_period,
    is_unit,
    unit_in,
)
from okralong.pipelines.statements.text_lines import TextLine, text_line, with_joined

_LONGEST_ROW: Final = 20_000
"""Characters of a line with bars that may be a row. # project default"""
_TITLE_LINES: Final = 6
"""Lines above the heads that are searched for the title and unit. # project default"""
_TITLE_WORDS: Final = 25
"""Words of a title. # project default"""
_LONGEST_TITLE: Final = 300
MOST_CELLS: Final = 400_000
"""Cells of a document's tables; tables after that stay text. # project default"""


def tables_of(document: Document) -> tuple[Table, ...]:
    """Return the tables of a document: those that its parser read, or else those in its text."""
    if document.tables is not None:
        return document.tables
    return read_text_tables(document.text, document.sections)


def read_text_tables(text: str, sections: Sequence[Section] = ()) -> tuple[Table, ...]:
    """Return the tables of a text in order; ``sections`` name the pages or sheets that they begin on."""
    pages = [section for section in sections if section.kind in ("page", "sheet", "slide")]
    starts = [page.start_char for page in pages]
    out: list[Table] = []
    left = MOST_CELLS
    for above, raw in _raw_tables(text):
        left -= sum(len(row.cells) for row in raw.rows)
        if left < 0:
            break
        rows = finished(raw.rows, raw.columns)
        if not rows:
            continue
        page = bisect_right(starts, raw.start)
        name = pages[page - 1].name if page else ""
        out.append(_completed(raw, above, rows, name, floor=out[-1].end if out else 0))
    return tuple(out)


# The lines of a text.


@dataclass(slots=True)
class _Block:
    """Consecutive lines with bars, or with as many tabs, or consecutive other lines.

    ``mark`` separates the cells of the lines, which are ``width``; blank lines are only between lines with as many.
    """

    mark: str = ""
    width: int = 0
    lines: list[TextLine] = field(default_factory=list)


def _raw_tables(text: str) -> Iterator[tuple[list[TextLine], GridTable]]:
    above: list[TextLine] = []
    for block in _blocks(text):
        if block.mark:
            found = list(grid_tables(_grid(text, block)))
            for number, table in enumerate(found):
                yield (above if number == 0 else []), table
            if found or len(block.lines) > 1:
                above = []
            continue
        last: GridTable | None = None
        for over, table in line_tables(with_joined(text, block.lines)):
            yield over, table
            last = table
        above = [line for line in block.lines[-_TITLE_LINES:] if last is None or line.start >= last.end]


_BLANK: Final = " \t\r\v\f\u00a0\u200b\u2007\u2009\u202f\ufeff"


def _blocks(text: str) -> Iterator[_Block]:
    block = _Block()
    for start, end, blanks, mark, width in _with_tabs(text):
        if mark != block.mark or (mark and blanks and width != block.width):
            if block.lines:
                yield block
            block = _Block(mark, width)
        block.width = width
        block.lines.append(TextLine(start, end, "", blanks) if mark else text_line(text, start, end, blanks))
    if block.lines:
        yield block


_Marked = tuple[int, int, int, str, int]
"""Start and end of a line, blank lines above it, the mark between its cells, and their number."""


def _with_tabs(text: str) -> Iterator[_Marked]:
    """Yield the lines of a text; tabs separate cells where two consecutive lines or more have equally many."""
    held: list[_Marked] = []
    for line in _marked(text):
        is_next = bool(held) and line[3] == "\t" and line[4] == held[0][4] and not line[2]
        if held and not is_next:
            yield from held if len(held) > 1 else [(*held[0][:3], "", 0)]
            held = []
        if line[3] == "\t":
            held.append(line)
        else:
            yield line
    yield from held if len(held) > 1 else [(*line[:3], "", 0) for line in held]


def _marked(text: str) -> Iterator[_Marked]:
    blanks = start = 0
    size = len(text)
    while start <= size:
        end = text.find("\n", start)
        end = size if end < 0 else end
        if end > start and text[start : min(end, start + 4000)].strip(_BLANK):
            is_row = end - start <= _LONGEST_ROW
            bars = text.count("|", start, end) if is_row else 0
            tabs = text.count("\t", start, end) if is_row and not bars else 0
            yield start, end, blanks, "|" if bars else "\t" if tabs else "", bars or tabs
            blanks = 0
        else:
            blanks += 1
        start = end + 1


_RULE: Final = frozenset("-:=_ \t|+")


def _grid(text: str, block: _Block) -> list[RawRow]:
    """Return the rows of a block of lines with bars, without rules."""
    shown = [(line, text[line.start : line.end]) for line in block.lines]
    mark = block.mark
    opened = mark == "|" and all(words.lstrip().startswith(mark) for _, words in shown)
    rows: list[RawRow] = []
    for line, words in shown:
        if _RULE.issuperset(words[:200]) and "-" in words[:200]:
            if len(rows) == 1:
                rows[0].is_ruled = True
            continue
        cells: list[TableCell] = []
        at = 0
        column = 0
        if opened:
            at = words.index("|") + 1
        while at <= len(words):
            end = words.find(mark, at)
            end = len(words) if end < 0 else end
            said = words[at:end]
            plain = " ".join(said.split())
            if plain:
                start = line.start + at + len(said) - len(said.lstrip())
                cells.append(TableCell(column, plain, start, line.start + at + len(said.rstrip())))
            column += 1
            at = end + 1
        if mark == "|" and words.rstrip().endswith(mark):
            column -= 1
        if cells:
            rows.append(
                RawRow(line.start, line.end, "", cells, column, is_apart=line.blanks > 0 and line is not block.lines[0])
            )
    return rows


# Title, unit and times above a table.

_NO_TITLE: Final = re.compile(
    rf"{NOTE_OF_HEAD.pattern}|table of contents|page(?:\s\d+)?|continued|as\s(?:of|at)|\(continued\)", re.IGNORECASE
)
_ENDS_TITLE: Final = (".", ";", ",")
_YEARS: Final = re.compile(rf"\s*(?:{YEAR}(?:\s*(?:,|and|&)\s*)*)+$")


def _completed(raw: GridTable, above: Sequence[TextLine], rows: Sequence[TableRow], page: str, floor: int) -> Table:
    """Return a table with what the lines above its heads say."""
    units = list(raw.unit)
    said = [(words, -1) for words in raw.above]
    lines = [line for line in above if line.start >= floor][-_TITLE_LINES:]
    said = [*((line.text, line.start) for line in lines if line.end - line.start <= _LONGEST_TITLE), *said]
    title, start, span = "", raw.start, ""
    for words, at in reversed(said):
        plain = " ".join(words.split()).strip("# ")
        if not any(char.isalpha() for char in plain) or is_number(plain) or _NO_TITLE.fullmatch(plain):
            continue
        found = unit_in(plain)
        if found is not None and not units:
            units.insert(0, plain[slice(*found)])
        if is_unit(plain):
            start = at if at >= 0 else start
            continue
        if plain.endswith(_ENDS_TITLE) or plain.count(" ") >= _TITLE_WORDS:
            break
        rest = plain if found is None else f"{plain[: found[0]]} {plain[found[1] :]}".strip()
        if not span and _is_time(rest):
            span = rest
            if not title:
                title, start = plain, at if at >= 0 else start
            continue
        title, start = plain, at if at >= 0 else start
        break
    heads, stub = _with_time(raw.heads, span or title), raw.stub
    if heads == list(raw.heads) and stub and _is_time(stub) and not re.search(YEAR, stub) and _lack(heads, stub):
        heads, stub = [(stub, *head) for head in heads], ""
    unit = "; ".join(dict.fromkeys(units))
    return Table(start, raw.end, tuple(heads), tuple(rows), page, title, unit, stub)


def _is_time(words: str) -> bool:
    return is_period(words) and (SPAN.search(words) is not None or DAY.search(words) is not None)


def _lack(heads: Sequence[tuple[str, ...]], words: str) -> bool:
    """Return whether each head has a year, and none a day or the length of a span if ``words`` have one."""
    whole = " ".join(text for head in heads for text in head)
    each = all(len(re.findall(YEAR, " ".join(head))) == 1 for head in heads)
    return bool(heads) and each and not any(kind.search(words) and kind.search(whole) for kind in (SPAN, DAY))


def _with_time(heads: Sequence[tuple[str, ...]], words: str) -> list[tuple[str, ...]]:
    """Return heads that are only years below the day or span that the line above names for the same years, or none."""
    told = set(re.findall(YEAR, words))
    years = {year for head in heads for year in re.findall(YEAR, " ".join(head))}
    if not _is_time(words) or not _lack(heads, words) or (told and (told != years or len(told) < 2)):
        return list(heads)
    found = unit_in(words)
    plain = words if found is None else f"{words[: found[0]]}{words[found[1] :]}".strip()
    lead = _YEARS.sub("", plain) if told else plain
    place = min((match.start() for match in (SPAN.search(lead), DAY.search(lead)) if match), default=-1)
    if re.search(YEAR, lead):
        return list(heads)
    return list(heads) if place < 0 else [(lead[place:].strip(), *head) for head in heads]
