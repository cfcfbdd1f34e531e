"""What Ray's metrics tell of a job while it runs; ``deploy/grafana.json`` draws them.

They are for watching: a process that is started anew counts from 0. What counts is in the tables.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from ray.util.metrics import Counter, Gauge, Histogram

from okralong.pipelines.llm.records import Outcome

SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper ends of the bins of histograms; ours."""


class LedgerMetrics:
    """Of a run's ledger: questions with an end, attempts at calls, tokens, dollars, waits."""

    def __init__(self) -> None:
        self._questions = Counter("okralong_questions", "Questions that have their end.", ("status",))
        self._calls = Counter(
            "okralong_llm_calls", "Attempts at calls, by how they ended.", ("status", "model", "mode")
        )
        self._tokens = Counter("okralong_llm_tokens", "Tokens that were billed.", ("kind", "model"))
        self._dollars = Counter("okralong_llm_usd", "US dollars that were billed.", ("model",))
        self._queue = Histogram("okralong_llm_queue_seconds", "Waits for leave to send.", list(SECONDS), ("model",))
        self._latency = Histogram("okralong_llm_latency_seconds", "Waits for replies.", list(SECONDS), ("model",))

    def settled(self, outcome: Outcome) -> None:
        """An attempt has its end."""
        model = {"model": outcome.call.model}
        self._calls.inc(1, {**model, "status": outcome.status, "mode": outcome.call.mode})
        if outcome.status != "ok":
            return
        usage = outcome.usage
        kinds = {"prompt": usage.prompt_tokens, "cached": usage.cached_tokens, "completion": usage.completion_tokens}
        for kind, tokens in kinds.items():
            if tokens:
                self._tokens.inc(tokens, {**model, "kind": kind})
        if outcome.cost_usd:
            self._dollars.inc(outcome.cost_usd, model)
        self._queue.observe(outcome.call.queue_s, model)
        self._latency.observe(outcome.latency_s, model)

    def finished(self, status: str) -> None:
        """A question has its end."""
        self._questions.inc(1, {"status": status})


class LimiterMetrics:
    """Of the limiter called ``limiter``: calls in flight, how many may be, callers that wait, a pause after a 429."""

    def __init__(self, limiter: str) -> None:
        self._tags = {"limiter": limiter}
        self._gauges: dict[str, Any] = {
            "in_flight": Gauge("okralong_limiter_in_flight", "Calls in flight.", ("limiter",)),
            "allowed": Gauge("okralong_limiter_allowed", "Calls that may be in flight now.", ("limiter",)),
            "waiting": Gauge("okralong_limiter_waiting", "Calls that wait for leave.", ("limiter",)),
            "paused": Gauge("okralong_limiter_paused_seconds", "Seconds of pause left after a 429.", ("limiter",)),
        }

    def show(self, **values: float) -> None:
        """The limiter's state now, by the names above."""
        for name, value in values.items():
            self._gauges[name].set(value, self._tags)


class IndexMetrics:
    """Of an index job: chunks that were cut, texts that got a vector, and the seconds that these took."""

    def __init__(self) -> None:
        self._chunks = Counter("okralong_chunks", "Chunks cut, of all sizes.")
        self._texts = Counter("okralong_texts_embedded", "Distinct texts of chunks that got a vector.")
        self._seconds = Counter("okralong_embed_seconds", "Seconds of embedding.")

    def chunked(self, chunks: int) -> None:
        """Documents were cut into chunks."""
        if chunks:
            self._chunks.inc(chunks)

    def embedded(self, texts: int, seconds: float) -> None:
        """A batch of texts has its vectors."""
        if texts:
            self._texts.inc(texts)
            self._seconds.inc(max(seconds, 1e-6))


@cache
def index_metrics() -> IndexMetrics:
    """Those of this process: Ray wants each metric once a process."""
    return IndexMetrics()


def query_batch_sizes() -> Histogram:
    """The sizes of the batches in which questions are embedded."""
    return Histogram("okralong_query_batch_size", "Questions embedded in one pass.", list(SIZES))
