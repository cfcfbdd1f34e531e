"""A folder for what is derived once from the packaged models, built whole or not at all.

Everything in it can be deleted at any time; it is made again when next needed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

READ_BLOCK = 1 << 20
"""Bytes read at a time when a file is hashed; ours, any size will do."""


def cache_folder() -> Path:
    """Where derived model files live: ``OKRALONG_CACHE``, else ``okralong`` in the user's XDG cache folder."""
    own = os.environ.get("OKRALONG_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "okralong"


def build_once(name: str, build: Callable[[Path], None]) -> Path:
    """The cache entry ``name`` (a file or a folder), made by ``build(path)`` when it is not there yet.

    ``build`` writes to a path of its own that is renamed when it returns, so a killed process leaves no half entry
    under the final name. Processes that ask at the same time wait for the first one. Whatever ``build`` raises is
    raised here, and the next caller tries again.
    """
    final = cache_folder() / name
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{final}.lock"):
        if final.exists():
            return final
        for leftover in final.parent.glob(f".{final.name}.*.partial"):
            _remove(leftover)
        partial = final.with_name(f".{final.name}.{uuid.uuid4().hex}.partial")
        try:
            build(partial)
            partial.rename(final)
        except BaseException:
            _remove(partial)
            raise
    return final


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(READ_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
