"""A collector of OpenTelemetry on loopback that keeps what it receives, or does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it arrived; ids are hexadecimal, and ``parent`` is "" for a root."""

    name: str
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]
    links: list[tuple[str, str]]
    failed: bool
    instance: str


@dataclass
class OtlpCollector:
    """What a collector has received; with ``hangs``, it answers no request."""

    hangs: bool = False
    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: dict[str, dict[tuple[tuple[str, str], ...], float]] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def receive(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Decode a request."""
        self.headers.append(headers)
        self.raw.append(body)
        if path == "/v1/traces":
            self._spans(ExportTraceServiceRequest.FromString(body))
        elif path == "/v1/metrics":
            self._metrics(ExportMetricsServiceRequest.FromString(body))

    def _spans(self, request: Any) -> None:
        for resource in request.resource_spans:
            instance = _attributes(resource.resource.attributes)["service.instance.id"]
            for scope in resource.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex(),
                        start_ns=span.start_time_unix_nano,
                        end_ns=span.end_time_unix_nano,
                        attributes=_attributes(span.attributes),
                        events=[(one.name, one.time_unix_nano, _attributes(one.attributes)) for one in span.events],
                        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                        failed=span.status.code == 2,
                        instance=instance,
                    )
                    for span in scope.spans
                ]

    def _metrics(self, request: Any) -> None:
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points:
                        value = point.sum if kind == "histogram" else point.as_double or point.as_int
                        key = tuple(sorted((name, str(held)) for name, held in _attributes(point.attributes).items()))
                        self.metrics.setdefault(metric.name, {})[key] = value


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def otlp_collector(hangs: bool = False) -> Iterator[OtlpCollector]:
    """Serve a collector on loopback while the block runs."""
    kept, over = OtlpCollector(hangs), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if kept.hangs:
                over.wait(60)
                return
            kept.receive(self.path, body, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield kept
    finally:
        over.set()
        server.shutdown()
        server.server_close()
