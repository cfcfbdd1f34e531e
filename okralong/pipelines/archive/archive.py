"""Read an indexed archive: its documents, scopes and shards."""

from __future__ import annotations

import difflib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.archive.failures import read_failures
from okralong.pipelines.archive.files import CompressedRows, granularity_folder, table_folders
from okralong.pipelines.archive.metadata import (
    FIXED_COLUMNS,
    LANGUAGE,
    DocumentFacts,
    facts_of_documents,
    metadata_table,
    read_facts,
)
from okralong.pipelines.archive.names import DocumentNames
from okralong.pipelines.archive.search import LocalShard
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.archive.tables import read_document_tables
from okralong.pipelines.archive.versions import (
    VERSIONS,
    DocumentEntry,
    Location,
    active,
    latest_version,
    read_catalogue,
    read_version,
)
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.schemas import DOCUMENTS, READ_IN_PART
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tables import Table
from okralong.pipelines.core.types import NOT_READ, ArchiveError, Document, Fact, QuestionError, Section, TableSpan

CACHED_DOCUMENTS: Final = 8
"""Number of documents kept in memory; the passages of one question come from few documents. project default"""

_ROWS_AT_A_TIME: Final = 16
_ENGLISH: Final = frozenset({ENGLISH})


@dataclass
class Archive:
    """One version of an archive, with its ``manifest``; open it with ``Archive.open``.

    ``location`` is the absolute path or URI, with ``@`` and the version, under which another process can open it.
    """

    location: str
    folder: Folder
    manifest: Mapping[str, Any]
    _shards: dict[tuple[int, int], Shard] = field(default_factory=dict)

    @classmethod
    def open(cls, location: str | Path) -> Archive:
        """Open the latest version of the archive at a local path or URI, or version 3 at ``location@3``.

        Documents and shards are opened on first use.

        Raises:
            ArchiveError: The archive or version is missing, unfinished, or has another layout or schema version.
        """
        asked = Location.of(location)
        folder = Folder.of(asked.place)
        manifest = latest_version(folder) if asked.version is None else read_version(folder, asked.version)
        if manifest is None:
            raise ArchiveError(
                f"{folder.path} has no {VERSIONS}/: there is no archive, or its first index job has not finished. "
                f"Run okralong index {asked.place} --from DIR."
            )
        place = asked.place if "://" in asked.place else folder.path
        return cls(str(Location(place, manifest["version"])), folder, manifest)

    @property
    def granularities(self) -> tuple[int, ...]:
        """The indexed chunk sizes, in tokens."""
        return tuple(self.manifest["granularities"])

    @property
    def n_shards(self) -> int:
        """The number of shards for each chunk size."""
        return int(self.manifest["shards"])

    @property
    def version(self) -> int:
        """The number of the version."""
        return int(self.manifest["version"])

    @property
    def has_vectors(self) -> bool:
        """True if chunks can be found by dense vectors; false with ``embedding.of: none``, which leaves only BM25."""
        return bool(self.manifest["embedding"].get("of") != "none")

    def entries(self) -> dict[str, DocumentEntry]:
        """Return the catalogue entries of the visible documents by doc_id."""
        return active(read_catalogue(self.folder, self.manifest["files"]["catalogue"]))

    @cached_property
    def _documents(self) -> DocumentStore:
        entries = self.entries()
        places = {doc_id: (f"{entry.part}.parquet", entry.n_tokens) for doc_id, entry in sorted(entries.items())}
        return DocumentStore(self.folder, places)

    def doc_ids(self) -> list[str]:
        """Return all doc_ids, sorted."""
        return self._documents.doc_ids()

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return len(self.doc_ids())

    def document(self, doc_id: str) -> Document:
        """Return a document with its text. Raises QuestionError for an unknown doc_id."""
        return self._documents.document(doc_id)

    def tagged_facts(self, doc_id: str) -> list[Fact]:
        """Return what is tagged in XBRL in a document, by its place. Raises QuestionError for an unknown doc_id."""
        return self._documents.tagged_facts(doc_id)

    def document_tokens(self, doc_ids: Iterable[str]) -> list[tuple[str, int]]:
        """Return ``(doc_id, o200k tokens)`` of the given documents (default: all), sorted by doc_id.

        Raises:
            QuestionError: A doc_id is unknown.
        """
        return [(doc_id, self._documents.n_tokens(doc_id)) for doc_id in sorted(doc_ids) or self.doc_ids()]

    def resolve(self, scope: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sorted doc_ids that match a scope's ids and globs; () (the whole archive) is returned as it is.

        An entry that equals a doc_id is not treated as a glob.

        Raises:
            QuestionError: An entry matches no document.
        """
        chosen: set[str] = set()
        for entry in scope:
            if entry in self._documents:
                chosen.add(entry)
                continue
            matching = {doc_id for doc_id in self.doc_ids() if fnmatchcase(doc_id, entry)}
            matching = matching or {doc_id for doc_id in self.doc_ids() if doc_id.startswith(f"{entry.rstrip('/')}/")}
            if not matching:
                raise QuestionError(self._no_such(entry))
            chosen |= matching
        return tuple(sorted(chosen))

    def facts(self) -> dict[str, DocumentFacts]:
        """Return the metadata of each document by doc_id."""
        name = self.manifest["files"].get("metadata")
        if name is not None:
            return read_facts(self.folder, name)
        # Versions written by earlier releases lack the table.
        return {
            each.doc_id: each for each in facts_of_documents(self.folder, self.entries().values(), {}, covers=False)
        }

    @cached_property
    def names(self) -> DocumentNames:
        """The names of the documents."""
        return DocumentNames.of(self.facts().values())

    @cached_property
    def _foreign(self) -> dict[str, str]:
        """The languages of the documents whose terms are not English."""
        if set(self.manifest.get("languages", ())) <= {ENGLISH}:
            return {}
        found = {doc_id: facts.terms_language for doc_id, facts in self.facts().items()}
        return {doc_id: language for doc_id, language in found.items() if language != ENGLISH}

    def languages_of(self, doc_ids: Iterable[str]) -> frozenset[str]:
        """Return the languages of the terms of some documents, or of the whole archive if there are none."""
        if not self._foreign:
            return _ENGLISH
        wanted = tuple(doc_ids)
        if not wanted:
            return frozenset(self.manifest["languages"])
        return frozenset(self._foreign.get(doc_id, ENGLISH) for doc_id in wanted)

    @cached_property
    def _metadata(self) -> pa.Table:
        return metadata_table(self.facts().values())

    def metadata(self) -> pa.Table:
        """Return the documents' metadata as a table, as ``metadata_table`` describes it."""
        return self._metadata

    def contents(self, *, text: bool = False) -> pa.Table:
        """Return a table of the documents, sorted by doc_id.

        Its columns are title, date, language, tokens (o200k_base), the keys of ``metadata``, the source, the hash of id
        and text, and with ``text`` the text.
        """
        known, entries = self.metadata(), self.entries()
        doc_ids = known["doc_id"].to_pylist()
        columns = {name: known[name] for name in ("doc_id", "title", "date", LANGUAGE) if name in known.column_names}
        columns["tokens"] = pa.array([entries[doc_id].n_tokens for doc_id in doc_ids], pa.int64())
        columns |= {name: known[name] for name in (NOT_READ,) if name in known.column_names}
        columns |= {name: known[name] for name in known.column_names if name not in (*columns, *FIXED_COLUMNS)}
        columns["source_uri"] = known["source_uri"]
        columns["sha256"] = pa.array([entries[doc_id].sha256 for doc_id in doc_ids], pa.string())
        if text:
            columns["text"] = pa.array([self.document(doc_id).text for doc_id in doc_ids], pa.large_string())
        return pa.table(columns)

    def failures(self) -> list[str]:
        """Return the failure messages of documents, sorted by doc_id."""
        return [row["message"] for row in self.failure_rows() if row["error_type"] != READ_IN_PART]

    def read_in_part(self) -> list[str]:
        """Return a message for each document that was read in part, sorted by doc_id."""
        return [row["message"] for row in self.failure_rows() if row["error_type"] == READ_IN_PART]

    def failure_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table ``failures``: failures and warnings."""
        return read_failures(self.folder, self.manifest["files"]["failures"])

    def _no_such(self, entry: str) -> str:
        near = difflib.get_close_matches(entry, self.doc_ids(), n=3, cutoff=0.4)
        hint = f"The nearest ids are {', '.join(map(repr, near))}." if near else "No id in the archive is similar."
        return f"The scope {entry!r} matches no document. {hint} Change the question's doc_ids."

    def shard(self, granularity: int, number: int) -> Shard:
        """Return a shard, opened on first use. Raises ArchiveError for an unknown granularity or number."""
        if granularity not in self.granularities or not 0 <= number < self.n_shards:
            raise ArchiveError(
                f"{self.folder.path} has no shard {number} at granularity {granularity}; it has {self.n_shards} shards "
                f"at {', '.join(map(str, self.granularities))} tokens. Add the granularity to the index config and "
                "run okralong index again."
            )
        key = (granularity, number)
        if key not in self._shards:
            folder = self._shard_folder(granularity, number)
            opened = Shard.open(folder)
            if self.manifest["embedding"].get("of") == "smallest" and granularity != min(self.granularities):
                try:
                    opened = opened.over(self.shard(min(self.granularities), number))
                except ValueError as error:
                    raise ArchiveError(
                        f"The index shard {folder.path} cannot be used: {error}. Run okralong index again."
                    ) from error
            self._shards[key] = replace(opened, compressed=self._compressed(granularity, number))
        return self._shards[key]

    def _compressed(self, granularity: int, number: int) -> CompressedRows | None:
        held = self.manifest.get("compressor")
        if held is None or held["granularity"] != granularity:
            return None
        folder = table_folders(self.folder, self.manifest)[number]
        return CompressedRows.of(folder, held)

    def _shard_folder(self, granularity: int, number: int) -> Folder:
        name = self.manifest["files"]["index"][str(granularity)][number]
        return granularity_folder(self.folder, granularity).at(name)

    def clients(self, granularity: int) -> list[LocalShard]:
        """Return clients, for ``search``, of all shards of a chunk size, opened in this process."""
        return [LocalShard(self.shard(granularity, number)) for number in range(self.n_shards)]


@dataclass
class DocumentStore:
    """The documents of a version: the file and length (in o200k tokens) of each doc_id. Texts are read on demand.

    Thread-safe.
    """

    archive: Folder
    _places: Mapping[str, tuple[str, int]]
    _cache: OrderedDict[str, Document] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def doc_ids(self) -> list[str]:
        """Return all doc_ids, sorted."""
        return list(self._places)

    def __contains__(self, doc_id: str) -> bool:
        return doc_id in self._places

    def n_tokens(self, doc_id: str) -> int:
        """Return the length of a document in o200k tokens. Raises QuestionError for an unknown doc_id."""
        return self._place(doc_id)[1]

    def document(self, doc_id: str) -> Document:
        """Return a document with its text. Raises QuestionError for an unknown doc_id."""
        with self._lock:
            if doc_id in self._cache:
                self._cache.move_to_end(doc_id)
                return self._cache[doc_id]
        name = self._place(doc_id)[0]
        document = _document(self._read(doc_id, name, _WITHOUT_FACTS), read_document_tables(self.archive, name, doc_id))
        with self._lock:
            self._cache[doc_id] = document
            while len(self._cache) > CACHED_DOCUMENTS:
                self._cache.popitem(last=False)
        return document

    def tagged_facts(self, doc_id: str) -> list[Fact]:
        """Return what is tagged in XBRL in a document, by its place. Raises QuestionError for an unknown doc_id."""
        row = self._read(doc_id, self._place(doc_id)[0], ["doc_id", "facts"])
        return [Fact(**fact | {"dimensions": tuple(fact["dimensions"])}) for fact in row.get("facts") or ()]

    def _place(self, doc_id: str) -> tuple[str, int]:
        if doc_id not in self._places:
            raise QuestionError(
                f"The archive {self.archive.path} has no document {doc_id!r}. Check the doc_ids of the question."
            )
        return self._places[doc_id]

    def _read(self, doc_id: str, name: str, columns: list[str]) -> dict[str, Any]:
        # Read the ids first and then texts in batches, so that few documents are in memory even if many share a file.
        with self.archive.at("documents").parquet(name) as parquet:
            for group in range(parquet.num_row_groups):
                left = pc.index(parquet.read_row_group(group, ["doc_id"])["doc_id"], doc_id).as_py()
                if left < 0:
                    continue
                for batch in parquet.iter_batches(_ROWS_AT_A_TIME, row_groups=[group], columns=columns):
                    if left < len(batch):
                        return dict(batch.slice(left, 1).to_pylist()[0])
                    left -= len(batch)
        raise ArchiveError(
            f"{self.archive.at('documents', name).path} has changed since the archive was opened. Open the archive "
            "again."
        )


_WITHOUT_FACTS: Final = [name for name in DOCUMENTS.names if name != "facts"]


def _document(row: dict[str, Any], tables: tuple[Table, ...] | None) -> Document:
    return Document(
        doc_id=row["doc_id"],
        text=row["text"],
        title=row["title"] or "",
        source_uri=row["source_uri"] or "",
        sha256=row["sha256"] or "",
        n_tokens=row["n_tokens"],
        table_spans=tuple(TableSpan(**span) for span in row["tables"] or ()),
        metadata=dict(row["metadata"] or ()),
        sections=tuple(Section(**section) for section in row.get("sections") or ()),
        tables=tables,
        language=row.get("language") or "",
    )
