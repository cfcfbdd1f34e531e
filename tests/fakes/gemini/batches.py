"""Files (resumable upload, download) and batches, which end with a file of responses or with responses in line.

A batch works through its requests as OpenAI's does (``endpoint/batch_work.py``). What differs: a line of the input is
``{"key", "request"}``, an account with too many enqueued tokens is refused at once (429), and a batch that expired or
was cancelled shows no results, of which the guide says so for expired ones; for cancelled ones it is our reading.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

from tests.fakes.endpoint.batch import Batch
from tests.fakes.endpoint.batch_work import work_through
from tests.fakes.endpoint.delivery import open_to_faults
from tests.fakes.endpoint.problems import Problem
from tests.fakes.endpoint.wire import CHAT, ENDPOINT
from tests.fakes.gemini.problems import rpc_status
from tests.fakes.gemini.routes import API, new_name, parse
from tests.fakes.gemini.translate import Wrong, as_chat, as_response

STATES: Final = {
    "validating": "PENDING",
    "in_progress": "RUNNING",
    "finalizing": "RUNNING",
    "cancelling": "RUNNING",
    "completed": "SUCCEEDED",
    "failed": "FAILED",
    "expired": "EXPIRED",
    "cancelled": "CANCELLED",
}
MOST_INLINE: Final = 20_000_000
"""Bytes of a request with its requests in line (the guide: 20 MB)."""
INLINE: Final = "inline"


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(f"/upload/{API}/files", open_to_faults("files", _start_upload))
    app.router.add_post(f"/upload/{API}/files/{{id}}", open_to_faults("files", _upload))
    app.router.add_get(f"/{API}/files/{{id}}:download", open_to_faults("files", _download))
    app.router.add_get(f"/download/{API}/files/{{id}}:download", open_to_faults("files", _download))
    app.router.add_get(f"/{API}/files/{{id}}", _show_file)
    app.router.add_delete(f"/{API}/files/{{id}}", _delete_file)
    app.router.add_post(f"/{API}/models/{{model}}:batchGenerateContent", open_to_faults("batches", _create))
    app.router.add_get(f"/{API}/batches", open_to_faults("batches", _list))
    app.router.add_get(f"/{API}/batches/{{id}}", open_to_faults("batches", _show))
    app.router.add_post(f"/{API}/batches/{{id}}:cancel", open_to_faults("batches", _cancel))
    app.router.add_delete(f"/{API}/batches/{{id}}", _delete)


async def _start_upload(request: web.Request) -> web.Response:
    """The first step of a resumable upload, which names the address of the second."""
    if request.headers.get("X-Goog-Upload-Command") != "start":
        raise Wrong("Upload command 'start' expected.")
    file = request.app[ENDPOINT].files.add("requests.jsonl", "batch", b"")
    address = f"{request.scheme}://{request.host}/upload/{API}/files/{file.id}?upload_id=1"
    return web.json_response({}, headers={"X-Goog-Upload-URL": address, "X-Goog-Upload-Status": "active"})


async def _upload(request: web.Request) -> web.Response:
    files, file_id = request.app[ENDPOINT].files, request.match_info["id"]
    content = files.get(file_id).content + await request.read()
    if len(content) > request.app[ENDPOINT].scenario.batches.max_bytes:
        raise Wrong("The file is too large.")
    files.put(file_id, content)
    final = "finalize" in request.headers.get("X-Goog-Upload-Command", "")
    status = {"X-Goog-Upload-Status": "final" if final else "active"}
    return web.json_response({"file": _public_file(request, file_id)} if final else {}, headers=status)


async def _show_file(request: web.Request) -> web.Response:
    return web.json_response(_public_file(request, request.match_info["id"]))


def _public_file(request: web.Request, file_id: str) -> dict[str, Any]:
    file = request.app[ENDPOINT].files.get(file_id)
    return {
        "name": f"files/{file_id}",
        "mimeType": "application/jsonl",
        "sizeBytes": str(len(file.content)),
        "createTime": _stamp(file.created_at),
        "uri": f"https://generativelanguage.googleapis.com/{API}/files/{file_id}",
        "state": "ACTIVE",
    }


async def _delete_file(request: web.Request) -> web.Response:
    request.app[ENDPOINT].files.delete(request.match_info["id"])
    return web.json_response({})


async def _download(request: web.Request) -> web.Response:
    content = request.app[ENDPOINT].files.get(request.match_info["id"]).content
    return web.Response(body=content, content_type="application/octet-stream")


async def _create(request: web.Request) -> web.Response:
    endpoint, model = request.app[ENDPOINT], request.match_info["model"]
    raw = await request.read()
    given = parse(raw).get("batch") or {}
    source, display_name = given.get("inputConfig") or {}, given.get("displayName")
    if not display_name:
        raise Wrong("* BatchGenerateContentRequest.batch.display_name: a display name is required")
    if model not in endpoint.scenario.models:
        raise Problem(404, f"The model `{model}` does not exist.", code="model_not_found")
    if "fileName" in source:
        file = endpoint.files.get(source["fileName"].removeprefix("files/"))
        lines, inline = [_parsed(line) for line in file.content.split(b"\n") if line.strip()], False
    else:
        if len(raw) > MOST_INLINE:
            raise Wrong("Request payload size exceeds the limit: 20000000 bytes.")
        found = (source.get("requests") or {}).get("requests") or []
        lines = [{"key": (each.get("metadata") or {}).get("key"), **each} for each in found]
        inline = True
    endpoint.check_credit()
    content, enqueued = _input_file(endpoint.scenario.models, model, lines), endpoint.scenario.batches.enqueued_tokens
    if enqueued is not None and len(raw if inline else file.content) // 4 > enqueued:
        raise Problem(429, "enqueued tokens", code="rate_limit_exceeded")
    now = int(time.time() + endpoint.scenario.batches.clock_s)
    window_s = endpoint.scenario.batches.window_s
    batch = Batch(
        id=new_name("batches"),
        url=CHAT,
        input_file_id=INLINE if inline else source["fileName"],
        metadata={"displayName": display_name, "model": f"models/{model}"},
        ends=endpoint.now() + window_s,
        created_at=now,
        expires_at=now + int(window_s),
    )
    endpoint.batches[batch.id] = batch
    task = asyncio.get_running_loop().create_task(work_through(endpoint, batch, content))
    endpoint.tasks.add(task)
    task.add_done_callback(endpoint.tasks.discard)
    return web.json_response(_public(request, batch))


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _input_file(models: Any, model: str, lines: list[dict[str, Any]]) -> bytes:
    """The requests as an input file of OpenAI's. A request that Google refuses keeps a body that is refused, too."""
    made: list[str] = []
    for number, line in enumerate(lines):
        try:
            body = as_chat(model, line.get("request") or {}, models)
        except Problem:
            body = {"model": model, "messages": []}
        key = str(line.get("key") or f"request-{number}")
        made.append(json.dumps({"custom_id": key, "method": "POST", "url": CHAT, "body": body}))
    return "".join(f"{line}\n" for line in made).encode()


