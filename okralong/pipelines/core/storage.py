"""Folders of immutable files on a local disk or an object store.

A file appears under its final name only when it is complete: locally by a rename after fsync, on an object store
because an object becomes visible when its upload ends. The manifest is written last, and a lock keeps other writers
out.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from pyarrow import fs

from okralong.pipelines.core.filesystems import create_object, is_object_store, located, open_file
from okralong.pipelines.core.schemas import columns_in, completed
from okralong.pipelines.core.storage_errors import writing
from okralong.pipelines.core.types import ArchiveError, BrokenError, LockedError
from okralong.pipelines.core.wording import shortened

MANIFEST: Final = "manifest.json"
LOCK: Final = "lock.json"
"""The lock file of a folder on an object store."""
LOOK_AGAIN_S: Final = 1.0
"""Pause between writing and reading the lock where a filesystem (HDFS) has no atomic creation: longer than another
writer's request takes. # project default"""
FEW_ROWS: Final = 64
"""Files of up to this many rows are written without dictionaries and, if small, without compression, which halves the
processor time; a run merges its small files. # project default"""
SMALL_BYTES: Final = 64 * 1024
"""Larger files are compressed whatever their rows: 64 rows of ``documents`` are 64 reports. # project default"""

_WITHOUT_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
"""Errors of ``flock`` on file systems without locks."""


