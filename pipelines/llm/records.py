"""The hard cap in dollars: what is spent, what may have been spent, and what is promised never pass it together.

A question is *admitted* with a reserve for its plan. Each call then *reserves* its worst case, first from its own
question's reserve and then from what is free. Settling a call gives the rest back. A call of which nobody knows whether
it was billed stays held in full. Amounts are kept in whole picodollars (a token costs a whole number of them), so that
sums are exact and the cap is a cap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Protocol

from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.rate_limit import NO_HEADERS, RateLimitHeaders

PICO = 1_000_000_000_000

CallKey = tuple[str, int]
"""``(call_id, attempt)``."""


def picodollars(usd: float) -> int:
    """Dollars as a whole number of picodollars."""
    return round(usd * PICO)


@dataclass(slots=True)
class _Open:
    query_id: str
    reserve: int
    drawn: int


class Budget:
    """``cap_usd`` None means no cap; the sums are kept all the same. Pure: no clock, no files, no waiting."""

    def __init__(self, cap_usd: float | None) -> None:
        self._cap = None if cap_usd is None else picodollars(cap_usd)
        self._settled = 0
        self._unknown: dict[CallKey, int] = {}
        self._unknown_total = 0
        self._calls: dict[CallKey, _Open] = {}
        self._questions: dict[str, int] = {}
        self._committed = 0

    @property
    def cap_usd(self) -> float | None:
        """The cap."""
        return None if self._cap is None else self._cap / PICO

    @property
    def settled_usd(self) -> float:
        """Dollars that the endpoint charged, as its replies' usage says."""
        return self._settled / PICO

    @property
    def unknown_usd(self) -> float:
        """Dollars held for calls of which nobody knows whether they were billed."""
        return self._unknown_total / PICO

    @property
    def reserved_usd(self) -> float:
        """Dollars promised to calls in flight and to admitted questions."""
        return self._committed / PICO

    @property
    def open_questions(self) -> set[str]:
        """Questions that are admitted and not closed."""
        return set(self._questions)

    @property
    def calls_in_flight(self) -> int:
        """Calls that are reserved and neither settled nor held as unknown."""
        return len(self._calls)

    def restore(self, settled_usd: float, unknown_usd: dict[CallKey, float]) -> None:
        """Start from what an earlier process spent and left unknown."""
        self._settled = picodollars(settled_usd)
        self._unknown = {key: picodollars(usd) for key, usd in unknown_usd.items()}
        self._unknown_total = sum(self._unknown.values())

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """Whether ``usd`` more would not fit even when all that others have reserved came back."""
        if self._cap is None:
            return False
        own = self._questions.get(query_id, 0)
        return self._settled + self._unknown_total + max(own, picodollars(usd)) > self._cap

    def admit(self, query_id: str, usd: float) -> bool:
        """Set ``usd`` aside for a question; False when it does not fit now. Again for the same question: at least it.

        A question that is posed again after its planner died is so not charged twice.
        """
        more = picodollars(usd) - self._questions.get(query_id, 0)
        if more > 0 and not self._fits(more):
            return False
        self._questions.setdefault(query_id, 0)
        if more > 0:
            self._questions[query_id] += more
            self._committed += more
        return True

    def reserve(self, key: CallKey, query_id: str, usd: float) -> bool:
        """Set the worst case of a call aside; False when it does not fit now. Twice for one key is once."""
        if key in self._calls:
            return True
        amount = picodollars(usd)
        drawn = min(amount, self._questions.get(query_id, 0))
        if not self._fits(amount - drawn):
            return False
        if drawn:
            self._questions[query_id] -= drawn
        self._committed += amount - drawn
        self._calls[key] = _Open(query_id, amount, drawn)
        return True

    def holds(self, key: CallKey) -> bool:
        """Whether a call is reserved, or held as unknown."""
        return key in self._calls or key in self._unknown

    def in_doubt(self, key: CallKey) -> bool:
        """Whether a call is held as unknown."""
        return key in self._unknown

    def calls_of(self, query_id: str) -> list[CallKey]:
        """The calls of a question that are reserved and neither settled nor held as unknown."""
        return [key for key, call in self._calls.items() if call.query_id == query_id]

    def settle(self, key: CallKey, cost_usd: float) -> None:
        """A call is over and cost ``cost_usd`` (0 for one that failed). Also for one held as unknown until now."""
        cost = picodollars(cost_usd)
        self._settled += cost
        if key in self._unknown:
            self._unknown_total -= self._unknown.pop(key)
            return
        call = self._calls.pop(key, None)
        if call is None:
            return
        self._committed -= call.reserve
        back = min(call.drawn, max(0, call.reserve - cost))
        if call.query_id in self._questions:
            self._questions[call.query_id] += back
            self._committed += back

    def hold_unknown(self, key: CallKey) -> None:
        """Nobody knows whether the call was billed: hold its whole reserve from now on."""
        call = self._calls.pop(key, None)
        if call is not None:
            self._committed -= call.reserve
            self._unknown[key] = call.reserve
            self._unknown_total += call.reserve

    def close(self, query_id: str) -> list[CallKey]:
        """A question is over: free what it had left. Calls of it still in flight become unknown and are returned."""
        self._committed -= self._questions.pop(query_id, 0)
        left = self.calls_of(query_id)
        for key in left:
            self.hold_unknown(key)
        return left

    def _fits(self, amount: int) -> bool:
        return self._cap is None or self._settled + self._unknown_total + self._committed + amount <= self._cap


