"""The versions of an archive: manifests ``versions/000001.json`` and so on, each listing the version's files.

Files are immutable and named after their content, so versions share unchanged files. A manifest is written under a new
name when all of its files exist, and never changes, so a reader of one version is not affected by later ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.core.schemas import CATALOGUE, SCHEMA_VERSION, SOURCES
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import ArchiveError, LockedError

VERSIONS: Final = "versions"
CATALOGUES: Final = "catalogue"
KNOWN_SOURCES: Final = "sources"
LAYOUT: Final = 2
"""The number of this layout of files. Layout 1 (one ``manifest.json``, folders that were replaced) was never
released."""
_NAME: Final = re.compile(r"(\d{6})\.json")
_PINNED: Final = re.compile(r"(.+)@(\d{1,6})")
_NEEDED: Final = ("granularities", "embedding", "shards", "files")


@dataclass(frozen=True, slots=True)
class Location:
    """The place of an archive, and the number of a version (None for the latest)."""

    place: str
    version: int | None = None

    @classmethod
    def of(cls, text: str | Path) -> Location:
        """Parse ``archive`` or ``archive@3``. If a folder is really called ``archive@3``, that folder is meant."""
        found = _PINNED.fullmatch(str(text))
        if found is None or Folder.of(text).is_there:
            return cls(str(text))
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return self.place if self.version is None else f"{self.place}@{self.version}"


def version_numbers(archive: Folder) -> list[int]:
    """Return the numbers of the existing versions, ascending."""
    found = (_NAME.fullmatch(name) for name in archive.at(VERSIONS).names(".json"))
    return [int(match[1]) for match in found if match]


def read_version(archive: Folder, number: int) -> dict[str, Any]:
    """Return the manifest of a version. Raises ArchiveError if it is missing, damaged or written by another release."""
    name = f"{number:06d}.json"
    try:
        manifest = dict(json.loads(archive.at(VERSIONS).read_bytes(name)))
    except FileNotFoundError:
        held = ", ".join(map(str, version_numbers(archive))) or "none"
        raise ArchiveError(
            f"{archive.path} has no version {number}; it has {held}. It was vacuumed or purged, or never existed. "
            "okralong archive log lists the versions that can be read."
        ) from None
    except ValueError as error:
        raise ArchiveError(
            f"{archive.at(VERSIONS, name).path} is not valid JSON: {error}. Delete that file: the version before it "
            "is then the latest, and okralong index rebuilds the missing one."
        ) from error
    missing = [key for key in _NEEDED if key not in manifest]
    if manifest.get("schema_version") != SCHEMA_VERSION or manifest.get("layout") != LAYOUT or missing:
        has = f"schema version {manifest.get('schema_version')} and layout {manifest.get('layout')}"
        why = f"lacks {', '.join(missing)}" if missing else f"has {has}, not {SCHEMA_VERSION} and {LAYOUT}"
        raise ArchiveError(
            f"{archive.at(VERSIONS, name).path} {why}, so this okralong cannot read it. Use the release that wrote it, "
            "or index into a new folder."
        )
    return manifest


def latest_version(archive: Folder) -> dict[str, Any] | None:
    """Return the manifest of the latest version, or None if there is none. Raises ArchiveError."""
    numbers = version_numbers(archive)
    if not numbers and archive.exists(MANIFEST):
        raise ArchiveError(
            f"{archive.path} has a {MANIFEST} and no {VERSIONS}/: it is of a layout from before the first release, "
            "which is no longer supported. Run okralong index into a new folder."
        )
    return read_version(archive, numbers[-1]) if numbers else None


def publish(archive: Folder, manifest: dict[str, Any]) -> None:
    """Write the manifest of version ``manifest["version"]``, which makes the version visible to readers.

    The caller holds the archive's lock. Raises LockedError if another process has published this version.
    """
    name = f"{manifest['version']:06d}.json"
    data = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False).encode()
    try:
        archive.at(VERSIONS).create_bytes(name, data)
    except FileExistsError as error:
        raise LockedError(
            f"{archive.at(VERSIONS, name).path} was published by another process while this one worked, although an "
            "archive has one writer at a time. Check which other process writes to this archive, then run the same "
            "command again."
        ) from error


def replace_version(archive: Folder, manifest: Mapping[str, Any]) -> None:
    """Replace the manifest of an existing version, which only a purge may do. The caller holds the archive's lock."""
    data = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False).encode()
    archive.at(VERSIONS).write_bytes(f"{manifest['version']:06d}.json", data)


def drop_version(archive: Folder, number: int) -> None:
    """Remove a version's manifest; ``vacuum`` later deletes the files that only this version needed."""
    archive.at(VERSIONS).remove(f"{number:06d}.json")


