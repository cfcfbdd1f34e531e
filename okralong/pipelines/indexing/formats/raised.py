"""Write raised text, such as a footnote's mark, so that it does not run into the figure before it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ctypes import byref, c_double
from itertools import repeat
from typing import Any, Final

import pypdfium2.raw as pdfium

_MOST_CHARS: Final = 12
"""Longer raised text is no mark. # project default"""
_TAIL: Final = 16
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


# Figures of a PDF page.

_FIGURE: Final = re.compile("[0-9]{2,}")
_SMALLER: Final = 0.85
"""Size of a raised digit as a share of the digit before it, at most. # project default"""
_HIGHER: Final = 0.15
"""How far a raised digit stands above the line, as a share of the digit before it. # project default"""


def with_marks_apart(textpage: Any, text: str) -> str:
    """Return the text of a PDF page with raised digits apart from the figures that they follow.

    PDFium writes "1,204" with a raised 1 as "1,2041". ``text`` may lack parts of the page.
    """
    count = pdfium.FPDFText_CountChars(textpage.raw)
    whole = str(textpage.get_text_range()) if _FIGURE.search(text) else ""
    if len(whole) != count:  # characters outside of the first plane take two places
        whole = "".join(map(chr, map(pdfium.FPDFText_GetUnicode, repeat(textpage.raw), range(count))))
    figures = ((match[0], match.start()) for match in _FIGURE.finditer(whole))
    parts, end = [], 0
    for match in _FIGURE.finditer(text):
        place = next((place for digits, place in figures if digits == match[0]), None)
        if place is None:
            break
        if within := next(_raised_within(textpage, place, place + len(match[0])), 0):
            parts.append(text[end : match.start() + within])
            before = text[max(0, match.start() + within - _TAIL) : match.start() + within]
            parts.append(raised_text(before, match[0][within:], text[match.end() : match.end() + 1]))
            end = match.end()
    return "".join([*parts, text[end:]])


def _raised_within(textpage: Any, start: int, end: int) -> Iterator[int]:
    """Yield how many digits of a figure stand before its raised ones, if it has any."""
    size = _size(textpage, start)
    if _size(textpage, end - 1) >= _SMALLER * size:
        return
    place = next((place for place in range(start + 1, end) if _size(textpage, place) < _SMALLER * size), start)
    (bottom, top), (raised, _) = _heights(textpage, place - 1), _heights(textpage, place)
    if (
        place > start
        and raised - bottom > _HIGHER * (top - bottom)
        and not pdfium.FPDFText_GetCharAngle(textpage.raw, place)
    ):
        yield place - start


def _size(textpage: Any, place: int) -> float:
    """Return the height of a character's font."""
    box = pdfium.FS_RECTF()
    pdfium.FPDFText_GetLooseCharBox(textpage.raw, place, byref(box))
    return float(box.top - box.bottom)


def _heights(textpage: Any, place: int) -> tuple[float, float]:
    """Return where a character begins and ends above the line."""
    left, right, bottom, top = c_double(), c_double(), c_double(), c_double()
    pdfium.FPDFText_GetCharBox(textpage.raw, place, byref(left), byref(right), byref(bottom), byref(top))
    return bottom.value, top.value
