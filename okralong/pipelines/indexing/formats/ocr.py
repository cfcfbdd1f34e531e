"""Read text from images, PDF pages without a text layer and image files, with RapidOCR (the extra ``ocr``).

The wheel contains its models, so nothing is downloaded. It runs in one thread, so that an image always gives the same
text. Words are joined line by line; words far apart on a line stay apart, like the cells of a table.
"""

from __future__ import annotations

import importlib.util
import io
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.documents import Blocks, ParserOutput, Source

PACKAGES: Final = ("rapidocr", "onnxruntime")
INSTALL: Final = "pip install 'okralong[ocr]'"

LONGEST_SIDE: Final = 2000
"""Pixels of a page's longer side, 170 dpi for A4; 1600 takes an eighth less time but has more errors in small print. #
project default"""
_MOST_PIXELS: Final = 100_000_000
"""Largest image file; a page scanned at 600 dpi has 35 million pixels. # project default"""
_LEAST_CONTRAST: Final = 16
"""A page is blank if its lightest and darkest pixels differ by less (of 255)."""


def ocr_is_installed() -> bool:
    """Return whether the packages of the extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


@dataclass(frozen=True)
class Ocr:
    """The OCR of this process.

    ``why_not`` is the remedy if images are not read, "" if they are. At most ``most_pages`` of a document are read;
    ``before_page`` is called before each.
    """

    why_not: str = f"Install OCR ({INSTALL}) and index again, or leave it out with --exclude."
    most_pages: int = 0
    before_page: Callable[[], None] = lambda: None

    @property
    def is_on(self) -> bool:
        """True if images are read."""
        return not self.why_not

    def check(self, pages: int, uri: str) -> None:
        """Raise DocumentError if ``pages`` exceed the limit per document."""
        if pages > self.most_pages:
            raise DocumentError(
                f"{uri} has more than limits.ocr_pages = {self.most_pages} pages without a text layer. Raise the "
                "limit in the index config, split the file, or give it a text layer (for example with ocrmypdf)."
            )

    def text(self, image: Any) -> str:
        """Return the text of an image, an array of shape (height, width, 3) in BGR."""
        self.before_page()
        found = self._engine(image)
        if not found.txts:
            return ""
        return page_of_words(
            [
                Word(
                    float(box[:, 0].min()), float(box[:, 1].min()), float(box[:, 0].max()), float(box[:, 1].max()), text
                )
                for box, text in zip(found.boxes, found.txts, strict=True)
            ]
        )

    @cached_property
    def _engine(self) -> Any:
        import rapidocr  # imported here: it takes 1 s and 200 MB, and most parser processes never need it

        models = Path(rapidocr.__file__).parent / "models"
        single = {f"EngineConfig.onnxruntime.{which}_op_num_threads": 1 for which in ("intra", "inter")}
        paths = {f"{part}.model_path": str(_model(models, part)) for part in ("Det", "Rec")}
        more = {"Global.use_cls": False, "Global.max_side_len": LONGEST_SIDE, "Global.log_level": "critical"}
        return rapidocr.RapidOCR(params={**single, **paths, **more})


NO_OCR: Final = Ocr()


def is_blank(image: Any) -> bool:
    """Return whether a page is empty."""
    return int(image.max()) - int(image.min()) < _LEAST_CONTRAST


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
    import numpy as np
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # replaced by the stricter check below
    blocks, pages = Blocks(), 0
    try:
        with Image.open(io.BytesIO(source.read_bytes()), formats=("PNG", "JPEG", "TIFF")) as file:
            ocr.check(getattr(file, "n_frames", 1), source.uri)
            for pages, frame in enumerate(ImageSequence.Iterator(file), start=1):
                if frame.width * frame.height > _MOST_PIXELS:
                    raise DocumentError(
                        f"{source.uri} has an image of {frame.width} x {frame.height} pixels, more than "
                        f"{_MOST_PIXELS // 10**6} million. Save it smaller, and index again."
                    )
                page = ImageOps.exif_transpose(frame).convert("RGB")
                page.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
                blocks.begin("page", str(pages), ocr=True)
                image = np.asarray(page)[:, :, ::-1]
                blocks.add("" if is_blank(image) else ocr.text(image))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise DocumentError(
            f"{source.uri} is not a readable image ({error}). Save it again as PNG, or fetch it anew."
        ) from error
    yield blocks.document(source, "", {"pages": str(pages), "ocr_pages": str(pages)})


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
    return "\n\n".join(filter(None, map(_lines, _columns(words))))


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


def _lines(words: Sequence[Word]) -> str:
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.top + word.bottom) / 2):
        middle = (word.top + word.bottom) / 2
        if rows and middle < statistics.mean((w.top + w.bottom) / 2 for w in rows[-1]) + word.height / 2:
            rows[-1].append(word)
        else:
            rows.append([word])
    text, before = "", None
    for row in rows:
        row.sort(key=lambda word: word.left)
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
