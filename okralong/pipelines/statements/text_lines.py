"""Read single lines of text: the figures at the end of a row, and the times and words of a line of heads.

Figures are read from the right end of a line: "Net sales $ 34,229 $ 35,355".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.tables import TableCell
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
    is_year,
    unit_in,
)

LONGEST_LINE: Final = 600
"""Characters of a line without bars that may belong to a table. # project default"""
_MOST_COLUMNS: Final = 40
"""Figures of a line; more are a list of numbers. # project default"""
_MOST_WORDS: Final = 24
"""Words of a label. # project default"""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a head line, ``at`` characters from the line's start."""

    text: str
    at: int
    end: int


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
        if self.end - self.start > LONGEST_LINE:
            return True
        words = [word for word in self.text.split() if len(word) > 1 or word.isalnum()]
        if len(words) < 7 or self.has_gaps:
            return False
        most = _MOST_WORDS // 2 if words[-1].endswith(":") else _MOST_WORDS
        return len(words) > most or words[-1].endswith((".", ";"))


_GAP: Final = re.compile(r"(?<=\S)(?:[ \u00a0]{2,}|[ \u00a0]*\t[ \t\u00a0]*)(?=\S)")
_LETTER: Final = re.compile(r"[^\W\d_]")
_TOKEN: Final = re.compile(r"\S+")


def text_line(text: str, start: int, end: int, blanks: int, is_joined: bool = False) -> TextLine:
    """Return a line of text with the figures at its end; ``is_joined`` means that these are on lines of their own."""
    if end - start > LONGEST_LINE:
        return TextLine(start, end, text[start : start + LONGEST_LINE], blanks)
    words = text[start:end].replace("\u200b", " ").replace("\n", " ")
    gaps = [] if is_joined else list(_GAP.finditer(words))
    line = TextLine(start, end, words, blanks, has_gaps=bool(gaps))
    letter = _LETTER.search(words)
    figures = _figures(words, letter.start()) if letter is not None else []
    if not figures or letter is None:
        return line
    label_end = next((gap.end() for gap in gaps if gap.start() > letter.start() and _begins(words, gap.end())), -1)
    behind = [cell for cell in figures if cell.end > label_end >= 0]
    if behind:
        figures = behind
    elif gaps and len(figures) == 1:
        return line  # "Level 1    Level 2"
    line.has_gaps = bool(behind)
    said = sum(len(word) > 1 or word.isalnum() for word in words.split())
    if len(figures) <= _MOST_COLUMNS and (behind or said <= _MOST_WORDS + 2 * len(figures)):
        line.figures = [TableCell(n, each.text, start + each.start, start + each.end) for n, each in enumerate(figures)]
    return line


