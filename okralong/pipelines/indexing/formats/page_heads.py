"""Heads of a page's table: which columns each piece above the first row belongs to.

A head belongs to the columns above the rule below it, to the column that it overlaps, or, where several fit, to the run
of columns whose middle it stands over.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from okralong.pipelines.indexing.formats.page_columns import Column
from okralong.pipelines.indexing.formats.page_lines import Line, Piece, Rule, split_piece
from okralong.pipelines.indexing.formats.page_titles import is_date_line, unit_in


@dataclass(slots=True)
class Heads:
    """The heads of a table.

    Attributes:
        levels: For each column its heads from the top to the bottom.
        stub: The pieces that stand left of heads, above the labels, from the top to the bottom.
        units: Unit lines that stand over the columns.
        pieces: Every piece that is part of a head.
        top: The index of the topmost head line; that of the first row if there is none.
        bottom: The index after the lowest head line; that of the first row if there is none.
    """

    levels: list[tuple[str, ...]]
    stub: list[Piece]
    units: list[Piece]
    pieces: list[Piece]
    top: int
    bottom: int


_DATE_GOES_ON: Final = re.compile(
    r"(?:,|\b(?:ended|ending|of|at|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?)$",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(
    r"\b(?:statements?|balance sheets?|subsidiaries|limited|ltd|inc|plc|corp|corporation|schedule|notes to|report)\b",
    re.IGNORECASE,
)
_YEARS: Final = re.compile(r"\b(?:19|20)\d\d\b")
_FOOTNOTE: Final = re.compile(r"(?:\((?:\d|[a-z])\)){1,3}")
"""A footnote mark at the end of a head."""
_OF: Final = " of"
"""How the first line of a unit in two lines ends: "Thousands of", "U.S. dollars"."""
_MOST_LINES: Final = 12
"""Lines above the first row that may hold heads. # project default"""


def read_heads(
    lines: Sequence[Line],
    first: int,
    floor: int,
    columns: Sequence[Column],
    labels: tuple[float, float],
    rules: Sequence[Rule],
) -> Heads:
    """Return the heads above the row at index ``first``.

    Args:
        lines: The lines of the page.
        first: The index of the table's first row.
        floor: The index of the first line that may belong to it.
        columns: The columns of values, from left to right.
        labels: The left and right edges of the labels.
        rules: The rules of the page from the top to the bottom.
    """
    top = lines[max(floor, first - _MOST_LINES)].y - lines[first].height
    low, high = (bisect_left(rules, y, key=lambda rule: rule.y) for y in (top, lines[first].y))
    reader = _Reader(lines, first, columns, labels[1], rules[low:high])
    index = first - 1
    while index >= max(floor, first - _MOST_LINES) and reader.takes(index):
        index -= 1
    return reader.heads()


@dataclass(slots=True)
class _Head:
    """A piece of a head line with the columns that it belongs to."""

    piece: Piece
    columns: tuple[int, ...]
    y: float


