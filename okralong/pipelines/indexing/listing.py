"""From the ``--from`` locations to an ordered list of sources, before anything is read.

A folder that was unpacked from an archive or synchronised from elsewhere may hold links: one that leads out of it would
put any file of this machine into prompts, and two that lead back into it make a tree of a billion folders. It may hold
pipes and devices, which never end, and names that are no text.
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
from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Source
from okralong.pipelines.indexing.parsers import SUFFIXES, is_supported

_BLOCK: Final = 1 << 20
_TICK_NS: Final = 2_000_000_000
"""The coarsest clock of a filesystem in use (FAT) ticks every two seconds."""
_ROW_SUFFIXES: Final = (".jsonl", ".parquet")


@dataclass(frozen=True, slots=True)
class Listing:
    """``sources`` in order of doc_id; ``bad`` are the losers of a shared doc_id, what cannot be taken (see
    ``walk_folder``), and files of a kind that is not read, which are ``skipped``; ``excluded`` counts those that were
    left out by a pattern."""

    sources: tuple[Source, ...]
    bad: tuple[BadRow, ...]
    skipped: tuple[str, ...]
    excluded: int = 0


def list_sources(locations: Sequence[str], outside: str = "", exclude: Sequence[str] = (), apart: str = "") -> Listing:
    """All files at or below ``locations`` (files or folders, local or URIs); names that start with a dot are left out,
    and the owner files (``~$...``) that office programs leave beside an open file.

    So is what lies below ``outside``, since an archive may stand in the folder that it indexes, the file ``apart``,
    and what fits one of the patterns ``exclude``: one without a slash is for a file's name, one with a slash for its
    path below the location, where ``*`` reaches over folders.

    The doc_id of a file is its path below the location, without suffix. Where two files share one, the first in order
    of path wins. Raises InputError when a location is missing, or when no file has a known suffix.
    """
    below = f"{outside.rstrip('/')}/" if outside else None
    walks = [_list(location, exclude) for location in locations]
    apart = str(Path(apart).resolve()) if apart and "://" not in apart else apart
    found = [s for walk in walks for s in walk.sources if below is None or not s.uri.startswith(below)]
    found = [s for s in found if s.uri != apart and not PurePosixPath(s.uri).name.startswith(_OWNER_FILE)]
    refused = {row.message: row for walk in walks for row in walk.bad if below is None or below not in row.message}
    skipped = sorted({source.uri for source in found if not is_supported(source.uri)})
    known = {source.uri: source for source in found if is_supported(source.uri)}
    if not known:
        raise InputError(
            f"There is no document below {', '.join(locations)}: {len(skipped)} files were seen, none ends in "
            f"{', '.join(SUFFIXES)}. "
            f"{next(iter(refused), 'Check the folder given to --from.')}"
        )
    kept: dict[str, Source] = {}
    bad = sorted([*refused.values(), *_unread(skipped)], key=lambda row: row.message)
    for source in sorted(known.values(), key=lambda s: (s.doc_id, s.uri)):
        # The name of a file of rows is no document's id, so it cannot clash with one.
        key = source.uri if source.uri.lower().endswith(_ROW_SUFFIXES) else source.doc_id
        first = kept.setdefault(key, source)
        if first is not source:
            bad.append(duplicate(source.doc_id, first.uri, source.uri))
    ordered = sorted(kept.values(), key=lambda s: (s.doc_id, s.uri))
    return Listing(tuple(ordered), tuple(bad), tuple(skipped), sum(walk.excluded for walk in walks))


_OWNER_FILE: Final = "~$"


def _fits(inside: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Whether a path below its location is left out by one of some patterns."""
    plain = (pattern.removeprefix("./") for pattern in patterns)
    return any(fnmatchcase(str(inside) if "/" in pattern else inside.name, pattern) for pattern in plain)


def _unread(skipped: Sequence[str]) -> list[BadRow]:
    """A failure for each file of a kind that is not read; beyond so many, one for all that are left."""
    remedy = "leave it out with --exclude (or the key exclude of the index config)."
    bad = [
        BadRow(uri, f"{uri} is of a kind that is not read. Convert it to one that is (docs/documents.md), or {remedy}")
        for uri in skipped[:MOST_BAD_ROWS]
    ]
    if left := skipped[MOST_BAD_ROWS:]:
        more = f"{left[0]} and {len(left) - 1} more files are of a kind that is not read. Convert them, or {remedy}"
        bad.append(BadRow(left[0], more))
    return bad


def duplicate(doc_id: str, kept: str, dropped: str) -> BadRow:
    """The failure of a document whose id another one already has."""
    return BadRow(
        doc_id,
        f"Two documents are called {doc_id!r}: {kept} is kept, {dropped} is left out. "
        "Rename one of them, or put it into a folder of its own.",
    )


def with_hashes(
    sources: Sequence[Source], known: Mapping[str, KnownSource] | None = None, seen_at_ns: int = 0
) -> tuple[Source, ...]:
    """``sources`` with the sha256 of their bytes; a file that cannot be read keeps an empty one.

    A file of the size and the time of change that are ``known`` of its uri is not opened: its hash is taken over. Not
    so where that time is less than two seconds before ``seen_at_ns``, when it was listed: it may have changed again
    within the same tick of its filesystem's clock.
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
            left = source.size  # what has grown since it was listed may never end
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
    """Raises InputError for a path that leads to no file or folder, as ``list_sources`` does: before a cluster is
    started for it. URIs are not looked at."""
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
    filesystem, base = located(location)  # first, since it refuses a key and does not repeat it
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
"""What no name of a document may hold: it stands in messages of one line. Undecodable bytes come as lone surrogates."""


@dataclass(slots=True)
class Walk:
    """``sources`` are files that may be read, ``bad`` what cannot be taken, in any order; ``excluded`` counts what was
    left out by a pattern."""

    sources: list[Source] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)
    excluded: int = 0


def walk_folder(root: Path, wanted: Callable[[str], bool], exclude: Sequence[str] = ()) -> Walk:
    """Every file below ``root``, an absolute path without links; names that start with a dot are left out, and what
    fits one of the patterns ``exclude``.

    A link to a file below ``root`` counts as a file. One to a folder below it is left out, since what is there is read
    in its own place. One that leads elsewhere, a file that is none (a pipe, a device), an unreadable folder and a name
    with control characters or bytes that are not UTF-8 are failures; files only where ``wanted`` says so of their name.
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
    """What stands behind an entry that is no folder itself: its kind, what is known of it, why it cannot be taken."""
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
        what = "is a link that leads nowhere" if entry.is_symlink() else "cannot be looked at"
        return "file", None, f"{what} ({error.strerror}). Correct or remove it, then index again."
    if not stat.S_ISREG(about.st_mode):
        return "file", None, "is a pipe, socket or device and no file. Write what it gives into a file, and index that."
    return "file", about, ""


def _doc_id(path: str, root: Path) -> str:
    return PurePosixPath(path).relative_to(root).with_suffix("").as_posix()


def _bad(path: str, root: Path, reason: str) -> BadRow:
    doc_id = "." if path == str(root) else _doc_id(path, root)
    return BadRow(_printable(doc_id), f"{_printable(path)} {reason}")


def _printable(name: str) -> str:
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], name)
