"""The words and the horizontal rules of a PDF page, from the boxes that PDFium has of its characters and paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from ctypes import CFUNCTYPE, addressof, byref, c_float, c_int, c_void_p, cast, sizeof
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, Final

import numpy as np
import pypdfium2.raw as pdfium

from okralong.pipelines.indexing.formats.offsets import Offsets, codes_of, is_blank
from okralong.pipelines.indexing.formats.page_lines import Rule, Word
from okralong.pipelines.indexing.formats.pdf_raised import characters


def _by_address(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of PDFium that takes pointers as numbers: a call takes half the time, and there are many."""
    address = cast(function, c_void_p).value
    assert address is not None
    return CFUNCTYPE(result, *arguments)(address)


_box_to = _by_address(pdfium.FPDFText_GetLooseCharBox, c_int, c_void_p, c_int, c_void_p)
_origin_to = _by_address(pdfium.FPDFText_GetCharOrigin, c_int, c_void_p, c_int, c_void_p, c_void_p)
_object_of_page = _by_address(pdfium.FPDFPage_GetObject, c_void_p, c_void_p, c_int)
_object_of_form = _by_address(pdfium.FPDFFormObj_GetObject, c_void_p, c_void_p, c_int)
_kind_of = _by_address(pdfium.FPDFPageObj_GetType, c_int, c_void_p)
_bounds_to = _by_address(pdfium.FPDFPageObj_GetBounds, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)

_BOX_BYTES: Final = 16
"""Size of an FS_RECTF: left, top, right and bottom as floats."""
_TILT: Final = 0.2
"""Radians by which text may lean from the reading direction. # project default"""
_GAP: Final = 0.16
"""Least gap between words without a blank, as a share of their height. # from the prototype's 2,453 pages"""
_STEP: Final = 0.6
"""Least distance of two baselines, in points. # from the prototype's 2,453 pages"""
_HYPHENS: Final = dict.fromkeys((0x02, 0xFFFE, 0xFFFF), "-")


def words_and_rules(page: Any, textpage: Any, text: str) -> tuple[list[Word], list[Rule]]:
    """Return the words of a page in its content's order, as they stand in its final ``text``, and its rules.

    Words that run in another direction than most of the page are left out. A word that ``text`` does not have as a
    whole has no length: its ``end`` is its ``start``.
    """
    count = pdfium.FPDFText_CountChars(textpage.raw)
    raw = str(textpage.get_text_range())
    if len(raw) != count:  # characters outside of the first plane take two places
        raw = "".join(characters(textpage, count)).encode("utf-8", "replace").decode()
    codes = codes_of(raw)
    blank = is_blank(codes)
    solid = np.flatnonzero(~blank & ~_is_dropped(codes))
    if not len(solid):
        return [], []
    said = "".join(raw.translate(_SAID).split())
    boxes = _boxes(textpage, count)[solid]
    begins = np.ones(len(solid), dtype=bool)
    begins[1:] = np.cumsum(blank)[solid[1:]] != np.cumsum(blank)[solid[:-1]]
    turns = _turns(textpage, solid[begins])[np.cumsum(begins) - 1]
    turn = int(np.bincount(turns[turns < 4], minlength=4).argmax())
    shown = page.get_bbox()
    x0, x1, top, bottom = _as_read(boxes, turn, shown)
    begins[1:] |= _breaks(textpage, solid, x0, x1, top, bottom, turn)
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(solid))
    left, right = np.minimum.reduceat(x0, starts), np.maximum.reduceat(x1, starts)
    y = _baselines(textpage, solid[starts], turn, shown)
    height = (bottom - top)[starts]
    keep = (turns[starts] == turn) & (right > left) & (height > _LEAST_HEIGHT) & _is_shown(left, right, y, turn, shown)
    places = Offsets(said, text).of(starts, ends)
    rows = zip(*(each.tolist() for each in (left, right, y, height, starts, ends, keep)), *places, strict=True)
    words = [Word(x0, x1, y, high, said[a:b], start, end) for x0, x1, y, high, a, b, kept, start, end in rows if kept]
    return words, _rules(page, turn, shown)


_LEAST_HEIGHT: Final = 0.5
"""Points; smaller text cannot be read."""
_CONTROLS: Final = (0x00, 0x01, *range(0x03, 0x09), *range(0x0E, 0x1C), 0x7F)
_SAID: Final = _HYPHENS | dict.fromkeys(_CONTROLS)
_DROPPED: Final = np.array(_CONTROLS, dtype=np.uint32)


def _is_dropped(codes: Any) -> Any:
    """Return for each code point whether it is a control character, which the page's text does not have."""
    return np.isin(codes, _DROPPED)


