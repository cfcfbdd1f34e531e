"""One request of a batch: answered as chat would answer it, without rate limits, at the batch's share of the price."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from tests.fakes.endpoint.batch import Batch
from tests.fakes.endpoint.batch_input import BatchItem
from tests.fakes.endpoint.chat_call import read_call
from tests.fakes.endpoint.completion import complete
from tests.fakes.endpoint.fault_rule import REPLY_KINDS
from tests.fakes.endpoint.journal import Entry
from tests.fakes.endpoint.problems import Problem, scripted
from tests.fakes.endpoint.state import Endpoint

Line = dict[str, Any]
"""A line of an output or error file."""


def answer_item(endpoint: Endpoint, batch: Batch, item: BatchItem) -> Line:
    """Answer and charge one request; returns its line, whose status code is 200 where there is a reply."""
    entry = endpoint.journal.open(endpoint.now(), "batch_item", "POST", batch.url)
    entry.custom_id = item.custom_id
    entry.request_id = f"req_{uuid.uuid4().hex}"
    try:
        entry.status, body = 200, _reply(endpoint, batch, item, entry)
    except Problem as problem:
        entry.status, entry.code, body = problem.status, problem.code or "", problem.body
    return file_line(item, {"status_code": entry.status, "request_id": entry.request_id, "body": body}, None)


def file_line(item: BatchItem, response: dict[str, Any] | None, error: dict[str, str] | None) -> Line:
    """A line with a response, or with an error for a request that got none."""
    return {"id": f"batch_req_{uuid.uuid4().hex}", "custom_id": item.custom_id, "response": response, "error": error}


def _reply(endpoint: Endpoint, batch: Batch, item: BatchItem, entry: Entry) -> dict[str, Any]:
    scenario = endpoint.scenario
    call = read_call(item.body, scenario.models, endpoint.tokens)
    entry.model, entry.request_hash = call.name, call.request_hash
    endpoint.check_credit()
    fault = endpoint.faults.meet("batch_item", call.request_hash, call.prompt.text)
    entry.fault = fault.kind if fault else ""
    call.check_window()
    cached = endpoint.cached(call) if scenario.batches.cached_prefixes else (0, 0)
    spoilt = fault.kind if fault is not None and fault.kind in REPLY_KINDS else None
    if scenario.batches.overlong > 1:
        limit = call.limit or call.model.max_completion_tokens
        call, spoilt = replace(call, limit=int(limit * scenario.batches.overlong)), "length"
    done = complete(call, scenario.replies, scenario.seed, cached, spoilt)
    if fault is None or fault.is_billed:
        endpoint.charge(entry, call, done.usage, "batch")
        batch.usage += done.usage
    if fault is not None and (problem := scripted(fault, "")) is not None:
        raise problem
    return done.body
