"""Records of an attempt before it is sent and after it has ended, and the totals of a run.

A ``Call`` is an attempt about to be sent, an ``Outcome`` is how it ended; together they make a ledger row. The journal
keeps both as JSON, so that a ledger row lost in a crash can be rewritten.
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
"""Statuses of attempts that brought a reply, which this run or another one paid for."""


@dataclass(frozen=True, slots=True)
class Call:
    """An attempt that is about to be sent.

    ``body`` is the request as JSON, for the journal. ``endpoint`` is the base URL of the chosen endpoint, "" until one
    is chosen; ``model`` and the four prices (US dollars per million tokens) are those of that endpoint.
    ``reserved_usd`` is the most that the attempt costs if the endpoint respects the limit of the reply, and
    ``most_usd`` the most that it costs otherwise. ``wave`` is the number of the attempt's batch within the run, and
    ``batch_id`` the endpoint's id of that batch, "" until there is one; for calls in real time they are 0 and "".
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
        """The key of the attempt's ledger row."""
        return (self.call_id, self.attempt)

    @property
    def price(self) -> Price:
        """The unit prices at which the attempt is sent."""
        return Price(
            input=self.input_usd_per_million,
            cached_input=self.cached_usd_per_million,
            output=self.output_usd_per_million,
            cache_write=self.cache_write_usd_per_million,
        )

    def addressed(self, endpoint: str, model: str, price: Price) -> Call:
        """Return the call addressed to an endpoint: with its base URL, model name and prices."""
        return replace(self.charged(price), endpoint=endpoint, model=model)

    def charged(self, price: Price) -> Call:
        """Return the call with the unit prices of ``price``."""
        return replace(
            self,
            input_usd_per_million=price.input,
            cached_usd_per_million=price.cached_input,
            output_usd_per_million=price.output,
            cache_write_usd_per_million=price.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended.

    If the status is "unknown", the request may have been billed, and ``cost_usd`` is at least the reserve. If it is
    "cached", nothing was sent: another run was billed the tokens in ``usage``, and ``cost_usd`` is 0.

    ``reply`` is the reply as JSON for the journal, "" without one. ``snapshot``, ``system_fingerprint`` and
    ``service_tier`` are the model, server and tier that the reply names. ``overlong`` is True if the endpoint ignored
    the limit of the reply, ``undecided`` if a person must decide whether its usage is true, and ``unreported`` if it
    did not say what it bills. ``held_usd`` may have been billed in addition to ``cost_usd``. ``first_token_s`` is the
    part of ``latency_s`` before the first token, None if unknown.
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
    undecided: bool = False
    unreported: bool = False
    held_usd: float = 0.0
    first_token_s: float | None = None


def ledger_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of the ``ledger`` table."""
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
        "first_token_s": outcome.first_token_s,
    }


NAME_CHARS: Final = 200  # project default
"""The most characters kept of a name or id that an endpoint sends; OpenAI's ids have 40."""
MODELS_NAMED: Final = 4  # project default
"""The most model names that are kept for one answer."""


def models_named(models: Iterable[str]) -> str:
    """Return the names of models as an answers row has them: without duplicates, in order, joined by "; ".

    The names come from replies, so long ones are cut, and lone surrogates, which tables cannot store, are replaced.
    """
    names = list(dict.fromkeys(name[:NAME_CHARS].encode("utf-8", "replace").decode() for name in models if name))
    more = [f"and {len(names) - MODELS_NAMED} more"] if len(names) > MODELS_NAMED else []
    return "; ".join([*names[:MODELS_NAMED], *more])


def unknown(call: Call, error: str, http_status: int = 0, latency_s: float = 0.0) -> Outcome:
    """Return the outcome of an attempt that may have been billed: its reserve stays held."""
    return Outcome(call, "unknown", http_status, Usage(), call.reserved_usd, latency_s, error=error)


REST: Final = "-rest"
"""What the id of such an attempt ends in."""


def rest_of(outcome: Outcome) -> Outcome:
    """Return what may have been billed in addition to a reply's cost, as an attempt of its own that stays unknown."""
    call = replace(outcome.call, call_id=f"{outcome.call.call_id}{REST}", reserved_usd=outcome.held_usd, body="{}")
    return unknown(call, "beyond what was booked for the reply of the same call", http_status=200)


def unsent(call: Call, why: str) -> Outcome:
    """Return the outcome of an attempt that was never sent and cost nothing."""
    return Outcome(call, "failed", 0, Usage(), 0.0, 0.0, error=f"never sent: {why}")


def row_to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ledger row as JSON values. The journal keeps them, so that a lost row can be written again."""
    return {**row, "started_at": row["started_at"].isoformat(), "tags": [list(pair) for pair in row["tags"]]}


def row_from_json(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ledger row that ``row_to_json`` converted."""
    return {
        **data,
        "started_at": datetime.fromisoformat(data["started_at"]),
        "tags": [(key, value) for key, value in data["tags"]],
    }


def intent_body(call: Call, held_usd: float = 0.0) -> str:
    """Return the body of a ``request`` row: the attempt as an unsettled ledger row, and the request as sent.

    ``held_usd`` is what is held for it, if that is more than its reserve.
    """
    lost = unknown(call, "no outcome was written: the process that made this call ended first")
    row = ledger_row(replace(lost, cost_usd=max(lost.cost_usd, held_usd)))
    # The request is already JSON, and long.
    return f'{{"call":{json.dumps(row_to_json(row), separators=(",", ":"))},"request":{call.body}}}'


def reply_body(outcome: Outcome) -> str:
    """Return the body of a ``reply`` row: the reply and its ledger row, which become durable together."""
    body = {**json.loads(outcome.reply), "call": row_to_json(ledger_row(outcome))}
    return json.dumps(body, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a run, earlier processes included.

    ``questions`` has the number of finished questions by status. ``calls`` is the number of calls with a reply and
    ``usage`` their tokens, including replies shared by other runs; ``settled_usd`` is what was billed. ``snapshots``
    has the number of replies by origin, and ``running`` that of unfinished questions by workflow ("" without a plan)
    and number of calls with a reply.
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
    running: Mapping[tuple[str, int], int] = field(default_factory=dict)


def custom_id(call: Call) -> str:
    """Return the name of an attempt within its batch; OpenAI and Anthropic allow 64 characters."""
    return f"{call.call_id}-{call.attempt}"