def _boxes(textpage: Any, count: int) -> Any:
    """Return left, top, right and bottom of each character, in the page's own coordinates."""
    boxes = np.zeros((count, 4), dtype=np.float32)
    at = boxes.ctypes.data
    addresses = range(at, at + count * _BOX_BYTES, _BOX_BYTES)
    for _ in map(_box_to, repeat(_address(textpage)), range(count), addresses):
        pass
    return boxes.astype(np.float64)


def _origins(textpage: Any, places: Any) -> Any:
    """Return x and y of the origins of some characters."""
    origins = np.zeros((len(places), 2))
    at = origins.ctypes.data
    xs, ys = range(at, at + 16 * len(places), 16), range(at + 8, at + 8 + 16 * len(places), 16)
    for _ in map(_origin_to, repeat(_address(textpage)), places.tolist(), xs, ys):
        pass
    return origins


def _turns(textpage: Any, places: Any) -> Any:
    """Return for some characters by how many quarter turns to the right they stand, 4 if they lean."""
    angles = np.fromiter(map(pdfium.FPDFText_GetCharAngle, repeat(textpage.raw), places.tolist()), dtype=np.float64)
    quarters = np.rint(angles / (math.pi / 2))
    leans = np.abs(angles - quarters * (math.pi / 2)) > _TILT
    return np.where(leans, 4, quarters.astype(np.int64) % 4)


Box = tuple[float, float, float, float]


def _as_read(boxes: Any, turn: int, page: Box) -> tuple[Any, Any, Any, Any]:
    """Return left, right, top and bottom as a reader sees them whose text stands ``turn`` quarters to the right."""
    left, top, right, bottom = boxes.T
    x0, y0, x1, y1 = page
    if turn == 0:
        return left - x0, right - x0, y1 - top, y1 - bottom
    if turn == 1:
        return y1 - top, y1 - bottom, x1 - right, x1 - left
    if turn == 2:
        return x1 - right, x1 - left, bottom - y0, top - y0
    return bottom - y0, top - y0, left - x0, right - x0


def _is_shown(left: Any, right: Any, y: Any, turn: int, page: Box) -> Any:
    """Return for each word whether its middle is on the page; others are cut off."""
    wide, high = page[2] - page[0], page[3] - page[1]
    middle = (left + right) / 2
    wide, high = (high, wide) if turn % 2 else (wide, high)
    return (middle >= 0) & (middle <= wide) & (y >= 0) & (y <= high)


def _baselines(textpage: Any, places: Any, turn: int, page: Box) -> Any:
    """Return the baselines of some characters as a reader sees them."""
    x, y = _origins(textpage, places).T
    return (page[3] - y, page[2] - x, y - page[1], x - page[0])[turn]


def _breaks(textpage: Any, solid: Any, x0: Any, x1: Any, top: Any, bottom: Any, turn: int) -> Any:
    """Return for each character but the first whether it begins a word though no blank is before it."""
    height = (bottom - top)[:-1]
    gap = x0[1:] - x1[:-1]
    breaks = (gap >= _GAP * height) | (gap <= -height)
    moved = ~breaks & ((np.abs(np.diff(top)) >= _STEP) | (np.abs(np.diff(bottom)) >= _STEP))
    if moved.any():  # a font of another height, or another baseline
        at = np.flatnonzero(moved)
        before, after = (_baselines(textpage, solid[places], turn, (0, 0, 0, 0)) for places in (at, at + 1))
        breaks[at] = np.abs(after - before) >= _STEP
    return breaks


# Rules.

_MOST_DEPTH: Final = 3
"""Forms within forms that are looked into."""
_THIN: Final = 2.5
_LONG: Final = 8.0
"""Height of a rule at most, and its width at least, in points; higher fills are shading. # the prototype's"""

_RECTANGLE: Final = 5
"""Segments of a rectangle, a path without parts."""
_SAME_Y: Final = 1.0
_TOUCH: Final = 1.2
"""Distances in points of rules that are one. # the prototype's"""

Matrix = tuple[float, float, float, float, float, float]


def _rules(page: Any, turn: int, shown: Box) -> list[Rule]:
    """Return the thin lines and fills that lie along the text, those that touch joined, from the top."""
    boxes = np.array(list(_thin_boxes(page)), dtype=np.float64).reshape(-1, 4)
    x0, x1, top, bottom = _as_read(boxes, turn, shown)
    lies = (bottom - top < _THIN) & (x1 - x0 > _LONG)
    rules: list[Rule] = []
    found = zip(*(each[lies].tolist() for each in (x0, x1, (top + bottom) / 2)), strict=True)
    for left, right, y in sorted(found, key=lambda rule: (round(rule[2]), rule[0])):
        last = rules[-1] if rules else None
        if last and abs(last.y - y) < _SAME_Y and left - last.x1 < _TOUCH:
            rules[-1] = Rule(last.x0, max(last.x1, right), last.y)
        else:
            rules.append(Rule(left, right, y))
    return rules


