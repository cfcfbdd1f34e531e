"""Tables on the terminal that never break inside a word or number.

A table that is too wide for the terminal is printed as records instead: a heading per row, then its cells by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from okralong.jobs.terminal import printable

Kind = Literal["text", "short", "number"]

LONGEST_WORD: Final = 32  # project default
"""Longer words may be shortened with an ellipsis, so that one name does not take the whole width."""
LEAST_TEXT: Final = 14  # project default
"""Minimum width of a column of text that wraps, in characters."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A column: ``text`` wraps between words, ``short`` text and a right-aligned ``number`` stay on one line."""

    title: str
    kind: Kind = "text"


@dataclass
class Grid:
    """A table to print. The first ``head`` columns name a row in its record."""

    headings: Sequence[Heading]
    title: str = ""
    head: int = 1
    _rows: list[tuple[list[str], bool]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row of untrusted text."""
        self._rows.append(([printable(cell) for cell in cells], False))

    def end_section(self) -> None:
        """Draw a line below the last row."""
        if self._rows:
            self._rows[-1] = (self._rows[-1][0], True)

    def print(self, console: Console) -> None:
        """Print the rows, as a table if it fits."""
        widths = self._widths(console.width)
        if widths is None:
            self._print_records(console)
            return
        table = Table(title=Text(self.title) if self.title else None, title_justify="left")
        for heading, width in zip(self.headings, widths, strict=True):
            justify: Literal["left", "right"] = "right" if heading.kind == "number" else "left"
            one_line = heading.kind != "text"
            table.add_column(heading.title, width=width, justify=justify, no_wrap=one_line, overflow="ellipsis")
        for cells, last in self._rows:
            table.add_row(*map(Text, cells), end_section=last)
        console.print(table)

    def _widths(self, available: int) -> list[int] | None:
        """Return the width of each column, or None if the table does not fit."""
        columns = [[heading.title, *(row[at] for row, _ in self._rows)] for at, heading in enumerate(self.headings)]
        wanted = [max(cell_len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
        widths = [
            whole if heading.kind != "text" else min(whole, max(LEAST_TEXT, _longest_word(cells)))
            for heading, cells, whole in zip(self.headings, columns, wanted, strict=True)
        ]
        spare = available - sum(widths) - 3 * len(widths) - 1  # a border and two blanks per column
        if spare < 0:
            return None
        while spare and (narrow := [at for at, width in enumerate(widths) if width < wanted[at]]):
            for at in narrow:
                more = min(max(spare // len(narrow), 1), wanted[at] - widths[at], spare)
                widths[at] += more
                spare -= more
        return widths

    def _print_records(self, console: Console) -> None:
        if self.title:
            _wrapped(console, self.title, style="bold")
        for cells, _ in self._rows:
            _wrapped(console, ", ".join(cell for cell in cells[: self.head] if cell), style="bold")
            named = list(zip(self.headings, cells, strict=True))[self.head :]
            for heading, cell in named:
                if heading.kind == "text" and cell:
                    _wrapped(console, f"{heading.title}: {cell}", indent=2)
            short = [f"{heading.title} {cell}" for heading, cell in named if heading.kind != "text" and cell]
            for line in _packed(short, console.width - 2):
                _wrapped(console, line, indent=2)


def _packed(parts: Sequence[str], width: int) -> Iterator[str]:
    """Join the parts into lines, breaking only between parts."""
    line = ""
    for part in parts:
        longer = f"{line}; {part}" if line else part
        if line and cell_len(longer) > width:
            yield line
            longer = part
        line = longer
    if line:
        yield line


def shortened(text: str, most: int) -> str:
    """Return the text on one line with at most ``most`` characters, cut between words and ended with an ellipsis."""
    whole = " ".join(text.split())
    if len(whole) <= most:
        return whole
    begin, blank, _ = whole[:most].rpartition(" ")
    return f"{begin if blank and len(begin) > most // 2 else whole[: most - 1]}…"


def _longest_word(cells: Sequence[str]) -> int:
    return min(max((cell_len(word) for cell in cells for word in cell.split()), default=0), LONGEST_WORD)


def _wrapped(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    console.print(Padding(Text(text, style=style, overflow="ellipsis"), (0, 0, 0, indent)))
