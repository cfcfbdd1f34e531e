"""List the sources at the ``--from`` locations, in order, before anything is read.

A folder that was unpacked or synchronized from elsewhere is untrusted. A link out of it could put any file of this
machine into prompts, and two links back into it make a tree of a billion folders. It may hold pipes and devices, which
never end, and names that are not text.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from pyarrow import fs

from okralong.pipelines.archive.versions import KnownSource
from okralong.pipelines.core.filesystems import located
from okralong.pipelines.core.types import DocumentError, InputError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Source
from okralong.pipelines.indexing.parsers import SUFFIXES, is_supported

_BLOCK: Final = 1 << 20
_TICK_NS: Final = 2_000_000_000
"""The coarsest clock of a common filesystem (FAT) ticks every two seconds."""
_ROW_SUFFIXES: Final = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Listing:
    """Listed files.

    ``sources`` are sorted by doc_id. ``bad`` are files whose doc_id another file has, entries that cannot be read (see
    ``walk_folder``), and files of unsupported kinds, which ``skipped`` names too. ``excluded`` counts files left out by
    a pattern.
    """

    sources: tuple[Source, ...]
    bad: tuple[BadRow, ...]
    skipped: tuple[str, ...]
    excluded: int = 0


def list_sources(locations: Sequence[str], outside: str = "", exclude: Sequence[str] = (), apart: str = "") -> Listing:
    """List all files at or below ``locations`` (files or folders, local or URIs).

    Left out are names that begin with a dot, files of office programs (``~$...``) and of Windows (``Thumbs.db``), files
    below ``outside`` (an archive may be in the folder that it indexes), the file ``apart``, and files that match a
    pattern of ``exclude``. A pattern without a slash applies to the file's name, one with a slash to its path below the
    location, where ``*`` also matches slashes.

    The doc_id of a file is its path below the location without suffix. Of two files with the same doc_id, the first in
    order of path wins.

    Raises:
        InputError: A location is missing, or no file has a supported suffix.
    """
    below = f"{outside.rstrip('/')}/" if outside else None
    walks = [_list(location, exclude) for location in locations]
    apart = str(Path(apart).resolve()) if apart and "://" not in apart else apart
    found = [s for walk in walks for s in walk.sources if below is None or not s.uri.startswith(below)]
    found = [s for s in found if s.uri != apart and not _is_of_the_system(PurePosixPath(s.uri).name)]
    refused = {row.message: row for walk in walks for row in walk.bad if below is None or below not in row.message}
    skipped = sorted({source.uri for source in found if not is_supported(source.uri)})
    known = {source.uri: source for source in found if is_supported(source.uri)}
    if not known:
        raise InputError(
            f"There is no document below {', '.join(locations)}: "
            f"{counted(len(skipped), 'file')} {agreeing(len(skipped), 'was')} found, but none ends in "
            f"{', '.join(SUFFIXES)}. "
            f"{next(iter(refused), 'Check the folder given to --from.')}"
        )
    kept: dict[str, Source] = {}
    bad = sorted([*refused.values(), *_unread(skipped)], key=lambda row: row.message)
    for source in sorted(known.values(), key=lambda s: (s.doc_id, s.uri)):
        # The name of a file of rows is not a doc_id, so it cannot clash.
        key = source.uri if source.uri.lower().endswith(_ROW_SUFFIXES) else source.doc_id
        first = kept.setdefault(key, source)
        if first is not source:
            bad.append(duplicate(source.doc_id, first.uri, source.uri))
    ordered = sorted(kept.values(), key=lambda s: (s.doc_id, s.uri))
    return Listing(tuple(ordered), tuple(bad), tuple(skipped), sum(walk.excluded for walk in walks))


_OWNER_FILE: Final = "~$"
_OF_WINDOWS: Final = ("thumbs.db", "desktop.ini")
"""Hidden files that Windows puts into folders."""


def _is_of_the_system(name: str) -> bool:
    """Return whether a file belongs to an office program or to the operating system, and not to a person."""
    return name.startswith(_OWNER_FILE) or name.lower() in _OF_WINDOWS


def _fits(inside: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Return whether a path below its location matches one of the patterns."""
    plain = (pattern.removeprefix("./") for pattern in patterns)
    return any(fnmatchcase(str(inside) if "/" in pattern else inside.name, pattern) for pattern in plain)


