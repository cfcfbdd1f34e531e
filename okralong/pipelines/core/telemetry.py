"""Traces and metrics by OpenTelemetry, sent to a collector by OTLP. Off unless a config names the collector.

Each question has a trace of its own, linked to the trace of its run: a viewer shows thousands of small traces well, but
not one trace with a hundred thousand spans. Ids are hashes of the start of the run, the question and the step's path,
so each process computes the id of its spans' parent from values that it is given anyway. A trace thus crosses actors
without any context in messages, and a restarted planner continues it.

Nothing here waits for the collector: spans wait in a bounded queue, and the oldest are dropped when it is full.
OpenTelemetry is imported only when telemetry is on (``core/otlp.py``).
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.core.spans import Attributes, Span, SpanPlace, TelemetryConfig, hashed_id, span_id, step_place

if TYPE_CHECKING:
    from okralong.pipelines.core.otlp import OtlpSender

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TelemetrySetup:
    """Settings with which a process sends spans and metrics of one start of a job; other processes can receive them.

    Attributes:
        config: The section of the config.
        job: The run or archive, a path or URI.
        seed: Distinguishes this start from others, so that the traces of a resumed run have their own ids.
        parent: The span of the surrounding job, such as a night.
    """

    config: TelemetryConfig
    job: str
    seed: str = field(default_factory=lambda: uuid.uuid4().hex)
    parent: SpanPlace | None = None

    def open(self) -> Telemetry:
        """Start sending from this process. Raises ConfigError if the extra ``otel`` or the headers are missing."""
        with needs_extra("otel"):
            from okralong.pipelines.core.otlp import OtlpSender
        return Telemetry(self, OtlpSender(self.config, self.job))

    @property
    def root(self) -> SpanPlace:
        """The span of the job itself."""
        trace_id = self._trace_id("") if self.parent is None else self.parent.trace_id
        return SpanPlace(trace_id, span_id(self.seed, "job"))

    def question(self, query_id: str) -> SpanPlace | None:
        """Return the place of a question's root span, or None if the question is not in the sample."""
        trace_id = self._trace_id(query_id)
        sampled = (trace_id & (1 << 64) - 1) < self.config.sample * (1 << 64)
        return SpanPlace(trace_id, span_id(trace_id, "question")) if sampled else None

    def _trace_id(self, query_id: str) -> int:
        return hashed_id(16, self.seed, "trace", query_id)


_STEP: Final[ContextVar[SpanPlace | None]] = ContextVar("step", default=None)
"""The step that the current code works for."""
_JOB: Final[ContextVar[SpanPlace | None]] = ContextVar("job", default=None)
"""The phase of a job that the current code works for."""
_SENDER: Final[ContextVar[OtlpSender | None]] = ContextVar("sender", default=None)
"""The connection of the job that the current code works for."""


