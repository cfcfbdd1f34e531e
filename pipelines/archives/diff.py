"""What changed between two versions, document by document. Files that both share are not even opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from okralong.pipelines.archives.catalogue import read_catalogue
from okralong.pipelines.core.storage import Folder


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The doc_ids, sorted, that are in the new version alone, in both with another text, and in the old one alone."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """Whether both versions show the same documents."""
        return not (self.added or self.changed or self.removed)


def diff_versions(archive: Folder, old: Mapping[str, Any], new: Mapping[str, Any]) -> VersionDiff:
    """Compare the documents of two versions, given by their manifests."""
    names = [manifest["files"]["catalogue"] for manifest in (old, new)]
    # A document is always in the file of its shard, so a file that both have holds no change.
    shared = set(names[0]) & set(names[1]) if len(names[0]) == len(names[1]) else set()
    before, after = (
        {
            claim.doc_id: claim.sha256
            for claim in read_catalogue(archive, [name for name in files if name not in shared])
            if not claim.shadowed
        }
        for files in names
    )
    return VersionDiff(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(doc_id for doc_id in after.keys() & before.keys() if after[doc_id] != before[doc_id])),
        tuple(sorted(before.keys() - after.keys())),
    )
