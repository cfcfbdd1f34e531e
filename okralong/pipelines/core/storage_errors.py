"""Turn failed writes (disk full, permission denied) into errors with a remedy."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import BrokenError, OkraError

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENAMETOOLONG)
_SHORT_WRITE: Final = re.compile(r"\d+ requested and \d+ written")
"""NumPy raises an OSError with this message and no errno when an array does not fit on the disk."""
_QUOTED_ERROR: Final = re.compile(r"(?:OSError|PermissionError): \[Errno (\d+)\] ")
_QUOTED_PATH: Final = re.compile(r"['\"](/[^'\"]+)['\"]")


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Add ``path`` to an OSError of the block that names no file or only a temporary one."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or str(error.filename).endswith(".partial")
        if unnamed and error.errno is not None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Raise the BrokenError of ``storage_failure`` in place of an exception of the block that it knows."""
    try:
        yield
    except OkraError:
        raise
    except Exception as error:
        if (failure := storage_failure(error)) is not None:
            raise failure from error
        raise


def not_written(what: str, error: BaseException, room_for: str = "") -> BrokenError:
    """Return the error for a ``what`` that cannot be written; ``room_for`` names what does not fit."""
    said = str(error).strip().splitlines()[-1].rstrip(".")
    return BrokenError(
        f"{what} cannot be written{f', and has no space for {room_for}' if room_for else ''}: {said}. Free space on "
        "its disk, or make it writable, and run the same command again: finished work is kept, and no reply that "
        "arrived is billed again."
    )


def storage_failure(error: BaseException) -> BrokenError | None:
    """Return the error to stop with if ``error`` or one of its causes is a full disk or a denied write, else None.

    This also looks into errors of Ray tasks and of libraries that report no errno.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        if (number := _storage_errno(cause)) is not None:
            return _not_stored(number, cause)
        further = (getattr(cause, "cause", None), cause.__cause__, cause.__context__)  # ``cause`` is Ray's
        waiting += [each for each in further if isinstance(each, BaseException)]
    return None


def _storage_errno(error: BaseException) -> int | None:
    if isinstance(error, OSError) and error.errno is not None:
        # Sockets and processes raise EACCES and EPERM too, but without a path.
        known = error.errno in (errno.EROFS, *_FULL) or _path_of(error) != ""
        return error.errno if known and error.errno in (*_FULL, *_FORBIDDEN) else None
    if isinstance(error, OSError) and _SHORT_WRITE.search(str(error)):
        return errno.ENOSPC
    # safetensors, FAISS and DuckDB raise their own errors, and Ray's errors quote the original message.
    said = _decisive_line(error)
    if (quoted := _QUOTED_ERROR.match(said)) is not None:
        return int(quoted[1]) if int(quoted[1]) in (*_FULL, *_FORBIDDEN) else None
    return next((number for number in (*_FULL, errno.EROFS) if os.strerror(number) in said), None)


def _decisive_line(error: BaseException) -> str:
    """Return the last OSError quoted in the error's text, else its last line."""
    lines = [each for each in str(error).strip().splitlines() if each.strip()]
    quoted = [each for each in lines if _QUOTED_ERROR.match(each)]
    return (quoted or lines or [""])[-1]


def _path_of(error: BaseException) -> str:
    named = getattr(error, "filename", None)
    quoted = _QUOTED_PATH.search(_decisive_line(error))
    return str(named) if isinstance(named, str | os.PathLike) else quoted[1] if quoted else ""


def _not_stored(number: int, error: BaseException) -> BrokenError:
    where = _path_of(error) or "a file of this command"
    if number in _FULL:
        return BrokenError(
            f"The disk is full: {where} could not be written ({os.strerror(number)}). Free space on its disk and run "
            "the same command again: finished work is kept."
        )
    return BrokenError(
        f"{where[0].upper()}{where[1:]} cannot be written ({os.strerror(number)}). Make it writable for this user, or "
        "choose another location, and run the same command again."
    )
