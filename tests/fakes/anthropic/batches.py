"""``/anthropic/v1/messages/batches``: create, show, list in pages, cancel, results. Batches have no metadata."""

from __future__ import annotations

import asyncio
import json
import re
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from tests.fakes.anthropic.routes import MESSAGES
from tests.fakes.anthropic.translate import Wrong, as_chat, as_error, as_message
from tests.fakes.endpoint.batch import Batch
from tests.fakes.endpoint.batch_work import work_through
from tests.fakes.endpoint.chat_call import parse_body
from tests.fakes.endpoint.delivery import open_to_faults
from tests.fakes.endpoint.problems import Problem
from tests.fakes.endpoint.wire import CHAT, ENDPOINT

PATH: Final = f"{MESSAGES}/batches"
PREFIX: Final = "msgbatch_"
MOST_REQUESTS: Final = 100_000
MOST_BYTES: Final = 256 * 1024 * 1024
ENDED: Final = ("completed", "expired", "cancelled", "failed")


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(PATH, open_to_faults("batches", _create))
    app.router.add_get(PATH, open_to_faults("batches", _list))
    app.router.add_get(f"{PATH}/{{id}}", open_to_faults("batches", _show))
    app.router.add_get(f"{PATH}/{{id}}/results", open_to_faults("files", _results))
    app.router.add_post(f"{PATH}/{{id}}/cancel", open_to_faults("batches", _cancel))


async def _create(request: web.Request) -> web.Response:
    endpoint = request.app[ENDPOINT]
    raw = await request.read()
    given = parse_body(raw).get("requests")
    if not isinstance(given, list) or not given:
        raise Wrong("requests: List should have at least 1 item")
    if len(given) > MOST_REQUESTS or len(raw) > MOST_BYTES:
        raise Problem(413, "Request exceeds the maximum size")
    names = [str(each.get("custom_id")) for each in given]
    if len(set(names)) < len(names) or not all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names):
        raise Wrong("requests: each custom_id must be unique, and match ^[a-zA-Z0-9_-]{1,64}$")
    endpoint.check_credit()
    now, window_s = int(time.time() + endpoint.scenario.batches.clock_s), endpoint.scenario.batches.window_s
    batch = Batch(
        id=f"{PREFIX}{uuid.uuid4().hex[:24]}",
        url=CHAT,
        input_file_id="",
        metadata=None,
        ends=endpoint.now() + window_s,
        created_at=now,
        expires_at=now + int(window_s),
        total=len(given),
    )
    endpoint.batches[batch.id] = batch
    models = endpoint.scenario.models
    lines = "".join(f"{_line(each, models)}\n" for each in given)
    task = asyncio.get_running_loop().create_task(work_through(endpoint, batch, lines.encode()))
    endpoint.tasks.add(task)
    task.add_done_callback(endpoint.tasks.discard)
    return web.json_response(_public(request, batch))


def _line(each: dict[str, Any], models: Any) -> str:
    """The request as a line of an input file of OpenAI's. One that Anthropic refuses keeps what it is refused for."""
    try:
        body = as_chat(each.get("params") or {}, models).body
    except Problem as problem:
        body = {"model": next(iter(models)), "messages": [], "refused": str(problem)}
    return json.dumps({"custom_id": each["custom_id"], "method": "POST", "url": CHAT, "body": body})


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _public(request: web.Request, batch: Batch) -> dict[str, Any]:
    ended = batch.status in ENDED
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if ended:  # no count moves before that
        undone = batch.total - batch.completed - batch.failed
        counts |= {"succeeded": batch.completed, "errored": batch.failed}
        counts["canceled" if batch.status == "cancelled" else "expired"] = undone
    else:
        counts["processing"] = batch.total
    status = "ended" if ended else "canceling" if batch.status == "cancelling" else "in_progress"
    address = f"{request.scheme}://{request.host}{PATH}/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "ended_at": _stamp(time.time()) if ended else None,
        "created_at": _stamp(batch.created_at),
        "expires_at": _stamp(batch.expires_at),
        "archived_at": None,
        "cancel_initiated_at": _stamp(time.time()) if batch.cancelled.is_set() else None,
        "results_url": address if ended else None,
    } | request.app[ENDPOINT].scenario.batches.fields


async def _list(request: web.Request) -> web.Response:
    """The newest first, in pages that go on after an id."""
    ids = [batch_id for batch_id in reversed(request.app[ENDPOINT].batches) if batch_id.startswith(PREFIX)]
    after, limit = request.query.get("after_id"), int(request.query.get("limit", 20))
    start = ids.index(after) + 1 if after in ids else 0
    shown = ids[start : start + limit]
    batches = [_public(request, request.app[ENDPOINT].batches[each]) for each in shown]
    ends = {"first_id": shown[0] if shown else None, "last_id": shown[-1] if shown else None}
    return web.json_response({"data": batches, "has_more": start + limit < len(ids), **ends})


async def _show(request: web.Request) -> web.Response:
    return web.json_response(_public(request, _found(request)))


async def _cancel(request: web.Request) -> web.Response:
    batch = _found(request)
    if batch.status in ENDED:
        raise Problem(409, f"Batch {batch.id} has already ended.")
    if batch.status != "cancelling":
        batch.move("cancelling")
        batch.cancelled.set()
    return web.json_response(_public(request, batch))


async def _results(request: web.Request) -> web.Response:
    batch, files = _found(request), request.app[ENDPOINT].files
    if batch.status not in ENDED:
        raise Wrong(f"Batch {batch.id} has no results yet.")
    ids = [file_id for file_id in (batch.output_file_id, batch.error_file_id) if file_id is not None]
    lines = [json.loads(line) for file_id in ids for line in files.get(file_id).content.splitlines()]
    content = "".join(json.dumps({"custom_id": line["custom_id"], "result": _result(line)}) + "\n" for line in lines)
    return web.Response(body=content.encode(), content_type="application/x-jsonl")


def _result(line: dict[str, Any]) -> dict[str, Any]:
    response = line["response"]
    if response is None:
        return {"type": "canceled" if line["error"]["code"] == "batch_cancelled" else "expired"}
    if response["status_code"] == 200:
        message = as_message(response["body"])
        message["usage"]["service_tier"] = "batch"
        return {"type": "succeeded", "message": message}
    told = response["body"]["error"]
    problem = Problem(response["status_code"], told["message"], code=told["code"], param=told["param"])
    _, body = as_error(problem, response["request_id"])
    return {"type": "errored", "error": body}


def _found(request: web.Request) -> Batch:
    batch = request.app[ENDPOINT].batches.get(request.match_info["id"])
    if batch is None:
        raise Problem(404, "Message Batch not found.")
    return batch
