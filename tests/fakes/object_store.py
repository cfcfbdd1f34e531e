"""A real S3 server on loopback (moto's) that can be told to err: 500s, silences in the middle of a body, cut bodies."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

from moto.server import DomainDispatcherApplication, create_backend_app
from pyarrow import fs
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET: Final = "okralong-tests"
ACCESS_KEY: Final = "AKIAOKRALONGTESTS000"
SECRET_KEY: Final = "secret-of-the-test-store-0123456789"
REGION: Final = "us-east-1"
ERROR: Final = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InternalError</Code>'
    b"<Message>We encountered an internal error. Please try again.</Message></Error>"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Every ``every``-th request of ``method`` fares so: an internal error, ``seconds`` of silence before the second
    half of the body, or a connection that ends after the first half.
    """

    kind: Literal["error", "silence", "cut"]
    method: str
    every: int
    seconds: float = 0.0


class ObjectStore:
    """The server, with one empty bucket; a context manager. ``met`` counts faults by kind, ``requests`` by method."""

    def __init__(self) -> None:
        self.faults: tuple[Fault, ...] = ()
        self.met: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self._inner: Any = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self._server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=_Quiet)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of a node that may use the store."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        place = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"}
        return {**keys, **place}

    def filesystem(self) -> fs.S3FileSystem:
        """A plain client of it, as somebody else's program would have one."""
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        return fs.S3FileSystem(**keys, region=REGION, endpoint_override=self.endpoint, allow_bucket_creation=True)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        # moto keeps what it stores for the whole process: a store before this one has left its files.
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/moto-api/reset", method="POST")).close()
        self.requests.clear()
        self.filesystem().create_dir(BUCKET)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        fault = self._fault(environ["REQUEST_METHOD"])
        if fault is None:
            served: Iterable[bytes] = self._inner(environ, start)
            return served
        if fault.kind == "error":
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start("500 Internal Server Error", [("Content-Type", "application/xml")])
            return [ERROR]
        return _halves(b"".join(self._inner(environ, start)), fault)

    def _fault(self, method: str) -> Fault | None:
        with self._lock:
            self.requests[method] += 1
            for fault in self.faults:
                if fault.method == method and self.requests[method] % fault.every == 0:
                    self.met[fault.kind] += 1
                    return fault
        return None


def _halves(body: bytes, fault: Fault) -> Iterator[bytes]:
    yield body[: len(body) // 2]
    if fault.kind == "cut":
        raise ConnectionAbortedError
    time.sleep(fault.seconds)
    yield body[len(body) // 2 :]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        return
