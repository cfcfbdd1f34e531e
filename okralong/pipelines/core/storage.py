"""Folders of immutable files on a disk or on any filesystem that pyarrow knows (``s3://``, ``gs://``, ``abfs://``).

A file appears under its final name only when it is whole: locally by rename after fsync, elsewhere because an object
store shows an object when its upload ends. A manifest is written last, and a lock says who writes.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import io
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout
from pyarrow import fs
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from okralong.pipelines.core.schemas import columns_in, completed
from okralong.pipelines.core.types import ArchiveError, BrokenError, ConfigError, LockedError

if TYPE_CHECKING:
    from obstore.store import S3Config

MANIFEST: Final = "manifest.json"
LOCK: Final = "lock.json"
"""Of a folder on an object store."""
LOOK_AGAIN_S: Final = 1.0
"""Between writing the lock and reading it, where a filesystem (HDFS) cannot create a file only if it is absent: longer
than another's request may be on its way. Ours."""
FEW_ROWS: Final = 64
"""Rows up to which a file is written without dictionaries and, where it is small, without compression: half the
processor time. A run merges its small files. Ours, measured."""
SMALL_BYTES: Final = 64 * 1024
"""Beyond it few rows are compressed too: a file of the ``documents`` table has 64 rows at most, each a report. Ours."""


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
        return self.at(name).is_there

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
        if not _is_object_store(self.filesystem):
            self.filesystem.create_dir(self.path, recursive=True)

    def open(self, name: str) -> pa.NativeFile:
        """A file in here, open for reading and seeking. Raises FileNotFoundError."""
        return open_file(self.filesystem, self.at(name).path)

    def read_bytes(self, name: str) -> bytes:
        """The content of a file in here. Raises FileNotFoundError."""
        with self.open(name) as file:
            return bytes(file.read())

    def read_table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A Parquet file in here, or some of its columns, as it is. Raises FileNotFoundError."""
        with self.open(name) as file:
            return pq.ParquetFile(file).read(columns=columns)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a whole file, durable and never seen half-written."""
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
        except BaseException:  # a full disk: what is half-written would keep it full
            with contextlib.suppress(OSError):  # a disk that is read-only
                partial.unlink(missing_ok=True)
            raise

    def create_bytes(self, name: str, data: bytes) -> None:
        """The same for a file that must not be there yet. Raises FileExistsError, and then has written nothing.

        The name is taken in one step: locally by a link, on an object store by a conditional put. Only a filesystem
        that has neither (HDFS) is looked at first, which is not one step: the caller holds the folder's lock.
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
        elif not _is_object_store(self.filesystem):
            self.write_bytes(name, data)
        elif not _create_object(self.filesystem, self.at(name).path, data) and self._content(name) != data:
            # Equal bytes are our own: a put whose reply was lost was sent again.
            raise FileExistsError(self.at(name).path)

    def copy_out(self, name: str, target: Path) -> None:
        """Copy a file in here to a local place. Raises FileNotFoundError."""
        with self.open(name) as file, target.open("wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)

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
        found = [self._read_checked(name, schema, columns) for name in self.names(".parquet")]
        return pa.concat_tables([completed(table, wanted) for table in found]) if found else wanted.empty_table()

    def _read_checked(self, name: str, schema: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
        with self.open(name) as file:
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

        On a local folder the operating system's own lock is taken, which a killed process gives back; on an object
        store the file ``lock.json``, which stays behind. Raises LockedError naming the holder.
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
            if not _is_object_store(self.filesystem):
                time.sleep(LOOK_AGAIN_S)  # of two that looked in the same instant, the last one to write has it
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
            # A lock whose holder has just ended, also while it was read: what a store says then is larger than a lock,
            # and its client knows no error whose message does not fit what is read.
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


# What to tell the user when storage cannot be written.

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
_SHORT_WRITE: Final = re.compile(r"\d+ requested and \d+ written")
"""What NumPy raises for an array that did not fit on the disk, as an OSError without a number."""
_QUOTED_ERROR: Final = re.compile(r"(?:OSError|PermissionError): \[Errno (\d+)\] ")
_QUOTED_PATH: Final = re.compile(r"['\"](/[^'\"]+)['\"]")


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name ``path`` in an OSError of the block that names no file, or one that is renamed to it when it is whole: a
    failed ``write`` knows only a descriptor.
    """
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None or str(error.filename).endswith(".partial")
        if unnamed and error.errno is not None:
            error.filename = str(path)
        raise