# --------
# One attempt at one call: what is written before it goes out, and what is written when it is over.

CallStatus = Literal["ok", "failed", "cached", "unknown"]
CallMode = Literal["realtime", "batch"]

USED: Final = ("ok", "cached")
"""Statuses of attempts that brought a reply: one that was paid for, and one that another run has paid for."""


@dataclass(frozen=True, slots=True)
class Call:
    """An attempt that is about to be sent. ``body`` is the request as JSON, for the reader of the journal.

    ``endpoint`` is the base URL that is asked, "" while none has been chosen; ``model`` and the three prices, US
    dollars per million tokens, are that one's. ``reserved_usd`` is the most that the attempt can cost.

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

    @property
    def key(self) -> CallKey:
        """What a ledger row is known by."""
        return (self.call_id, self.attempt)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``reply`` is the journal's JSON of a reply that arrived, else empty; ``snapshot`` and
    ``system_fingerprint`` are what that reply names as its model and its server's make.

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
    }


def unknown(call: Call, error: str, http_status: int = 0, latency_s: float = 0.0) -> Outcome:
    """The outcome of an attempt that went out and of which nothing certain came back: its reserve stays held."""
    return Outcome(call, "unknown", http_status, Usage(), call.reserved_usd, latency_s, error=error)


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


# --------
# What the client needs of its surroundings, as protocols: a ledger and a limiter, in this process or on a cluster.


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to send one request. ``queue_s`` is how long it was waited for, in seconds."""

    id: int
    queue_s: float


class Snapshot(NamedTuple):
    """Where a paid reply came from: the endpoint and the model that were asked, and what the reply names itself.

    All four are "" for replies from before this was kept.
    """

    endpoint: str
    model: str
    snapshot: str
    system_fingerprint: str


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


class LimiterClient(Protocol):
    """The one limiter of an endpoint and model."""

    async def acquire(self, tokens: int, expires_s: float) -> Permit:
        """Wait for leave to send ``tokens`` (prompt and most completion tokens). Raises QuestionError if too many."""
        ...

    async def release(self, permit: int, headers: RateLimitHeaders = NO_HEADERS, *, unsent: bool = False) -> None:
        """The request is over, or never went out (``unsent``); ``headers`` is what its reply says of the limits."""
        ...


class LedgerClient(Protocol):
    """The one writer of a run. A method that writes returns only when what it wrote is durable, or raises ValueError
    when what it was given fits no table.
    """

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """The last reply recorded at that step, or None."""
        ...

    async def lookup(self, query_id: str) -> list[JournalRow]:
        """The journal rows of an unfinished question (without requests), the last one of each key, in order."""
        ...

    async def record(self, rows: Sequence[JournalRow]) -> None:
        """Make journal rows (analysis, plan, retrieval) durable."""
        ...

    async def admit(self, query_id: str, reserve_usd: float) -> None:
        """Set a reserve aside for a question's plan, waiting while others may give some back. Raises OverBudget."""
        ...

    async def reserve(self, key: CallKey, query_id: str, usd: float) -> None:
        """Set the worst case of an attempt aside, waiting as ``admit`` does. Writes nothing. Raises OverBudget.

        The limiter comes after it, so that nobody who waits for money holds a place at the endpoint.
        """
        ...

    async def intend(self, call: Call) -> None:
        """Make the intent of an attempt durable, before it is sent; reserves it when nobody did. Raises OverBudget."""
        ...

    async def settle(self, outcome: Outcome) -> None:
        """Make the outcome of an attempt durable, with its reply, before the reply is used."""
        ...

    async def finish(self, row: Mapping[str, Any]) -> None:
        """Write the one answers row of a question and give back what it had reserved.

        Columns of money and tokens that are missing in ``row`` are filled in from the ledger, and ``finished_at``.
        """
        ...

    async def release(self, query_id: str) -> bool:
        """Put a question down without an answers row: what it had reserved is free, its calls in flight are unknown.

        For a question that stops unfinished, or is taken up anew after its planner died. An unknown one is fine.
        Returns whether there is something left to do: False where its planner died just after the answers row.
        """
        ...

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        ...

    async def answered(self) -> dict[str, str]:
        """Status by query_id of every question that has an answers row."""
        ...

    async def totals(self) -> Totals:
        """Sums over the run so far."""
        ...

    async def close(self) -> None:
        """Write what is left, merge the small files, and let go of the run."""
        ...
