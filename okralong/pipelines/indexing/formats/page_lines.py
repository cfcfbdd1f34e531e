"""Lines of a page: words with positions become lines, and lines become pieces of text and amounts.

A piece is what a reader sees as one cell: words with small gaps between them. An amount takes its currency sign and
percent sign along, and footnote marks are dropped.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

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


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Words of a line that belong together: an amount, or text. Compared by identity.

    Attributes:
        words: Its words from left to right.
        text: Their text in one line, without footnote marks.
        amount: Whether it is a number or stands for one ("—", "n.m.").
        x0: The left edge of its digits or letters, without a currency sign or bracket.
        x1: Their right edge, without a bracket or percent sign.
        left: The left edge of everything.
        right: The right edge of everything.
        start: The offset of its first character in the page's text.
        end: The offset after its last character.
    """

    words: tuple[Word, ...]
    text: str
    amount: bool
    x0: float
    x1: float
    left: float
    right: float
    start: int
    end: int

    @property
    def middle(self) -> float:
        """The middle between its left and right edges."""
        return (self.left + self.right) / 2

    @property
    def is_year(self) -> bool:
        """Whether it is an amount that can be read as a year."""
        return self.amount and bool(YEAR.fullmatch(self.text))

    @property
    def may_be_head(self) -> bool:
        """Whether it is an amount that also stands above columns: a year, or "5 years"."""
        return self.is_year or (self.amount and bool(_DURATION.search(self.text)))

    @property
    def is_period(self) -> bool:
        """Whether it is nothing but a year, a quarter or a date."""
        return bool(PERIOD.fullmatch(self.text))


@dataclass(frozen=True, slots=True)
class Line:
    """The pieces with a common baseline from left to right; ``height`` is the median height of its words."""

    y: float
    height: float
    pieces: tuple[Piece, ...]

    @property
    def amounts(self) -> list[Piece]:
        """The amounts from left to right."""
        return [piece for piece in self.pieces if piece.amount]

    @property
    def is_data(self) -> bool:
        """Whether it has two amounts or more, and most of them cannot be years."""
        amounts = self.amounts
        real = [piece for piece in amounts if not piece.may_be_head]
        if len(amounts) < 2 or len(real) < len(amounts) / 2:
            return False
        return len(real) == len(amounts) or any(char.isdigit() for piece in real for char in piece.text)

    def is_prose(self, width: float) -> bool:
        """Return whether most of its part of the page, which has this width, is one piece of text."""
        piece = self.pieces[0]
        return len(self.pieces) <= 2 and piece.right - piece.left > 0.62 * width and not piece.amount

    @property
    def text(self) -> str:
        """The text of all pieces."""
        return " ".join(piece.text for piece in self.pieces)


DASHES: Final = r"\-\u2010-\u2015\u2212"
"""Characters of a dash, for the inside of a character class."""
_MINUS: Final = r"[\-\u2212\u2013+]"
_APOSTROPHES: Final = r"'\u2018\u2019"
_SIGN: Final = r"(?:[A-Z]{0,3}[$€£¥₹₩]|Rs\.?)"
_SUFFIX: Final = r"(?:%|x|X|m|mn|bn|k|p|c|bps?|pp|pts|¢)"
_DIGITS: Final = (
    rf"(?:\d{{1,3}}(?:,\d{{2,3}})*,\d{{3}}(?:\.\d+)?|\d{{1,3}}(?:[.{_APOSTROPHES}]\d{{3}})+(?:[.,]\d+)?"
    r"|\d+(?:[.,]\d+)?|[.,]\d+)"
)
_NUMBER: Final = re.compile(
    rf"[(\[]?{_MINUS}?{_SIGN}?[(\[]?{_MINUS}?{_DIGITS}{_SUFFIX}?[)\]]?{_SUFFIX}?[€£]?-?", re.ASCII
)
"""A number as reports write it: "(1,234.5)", "$5.2m", "1.234,5", "12.5%", "1,234-"."""
_PLACEHOLDER: Final = re.compile(
    rf"{_SIGN}?\(?[{DASHES}]{{1,3}}\)?%?|[Nn]\.?/?[AaMm]\.?|N\.?/?[AM]\.?|[Nn]il|NIL|-0-|[Nn]\.?/?m\.?[fb]?\.?"
)
"""A cell that says that there is no number."""
_DASH: Final = re.compile(rf"[{DASHES}]{{1,3}}")
_NO_NUMBER: Final = re.compile(r"(?:0\d|1[0-2])\.(?:19|20)\d\d|\D*000\)?")
"""A month "12.2022", and "$000" or "($000)" above a column."""
YEAR: Final = re.compile(r"(?:19|20)\d\d")
_YEAR_OR_SHORT: Final = r"(?:(?:19|20)?\d\d)"
PERIOD: Final = re.compile(
    rf"(?:19|20)\d\d[*AEFP]?|(?:19|20)\d\d\s?[/{DASHES}]\s?{_YEAR_OR_SHORT}"
    rf"|(?:FY|CY|H[12]|[12]H|Q[1-4]|[1-4]Q)[ ']?(?:{_YEAR_OR_SHORT})?"
    rf"|\d\d?[./]\d\d?[./]{_YEAR_OR_SHORT}|\d\d?[./](?:19|20)\d\d"
)
"""A period without words: "2023", "2019/20", "FY22", "Q1", "31.12.2022"."""

