"""Taking away what no version needs: old versions, what they alone held, and what killed jobs left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from okralong.pipelines.archive.files import COMPRESSED, granularity_folder, table_folders
from okralong.pipelines.archive.metadata import METADATA_FOLDER
from okralong.pipelines.archive.vectors import VECTORS, Keys, TextIndex, VectorStore, drop_unused_vectors
from okralong.pipelines.archive.versions import (
    CATALOGUES,
    KNOWN_SOURCES,
    VERSIONS,
    DocumentEntry,
    active,
    digest,
    latest_version,
    read_catalogue,
    read_sources,
    read_version,
    resolve_duplicates,
    version_numbers,
)
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing.build import WORK, VersionBuild, carry_without
from okralong.pipelines.indexing.config import IndexConfig
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
from okralong.pipelines.models.weights import ResolvedModel

_FOLDERS: Final = (
    OUTCOMES_FOLDER,
    CATALOGUES,
    KNOWN_SOURCES,
    METADATA_FOLDER,
    "failures",
    "index",
    COMPRESSED,
    CHUNKS_FOLDER,
    "documents",
    WORK,
)
"""The folders of an archive in which a file goes that no kept version names. A part's word that it is complete always
goes, and goes first: a version needs it not, and the part may lose a piece."""
_OURS: Final = re.compile(
    r"(.*/)?([0-9a-f]{16}(-\d{2,})?(\.keys\.npy|\.parquet)?|shard-\d{5}[^/]*/[^/]*|\.[^/]*\.partial)"
)
"""The forms of the names that okralong gives; a file of another stands in one of these folders by chance, and stays."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What was, or with a dry run would be, taken away: versions, files, and their bytes."""

    kept: tuple[int, ...]
    versions: tuple[int, ...]
    files: int
    bytes: int


def vacuum(archive: Folder, keep: int, *, dry_run: bool = False, every_row: bool = False) -> Vacuumed:
    """Keep the newest ``keep`` versions and what they need. The caller holds the archive's lock.

    ``every_row``: vectors of texts that are in no kept version go as well where their file has others. Where no version
    was published nothing is done. A run that reads a version that goes will find it gone.
    """
    numbers = version_numbers(archive)
    kept, old = numbers[-keep:], numbers[:-keep]
    if not kept:
        return Vacuumed((), (), 0, 0)
    manifests = [read_version(archive, number) for number in kept]
    removal = _Removal(archive, dry_run)
    # First the manifests, so that nobody begins to read what is on its way out.
    removal.take(archive.at(VERSIONS, f"{number:06d}.json").path for number in old)
    needed = {path for manifest in manifests for path in _named(archive, manifest)}
    parts = {part for manifest in manifests for part in manifest["files"]["parts"]}
    for folder in _FOLDERS:
        for path in filter(_OURS.fullmatch, _files(archive.at(folder))):
            by_part = folder in (CHUNKS_FOLDER, "documents") and path.rsplit("/", 1)[1].split(".")[0] in parts
            if not (by_part or _within(path, needed)):
                removal.take([path])
    _vacuum_vectors(archive, manifests, removal, every_row)
    if archive.is_local and not dry_run:
        _remove_empty_folders(archive)
    return Vacuumed(tuple(kept), tuple(old), removal.files, removal.bytes)


class _Removal:
    """Deletes files, or with a dry run only counts them."""

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
    """The files and folders that a version names, but for those of its parts and vectors."""
    files = manifest["files"]
    for name in files["catalogue"]:
        yield archive.at(CATALOGUES, name).path
    yield archive.at(KNOWN_SOURCES, files["sources"]).path
    yield archive.at("failures", files["failures"]).path
    if "metadata" in files:
        yield archive.at(METADATA_FOLDER, files["metadata"]).path
    for size, names in files["index"].items():
        for name in names:
            yield granularity_folder(archive, int(size)).at(name).path
    for folder in table_folders(archive, manifest):
        yield folder.path


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
        for size in manifest["granularities"]:
            folder = chunks_folder(archive, size, manifest["config"]["boundaries"])
            there = set(folder.names(".npy"))
            for part in manifest["files"]["parts"]:
                if keys_file(part) in there:
                    yield read_keys(folder, part)


# Taking a document out of an archive for good: no file that stays holds its text, chunks, or vectors of its own.


@dataclass(frozen=True, slots=True)
class Purged:
    """``version`` is the new one, which alone is left."""

    version: int
    vacuumed: Vacuumed