def _unread(skipped: Sequence[str]) -> list[BadRow]:
    """Return a failure for each file of an unsupported kind, and one for all beyond a limit."""
    remedy = "leave it out with --exclude (or the key exclude of the index config)."
    bad = [
        BadRow(uri, f"{uri} has an unsupported format. Convert it to a supported one (docs/documents.md), or {remedy}")
        for uri in skipped[:MOST_BAD_ROWS]
    ]
    if left := skipped[MOST_BAD_ROWS:]:
        more = (
            f"{left[0]} and {counted(len(left) - 1, 'more file')} have unsupported formats. Convert them, or {remedy}"
        )
        bad.append(BadRow(left[0], more))
    return bad


def duplicate(doc_id: str, kept: str, dropped: str) -> BadRow:
    """Return the failure of a document whose id is taken."""
    return BadRow(
        doc_id,
        f"Two documents are called {doc_id!r}: {kept} is kept, {dropped} is left out. "
        "Rename one of them, or put it into another folder.",
    )


def with_hashes(
    sources: Sequence[Source], known: Mapping[str, KnownSource] | None = None, seen_at_ns: int = 0
) -> tuple[Source, ...]:
    """Return ``sources`` with the sha256 of their content; unreadable files keep an empty one.

    A file with the ``known`` size and time of change keeps its known hash and is not opened, unless that time is within
    two seconds before ``seen_at_ns``, the time of listing: it may have changed again within a tick of the filesystem's
    clock.
    """

    def hashed(source: Source) -> Source:
        before = known.get(source.uri) if known else None
        trusted = 0 < source.mtime_ns < seen_at_ns - _TICK_NS
        if before and trusted and (before.size, before.mtime_ns) == (source.size, source.mtime_ns):
            return replace(source, sha256=before.sha256) if before.sha256 else _hashed(source)
        return _hashed(source)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return tuple(pool.map(hashed, sources))


def _hashed(source: Source) -> Source:
    digest = hashlib.sha256()
    try:
        with source.open() as stream:
            left = source.size  # a file that is still growing may never end
            while left > 0 and (block := stream.read(min(_BLOCK, left))):
                digest.update(block)
                left -= len(block)
    except (DocumentError, OSError):
        return source
    return replace(source, sha256=digest.hexdigest())


def _list(location: str, exclude: Sequence[str]) -> Walk:
    if "://" not in location:
        path = _local(location)
        if path.is_dir():
            return walk_folder(path, is_supported, exclude)
        about = path.stat()
        return Walk([Source(str(path), path.stem, about.st_size, mtime_ns=about.st_mtime_ns)])
    return _list_remote(location, exclude)


def check_local(locations: Sequence[str]) -> None:
    """Raise InputError for a local path without a file or folder, before a cluster is started for it."""
    for location in locations:
        if "://" not in location:
            _local(location)


def _local(location: str) -> Path:
    path = Path(location).resolve()
    if not path.exists():
        raise InputError(f"--from {location} does not exist. Check the path; nothing was indexed.")
    if not (path.is_dir() or path.is_file()):
        raise InputError(f"--from {location} is neither file nor folder. Give one of them; nothing was indexed.")
    return path