_MARK: Final = re.compile(r"(?:\(?[A-Za-z0-9]{1,2}\))+|\*+|[a-z0-9]{1,2}|[†‡§#^]+|(?:\d{1,2},)+\d{1,2}|[ivx]{1,4}")
"""A footnote mark, where it is small and raised."""
_FULL_SIZE_MARK: Final = re.compile(r"\*+|[†‡§]|\([a-z]\)|\(\d\)")
"""A footnote mark of full size, where it follows an amount closely."""
_GLUED_MARK: Final = re.compile(r"(?<=[\d)%])(?:\*{1,3}|[†‡§]|\([a-z1-9]\))$")
_FILLER: Final = re.compile(r"[.…·_]+")
"""Leaders between a label and its amounts."""
_LEADERS: Final = re.compile(r"(?:\.{3,}|…+|_{3,})$")
_OPENER: Final = re.compile(rf"{_SIGN}|{_SIGN}?[(\[]{_MINUS}?{_SIGN}?|{_SIGN}{_MINUS}")
_CLOSER: Final = re.compile(r"[)\]]?%?|%[)\]]")
_MEASURE: Final = re.compile(r"(?:years?|yrs?|months?|days?|times|bps|pts|pp|cents|pence|p|c|m|bn|mn|x)\.?")
"""A word that belongs to the number before it."""
_DURATION: Final = re.compile(r"(?:years?|yrs?|months?|days?)\.?$")
_GROUPED: Final = re.compile(rf"\d[,.{_APOSTROPHES}]\d{{3}}(?!\d)")
_GROUP_START: Final = re.compile(rf"[(\[]?{_MINUS}?\d{{1,3}}")
_GROUP: Final = re.compile(r"\d{3}(?:[.,]\d+)?[)\]]?%?")

_EM: Final = 0.85
"""Width of an em, as a share of the height of the font's box; gaps below are in ems. # measured on the prototype"""
_WORD_GAP: Final = 0.72
"""Gap between words below which they are one piece."""
_LONGEST_NUMBER: Final = 40


def read_lines(words: Iterable[Word]) -> list[Line]:
    """Return the lines of a page or a part of it from top to bottom, without footnote marks."""
    rows = _baselines(words)
    blank_groups = _separates_thousands_by_blanks(rows)
    lines = []
    for y, row in rows:
        height = median(word.height for word in row)
        pieces = _pieces(_without_marks(row, y), height, blank_groups)
        if pieces:
            lines.append(Line(y, height, tuple(pieces)))
    return lines


