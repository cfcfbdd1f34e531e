"""Interfaces of a run's gateway, ledger and batch scheduler, which are in this process or in an actor.

``Gateway``, ``RunLedger`` and ``BatchScheduler`` implement them. On Ray each is a single object in an actor. Other
processes use the clients of ``actors/gateway.py``, which have the same methods and raise the same errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.batch_api import BatchItem
from okralong.pipelines.llm.batch_results import BatchAnswer
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.rate_limit import NO_HEADERS, RateLimitHeaders
from okralong.pipelines.llm.records import Call, CallKey, Outcome, Totals


@dataclass(frozen=True, slots=True)
class Steps:
    """Journal rows of a question that are not durable yet, and the US dollars to reserve for its plan, if any.

    They are sent with the question's next message to the gateway, and committed together with it.
    """

    rows: tuple[JournalRow, ...] = ()
    admit_usd: float | None = None

    def __bool__(self) -> bool:
        return bool(self.rows) or self.admit_usd is not None


NO_STEPS: Final = Steps()


@dataclass(frozen=True, slots=True)
class Sendable:
    """Permission to send an attempt: the seconds waited for the permit, and when it was granted."""

    queue_s: float
    started_at: datetime


class GatewayPort(Protocol):
    """The interface of ``Gateway`` that planners use: budget, rate limits, journal and ledger of a run."""

    async def ask(
        self, call: Call, tokens: int, expires_s: float, limiter: int = 0, steps: Steps = NO_STEPS
    ) -> Sendable:
        """Wait until an attempt may be sent and its intent is durable (see ``Gateway.ask``)."""
        ...

    async def reserve(self, call: Call, steps: Steps = NO_STEPS) -> None:
        """Reserve the cost of an attempt; the first part of ``ask``."""
        ...

    async def acquire(self, limiter: int, tokens: int, expires_s: float) -> int:
        """Wait for a permit; the second part of ``ask``."""
        ...

    async def give_back(self, limiter: int, permit: int) -> None:
        """Return a permit that was not used."""
        ...

    async def intend(self, call: Call, limiter: int, permit: int) -> bool:
        """Make the intent durable, the third part of ``ask``. Return False if the attempt must start over."""
        ...

    async def came(
        self, outcome: Outcome, headers: RateLimitHeaders = NO_HEADERS, unsent: bool = False, steps: Steps = NO_STEPS
    ) -> int:
        """Make the outcome of an attempt durable (see ``Gateway.came``)."""
        ...

    async def record(self, query_id: str, steps: Steps) -> None:
        """Make steps durable at once. Raises OverBudget."""
        ...

    async def begin(self, query_id: str) -> list[JournalRow] | None:
        """Start or resume a question: return its journal rows, or None if it is finished."""
        ...

    async def known(self, query_id: str) -> list[JournalRow]:
        """Return the journal rows of a question in progress."""
        ...

    async def spent(self, query_id: str) -> tuple[int, Usage, float]:
        """Return calls, tokens and US dollars of a question (see ``RunLedger.spent``)."""
        ...

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """Return the last reply recorded at a step, or None."""
        ...

    async def finish(self, row: Mapping[str, Any], rows: Sequence[JournalRow] = ()) -> Mapping[str, Any] | None:
        """Write a question's answers row, with the journal rows that are not durable yet."""
        ...

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        ...

    async def release(self, query_id: str) -> bool:
        """Abandon a question and release its reserve. Return whether it is still open."""
        ...


class LedgerPort(Protocol):
    """The interface of ``RunLedger`` that the driver and the batch scheduler use."""

    async def begun(self) -> set[str]:
        """Return the unfinished questions that an earlier process started."""
        ...

    async def totals(self) -> Totals:
        """Return the sums over the run so far."""
        ...

    async def reply(self, query_id: str, path: str, sample: int) -> JournalRow | None:
        """Return the last reply recorded at a step, or None."""
        ...

    async def record(self, rows: Sequence[JournalRow]) -> None:
        """Make journal rows durable."""
        ...

    async def reserve(
        self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0
    ) -> None:
        """Reserve the worst-case cost of an attempt. Raises OverBudget, and BrokenError if the disk has failed."""
        ...

    async def outdated(self, keys: Sequence[CallKey]) -> set[CallKey]:
        """Release the reserves of attempts that may no longer be sent, and return their keys."""
        ...

    async def short(self) -> bool:
        """Return whether questions or calls are waiting for room in the budget."""
        ...

    async def intend(self, call: Call) -> None:
        """Make the intent of an attempt durable. Raises OverBudget, OSError or BrokenError."""
        ...

    async def settle(self, outcome: Outcome) -> int:
        """Make the outcome of an attempt durable (see ``RunLedger.settle``)."""
        ...

    async def finish(self, row: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Write a question's answers row. Return it, or None if the question was already finished."""
        ...

    async def fail(self, item: str, stage: str, error_type: str, message: str) -> None:
        """Write a row of ``failures``."""
        ...

    async def close(self) -> None:
        """Write the remaining rows and release the run folder."""
        ...


class SchedulerPort(Protocol):
    """The interface of ``BatchScheduler`` that calls use."""

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """Wait for a batch to answer a call. Raises OverBudget, EndpointError or BrokenError."""
        ...

    async def stop(self, why: str) -> None:
        """Stop the run: every waiting call raises EndpointError. A later start collects the batches under way."""
        ...

    async def drain(self) -> None:
        """Cancel the batches that no call waits for, and settle their costs."""
        ...

    async def notes(self, start: int) -> list[str]:
        """Return the messages for the user from number ``start`` on."""
        ...