def not_written(what: str, error: BaseException, room_for: str = "") -> BrokenError:
    """The error to stop with where ``what`` cannot be written; ``room_for`` is what it has no room for."""
    said = str(error).strip().splitlines()[-1].rstrip(".")
    return BrokenError(
        f"{what} cannot be written{f', and has no room for {room_for}' if room_for else ''}: {said}. Make room on its "
        "disk, or make it writable, and run the same command again: what was finished is kept, and no reply that "
        "arrived is paid for again."
    )


def storage_failure(error: BaseException) -> BrokenError | None:
    """The error to stop with when ``error``, or what it was raised from, is a full disk or a place that may not be
    written; None for any other error. Errors of Ray tasks are looked into, and those of libraries that know no errno.
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
    """The error number of a full disk or a forbidden write; None where it is another error."""
    if isinstance(error, OSError) and error.errno is not None:
        # EACCES and EPERM are also those of a socket or a process, which have no path.
        known = error.errno in (errno.EROFS, *_FULL) or _path_of(error) != ""
        return error.errno if known and error.errno in (*_FULL, *_FORBIDDEN) else None
    if isinstance(error, OSError) and _SHORT_WRITE.search(str(error)):
        return errno.ENOSPC
    # safetensors, FAISS and DuckDB have errors of their own, and Ray's hold the text of what was raised.
    said = _line_of(error)
    if (quoted := _QUOTED_ERROR.match(said)) is not None:
        return int(quoted[1]) if int(quoted[1]) in (*_FULL, *_FORBIDDEN) else None
    return next((number for number in (*_FULL, errno.EROFS) if os.strerror(number) in said), None)


def _line_of(error: BaseException) -> str:
    """The line of an error's text that says what storage could not do: its last, or that of an OSError quoted in it."""
    lines = [each for each in str(error).strip().splitlines() if each.strip()]
    quoted = [each for each in lines if _QUOTED_ERROR.match(each)]
    return (quoted or lines or [""])[-1]


def _path_of(error: BaseException) -> str:
    named = getattr(error, "filename", None)
    quoted = _QUOTED_PATH.search(_line_of(error))
    return str(named) if isinstance(named, str | os.PathLike) else quoted[1] if quoted else ""


def _not_stored(number: int, error: BaseException) -> BrokenError:
    where = _path_of(error) or "a file of this command"
    if number in _FULL:
        return BrokenError(
            f"The disk is full: {where} could not be written ({os.strerror(number)}). Make room on its disk and run "
            "the same command again: what was finished is kept."
        )
    return BrokenError(
        f"{where[0].upper()}{where[1:]} cannot be written ({os.strerror(number)}). Make it writable for this user, or "
        "name another place, and run the same command again."
    )


# Where a location is.

