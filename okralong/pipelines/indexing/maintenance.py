"""Delete what no version needs: old versions, files that only they used, and leftovers of killed jobs."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from okralong.pipelines.archive.artifacts import ARTIFACTS, artifacts_of
from okralong.pipelines.archive.failures import FAILURES_FOLDER
from okralong.pipelines.archive.files import COMPRESSED, granularity_folder, table_folders
from okralong.pipelines.archive.metadata import METADATA_FOLDER
from okralong.pipelines.archive.tables import TABLES_FOLDER
from okralong.pipelines.archive.vectors import VECTORS, Keys, TextIndex, VectorStore, drop_unused_vectors
from okralong.pipelines.archive.versions import (
    CATALOGUES,
    KNOWN_SOURCES,
    VERSIONS,
    DocumentEntry,
    KnownSource,
    active,
    digest,
    drop_version,
    latest_version,
    purged_from,
    read_catalogue,
    read_sources,
    read_version,
    replace_version,
    resolve_duplicates,
    version_numbers,
)
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing.config import config_of, embedded_sizes
from okralong.pipelines.indexing.ingest import (
    CHUNKS_FOLDER,
    OUTCOMES_FOLDER,
    chunks_folder,
    failures_of,
    keys_file,
    part_file,
    purged_message,
    read_keys,
    write_keys,
)
from okralong.pipelines.indexing.version_builder import WORK, Built, VersionBuilder, carry_without
from okralong.pipelines.models.weights import ResolvedModel

_FOLDERS: Final = (
    OUTCOMES_FOLDER,
    CATALOGUES,
    KNOWN_SOURCES,
    METADATA_FOLDER,
    FAILURES_FOLDER,
    "index",
    COMPRESSED,
    CHUNKS_FOLDER,
    "documents",
    TABLES_FOLDER,
    ARTIFACTS,
    WORK,
)
"""The folders in which files that no kept version names are deleted. A part's completion marker is always deleted, and
first: versions do not need it, and the part may lose a piece."""
_OURS: Final = re.compile(
    r"(.*/)?([0-9a-f]{16}(-\d{2,})?(\.keys\.npy|\.parquet)?|shard-\d{5}[^/]*/[^/]*|\.[^/]*\.partial)"
)
"""File names that okralong creates; files with other names in these folders are kept."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The deleted versions, files and bytes; with a dry run, those that would be deleted."""

    kept: tuple[int, ...]
    versions: tuple[int, ...]
    files: int
    bytes: int


def vacuum(archive: Folder, keep: int, *, dry_run: bool = False, every_row: bool = False) -> Vacuumed:
    """Keep the newest ``keep`` versions and the files that they need. The caller holds the archive's lock.

    With ``every_row``, vectors of texts in no kept version are deleted even from files that hold others. No-op for an
    archive without versions. A run that reads a deleted version will fail.
    """
    numbers = version_numbers(archive)
    kept, old = numbers[-keep:], numbers[:-keep]
    if not kept:
        return Vacuumed((), (), 0, 0)
    manifests = [read_version(archive, number) for number in kept]
    removal = _Removal(archive, dry_run)
    # Manifests first, so that no process begins to read a version that is being deleted.
    removal.take(archive.at(VERSIONS, f"{number:06d}.json").path for number in old)
    needed = {path for manifest in manifests for path in _named(archive, manifest)}
    parts = {part for manifest in manifests for part in manifest["files"]["parts"]}
    of_parts = {folder.path for manifest in manifests for folder in _chunk_folders(archive, manifest)}
    of_parts |= {archive.at(folder).path for folder in ("documents", TABLES_FOLDER)}
    for folder in _FOLDERS:
        for path in filter(_OURS.fullmatch, _files(archive.at(folder))):
            place, name = path.rsplit("/", 1)
            by_part = place in of_parts and name.split(".")[0] in parts
            if not (by_part or _within(path, needed)):
                removal.take([path])
    _vacuum_vectors(archive, manifests, removal, every_row)
    if archive.is_local and not dry_run:
        _remove_empty_folders(archive)
    return Vacuumed(tuple(kept), tuple(old), removal.files, removal.bytes)


