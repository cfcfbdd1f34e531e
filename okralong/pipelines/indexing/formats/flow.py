"""Write running text as a viewer shows it: white space collapsed, blocks apart, and places of headings and facts.

Text is written once and never changed, so a place noted while writing is a place in the finished text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

SPACE: Final = re.compile(r"[ \t\n\f\r\u00a0]+")
_UNSEEN: Final = dict.fromkeys(map(ord, "\u00ad\u034f\u200b\u2060\ufeff"))
"""Soft hyphens and other characters without a width, which would split words."""
_FILLER: Final = re.compile(r"(?<!\S)[\u200c\u200d]++(?!\S)")
"""Joiners between blanks; within words they matter."""
_TAIL_CHARS: Final = 16
_MOST_NEWLINES: Final = 2


@dataclass(slots=True)
class Place:
    """A range of the text: of a fact, or of a heading if ``what`` is its name. -1 until it is known."""

    what: Any
    start: int = -1
    end: int = -1


class Flow:
    """A text that is being written, with its ``places`` in the order of their beginnings.

    ``size`` is its length so far, ``has_table`` says that it contains a table of several rows and columns, and
    ``mark_end`` is the length of the marks of footnotes at its beginning.
    """

    __slots__ = (
        "_after_mark",
        "_apart",
        "_blank",
        "_newlines",
        "_opened",
        "_parts",
        "has_table",
        "lead",
        "mark_end",
        "places",
        "size",
    )

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._opened: list[Place] = []
        self._newlines = 0
        self._blank = self._apart = self._after_mark = False
        self.size = self.mark_end = 0
        self.lead = ""
        self.places: list[Place] = []
        self.has_table = False

    def text(self, said: str) -> None:
        """Write text whose white space collapses."""
        if not said.isascii():
            said = said.translate(_UNSEEN)
            said = _FILLER.sub("", said)
        words = SPACE.sub(" ", said)
        if words.startswith(" "):
            self._blank = True
        if bare := words.strip(" "):
            self.write(bare)
            self._blank = words.endswith(" ")

    def preformatted(self, said: str) -> None:
        """Write text whose blanks and line ends are kept."""
        lines = [line.rstrip() for line in said.translate(_UNSEEN).replace("\u00a0", " ").split("\n")]
        for number, line in enumerate(lines):
            if number:
                self._newlines = min(self._newlines + 1, _MOST_NEWLINES)
            if line:
                if self._newlines or not self.size:
                    self._blank = False
                self.write(line)
        self._blank = said.endswith((" ", "\t"))

    def write(self, said: str) -> None:
        """Write text as it is, after the gap that is due."""
        if not said:
            return
        gap = ""
        if self.size:
            gap = "\n" * self._newlines or (" " if self._blank or self._apart else "")
            if not gap and self._after_mark and said[0].isalnum():
                gap = " "
        self._newlines, self._blank, self._apart, self._after_mark = 0, False, False, False
        if self.lead:
            gap, self.lead = gap + self.lead, ""
        self.size += len(gap)
        for place in self._opened:
            place.start = self.size
        self._opened.clear()
        self._parts += (gap, said) if gap else (said,)
        self.size += len(said)

    def blank(self) -> None:
        """Separate what follows by a blank at least."""
        self._blank = True

    def newline(self, count: int = 1) -> None:
        """Separate what follows by so many more line ends; two at most are written."""
        self._newlines = min(self._newlines + count, _MOST_NEWLINES)

    def fresh_line(self) -> None:
        """Begin a line unless one has begun."""
        self._newlines = max(self._newlines, 1)

    def begin_apart(self) -> tuple[int, bool]:
        """Separate what follows by a blank; return what ``end_apart`` needs."""
        before = (self.size, self._apart)
        self._apart = True
        return before

    def end_apart(self, before: tuple[int, bool], is_wide: bool) -> None:
        """End what ``begin_apart`` began; without text it separates nothing, unless it ``is_wide``."""
        self._apart = is_wide or self.size != before[0] or before[1]

    def open(self, what: Any) -> Place:
        """Begin a place at the next text that is written."""
        place = Place(what)
        self.places.append(place)
        self._opened.append(place)
        return place

    def close(self, place: Place) -> None:
        """End a place; one without text is empty at its end."""
        place.end = self.size
        if place.start < 0:
            place.start = self.size
            if self._opened[-1] is place:  # as a rule; ``remove`` searches from the other end
                self._opened.pop()
            else:
                self._opened.remove(place)

    def tail(self) -> str:
        """Return the last characters of the line, "" if a gap is due."""
        if self._blank or self._apart or self._newlines or not self._parts:
            return ""
        return "".join(self._parts[-3:])[-_TAIL_CHARS:].rpartition("\n")[2]

    def mark(self, said: str) -> None:
        """Write the mark of a footnote, which the next word stays apart from."""
        alone = self.size == self.mark_end
        self.write(said)
        self._after_mark = True
        self.mark_end = self.size if alone else 0

    def finished(self) -> str:
        """Return the text written so far."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def add(self, text: str, places: Iterable[Place], has_table: bool = False) -> None:
        """Write the text of another flow with its places."""
        if not text:
            shift = self.size
        else:
            self.write(text)
            shift = self.size - len(text)
        for place in places:
            place.start += shift
            place.end += shift
            self.places.append(place)
        self.has_table = self.has_table or has_table


def on_one_line(text: str, places: list[Place]) -> str:
    """Return ``text`` without line ends and with its ``places`` moved accordingly."""
    if "\n" not in text:
        return text
    pieces: list[str] = []
    lengths: list[tuple[int, int]] = []  # (offset after a gap, characters removed up to there)
    removed = at = 0
    for match in _LINE_ENDS.finditer(text):
        pieces.append(text[at : match.start()])
        removed += len(match[0]) - 1
        at = match.end()
        lengths.append((at, removed))
    pieces.append(text[at:])
    if places:
        ends = sorted({offset for place in places for offset in (place.start, place.end)})
        moved, number, before = {}, 0, 0
        for offset in ends:
            while number < len(lengths) and lengths[number][0] <= offset:
                before = lengths[number][1]
                number += 1
            moved[offset] = offset - before
        for place in places:
            place.start, place.end = moved[place.start], moved[place.end]
    return " ".join(pieces)


_LINE_ENDS: Final = re.compile(r"\n+")
