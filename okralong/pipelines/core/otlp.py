"""Send spans and metrics by OTLP over HTTP with OpenTelemetry's SDK, which does so in its own threads.

The standard variables apply where the config says nothing: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
OTEL_EXPORTER_OTLP_* (headers, certificates, compression), OTEL_BSP_* (queue), OTEL_METRIC_EXPORT_INTERVAL and
OTEL_SDK_DISABLED.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace import set_span_in_context as in_context

from okralong.pipelines.core.spans import ENVIRONMENT, Attributes, Span, SpanPlace, TelemetryConfig

logger = logging.getLogger(__name__)

SCOPE: Final = "okralong"
CLOSE_S: Final = 5.0
"""The most seconds that a job waits at its end for the collector. # project default"""
CLOSE_FAILING_S: Final = 0.5
"""The same if the collector has not accepted the last spans. # project default"""
HISTOGRAMS: Final = {
    "gen_ai.client.token.usage": (
        "{token}",
        "Tokens of a call.",
        (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
    ),
    "gen_ai.client.operation.duration": (
        "s",
        "Seconds until a reply.",
        (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
}
"""Unit, description and bounds, as OpenTelemetry's conventions for generative AI give them."""
COUNTERS: Final = {
    "okralong.questions": ("{question}", "Questions that have ended."),
    "okralong.llm.calls": ("{call}", "Attempts, by outcome."),
    "okralong.llm.cost": ("USD", "US dollars that were billed."),
}


class OtlpSender:
    """Sends the spans and metrics of one process to the collector."""

    def __init__(self, config: TelemetryConfig, job: str) -> None:
        """Start the threads. Raises ConfigError if the headers are missing."""
        for noisy in ("opentelemetry.exporter", "opentelemetry.sdk"):  # they report each batch; we report once
            logging.getLogger(noisy).setLevel(logging.CRITICAL)
        base = None if config.endpoint in (None, ENVIRONMENT) else str(config.endpoint).rstrip("/")
        given: dict[str, Any] = {"headers": config.headers() or None, "timeout": config.timeout_s}
        own = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "okralong", "service.instance.id": _instance()}
        resource = Resource.create(own | {"okralong.job": job})
        self._ids = _GivenIds()
        self._exporter = _Watched(OTLPSpanExporter(endpoint=base and f"{base}/v1/traces", **given))
        self._spans = TracerProvider(ALWAYS_ON, resource, False, id_generator=self._ids)
        self._spans.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._spans.get_tracer(SCOPE)
        self._meters: MeterProvider | None = None
        self._instruments: dict[str, Any] = {}
        if config.metrics:
            exporter = OTLPMetricExporter(endpoint=base and f"{base}/v1/metrics", **given)
            reader = PeriodicExportingMetricReader(exporter, export_timeout_millis=config.timeout_s * 1000)
            self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
            meter = self._meters.get_meter(SCOPE)
            for name, (unit, about, bounds) in HISTOGRAMS.items():
                self._instruments[name] = meter.create_histogram(
                    name, unit, about, explicit_bucket_boundaries_advisory=list(map(float, bounds))
                )
            for name, (unit, about) in COUNTERS.items():
                self._instruments[name] = meter.create_counter(name, unit, about)

    def send(self, span: Span) -> None:
        """Queue a span."""
        self._ids.next = span.place
        sent = self._tracer.start_span(
            span.name,
            in_context(NonRecordingSpan(_context(span.parent or SpanPlace(0, 0)))),
            SpanKind.CLIENT if span.is_call else SpanKind.INTERNAL,
            {name: value for name, value in span.attributes.items() if value is not None},
            [Link(_context(place)) for place in span.links],
            span.start_ns,
        )
        for event in span.events:
            sent.add_event(event.name, dict(event.attributes), event.at_ns)
        if span.error:
            sent.set_attribute("error.type", span.error)
            sent.set_status(Status(StatusCode.ERROR, span.error))
        sent.end(max(span.end_ns, span.start_ns))

    def count(self, name: str, amount: float, attributes: Attributes) -> None:
        """Add to a counter of ``COUNTERS``."""
        if (counter := self._instruments.get(name)) is not None:
            counter.add(amount, dict(attributes))

    def observe(self, name: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram of ``HISTOGRAMS``."""
        if (histogram := self._instruments.get(name)) is not None:
            histogram.record(value, dict(attributes))

    def close(self) -> None:
        """Send what is queued, and wait for it no longer than ``CLOSE_S``."""
        waiting = [threading.Thread(target=self._spans.shutdown, daemon=True)]
        if self._meters is not None:
            waiting.append(threading.Thread(target=self._meters.shutdown, daemon=True))
        for thread in waiting:
            thread.start()
        for thread in waiting:
            thread.join(CLOSE_FAILING_S if self._exporter.failing else CLOSE_S)


class _GivenIds(IdGenerator):
    """Returns the ids that ``OtlpSender.send`` has set for the next span of its thread."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @property
    def next(self) -> SpanPlace:
        place: SpanPlace = self._of_thread.next
        return place

    @next.setter
    def next(self, place: SpanPlace) -> None:
        self._of_thread.next = place

    def generate_span_id(self) -> int:
        return self.next.span_id

    def generate_trace_id(self) -> int:
        return self.next.trace_id


class _Watched(SpanExporter):
    """An exporter that logs once in a process that the collector accepts no spans."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._told = False
        self.failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        self.failing = result is not SpanExportResult.SUCCESS
        if self.failing and not self._told:
            self._told = True
            logger.warning("The collector accepts no spans, so they are dropped; the job continues (telemetry).")
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _context(place: SpanPlace) -> SpanContext:
    return SpanContext(place.trace_id, place.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _instance() -> str:
    return f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
