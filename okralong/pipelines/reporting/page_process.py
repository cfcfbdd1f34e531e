"""The confined process that draws cited pages. It reads requests from standard input and writes frames to stdout.

    python -m okralong.pipelines.reporting.page_process PARENT

A request is a line of JSON with a PDF, its expected SHA-256, a page, and the quotes to locate. The process exits after
some idle time, or when its parent exits.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import re
import sys
import unicodedata
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pypdfium2
from PIL.Image import Image

from okralong.pipelines.core.confined_process import (
    OUT_OF_MEMORY,
    allow_seconds,
    confine,
    end_with_parent,
    request_lines,
    silence,
    write_frame,
)
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Source

PAGE_SECONDS: Final = 20.0  # project default
"""Processor seconds per page, including opening the file; a typical page takes 0.1 s."""
MOST_PICTURE_BYTES: Final = 4_000_000
_MEMORY_BYTES: Final = 2 << 30
_WIDTH: Final = 900  # project default
"""Width of a picture in pixels: small print on A4 is just readable, at about 80 kB."""
_MOST_HEIGHT: Final = 2_700
_COLOURS: Final = 16  # project default
"""The number of colors of a PNG, enough for anti-aliased text; pages with photographs become JPEGs."""
_JPEG_QUALITY: Final = 60
_OPEN_FILES: Final = 6
SIGNATURES: Final = {"png": b"\x89PNG\r\n", "jpeg": b"\xff\xd8\xff"}
"""The first bytes of each kind of picture."""

Boxes = list[tuple[float, float, float, float]]
"""Left, top, width and height as fractions of the page."""


def main() -> None:
    """Serve requests until the input ends. The argument is the parent's process id."""
    end_with_parent(int(sys.argv[1]))
    with os.fdopen(os.dup(1), "wb") as out:
        confine(_MEMORY_BYTES)
        silence()
        files = _Files()
        write_frame(out, {"kind": "ready"})
        try:
            for line in request_lines():
                allow_seconds(PAGE_SECONDS)
                write_frame(out, *_reply(files, json.loads(line)))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def _reply(files: _Files, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    try:
        pdf = files.opened(str(asked["uri"]), str(asked["sha256"]))
        if pdf is None:
            return {"kind": "gone"}, b""
        page = pdf[int(asked["page"]) - 1]
        picture = drawn(page)
        boxes = quote_boxes(page, [(str(words), int(before)) for words, before in asked["quotes"]])
        page.close()
    except (pypdfium2.PdfiumError, IndexError, ValueError, OSError) as error:
        return {"kind": "bad", "why": repr(error)[:500]}, b""
    if len(picture) > MOST_PICTURE_BYTES:
        return {"kind": "bad", "why": f"a picture of {len(picture)} bytes"}, b""
    return {"kind": "page", "boxes": boxes}, picture


class _Files:
    """A cache of open files."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, pypdfium2.PdfDocument] = OrderedDict()

    def opened(self, uri: str, sha256: str) -> pypdfium2.PdfDocument | None:
        """Open a PDF; None, without parsing it, if the file is missing or has changed."""
        if uri not in self._open:
            try:
                data = Source(uri, uri).read_bytes()
            except DocumentError:
                return None
            if hashlib.sha256(data).hexdigest() != sha256:
                return None
            self._open[uri] = pypdfium2.PdfDocument(data)
            while len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(uri)
        return self._open[uri]


def drawn(page: pypdfium2.PdfPage) -> bytes:
    """Draw the page as PNG or JPEG, whichever is smaller."""
    width, height = page.get_size()
    scale = min(_WIDTH / max(width, 1.0), _MOST_HEIGHT / max(height, 1.0))
    image: Image = page.render(scale=scale).to_pil().convert("RGB")
    found = []
    for kind, made in (("PNG", image.quantize(_COLOURS)), ("JPEG", image)):
        stream = io.BytesIO()
        made.save(stream, kind, optimize=True, quality=_JPEG_QUALITY)
        found.append(stream.getvalue())
    return min(found, key=len)


# Locating quotes. The indexer changes PDFium's text (line ends, hyphens, blanks, columns of tables), so only letters
# and digits are compared, line by line if the whole quote is not found.

_PIECES: Final = re.compile(r"[\n|\t]|  +")
_WORDS: Final = re.compile(r"\s+")
_NEAR: Final = 600  # project default
"""The maximum distance of a short piece from its expected position, in letters and digits."""
_LONG: Final = 12  # project default
"""The minimum number of letters and digits of a piece that is searched on the whole page."""
_ENOUGH: Final = 0.7  # project default
"""Minimum share of a quote that must be found for a mark."""


def folded(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of ``text``, with ligatures split, and their positions in ``text``."""
    found: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        plain = char if char.isascii() else unicodedata.normalize("NFKC", char)
        for each in plain:
            if each.isalnum():
                found.append(each)
                places.append(place)
    return "".join(found), places


def quote_ranges(page: str, quote: str, before: int) -> list[tuple[int, int]]:
    """Return the ranges of characters of ``page`` that hold ``quote``; none if too little of it is found.

    ``before`` is the expected number of letters and digits before the quote; the nearest match wins.
    """
    letters, places = folded(page)
    wanted = folded(quote)[0]
    if not wanted:
        return []
    at = _nearest(letters, wanted, before, None)
    if at is not None:
        return [(places[at], places[at + len(wanted) - 1] + 1)]
    found = list(_in_pieces(letters, _PIECES.split(quote), before))
    if sum(end - start for start, end in found) < _ENOUGH * len(wanted):
        return []
    return [(places[start], places[end - 1] + 1) for start, end in found]


def _in_pieces(letters: str, pieces: Sequence[str], expected: int) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        wanted = folded(piece)[0]
        if not wanted:
            continue
        at = _nearest(letters, wanted, expected, None if len(wanted) >= _LONG else _NEAR)
        if at is not None:
            yield at, at + len(wanted)
            expected = at + len(wanted)
        elif len(words := _WORDS.split(piece.strip())) > 1:
            for start, end in _in_pieces(letters, words, expected):
                yield start, end
                expected = end


def _nearest(letters: str, wanted: str, expected: int, within: int | None) -> int | None:
    """Return the position of ``wanted`` nearest to ``expected``, or None."""
    low, high = (0, len(letters)) if within is None else (max(0, expected - within), expected + within)
    after = letters.find(wanted, max(low, expected), high)
    ahead = letters.rfind(wanted, low, max(low, expected) + len(wanted) - 1)
    found = [place for place in (ahead, after) if place >= 0]
    return min(found, key=lambda place: abs(place - expected), default=None)


def quote_boxes(page: pypdfium2.PdfPage, quotes: Sequence[tuple[str, int]]) -> list[Boxes]:
    """Return the boxes of the lines of each quote ``(text, characters before it)``; none if it is not found."""
    textpage = page.get_textpage()
    try:
        chars = "".join(_char(textpage, index) for index in range(textpage.count_chars()))
        return [
            [box for place in quote_ranges(chars, *quote) for box in _lines(page, textpage, chars, *place)]
            for quote in quotes
        ]
    finally:
        textpage.close()


def _char(textpage: pypdfium2.PdfTextPage, index: int) -> str:
    code = pypdfium2.raw.FPDFText_GetUnicode(textpage, index)
    return chr(code) if 0 < code <= sys.maxunicode else " "


def _lines(
    page: pypdfium2.PdfPage, textpage: pypdfium2.PdfTextPage, chars: str, start: int, end: int
) -> Iterator[tuple[float, float, float, float]]:
    """Return a box for each line of a range of characters."""
    now: list[float] | None = None
    for index in range(start, end):
        if chars[index].isspace():
            continue
        box = _on_picture(page, textpage.get_charbox(index, loose=True))
        if box[2] <= box[0] or box[3] <= box[1]:
            continue
        if now is not None and _same_line(now, box):
            now = [min(now[0], box[0]), min(now[1], box[1]), max(now[2], box[2]), max(now[3], box[3])]
            continue
        if now is not None:
            yield now[0], now[1], now[2] - now[0], now[3] - now[1]
        now = box
    if now is not None:
        yield now[0], now[1], now[2] - now[0], now[3] - now[1]


def _same_line(line: Sequence[float], box: Sequence[float]) -> bool:
    """Return whether a character continues a line: at the same height and close to its end."""
    height = min(line[3] - line[1], box[3] - box[1])
    shared = min(line[3], box[3]) - max(line[1], box[1])
    return shared > 0.5 * height and -0.02 < box[0] - line[2] < 0.08


_FINE: Final = 1 << 20


def _on_picture(page: pypdfium2.PdfPage, box: Sequence[float]) -> list[float]:
    """Convert a box from page coordinates, which may be rotated, to fractions of the picture."""
    left, bottom, right, top = box
    x, y = ctypes.c_int(), ctypes.c_int()
    found = []
    for across, up in ((left, bottom), (right, top)):
        pypdfium2.raw.FPDF_PageToDevice(page, 0, 0, _FINE, _FINE, 0, across, up, x, y)
        found.append((min(max(x.value / _FINE, 0.0), 1.0), min(max(y.value / _FINE, 0.0), 1.0)))
    (x0, y0), (x1, y1) = found
    return [min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)]


if __name__ == "__main__":
    main()