class Telemetry:
    """Sends the spans and metrics of one job from this process."""

    def __init__(self, setup: TelemetrySetup, sender: OtlpSender) -> None:
        self.setup, self.sender = setup, sender
        self.text = setup.config.text

    def send(self, span: Span) -> None:
        """Queue a span. Never raises: telemetry stops no job."""
        try:
            self.sender.send(span)
        except Exception as error:
            logger.warning("A span was not sent: %s: %s", type(error).__name__, error)

    def count(self, name: str, amount: float, attributes: Attributes) -> None:
        """Add to a counter."""
        self.sender.count(name, amount, attributes)

    def observe(self, name: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram."""
        self.sender.observe(name, value, attributes)

    def question(self, query_id: str) -> QuestionTrace | None:
        """Return the trace of a question, or None if the question is not in the sample."""
        root = self.setup.question(query_id)
        return None if root is None else QuestionTrace(self, root, query_id)

    @contextmanager
    def job(
        self, name: str, attributes: Attributes | None = None, unbegun: tuple[type[BaseException], ...] = ()
    ) -> Iterator[None]:
        """Send the span of the job when the block ends, unless it raises an error of ``unbegun``."""
        known = {"okralong.job": self.setup.job, **(attributes or {})}
        with _ended(self, name, self.setup.root, self.setup.parent, known, _JOB, unbegun):
            yield

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Send the span of a phase of the job when the block ends."""
        place = self._phase_place(name, time.time_ns())
        with _ended(self, name, place, self.setup.root, {"okralong.job": self.setup.job}, _JOB):
            yield

    def phase_ended(self, name: str, start_ns: int, attributes: Attributes) -> None:
        """Send the span of a phase of the job that has ended now."""
        place, root = self._phase_place(name, start_ns), self.setup.root
        self.send(Span(name, place, root, start_ns, time.time_ns(), {"okralong.job": self.setup.job, **attributes}))

    def _phase_place(self, name: str, start_ns: int) -> SpanPlace:
        root = self.setup.root
        return SpanPlace(root.trace_id, span_id(root.span_id, "phase", name, start_ns))

    def close(self) -> None:
        """Send what is queued, for at most a few seconds."""
        self.sender.close()


@contextmanager
def _ended(
    telemetry: Telemetry,
    name: str,
    place: SpanPlace,
    parent: SpanPlace | None,
    attributes: dict[str, Any],
    current: ContextVar[SpanPlace | None],
    unbegun: tuple[type[BaseException], ...] = (),
) -> Iterator[None]:
    """Make a span the current one in the block, and send it at the end, unless the block raises an ``unbegun``."""
    start, before, raised = time.time_ns(), current.set(place), None
    try:
        yield
    except BaseException as error:
        raised = error
        raise
    finally:
        current.reset(before)
        if not isinstance(raised, unbegun):
            why = "" if raised is None else type(raised).__name__
            telemetry.send(Span(name, place, parent, start, time.time_ns(), attributes, error=why))


class Phases:
    """Sends a span for each of the phases of a job, which follow each other."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._name, self._start_ns, self._attributes = "", 0, dict[str, Any]()

    def begin(self, name: str) -> None:
        """End the phase before, and begin the next one; no-op if it is the current one."""
        if name != self._name:
            self.end()
            self._name, self._start_ns, self._attributes = name, time.time_ns(), {}

    def note(self, **attributes: Any) -> None:
        """Set attributes of the current phase."""
        self._attributes |= {f"okralong.{name}": value for name, value in attributes.items()}

    def end(self) -> None:
        """End the current phase."""
        if self._name:
            self._telemetry.phase_ended(self._name, self._start_ns, self._attributes)
        self._name = ""


@contextmanager
def started(
    config: TelemetryConfig,
    job: str,
    name: str,
    attributes: Attributes | None = None,
    unbegun: tuple[type[BaseException], ...] = (),
) -> Iterator[Telemetry | None]:
    """Yield the ``Telemetry`` of a job that lasts as long as the block, or None if telemetry is off.

    A job within a phase of another one joins its trace and uses its connection to the collector. A job that raises an
    error of ``unbegun`` has not begun, so it has no span.

    Raises ConfigError if telemetry is on and the extra ``otel`` or the headers are missing.
    """
    if config.endpoint is None:
        yield None
        return
    setup, shared = TelemetrySetup(config, job, parent=_JOB.get()), _SENDER.get()
    telemetry = setup.open() if shared is None else Telemetry(setup, shared)
    before = _SENDER.set(telemetry.sender)
    try:
        with telemetry.job(name, attributes, unbegun):
            yield telemetry
    finally:
        _SENDER.reset(before)
        if shared is None:
            telemetry.close()


class QuestionTrace:
    """The spans of one question that one process sends."""

    def __init__(self, telemetry: Telemetry, root: SpanPlace, query_id: str) -> None:
        self._telemetry, self._root, self._query_id = telemetry, root, query_id
        self.start_ns = time.time_ns()

    @contextmanager
    def step(self, name: str, path: str, within: str) -> Iterator[None]:
        """Send the span of a step. Its parent is the step around it, or else the branch whose path is ``within``."""
        place, parent = step_place(self._root, path), _STEP.get() or step_place(self._root, within)
        with _ended(self._telemetry, name, place, parent, {"okralong.path": path}, _STEP):
            yield

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Forget the current step in the block: a branch's steps belong to the branch, in whatever process."""
        before = _STEP.set(None)
        try:
            yield
        finally:
            _STEP.reset(before)

    def ended(self, attributes: Attributes, text: Callable[[], Attributes], error: str = "") -> None:
        """Send the question's own span, with ``text`` only if the config allows it."""
        known = {
            "okralong.query_id": self._query_id,
            "okralong.job": self._telemetry.setup.job,
            **attributes,
            **(text() if self._telemetry.text else {}),
        }
        links = (self._telemetry.setup.root,)
        span = Span("question", self._root, None, self.start_ns, time.time_ns(), known, links=links, error=error)
        self._telemetry.send(span)
