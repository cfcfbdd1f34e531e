"""One attempt at a call: what is written before it goes out, what is written when it is over, and a run's sums of both.

``Call`` is an attempt that is about to be sent and ``Outcome`` how it ended; a ledger row is made of the two. The
journal holds both as JSON, so that a ledger row that a crash has lost can be written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.snapshots import Snapshot

CallStatus = Literal["ok", "failed", "cached", "unknown"]
CallMode = Literal["realtime", "batch"]

CallKey = tuple[str, int]
"""``(call_id, attempt)``."""

USED: Final = ("ok", "cached")
"""Statuses of attempts that brought a reply: one that was paid for, and one that another run has paid for."""


@dataclass(frozen=True, slots=True)
class Call:
    """An attempt that is about to be sent. ``body`` is the request as JSON, for the reader of the journal.

    ``endpoint`` is the base URL that is asked, "" while none has been chosen; ``model`` and the four prices, US
    dollars per million tokens, are that one's (of writing to its cache None: as all of the prompt).
    ``reserved_usd`` is the most that the attempt can cost at an endpoint that keeps the limit of the reply, and
    ``most_usd`` the most at one that does not.

    ``wave`` is the number, within the run, of the batch that the attempt goes out with, and ``batch_id`` the endpoint's
    name for it, "" while it has none; 0 and "" in real time.
    """

    call_id: str
    attempt: int
    query_id: str
    path: str
    sample: int
    role: str
    model: str
    request_hash: str
    input_usd_per_million: float
    cached_usd_per_million: float
    output_usd_per_million: float
    reserved_usd: float
    queue_s: float
    started_at: datetime
    tags: Mapping[str, str] = field(default_factory=dict)
    body: str = "{}"
    endpoint: str = ""
    mode: CallMode = "realtime"
    wave: int = 0
    batch_id: str = ""
    cache_write_usd_per_million: float | None = None
    most_usd: float = 0.0

    @property
    def key(self) -> CallKey:
        """What a ledger row is known by."""
        return (self.call_id, self.attempt)

    @property
    def price(self) -> Price:
        """The unit prices with which it goes out."""
        return Price(
            input=self.input_usd_per_million,
            cached_input=self.cached_usd_per_million,
            output=self.output_usd_per_million,
            cache_write=self.cache_write_usd_per_million,
        )

    def addressed(self, endpoint: str, model: str, price: Price) -> Call:
        """The same as it goes to an endpoint: its base URL, its name for the model, its prices."""
        return replace(self.charged(price), endpoint=endpoint, model=model)

    def charged(self, price: Price) -> Call:
        """The same with its unit prices."""
        return replace(
            self,
            input_usd_per_million=price.input,
            cached_usd_per_million=price.cached_input,
            output_usd_per_million=price.output,
            cache_write_usd_per_million=price.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``reply`` is the journal's JSON of a reply that arrived, else empty; ``snapshot``,
    ``system_fingerprint`` and ``service_tier`` are what that reply names as its model, its server's make, and the tier
    that answered. ``overlong``: the endpoint ignored the limit of the reply; ``unstoppable``: it did so in one that
    did not come as a stream, which could have been aborted.

    ``status`` "unknown" means: the request may have been billed and nobody knows; ``cost_usd`` is then the reserve.
    "cached": nothing was sent, ``usage`` is what another run was billed for the reply, and ``cost_usd`` is 0.
    """

    call: Call
    status: CallStatus
    http_status: int
    usage: Usage
    cost_usd: float
    latency_s: float
    provider_request_id: str = ""
    error: str = ""
    reply: str = ""
    snapshot: str = ""
    system_fingerprint: str = ""
    service_tier: str = ""
    overlong: bool = False
    unstoppable: bool = False


