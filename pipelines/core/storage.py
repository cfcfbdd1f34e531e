"""An S3 store whose reads bear errors: pyarrow's filesystem with every read made large enough, and tried again.

The AWS client reads a reply into a buffer of the size that was asked for. The message of a 500 does not fit into that
of a small read (a Parquet column of few rows), and the client then takes the error for one that will not pass.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from okralong.pipelines.core.schemas import columns_in, completed
from okralong.pipelines.core.types import ArchiveError, ConfigError, LockedError

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


# --------
# Where a location is: a local path or a URI that pyarrow knows, opened with the patience that an object store needs.
#
# A store far away answers 500 or 503 now and then, and is slow when it is busy. The AWS client under pyarrow gives up
# after 3 s of silence and a few attempts, which a night of work should not depend on.

ATTEMPTS: Final = 10
"""Tries of one request, with pauses that double up to 20 s (AWS's standard strategy). Ours: about a minute in all."""
CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""How long a connection may take, and a reply that has begun may be silent. Ours."""

_SECRET: Final = re.compile(r"key|secret|token|passw|credential|signature|^sig$", re.IGNORECASE)


def located(location: str | Path) -> tuple[fs.FileSystem, str]:
    """The filesystem of a local path or URI, and the absolute path inside it. Nothing need be there yet.

    Region, endpoint and credentials of an object store come from the environment of the process (``AWS_REGION``,
    ``AWS_ENDPOINT_URL``, a role or ``AWS_ACCESS_KEY_ID``; ``GOOGLE_APPLICATION_CREDENTIALS``). Raises ConfigError for a
    URI that holds credentials, or of a kind that pyarrow does not know.
    """
    text = str(location)
    if "://" not in text:
        return fs.LocalFileSystem(), str(Path(text).resolve())
    if holds_credentials(text):
        # The value is not repeated: locations are written into manifests and shown, and this one holds a key.
        raise ConfigError(
            "A location must not hold credentials (KEY:SECRET@, or a query that names a key). Give the bare URI, and "
            "set the credentials in the environment of every node, as the storage's own client wants them."
        )
    try:
        filesystem, path = fs.FileSystem.from_uri(text)
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"The location {text} cannot be used: {error}. Give a local path, or a URI of a kind that this pyarrow "
            "knows: s3://BUCKET/PATH, gs://BUCKET/PATH, abfs://, hdfs://, file:///."
        ) from error
    return _patient(filesystem), path


def holds_credentials(location: str) -> bool:
    """Whether a URI names a user or a password, or a key in its query. (Azure's CONTAINER@ACCOUNT is no user.)"""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return False
    authority = rest.split("/", 1)[0]
    azure = scheme in ("abfs", "abfss") and ":" not in authority.partition("@")[0]
    named = any(_SECRET.search(name) for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    return named or ("@" in authority and not azure)


def is_object_store(filesystem: fs.FileSystem) -> bool:
    """Whether it has keys and no folders: nothing need be made before a file is written."""
    stores = ("s3", "gcs", "abfs")  # pyarrow's type names; a build may lack some of the classes
    return filesystem.type_name.removeprefix("py::") in stores


def _patient(filesystem: fs.FileSystem) -> fs.FileSystem:
    if filesystem.type_name != "s3":
        return filesystem
    options: dict[str, Any] = dict(filesystem.__reduce__()[1][0])  # what it would be pickled as: all of its options
    options |= {"connect_timeout": CONNECT_S, "request_timeout": SILENCE_S}
    # One request for a small file, where three would open, fill and close a multipart upload.
    options |= {"allow_delayed_open": True, "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)}
    return fs.PyFileSystem(PatientStore(fs.S3FileSystem(**options)))


# --------
# Folders of immutable Parquet files, a manifest written last, and a lock that says who holds it.
#
# Every path may be local or any URI that pyarrow knows (``s3://``, ``gs://``). A file appears under its final name
# only when it is whole: locally by rename after fsync, elsewhere because an object store shows an object when its
# upload ends.

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