def with_joined(text: str, lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """Yield lines, each label together with the lines below it that have nothing but a figure or a part of one.

    Some programs write the cells of a row below each other.
    """
    label: TextLine | None = None
    end = -1
    for line in lines:
        is_cell = _is_cell(line.text)
        if label is not None and is_cell and (is_period(label.text) or not is_year(line.text.strip())):
            end = line.end
            continue
        if label is not None:
            yield label if end < 0 else text_line(text, label.start, end, label.blanks, is_joined=True)
        label, end = None, -1
        if line.figures or line.is_prose or (_LETTER.search(line.text) is None and not is_year(line.text.strip())):
            yield line
        else:
            label = line
    if label is not None:
        yield label if end < 0 else text_line(text, label.start, end, label.blanks, is_joined=True)


def _is_cell(words: str) -> bool:
    parts = words.split()
    figures = [part for part in parts if is_figure(part) or is_year(part)]
    rest = [part for part in parts if part not in figures]
    return 0 < len(parts) < 6 and len(figures) < 2 and all(CLOSING.fullmatch(part) or part in _OPENING for part in rest)


_OPENING: Final = ("(", "$", "\u20ac", "\u00a3", "\u00a5", "$(")


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
        elif (is_number(said) or is_figure(said)) and (said[-1] not in ".," or not said[-2:-1].isdigit()):
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
class HeadLine:
    """A line of heads: its levels from top to bottom, each with pieces from left to right."""

    levels: list[list[Piece]]
    unit: str = ""
    stub: str = ""
    start: int = 0


def pieces_of(line: TextLine) -> list[Piece]:
    """Return the parts of a line between wide gaps."""
    cut = [0, *(at for gap in _GAP.finditer(line.text) for at in gap.span()), len(line.text)]
    return [_piece(line.text, a, b) for a, b in zip(cut[::2], cut[1::2], strict=True)]


def _piece(words: str, start: int, end: int) -> Piece:
    said = words[start:end]
    left = len(said) - len(said.lstrip())
    return Piece(" ".join(said.split()), start + left, start + max(left, len(said.rstrip())))


def head_line(line: TextLine) -> HeadLine | None:
    """Return the heads in a line, or None if it has other words than heads."""
    if line.is_prose:
        return None
    found = HeadLine([], start=line.start)
    pieces = pieces_of(line)
    row: list[Piece] = []
    for number, piece in enumerate(pieces):
        said, at = piece.text, piece.at
        if len(said) > LONGEST_PIECE:
            return None
        span = unit_in(said)
        if span is not None and len(said) > 1 and (number == 0 or not is_period(said)):
            found.unit = f"{found.unit}; {said[slice(*span)]}".strip("; ")
            before = said[: span[0]].strip()
            said, at = (before, at) if before else (said[span[1] :].strip(), at + span[1])
            if not said:
                continue
        levels = times_in(said, at)
        if levels is None:
            if len(pieces) == 1:
                return None
            if number == 0 and not is_period(said):
                found.stub = said
                continue
            levels = [[Piece(said, at, piece.end)]]
        if len(levels) > 1 and len(pieces) == 1:
            found.levels = levels
        else:
            row += levels[-1] if len(levels) == 1 else [Piece(said, at, piece.end)]
    if any(_OF_CHANGE.match(one.text) and is_year(other.text) for one, other in pairwise(row)):
        return None
    if row:
        found.levels.append(row)
    if len(found.levels) > 1 and len(found.levels[0]) == 1 and not is_period(found.levels[0][0].text):
        found.stub = found.levels.pop(0)[0].text
        if _OF_CHANGE.match(found.stub):
            return None
    return found if found.levels or found.unit else None


LONGEST_PIECE: Final = 120
_OF_CHANGE: Final = re.compile(r"%?\s?(?:change|increase|decrease|variance)", re.IGNORECASE)
_JOINS: Final = re.compile(r"[\s,&]*(?:and|to|vs\.?|versus|[\u2013-])?[\s,]*", re.IGNORECASE)
MOST_LEAD: Final = 9
"""Words before the first time in a line of heads. # project default"""


def times_in(words: str, base: int) -> list[list[Piece]] | None:
    """Split a line of heads with single blanks into levels of pieces, or None if it holds other words."""
    years = list(re.finditer(YEAR, words))
    if not years:
        return _without_years(words, base)
    tail = _changes(words, base, years[-1].end())
    lead = words[: years[0].start()].strip(" \t\u00a0,")
    if tail is None or len(lead.split()) > MOST_LEAD:
        return None
    between = [words[one.end() : other.start()] for one, other in pairwise(years)]
    if len(years) > 1 and all(_JOINS.fullmatch(each) for each in between):
        lower = [_moved(_piece(words, *year.span()), base) for year in years] + tail
        if not lead:
            return [lower]
        first = _moved(_piece(words, 0, years[0].start()), base)
        return [[first, *lower]] if lead.lower() in ("note", "notes") else [[first], lower]
    if any(len(each.split()) > MOST_LEAD or re.search(r"\d{3}", each) for each in (lead, *between)):
        return None
    if lead and not is_period(lead) and len(years) == 1 and len(lead.split()) > 3:
        return None
    ends = [0, *(year.end() for year in years)]
    return [[_moved(_piece(words, a, b), base) for a, b in pairwise(ends)] + tail]


def _moved(piece: Piece, by: int) -> Piece:
    return Piece(piece.text, piece.at + by, piece.end + by)


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
        found.append(_moved(_piece(words, *match.span()), base))
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
        if lead and not is_period(lead) and NOTE_OF_HEAD.fullmatch(lead) is None:
            return None
        cut = [0, *marks[1:], len(words)]
        if any(len(words[a:b].split()) > MOST_LEAD for a, b in pairwise(cut)):
            return None
        return [[_moved(_piece(words, a, b), base) for a, b in pairwise(cut)]]
    return None


def has_period(head: HeadLine) -> bool:
    """Return whether any head of a line tells a time."""
    return any(is_period(piece.text) for level in head.levels for piece in level)