def _list_remote(location: str, exclude: Sequence[str]) -> Walk:
    filesystem, base = located(location)  # first, because it refuses credentials without repeating them
    if "?" in location:
        raise InputError(
            f"--from {location} has a query, which its files would not inherit. Set region and endpoint in the "
            "environment of every node (AWS_REGION, AWS_ENDPOINT_URL). Nothing was indexed."
        )
    prefix = location.split("://", 1)[0] + "://"
    base = base.rstrip("/")
    info = filesystem.get_file_info(base)
    if info.type == fs.FileType.NotFound:
        raise InputError(f"--from {location} does not exist. Check the path; nothing was indexed.")
    if info.type == fs.FileType.File:
        infos, root = [info], str(PurePosixPath(base).parent)
    else:
        infos, root = filesystem.get_file_info(fs.FileSelector(base, recursive=True)), base
    found = Walk()
    for item in infos:
        inside = PurePosixPath(item.path).relative_to(root)
        if item.type == fs.FileType.File and not any(part.startswith(".") for part in inside.parts):
            if infos[0].path != base and _fits(inside, exclude):
                found.excluded += 1
                continue
            name, changed = inside.with_suffix("").as_posix(), item.mtime_ns or 0
            found.sources.append(Source(prefix + item.path, name, item.size or 0, mtime_ns=changed))
    return found


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that names in one-line messages must not contain; undecodable bytes appear as lone surrogates."""


@dataclass(slots=True)
class Walk:
    """The unsorted result of a walk: readable files, bad entries, and the number of files left out by a pattern."""

    sources: list[Source] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    excluded: int = 0


def walk_folder(root: Path, wanted: Callable[[str], bool], exclude: Sequence[str] = ()) -> Walk:
    """Find every file below ``root``, an absolute path without links.

    Hidden names and those that match ``exclude`` are ignored. A link to a file below ``root`` counts as a file; a link
    to a folder below it is ignored, because the folder is read in its own place. Failures are links that lead
    elsewhere, special files (pipes, devices), unreadable folders, and names with control characters or bytes that are
    not UTF-8; for files only if ``wanted`` accepts the name.
    """
    found = Walk()
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError as error:
            remedy = "Check that this user may read it, and that its path is not too long, then index again."
            found.bad.append(_bad(folder, root, f"cannot be listed ({error.strerror}). {remedy}"))
            continue
        for entry in listed:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
                continue
            if exclude and _fits(PurePosixPath(entry.path).relative_to(root), exclude):
                found.excluded += 1
                continue
            kind, about, reason = _look(entry, root)
            if kind == "folder" or (reason and kind == "file" and not wanted(entry.name)):
                continue
            if not reason and _CONTROL.search(entry.path[len(str(root)) :]):
                reason = "has control characters, or bytes that are not UTF-8, in its name. Rename it and index again."
            if reason:
                found.bad.append(_bad(entry.path, root, reason))
            else:
                size, mtime_ns = (about.st_size, about.st_mtime_ns) if about else (0, 0)
                found.sources.append(Source(entry.path, _doc_id(entry.path, root), size, mtime_ns=mtime_ns))
    return found


def _look(entry: os.DirEntry[str], root: Path) -> tuple[str, os.stat_result | None, str]:
    """Return kind and stat of an entry that is not a folder itself, and the reason why it cannot be read."""
    try:
        about = entry.stat()
        if entry.is_symlink():
            target = Path(entry.path).resolve(strict=True)
            if not target.is_relative_to(root):
                kind = "link" if stat.S_ISDIR(about.st_mode) else "file"
                return (
                    kind,
                    None,
                    "is a link that leads out of its folder. Put a copy there, or give --from the original.",
                )
            if stat.S_ISDIR(about.st_mode):
                hidden = any(part.startswith(".") for part in target.relative_to(root).parts)
                reason = "is a link to a hidden folder, which is not read. Give that folder to --from as well."
                return ("link", None, reason) if hidden else ("folder", None, "")
    except OSError as error:
        what = "is a broken link" if entry.is_symlink() else "cannot be inspected"
        return "file", None, f"{what} ({error.strerror}). Correct or remove it, then index again."
    if not stat.S_ISREG(about.st_mode):
        return "file", None, "is a pipe, socket or device, not a file. Write its content to a file, and index that."
    return "file", about, ""


def _doc_id(path: str, root: Path) -> str:
    return PurePosixPath(path).relative_to(root).with_suffix("").as_posix()


def _bad(path: str, root: Path, reason: str) -> BadRow:
    doc_id = "." if path == str(root) else _doc_id(path, root)
    return BadRow(_printable(doc_id), f"{_printable(path)} {reason}")


def _printable(name: str) -> str:
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], name)