class _Removal:
    """Deletes files, or only counts them in a dry run."""

    def __init__(self, archive: Folder, dry_run: bool) -> None:
        self._filesystem, self.dry_run = archive.filesystem, dry_run
        self.files = self.bytes = 0

    def take(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self.files += 1
            self.bytes += self._filesystem.get_file_info(path).size or 0
            if not self.dry_run:
                self._filesystem.delete_file(path)


def _named(archive: Folder, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files and folders that a version names, except parts and vectors."""
    files = manifest["files"]
    for name in files["catalogue"]:
        yield archive.at(CATALOGUES, name).path
    yield archive.at(KNOWN_SOURCES, files["sources"]).path
    yield archive.at(FAILURES_FOLDER, files["failures"]).path
    if "metadata" in files:
        yield archive.at(METADATA_FOLDER, files["metadata"]).path
    for size, names in files["index"].items():
        for name in names:
            yield granularity_folder(archive, int(size)).at(name).path
    for folder in table_folders(archive, manifest):
        yield folder.path
    if archive.exists(ARTIFACTS):
        for entry in read_catalogue(archive, files["catalogue"]):
            yield artifacts_of(archive, entry.sha256).path


def _chunk_folders(archive: Folder, manifest: Mapping[str, Any]) -> Iterator[Folder]:
    """Yield the folders of the chunks of a version."""
    for size in manifest["granularities"]:
        yield chunks_folder(archive, size, manifest["config"]["boundaries"])


def _within(path: str, needed: set[str]) -> bool:
    return path in needed or path.rsplit("/", 1)[0] in needed


def _files(folder: Folder) -> list[str]:
    selector = fs.FileSelector(folder.path, recursive=True, allow_not_found=True)
    return sorted(info.path for info in folder.filesystem.get_file_info(selector) if info.type == fs.FileType.File)


def _remove_empty_folders(archive: Folder) -> None:
    for folder in (*_FOLDERS, VECTORS):
        for path, _, _ in os.walk(archive.at(folder).path, topdown=False):
            if not os.listdir(path):
                os.rmdir(path)


def _vacuum_vectors(
    archive: Folder, manifests: Sequence[Mapping[str, Any]], removal: _Removal, every_row: bool
) -> None:
    used = {manifest["files"]["encoder"]: manifest["config"]["embedding"]["dtype"] for manifest in manifests}
    for name in archive.at(VECTORS).names():
        encoder = name.removeprefix("encoder=")
        store = VectorStore.of(archive, encoder, used.get(encoder, "float32"))
        if encoder not in used:
            removal.take(_files(store.folder))
            continue
        mine = [manifest for manifest in manifests if manifest["files"]["encoder"] == encoder]
        sizes = {path: store.folder.filesystem.get_file_info(path).size for path in _files(store.folder)}
        removal.take(path for path in sizes if path.endswith(".partial"))
        for gone in drop_unused_vectors(store, _used(archive, mine), every_row=every_row, dry_run=removal.dry_run):
            removal.files += 1
            removal.bytes += sizes.get(store.folder.at(gone).path, 0)


def _used(archive: Folder, manifests: Sequence[Mapping[str, Any]]) -> Iterator[Keys]:
    for manifest in manifests:
        for size in embedded_sizes(manifest):
            folder = chunks_folder(archive, size, manifest["config"]["boundaries"])
            there = set(folder.names(".npy"))
            for part in manifest["files"]["parts"]:
                if keys_file(part) in there:
                    yield read_keys(folder, part)


# Purge a document: no remaining file holds its text, chunks or vectors. Other documents stay, also in earlier versions,
# which keep their numbers.


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """A description of a purge before it happens.

    ``versions`` show the document, or use a part that still holds it. Those in ``alone`` show nothing else and are
    deleted. ``origins`` are the places that it was read from, ``tokens`` its o200k length in the newest version that
    shows it.
    """

    doc_id: str
    versions: tuple[int, ...]
    alone: tuple[int, ...]
    origins: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Purged:
    """The result: the newest ``version``, earlier ones ``rewritten`` without the document, and those ``dropped``."""

    version: int
    rewritten: tuple[int, ...]
    dropped: tuple[int, ...]
    vacuumed: Vacuumed


def plan_purge(archive: Folder, doc_id: str) -> PurgePlan:
    """Return what ``purge`` would delete, without changing anything.

    Raises:
        ArchiveError: The archive has no versions.
        InputError: No version has the document, or it is the only one of the latest version.
    """
    return _plan(archive, doc_id, {})


def _plan(archive: Folder, doc_id: str, holds: dict[str, bool]) -> PurgePlan:
    parent = latest_version(archive)
    if parent is None:
        raise ArchiveError(
            f"{archive.path} has no versions yet, so nothing can be purged from it. Run okralong index on it once."
        )
    found, alone, origins, tokens = [], [], dict[str, None](), 0
    for number in version_numbers(archive):
        version = _Version.of(archive, number, doc_id, holds)
        if version.is_touched:
            found.append(version.number)
            origins |= dict.fromkeys(entry.origin for entry in version.mine)
            tokens = max((entry.n_tokens for entry in version.mine if not entry.shadowed), default=tokens)
            if version.is_alone:
                alone.append(version.number)
    if not found and doc_id not in parent["purged"]:
        raise InputError(
            f"No version of {archive.path} has a document {doc_id!r}. okralong archive purge takes a doc_id as in "
            "citations and okralong archive diff; nothing was purged."
        )
    if parent["version"] in alone:
        raise InputError(
            f"{doc_id!r} is the only document of {archive.path}. To remove it, delete the folder of the archive."
        )
    return PurgePlan(doc_id, tuple(found), tuple(alone), tuple(origins), tokens)


def purge(archive: Folder, doc_id: str, *, by: str | None = None) -> Purged:
    """Publish a version without the document, remove it from every earlier version, and delete all files with its text.

    Later jobs do not add it again. ``purges`` records the id, the time, and ``by`` whom (default: this user and
    machine). The caller holds the archive's lock. After a killed purge, the same call finishes it. Raises as
    ``plan_purge``.
    """
    holds: dict[str, bool] = {}
    plan = _plan(archive, doc_id, holds)
    numbers = version_numbers(archive)
    latest = _Version.of(archive, numbers[-1], doc_id, holds)
    # A new version first, so that no process begins to read one that is being purged.
    if latest.is_touched or doc_id not in latest.manifest["purged"]:
        latest.publish_without()
    dropped, rewritten = [], []
    for number in plan.versions:
        version = _Version.of(archive, number, doc_id, holds)
        if version.is_alone:
            drop_version(archive, number)
            dropped.append(number)
        else:
            version.replace_without()
            rewritten.append(number)
    held = version_numbers(archive)
    purged = Purged(held[-1], tuple(rewritten), tuple(dropped), vacuum(archive, len(held), every_row=True))
    if plan.versions or held != numbers or purged.vacuumed.files:
        _log_purge(archive, doc_id, purged, by)
    return purged


PURGES: Final = "purges"
"""The folder of an archive with a file per purge: when, by whom and which id, but no content of the document."""


def _log_purge(archive: Folder, doc_id: str, purged: Purged, by: str | None) -> None:
    now = datetime.now(UTC)
    said = {
        "at": now.isoformat(timespec="seconds"),
        "by": by or _whoever(),
        "doc_id": doc_id,
        "version": purged.version,
        "rewritten": purged.rewritten,
        "dropped": purged.dropped,
    }
    name = f"{now:%Y%m%dT%H%M%S%f}-{digest(doc_id)}.json"
    archive.at(PURGES).write_bytes(name, json.dumps(said, indent=1, ensure_ascii=False).encode())


def _whoever() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = str(os.getuid())
    return f"{user}@{platform.node()}"


def purges(archive: Folder) -> list[dict[str, Any]]:
    """Return the log of purges, oldest first: ``at``, ``by``, ``doc_id``, ``version``, ``rewritten``, ``dropped``."""
    folder = archive.at(PURGES)
    return [folder.read_json(name) for name in sorted(folder.names(".json"))]


@dataclass(frozen=True, slots=True)
class _Version:
    """A version from which a document is removed.

    ``mine`` are the document's entries, ``held`` the parts with one of its rows, including outdated rows that no
    version shows.
    """

    archive: Folder
    doc_id: str
    manifest: Mapping[str, Any]
    before: Sequence[DocumentEntry]
    mine: Sequence[DocumentEntry]
    held: Sequence[str]

    @classmethod
    def of(cls, archive: Folder, number: int, doc_id: str, holds: dict[str, bool]) -> _Version:
        """Read a version; ``holds`` caches for each part whether it has the document, because versions share parts."""
        manifest = read_version(archive, number)
        before = list(read_catalogue(archive, manifest["files"]["catalogue"]))
        parts = manifest["files"]["parts"]
        for part in (part for part in parts if part not in holds):
            ids = archive.at("documents").read_table(part_file(part), ["doc_id"])["doc_id"]
            holds[part] = pc.index(ids, doc_id).as_py() >= 0
        held = [part for part in parts if holds[part]]
        return cls(archive, doc_id, manifest, before, [entry for entry in before if entry.doc_id == doc_id], held)

    @property
    def number(self) -> int:
        return int(self.manifest["version"])

    @property
    def is_touched(self) -> bool:
        return bool(self.mine or self.held)

    @property
    def is_alone(self) -> bool:
        return len(self.mine) == len(self.before)

    def publish_without(self) -> None:
        """Publish the next version, without the document."""
        build = self._build()
        shards = build.build_shards(TextIndex.open(build.store))
        written = sum(shard.built for built in shards.values() for shard in built)
        work = {"seconds": {}, "work": {"shards_written": written}, "work_seconds": {}}
        build.publish(shards, *self._tables(build), self._about(shards) | work, always=True)

    def replace_without(self) -> None:
        """Replace this version with one without the document."""
        build = self._build()
        shards = build.build_shards(TextIndex.open(build.store))
        fresh = build.manifest(shards, *self._tables(build), self._about(shards))
        same = ("version", "parent", "written_at", "changes", "seconds", "work", "work_seconds", "versions")
        shown = {self.doc_id} if any(not entry.shadowed for entry in self.mine) else set()
        fresh |= {key: self.manifest[key] for key in same if key in self.manifest}
        fresh["purged_from"] = sorted(purged_from(self.manifest) | shown)
        fresh["fingerprints_before"] = [*self.manifest.get("fingerprints_before", ()), self.manifest["fingerprint"]]
        replace_version(self.archive, fresh)

    def _build(self) -> VersionBuilder:
        manifest = self.manifest
        config = config_of(manifest)
        model = ResolvedModel("", manifest["embedding"]["name"], manifest["embedding"]["sha256"])
        before, shards = active(self.before), int(manifest["shards"])
        return VersionBuilder(self.archive, config, model, self._others(), manifest, before, shards=shards)

    def _others(self) -> list[DocumentEntry]:
        """Return the other documents, after rewriting their parts without this one."""
        kept = [entry for entry in self.before if entry.doc_id != self.doc_id]
        needed = {entry.part for entry in kept}
        renamed = {part: f"{digest((part, self.doc_id))}-00" for part in self.held}
        for part, target in renamed.items():
            if part not in needed:
                continue
            for folder in (self.archive.at(TABLES_FOLDER), self.archive.at("documents")):
                if folder.exists(part_file(part)):  # parts of earlier archives have no tables
                    _filter(folder, part, target, self.doc_id)
            for size in self.manifest["granularities"]:
                folder = chunks_folder(self.archive, size, self.manifest["config"]["boundaries"])
                if folder.exists(keys_file(part)):  # parts of shadowed documents may lack a later size
                    texts = _filter(folder, part, target, self.doc_id)["text"]
                    write_keys(folder, target, texts.to_pylist())
        return resolve_duplicates(replace(entry, part=renamed.get(entry.part, entry.part)) for entry in kept)

    def _tables(self, build: VersionBuilder) -> tuple[list[KnownSource], list[tuple[str, str]]]:
        """Return sources and failures; a source with the document gets the failure that it was purged."""
        origins = {entry.source_uri: entry.origin for entry in self.mine}
        sources = [
            replace(source, failed=(*source.failed, (self.doc_id, purged_message(self.doc_id, origins[source.uri]))))
            if source.uri in origins
            else source
            for source in read_sources(self.archive, self.manifest["files"]["sources"]).values()
        ]
        refused = [(row[0], row[1]) for row in self.manifest["refused"]]
        return sources, failures_of(build.entries, sources, refused)

    def _about(self, shards: Built) -> dict[str, Any]:
        kept = ("embedding", "limits", "listed_at_ns", "refused", "config", "metadata")
        return {
            **{key: self.manifest[key] for key in kept if key in self.manifest},
            **carry_without(self.archive, self.manifest, shards, self.doc_id),
            "purged": sorted({*self.manifest["purged"], self.doc_id}),
            "purged_at": datetime.now(UTC).isoformat(timespec="seconds"),
        }


def _filter(folder: Folder, part: str, target: str, doc_id: str) -> pa.Table:
    table = folder.read_table(part_file(part))
    table = table.filter(pc.not_equal(table["doc_id"], doc_id))
    folder.write_table(part_file(target), table)
    return table
