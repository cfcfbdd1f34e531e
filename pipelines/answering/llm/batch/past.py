"""What a run's folder says of its batches: which attempts went out with one and have no known end yet."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.journal import ROW_KEYS, JournalRow, read_run_table
from okralong.pipelines.answering.llm.budget import CallKey
from okralong.pipelines.answering.llm.calls import Call, row_from_json
from okralong.pipelines.answering.llm.parts import READ_TRIES, PartedTable
from okralong.pipelines.core.schemas import RUN_TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError

BATCH: str = "batch"
"""Kind of the journal's rows that name a wave's batch."""
_MARK = '"mode":"batch"'
"""Stands in the body of every intent of an attempt in a batch, as ``intent_body`` writes it."""


@dataclass(frozen=True)
class Past:
    """``open`` are the attempts by wave; ``batch_ids`` what the endpoint called the waves' batches, where that was
    recorded; ``attempts`` the highest attempt of each call that has had one; ``waves`` the highest wave.
    """

    open: Mapping[int, list[Call]] = field(default_factory=dict)
    batch_ids: Mapping[int, str] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    waves: int = 0

    @property
    def since(self) -> datetime | None:
        """When the oldest open attempt went out."""
        return min((call.started_at for calls in self.open.values() for call in calls), default=None)

    @classmethod
    def load(cls, run: Folder) -> Past:
        """The past of a run folder, read beside its writer. Raises ArchiveError for another schema version."""
        attempts: dict[str, int] = {}
        settled: set[CallKey] = set()
        waves = 0
        ledger = read_run_table(run, "ledger", ["call_id", "attempt", "status", "http_status", "mode", "wave"])
        for row in ledger.filter(pc.equal(ledger["mode"], "batch")).to_pylist():
            key = (row["call_id"], row["attempt"])
            attempts[key[0]] = max(attempts.get(key[0], 0), key[1])
            waves = max(waves, row["wave"])
            # Of an unknown attempt with a status the batch has told all that it will.
            if row["status"] != "unknown" or row["http_status"]:
                settled.add(key)
        batch_ids: dict[int, str] = {}
        calls: dict[CallKey, Call] = {}
        for row in _batch_rows(run):
            if row["kind"] == BATCH:
                said = json.loads(row["body"])
                batch_ids[said["wave"]] = said["batch_id"]
                waves = max(waves, said["wave"])
                continue
            call = _call(json.loads(row["body"])["call"], row["sample"])
            attempts[call.call_id] = max(attempts.get(call.call_id, 0), call.attempt)
            waves = max(waves, call.wave)
            if call.key not in settled:
                calls[call.key] = call
        by_wave: dict[int, list[Call]] = defaultdict(list)
        for call in calls.values():
            by_wave[call.wave].append(call)
        return cls(dict(by_wave), batch_ids, attempts, waves)


def batch_row(wave: int, batch_id: str) -> JournalRow:
    """The journal row that names the batch of a wave."""
    return JournalRow("", f"batches/{wave}", BATCH, json.dumps({"wave": wave, "batch_id": batch_id}))


def _batch_rows(run: Folder) -> Iterator[dict[str, Any]]:
    """Rows of kind batch, and requests that went out with one; of the bodies of one file at a time."""
    columns = ["kind", "sample", "body"]
    for _ in range(READ_TRIES):
        found: list[dict[str, Any]] = []
        try:
            journal = PartedTable(run.at("journal"), RUN_TABLES["journal"], ROW_KEYS["journal"], writer=False)
            for part in journal.batches(columns):
                intents = pc.and_(pc.equal(part["kind"], "request"), pc.match_substring(part["body"], _MARK))
                rows = part.filter(pc.or_(intents, pc.equal(part["kind"], BATCH)))
                found += [{**row, "body": _without_request(row)} for row in _rows(rows)]
        except FileNotFoundError:  # merged meanwhile
            continue
        yield from found
        return
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were read. Try again.")


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _without_request(row: Mapping[str, Any]) -> str:
    """The body without the prompt, which nobody needs to know a reply again."""
    body = json.loads(row["body"])
    body.pop("request", None)
    return json.dumps(body)


def _call(data: Mapping[str, Any], sample: int) -> Call:
    row = row_from_json(data)
    names = (
        *("call_id", "attempt", "query_id", "path", "role", "model", "request_hash", "input_usd_per_million"),
        *("cached_usd_per_million", "output_usd_per_million", "reserved_usd", "queue_s", "started_at"),
        *("endpoint", "mode", "wave", "batch_id"),
    )
    return Call(sample=sample, tags=dict(row["tags"]), **{name: row[name] for name in names})