def _stamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _public(request: web.Request, batch: Batch) -> dict[str, Any]:
    """The batch as the operation that the API shows."""
    state, marks = STATES[batch.status], batch.metadata or {}
    pending = max(0, batch.total - batch.completed - batch.failed)
    counts = {
        "requestCount": batch.total,
        "successfulRequestCount": batch.completed,
        "failedRequestCount": batch.failed,
        "pendingRequestCount": pending,
    }
    metadata: dict[str, Any] = {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
        "model": marks["model"],
        "displayName": marks["displayName"],
        "createTime": _stamp(batch.created_at),
        "updateTime": _stamp(int(time.time())),
        "batchStats": {name: str(count) for name, count in counts.items() if count},  # 0 is left out
        "state": f"BATCH_STATE_{state}",
        "name": batch.id,
    }
    operation: dict[str, Any] = {"name": batch.id, "metadata": metadata}
    if state in ("SUCCEEDED", "FAILED", "EXPIRED", "CANCELLED"):
        operation["done"] = True
        metadata["endTime"] = _stamp(int(time.time()))
    if state == "SUCCEEDED":
        metadata["output"] = operation["response"] = _output(request, batch)
    if state == "FAILED":
        said = "; ".join(str(error["message"]) for error in batch.errors)
        operation["error"] = {"code": 3, "message": said}
    return operation | request.app[ENDPOINT].scenario.batches.fields


def _output(request: web.Request, batch: Batch) -> dict[str, Any]:
    files, results_id = request.app[ENDPOINT].files, f"{batch.id.removeprefix('batches/')}-results"
    lines: list[dict[str, Any]] = []
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id is not None:
            lines += [json.loads(line) for line in files.get(file_id).content.splitlines()]
    results = [(line["custom_id"], _result(line)) for line in lines]
    if batch.input_file_id == INLINE:
        shown = [{"metadata": {"key": key}, **result} for key, result in results]
        return {"inlinedResponses": {"inlinedResponses": shown}}
    files.put(results_id, "".join(json.dumps({"key": key, **result}) + "\n" for key, result in results).encode())
    return {"responsesFile": f"files/{results_id}"}


def _result(line: dict[str, Any]) -> dict[str, Any]:
    response = line["response"]
    if response["status_code"] == 200:
        return {"response": as_response(response["body"])}
    told = response["body"]["error"]
    problem = Problem(response["status_code"], told["message"], code=told["code"], param=told["param"])
    return {"error": rpc_status(problem)}


async def _list(request: web.Request) -> web.Response:
    """The newest first, in pages whose token is the number of their first batch."""
    batches = [batch for batch in reversed(request.app[ENDPOINT].batches.values()) if batch.id.startswith("batches/")]
    start, size = int(request.query.get("pageToken", 0)), int(request.query.get("pageSize", 10))
    shown: dict[str, Any] = {"operations": [_public(request, batch) for batch in batches[start : start + size]]}
    more = {"nextPageToken": str(start + size)} if start + size < len(batches) else {}
    return web.json_response(shown | more)


async def _show(request: web.Request) -> web.Response:
    return web.json_response(_public(request, _found(request)))


async def _cancel(request: web.Request) -> web.Response:
    batch = _found(request)
    if batch.status not in ("validating", "in_progress", "cancelling"):
        raise Wrong(f"Batch {batch.id} is in state {STATES[batch.status]} and cannot be cancelled.")
    if batch.status != "cancelling":
        batch.move("cancelling")
        batch.cancelled.set()
    return web.json_response({})


async def _delete(request: web.Request) -> web.Response:
    del request.app[ENDPOINT].batches[_found(request).id]
    return web.json_response({})


def _found(request: web.Request) -> Batch:
    batch = request.app[ENDPOINT].batches.get(f"batches/{request.match_info['id']}")
    if batch is None:
        raise Problem(404, "Requested entity was not found.")
    return batch
