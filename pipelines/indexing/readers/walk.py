"""The files of a local folder, as somebody who does not trust it walks through it.

A folder that was unpacked from an archive or synchronised from elsewhere may hold links: one that leads out of it would
put any file of this machine into prompts, and two that lead back into it make a tree of a billion folders. It may hold
pipes and devices, which never end, and names that are no text.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from okralong.pipelines.indexing.readers.raw import BadRow, Source

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What no name of a document may hold: it stands in messages of one line. Undecodable bytes come as lone surrogates."""


@dataclass(frozen=True, slots=True)
class Walk:
    """``sources`` are files that may be read, ``bad`` what cannot be taken; neither is in any order."""

    sources: list[Source] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)


def walk_folder(root: Path, wanted: Callable[[str], bool]) -> Walk:
    """Every file below ``root``, an absolute path without links; names that start with a dot are left out.

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
        return "file", None, f"{what} ({error.strerror}). Mend or remove it, then index again."
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
