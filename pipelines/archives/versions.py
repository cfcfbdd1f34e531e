"""The versions of an archive: ``versions/000001.json`` and so on, each a manifest that names the files it is made of.

Files are immutable, and versions share them. A manifest is written when everything that it names is there, under a name
that no other has, and is never changed; so whoever has read one sees one archive, whatever is published beside it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import ArchiveError, LockedError

VERSIONS: Final = "versions"
LAYOUT: Final = 2
"""Of the files of a version; 1 is the layout before versions, one ``manifest.json`` over folders that were replaced."""
_NAME: Final = re.compile(r"(\d{6})\.json")
_PINNED: Final = re.compile(r"(.+)@(\d{1,6})")
_NEEDED: Final = ("granularities", "embedding", "shards", "files")


@dataclass(frozen=True, slots=True)
class Location:
    """Where an archive is, and which version of it is meant; None for the latest."""

    place: str
    version: int | None = None

    @classmethod
    def of(cls, text: str | Path) -> Location:
        """``archive`` or ``archive@3``; a folder that is really called so is taken for one."""
        found = _PINNED.fullmatch(str(text))
        if found is None or Folder.of(text).is_there:
            return cls(str(text))
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return self.place if self.version is None else f"{self.place}@{self.version}"


def version_numbers(archive: Folder) -> list[int]:
    """The versions that are there, rising."""
    found = (_NAME.fullmatch(name) for name in archive.at(VERSIONS).names(".json"))
    return [int(match[1]) for match in found if match]


def read_version(archive: Folder, number: int) -> dict[str, Any]:
    """The manifest of a version. Raises ArchiveError when it is not there (any more), damaged, or not readable."""
    name = f"{number:06d}.json"
    try:
        manifest = dict(json.loads(archive.at(VERSIONS).read_bytes(name)))
    except FileNotFoundError:
        held = ", ".join(map(str, version_numbers(archive))) or "none"
        raise ArchiveError(
            f"{archive.path} has no version {number}; it has {held}. It was vacuumed or purged, or never was. "
            "okralong archive log lists the versions that can be read."
        ) from None
    except ValueError as error:
        raise ArchiveError(
            f"{archive.at(VERSIONS, name).path} is not valid JSON: {error}. Delete that file: the version before it "
            "is then the latest, and okralong index makes what is missing."
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
    """The manifest of the newest version, None where there is none. Raises ArchiveError as ``read_version`` does."""
    numbers = version_numbers(archive)
    return read_version(archive, numbers[-1]) if numbers else None


def publish(archive: Folder, manifest: dict[str, Any]) -> None:
    """Write the manifest of version ``manifest["version"]``: the moment from which readers see it.

    The caller holds the archive's lock. Raises LockedError when the version is there all the same: somebody else has
    written, and nothing of theirs is replaced.
    """
    name = f"{manifest['version']:06d}.json"
    data = json.dumps(manifest, indent=1, sort_keys=True, ensure_ascii=False).encode()
    try:
        archive.at(VERSIONS).create_bytes(name, data)
    except FileExistsError as error:
        raise LockedError(
            f"{archive.at(VERSIONS, name).path} was published by another process while this one worked, although an "
            "archive has one writer at a time. Look who else writes here, and run the same command again."
        ) from error


def before_versions(archive: Folder) -> dict[str, Any] | None:
    """The manifest of an archive in the layout before versions; None where there is none, or it cannot be used."""
    try:
        manifest = archive.read_manifest()
    except ValueError:
        return None
    usable = manifest is not None and manifest.get("schema_version") == SCHEMA_VERSION and "embedding" in manifest
    return manifest if usable else None


__all__ = [
    "LAYOUT",
    "MANIFEST",
    "VERSIONS",
    "Location",
    "before_versions",
    "latest_version",
    "publish",
    "read_version",
    "version_numbers",
]
