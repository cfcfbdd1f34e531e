"""An indexed archive, open for reading: its documents, its scopes, its shards."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from okralong.pipelines.errors import ArchiveError, QuestionError
from okralong.pipelines.search.documents import DocumentStore
from okralong.pipelines.search.layout import shard_folder
from okralong.pipelines.search.scatter import LocalShard
from okralong.pipelines.search.shard import Shard
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import SCHEMA_VERSION
from okralong.pipelines.values import Document


@dataclass
class Archive:
    """Open one with ``Archive.open``. ``manifest`` is what the index job wrote last.

    ``location`` is the absolute path or URI under which another process can open the same archive.
    """

    location: str
    folder: Folder
    manifest: Mapping[str, Any]
    _shards: dict[tuple[int, int], Shard] = field(default_factory=dict)

    @classmethod
    def open(cls, location: str | Path) -> Archive:
        """The archive at a local path or URI. Documents and shards are opened when first asked for.

        Raises ArchiveError when it is missing, unfinished, or of another schema version.
        """
        folder = Folder.of(location)
        try:
            manifest = folder.read_manifest()
        except ValueError as error:
            raise ArchiveError(
                f"{folder.path}/manifest.json is not valid JSON: {error}. "
                f"Run okralong index {location} --from DIR again."
            ) from error
        if manifest is None:
            raise ArchiveError(
                f"{folder.path} has no manifest.json: there is no archive, or its index job has not finished. "
                f"Run okralong index {location} --from DIR."
            )
        found = manifest.get("schema_version")
        missing = [key for key in ("granularities", "embedding", "shards") if key not in manifest]
        if found != SCHEMA_VERSION or missing:
            why = f"lacks {', '.join(missing)}" if missing else f"has schema version {found}, not {SCHEMA_VERSION}"
            raise ArchiveError(
                f"{folder.path}/manifest.json {why}, so this okralong cannot read the archive. "
                f"Run okralong index {location} --from DIR again."
            )
        return cls(str(location) if "://" in str(location) else folder.path, folder, manifest)

    @property
    def granularities(self) -> tuple[int, ...]:
        """The chunk sizes that are indexed, in tokens."""
        return tuple(self.manifest["granularities"])

    @property
    def n_shards(self) -> int:
        """Shards of each granularity."""
        return int(self.manifest["shards"])

    @cached_property
    def _documents(self) -> DocumentStore:
        return DocumentStore.open(self.folder.at("documents"))

    def doc_ids(self) -> list[str]:
        """All documents, sorted."""
        return self._documents.doc_ids()

    def document(self, doc_id: str) -> Document:
        """A whole document. Raises QuestionError for an unknown doc_id."""
        return self._documents.document(doc_id)

    def document_tokens(self, doc_ids: Iterable[str]) -> list[tuple[str, int]]:
        """``(doc_id, tokens)`` of documents in order of doc_id; no doc_ids means all. Tokens are o200k_base.

        Raises QuestionError for an unknown doc_id.
        """
        return [(doc_id, self._documents.n_tokens(doc_id)) for doc_id in sorted(doc_ids) or self.doc_ids()]

    def resolve(self, scope: tuple[str, ...]) -> tuple[str, ...]:
        """The sorted doc_ids that a question's scope of ids and globs names; (), the whole archive, stays ().

        An entry that is a doc_id stands for itself even if it looks like a glob. Raises QuestionError naming the
        entry that names no document.
        """
        chosen: set[str] = set()
        for entry in scope:
            if entry in self._documents:
                chosen.add(entry)
                continue
            matching = {doc_id for doc_id in self.doc_ids() if fnmatchcase(doc_id, entry)}
            if not matching:
                raise QuestionError(self._no_such(entry))
            chosen |= matching
        return tuple(sorted(chosen))

    def _no_such(self, entry: str) -> str:
        near = difflib.get_close_matches(entry, self.doc_ids(), n=3, cutoff=0.4)
        hint = f"The nearest ids are {', '.join(map(repr, near))}." if near else "No id of the archive is like it."
        return f"The scope {entry!r} names no document of {self.folder.path}. {hint} Mend the doc_ids of the question."

    def shard(self, granularity: int, number: int) -> Shard:
        """A shard, opened once. Raises ArchiveError when the granularity or the number is not in the archive."""
        if granularity not in self.granularities or not 0 <= number < self.n_shards:
            raise ArchiveError(
                f"{self.folder.path} has no shard {number} at granularity {granularity}; it has {self.n_shards} shards "
                f"at {', '.join(map(str, self.granularities))} tokens. Add the granularity to the index config and "
                "run okralong index again."
            )
        key = (granularity, number)
        if key not in self._shards:
            self._shards[key] = Shard.open(shard_folder(self.folder, granularity, number))
        return self._shards[key]

    def clients(self, granularity: int) -> list[LocalShard]:
        """All shards of a granularity in this process, as ``search`` takes them."""
        return [LocalShard(self.shard(granularity, number)) for number in range(self.n_shards)]
