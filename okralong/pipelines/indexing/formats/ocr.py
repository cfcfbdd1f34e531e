"""Read text from images, PDF pages without readable text and image files, with RapidOCR (the extra ``ocr``).

The wheel contains its models, so nothing is downloaded. It runs in one thread, so that an image always gives the same
text. Words are joined line by line; words far apart on a line stay apart, like the cells of a table.
"""

from __future__ import annotations

import importlib.util
import io
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, Losses, ParserOutput, Source
from okralong.pipelines.indexing.formats import page_lines
from okralong.pipelines.indexing.formats.offsets import Offsets
from okralong.pipelines.indexing.formats.tables_of_pages import PageTables, TableReader, count_pages, document_tables

PACKAGES: Final = ("rapidocr", "onnxruntime")
INSTALL: Final = "pip install '.[ocr]' in the checkout"

WHY_NOT: Final = {
    "on": "",
    "off": "The index config says ocr: off. Set it to auto and index again, or leave the file out with --exclude.",
    "later": "OCR reads it next: this version was published before, and the next one will have it.",
    "missing": f"Install OCR ({INSTALL}) and index again, or leave the file out with --exclude.",
}
"""Why images are not read, by ``Limits.ocr``."""

LONGEST_SIDE: Final = 2000
"""Pixels of a page's longer side, 170 dpi for A4; 1600 takes an eighth less time but has more errors in small print. #
project default"""
_MOST_PIXELS: Final = 100_000_000
"""Largest image file; a page scanned at 600 dpi has 35 million pixels. # project default"""
_LEAST_CONTRAST: Final = 16
"""A page is blank if its lightest and darkest pixels differ by less (of 255)."""
_PAPER: Final = 160
_PAPER_SHARE: Final = 0.6
"""Brightness of paper, and its share of a page of text. # project default"""


def ocr_is_installed() -> bool:
    """Return whether the packages of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


@dataclass(frozen=True)
class Ocr:
    """The OCR of this process.

    ``why_not`` is the remedy if images are not read, "" if they are. At most ``most_pages`` of a document are read;
    ``before_page`` is called before each with its number, from 1, and how many the document has.
    """

    why_not: str = WHY_NOT["missing"]
    most_pages: int = 0
    before_page: Callable[[int, int], None] = lambda number, of: None

    @property
    def is_on(self) -> bool:
        """True if images are read."""
        return not self.why_not

    @property
    def remedy(self) -> str:
        """What makes this process read images, in two or three words; "" if it does."""
        remedies = {"on": "", "off": "set ocr: auto", "later": "OCR follows", "missing": "install OCR"}
        return next(remedies[state] for state, why in WHY_NOT.items() if why == self.why_not)

    def check(self, pages: int, uri: str) -> None:
        """Raise DocumentError if ``pages`` exceed the limit per document."""
        if pages > self.most_pages:
            raise DocumentError(
                f"{uri} has more than limits.ocr_pages = {self.most_pages} pages without readable text. Raise the "
                "limit in the index config, split the file, or give it a text layer (for example with ocrmypdf)."
            )

    def read(self, image: Any, number: int, of: int) -> Reading:
        """Read the image (height, width, 3; in BGR) of page ``number`` of those that a document has for OCR.

        A page on its side or on its head is turned first.
        """
        self.before_page(number, of)
        found = _Found.of(self._engine(image))
        if found.turn:
            turned = _Found.of(self._engine(np.ascontiguousarray(np.rot90(image, found.turn))))
            if turned.words and not turned.turn and turned.certainty >= found.certainty - _AS_CERTAIN:
                found = turned
        return Reading(found.words, found.is_doubtful, max(image.shape[:2]))

    @cached_property
    def _engine(self) -> Any:
        import rapidocr  # imported here: it takes 1 s and 200 MB, and most parser processes never need it

        models = Path(rapidocr.__file__).parent / "models"
        single = {f"EngineConfig.onnxruntime.{which}_op_num_threads": 1 for which in ("intra", "inter")}
        paths = {f"{part}.model_path": str(_model(models, part)) for part in ("Det", "Rec")}
        more = {"Global.use_cls": False, "Global.max_side_len": LONGEST_SIDE, "Global.log_level": "critical"}
        return rapidocr.RapidOCR(params={**single, **paths, **more})


_CERTAIN: Final = 0.85
"""Mean certainty of the characters of a page below which it is turned, and then doubtful. Upright pages had 0.99, pages
turned the wrong way 0.57 to 0.70. # project default"""
_AS_CERTAIN: Final = 0.05
_TALL: Final = 1.5
"""Height of a line by its width from which it runs up or down the page. # project default"""