@dataclass(frozen=True)
class Folder:
    """A folder; ``path`` is its path inside ``filesystem``."""

    filesystem: fs.FileSystem
    path: str

    @classmethod
    def of(cls, location: str | Path) -> Folder:
        """Return the folder at a local path or URI (see ``located``), which need not exist yet."""
        return cls(*located(location))

    @property
    def is_local(self) -> bool:
        """True if plain file calls (rename, fsync, memory map) work on ``path``."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def at(self, *parts: str) -> Folder:
        """Return the folder below this one."""
        return Folder(self.filesystem, "/".join((self.path.rstrip("/"), *parts)))

    def exists(self, name: str) -> bool:
        """Return whether the folder holds a file or folder of that name."""
        return self.at(name).is_there

    @property
    def is_there(self) -> bool:
        """True if the folder exists."""
        return bool(self.filesystem.get_file_info(self.path).type != fs.FileType.NotFound)

    def names(self, suffix: str = "") -> list[str]:
        """Return the sorted names of direct entries that end in ``suffix``; a missing folder has none."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        return sorted(
            info.base_name for info in self.filesystem.get_file_info(selector) if info.base_name.endswith(suffix)
        )

    def create(self) -> None:
        """Create the folder and its parents; a no-op on an object store."""
        if not is_object_store(self.filesystem):
            try:
                self.filesystem.create_dir(self.path, recursive=True)
            except FileExistsError as error:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self.path) from error

    def open(self, name: str) -> pa.NativeFile:
        """Open a file of the folder for reading and seeking. Raises FileNotFoundError."""
        return open_file(self.filesystem, self.at(name).path)

    def read_bytes(self, name: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""
        with self.open(name) as file:
            return bytes(file.read())

    def read_json(self, name: str) -> Any:
        """Return the content of a JSON file. Raises FileNotFoundError, and ArchiveError if it is damaged."""
        try:
            return json.loads(self.read_bytes(name))
        except ValueError as error:
            raise ArchiveError(
                f"{self.at(name).path} is damaged: it is not JSON ({error}). Restore it from a copy. Without one, "
                "okralong repair RUN says how a run goes on; index an archive again in a new folder."
            ) from error

    @contextlib.contextmanager
    def parquet(self, name: str, **options: Any) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file, with pyarrow's ``options``. Its checksums are verified as it is read.

        Raises FileNotFoundError, and ArchiveError if it is damaged.
        """
        with self.open(name) as file, self.naming_damage(name):
            yield pq.ParquetFile(file, page_checksum_verification=True, **options)

    @contextlib.contextmanager
    def naming_damage(self, name: str) -> Iterator[None]:
        """Raise ArchiveError for what pyarrow raises while it reads a damaged Parquet file."""
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, UnicodeDecodeError, OSError) as error:
            # The errors of a disk have a number; a store's client may leave it out.
            if isinstance(error, OSError) and (error.errno is not None or not self.is_local):
                raise
            raise ArchiveError(
                f"{self.at(name).path} is damaged: {shortened(str(error).rstrip('.'), 200)}. Restore it from a copy. "
                "Without one, okralong repair RUN puts the damaged files of a run aside; index an archive again in a "
                "new folder."
            ) from error

    def read_table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a Parquet file or some of its columns, without a check of its schema (see ``parquet``)."""
        with self.parquet(name) as file:
            return file.read(columns=columns)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file atomically and durably."""
        self.create()
        if not self.is_local:
            with self.filesystem.open_output_stream(self.at(name).path) as out:
                out.write(data)
            return
        partial = Path(self.path) / f".{name}.{uuid.uuid4().hex}.partial"
        try:
            with writing(Path(self.path) / name), partial.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            partial.rename(Path(self.path) / name)
        except BaseException:  # a partial file would occupy a full disk
            with contextlib.suppress(OSError):  # the disk may be read-only
                partial.unlink(missing_ok=True)
            raise

    def create_bytes(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet.

        The creation is atomic: a link locally, a conditional put on an object store. On a filesystem with neither
        (HDFS) the check comes first and the caller must hold the folder's lock.

        Raises:
            FileExistsError: The file exists; nothing was written.
        """
        if self.is_local:
            partial = f".{name}.{uuid.uuid4().hex}.partial"
            self.write_bytes(partial, data)
            try:
                os.link(self.at(partial).path, self.at(name).path)
            finally:
                self.remove(partial)
        elif self.exists(name):
            raise FileExistsError(self.at(name).path)
        elif not is_object_store(self.filesystem):
            self.write_bytes(name, data)
        elif not create_object(self.filesystem, self.at(name).path, data) and self._content(name) != data:
            # Equal bytes are this process's own: the client repeated a put whose reply was lost.
            raise FileExistsError(self.at(name).path)

    def copy_out(self, name: str, target: Path) -> None:
        """Copy a file to a local path. Raises FileNotFoundError."""
        with self.open(name) as file, target.open("wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.at(name).path)

    def write_table(self, name: str, table: pa.Table, group_rows: int | None = None) -> None:
        """Write a Parquet file with the table's schema, compressed with zstd unless it is small.

        ``group_rows`` is the size of its row groups; by default, few are large.
        """
        buffer = io.BytesIO()
        many = table.num_rows > FEW_ROWS
        compressed = many or table.nbytes > SMALL_BYTES
        # Numbers of vectors rarely repeat: a dictionary would add half their size.
        vectors = any(map(pa.types.is_fixed_size_list, table.schema.types))
        dictionary = many and not vectors
        codec = "zstd" if compressed else "none"
        options: dict[str, Any] = {"use_dictionary": dictionary, "row_group_size": group_rows}
        pq.write_table(table, buffer, compression=codec, write_page_checksum=True, **options)
        self.write_bytes(name, buffer.getvalue())

    def read_tables(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all Parquet files of the folder, in order of their names, as one table of ``schema``.

        Return an empty table for a missing folder.

        Raises:
            ArchiveError: A file has an unknown schema version.
        """
        wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns], schema.metadata)
        found = [self._read_checked(name, schema, columns) for name in self.names(".parquet")]
        return pa.concat_tables([completed(table, wanted) for table in found]) if found else wanted.empty_table()

    def _read_checked(self, name: str, schema: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
        with self.parquet(name, pre_buffer=not self.is_local) as parquet:
            found = (parquet.schema_arrow.metadata or {}).get(b"okralong.schema_version", b"?").decode()
            held = columns_in(schema, found)
            if held is None:
                newest = schema.metadata[b"okralong.schema_version"].decode()
                raise ArchiveError(
                    f"{self.at(name).path} has schema version {found}, this okralong reads version {newest}. "
                    "Index the archive again, or use the okralong version that wrote it (see the manifest)."
                )
            return parquet.read(columns=[column for column in held if columns is None or column in columns])

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Write ``manifest.json``. Jobs do so last: its presence means that the folder is complete."""
        self.write_bytes(MANIFEST, json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False).encode())

    def read_manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None while the folder is incomplete."""
        if not self.exists(MANIFEST):
            return None
        return dict(self.read_json(MANIFEST))

    @contextlib.contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold the writer's lock of the folder, as ``what`` (e.g. "okralong answer").

        A local folder uses a lock of the operating system, which a killed process releases; an object store uses the
        file ``lock.json``, which a killed process leaves behind.

        Raises:
            LockedError: Another process holds the lock; the message names it.
            BrokenError: The folder's file system has no locks.
        """
        self.create()
        if not self.is_local:
            yield from self._object_locked(what)
            return
        path = Path(self.path) / ".lock"
        try:
            lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False).acquire()
        except Timeout as error:
            raise LockedError(_held(self.path, path.read_text())) from error
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise
            raise BrokenError(
                f"{self.path} cannot be locked ({os.strerror(error.errno)}): its file system has no locks, or is "
                "mounted without them, and two writers would damage the folder. Choose a folder on another disk, or "
                "mount this one with locks (NFS: without nolock)."
            ) from error
        with lock:
            with writing(path):
                path.write_text(_holder(what))
            try:
                yield
            finally:
                path.write_text("")

    def _object_locked(self, what: str) -> Iterator[None]:
        mine = _holder(what).encode()
        with contextlib.suppress(FileExistsError):
            self.create_bytes(LOCK, mine)
            if not is_object_store(self.filesystem):
                time.sleep(LOOK_AGAIN_S)  # of two simultaneous writers, the last one wins
        found = self._content(LOCK)
        if found != mine:
            held = _held(self.path, found.decode())
            raise LockedError(f"{held} If that process was killed, delete {self.at(LOCK).path}.")
        try:
            yield
        finally:
            if self._content(LOCK) == mine:
                self.remove(LOCK)

    def _content(self, name: str) -> bytes:
        try:
            return self.read_bytes(name)
        except OSError:
            # The holder ended while its lock was read: the store's error message does not fit the read, and its client
            # reports another error.
            if self.exists(name):
                raise
            return b""


def _holder(what: str) -> str:
    return json.dumps(
        {
            "what": what,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": time.strftime("%FT%TZ", time.gmtime()),
            "mark": uuid.uuid4().hex,
        }
    )


def _held(path: str, holder: str) -> str:
    return (
        f"{path} is being written by another process: {holder or 'unknown'}. Wait until it ends, or stop it; "
        "a folder has one writer at a time."
    )