def _baselines(words: Iterable[Word]) -> list[tuple[float, list[Word]]]:
    """Group words by their baseline; a small raised mark joins the line that it belongs to."""
    ys: list[float] = []
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (-round(word.height), word.y, word.x0)):
        place = bisect_left(ys, word.y)
        best, least = -1, 0.0
        for near in range(max(0, place - 2), min(len(ys), place + 3)):
            below = ys[near] - word.y
            large = rows[near][0].height
            if large > 1.2 * word.height and _MARK.fullmatch(word.text):
                joins = -0.25 * word.height < below < 0.75 * large
            else:
                joins = abs(below) <= 0.28 * max(word.height, 5.0)
            if joins and (best < 0 or abs(below) < least):
                best, least = near, abs(below)
        if best >= 0:
            rows[best].append(word)
        else:
            ys.insert(place, word.y)
            rows.insert(place, [word])
    for row in rows:
        row.sort(key=lambda word: word.x0)
    return list(zip(ys, rows, strict=True))


def _separates_thousands_by_blanks(rows: Sequence[tuple[float, list[Word]]]) -> bool:
    """Return whether the page writes "1 234" rather than "1,234"."""
    blanks = others = 0
    for _, row in rows:
        for before, word in pairwise(row):
            blanks += _is_next_group(before, word)
        others += sum(bool(_GROUPED.search(word.text)) for word in row)
    return blanks > others


def _is_next_group(before: Word, word: Word) -> bool:
    """Return whether a word is the next three digits of a number."""
    return (
        word.x0 - before.x1 < 0.45 * _EM * word.height
        and bool(_GROUP.fullmatch(word.text))
        and bool(_GROUP_START.fullmatch(before.text) or _GROUP.fullmatch(before.text))
    )


def _without_marks(row: list[Word], y: float) -> list[Word]:
    """Return the words of a line without leaders and small raised footnote marks."""
    large = max(word.height for word in row)
    return [
        word
        for word in row
        if not _FILLER.fullmatch(word.text)
        and not (
            word.height < 0.8 * large
            and (abs(word.y - y) > 0.08 * large or word.text[0] == "(")
            and _MARK.fullmatch(word.text)
        )
    ]


def is_number(text: str) -> bool:
    """Return whether a word is a number as reports write it."""
    return len(text) <= _LONGEST_NUMBER and bool(_NUMBER.fullmatch(text)) and not _NO_NUMBER.fullmatch(text)


class _Open:
    """A piece that grows while the words of a line are read from left to right."""

    def __init__(self, words: list[Word], amount: bool) -> None:
        self.words = words
        self.amount = amount

    @property
    def right(self) -> float:
        return self.words[-1].x1


def _pieces(words: Sequence[Word], height: float, blank_groups: bool) -> list[Piece]:
    """Join the words of a line to pieces: by their gaps, and amounts with their signs."""
    em = _EM * height
    pieces: list[_Open] = []
    openers: list[Word] = []  # signs that wait for their amount
    for word in words:
        last = pieces[-1] if pieces else None
        text = word.text
        number = is_number(_GLUED_MARK.sub("", text))
        gap = (word.x0 - openers[-1].x1) / em if openers else (word.x0 - last.right) / em if last else 99.0
        if last is not None and not openers and _DASH.fullmatch(last.words[-1].text) and "%" in text:
            last.amount = last.amount or len(last.words) == 1
        if last is not None and not openers and last.amount:
            if gap < 2.2 and _CLOSER.fullmatch(text) and not _is_closed(last, text):
                last.words.append(word)
                continue
            if _FULL_SIZE_MARK.fullmatch(text) and gap < (2.0 if text[0] != "(" or text[1].isalpha() else 0.6):
                continue
            if gap < 0.5 and _MEASURE.fullmatch(text):
                last.words.append(word)
                continue
            if blank_groups and number and _is_next_group(last.words[-1], word):
                last.words.append(word)
                continue
        if _OPENER.fullmatch(text) and not (last and gap < 0.3 and not last.amount):
            if openers and not _DASH.fullmatch(text) and text[-1] not in "([":
                pieces.append(_Open(openers, amount=False))
                openers = []
            openers.append(word)
            continue
        if openers:
            if number or _PLACEHOLDER.fullmatch(text):
                pieces.append(_Open([*openers, word], amount=True))
                openers = []
                continue
            last = _Open(openers, amount=False)
            pieces.append(last)
            openers = []
        dash = bool(_DASH.fullmatch(text))
        if last is None or gap >= _WORD_GAP:
            pieces.append(_Open([word], number))
        elif number and last.amount and gap > 0.15 and not (YEAR.fullmatch(text) and not _is_year(last)):
            pieces.append(_Open([word], amount=True))
        elif number and len(last.words) == 1 and _DASH.fullmatch(last.words[0].text) and gap < 0.5:
            last.words.append(word)
            last.amount = True
        elif last.amount and (gap >= 0.5 if dash else _PLACEHOLDER.fullmatch(text) and not number):
            pieces.append(_Open([word], amount=False))
        else:
            last.words.append(word)
            last.amount = False
    if openers:
        pieces.append(_Open(openers, amount=False))
    return [_closed(piece) for piece in pieces]