@dataclass(slots=True)
class _Reader:
    """Reads head lines from the lowest to the topmost."""

    lines: Sequence[Line]
    first: int
    columns: Sequence[Column]
    label_right: float
    rules: Sequence[Rule]
    heads_of: list[list[_Head]] = field(init=False)
    stub: list[Piece] = field(default_factory=list)
    passed: list[Piece] = field(default_factory=list)
    """Pieces of lines above heads that are stubs only where more heads follow above them."""
    units: list[Piece] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    top: int = field(init=False)
    bottom: int | None = None
    below: float = field(init=False)
    height: float = field(init=False)
    middles: list[float] = field(init=False)
    complete: bool = False
    done: bool = False

    def __post_init__(self) -> None:
        self.heads_of = [[] for _ in self.columns]
        self.top = self.first
        line = self.lines[self.first]
        self.below, self.height = line.y, line.height
        self.middles = [column.middle for column in self.columns]

    def heads(self) -> Heads:
        """Return what was read."""
        levels = [self._levels(heads[::-1]) for heads in self.heads_of]
        bottom = self.first if self.bottom is None else self.bottom
        return Heads(levels, self.stub[::-1], self.units[::-1], self.pieces, self.top, bottom)

    @property
    def zone(self) -> float:
        """The left edge of the columns."""
        return self.columns[0].left

    @property
    def edges(self) -> list[float]:
        """The borders between the columns."""
        columns, height = self.columns, self.height
        inner = [(before.right + after.left) / 2 for before, after in pairwise(columns)]
        return [columns[0].x0 - 4 * height, *inner, columns[-1].right + 2 * height]

    def takes(self, index: int) -> bool:
        """Read the line with this index; return whether heads may go on above it."""
        line = _without_marks(self.lines[index])
        if self._is_apart(line) or (self.done and not self._goes_on_above(line)):
            return False
        line = replace(line, pieces=tuple(part for piece in line.pieces for part in self._parts(piece)))
        over = [piece for piece in line.pieces if self._is_over_columns(piece)]
        if over and over[0] is not line.pieces[0]:  # a head left of the amounts of its wide column
            over = [
                piece for piece in line.pieces if piece.left > self.label_right or any(piece is other for other in over)
            ]
        left = line.pieces[: len(line.pieces) - len(over)]
        if any(piece.right > self.zone + 2 * self.height for piece in left):
            return False
        if not over:
            return self._passes_labels(left, line)
        if len(over) == 1 < len(self.columns) and self._is_title(over[0], line):
            return False
        only = over[0].text if len(over) == 1 < len(self.columns) else ""
        if unit_in(only) and not is_date_line(only) and not only.endswith(_OF):
            self.units.append(over[0])
        else:
            self._add(over, line)
        self.stub.extend([*self.passed, *reversed(left)])
        self.passed = []
        self.top = index
        self.bottom = index + 1 if self.bottom is None else self.bottom
        self.below = line.y
        return True

    def _parts(self, piece: Piece) -> list[Piece]:
        """Return the heads that a piece is made of, where those of neighbouring columns nearly touch."""
        edges = self.edges[1:-1]
        lefts = [column.left for column in self.columns[1:]]
        rights = [right for column in self.columns[:-1] for right in (column.x1, column.right)]
        return split_piece(piece, [*lefts, *edges], [*rights, *edges])

    def _is_apart(self, line: Line) -> bool:
        """Return whether a line is too far above, or is a row of another table."""
        over = [piece for piece in line.pieces if piece.right > self.zone]
        dates = all(piece.is_period for piece in over) or (
            len(over) > 1 and all(is_date_line(each.text) for each in over)
        )
        far = 4.0 if not self.pieces or dates else 2.6
        if self.below - line.y > far * self.height:
            return True
        amounts = [piece for piece in line.amounts if piece.right > self.zone - 2]  # left of it: numbers of sections
        return not all(piece.is_period or piece.may_be_head for piece in amounts)

    def _is_over_columns(self, piece: Piece) -> bool:
        height, zone = self.height, self.zone
        return piece.right > zone - 0.5 * height and (
            piece.left > zone - 3.2 * height
            or piece.left > self.columns[0].x0 - 4 * height
            or (piece.left > zone - 6 * height and piece.right - piece.left < 9 * height)
        )

    def _goes_on_above(self, line: Line) -> bool:
        """Return whether a line is the upper line of a period that stands over all columns."""
        return len(line.pieces) == 1 and self.below - line.y < 1.5 * line.height and is_date_line(line.text)

    def _is_title(self, piece: Piece, line: Line) -> bool:
        """Return whether the only piece over the columns is the table's title or prose, not a head."""
        text, words = piece.text, len(piece.words)
        if words > 14 or (words > 3 and text[-1] in ".:") or (text[0].islower() and words > 6):
            return True
        if self._above_rule(piece, line)[0]:
            return False
        if piece.words[0].height > 1.15 * self.height or _TITLE.search(text):
            return True
        if is_date_line(text):
            return len(_YEARS.findall(text)) > 1
        return piece.left < self.zone - self.height and words > 2 and not self._is_at_left(piece)

    def _is_at_left(self, piece: Piece) -> bool:
        """Return whether a piece reaches over no more than the first column."""
        return piece.right < self.edges[1]

    def _passes_labels(self, left: Sequence[Piece], line: Line) -> bool:
        """Look at a line with text above the labels only; return whether heads may go on above it."""
        if not self.pieces:  # a section heading between heads and first row
            self.below = line.y
            return True
        self.passed.extend(reversed(left))
        return len(self.passed) <= 3

    def _add(self, over: list[Piece], line: Line) -> None:
        """Give each piece of a head line its columns."""
        spans = self._spans(over, line)
        for piece, span in reversed(list(zip(over, spans, strict=True))):  # all heads are turned around at the end
            for column in span:
                self.heads_of[column].append(_Head(piece, tuple(span), line.y))
            if len(span) == 1:
                self.middles[span[0]] = piece.middle
        self.pieces.extend(over)
        periods = all(piece.is_period for piece in over)
        self.complete = self.complete or (len(over) == len(self.columns) and periods)
        self.done = len(over) == 1 and len(spans[0]) == len(self.columns) > 1

    def _spans(self, over: list[Piece], line: Line) -> list[list[int]]:
        """Return the columns of each piece of a head line."""
        columns, count = self.columns, len(self.columns)
        rules = [self._above_rule(piece, line) for piece in over]
        if found := self._groups_of_rules(rules) or self._groups_of_repeated_heads(over):
            return found
        width = (columns[-1].x1 - columns[0].x0) / count
        complete = self.complete or (
            all(self.heads_of) and 1 < len(over) < count and all(piece.is_period for piece in over)
        )  # periods over complete heads span them
        spans: list[list[int] | None] = []
        for piece, (ruled, left, right) in zip(over, rules, strict=True):
            overlapped = self._overlapped(piece)
            spanning = (
                len(ruled) > 1 and len(over) < count and abs(self._group_middle(ruled) - piece.middle) < 0.6 * width
            )
            single = len(ruled) == 1 and not complete and left - 3 < piece.left and piece.right < right + 3
            touched = self._touched(piece)
            if spanning or single:
                spans.append(ruled)
            elif below := self._span_below(piece, line):
                spans.append(below)
            elif (
                len(over) < count
                and not complete
                and len(ruled) < 2
                and len(touched) == 1
                and self._joins(piece, touched)
            ):
                spans.append(touched)
            elif len(over) < count and (complete or len(overlapped) > 1 or len(ruled) > 1):
                spans.append(None)
            else:
                spans.append([self._nearest(piece)])
        return _fitting(over, spans, self._group_middles(), width)

    def _groups_of_rules(self, rules: list[tuple[list[int], float, float]]) -> list[list[int]]:
        """Return the columns of pieces that each stand over a rule of their own, else nothing."""
        groups = [ruled for ruled, _, _ in rules]
        taken = [column for group in groups for column in group]
        apart = len(rules) > 1 and all(groups) and len(set(taken)) == len(taken)
        return groups if apart and any(len(group) > 1 for group in groups) else []

    def _groups_of_repeated_heads(self, over: list[Piece]) -> list[list[int]]:
        """Return the columns of pieces over heads that repeat below each of them, else nothing."""
        count, size = len(self.columns), len(self.columns) // len(over)
        if len(over) < 2 or size < 2 or size * len(over) != count:
            return []
        texts = [tuple(head.piece.text.casefold() for head in heads) for heads in self.heads_of]
        if not all(texts) or any(texts[place] != texts[place % size] for place in range(count)):
            return []
        groups = [list(range(first, first + size)) for first in range(0, count, size)]
        return groups if all(map(self._may_span, over, groups)) else []

    def _may_span(self, piece: Piece, group: Sequence[int]) -> bool:
        """Return whether a piece stands over a group of columns, rather than over one of them."""
        edges = self.edges
        if not edges[group[0]] < piece.middle < edges[group[-1] + 1]:
            return False
        over_periods = all(heads.piece.is_period for place in group for heads in self.heads_of[place][-1:])
        return over_periods or is_date_line(piece.text) or piece.is_period or len(self._touched(piece)) > 1

    def _joins(self, piece: Piece, touched: list[int]) -> bool:
        """Return whether a piece can be a line of the only head below it; a date over other words spans columns."""
        heads = self.heads_of[touched[0]]
        return (
            not heads or not is_date_line(piece.text) or heads[-1].piece.is_period or is_date_line(heads[-1].piece.text)
        )

    def _span_below(self, piece: Piece, line: Line) -> list[int]:
        """Return the columns of the spanning head that a piece is the upper line of, else nothing."""
        for heads in self.heads_of:
            lower = heads[-1] if heads else None
            if (
                lower is not None
                and len(lower.columns) > 1
                and lower.y - line.y < 1.6 * line.height
                and abs(lower.piece.middle - piece.middle) < 0.7 * self.height
                and not (lower.piece.is_period and is_date_line(piece.text))
            ):
                return list(lower.columns)
        return []

    def _touched(self, piece: Piece) -> list[int]:
        """Return the columns whose values or lower heads a piece stands over."""
        touched = []
        for place, (column, heads) in enumerate(zip(self.columns, self.heads_of, strict=True)):
            own = [head.piece for head in heads if len(head.columns) == 1]
            left, right = (
                (min(piece.left for piece in own), max(piece.right for piece in own))
                if own
                else (column.left, column.right)
            )
            if min(piece.right, right) > max(piece.left, left):
                touched.append(place)
        return touched

    def _above_rule(self, piece: Piece, line: Line) -> tuple[list[int], float, float]:
        """Return the columns above the rule below a piece, with the rule's ends."""
        height, middle = self.height, piece.middle
        border = min(self.zone - 4 * height, self.label_right) - 2 * height
        near = [
            rule
            for rule in self.rules
            if line.y - 0.1 * height < rule.y < line.y + 1.1 * height
            and rule.y < self.below - 0.45 * height
            and rule.x0 > border
        ]
        below = [rule for rule in near if rule.x0 - 2 < middle < rule.x1 + 2]
        if not below:  # one line in parts
            parts = [rule for rule in near if min(rule.x1, piece.right) - max(rule.x0, piece.left) > 2]
            below = parts if len(parts) > 1 else []
        if not below:
            return [], 0.0, 0.0
        left, right = min(rule.x0 for rule in below), max(rule.x1 for rule in below)
        ruled = [place for place, column in enumerate(self.columns) if left - 1 <= column.middle <= right + 1]
        return ruled, left, right

    def _overlapped(self, piece: Piece) -> list[int]:
        edges = self.edges
        return [
            place
            for place in range(len(self.columns))
            if min(piece.right, edges[place + 1]) - max(piece.left, edges[place])
            > 0.35 * min(edges[place + 1] - edges[place], piece.right - piece.left)
        ]

    def _nearest(self, piece: Piece) -> int:
        edges = self.edges
        return max(
            range(len(self.columns)),
            key=lambda place: (
                min(piece.right, edges[place + 1]) - max(piece.left, edges[place]),
                -abs(piece.middle - self.middles[place]),
            ),
        )

    def _group_middle(self, group: Sequence[int]) -> float:
        return self._group_middles()(group[0], group[-1])

    def _group_middles(self) -> _Middles:
        return _Middles(self.columns, self.middles)

    def _levels(self, heads: list[_Head]) -> tuple[str, ...]:
        """Return the heads of a column from the top to the bottom, wrapped lines joined."""
        levels: list[str] = []
        before: _Head | None = None
        for head in heads:
            if before is not None and self._goes_on(before, head):
                levels[-1] += " " + head.piece.text
            else:
                levels.append(head.piece.text)
            before = head
        return tuple(levels)

    def _goes_on(self, upper: _Head, lower: _Head) -> bool:
        """Return whether a head is the next line of the one above it."""
        if upper.columns != lower.columns or lower.y - upper.y > 2 * self.height:
            return False
        if upper.piece.text.endswith(_OF):
            return True
        if lower.piece.is_period and _DATE_GOES_ON.search(upper.piece.text):
            return True
        if any(piece.is_period or unit_in(piece.text) or len(piece.text) == 1 for piece in (upper.piece, lower.piece)):
            return False
        middle = upper.piece.middle
        return not any(
            upper.y < rule.y < lower.y - 0.45 * self.height and rule.x0 - 2 < middle < rule.x1 + 2
            for rule in self.rules
        )