def ledger_row(outcome: Outcome) -> dict[str, Any]:
    """The row of the ``ledger`` table."""
    call = outcome.call
    return {
        "call_id": call.call_id,
        "query_id": call.query_id,
        "path": call.path,
        "role": call.role,
        "model": call.model,
        "request_hash": call.request_hash,
        "attempt": call.attempt,
        "status": outcome.status,
        "http_status": outcome.http_status,
        "prompt_tokens": outcome.usage.prompt_tokens,
        "cached_tokens": outcome.usage.cached_tokens,
        "completion_tokens": outcome.usage.completion_tokens,
        "input_usd_per_million": call.input_usd_per_million,
        "cached_usd_per_million": call.cached_usd_per_million,
        "output_usd_per_million": call.output_usd_per_million,
        "reserved_usd": call.reserved_usd,
        "cost_usd": outcome.cost_usd,
        "queue_s": call.queue_s,
        "latency_s": outcome.latency_s,
        "provider_request_id": outcome.provider_request_id,
        "started_at": call.started_at,
        "error": outcome.error,
        "tags": sorted(call.tags.items()),
        "endpoint": call.endpoint,
        "snapshot": outcome.snapshot,
        "system_fingerprint": outcome.system_fingerprint,
        "mode": call.mode,
        "wave": call.wave,
        "batch_id": call.batch_id,
        "reasoning_tokens": outcome.usage.reasoning_tokens,
        "cache_write_tokens": outcome.usage.cache_write_tokens,
        "cache_write_usd_per_million": call.cache_write_usd_per_million,
        "service_tier": outcome.service_tier,
    }


NAME_CHARS: Final = 200
"""Characters of a name or an id from outside (OpenAI's ids have 40). # project default"""
MODELS_NAMED: Final = 4  # project default
"""Names of models that are kept of one answer."""


def models_named(models: Iterable[str]) -> str:
    """Return the names of models as an answers row keeps them: each once, in order, with "; " between them. A name
    comes from a reply, so it is cut, and a broken surrogate in it, which fits no table, is replaced.
    """
    names = list(dict.fromkeys(name[:NAME_CHARS].encode("utf-8", "replace").decode() for name in models if name))
    more = [f"and {len(names) - MODELS_NAMED} more"] if len(names) > MODELS_NAMED else []
    return "; ".join([*names[:MODELS_NAMED], *more])


def unknown(call: Call, error: str, http_status: int = 0, latency_s: float = 0.0) -> Outcome:
    """The outcome of an attempt that went out and of which nothing certain came back: its reserve stays held."""
    return Outcome(call, "unknown", http_status, Usage(), call.reserved_usd, latency_s, error=error)


def unsent(call: Call, why: str) -> Outcome:
    """The outcome of an attempt that never went out: it cost nothing."""
    return Outcome(call, "failed", 0, Usage(), 0.0, 0.0, error=f"never sent: {why}")


def row_to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger row as JSON values, kept beside the reply so that the row can be written again after a crash."""
    return {**row, "started_at": row["started_at"].isoformat(), "tags": [list(pair) for pair in row["tags"]]}


def row_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """The other way."""
    return {
        **data,
        "started_at": datetime.fromisoformat(data["started_at"]),
        "tags": [(key, value) for key, value in data["tags"]],
    }


def intent_body(call: Call) -> str:
    """Body of a ``request`` row: the attempt as an unsettled ledger row, and the request as it goes out."""
    row = ledger_row(unknown(call, "no outcome was written: the process that made this call ended first"))
    # The request is JSON already, and long.
    return f'{{"call":{json.dumps(row_to_json(row), separators=(",", ":"))},"request":{call.body}}}'


def reply_body(outcome: Outcome) -> str:
    """Body of a ``reply`` row: the reply, and its ledger row, so that both become durable in one file."""
    body = {**json.loads(outcome.reply), "call": row_to_json(ledger_row(outcome))}
    return json.dumps(body, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a run, earlier processes included: finished questions by status, calls that brought a reply, and
    replies by their origin.

    ``calls`` and ``usage`` count replies that were taken from other runs, too; ``settled_usd`` is what was billed.
    """

    questions: Mapping[str, int]
    calls: int
    usage: Usage
    settled_usd: float
    unknown_usd: float
    reserved_usd: float
    cap_usd: float | None
    failures: int
    snapshots: Mapping[Snapshot, int] = field(default_factory=dict)
