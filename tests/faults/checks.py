"""What must hold of a run that was killed and finished: what the folder promises, held against the endpoint's bill."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.request import LlmRequest
from tests.fakes.endpoint.chat_call import request_hash
from tests.faults.night import Night
from tests.money import settled_and_unknown

DECIDED: Final = ("analysis", "plan", "retrieval", "selection")
"""Kinds of journal rows that a rerun must find, and not decide anew."""

Step = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What was durable at one moment: decisions by step, requests whose reply was there, finished answers."""

    decided: dict[Step, str]
    replied: frozenset[str]
    answers: dict[str, str]
    asked: int


def snapshot(night: Night) -> Snapshot:
    """The state of the run folder now."""
    journal = night.table("journal")
    sent = _sent(journal)
    return Snapshot(
        _decided(journal),
        frozenset(sent[row["request_hash"]] for row in journal if row["kind"] == "reply"),
        {row["query_id"]: row["answer"] for row in night.table("answers")},
        len(night.endpoint.received("chat")),
    )


def check(night: Night, question_ids: set[str], before: list[Snapshot], most_lost: int) -> None:
    """Assert it. ``before`` are snapshots taken at the kills, ``most_lost`` the calls that they can have cost."""
    night.wait_for_silence()
    answers = Folder.of(night.run).at("answers").read_tables(ANSWERS).to_pylist()
    assert Counter(row["query_id"] for row in answers) == Counter(question_ids), "one row for each question"
    assert {row["status"] for row in answers} <= {"answered", "unanswerable"}
    assert Folder.of(night.run).read_manifest() is not None
    assert not list(night.run.rglob("*.partial")), "nothing half-written stays"
    journal, ledger = night.table("journal"), night.table("ledger")
    for earlier in before:
        now = _decided(journal)
        assert {step: now.get(step) for step in earlier.decided} == earlier.decided, "the same plans as before"
        assert {row["query_id"]: row["answer"] for row in answers if row["query_id"] in earlier.answers} == (
            earlier.answers
        )
        later = {entry["request_hash"] for entry in night.endpoint.received("chat")[earlier.asked :]}
        assert not later & earlier.replied, "nothing was asked again whose reply had arrived"
    _check_calls(night, journal, ledger, most_lost)
    _check_money(night, answers, ledger)


def _check_calls(night: Night, journal: list[dict[str, Any]], ledger: list[dict[str, Any]], most_lost: int) -> None:
    """Every request that arrived is an attempt in the ledger; one of each step brought the reply that was used."""
    sent = _sent(journal)
    # One that is refused for its key has not been read, and has no hash.
    read = [entry["request_hash"] for entry in night.endpoint.received("chat") if entry["request_hash"]]
    received = Counter(read)
    attempts = Counter(sent[row["request_hash"]] for row in ledger)
    assert all(times <= attempts[asked] for asked, times in received.items()), "a request that no attempt explains"
    paid = Counter((row["query_id"], row["path"]) for row in ledger if row["status"] == "ok")
    assert set(paid.values()) == {1}, "no step was paid for twice"
    faults = sum(bool(entry["fault"]) for entry in night.endpoint.received("chat"))
    lost = sum(row["status"] == "unknown" for row in ledger)
    assert lost <= most_lost + faults, "only what was in flight is unknown"
    billed = sum(entry["billed"] for entry in night.endpoint.received("chat"))
    assert billed <= paid.total() + lost, "only what was in flight was asked again"


def _check_money(night: Night, answers: list[dict[str, Any]], ledger: list[dict[str, Any]]) -> None:
    settled, unknown = settled_and_unknown(ledger)
    assert settled <= night.endpoint.bill_usd <= settled + unknown
    calls = Counter(row["query_id"] for row in ledger if row["status"] == "ok")
    assert {row["query_id"]: row["calls"] for row in answers} == {
        row["query_id"]: calls[row["query_id"]] for row in answers
    }, "each answer's row counts its own calls"


def _decided(journal: list[dict[str, Any]]) -> dict[Step, str]:
    return {(row["query_id"], row["path"], row["kind"]): row["body"] for row in journal if row["kind"] in DECIDED}


def _sent(journal: list[dict[str, Any]]) -> dict[str, str]:
    """The endpoint's hash of a request by our own; the journal has the request of each first attempt."""
    found: dict[str, str] = {}
    for row in journal:
        if row["kind"] == "request" and (request := json.loads(row["body"])["request"]):
            lists = {name: tuple(request[name]) for name in ("stop", "others") if name in request}
            messages = tuple(Message(**message) for message in request["messages"])
            known = LlmRequest(**{**request, **lists, "messages": messages})
            assert known.request_hash == row["request_hash"]
            found[row["request_hash"]] = request_hash(known.parameters())
    return found
