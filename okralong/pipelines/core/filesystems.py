"""Filesystems of local paths and URIs (``s3://``, ``gs://``, ``abfs://``), with the retries that object stores need."""

from __future__ import annotations

import configparser
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl

import pyarrow as pa
from pyarrow import fs
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from okralong.pipelines.core.types import ConfigError

if TYPE_CHECKING:
    from obstore.store import S3Config

ATTEMPTS: Final = 10
"""Attempts of one request, with pauses that double up to 20 s (AWS's standard strategy): about a minute in all.
# project default"""
CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""Timeouts for connecting and between two parts of a reply; the AWS client's 3 s are too short for a busy store.
# project default"""

_SECRET: Final = re.compile(r"key|secret|token|passw|credential|signature|^sig$", re.IGNORECASE)


def located(location: str | Path) -> tuple[fs.FileSystem, str]:
    """Return the filesystem of a local path or URI, and the absolute path inside it, which need not exist yet.

    Region, endpoint and credentials of an object store come from the environment of the process (``AWS_REGION``,
    ``AWS_ENDPOINT_URL``, a role or ``AWS_ACCESS_KEY_ID``; ``GOOGLE_APPLICATION_CREDENTIALS``).

    Raises:
        ConfigError: The URI holds credentials, or has a scheme that pyarrow does not know.
    """
    text = str(location)
    if "://" not in text:
        return fs.LocalFileSystem(), str(Path(text).resolve())
    if holds_credentials(text):
        # The message must not repeat the location, which holds a key.
        raise ConfigError(
            "A location must not hold credentials (KEY:SECRET@, or a query that names a key). Give the bare URI, and "
            "set the credentials in the environment of every node, in the form that the storage's client expects."
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
        # A delayed open writes a small file in one request instead of the three of a multipart upload.
        filesystem = fs.S3FileSystem(
            **{**_options(filesystem), **waits, "allow_delayed_open": True, "retry_strategy": retries}
        )
    return filesystem, path


def holds_credentials(location: str) -> bool:
    """Return whether a URI holds a user, a password, or a key in its query; Azure's CONTAINER@ACCOUNT does not."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return False
    authority = rest.split("/", 1)[0]
    azure = scheme in ("abfs", "abfss") and ":" not in authority.partition("@")[0]
    named = any(_SECRET.search(name) for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    return named or ("@" in authority and not azure)


def is_object_store(filesystem: fs.FileSystem) -> bool:
    """Return whether the filesystem has keys instead of folders, so that folders need not be created."""
    return filesystem.type_name in ("s3", "gcs", "abfs")  # pyarrow's type names; a build may lack some of the classes


def _options(filesystem: fs.FileSystem) -> dict[str, Any]:
    return dict(filesystem.__reduce__()[1][0])


# Two operations that pyarrow's filesystems lack: create an object only if it is absent, and retry a failed read.


def create_object(filesystem: fs.FileSystem, path: str, data: bytes) -> bool:
    """Write an object by a conditional put; return False if one of that name exists.

    Raises:
        PermissionError: The credentials do not allow it.
        OSError: The store rejected it for another reason.
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

    # The client retries a refused request, but not one whose reply was cut off.
    return bool(_retrying(send))


def _keys() -> S3Config:
    """Return the keys of the AWS credentials file, which obstore does not read; empty if the environment has keys."""
    profiles = configparser.ConfigParser(interpolation=None)
    if "AWS_ACCESS_KEY_ID" not in os.environ:
        profiles.read(Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")).expanduser())
    profile = os.environ.get("AWS_PROFILE", "default")
    said = dict(profiles[profile]) if profile in profiles else {}
    names = ("access_key_id", "secret_access_key", "session_token")
    return cast("S3Config", {name: said[f"aws_{name}"] for name in names if f"aws_{name}" in said})


LEAST_READ: Final = 64 * 1024
"""Smallest read in bytes: one round trip for many small columns, and space for an error's message. The AWS client reads
a reply into a buffer of the requested size; if the message of a 500 does not fit, the client treats the error as
permanent. # project default"""
READS: Final = 8
FIRST_PAUSE_S: Final = 0.1
"""Attempts of a read that the client gave up on, and the first pause between them, which doubles. # project default"""


def open_file(filesystem: fs.FileSystem, path: str) -> pa.NativeFile:
    """Open a file for reading and seeking; reads on S3 are retried. Raises FileNotFoundError."""
    # A stream would send a request to an object store for every 256 KiB.
    file = filesystem.open_input_file(path)
    return pa.PythonFile(RetryingFile(file), mode="r") if filesystem.type_name == "s3" else file


class RetryingFile(io.RawIOBase):
    """An open file of an object store that reads at least ``LEAST_READ`` bytes at a time and retries failed reads."""

    def __init__(self, file: pa.NativeFile) -> None:
        super().__init__()
        self._file = file
        self._size = int(file.size())
        self._at = 0
        self._held_from, self._held = 0, b""

    def readable(self) -> bool:
        """See ``io.RawIOBase``."""
        return True

    def seekable(self) -> bool:
        """See ``io.RawIOBase``."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset and return it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, b"" at the end. Raises the store's last error."""
        end = self._size if size is None or size < 0 else min(self._size, self._at + size)
        start = min(self._at, end)
        if start < self._held_from or end > self._held_from + len(self._held):
            first = max(0, min(start, max(end, start + LEAST_READ, LEAST_READ) - LEAST_READ))
            last = min(self._size, max(end, first + LEAST_READ))
            self._held_from, self._held = first, bytes(_retrying(self._file.read_at, last - first, first))
        self._at = end
        return self._held[start - self._held_from : end - self._held_from]

    def close(self) -> None:
        """Close the file and release the buffer."""
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
