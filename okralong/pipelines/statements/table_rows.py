"""Build the rows of a table from its lines: sections, wrapped labels, and cells in the columns that have heads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from okralong.pipelines.core.tables import TableCell, TableRow

CONNECTS: Final = re.compile(
    r"(?:[,&(\u2013\u2014/-]|\b(?:and|or|of|for|to|in|on|from|by|with|the|a|an|at|per|net|less|including|excluding))$",
    re.IGNORECASE,
)
"""The end of a text that goes on."""
_FILLER: Final = re.compile(r"[\s.\u2026_:|]+$")
_LONGEST_LABEL: Final = 300
"""Characters of a label; a longer text is no label. # project default"""
_DEEPEST: Final = 6


@dataclass(slots=True)
class RawRow:
    """A line of a table before its columns are known: ``column`` of its cells is their place in the line.

    ``width`` is the number of cells with empty ones in a grid, else 1 for wide gaps in the line and 2 for tabs.
    ``is_apart`` says that blank lines are above it, ``is_ruled`` that a rule is below it, as below heads in Markdown.
    """

    start: int
    end: int
    label: str
    cells: list[TableCell] = field(default_factory=list)
    width: int = 0
    indent: int = 0
    is_apart: bool = False
    is_ruled: bool = False


def trimmed(label: str) -> str:
    """Return a label without dot leaders, in one line."""
    plain = " ".join(label.split())
    shown = _FILLER.sub("", plain)
    return f"{shown}:" if plain[len(shown) :].strip() == ":" else shown


def finished(rows: Iterable[RawRow], columns: Mapping[int, int]) -> list[TableRow]:
    """Return the rows of a table: rows without cells become sections or the beginning of a wrapped label.

    ``columns`` maps the columns of the raw rows to those of the table; cells of other columns are left out.
    """
    out: list[TableRow] = []
    sections: list[_Section] = []
    pending: list[RawRow] = []
    last = 0
    for row in rows:
        label, start = trimmed(row.label), row.start
        if not row.cells:
            if len(label) <= _LONGEST_LABEL and any(map(str.isalpha, label)):
                pending.append(RawRow(row.start, row.end, label, [], 0, row.indent))
            continue
        if out and pending and _hangs(pending, last, row.indent):
            out[-1] = _continued(out[-1], pending)
            pending.clear()
        while pending and _wraps(pending[-1].label, label):
            above = pending.pop()
            label, start = f"{above.label} {label}".strip(), above.start
        _open(sections, pending, row.indent)
        pending.clear()
        cells = tuple(
            TableCell(columns[cell.column], cell.text, cell.start, cell.end)
            for cell in row.cells
            if cell.column in columns
        )
        if cells:
            out.append(
                TableRow(label.rstrip(": "), start, row.end, cells, tuple(section.label for section in sections))
            )
        _close(sections, label)
        last = row.indent
    return out


@dataclass(slots=True)
class _Section:
    label: str
    indent: int
    of_rows: int


def _hangs(pending: Sequence[RawRow], above: int, below: int) -> bool:
    """Return whether lines between two rows continue the label of the upper one: they are indented more than both."""
    if pending[0].label[0].islower():
        return all(each.label[0].islower() and not each.label.endswith(":") for each in pending)
    return below <= above and all(each.indent > above and not each.label.endswith(":") for each in pending)


def _continued(row: TableRow, lines: Sequence[RawRow]) -> TableRow:
    label = " ".join([row.label, *(line.label for line in lines)])
    if len(label) > _LONGEST_LABEL:
        return row
    return TableRow(label, row.start, lines[-1].end, row.cells, row.sections)


def _wraps(above: str, below: str) -> bool:
    """Return whether a label continues the line above it."""
    if above.endswith(":") or not below or len(above) + len(below) > _LONGEST_LABEL:
        return False
    return below[0].islower() or bool(CONNECTS.search(above)) or above.count("(") > above.count(")")


def _open(sections: list[_Section], lines: Sequence[RawRow], indent: int) -> None:
    """End the sections that a row is not indented below, and begin those of the lines above it.

    The first of them replaces the section that is written like it.
    """
    while sections and sections[-1].of_rows > sections[-1].indent >= indent:
        sections.pop()
    for number, line in enumerate(lines):
        if number == 0:
            same = [place for place, each in enumerate(sections) if _style(each.label) == _style(line.label)]
            del sections[same[-1] if same else max(0, len(sections) - 1) :]
        if len(sections) < _DEEPEST:
            sections.append(_Section(line.label, line.indent, indent))


def _style(label: str) -> tuple[bool, bool]:
    return label.isupper(), label.endswith(":")


def _close(sections: list[_Section], label: str) -> None:
    """End the section that a row totals: "Total current assets" ends "Current assets:"."""
    said = _plain(label)
    if "total" not in said.split():
        return
    said = said.replace("total", "", 1).strip()
    for place, section in enumerate(sections):
        if said == _plain(section.label):
            del sections[place:]
            return


def _plain(label: str) -> str:
    return " ".join(re.findall(r"[a-z]+", label.casefold()))
