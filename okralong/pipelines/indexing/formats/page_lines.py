"""The words and rules of one page of a document, as its boxes place them."""

from __future__ import annotations

from dataclasses import dataclass

from okralong.pipelines.core.tables import Table


@dataclass(frozen=True, slots=True)
class Word:
    """A run of characters without blanks.

    Attributes:
        x0: The left edge in points, as a reader sees the page (rotation applied).
        x1: The right edge.
        y: The baseline in points, growing downwards.
        height: The height of its font's box in points.
        text: The characters.
        start: The first character's offset in the page's text.
        end: The offset after the last character.
    """

    x0: float
    x1: float
    y: float
    height: float
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A thin horizontal line from ``x0`` to ``x1`` at ``y``, in the coordinates of the words."""

    x0: float
    x1: float
    y: float


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page, with offsets into the page's text, and the left and right edge of each of its columns.

    A table may have no heads at all (an empty tuple for each column): it may continue the one of the page before.
    """

    table: Table
    columns: tuple[tuple[float, float], ...]

    @property
    def has_heads(self) -> bool:
        """Whether the columns have heads of their own."""
        return all(self.table.heads)
