"""Pictures of cited PDF pages, and the positions of the quotes on them.

PDFs are untrusted, so a confined process (``page_process``) opens them: it checks that the file is the indexed one,
draws the page and locates the quotes. The report draws the marks over the picture, which all quotes of a page share.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import read_sources
from okralong.pipelines.core.confined_process import ConfinedProcess, ProcessLost
from okralong.pipelines.core.types import Document
from okralong.pipelines.reporting.cited import number_of, parts_of
from okralong.pipelines.reporting.page_process import MOST_PICTURE_BYTES, PAGE_SECONDS, SIGNATURES, folded

DEFAULT_MEGABYTES: Final = 15.0  # project default
"""Maximum size of all pictures of a report, about 150 pages; a page of 20 MB can still be mailed."""

MOST_PAGES_A_QUOTE: Final = 3  # project default
"""Maximum number of pages shown for a quote that crosses page breaks."""

_CHILD: Final = "okralong.pipelines.reporting.page_process"
_MOST_LOSSES: Final = 2  # project default
"""Number of crashes after which a file is skipped."""
_WAIT_S: Final = 5 * PAGE_SECONDS
_MOST_BOXES: Final = 200
_WHOLE: Final = 10_000
"""Positions are integers in ten thousandths of the picture's width and height."""

Box = tuple[int, int, int, int]
"""Left, top, width and height in ten thousandths of the picture."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A page as PNG or JPEG."""

    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """A quote on a page: the number of the picture, the page's label, and the boxes around the quote.

    There are no boxes if the quote was not found, for example on a scanned page.
    """

    picture: int
    page: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of drawing. ``marks`` are in request order, None without a picture; ``notes`` explain gaps."""

    pictures: Sequence[Picture] = ()
    marks: Sequence[Mark | None] = ()
    notes: Sequence[str] = ()


@dataclass(slots=True)
class _Page:
    uri: str
    number: int
    first: tuple[int, int]
    """The drawing order: pages of first citations come first, in the order of the questions."""
    quotes: list[tuple[int, str, int]] = field(default_factory=list)
    """Of each quote: mark, text, and the number of ``folded`` characters of the page before it."""


class PageMarks:
    """Collects the quotes of a report, then draws their pages."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, int], _Page] = {}
        self._known: dict[tuple[str, int, int], list[int]] = {}
        self._count = 0

    def add(self, document: Document, start: int, end: int, first: tuple[int, int]) -> list[int]:
        """Add a cited span and return its mark numbers, one per page; none if it is not on a PDF page.

        Pages with a lower ``first`` are drawn first.
        """
        if PurePosixPath(document.source_uri).suffix.lower() != ".pdf":
            return []
        span = (document.doc_id, start, end)
        if span not in self._known:
            parts = [part for part in parts_of(document, start, end) if number_of(part[0]) is not None]
            self._known[span] = [self._mark(document, *part, first) for part in parts[:MOST_PAGES_A_QUOTE]]
        return self._known[span]

    def _mark(self, document: Document, section: Any, start: int, end: int, first: tuple[int, int]) -> int:
        number = number_of(section)
        assert number is not None
        page = self._pages.setdefault((document.source_uri, number), _Page(document.source_uri, number, first))
        page.first = min(page.first, first)
        before = len(folded(document.text[section.start_char : start])[0])
        page.quotes.append((self._count, document.text[start:end], before))
        self._count += 1
        return self._count - 1

    def draw(self, archive: Archive, megabytes: float) -> Drawn:
        """Draw pages until the pictures take ``megabytes``. Missing and changed files are skipped.

        Raises:
            BrokenError: No process can be started.
        """
        marks: list[Mark | None] = [None] * self._count
        if not self._pages or megabytes <= 0:
            return Drawn(marks=marks)
        files = {page.uri for page in self._pages.values()}
        name = archive.manifest["files"].get("sources")
        known = {} if name is None else read_sources(archive.folder, name, files)
        painter = _Painter({uri: source.sha256 for uri, source in known.items()})
        pictures: list[Picture] = []
        left, beyond = megabytes * 1e6, 0
        try:
            for page in sorted(self._pages.values(), key=lambda page: (page.first, page.uri, page.number)):
                if left < 0:
                    beyond += 1
                    continue
                drawn = painter.draw(page)
                if drawn is None:
                    continue
                picture, boxes = drawn
                left -= 4 * math.ceil(len(picture.data) / 3)
                if left < 0:
                    beyond += 1
                    continue
                for (mark, _, _), places in zip(page.quotes, boxes, strict=True):
                    marks[mark] = Mark(len(pictures), str(page.number), places)
                pictures.append(picture)
        finally:
            painter.end()
        notes = painter.notes()
        if beyond:
            notes.append(
                f"{beyond:,} cited pages have no picture, because the others already take {megabytes:g} MB "
                "(--pictures MEGABYTES of okralong report)."
            )
        return Drawn(pictures, marks, notes)


class _Painter:
    """The drawing process, which is replaced after a crash, and the problems by file."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = hashes
        self._process: ConfinedProcess | None = None
        self._losses: dict[str, int] = {}
        self._gone: set[str] = set()

    def draw(self, page: _Page) -> tuple[Picture, list[tuple[Box, ...]]] | None:
        sha256 = self._hashes.get(page.uri)
        if not sha256 or page.uri in self._gone:
            self._gone.add(page.uri)
            return None
        if self._losses.get(page.uri, 0) >= _MOST_LOSSES:
            return None
        if self._process is None:
            self._process = ConfinedProcess(_CHILD, most_body=MOST_PICTURE_BYTES)
        try:
            self._process.request(
                {
                    "uri": page.uri,
                    "sha256": sha256,
                    "page": page.number,
                    "quotes": [[words, before] for _, words, before in page.quotes],
                }
            )
            head, body = self._process.read(time.monotonic() + _WAIT_S)
            return self._taken(page, head, body)
        except (ProcessLost, KeyError, TypeError, ValueError):
            self._losses[page.uri] = self._losses.get(page.uri, 0) + 1
            self.end()
            return None

    def _taken(self, page: _Page, head: Mapping[str, Any], body: bytes) -> tuple[Picture, list[tuple[Box, ...]]] | None:
        """Validate a reply of the process, which has parsed an untrusted file."""
        if head["kind"] == "gone":
            self._gone.add(page.uri)
            return None
        if head["kind"] != "page":
            self._losses[page.uri] = self._losses.get(page.uri, 0) + 1
            return None
        kind = next(kind for kind, signature in SIGNATURES.items() if body.startswith(signature))
        places = [tuple(_box(box) for box in boxes[:_MOST_BOXES]) for boxes in head["boxes"]]
        if len(places) != len(page.quotes):
            raise ValueError("the numbers of positions and quotes differ")
        return Picture(kind, body), places

    def notes(self) -> list[str]:
        found = []
        if self._gone:
            found.append(
                f"{len(self._gone):,} of the cited PDF files are missing or have changed since they were indexed "
                f"({_some(self._gone)}): their pages are not shown."
            )
        if self._losses:
            found.append(f"Pages of {len(self._losses):,} PDF files could not be drawn ({_some(self._losses)}).")
        return found

    def end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.end()
            self._process = None


def _box(values: Sequence[float]) -> Box:
    left, top, width, height = (min(max(round(float(value) * _WHOLE), 0), _WHOLE) for value in values)
    return left, top, width, height


def _some(uris: Mapping[str, int] | set[str]) -> str:
    names = sorted(PurePosixPath(uri).name for uri in uris)
    return ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
