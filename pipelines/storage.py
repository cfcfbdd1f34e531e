"""Folders of immutable Parquet files, a manifest written last, and a lock that says who holds it.

Every path may be local or any URI that pyarrow knows (``s3://``, ``gs://``). A file appears under its final name only
when it is whole: locally by rename after fsync, elsewhere because an object store shows an object when its upload ends.
"""

from __future__ import annotations

import contextlib
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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from okralong.pipelines.errors import ArchiveError, LockedError
from okralong.pipelines.filesystem import is_object_store, located
from okralong.pipelines.tables import columns_in, completed

MANIFEST = "manifest.json"
LOCK = "lock.json"
"""Of a folder on an object store."""
LOOK_AGAIN_S = 1.0
"""Between writing that lock and looking whose it is: longer than another's request may be on its way. Ours."""
FEW_ROWS = 64
"""Rows up to which a file is written without dictionaries and, where it is small, without compression: half the
processor time. A run merges its small files. Ours, measured."""
SMALL_BYTES = 64 * 1024
"""Beyond it few rows are compressed too: a part of the ``documents`` table has 64 files at most, each a report.
Ours."""


@dataclass(frozen=True)
class Folder:
    """A folder on some filesystem. ``path`` is the path inside ``filesystem``."""

    filesystem: fs.FileSystem
    path: str

    @classmethod
    def of(cls, location: str | Path) -> Folder:
        """The folder at a local path or URI (see ``located``). It need not exist yet."""
        return cls(*located(location))

    @property
    def is_local(self) -> bool:
        """True when plain file calls (rename, fsync, memory map) work on ``path``."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def at(self, *parts: str) -> Folder:
        """The folder below this one."""
        return Folder(self.filesystem, "/".join((self.path.rstrip("/"), *parts)))

    def exists(self, name: str) -> bool:
        """Whether a file or folder of that name is in here."""
        info = self.filesystem.get_file_info(self.at(name).path)
        return bool(info.type != fs.FileType.NotFound)

    @property
    def is_there(self) -> bool:
        """Whether the folder itself is there."""
        return bool(self.filesystem.get_file_info(self.path).type != fs.FileType.NotFound)

    def names(self, suffix: str = "") -> list[str]:
        """Names of the entries right in here that end in ``suffix``, sorted; empty when the folder is missing."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        return sorted(
            info.base_name for info in self.filesystem.get_file_info(selector) if info.base_name.endswith(suffix)
        )

    def create(self) -> None:
        """Make the folder and its parents; an object store has none."""
        if not is_object_store(self.filesystem):
            self.filesystem.create_dir(self.path, recursive=True)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a whole file, durable and never seen half-written."""
        self.create()
        if not self.is_local:
            with self.filesystem.open_output_stream(self.at(name).path) as out:
                out.write(data)
            return
        final = Path(self.path) / name
        partial = final.with_name(f".{name}.{uuid.uuid4().hex}.partial")
        try:
            with partial.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            partial.rename(final)
        except BaseException:  # a full disk: what is half-written would keep it full
            partial.unlink(missing_ok=True)
            raise

    def create_bytes(self, name: str, data: bytes) -> None:
        """The same for a file that must not be there yet. Raises FileExistsError, and then has written nothing.

        Locally the name is taken in one step. An object store is asked first, which is not one step: the caller holds
        the folder's lock.
        """
        if not self.is_local:
            if self.exists(name):
                raise FileExistsError(self.at(name).path)
            self.write_bytes(name, data)
            return
        partial = f".{name}.{uuid.uuid4().hex}.partial"
        self.write_bytes(partial, data)
        try:
            os.link(self.at(partial).path, self.at(name).path)
        finally:
            self.remove(partial)

    def read_bytes(self, name: str) -> bytes:
        """The content of a file in here. Raises FileNotFoundError."""
        # As a file, not a stream: a stream would ask an object store for each quarter of a MiB.
        with self.filesystem.open_input_file(self.at(name).path) as file:
            return bytes(file.read())

    def write_file(self, name: str, source: Path) -> None:
        """Write a whole file from a local one, as ``write_bytes`` does, a block in memory at a time."""
        self.create()
        if not self.is_local:
            fs.copy_files(str(source), self.at(name).path, fs.LocalFileSystem(), self.filesystem)
            return
        partial = Path(self.path) / f".{name}.{uuid.uuid4().hex}.partial"
        try:
            with source.open("rb") as data, partial.open("wb") as out:
                shutil.copyfileobj(data, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
            partial.rename(Path(self.path) / name)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def copy_out(self, name: str, target: Path) -> None:
        """Copy a file in here to a local place. Raises FileNotFoundError."""
        fs.copy_files(self.at(name).path, str(target), self.filesystem, fs.LocalFileSystem())

    def remove(self, name: str) -> None:
        """Delete one file; a missing one is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.at(name).path)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write one Parquet file (zstd, but for a few small rows) with the table's own schema."""
        buffer = io.BytesIO()
        many = table.num_rows > FEW_ROWS
        compressed = many or table.nbytes > SMALL_BYTES
        # No two numbers of a vector are equal: a dictionary of them is half as large again as they are.
        vectors = any(map(pa.types.is_fixed_size_list, table.schema.types))
        dictionary = many and not vectors
        pq.write_table(table, buffer, compression="zstd" if compressed else "none", use_dictionary=dictionary)
        self.write_bytes(name, buffer.getvalue())

    def read_tables(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
        """All Parquet files in here (not below), in order of their names, as one table of ``schema``.

        Raises ArchiveError when a file has another schema version. A missing folder gives an empty table.
        """
        wanted = schema if columns is None else pa.schema([schema.field(c) for c in columns], schema.metadata)
        parts = [self._read_part(name, schema, columns) for name in self.names(".parquet")]
        return pa.concat_tables([completed(part, wanted) for part in parts]) if parts else wanted.empty_table()

    def _read_part(self, name: str, schema: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
        with self.filesystem.open_input_file(self.at(name).path) as file:
            parquet = pq.ParquetFile(file, pre_buffer=not self.is_local)
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
        """Write ``manifest.json``: the last act of a job, so that its presence means complete."""
        self.write_bytes(MANIFEST, json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False).encode())

    def read_manifest(self) -> dict[str, Any] | None:
        """The manifest, or None while the folder is not complete."""
        if not self.exists(MANIFEST):
            return None
        return dict(json.loads(self.read_bytes(MANIFEST)))

    @contextlib.contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold the one writer's lock of this folder, as ``what`` (e.g. "okralong answer").

        On a local folder the operating system's own lock is taken, which a killed process gives back. Raises
        LockedError naming the holder.
        """
        self.create()
        if not self.is_local:
            yield from _object_lock(self, what)
            return
        import fcntl

        path = Path(self.path) / ".lock"
        with path.open("a+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                handle.seek(0)
                raise LockedError(_held(self.path, handle.read())) from error
            handle.seek(0)
            handle.truncate()
            handle.write(_holder(what))
            handle.flush()
            try:
                yield
            finally:
                handle.seek(0)
                handle.truncate()


def _object_lock(folder: Folder, what: str) -> Iterator[None]:
    """A store has no step that looks and writes at once. So the last one to write has it: after a pause each reads what
    stands there, and whoever finds another's word goes, and leaves that alone.
    """
    mine = _holder(what).encode()
    if not folder.exists(LOCK):
        folder.write_bytes(LOCK, mine)
        time.sleep(LOOK_AGAIN_S)
    found = _lock_of(folder)
    if found != mine:
        held = _held(folder.path, found.decode())
        raise LockedError(f"{held} If that process was killed, delete {folder.at(LOCK).path}.")
    try:
        yield
    finally:
        if _lock_of(folder) == mine:
            folder.remove(LOCK)


def _lock_of(folder: Folder) -> bytes:
    try:
        return folder.read_bytes(LOCK)
    except FileNotFoundError:  # its holder has just ended
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
