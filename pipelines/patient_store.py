"""An S3 store whose reads bear errors: pyarrow's filesystem with every read made large enough, and tried again.

The AWS client reads a reply into a buffer of the size that was asked for. The message of a 500 does not fit into that
of a small read (a Parquet column of few rows), and the client then takes the error for one that will not pass.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import fs

T = TypeVar("T")

LEAST_READ: Final = 64 * 1024
"""Bytes that are read at least, where the file has them: more than an error's message, and one round trip for many
small columns. Ours."""
READS: Final = 8
FIRST_PAUSE_S: Final = 0.1
"""Tries of a read that the client gave up on, and the first of the pauses between them, which double. Ours."""


class PatientStore(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """``store`` with patient reads; all else goes to it as it is."""

    def __init__(self, store: fs.FileSystem) -> None:
        self._store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PatientStore) and bool(self._store == other._store)

    def __hash__(self) -> int:
        return hash(self._store.type_name)

    def get_type_name(self) -> str:
        """See ``pyarrow.fs.FileSystemHandler``, here and below."""
        return str(self._store.type_name)

    def normalize_path(self, path: str) -> str:
        """As above."""
        return str(self._store.normalize_path(path))

    def get_file_info(self, paths: list[str]) -> Any:
        """As above."""
        return self._store.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        """As above."""
        return self._store.get_file_info(selector)

    def create_dir(self, path: str, recursive: bool) -> None:
        """As above."""
        self._store.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        """As above."""
        self._store.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """As above."""
        self._store.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        """Refused: nothing of ours empties a whole store."""
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        """As above."""
        self._store.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        """As above."""
        self._store.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        """As above."""
        self._store.copy_file(src, dest)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        """As above."""
        return self._store.open_output_stream(path, metadata=metadata)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        """As above."""
        return self._store.open_append_stream(path, metadata=metadata)

    def open_input_stream(self, path: str) -> Any:
        """As above."""
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> Any:
        """As above."""
        return pa.PythonFile(PatientFile(self._store.open_input_file(path)), mode="r")


class PatientFile(io.RawIOBase):
    """An open file of a store, read in pieces of ``LEAST_READ`` bytes or more."""

    def __init__(self, file: pa.NativeFile) -> None:
        super().__init__()
        self._file = file
        self._size = int(file.size())
        self._at = 0
        self._held_from, self._held = 0, b""

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The next byte's place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; that place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes; b"" at the end."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        start = min(self._at, end)
        if start < self._held_from or end > self._held_from + len(self._held):
            first = max(0, min(start, max(end, start + LEAST_READ, LEAST_READ) - LEAST_READ))
            last = min(self._size, max(end, first + LEAST_READ))
            self._held_from, self._held = first, tried(lambda: bytes(self._file.read_at(last - first, first)))
        self._at = end
        return self._held[start - self._held_from : end - self._held_from]

    def close(self) -> None:
        """Let go of the file."""
        if not self.closed:
            self._file.close()
            self._held = b""
        super().close()


def tried(read: Callable[[], T]) -> T:
    """What ``read`` returns, tried again when the store fails. Raises the last error; FileNotFoundError at once."""
    for attempt in range(READS - 1):
        try:
            return read()
        except FileNotFoundError:
            raise
        except OSError:
            time.sleep(FIRST_PAUSE_S * 2**attempt)
    return read()