def _thin_boxes(page: Any) -> Iterator[Box]:
    """Yield left, top, right and bottom of the lines and thin fills of a page, in its own coordinates."""
    count = pdfium.FPDFPage_CountObjects(page.raw)
    return _thin_within(partial(_object_of_page, _address(page)), count, None, 0, _Budget())


def _address(page: Any) -> int | None:
    return cast(page.raw, c_void_p).value


@dataclass
class _Budget:
    """How many objects, paths among them, and segments of a page may still be looked at."""

    objects: int = 20_000  # project default: a page of which each letter is an object has 6,000
    paths: int = 4_000  # project default: drawings have more, tables do not
    segments: int = 4_000  # project default

    def take(self, count: int) -> int:
        """Take up to ``count`` objects."""
        taken = min(count, self.objects)
        self.objects -= taken
        return taken


def _thin_within(
    object_at: Callable[[int], Any], count: int, outer: Matrix | None, depth: int, budget: _Budget
) -> Iterator[Box]:
    objects = list(map(object_at, range(budget.take(count))))
    kinds = list(map(_kind_of, objects))
    edges = (c_float * 4)()
    places = [addressof(edges) + place * sizeof(c_float) for place in (0, 3, 2, 1)]
    for address, kind in zip(objects, kinds, strict=True):
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            budget.paths -= 1
            if budget.paths < 0:
                return
            if not _bounds_to(address, *places):
                continue
            left, top, right, bottom = edges
            if right - left < _THIN or top - bottom < _THIN:
                yield _moved((left, top, right, bottom), outer) if outer else (left, top, right, bottom)
            else:
                yield from _thin_parts(cast(address, pdfium.FPDF_PAGEOBJECT), outer, budget)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _MOST_DEPTH:
            form = cast(address, pdfium.FPDF_PAGEOBJECT)
            matrix = _chained(_matrix(form), outer)
            within = partial(_object_of_form, address)
            yield from _thin_within(within, pdfium.FPDFFormObj_CountObjects(form), matrix, depth + 1, budget)


def _thin_parts(path: Any, outer: Matrix | None, budget: _Budget) -> Iterator[Box]:
    """Yield the thin ones of a path's parts; a whole grid may be one path."""
    count = pdfium.FPDFPath_CountSegments(path)
    if count <= _RECTANGLE or count > budget.segments:
        return
    budget.segments -= count
    matrix = _chained(_matrix(path), outer)
    x, y = c_float(), c_float()
    places = byref(x), byref(y)
    part: list[tuple[float, float]] = []
    for number in range(count + 1):
        segment = pdfium.FPDFPath_GetPathSegment(path, number) if number < count else None
        if segment is None or pdfium.FPDFPathSegment_GetType(segment) == pdfium.FPDF_SEGMENT_MOVETO:
            if len(part) > 1:
                xs, ys = zip(*part, strict=True)
                yield _moved((min(xs), max(ys), max(xs), min(ys)), matrix)
            part = []
        if segment is not None and pdfium.FPDFPathSegment_GetPoint(segment, *places):
            part.append((x.value, y.value))


def _matrix(thing: Any) -> Matrix:
    """Return the matrix of a path or a form."""
    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(thing, byref(found)):
        return 1.0, 0.0, 0.0, 1.0, 0.0, 0.0
    return found.a, found.b, found.c, found.d, found.e, found.f


def _chained(first: Matrix, then: Matrix | None) -> Matrix:
    if then is None:
        return first
    a, b, c, d, e, f = first
    k, m, n, p, q, r = then
    return a * k + b * n, a * m + b * p, c * k + d * n, c * m + d * p, e * k + f * n + q, e * m + f * p + r


def _moved(box: Box, matrix: Matrix) -> Box:
    """Return a box (left, top, right, bottom) after a matrix of quarter turns, scales and shifts."""
    a, b, c, d, e, f = matrix
    xs = [a * x + c * y + e for x, y in ((box[0], box[1]), (box[2], box[3]))]
    ys = [b * x + d * y + f for x, y in ((box[0], box[1]), (box[2], box[3]))]
    return min(xs), max(ys), max(xs), min(ys)