def purge(archive: Folder, doc_id: str) -> Purged:
    """Publish a version without the document, and take every earlier version and what only they held away.

    The document stays out, whatever later jobs find. The caller holds the archive's lock. A purge that was killed is
    finished by the same call. Raises ArchiveError where no version was published, InputError when no version has the
    document.
    """
    parent = latest_version(archive)
    if parent is None:
        raise ArchiveError(
            f"{archive.path} has no versions yet, so nothing can be purged from it. Run okralong index on it once."
        )
    before = list(read_catalogue(archive, parent["files"]["catalogue"]))
    mine = [entry for entry in before if entry.doc_id == doc_id]
    held = _holding(archive, parent["files"]["parts"], doc_id)
    if not mine and not held and doc_id not in parent["purged"]:
        _known_somewhere(archive, doc_id)
    if mine or held or doc_id not in parent["purged"]:
        entries = _without(archive, parent, before, doc_id, held)
        _publish(archive, parent, before, entries, doc_id, mine)
    latest = version_numbers(archive)[-1]
    return Purged(latest, vacuum(archive, 1, every_row=True))


def _known_somewhere(archive: Folder, doc_id: str) -> None:
    for number in reversed(version_numbers(archive)):
        held = read_catalogue(archive, read_version(archive, number)["files"]["catalogue"])
        if any(entry.doc_id == doc_id for entry in held):
            return
    raise InputError(
        f"No version of {archive.path} has a document {doc_id!r}. okralong archive purge takes a doc_id as it stands "
        "in citations and in okralong archive diff; nothing was purged."
    )


def _holding(archive: Folder, parts: Iterable[str], doc_id: str) -> list[str]:
    """The parts with a row of the document, also one that no version shows any more: what it was before it changed."""
    ids = ((part, archive.at("documents").read_table(part_file(part), ["doc_id"])["doc_id"]) for part in parts)
    return [part for part, column in ids if pc.index(column, doc_id).as_py() >= 0]


def _without(
    archive: Folder, parent: Mapping[str, Any], before: Sequence[DocumentEntry], doc_id: str, held: Iterable[str]
) -> list[DocumentEntry]:
    """The other documents; of the parts that hold the purged one, those that they need are written anew without it."""
    kept = [entry for entry in before if entry.doc_id != doc_id]
    needed = {entry.part for entry in kept}
    renamed = {part: f"{digest((part, doc_id))}-00" for part in held}
    for part, target in renamed.items():
        if part not in needed:
            continue
        _filter(archive.at("documents"), part, target, doc_id)
        for size in parent["granularities"]:
            folder = chunks_folder(archive, size, parent["config"]["boundaries"])
            if folder.exists(keys_file(part)):  # a part of shadowed documents alone may lack a size that came later
                texts = _filter(folder, part, target, doc_id)["text"]
                write_keys(folder, target, texts.to_pylist())
    return resolve_duplicates(replace(entry, part=renamed.get(entry.part, entry.part)) for entry in kept)


def _filter(folder: Folder, part: str, target: str, doc_id: str) -> pa.Table:
    table = folder.read_table(part_file(part))
    table = table.filter(pc.not_equal(table["doc_id"], doc_id))
    folder.write_table(part_file(target), table)
    return table


def _publish(
    archive: Folder,
    parent: Mapping[str, Any],
    before: Iterable[DocumentEntry],
    entries: list[DocumentEntry],
    doc_id: str,
    mine: Iterable[DocumentEntry],
) -> None:
    if not entries:
        raise InputError(
            f"{doc_id!r} is the only document of {archive.path}. To be rid of it, delete the folder of the archive."
        )
    config = IndexConfig.model_validate(parent["config"])
    model = ResolvedModel("", parent["embedding"]["name"], parent["embedding"]["sha256"])
    build = VersionBuild(archive, config, model, entries, parent, active(before), shards=int(parent["shards"]))
    shards = build.build_shards(TextIndex.open(build.store))
    origins = {entry.source_uri: entry.origin for entry in mine}
    sources = [
        replace(source, failed=(*source.failed, (doc_id, purged_message(doc_id, origins[source.uri]))))
        if source.uri in origins
        else source
        for source in read_sources(archive, parent["files"]["sources"]).values()
    ]
    failures = failures_of(entries, sources, [(row[0], row[1]) for row in parent["refused"]])
    kept = ("embedding", "limits", "listed_at_ns", "refused", "config", "metadata")
    about = {key: parent[key] for key in kept if key in parent}
    about |= carry_without(archive, parent, shards, doc_id) | {
        "purged": sorted({*parent["purged"], doc_id}),
        "purged_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {},
        "work": {"shards_written": sum(shard.built for built in shards.values() for shard in built)},
        "work_seconds": {},
    }
    build.publish(shards, sources, failures, about, always=True)
