"""What a report is made of before it is text: headings, paragraphs and tables, with marked facts.

A fact is marked where it is written, ``mark("founder", "Edith Quist")``, and survives every rendering: the renderer
strips the marks and notes where the marked words came to lie. So gold spans are exact by construction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# Private-use characters: no template and no name can contain them.
_OPEN: Final = "\ue000"
_MIDDLE: Final = "\ue001"
_CLOSE: Final = "\ue002"
MARK: Final = re.compile(f"{_OPEN}([^{_MIDDLE}]*){_MIDDLE}([^{_CLOSE}]*){_CLOSE}")


def mark(key: str, text: str) -> str:
    """``text`` as the statement of the fact ``key``. A key is marked once in a report."""
    return f"{_OPEN}{key}{_MIDDLE}{text}{_CLOSE}"


def unmarked(text: str) -> str:
    """The words alone."""
    return MARK.sub(r"\2", text)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 (the report), 2 (a section) or 3 (a part of it)."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; ``key`` makes the whole of it a fact, for questions that ask for a summary."""

    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table row of whole numbers. ``total_of`` names the rows above that it sums; empty for an ordinary row."""

    label: str
    values: tuple[int, ...]
    total_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. The fact of a cell is ``table_id/row label/column``."""

    table_id: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Block = Heading | Paragraph | Table


def cell(table_id: str, label: str, column: int | str) -> str:
    """The fact key of a table cell."""
    return f"{table_id}/{label}/{column}"


def grouped(value: int) -> str:
    """A whole number as accounts print it: thousands separated, a negative one in parentheses."""
    return f"({-value:,})" if value < 0 else f"{value:,}"


def word_count(block: Block) -> int:
    """Words of a block, split at white space, about as the text rendering has them."""
    if isinstance(block, Table):
        head = len(block.title.split()) + sum(len(column.split()) for column in block.columns)
        return head + sum(len(row.label.split()) + len(row.values) for row in block.rows)
    return len(unmarked(block.text).split())
