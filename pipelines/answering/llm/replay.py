"""What a run's folder says about its past: what is finished, what is known of the rest, and what was spent.

A call whose intent is in the journal and whose outcome is nowhere was in flight when its process ended. Nobody knows
whether it was billed, so it becomes a ledger row "unknown" that holds its full reserve.
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

from okralong.pipelines.answering.journal import ROW_KEYS, JournalRow, RunLog, StepKey
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import USED, row_from_json
from okralong.pipelines.answering.llm.parts import READ_TRIES, PartedTable, last_rows
from okralong.pipelines.answering.llm.ports import Snapshot
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, Usage

FINAL = ("answered", "unanswerable")
"""Statuses of questions of which nothing is kept but their sums, unless they are reopened."""
RETRIED = ("failed", "unanswerable")
"""Statuses that may have come of a bad reply, which a reopened question asks for anew."""

_ORIGIN = ["endpoint", "model", "snapshot", "system_fingerprint"]
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
        """Count a call that brought a reply; one that was taken from another run costs nothing."""
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
    snapshots: Counter[Snapshot] = field(default_factory=Counter)
    to_write: list[dict[str, Any]] = field(default_factory=list)

    def question(self, query_id: str) -> QuestionState:
        """The state of a question, new when it was not heard of."""
        return self.questions.setdefault(query_id, QuestionState())


def origin(row: Mapping[str, Any]) -> Snapshot:
    """Where the reply of a ledger row came from."""
    # Rows from before endpoints were kept name a model, which alone says nothing of the reply.
    known = row.get("endpoint") is not None
    return Snapshot(*(row[name] or "" for name in _ORIGIN)) if known else Snapshot("", "", "", "")


def replay(log: RunLog, reopened: frozenset[str] = frozenset()) -> RunState:
    """Read a run's tables; sets ``log.next_seq``. Bodies are kept of unfinished questions only.

    ``reopened`` questions are asked again although they have an end, so what is known of them and what they have cost
    is kept too. The replies that led one to "failed" or "unanswerable" are not: replayed, they would lead there again.
    They are known by their times, since both tables are written by one process: not later than the answers row.
    """
    state = RunState()
    ended: dict[str, datetime] = {}
    for batch in log.tables["answers"].batches(["query_id", "status", "finished_at"]):
        queries = batch["query_id"].to_pylist()
        state.statuses.update(zip(queries, batch["status"].to_pylist(), strict=True))
        ended.update(zip(queries, batch["finished_at"].to_pylist(), strict=True))
    failures = list(log.tables["failures"].batches(["id", "stage"]))
    state.failures = last_rows(pa.concat_tables(failures), ["id", "stage"]).num_rows if failures else 0
    finished = {query for query, status in state.statuses.items() if status in FINAL and query not in reopened}
    disowned = {query: ended[query] for query in reopened if state.statuses.get(query) in RETRIED}
    ledger = _replay_ledger(log, state, finished)
    owed = _replay_journal(log, state, {query: ended[query] for query in finished}, disowned)
    _settle_owed(state, owed, ledger)
    return state


def _replay_ledger(log: RunLog, state: RunState, finished: set[str]) -> pa.Table:
    """Sums of what was paid; returns the table, one row an attempt."""
    wanted = [*_SPENT, *_ORIGIN]
    parts = [log.tables["ledger"].schema.empty_table().select(wanted), *log.tables["ledger"].batches(wanted)]
    ledger = last_rows(pa.concat_tables(parts), ["call_id", "attempt"])
    paid = ledger.filter(pc.is_in(ledger["status"], pa.array(USED)))
    state.calls = paid.num_rows
    state.usage = Usage(*(int(pc.sum(paid[name]).as_py() or 0) for name in _SPENT[4:7]))
    state.settled_usd = math.fsum(paid["cost_usd"].to_pylist())
    for row in paid.group_by(_ORIGIN).aggregate([("call_id", "count")]).to_pylist():
        state.snapshots[origin(row)] += row["call_id_count"]
    for row in ledger.filter(pc.equal(ledger["status"], "unknown")).to_pylist():
        state.unknown_usd[row["call_id"], row["attempt"]] = row["cost_usd"]
    open_again = pc.invert(pc.is_in(paid["query_id"], pa.array(list(finished), pa.string())))
    for row in paid.filter(open_again).to_pylist():
        usage = Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
        state.question(row["query_id"]).pay((row["call_id"], row["attempt"]), usage, row["cost_usd"])
    return ledger


def _replay_journal(
    log: RunLog, state: RunState, finished: dict[str, datetime], disowned: dict[str, datetime]
) -> dict[CallKey, dict[str, Any]]:
    """What is known of unfinished questions; returns the calls that may owe a ledger row.

    Calls of a finished question have theirs since its answers row, unless they were written after it: by a process
    that had it reopened, or by a branch that ran on.
    """
    ids, times = pa.array(list(finished), pa.string()), pa.array(list(finished.values()), pa.timestamp("us", tz="UTC"))
    owed: dict[CallKey, dict[str, Any]] = {}
    for batch in log.tables["journal"].batches():
        log.next_seq = max(log.next_seq, int(pc.max(batch["seq"]).as_py() or 0) + 1)
        end = pc.take(times, pc.index_in(batch["query_id"], ids))
        for row in batch.filter(pc.fill_null(pc.greater(batch["written_at"], end), True)).to_pylist():
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


def calls_begun(run: Folder) -> dict[CallKey, Mapping[str, Any]]:
    """The attempts of which a run's journal knows, each as the ledger row that it has or is owed. Writes nothing.

    Reads beside a writer. Raises ArchiveError when the files never hold still.
    """
    for _ in range(READ_TRIES):
        begun: dict[CallKey, Mapping[str, Any]] = {}
        try:
            journal = PartedTable(run.at("journal"), RUN_TABLES["journal"], ROW_KEYS["journal"], writer=False)
            for batch in journal.batches(["kind", "body"]):
                for body in batch.filter(pc.is_in(batch["kind"], pa.array(["request", "reply"])))["body"].to_pylist():
                    call = json.loads(body)["call"]
                    begun[call["call_id"], call["attempt"]] = call
            return begun
        except FileNotFoundError:  # a merge took a file in between listing and reading
            continue
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were read. Try again.")


def _settle_owed(state: RunState, owed: dict[CallKey, dict[str, Any]], ledger: pa.Table) -> None:
    """Count the calls that have no ledger row, and put down the rows that are to be written."""
    known = ledger.filter(pc.is_in(ledger["call_id"], pa.array([call_id for call_id, _ in owed], pa.string())))
    for key in zip(known["call_id"].to_pylist(), known["attempt"].to_pylist(), strict=True):
        owed.pop(key, None)
    for key, call in owed.items():
        row = row_from_json(call)
        state.to_write.append(row)
        if row["status"] in USED:
            usage = Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"])
            state.question(row["query_id"]).pay(key, usage, row["cost_usd"])
            state.calls += 1
            state.usage += usage
            state.settled_usd += row["cost_usd"]
            state.snapshots[origin(row)] += 1
        else:
            state.unknown_usd[key] = row["cost_usd"]
