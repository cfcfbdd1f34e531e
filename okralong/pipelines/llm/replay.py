"""Restore the state of a run from its folder: finished questions, recorded steps of the others, and money spent.

A call that has an intent in the journal but no outcome was in flight when its process ended. It is not known whether it
was billed, so it gets a ledger row with the status "unknown", which holds its full reserve, times the largest ratio of
a reply's cost to its reserve if one of the run cost more than that.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.bill import UNIT_PRICES, alone_usd, usage_of
from okralong.pipelines.llm.journal import (
    JournalRow,
    RunLog,
    StepKey,
    last_rows,
)
from okralong.pipelines.llm.records import (
    REST,
    USED,
    CallKey,
    models_named,
    row_from_json,
)
from okralong.pipelines.llm.snapshots import Snapshot, origin
from okralong.pipelines.llm.usage import BEYOND_WINDOW

FINAL = ("answered", "unanswerable", "invalid_output")
"""Statuses of finished questions. Only the sums of these are kept in memory, unless they are reopened."""
RETRIED = ("failed", "unanswerable", "invalid_output")
"""Statuses that a bad reply may have caused. When such a question is reopened, its replies are requested again."""
_TOKENS = ["prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cache_write_tokens"]
_SPENT = ["call_id", "attempt", "query_id", "status", *_TOKENS, "cost_usd", "reserved_usd", *UNIT_PRICES]
MOST_TOKENS = 2**40  # project default
"""More tokens than any reply has, but few enough for the integers of a table."""


@dataclass(slots=True)
class QuestionState:
    """The journal rows (except requests) of an unfinished question, and the cost of its calls."""

    rows: dict[StepKey, JournalRow] = field(default_factory=dict)
    settled: set[CallKey] = field(default_factory=set)
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    alone_usd: float = 0.0
    replied_by: str = ""

    def pay(self, row: Mapping[str, Any]) -> None:
        """Add a call with a reply, given its ledger row. A reply reused from another run costs nothing."""
        self.settled.add((row["call_id"], row["attempt"]))
        self.calls += 1
        self.usage += usage_of(row)
        self.cost_usd += row["cost_usd"]
        self.alone_usd += alone_usd(row)
        self.replied_by = models_named([row.get("snapshot") or ""]) or self.replied_by


@dataclass(slots=True)
class RunState:
    """The state of a run at its start. ``to_write`` has the ledger rows that the last process did not write.

    ``share`` is the largest ratio of a reply's cost to its reserve, but at least 1. ``undecided`` is True if a usage
    was reported that a person must decide on (see ``usage.Booked``).
    """

    statuses: dict[str, str] = field(default_factory=dict)
    questions: dict[str, QuestionState] = field(default_factory=dict)
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    settled_usd: float = 0.0
    unknown_usd: dict[CallKey, float] = field(default_factory=dict)
    failures: int = 0
    snapshots: Counter[Snapshot] = field(default_factory=Counter)
    undecided: bool = False
    share: float = 1.0
    to_write: list[dict[str, Any]] = field(default_factory=list)

    def question(self, query_id: str) -> QuestionState:
        """Return the state of a question, created if needed."""
        return self.questions.setdefault(query_id, QuestionState())


def replay(log: RunLog, reopened: frozenset[str] = frozenset()) -> RunState:
    """Read a run's tables and set ``log.next_seq``. Row bodies are kept only for unfinished questions.

    ``reopened`` questions are finished but will be asked again, so their rows and costs are kept, too. If their status
    is in ``RETRIED``, the replies that led to it are dropped, since they would lead to it again. These are the replies
    that were recorded before the answers row; one process writes both tables, so their times can be compared.
    """
    state = RunState()
    ended: dict[str, datetime] = {}
    for batch in log.tables["answers"].read_fragments(["query_id", "status", "finished_at"]):
        queries = batch["query_id"].to_pylist()
        state.statuses.update(zip(queries, batch["status"].to_pylist(), strict=True))
        ended.update(zip(queries, batch["finished_at"].to_pylist(), strict=True))
    failures = list(log.tables["failures"].read_fragments(["id", "stage"]))
    state.failures = last_rows(pa.concat_tables(failures), ["id", "stage"]).num_rows if failures else 0
    finished = {query for query, status in state.statuses.items() if status in FINAL and query not in reopened}
    disowned = {query: ended[query] for query in reopened if state.statuses.get(query) in RETRIED}
    ledger = _replay_ledger(log, state, finished)
    # A repair may have put ledger rows aside, but the journal has the calls, also those of finished questions.
    repaired = bool(log.tables["ledger"].folder.names(".damaged"))
    owed = _replay_journal(log, state, {query: ended[query] for query in finished}, disowned, repaired)
    _settle_owed(state, owed, ledger, finished)
    return state


def _replay_ledger(log: RunLog, state: RunState, finished: set[str]) -> pa.Table:
    """Add up the costs, and return the ledger with one row per attempt."""
    wanted = [*_SPENT, *Snapshot._fields, "error"]
    parts = [log.tables["ledger"].schema.empty_table().select(wanted), *log.tables["ledger"].read_fragments(wanted)]
    ledger = last_rows(pa.concat_tables(parts), ["call_id", "attempt"])
    ledger = _with_possible_costs(ledger)
    paid = ledger.filter(pc.is_in(ledger["status"], pa.array(USED)))
    state.calls = paid.num_rows
    state.usage = Usage(*(int(pc.sum(paid[name]).as_py() or 0) for name in _TOKENS))
    state.undecided = bool(pc.any(pc.match_substring(ledger["error"], BEYOND_WINDOW)).as_py())
    state.settled_usd = math.fsum(paid["cost_usd"].to_pylist())
    shares = zip(paid["cost_usd"].to_pylist(), paid["reserved_usd"].to_pylist(), strict=True)
    state.share = max([1.0, *(cost / reserve for cost, reserve in shares if reserve > 0)])
    for row in paid.group_by(list(Snapshot._fields)).aggregate([("call_id", "count")]).to_pylist():
        state.snapshots[origin(row)] += row["call_id_count"]
    for row in ledger.filter(pc.equal(ledger["status"], "unknown")).to_pylist():
        rest = row["call_id"].endswith(REST)  # no call, but what one may have cost beyond its reply
        state.unknown_usd[row["call_id"], row["attempt"]] = row["cost_usd"] if rest else _in_full(row, state.share)
    open_again = pc.invert(pc.is_in(paid["query_id"], pa.array(list(finished), pa.string())))
    for row in paid.filter(open_again).to_pylist():
        state.question(row["query_id"]).pay(row)
    return ledger


def _with_possible_costs(ledger: pa.Table) -> pa.Table:
    """Replace an impossible cost by the row's reserve.

    Earlier releases did not check usage, and settled a reply of -1,000,000,000 tokens at minus $2,500.
    """
    cost = ledger["cost_usd"]
    possible = pc.and_(pc.is_finite(cost), pc.greater_equal(cost, 0.0))
    at = ledger.schema.get_field_index("cost_usd")
    return ledger.set_column(at, ledger.schema.field(at), pc.if_else(possible, cost, ledger["reserved_usd"]))


def _possible(row: dict[str, Any]) -> dict[str, Any]:
    """Return a missing ledger row; if its usage is impossible, its cost becomes its reserve."""
    counts = [row.get(name) or 0 for name in _TOKENS]
    if all(isinstance(each, int) and 0 <= each < MOST_TOKENS for each in counts) and 0 <= row["cost_usd"] < math.inf:
        return row
    note = "the endpoint reported a usage that cannot be true; the reserve is the cost"
    return {**row, **dict.fromkeys(_TOKENS, 0), "cost_usd": row["reserved_usd"], "error": note}


def _in_full(row: Mapping[str, Any], share: float) -> float:
    """Return what is held for an unknown attempt, if replies of the run cost up to ``share`` times their reserve."""
    return max(float(row["cost_usd"]), share * float(row["reserved_usd"]))


def _replay_journal(
    log: RunLog, state: RunState, finished: dict[str, datetime], disowned: dict[str, datetime], whole: bool
) -> dict[CallKey, dict[str, Any]]:
    """Restore unfinished questions; return the calls that may lack a ledger row.

    The calls of a finished question got a ledger row before its answers row was written. Only later calls may lack one:
    those of a process that had reopened the question, or of a branch that was still running. With ``whole``, any may.
    """
    ids, times = pa.array(list(finished), pa.string()), pa.array(list(finished.values()), pa.timestamp("us", tz="UTC"))
    owed: dict[CallKey, dict[str, Any]] = {}
    for batch in log.tables["journal"].read_fragments():
        log.next_seq = max(log.next_seq, int(pc.max(batch["seq"]).as_py() or 0) + 1)
        end = pc.take(times, pc.index_in(batch["query_id"], ids))
        late = pc.fill_null(pc.greater(batch["written_at"], end), True)
        if whole:
            late = pc.or_(late, pc.is_in(batch["kind"], pa.array(["request", "reply"])))
        for row in batch.filter(late).to_pylist():
            step = JournalRow(
                row["query_id"], row["path"], row["kind"], row["body"], row["sample"], row["request_hash"]
            )
            if step.kind in ("request", "reply"):
                call = json.loads(step.body)["call"]
                owed[call["call_id"], call["attempt"]] = call
            old = step.query_id in disowned and row["written_at"] <= disowned[step.query_id]
            if step.query_id not in finished and step.kind != "request" and not (old and step.kind == "reply"):
                state.question(step.query_id).rows[step.key] = step
    return owed


def _settle_owed(state: RunState, owed: dict[CallKey, dict[str, Any]], ledger: pa.Table, finished: set[str]) -> None:
    """Add the calls that lack a ledger row, and collect the rows to write."""
    known = ledger.filter(pc.is_in(ledger["call_id"], pa.array([call_id for call_id, _ in owed], pa.string())))
    for key in zip(known["call_id"].to_pylist(), known["attempt"].to_pylist(), strict=True):
        owed.pop(key, None)
    for key, call in owed.items():
        row = _possible(row_from_json(call))
        if row["status"] == "unknown":
            row["cost_usd"] = _in_full(row, state.share)
        state.to_write.append(row)
        if row["status"] in USED:
            usage = usage_of(row)
            if row["query_id"] not in finished:
                state.question(row["query_id"]).pay(row)
            state.undecided = state.undecided or BEYOND_WINDOW in row["error"]
            state.calls += 1
            state.usage += usage
            state.settled_usd += row["cost_usd"]
            state.snapshots[origin(row)] += 1
        else:
            state.unknown_usd[key] = row["cost_usd"]