# The catalogue: the documents of a version, in one file per shard, which is named after its content.


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document's entry in the catalogue.

    ``part`` is the name of the archive's files that have the document, ``origin`` describes for people where it is
    from, and ``sha256`` is the hash of its id and text. A ``shadowed`` document is hidden by another with the same id.
    """

    doc_id: str
    sha256: str
    n_tokens: int
    part: str
    origin: str
    source_uri: str
    source_name: str
    shadowed: bool = False


def resolve_duplicates(entries: Iterable[DocumentEntry]) -> list[DocumentEntry]:
    """Return the entries sorted by doc_id. Of several with one id, all but the first source file's are shadowed."""
    ordered = sorted(entries, key=lambda entry: (entry.doc_id, entry.source_name, entry.source_uri))
    resolved: list[DocumentEntry] = []
    for entry in ordered:
        shadowed = bool(resolved) and resolved[-1].doc_id == entry.doc_id
        resolved.append(entry if entry.shadowed == shadowed else replace(entry, shadowed=shadowed))
    return resolved


def active(resolved: Iterable[DocumentEntry]) -> dict[str, DocumentEntry]:
    """Return the documents that are not shadowed, by doc_id."""
    return {entry.doc_id: entry for entry in resolved if not entry.shadowed}


def write_catalogue(archive: Folder, entries: Iterable[DocumentEntry], shards: int) -> list[str]:
    """Write the catalogue files that are missing, and return the names of all, in the order of the shards."""
    parted: list[list[DocumentEntry]] = [[] for _ in range(shards)]
    for entry in entries:
        parted[shard_of(entry.doc_id, shards)].append(entry)
    names = []
    for part in parted:
        part.sort(key=lambda entry: (entry.doc_id, entry.shadowed, entry.source_name, entry.source_uri))
        rows = [asdict(entry) for entry in part]
        names.append(write_once(archive.at(CATALOGUES), rows, rows, CATALOGUE))
    return names


def read_catalogue(archive: Folder, names: Sequence[str]) -> Iterator[DocumentEntry]:
    """Yield the entries of some catalogue files; one file at a time is in memory."""
    folder = archive.at(CATALOGUES)
    for name in names:
        with folder.parquet(name) as file:
            for batch in file.iter_batches(1024):
                for row in batch.to_pylist():
                    yield DocumentEntry(**row)


def write_once(folder: Folder, content: object, rows: list[dict[str, Any]], schema: pa.Schema) -> str:
    """Write a table named after the hash of ``content`` unless it exists; return its file name."""
    name = f"{digest(content)}.parquet"
    if not folder.exists(name):
        folder.write_table(name, pa.Table.from_pylist(rows, schema=schema))
    return name


def digest(content: object) -> str:
    """Return a hash of a JSON value, 16 hex digits, for file names."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


# Differences between two versions, and the source files of a version.


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """The sorted doc_ids that are only in the new version, in both but changed, or only in the old version."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        """True if both versions show the same documents."""
        return not (self.added or self.changed or self.removed)


def diff_versions(archive: Folder, old: Mapping[str, Any], new: Mapping[str, Any]) -> VersionDiff:
    """Compare the documents of two versions, given by their manifests.

    A document that was purged from the old version after its publication counts as removed, so that ``okralong
    nightly`` asks the questions again whose answers use it.
    """
    names = [manifest["files"]["catalogue"] for manifest in (old, new)]
    # Each document is in the file of its shard, so a file that both versions share has no changes.
    shared = set(names[0]) & set(names[1]) if len(names[0]) == len(names[1]) else set()
    before, after = (
        {
            entry.doc_id: entry.sha256
            for entry in read_catalogue(archive, [name for name in files if name not in shared])
            if not entry.shadowed
        }
        for files in names
    )
    return VersionDiff(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(doc_id for doc_id in after.keys() & before.keys() if after[doc_id] != before[doc_id])),
        tuple(sorted((before.keys() | purged_from(old)) - after.keys() - purged_from(new))),
    )


def purged_from(manifest: Mapping[str, Any]) -> set[str]:
    """Return the documents that a purge has removed from a version since its publication."""
    return set(manifest.get("purged_from", ()))


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source file as it was read.

    ``size`` is in bytes. ``failed`` has (doc_id, message) of the documents that could not be read. ``reader`` is the
    version of the parser ("" for the first).
    """

    uri: str
    name: str
    sha256: str
    size: int
    mtime_ns: int
    failed: tuple[tuple[str, str], ...] = ()
    reader: str = ""


def write_sources(archive: Folder, sources: Iterable[KnownSource]) -> str:
    """Write the table unless it exists; return its file name."""
    rows = [
        asdict(source) | {"failed": [{"doc_id": doc_id, "message": why} for doc_id, why in source.failed]}
        for source in sorted(sources, key=lambda source: source.uri)
    ]
    return write_once(archive.at(KNOWN_SOURCES), rows, rows, SOURCES)


def read_sources(archive: Folder, name: str, only: Container[str] | None = None) -> dict[str, KnownSource]:
    """Return the sources of a version by uri; with ``only``, just those with these uris."""
    folder = archive.at(KNOWN_SOURCES)
    with folder.parquet(name) as file:
        return {
            row["uri"]: KnownSource(
                failed=tuple((each["doc_id"], each["message"]) for each in row.pop("failed")),
                reader=row.pop("reader", None) or "",
                **row,
            )
            for batch in file.iter_batches(1024)
            for row in batch.to_pylist()
            if only is None or row["uri"] in only
        }