@dataclass(frozen=True, slots=True)
class _Found:
    """The words of a page, their mean certainty, and by how many quarter turns to the left it is upright."""

    words: list[Word]
    certainty: float
    turn: int

    @classmethod
    def of(cls, found: Any) -> _Found:
        if not found.txts:
            return cls([], 1.0, 0)
        words = [
            Word(float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 0].max()), float(box[:, 1].max()), text)
            for box, text in zip(found.boxes, found.txts, strict=True)
        ]
        chars = max(1, sum(len(word.text) for word in words))
        sure = sum(len(word.text) * score for word, score in zip(words, found.scores, strict=True)) / chars
        tall = sum(len(word.text) for word in words if word.height > _TALL * (word.right - word.left))
        if tall > chars / 2:  # the engine turns single lines to the left, and reads them if they ran down
            return cls(words, sure, 1 if sure >= _CERTAIN else 3)
        return cls(words, sure, 0 if sure >= _CERTAIN else 2)

    @property
    def is_doubtful(self) -> bool:
        """Whether the text may be wrong."""
        return bool(self.words) and self.certainty < _CERTAIN


NO_OCR: Final = Ocr()


def is_blank(image: Any) -> bool:
    """Return whether a page is empty."""
    return int(image.max()) - int(image.min()) < _LEAST_CONTRAST


def is_scan(image: Any) -> bool:
    """Return whether an image looks like a page of text rather than a photograph: most of it is the paper."""
    grey = image[::4, ::4].mean(axis=2)
    paper = np.bincount((grey / 16).astype(int).ravel(), minlength=16).argmax() * 16
    return bool(paper >= _PAPER and (abs(grey - paper) < 32).mean() > _PAPER_SHARE)


def _model(folder: Path, part: str) -> Path:
    """Return a model file of the wheel, whose explicit name prevents a download."""
    found = sorted(folder.glob(f"*_{part.lower()}_*.onnx"))
    if not found:
        raise DocumentError(f"The package rapidocr has no model {part} in its folder. Reinstall it: {INSTALL}.")
    return found[0]


def read_image(source: Source, ocr: Ocr) -> Iterator[ParserOutput]:
    """Yield the document of a .png, .jpg or .tiff file, whose images are its pages.

    Raises:
        DocumentError: The file is not an image or too large, or OCR is not available.
    """
    if not ocr.is_on:
        raise DocumentError(f"{source.uri} is an image. {ocr.why_not}")
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # replaced by the stricter check below
    blocks, damaged, doubtful, read = Blocks(), list[int](), list[int](), 0
    reader, with_tables = TableReader(), list[PageTables]()
    try:
        with Image.open(io.BytesIO(source.read_bytes()), formats=("PNG", "JPEG", "TIFF")) as file:
            pages = getattr(file, "n_frames", 1) if file.format == "TIFF" else 1  # others repeat the first picture
            ocr.check(pages, source.uri)
            for number in range(pages):
                try:
                    file.seek(number)
                    if number and getattr(file, "tag_v2", {}).get(_TIFF_KIND, 0) & 1:  # a preview
                        continue
                    _check_size(file.width, file.height, source.uri)
                    page = _on_paper(file)
                except (OSError, ValueError, SyntaxError, EOFError):
                    if number == pages - 1 == len(damaged):
                        raise
                    damaged.append(number + 1)
                    continue
                read += 1
                page.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                blocks.begin("page", str(number + 1), ocr=True)
                image = np.asarray(page)[:, :, ::-1]
                found = Reading() if is_blank(image) else ocr.read(image, number + 1, pages)
                doubtful += [number + 1] if found.is_doubtful else []
                text = found.text
                tables = reader.of_words(number + 1, found.words_in(text))
                with_tables.append(PageTables(str(number + 1), blocks.add(text), text, tables))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise DocumentError(
            f"{source.uri} is not a readable image ({error}). Save it again as PNG, or fetch it anew."
        ) from error
    losses = Losses()
    count_pages(losses, "with damage", damaged, "fetch the file anew")
    count_pages(losses, DOUBTFUL, doubtful, BETTER_SCAN)
    reader.count_losses(losses)
    document = blocks.document(source, "", {"pages": str(read), "ocr_pages": str(read), **losses.metadata()})
    yield replace(document, tables=document_tables(with_tables))


DOUBTFUL: Final = "that OCR could hardly read"
BETTER_SCAN: Final = "scan again, upright and sharp"
_TIFF_KIND: Final = 254
"""Tag NewSubfileType; its first bit marks a smaller version of another page."""


def _check_size(width: int, height: int, uri: str) -> None:
    if width * height > _MOST_PIXELS:
        raise DocumentError(
            f"{uri} has an image of {width} x {height} pixels, more than {_MOST_PIXELS // 10**6} million. Save it "
            "smaller, and index again."
        )


