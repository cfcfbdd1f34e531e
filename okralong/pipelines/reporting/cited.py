"""Citations for readers: the quote, its file, and the page, sheet or slide that it is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as url_quote

from okralong.pipelines.core.types import ArchiveError, ConfigError, Document, QuestionError, Section, section_at

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

QUOTE_CHARS: Final = 1_000  # project default
"""Maximum length of a quote in characters."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A cited span of a document. Without the archive, only the span is known.

    Attributes:
        section: The page, sheet, slide, heading or attachment ("page 12", or "pages 12-13" across a break), or "".
        page: The number of the page or slide on which the quote begins.
        ocr: Whether the text was read from an image.
        sha256: The hash of the document.
    """

    doc_id: str
    start_char: int
    end_char: int
    quote: str = ""
    section: str = ""
    page: int | None = None
    ocr: bool = False
    source_uri: str = ""
    title: str = ""
    sha256: str = ""

    @property
    def link(self) -> str:
        """A URL that opens the source (a PDF at the page), or "" if unknown."""
        if not self.source_uri:
            return ""
        uri = self.source_uri if "://" in self.source_uri else f"file://{url_quote(self.source_uri)}"
        is_pdf = PurePosixPath(self.source_uri).suffix.lower() == ".pdf"
        return f"{uri}#page={self.page}" if is_pdf and self.page else uri


def cited(archive: Archive | None, span: Mapping[str, Any]) -> Cited:
    """Look up a span ``{doc_id, start_char, end_char}`` of the ``answers`` table."""
    doc_id, start, end = span["doc_id"], int(span["start_char"]), int(span["end_char"])
    if archive is None:
        return Cited(doc_id, start, end)
    try:
        document = archive.document(doc_id)
    except QuestionError:
        return Cited(doc_id, start, end)
    parts = parts_of(document, start, end)
    section = parts[0][0] if parts else section_at(document.sections, start)
    words = document.text[start:end]
    return Cited(
        doc_id,
        start,
        end,
        quote=words if len(words) <= QUOTE_CHARS else f"{words[:QUOTE_CHARS]} …",
        section=_place([part[0] for part in parts] or [section]),
        page=number_of(section),
        ocr=any(part[0] is not None and part[0].ocr for part in parts),
        source_uri=document.source_uri,
        title=document.title,
        sha256=document.sha256,
    )


def parts_of(document: Document, start: int, end: int) -> list[tuple[Section | None, int, int]]:
    """Split a span at the beginnings of sections, and return each section with its part ``[start, end)``.

    Parts without words, such as blank lines at the end of a page, are left out.
    """
    breaks = [each.start_char for each in document.sections if start < each.start_char < end]
    cuts = [start, *breaks, end]
    return [
        (section_at(document.sections, low), low, high)
        for low, high in pairwise(cuts)
        if document.text[low:high].strip()
    ]


def number_of(section: Section | None) -> int | None:
    """Return the number of a page or slide, or None for other sections."""
    numbered = section is not None and section.kind in ("page", "slide") and section.name.isdecimal()
    return int(section.name) if section is not None and numbered else None


def _place(sections: Sequence[Section | None]) -> str:
    first, last = sections[0], sections[-1]
    if first is None or last is None or first == last or first.kind == "heading" or first.kind != last.kind:
        return str(first or "")
    between = "-" if number_of(first) is not None else " to "
    return f"{first.kind}s {first.name}{between}{last.name}"


def archive_of(begun: Mapping[str, Any]) -> tuple[Archive | None, str]:
    """Open the archive of a run, given its ``run.json``; if impossible, return None and the reason."""
    from okralong.pipelines.archive.archive import Archive  # loads FAISS, which the command line does not need

    location = str(begun.get("archive") or "")
    try:
        archive = Archive.open(location)
    except (ArchiveError, ConfigError, OSError):
        return None, "The run's archive is missing: sources are shown without their text."
    # A purge changes a version's fingerprint, but not its other documents.
    known = (archive.manifest.get("fingerprint"), *archive.manifest.get("fingerprints_before", ()))
    if begun.get("archive_fingerprint") not in known:
        return None, "The run's archive has changed since the run: sources are shown without their text."
    return archive, ""