def _without_marks(line: Line) -> Line:
    """Return a line of words without the footnote marks that stand apart in it: "Business | (2)"."""
    if all(piece.amount for piece in line.pieces) or line.is_data:
        return line
    return replace(line, pieces=tuple(piece for piece in line.pieces if not _FOOTNOTE.fullmatch(piece.text)))


@dataclass(frozen=True, slots=True)
class _Middles:
    """The middle over which a head of columns ``first`` to ``last`` stands."""

    columns: Sequence[Column]
    middles: Sequence[float]

    def __call__(self, first: int, last: int) -> float:
        between = (self.middles[first] + self.middles[last]) / 2
        whole = (self.columns[first].left + self.columns[last].x1) / 2
        return (between + whole) / 2

    def nearest(self, middle: float) -> int:
        """Return the column whose middle is closest."""
        return min(range(len(self.columns)), key=lambda place: abs(self(place, place) - middle))


def _fitting(over: list[Piece], spans: list[list[int] | None], group_middle: _Middles, width: float) -> list[list[int]]:
    """Return spans, those that are None filled: runs of columns in order that the heads are centred over.

    Years may also all stand at the right edges of their columns.
    """
    if None not in spans:
        return [span for span in spans if span is not None]
    columns = group_middle.columns
    centred = _cheapest(spans, len(columns), width, lambda head, a, b: abs(group_middle(a, b) - over[head].middle))
    found = [centred]
    if len(over) > 1 and all(piece.is_period for piece in over):
        found.append(
            _cheapest(spans, len(columns), width, lambda head, _, last: abs(columns[last].right - over[head].right))
        )
    best = min((each for each in found if each), key=lambda each: each[0], default=None)
    if best is None:
        return [span or [group_middle.nearest(piece.middle)] for piece, span in zip(over, spans, strict=True)]
    return best[1]


def _cheapest(
    spans: list[list[int] | None], count: int, width: float, distance: Callable[[int, int, int], float]
) -> tuple[float, list[list[int]]] | None:
    """Return runs of columns in order for the heads of a line with the least distances, and what is left out costs."""
    skipped = 0.2 * width
    best: dict[int, tuple[float, list[list[int]]]] = {0: (0.0, [])}
    for head, fixed in enumerate(spans):
        reached: dict[int, tuple[float, list[list[int]]]] = {}
        for start, (cost, chosen) in best.items():
            firsts = range(start, count) if fixed is None else range(max(start, fixed[0]), fixed[0] + 1)
            for first in firsts:
                for last in range(first, count) if fixed is None else (fixed[-1],):
                    far = 0.0 if fixed is not None else distance(head, first, last)
                    total = cost + far + skipped * (first - start)
                    if last + 1 not in reached or total < reached[last + 1][0]:
                        reached[last + 1] = (total, [*chosen, list(range(first, last + 1))])
        best = reached
    return min(((cost + skipped * (count - end), chosen) for end, (cost, chosen) in best.items()), default=None)