def _on_paper(frame: Any) -> Any:
    """Return an image upright, in RGB, with white below transparent parts and values of more than 8 bits scaled."""
    from PIL import Image, ImageOps

    if frame.mode[0] in "IF":  # converted by Pillow, all values above 255 would be white
        values = np.nan_to_num(np.asarray(frame, dtype=np.float32))
        scale = 255 / max(float(values.max() - values.min()), 1e-9)
        grey = Image.fromarray(((values - values.min()) * scale).astype(np.uint8))
        grey.getexif().update(frame.getexif())
        frame = grey
    upright = ImageOps.exif_transpose(frame)
    if upright.has_transparency_data:
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    return upright.convert("RGB")


# Join words with positions to the text of a page.


@dataclass(frozen=True, slots=True)
class Word:
    """Adjacent words and their box in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        """Height of the box."""
        return self.bottom - self.top


_GAP_HEIGHTS: Final = 1.5
"""Words on a line further apart than this multiple of their height are cells of a table."""
_PARAGRAPH_HEIGHTS: Final = 0.9
"""Lines with more space between them than this multiple of their height are paragraphs."""
_COLUMN_SHARE: Final = 0.3
"""Minimal width of running text in two columns, as a share of the page."""
_LEAST_COLUMN_LINES: Final = 8


def page_of_words(words: Sequence[Word]) -> str:
    """Return the text of a page, line by line, and column by column if running text has two."""
    return "\n\n".join(filter(None, map(_lines, map(_rows, _columns(words) if words else ()))))


_PAGE_POINTS: Final = 842.0
"""Points of an A4 page's longer side, which an image is taken to have."""
_DESCENT: Final = 0.25
"""How far a baseline is below the middle of its line, as a share of the height. # project default"""


@dataclass(frozen=True)
class Reading:
    """What OCR found in an image whose longer side has ``side`` pixels."""

    words: Sequence[Word] = ()
    is_doubtful: bool = False
    side: int = LONGEST_SIDE

    @cached_property
    def text(self) -> str:
        """The text of the page, "" without words."""
        return page_of_words(self.words)

    def words_in(self, text: str) -> list[page_lines.Word]:
        """Return single words with their places in ``text``, which is this reading's apart from blanks."""
        scale = _PAGE_POINTS / self.side
        parts = [
            part for column in (_columns(self.words) if self.words else ()) for row in _rows(column) for part in row
        ]
        boxes = [(part, found) for part in parts for found in _SOLID.finditer(part.text)]
        ends = np.cumsum([len(found[0]) for _, found in boxes], dtype=np.int64)
        starts = ends - [len(found[0]) for _, found in boxes]
        places = Offsets("".join(found[0] for _, found in boxes), text).of(starts, ends)
        words = []
        for (part, found), start, end in zip(boxes, *places, strict=True):
            letter = (part.right - part.left) / len(part.text)
            y = (part.top + part.bottom) / 2 + _DESCENT * part.height
            left, right = (part.left + letter * at for at in found.span())
            words.append(
                page_lines.Word(left * scale, right * scale, y * scale, part.height * scale, found[0], start, end)
            )
        return words


_SOLID: Final = re.compile(r"\S+")


def _columns(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the page as a whole, or its left and right columns between elements that span both."""
    left, right = min(word.left for word in words), max(word.right for word in words)
    middle = (left + right) / 2
    wide = [word for word in words if word.right - word.left >= _COLUMN_SHARE * (right - left)]
    sides = [sum(word.right <= middle for word in wide), sum(word.left >= middle for word in wide)]
    across = [word for word in words if word.left < middle < word.right]
    if min(sides) < _LEAST_COLUMN_LINES or len(across) > min(sides) / 2:
        yield words
        return
    across.sort(key=lambda word: word.top)
    top = float("-inf")
    for over in [*across, None]:
        bottom = over.top if over else float("inf")
        between = [word for word in words if word not in across and top <= word.top < bottom]
        yield [word for word in between if word.right <= middle]
        yield [word for word in between if word.right > middle]
        if over:
            yield [over]
            top = over.top


def _rows(words: Sequence[Word]) -> list[list[Word]]:
    """Return words line by line, each from left to right."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.top + word.bottom) / 2):
        middle = (word.top + word.bottom) / 2
        if rows and middle < statistics.mean((w.top + w.bottom) / 2 for w in rows[-1]) + word.height / 2:
            rows[-1].append(word)
        else:
            rows.append([word])
    return [sorted(row, key=lambda word: word.left) for row in rows]


def _lines(rows: Sequence[Sequence[Word]]) -> str:
    text, before = "", None
    for row in rows:
        top, bottom = min(word.top for word in row), max(word.bottom for word in row)
        if before is not None:
            text += "\n\n" if top - before > _PARAGRAPH_HEIGHTS * (bottom - top) else "\n"
        before = bottom
        text += _line(row)
    return text


def _line(row: Sequence[Word]) -> str:
    line = row[0].text
    for one, other in pairwise(row):
        line += ("   " if other.left - one.right > _GAP_HEIGHTS * other.height else " ") + other.text
    return line
