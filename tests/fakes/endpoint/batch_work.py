"""Working through a batch: its requests one by one at the scenario's pace, then its output and error files.

What succeeded stands in the output file, in an order of its own, as OpenAI warns; what failed, expired or was cancelled
in the error file. What was done before an expiry or a cancellation is kept and charged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tests.fakes.endpoint.batch import Batch, Status
from tests.fakes.endpoint.batch_answer import Line, answer_item, file_line
from tests.fakes.endpoint.batch_input import BatchItem, error, read_items
from tests.fakes.endpoint.chat_call import read_call
from tests.fakes.endpoint.draws import draw
from tests.fakes.endpoint.problems import ORGANIZATION, Problem
from tests.fakes.endpoint.state import Endpoint

POLL_S: Final = 0.01
"""How often a waiting batch looks whether it was cancelled, has expired, or may go on."""

UNDONE: Final[dict[Status, dict[str, str]]] = {
    "expired": {
        "code": "batch_expired",
        "message": "This request could not be executed before the completion window expired.",
    },
    "cancelled": {
        "code": "batch_cancelled",
        "message": "This request could not be executed because the batch was cancelled.",
    },
}
"""The error of a request that was not come to. The first is from OpenAI's guide; the second's words are ours."""


async def work_through(endpoint: Endpoint, batch: Batch, content: bytes) -> None:
    """The whole life of a batch that was just created over an input file of this ``content``."""
    with suppress(TimeoutError):
        await asyncio.wait_for(batch.cancelled.wait(), endpoint.scenario.batches.validating_s)
    items: Sequence[BatchItem] = []
    if batch.status == "validating":
        items = _validated(endpoint, batch, content)
        if batch.errors:
            batch.move("failed")
            return
        batch.total = len(items)
        batch.move("in_progress")
    good, bad, undone = await _answer_all(endpoint, batch, items)
    if batch.status == "cancelling":
        outcome: Status = "cancelled"
        await asyncio.sleep(endpoint.scenario.batches.cancelling_s)
    else:
        outcome = "expired" if undone else "completed"
        batch.move("finalizing")
        await asyncio.sleep(endpoint.scenario.batches.finalizing_s)
    bad += [file_line(item, None, UNDONE[outcome]) for item in undone]
    batch.output_file_id = _write(endpoint, batch, "output", good)
    batch.error_file_id = _write(endpoint, batch, "error", bad)
    batch.enqueued_tokens = 0
    batch.move(outcome)


def _validated(endpoint: Endpoint, batch: Batch, content: bytes) -> list[BatchItem]:
    """The batch's requests. Where anything is wrong it then stands in ``batch.errors``."""
    settings = endpoint.scenario.batches
    models = frozenset(endpoint.scenario.models)
    items, batch.errors = read_items(content, batch.url, models, settings.max_requests)
    if batch.errors:
        return []
    batch.model = str(items[0].body["model"])
    if settings.enqueued_tokens is not None:
        tokens = sum(_prompt_tokens(endpoint, item) for item in items)
        others = sum(other.enqueued_tokens for other in endpoint.batches.values() if other.model == batch.model)
        if tokens + others > settings.enqueued_tokens:
            message = (
                f"Enqueued token limit reached for {batch.model} in organization {ORGANIZATION}. Limit: "
                f"{settings.enqueued_tokens:,} enqueued tokens. Please try again once some in_progress batches have "
                "been completed."
            )
            batch.errors = [error("token_limit_exceeded", message)]
        else:
            batch.enqueued_tokens = tokens
    return items


def _prompt_tokens(endpoint: Endpoint, item: BatchItem) -> int:
    try:
        return len(read_call(item.body, endpoint.scenario.models, endpoint.tokens).ids)
    except Problem:  # it will fail by itself, and uses nothing
        return 0


async def _answer_all(
    endpoint: Endpoint, batch: Batch, items: Sequence[BatchItem]
) -> tuple[list[Line], list[Line], Sequence[BatchItem]]:
    """The lines of the output file, those of the error file, and the requests that were left undone."""
    good: list[Line] = []
    bad: list[Line] = []
    due = endpoint.now()
    for number, item in enumerate(items):
        due = await _turn(endpoint, batch, due)
        if batch.status != "in_progress" or endpoint.now() >= batch.ends:
            return good, bad, items[number:]
        line = answer_item(endpoint, batch, item)
        if line["response"]["status_code"] == 200:
            batch.completed += 1
            omit_every = endpoint.scenario.batches.omit_every
            if omit_every is None or batch.completed % omit_every:
                good.append(line)
        else:
            bad.append(line)
            batch.failed += 1
    return good, bad, []


async def _turn(endpoint: Endpoint, batch: Batch, due: float) -> float:
    """Wait for a request's turn, by the pace of that moment, or the batch's end; returns when the turn was due."""
    await asyncio.sleep(0)
    while batch.status == "in_progress" and endpoint.now() < batch.ends:
        pace = endpoint.scenario.batches.requests_per_s
        stop_after = endpoint.scenario.batches.stop_after
        if pace == 0 or (stop_after is not None and batch.completed + batch.failed >= stop_after):
            due = endpoint.now()
        elif endpoint.now() >= due + 1 / pace:
            return due + 1 / pace
        await asyncio.sleep(POLL_S)
    return due


def _write(endpoint: Endpoint, batch: Batch, kind: str, lines: list[Line]) -> str | None:
    if not lines:
        return None
    seed = endpoint.scenario.seed
    shuffled = sorted(lines, key=lambda line: draw(seed, "order", str(line["custom_id"])))
    content = "".join(json.dumps(line) + "\n" for line in shuffled)
    return endpoint.files.add(f"{batch.id}_{kind}.jsonl", "batch_output", content.encode()).id
