"""What the client needs of its surroundings, as protocols: a ledger and a limiter, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from okralong.pipelines.answering.journal import JournalRow
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import Call, Outcome
from okralong.pipelines.answering.llm.quota_headers import SILENT, Notice
from okralong.pipelines.core.types import Usage


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to send one request. ``queue_s`` is how long it was waited for, in seconds."""

    lease: int
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

    async def acquire(self, tokens: int, lease_s: float) -> Grant:
        """Wait for leave to send ``tokens`` (prompt and most completion tokens). Raises QuestionError if too many."""
        ...

    async def release(self, lease: int, notice: Notice = SILENT, *, unsent: bool = False) -> None:
        """The request is over, or never went out (``unsent``); ``notice`` is what its reply says of the limits."""
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
