"""The texts of a run's documents, for highlighting: from the archive version that the run was made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import ArchiveError, ConfigError, QuestionError

TextOf = Callable[[str], str | None]


def archive_texts(begun: Mapping[str, Any]) -> tuple[TextOf, str]:
    """A function from doc_id to text (None where it cannot be had), and why there are no texts at all, or "".

    ``begun`` is the run's ``run.json``.
    """
    location = str(begun.get("archive") or "")
    try:
        archive = Archive.open(location)
    except (ArchiveError, ConfigError, OSError):
        return _nothing, "The run's archive is not there any more: sources are shown as places, without their words."
    if archive.manifest.get("fingerprint") != begun.get("archive_fingerprint"):
        return _nothing, "The run's archive has changed since: sources are shown as places, without their words."

    def text_of(doc_id: str) -> str | None:
        try:
            return archive.document(doc_id).text
        except QuestionError:
            return None

    return text_of, ""


def _nothing(_: str) -> str | None:
    return None
