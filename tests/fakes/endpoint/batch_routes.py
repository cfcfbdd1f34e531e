"""``/v1/batches``: create, show, list in pages, cancel."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from typing import Any, Final

from aiohttp import web

from tests.fakes.endpoint.batch import Batch
from tests.fakes.endpoint.batch_work import work_through
from tests.fakes.endpoint.chat_call import parse_body
from tests.fakes.endpoint.delivery import open_to_faults
from tests.fakes.endpoint.paging import page
from tests.fakes.endpoint.problems import Problem, invalid, missing, not_found
from tests.fakes.endpoint.wire import CHAT, ENDPOINT

PATH: Final = "/v1/batches"
MOST_METADATA: Final = (16, 64, 512)
"""Pairs, characters of a key, characters of a value."""


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(PATH, open_to_faults("batches", _create))
    app.router.add_get(PATH, open_to_faults("batches", _list))
    app.router.add_get(f"{PATH}/{{id}}", open_to_faults("batches", _show))
    app.router.add_post(f"{PATH}/{{id}}/cancel", open_to_faults("batches", _cancel))


async def _create(request: web.Request) -> web.Response:
    endpoint = request.app[ENDPOINT]
    body = parse_body(await request.read())
    for param in ("input_file_id", "endpoint", "completion_window"):
        if not isinstance(body.get(param), str):
            raise missing(param)
    if body["endpoint"] != CHAT:
        raise invalid("endpoint", f"Invalid value: '{body['endpoint']}'. Supported values are: '{CHAT}'.")
    if body["completion_window"] != "24h":
        raise invalid("completion_window", "Invalid value. Supported values are: '24h'.")
    metadata = _metadata(body.get("metadata"))
    file = endpoint.files.get(body["input_file_id"])
    if file.purpose != "batch":
        raise invalid("input_file_id", f"Invalid file purpose: {file.id} is for '{file.purpose}', not for 'batch'.")
    endpoint.check_credit()
    window_s, now = endpoint.scenario.batches.window_s, endpoint.now()
    created_at = int(time.time() + endpoint.scenario.batches.clock_s)
    batch = Batch(
        id=f"batch_{uuid.uuid4().hex}",
        url=CHAT,
        input_file_id=file.id,
        metadata=metadata,
        ends=now + window_s,
        created_at=created_at,
        expires_at=created_at + math.ceil(window_s),
    )
    endpoint.batches[batch.id] = batch
    task = asyncio.get_running_loop().create_task(work_through(endpoint, batch, file.content))
    endpoint.tasks.add(task)
    task.add_done_callback(endpoint.tasks.discard)
    return web.json_response(_public(request, batch))


def _public(request: web.Request, batch: Batch) -> dict[str, Any]:
    return batch.public() | request.app[ENDPOINT].scenario.batches.fields


def _metadata(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    pairs, key_length, value_length = MOST_METADATA
    if not isinstance(given, dict) or len(given) > pairs:
        raise invalid("metadata", f"Invalid 'metadata': expected an object with at most {pairs} properties.")
    for key, value in given.items():
        if len(key) > key_length or not isinstance(value, str) or len(value) > value_length:
            message = (
                f"Invalid 'metadata.{key}': keys of up to {key_length} and strings of up to {value_length} characters."
            )
            raise invalid("metadata", message)
    return dict(given)


async def _list(request: web.Request) -> web.Response:
    batches = [_public(request, batch) for batch in reversed(request.app[ENDPOINT].batches.values())]
    return web.json_response(page(batches, request.query, 100, 20))


async def _show(request: web.Request) -> web.Response:
    return web.json_response(_found(request).public())


async def _cancel(request: web.Request) -> web.Response:
    batch = _found(request)
    if batch.status not in ("validating", "in_progress", "cancelling"):
        raise Problem(409, f"Cannot cancel a batch with status '{batch.status}'.")
    if batch.status != "cancelling":
        batch.move("cancelling")
        batch.cancelled.set()
    return web.json_response(_public(request, batch))


def _found(request: web.Request) -> Batch:
    batch_id = request.match_info["id"]
    batch = request.app[ENDPOINT].batches.get(batch_id)
    if batch is None:
        raise not_found("Batch", batch_id)
    return batch
