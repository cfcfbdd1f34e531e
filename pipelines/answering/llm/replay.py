"""What a run's folder says about its past: what is finished, what is known of the rest, and what was spent.

A call whose intent is in the journal and whose outcome is nowhere was in flight when its process ended. Nobody knows
whether it was billed, so it becomes a ledger row "unknown" that holds its full reserve.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.journal import JournalRow, RunLog, StepKey
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import row_from_json
from okralong.pipelines.answering.llm.parts import last_rows
from okralong.pipelines.values import Usage

FINAL = ("answered", "unanswerable")
"""Statuses that a rerun leaves alone. A question that failed or met the cap is posed again, over its old journal."""

_SPENT = ["call_id", "attempt", "query_id", "status", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd"]


@dataclass(slots=True)
class QuestionState:
    """What is known of an unfinished question: its journal rows (no requests), and what its calls have cost."""

    rows: dict[StepKey, JournalRow] = field(default_factory=dict)
    settled: set[CallKey] = field(default_factory=set)
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0

    def pay(self, key: CallKey, usage: Usage, cost_usd: float) -> None:
        """Count a paid call."""
        self.settled.add(key)
        self.calls += 1
        self.usage += usage
        self.cost_usd += cost_usd


@dataclass(slots=True)
class RunState:
    """The past of a run. ``to_write`` are ledger rows that the last process owed."""

    statuses: dict[str, str] = field(default_factory=dict)
    questions: dict[str, QuestionState] = field(default_factory=dict)
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    settled_usd: float = 0.0
    unknown_usd: dict[CallKey, float] = field(default_factory=dict)
    failures: int = 0
    to_write: list[dict[str, Any]] = field(default_factory=list)

    def question(self, query_id: str) -> QuestionState:
        """The state of a question, new when it was not heard of."""
        return self.questions.setdefault(query_id, QuestionState())


def replay(log: RunLog) -> RunState:
    """Read a run's tables; sets ``log.next_seq``. Bodies are kept of unfinished questions only."""
    state = RunState()
    for batch in log.tables["answers"].batches(["query_id", "status"]):
        state.statuses.update(zip(batch["query_id"].to_pylist(), batch["status"].to_pylist(), strict=True))
    failures = list(log.tables["failures"].batches(["id", "stage"]))
    state.failures = last_rows(pa.concat_tables(failures), ["id", "stage"]).num_rows if failures else 0
    finished = pa.array([query for query, status in state.statuses.items() if status in FINAL], pa.string())
    known = _replay_ledger(log, state, finished)
    _replay_journal(log, state, finished, known)
    return state


def _replay_ledger(log: RunLog, state: RunState, finished: pa.Array) -> set[CallKey]:
    """Sums of what was paid; returns the keys of unfinished questions' attempts that have a row."""
    parts = list(log.tables["ledger"].batches(_SPENT))
    if not parts:
        return set()
    ledger = last_rows(pa.concat_tables(parts), ["call_id", "attempt"])
    paid = ledger.filter(pc.equal(ledger["status"], "ok"))
    state.calls = paid.num_rows
    state.usage = Usage(*(int(pc.sum(paid[name]).as_py() or 0) for name in _SPENT[4:7]))
    state.settled_usd = math.fsum(paid["cost_usd"].to_pylist())
    for row in ledger.filter(pc.equal(ledger["status"], "unknown")).to_pylist():
        state.unknown_usd[row["call_id"], row["attempt"]] = row["cost_usd"]
    known: set[CallKey] = set()
    for row in ledger.filter(pc.invert(pc.is_in(ledger["query_id"], finished))).to_pylist():
        key = (row["call_id"], row["attempt"])
        known.add(key)
        if row["status"] == "ok":
            usage = Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
            state.question(row["query_id"]).pay(key, usage, row["cost_usd"])
    return known


def _replay_journal(log: RunLog, state: RunState, finished: pa.Array, known: set[CallKey]) -> None:
    owed: dict[CallKey, dict[str, Any]] = {}
    for batch in log.tables["journal"].batches():
        log.next_seq = max(log.next_seq, int(pc.max(batch["seq"]).as_py() or 0) + 1)
        for row in batch.filter(pc.invert(pc.is_in(batch["query_id"], finished))).to_pylist():
            step = JournalRow(
                row["query_id"], row["path"], row["kind"], row["body"], row["sample"], row["request_hash"]
            )
            if step.kind in ("request", "reply"):
                call = json.loads(step.body)["call"]
                if (key := (call["call_id"], call["attempt"])) not in known:
                    owed[key] = call
            if step.kind != "request":
                state.question(step.query_id).rows[step.key] = step
    for key, call in owed.items():
        row = row_from_json(call)
        state.to_write.append(row)
        if row["status"] == "ok":
            usage = Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
            state.question(row["query_id"]).pay(key, usage, row["cost_usd"])
            state.calls += 1
            state.usage += usage
            state.settled_usd += row["cost_usd"]
        else:
            state.unknown_usd[key] = row["cost_usd"]