def split_piece(piece: Piece, lefts: Sequence[float], rights: Sequence[float]) -> list[Piece]:
    """Return the parts of a text whose words have wide gaps at the edges of columns; mostly it has one part."""
    words = piece.words
    if piece.amount or len(words) < 2:
        return [piece]
    gaps = [after.x0 - before.x1 for before, after in pairwise(words)]
    width = sum(word.x1 - word.x0 for word in words) / sum(len(word.text) for word in words)
    least = max(1.1 * width, 1.4 * sorted(gaps)[len(gaps) // 2] if len(gaps) > 2 else 0.0)  # a blank is narrower
    parts: list[list[Word]] = [[words[0]]]
    for gap, before, word in zip(gaps, words, words[1:], strict=False):
        reach = 0.6 * word.height
        ends = any(abs(right - before.x1) < reach for right in rights)
        if gap >= least and (ends or any(abs(left - word.x0) < reach for left in lefts)):
            parts.append([])
        parts[-1].append(word)
    return [piece] if len(parts) == 1 else [_closed(_Open(part, amount=False)) for part in parts]


def _is_closed(piece: _Open, closer: str) -> bool:
    """Return whether an amount already has this closing bracket or percent sign."""
    return any(closer in word.text for word in piece.words)


def _is_year(piece: _Open) -> bool:
    return len(piece.words) == 1 and bool(YEAR.fullmatch(piece.words[0].text))


def _closed(piece: _Open) -> Piece:
    """Return a piece with its text and edges."""
    words = piece.words
    amount = piece.amount or (len(words) == 1 and bool(_PLACEHOLDER.fullmatch(words[0].text)))
    text = " ".join(word.text for word in words)
    start, end = _span(words)
    if not amount:
        text = _LEADERS.sub("", text).rstrip()
        return Piece(tuple(words), text, False, words[0].x0, words[-1].x1, words[0].x0, words[-1].x1, start, end)
    text = re.sub(r"(?<=[(\[]) | (?=[)\]%])", "", text)
    if mark := _GLUED_MARK.search(text):
        text = text[: mark.start()]
        end -= len(mark[0])
    digits = [word for word in words if any(char.isdigit() for char in word.text)] or words[-1:]
    x0, x1 = _digit_edges(digits[0])[0], _digit_edges(digits[-1])[1]
    return Piece(tuple(words), text, True, x0, x1, words[0].x0, words[-1].x1, start, end)


def _span(words: Sequence[Word]) -> tuple[int, int]:
    """Return the offsets of words; only of the longest one where the page's text has them apart."""
    start, end = min(word.start for word in words), max(word.end for word in words)
    if end - start <= sum(word.end - word.start + 3 for word in words):
        return start, end
    longest = max(words, key=lambda word: word.end - word.start)
    return longest.start, longest.end


def _digit_edges(word: Word) -> tuple[float, float]:
    """Return the edges of a word's digits, as if all of its characters had one width."""
    text = word.text
    before = next((place for place, char in enumerate(text) if char.isdigit()), 0)
    after = next((place for place, char in enumerate(reversed(text)) if char.isdigit()), 0)
    width = (word.x1 - word.x0) / max(1, len(text))
    return word.x0 + before * width, word.x1 - after * width
