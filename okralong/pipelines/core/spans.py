"""Spans, their ids, and the config of telemetry; nothing here needs OpenTelemetry."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, field_validator

from okralong.pipelines.core.config import VARIABLE_NAME, Settings
from okralong.pipelines.core.types import ConfigError

ENVIRONMENT: Final = "environment"
"""Value of ``endpoint`` that selects the address in OTEL_EXPORTER_OTLP_ENDPOINT."""
TEXT_CHARS: Final = 20_000
"""The most characters of a prompt or reply in a span. # project default: a batch of 512 spans stays below the 64 MiB
that OTLP's exporter sends at once"""
_NS: Final = 1_000_000_000

Attributes = Mapping[str, Any]


class TelemetryConfig(Settings):
    """Where traces and metrics go. Nothing is sent, and OpenTelemetry is not imported, while ``endpoint`` is null.

    - ``endpoint``: the base URL of a collector that accepts OTLP over HTTP, such as http://127.0.0.1:4318, or
      "environment" for the one in OTEL_EXPORTER_OTLP_ENDPOINT.
    - ``headers_env``: name of an environment variable with headers for the collector, as name=value,name=value.
    - ``sample``: share of the questions that are traced. Metrics count all.
    - ``metrics``: whether metrics are sent too.
    - ``text``: whether spans contain questions, answers, prompts, replies and error messages.
    - ``timeout_s``: for a request to the collector.
    """

    endpoint: str | None = Field(default=None, min_length=1)
    headers_env: str | None = Field(default=None, min_length=1)
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    metrics: bool = True
    text: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value not in (None, ENVIRONMENT) and not re.fullmatch(r"https?://[^/@?#]+(/[^@?#]*)?", str(value)):
            # The message does not repeat the value, which may contain a key.
            raise ConfigError(
                "telemetry.endpoint must be environment, or an address such as http://127.0.0.1:4318, without "
                "credentials, query or fragment. Put those into an environment variable as headers, and name it in "
                "telemetry.headers_env."
            )
        return value

    @field_validator("headers_env")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not VARIABLE_NAME.fullmatch(value):
            # The message does not repeat the value, which may contain a key.
            raise ConfigError(
                "telemetry.headers_env must be the name of an environment variable in capitals, such as "
                "COLLECTOR_HEADERS. Put the headers into the environment of the machine, and only the variable's name "
                "into the config."
            )
        return value

    def headers(self) -> dict[str, str]:
        """Return the headers for the collector. Raises ConfigError if the variable is missing or malformed."""
        if self.headers_env is None:
            return {}
        pairs = [each.partition("=") for each in os.environ.get(self.headers_env, "").split(",") if each.strip()]
        if not pairs or not all(name.strip() and equals for name, equals, _ in pairs):
            raise ConfigError(
                f"The environment variable {self.headers_env} (telemetry.headers_env) must have the collector's "
                "headers as name=value,name=value. Nothing was run."
            )
        return {name.strip(): value.strip() for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class SpanPlace:
    """The ids of a span."""

    trace_id: int
    span_id: int


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended; times are nanoseconds since 1970. ``error`` is "" if it succeeded."""

    name: str
    place: SpanPlace
    parent: SpanPlace | None
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    events: Sequence[SpanEvent] = ()
    links: Sequence[SpanPlace] = ()
    error: str = ""
    is_call: bool = False


def span_id(*parts: object) -> int:
    """Return the span id of a thing that has a unique name."""
    return hashed_id(8, *parts)


def step_place(question: SpanPlace, path: str) -> SpanPlace:
    """Return the place of the step at a path of a question; "" is the question itself."""
    return SpanPlace(question.trace_id, span_id(question.trace_id, "step", path)) if path else question


def hashed_id(size: int, *parts: object) -> int:
    """Return an id of ``size`` bytes."""
    digest = hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=size).digest()
    return int.from_bytes(digest) or 1  # an id of zero is invalid


def nanoseconds(seconds: float) -> int:
    """Return seconds as nanoseconds."""
    return int(seconds * _NS)
