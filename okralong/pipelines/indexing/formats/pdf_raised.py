"""Keep raised digits of a PDF page, such as footnote marks, apart from the figures before them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from ctypes import byref, c_double
from itertools import repeat
from typing import Any, Final

import pypdfium2.raw as pdfium

from okralong.pipelines.core.raised import raised_text

_TAIL: Final = 16
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
        whole = "".join(characters(textpage, count))
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


def characters(textpage: Any, count: int) -> Iterator[str]:
    """Yield the first ``count`` characters of a page; a font may claim codes that Unicode does not have."""
    for code in map(pdfium.FPDFText_GetUnicode, repeat(textpage.raw), range(count)):
        yield chr(code) if code <= sys.maxunicode else "\ufffd"


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
