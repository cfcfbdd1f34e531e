"""Taking away what no version needs: old versions, what they alone held, and what killed jobs left behind."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from okralong.pipelines.archive.files import COMPRESSED, granularity_folder, table_folders
from okralong.pipelines.archive.vectors import VECTORS, Keys, VectorStore, drop_dead_vectors
from okralong.pipelines.archive.versions import CATALOGUES, KNOWN_SOURCES, VERSIONS, read_version, version_numbers
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.indexing.chunk_tables import CHUNKS_FOLDER, chunks_folder, keys_file, read_keys
from okralong.pipelines.indexing.outcomes import OUTCOMES_FOLDER
from okralong.pipelines.indexing.shares import WORK

_ROOMS: Final = (
    OUTCOMES_FOLDER,
    CATALOGUES,
    KNOWN_SOURCES,
    "failures",
    "index",
    COMPRESSED,
    CHUNKS_FOLDER,
    "documents",
    WORK,
)
"""The folders of an archive in which a file goes that no kept version names. A part's word that it is complete always
goes, and goes first: a version needs it not, and the part may lose a piece."""
_BEFORE_VERSIONS: Final = "embeddings"
_CLASSIC_SHARD: Final = re.compile(r"/shard-\d{5}/")
_OURS: Final = re.compile(
    r"(.*/)?([0-9a-f]{16}(-\d{2,})?(\.keys\.npy|\.parquet)?|part-[^/]*|shard-\d{5}[^/]*/[^/]*|\.[^/]*\.partial)"
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
    doomed = _Doomed(archive, dry_run)
    # First the manifests, so that nobody begins to read what is on its way out.
    doomed.take(archive.at(VERSIONS, f"{number:06d}.json").path for number in old)
    needed = {path for manifest in manifests for path in _named(archive, manifest)}
    parts = {part for manifest in manifests for part in manifest["files"]["parts"]}
    classic = len(numbers) < keep
    for room in _ROOMS:
        for path in _files(archive.at(room)):
            name = path.rsplit("/", 1)[1]
            is_classic = name.startswith("part-") or bool(_CLASSIC_SHARD.search(path))
            by_part = room in (CHUNKS_FOLDER, "documents") and name.split(".")[0] in parts
            if _OURS.fullmatch(path) and not (by_part or _within(path, needed) or (classic and is_classic)):
                doomed.take([path])
    if not classic:
        doomed.take(path for path in _files(archive.at(_BEFORE_VERSIONS)) if _OURS.fullmatch(path))
        doomed.take([archive.at(MANIFEST).path] if archive.exists(MANIFEST) else [])
    _vacuum_vectors(archive, manifests, doomed, every_row)
    if archive.is_local and not dry_run:
        _remove_empty_folders(archive)
    return Vacuumed(tuple(kept), tuple(old), doomed.files, doomed.bytes)


class _Doomed:
    def __init__(self, archive: Folder, dry_run: bool) -> None:
        self._filesystem, self.dry_run = archive.filesystem, dry_run
        self.files = self.bytes = 0

    def take(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self.count(path)
            if not self.dry_run:
                self._filesystem.delete_file(path)

    def count(self, path: str) -> None:
        self.files += 1
        self.bytes += self._filesystem.get_file_info(path).size or 0


def _named(archive: Folder, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The files and folders that a version names, but for those of its parts and vectors."""
    files = manifest["files"]
    for name in files["catalogue"]:
        yield archive.at(CATALOGUES, name).path
    yield archive.at(KNOWN_SOURCES, files["sources"]).path
    yield archive.at("failures", files["failures"]).path
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
    for room in (*_ROOMS, VECTORS, _BEFORE_VERSIONS):
        for path, _, _ in os.walk(archive.at(room).path, topdown=False):
            if not os.listdir(path):
                os.rmdir(path)


def _vacuum_vectors(archive: Folder, manifests: Sequence[Mapping[str, Any]], doomed: _Doomed, every_row: bool) -> None:
    used = {manifest["files"]["encoder"]: manifest["config"]["embedding"]["dtype"] for manifest in manifests}
    for name in archive.at(VECTORS).names():
        encoder = name.removeprefix("encoder=")
        store = VectorStore.of(archive, encoder, used.get(encoder, "float32"))
        if encoder not in used:
            doomed.take(_files(store.folder))
            continue
        mine = [manifest for manifest in manifests if manifest["files"]["encoder"] == encoder]
        sizes = {path: store.folder.filesystem.get_file_info(path).size for path in _files(store.folder)}
        doomed.take(path for path in sizes if path.endswith(".partial"))
        for gone in drop_dead_vectors(store, _live(archive, mine), every_row=every_row, dry_run=doomed.dry_run):
            doomed.files += 1
            doomed.bytes += sizes.get(store.folder.at(gone).path, 0)


def _live(archive: Folder, manifests: Sequence[Mapping[str, Any]]) -> Iterator[Keys]:
    for manifest in manifests:
        for size in manifest["granularities"]:
            folder = chunks_folder(archive, size, manifest["config"]["boundaries"])
            there = set(folder.names(".npy"))
            for part in manifest["files"]["parts"]:
                if keys_file(part) in there:
                    yield read_keys(folder, part)
