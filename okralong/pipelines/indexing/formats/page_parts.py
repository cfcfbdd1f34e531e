"""Parts of a page that are read apart: two columns of text, and two tables side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.indexing.formats.page_lines import Line, Piece, Word, read_lines


def parts_of(words: Sequence[Word]) -> list[list[Line]]:
    """Return the lines of each part of a page in reading order."""
    return [lines for side in _columns_of_text(words) for lines in _beside(side, read_lines(side)) if lines]


def _columns_of_text(words: Sequence[Word]) -> list[list[Word]]:
    """Return the words of the page's columns of text."""
    words = [word for word in words if word.x1 > 0]
    if not words:
        return []
    gutter = _gutter(words)
    if gutter is None:
        return [list(words)]
    left, right = [word for word in words if word.x0 < gutter], [word for word in words if word.x0 >= gutter]
    sides = [left, right]
    if (band := _across(left, right)) is not None:
        top, bottom = band
        sides = [
            [word for word in left if not top <= word.y <= bottom],
            [word for word in words if top <= word.y <= bottom],
            [word for word in right if not top <= word.y <= bottom],
        ]
    return [side for side in sides if side]


_LEAST_ACROSS: Final = 3
"""Rows of a table over both columns of text whose labels are in the left one."""
_MOST_HEADS: Final = 4
"""Lines of heads above them. # project default"""


def _across(left: Sequence[Word], right: Sequence[Word]) -> tuple[float, float] | None:
    """Return the top and bottom of a table whose labels are in the left column of text and its amounts in the right."""
    lines = read_lines(right)
    beside = {round(line.y): line for line in read_lines(left)}

    def label(line: Line) -> Line | None:
        return next((beside[y] for y in range(round(line.y) - 1, round(line.y) + 2) if y in beside), None)

    rows = [
        place
        for place, line in enumerate(lines)
        if line.is_data
        and all(piece.amount for piece in line.pieces)
        and (found := label(line)) is not None
        and not found.pieces[0].amount
    ]
    run: list[int] = []
    for place in rows:
        if run and lines[place].y - lines[run[-1]].y > 4 * lines[place].height:
            if len(run) >= _LEAST_ACROSS:
                break
            run = []
        run.append(place)
    if len(run) < _LEAST_ACROSS or len(run) < 0.7 * (run[-1] - run[0] + 1):
        return None
    first, width = run[0], max(word.x1 for word in left) - min(word.x0 for word in left)
    for line, above in zip(lines[run[0] :: -1][:_MOST_HEADS], lines[run[0] - 1 :: -1] if run[0] else [], strict=False):
        other = label(above)
        prose = above.is_prose(width) or (other is not None and other.is_prose(width))
        if prose or line.y - above.y > 3 * line.height:
            break
        first -= 1
    height = lines[first].height
    return lines[first].y - 0.3 * height, lines[run[-1]].y + 0.3 * height


_LEAST_STARTS: Final = 7
"""Lines of a right text column that make one."""


def _gutter(words: Sequence[Word]) -> float | None:
    """Return where the right column of text begins: the left edge of many words near the middle of the page."""
    page_left, page_right = min(word.x0 for word in words), max(word.x1 for word in words)
    width = page_right - page_left
    rows: defaultdict[int, list[Word]] = defaultdict(list)
    for word in words:
        rows[round(word.y)].append(word)
    starts: list[float] = []
    for row in rows.values():
        row.sort(key=lambda word: word.x0)
        for before, word in zip([None, *row], row, strict=False):
            if (
                page_left + 0.4 * width < word.x0 < page_left + 0.62 * width
                and word.text[:1].isalpha()
                and (before is None or word.x0 - before.x1 > word.height)
            ):
                starts.append(word.x0)
    starts.sort()
    edge, most, end = 0.0, 0, 0
    for place, start in enumerate(starts):
        while end < len(starts) and starts[end] - start < 3.5:
            end += 1
        if end - place > most:
            edge, most = start, end - place
    if most < _LEAST_STARTS:
        return None
    crossing = sum(word.x0 < edge - 2 < word.x1 for word in words)
    return edge - 1.5 if crossing <= max(2, 0.01 * len(words)) else None


_LEAST_BESIDE: Final = 3
"""Rows of two tables side by side that make them two."""


def _beside(words: Sequence[Word], lines: list[Line]) -> list[list[Line]]:
    """Return the lines of a page, apart from them those of the right one of two tables side by side.

    Both have the same heads, and the labels of the right one have a common left edge.
    """
    starts = sorted((label.left, place) for place, line in enumerate(lines) if (label := _second_label(line)))
    edge, most, end = 0, 0, 0
    for place, (start, _) in enumerate(starts):
        while end < len(starts) and starts[end][0] - start < 4.0:
            end += 1
        if end - place > most:
            edge, most = place, end - place
    if most < _LEAST_BESIDE:
        return [lines]
    x = starts[edge][0] - 1.0
    rows = [place for _, place in starts[edge : edge + most]]
    first, last = min(rows), max(rows)
    if not any(_has_same_heads(line, x) for line in lines[max(0, first - 3) : first]):
        return [lines]
    while first > 0 and _is_free(lines[first - 1], x) and lines[first].y - lines[first - 1].y < 3 * lines[first].height:
        first -= 1
    while (
        last + 1 < len(lines)
        and _is_free(lines[last + 1], x)
        and lines[last + 1].y - lines[last].y < 3 * lines[last].height
    ):
        last += 1
    top, bottom = lines[first].y - lines[first].height, lines[last].y + 0.3 * lines[last].height
    right = {word for word in words if word.x0 >= x and top <= word.y <= bottom}
    return [read_lines(word for word in words if word not in right), read_lines(right)]


def _second_label(line: Line) -> Piece | None:
    """Return the only piece of words between amounts."""
    found = [
        label
        for before, label, after in zip(line.pieces, line.pieces[1:], line.pieces[2:], strict=False)
        if before.amount and after.amount and not label.amount and label.text[0].isalpha()
    ]
    return found[0] if len(found) == 1 and not line.pieces[0].amount else None


def _has_same_heads(line: Line, x: float) -> bool:
    """Return whether a line has the same periods left and right of ``x``."""
    left = [piece.text for piece in line.pieces if piece.right < x and piece.is_period]
    right = [piece.text for piece in line.pieces if piece.left > x and piece.is_period]
    return bool(left) and left == right


def _is_free(line: Line, x: float) -> bool:
    return not any(piece.left < x < piece.right for piece in line.pieces)