ATTEMPTS: Final = 10
"""Tries of one request, with pauses that double up to 20 s (AWS's standard strategy). Ours: about a minute in all."""
CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""How long a connection may take, and a reply that has begun may be silent; the AWS client's own 3 s are too few for a
store that is busy. Ours."""

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
    if filesystem.type_name == "s3":
        waits = {"connect_timeout": CONNECT_S, "request_timeout": SILENCE_S}
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS)
        # With a delayed open a small file is one request, where three would open, fill and close a multipart upload.
        filesystem = fs.S3FileSystem(
            **{**_options(filesystem), **waits, "allow_delayed_open": True, "retry_strategy": retries}
        )
    return filesystem, path


def holds_credentials(location: str) -> bool:
    """Whether a URI names a user or a password, or a key in its query. (Azure's CONTAINER@ACCOUNT is no user.)"""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return False
    authority = rest.split("/", 1)[0]
    azure = scheme in ("abfs", "abfss") and ":" not in authority.partition("@")[0]
    named = any(_SECRET.search(name) for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    return named or ("@" in authority and not azure)


def _is_object_store(filesystem: fs.FileSystem) -> bool:
    """Whether it has keys and no folders: nothing need be made before a file is written."""
    return filesystem.type_name in ("s3", "gcs", "abfs")  # pyarrow's type names; a build may lack some of the classes


def _options(filesystem: fs.FileSystem) -> dict[str, Any]:
    """All options of a store, as it would be pickled with them."""
    return dict(filesystem.__reduce__()[1][0])


# What pyarrow's filesystems cannot do: create an object only if it is absent, and read on after an error.


def _create_object(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    """Write an object by a conditional put; whether it was written, False where one of that name is there already.

    Raises OSError when the store does not take it, PermissionError when it may not be written by us.
    """
    from obstore import put
    from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import AzureStore, GCSStore, S3Store

    container, key = path.split("/", 1)
    options = _options(filesystem)
    store: AzureStore | GCSStore | S3Store
    if filesystem.type_name == "gcs":
        store = GCSStore(container)
    elif filesystem.type_name == "abfs":
        store = AzureStore(container, account_name=options["account_name"])
    else:
        endpoint = options["endpoint_override"]
        if endpoint and "://" not in endpoint:
            endpoint = f"{options['scheme']}://{endpoint}"
        config: S3Config = {"region": filesystem.region, **_keys()}
        if endpoint:
            config["endpoint"] = endpoint
        store = S3Store(container, config=config, client_options={"allow_http": endpoint.startswith("http:")})

    def send() -> bool:
        try:
            put(store, key, data, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except BaseError as error:
            denied = isinstance(error, PermissionDeniedError | UnauthenticatedError)
            raise (PermissionError if denied else OSError)(f"{path} could not be created: {error}") from error
        return True

    # The client sends a request again that was refused, but not one whose reply was cut off.
    return bool(_retrying(send))


def _keys() -> S3Config:
    """The keys of the AWS credentials file, which pyarrow's client reads and obstore's does not; none where the
    environment has some, or there is no such file."""
    profiles = configparser.ConfigParser(interpolation=None)
    if "AWS_ACCESS_KEY_ID" not in os.environ:
        profiles.read(Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser())
    profile = os.environ.get("AWS_PROFILE", "default")
    said = dict(profiles[profile]) if profile in profiles else {}
    names = ("access_key_id", "secret_access_key", "session_token")
    return cast("S3Config", {name: said[f"aws_{name}"] for name in names if f"aws_{name}" in said})


LEAST_READ: Final = 64 * 1024
"""Bytes that are read at least, where the file has them: one round trip for many small columns, and more than an
error's message. The AWS client reads a reply into a buffer of the size that was asked for; into that of a small read
the message of a 500 does not fit, and the client takes the error for one that will not pass. Ours."""
READS: Final = 8
FIRST_PAUSE_S: Final = 0.1
"""Tries of a read that the client gave up on, and the first of the pauses between them, which double. Ours."""


def open_file(filesystem: fs.FileSystem, path: str) -> pa.NativeFile:
    """A file, open for reading and seeking; on S3 its reads are tried again. Raises FileNotFoundError."""
    # As a file, not a stream: a stream would ask an object store for each quarter of a MiB.
    file = filesystem.open_input_file(path)
    return pa.PythonFile(RetryingFile(file), mode="r") if filesystem.type_name == "s3" else file


class RetryingFile(io.RawIOBase):
    """An open file of a store, read in pieces of ``LEAST_READ`` bytes or more, each retried when the store fails."""

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
        """The next bytes; b"" at the end. Raises the last error of the store."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        start = min(self._at, end)
        if start < self._held_from or end > self._held_from + len(self._held):
            first = max(0, min(start, max(end, start + LEAST_READ, LEAST_READ) - LEAST_READ))
            last = min(self._size, max(end, first + LEAST_READ))
            self._held_from, self._held = first, bytes(_retrying(self._file.read_at, last - first, first))
        self._at = end
        return self._held[start - self._held_from : end - self._held_from]

    def close(self) -> None:
        """Let go of the file."""
        if not self.closed:
            self._file.close()
            self._held = b""
        super().close()


def _passes(error: BaseException) -> bool:
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError | PermissionError)


_retrying: Final = Retrying(
    retry=retry_if_exception(_passes),
    stop=stop_after_attempt(READS),
    wait=wait_exponential(multiplier=FIRST_PAUSE_S),
    reraise=True,
)
