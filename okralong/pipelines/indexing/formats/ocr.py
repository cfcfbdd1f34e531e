"""Text of images: pages of PDFs without a text layer, and files of images, by RapidOCR (the extra ``ocr``).

Its models come with its wheel and nothing is fetched. One thread reads, so that the same image always gives the same
text. What it found is put together line by line; words far apart on a line are kept apart, as the cells of a table are.
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
from okralong.pipelines.indexing.documents import Blocks, Reading, Source

PACKAGES: Final = ("rapidocr", "onnxruntime")
INSTALL: Final = "pip install 'okralong[ocr]'"

LONGEST_SIDE: Final = 2000
"""Pixels of a page's longer side: 170 dots an inch of A4. Ours: at 1600 small print has more errors, for an eighth less
time."""
_MOST_PIXELS: Final = 100_000_000
"""Of a file of an image; ours. A page scanned at 600 dots an inch has 35 million."""
_LEAST_CONTRAST: Final = 16
"""Of 255: a page whose lightest and darkest pixel are nearer is blank."""


def ocr_is_installed() -> bool:
    """Whether the packages of the extra are there."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


@dataclass(frozen=True)
class Ocr:
    """What reads images in this process. ``why_not`` says what to do about it where none is read, "" where they are.

    ``most_pages`` are read of one document; ``before_page`` is called before each.
    """

    why_not: str = f"Install OCR ({INSTALL}) and index again, or leave it out with --exclude."
    most_pages: int = 0
    before_page: Callable[[], None] = lambda: None

    @property
    def is_on(self) -> bool:
        """Whether images are read."""
        return not self.why_not

    def check(self, pages: int, uri: str) -> None:
        """Raises DocumentError when ``pages`` are more than may be read of one document."""
        if pages > self.most_pages:
            raise DocumentError(
                f"{uri} has more than limits.ocr_pages = {self.most_pages} pages without a text layer. Raise the "
                "limit in the index config, split the file, or give it a text layer (for example with ocrmypdf)."
            )

    def text(self, image: Any) -> str:
        """The text of an image, an array of height, width and blue, green, red."""
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
        import rapidocr  # here, since it takes a second and 200 MB, and most parsers' processes never need it

        models = Path(rapidocr.__file__).parent / "models"
        single = {f"EngineConfig.onnxruntime.{which}_op_num_threads": 1 for which in ("intra", "inter")}
        paths = {f"{part}.model_path": str(_model(models, part)) for part in ("Det", "Rec")}
        more = {"Global.use_cls": False, "Global.max_side_len": LONGEST_SIDE, "Global.log_level": "critical"}
        return rapidocr.RapidOCR(params={**single, **paths, **more})


NO_OCR: Final = Ocr()


def is_blank(image: Any) -> bool:
    """Whether there is nothing on a page."""
    return int(image.max()) - int(image.min()) < _LEAST_CONTRAST


def _model(folder: Path, part: str) -> Path:
    """A model of the wheel. It is named, so that nothing is fetched in its stead."""
    found = sorted(folder.glob(f"*_{part.lower()}_*.onnx"))
    if not found:
        raise DocumentError(f"The package rapidocr has no model {part} in its folder. Install it anew: {INSTALL}.")
    return found[0]


def read_image(source: Source, ocr: Ocr) -> Iterator[Reading]:
    """The one document of a .png, .jpg or .tiff file, whose images are its pages.

    Raises DocumentError when it is no image, is too large, or OCR is not to be had.
    """
    if not ocr.is_on:
        raise DocumentError(f"{source.uri} is an image. {ocr.why_not}")
    import numpy as np
    from PIL import Image, ImageOps, ImageSequence, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # ours stands below, and is an error at once
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


# From words with places to the text of a page.


@dataclass(frozen=True, slots=True)
class Word:
    """Some words that stand together, and their box in pixels from the top left."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def height(self) -> float:
        """Of the box."""
        return self.bottom - self.top


_GAP_HEIGHTS: Final = 1.5
"""Words of one line that are so many times their height apart are cells of a table."""
_PARAGRAPH_HEIGHTS: Final = 0.9
"""Lines with so many times their height of white between them are paragraphs."""
_COLUMN_SHARE: Final = 0.3
"""Of the page's width: words of running text in two columns are at least so wide."""
_LEAST_COLUMN_LINES: Final = 8


def page_of_words(words: Sequence[Word]) -> str:
    """The text of a page: column by column where running text stands in two, and within it line by line."""
    return "\n\n".join(filter(None, map(_lines, _columns(words))))


def _columns(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """The page as it is, or, between what reaches over both columns, the left one and then the right one."""
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
