"""The compact form of tables in prompts: a head line, the columns' heads, and one line per row.

    [Consolidated Balance Sheets | in millions | page 40]
    |December 31, 2018|December 31, 2019
    # Current assets
    Cash and cash equivalents|31,750|36,092

A chunk that begins in the middle of a table has lost the title, unit and heads; this form always begins with them. It
also has fewer tokens than the text of most tables, which separates cells by blanks and repeats currency signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from okralong.pipelines.core.tables import Table, TableRow
from okralong.pipelines.core.types import ShownPart

_LONGEST_TITLE: Final = 160  # project default: titles of statements have up to 100 characters
_LONGEST_HEAD: Final = 100  # project default
"""The most characters of a title or unit, and of a column's head: a damaged table must not fill the prompt."""


def compact(table: Table, rows: Sequence[TableRow] | None = None) -> str:
    """Return a table, or some of its rows in the given order, in the compact form."""
    return "".join(part.text for part in compact_parts(table, rows))


def compact_parts(table: Table, rows: Sequence[TableRow] | None = None) -> list[ShownPart]:
    """Return the compact form in lines: one for what stands above the rows, and one for each row.

    Only columns in which a row has a cell are shown.
    """
    chosen = table.rows if rows is None else rows
    columns = sorted({cell.column for row in chosen for cell in row.cells})
    first = min((row.start for row in table.rows), default=table.end)
    head = ShownPart(_head_lines(table, columns), table.start, max(table.start, first))
    parts = [head]
    sections: tuple[str, ...] = ()
    for row in chosen:
        parts.append(ShownPart(_section_line(row, sections) + _row_line(row, columns), row.start, row.end))
        sections = row.sections
    return parts


def _head_lines(table: Table, columns: Sequence[int]) -> str:
    page = "" if not table.page else f"page {table.page}" if table.page.isdigit() else table.page
    unit = table.unit.strip("()")
    unit = "" if unit.casefold() in table.title.casefold() else unit
    above = [_cut(each, _LONGEST_TITLE) for each in (table.title, unit, page) if each]
    heads = [table.heads[column] for column in columns]
    # The levels that all columns share are written once, in the place of the labels' head.
    shared = [levels[0] for levels in takewhile(lambda each: len(set(each)) == 1, zip(*heads, strict=False))]
    if len(heads) < 2 or any(len(head) <= len(shared) for head in heads):
        shared = []
    stub = " ".join([*([table.stub] if table.stub else []), *shared])
    own = [_cut(" ".join(head[len(shared) :]), _LONGEST_HEAD) for head in heads]
    lines = [f"[{' | '.join(above)}]\n"] if above else []
    if stub or any(own):
        lines.append("|".join([_cut(stub, _LONGEST_HEAD), *own]) + "\n")
    return "".join(lines)


def _section_line(row: TableRow, before: tuple[str, ...]) -> str:
    """Return the line with the sections of a row, unless there are none or the row before has the same."""
    if row.sections in ((), before):
        return ""
    return f"# {' > '.join(_cut(each, _LONGEST_HEAD) for each in row.sections)}\n"


def _row_line(row: TableRow, columns: Sequence[int]) -> str:
    cells = {cell.column: cell.text for cell in row.cells}
    return "|".join([_one_line(row.label), *(_one_line(cells.get(column, "")) for column in columns)]) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, most: int) -> str:
    text = _one_line(text)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


# A stretch of a document in which tables are in the compact form.


def shown_parts(text: str, start: int, end: int, tables: Iterable[Table]) -> tuple[ShownPart, ...]:
    """Return ``text[start:end]`` with the rows of ``tables`` in the compact form; () if it has no row.

    Each table begins with its title, unit and heads, also if these are before ``start``. Lines between rows are kept,
    unless the compact form repeats their words. A row with a number that is in none of its cells stays as it is
    written, since a column without a head has no cells.

    Args:
        text: The document's text.
        start: The first character shown.
        end: The character after the last one shown.
        tables: Tables of the document.
    """
    parts: list[ShownPart] = []
    at = start
    for table, rows in _tables_between(start, end, tables):
        if rows[0].start < at and parts:  # it stands beside the table before
            continue
        head, *lines = compact_parts(table, rows)
        known = _words(" ".join([head.text, *(" ".join(row.sections) for row in rows)]))
        begin = min(max(at, table.start), rows[0].start)
        at += bool(parts) and text.startswith("\n", at)
        parts += [*_verbatim(text, at, begin), *_unknown_lines(text, begin, rows[0].start, known)]
        if parts and not parts[-1].text.endswith("\n"):
            head = replace(head, text=f"\n{head.text}")
        parts.append(head)
        at = rows[0].start
        for row, line in zip(rows, lines, strict=True):
            parts += _unknown_lines(text, at, row.start, known)
            first, last = max(row.start, start), min(row.end, end)
            written = line.text if _is_whole(row, text) else f"{text[first:last].strip()}\n"
            parts.append(ShownPart(written, first, last))
            at = max(at, row.end)
    return (*parts, *_verbatim(text, at + text.startswith("\n", at), end)) if parts else ()


def _tables_between(start: int, end: int, tables: Iterable[Table]) -> Iterator[tuple[Table, list[TableRow]]]:
    """Yield the tables with rows that overlap ``start:end``, and these rows, in the order of the text."""
    for table in sorted(tables, key=lambda each: each.start):
        if table.start < end and table.end > start:
            rows = sorted((row for row in table.rows if row.start < end and row.end > start), key=lambda row: row.start)
            if rows:
                yield table, rows


def _verbatim(text: str, start: int, end: int) -> list[ShownPart]:
    return [ShownPart(text[start:end], start, end)] if start < end and not text[start:end].isspace() else []


def _unknown_lines(text: str, start: int, end: int, known: frozenset[str]) -> list[ShownPart]:
    """Return the lines of a stretch that have a word which is not known."""
    return [
        ShownPart(f"{match[0].strip()}\n", match.start(), match.end())
        for match in _LINE.finditer(text, start, max(start, end))
        if not _words(match[0]) <= known
    ]


_LINE: Final = re.compile(r"[^\n]+")
_NUMBER: Final = re.compile(r"\d[\d.,]*")
_FOOTNOTE: Final = 2
"""The most digits of a number that may be missing from a row's cells: notes and their marks. # project default"""


def _is_whole(row: TableRow, text: str) -> bool:
    """Return whether the label and cells of a row have all numbers of its text."""
    known = set(_NUMBER.findall(" ".join([row.label, *(cell.text for cell in row.cells)])))
    return all(
        len(each.strip(".,")) <= _FOOTNOTE or each in known for each in _NUMBER.findall(text[row.start : row.end])
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))
