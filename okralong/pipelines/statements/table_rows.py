"""Build the rows of a table from its lines: sections, wrapped labels, and cells in the columns that have heads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from okralong.pipelines.core.tables import TableCell, TableRow

_CONNECTS: Final = re.compile(
    r"(?:[,&(\u2013\u2014/-]|\b(?:and|or|of|for|to|in|on|from|by|with|the|a|an|at|per|net|less|including|excluding))$",
    re.IGNORECASE,
)
_FILLER: Final = re.compile(r"[\s.\u2026_:|]+$")
_LONGEST_LABEL: Final = 300
"""Characters of a label; a longer text is no label. # project default"""
_DEEPEST: Final = 6


@dataclass(slots=True)
class RawRow:
    """A line of a table before its columns are known: ``column`` of its cells is their place in the line."""

    start: int
    end: int
    label: str
    cells: list[TableCell] = field(default_factory=list)
    width: int = 0


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
    sections: list[str] = []
    pending: list[RawRow] = []
    for row in rows:
        if not row.cells:
            if row.label and len(row.label) <= _LONGEST_LABEL:
                pending.append(row)
            continue
        label, start = row.label, row.start
        while pending and _wraps(pending[-1].label, label):
            above = pending.pop()
            label, start = f"{above.label} {label}".strip(), above.start
        _open(sections, [each.label for each in pending])
        pending.clear()
        cells = tuple(
            TableCell(columns[cell.column], cell.text, cell.start, cell.end)
            for cell in row.cells
            if cell.column in columns
        )
        if cells and label:
            out.append(TableRow(label, start, row.end, cells, tuple(sections)))
        _close(sections, label)
    return out


def _wraps(above: str, below: str) -> bool:
    """Return whether a label continues the line above it."""
    if above.endswith(":") or not below or len(above) + len(below) > _LONGEST_LABEL:
        return False
    return below[0].islower() or bool(_CONNECTS.search(above)) or above.count("(") > above.count(")")


def _open(sections: list[str], labels: list[str]) -> None:
    """Replace the section that is written like the first label, and add the others below it."""
    for number, label in enumerate(labels):
        if number == 0:
            same = [place for place, each in enumerate(sections) if _style(each) == _style(label)]
            del sections[same[-1] if same else max(0, len(sections) - 1) :]
        if len(sections) < _DEEPEST:
            sections.append(label)


def _style(label: str) -> tuple[bool, bool]:
    return label.isupper(), label.endswith(":")


def _close(sections: list[str], label: str) -> None:
    """End the section that a row totals: "Total current assets" ends "Current assets:"."""
    said = _plain(label)
    if "total" not in said.split():
        return
    said = said.replace("total", "", 1).strip()
    for place, section in enumerate(sections):
        if said == _plain(section):
            del sections[place:]
            return


def _plain(label: str) -> str:
    return " ".join(re.findall(r"[a-z]+", label.casefold()))
