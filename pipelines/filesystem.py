"""Where a location is: a local path or a URI that pyarrow knows, opened with the patience that an object store needs.

A store far away answers 500 or 503 now and then, and is slow when it is busy. The AWS client under pyarrow gives up
after 3 s of silence and a few attempts, which a night of work should not depend on.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from pyarrow import fs

from okralong.pipelines.errors import ConfigError
from okralong.pipelines.patient_store import PatientStore

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
