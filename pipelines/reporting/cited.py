"""What a citation says to a reader: the words, the file and the page, sheet or slide that they stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote as url_quote

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import ArchiveError, ConfigError, QuestionError, section_at

QUOTE_CHARS: Final = 1_000
"""Most characters of a quote. Ours: a cited passage is at most some hundred tokens, but a model may cite any."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A cited span of a document with what stands there.

    ``section`` is the page, sheet, slide, heading or attachment in which the quote begins ("page 12"), "" where the
    document has none, and ``page`` the number of a page or slide. ``ocr`` says that its text was read from an image.
    ``sha256`` is the document's. Without the archive all but the span is empty.
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
        """A URL that opens the source, a PDF at its page; "" where the source is not known."""
        if not self.source_uri:
            return ""
        uri = self.source_uri if "://" in self.source_uri else f"file://{url_quote(self.source_uri)}"
        is_pdf = PurePosixPath(self.source_uri).suffix.lower() == ".pdf"
        return f"{uri}#page={self.page}" if is_pdf and self.page else uri


def cited(archive: Archive | None, span: Mapping[str, Any]) -> Cited:
    """What stands at a span ``{doc_id, start_char, end_char}`` of the ``answers`` table."""
    doc_id, start, end = span["doc_id"], int(span["start_char"]), int(span["end_char"])
    if archive is None:
        return Cited(doc_id, start, end)
    try:
        document = archive.document(doc_id)
    except QuestionError:
        return Cited(doc_id, start, end)
    section = section_at(document.sections, start)
    numbered = section is not None and section.kind in ("page", "slide") and section.name.isdecimal()
    words = document.text[start:end]
    return Cited(
        doc_id,
        start,
        end,
        quote=words if len(words) <= QUOTE_CHARS else f"{words[:QUOTE_CHARS]} …",
        section=str(section or ""),
        page=int(section.name) if section is not None and numbered else None,
        ocr=section is not None and section.ocr,
        source_uri=document.source_uri,
        title=document.title,
        sha256=document.sha256,
    )


def archive_of(begun: Mapping[str, Any]) -> tuple[Archive | None, str]:
    """The archive of a run as it was when the run began, and "", or None and why its words cannot be had.

    ``begun`` is the run's ``run.json``.
    """
    location = str(begun.get("archive") or "")
    try:
        archive = Archive.open(location)
    except (ArchiveError, ConfigError, OSError):
        return None, "The run's archive is not there any more: sources are shown as places, without their words."
    if archive.manifest.get("fingerprint") != begun.get("archive_fingerprint"):
        return None, "The run's archive has changed since: sources are shown as places, without their words."
    return archive, ""
