"""Write raised text, such as a footnote's mark, so that it does not run into the figure before it."""

from __future__ import annotations

import re
from typing import Final

_MOST_CHARS: Final = 12
"""Longer raised text is no mark. # project default"""
_TAIL: Final = 16
_PARTS_BEFORE: Final = 4
"""Parts of a text that raised text is compared with; a figure hardly ever has more."""
_LETTERS: Final = re.compile(r"[A-Za-z]{2,}|[\u2122\u00ae\u00a9\u2120\u00b0\u00ba\u00aa*\u2020\u2021\u00a7\u00b6#.]+")
_BARE: Final = re.compile(r"[A-Za-z\d](?:[A-Za-z\d,\s]*[A-Za-z\d])?")
_POWER: Final = re.compile(r"[+\u2212\u2013-]?\d{1,3}")
_BASE: Final = re.compile(r"(?:(?<![\d.,$\u20ac\u00a3])10|(?<![A-Za-z])(?:[A-Za-z]|km|cm|mm|ft|mi|yd|in|sq))$")


def raised_text(before: str, said: str, follows: str) -> str:
    """Return raised text as it is written between two texts: a power as ``10^6``, a mark as ``1,204 (1)``."""
    before = before[-_TAIL:]
    mark = said.strip()
    if not mark or len(mark) > _MOST_CHARS or "\n" in mark:
        return said
    if before[-1:].isalnum() and _LETTERS.fullmatch(mark):
        return said
    blank = " " if before and not before[-1].isspace() else ""
    if follows[:1] in ("/", "\u2044") and mark.isdigit():
        return f"{blank}{mark}"
    if _POWER.fullmatch(mark) and _BASE.search(before):
        return f"^{said}"
    end = " " if follows[:1].isalnum() else ""
    return f"{blank}({mark}){end}" if _BARE.fullmatch(mark) else f"{blank}{mark}{end}"


class RaisedText:
    """Text that is joined from parts, some of them raised."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._raised = ""

    def add(self, text: str, raised: bool = False) -> None:
        """Add a part; how raised text is written depends on the next one."""
        if raised:
            self._raised += text
        elif text:
            self._place(text)
            self._parts.append(text)

    def text(self) -> str:
        """Return the whole text."""
        self._place("")
        return "".join(self._parts)

    def _place(self, follows: str) -> None:
        if self._raised:
            self._parts.append(raised_text("".join(self._parts[-_PARTS_BEFORE:]), self._raised, follows))
            self._raised = ""
