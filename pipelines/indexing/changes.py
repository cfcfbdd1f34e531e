"""What a run has to read, from what the version before it knows of its source files. Pure: no files are opened here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from okralong.pipelines.archive.versions import Claim, KnownSource
from okralong.pipelines.indexing.readers.raw import Source


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """``kept`` are files as they were, ``to_read`` new or changed ones, ``gone`` the uris of files that went."""

    kept: dict[str, KnownSource]
    to_read: list[Source]
    gone: set[str]

    @property
    def none(self) -> bool:
        """Whether every file is as it was."""
        return not self.to_read and not self.gone


def source_changes(listed: Iterable[Source], known: Mapping[str, KnownSource], retry_failed: bool) -> SourceChanges:
    """Compare by content. A file that could not be opened is read again, and so, with ``retry_failed``, is one that
    holds documents that failed.
    """
    kept: dict[str, KnownSource] = {}
    to_read: list[Source] = []
    seen = set()
    for source in listed:
        seen.add(source.uri)
        before = known.get(source.uri)
        same = before is not None and source.sha256 == before.sha256 != "" and source.doc_id == before.name
        if before is not None and same and not (before.failed and retry_failed):
            kept[source.uri] = KnownSource(
                before.uri, before.name, before.sha256, source.size, source.mtime_ns, before.failed
            )
        else:
            to_read.append(source)
    return SourceChanges(kept, to_read, set(known) - seen)


def carried(claims: Iterable[Claim], changes: SourceChanges) -> list[Claim]:
    """The documents that need not be read again."""
    return [claim for claim in claims if claim.source_uri in changes.kept]
