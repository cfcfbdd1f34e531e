"""``/anthropic/v1/messages`` and ``/anthropic/v1/models``, and the door that every request of this API goes through."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

from aiohttp import web

from okralong.pipelines.core.tokens import count_tokens
from tests.fakes.anthropic.translate import Wrong, as_chat, as_error, as_message, event_bytes, events_of
from tests.fakes.endpoint.chat_call import ChatCall, parse_body, read_call
from tests.fakes.endpoint.completion import Completion, complete
from tests.fakes.endpoint.delivery import with_fault
from tests.fakes.endpoint.draws import draw_latency
from tests.fakes.endpoint.fault_rule import REPLY_KINDS
from tests.fakes.endpoint.journal import Entry, fingerprint
from tests.fakes.endpoint.problems import Problem
from tests.fakes.endpoint.state import Endpoint
from tests.fakes.endpoint.wire import ENDPOINT, begin, entry_of, held, is_gone, piece_sent

PREFIX: Final = "/anthropic"
MESSAGES: Final = f"{PREFIX}/v1/messages"
VERSION: Final = "anthropic-version"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(MESSAGES, _message)
    app.router.add_get(f"{PREFIX}/v1/models", _models)


@web.middleware
async def anthropic_door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write a request to this API down, check its key, and answer it; a Problem becomes Anthropic's error."""
    if not request.path.startswith(f"{PREFIX}/"):
        return await handler(request)
    endpoint, asks = request.app[ENDPOINT], request.path == MESSAGES
    key = request.headers.get("Authorization", "").removeprefix("Bearer ")
    entry = begin(request, "chat" if asks else "batches" if "/batches" in request.path else "models", key)
    entry.key = fingerprint(key)
    if asks:
        endpoint.journal.enter()
    try:
        response = await _answered(request, handler)
    finally:
        entry.took_s = endpoint.now() - entry.at_s
        if asks:
            endpoint.journal.leave()
    entry.status = 0 if is_gone(request) else response.status
    return response


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    endpoint, entry = request.app[ENDPOINT], entry_of(request)
    try:
        await request.read()  # so that no other request comes between the key's check and its use
        if VERSION not in request.headers:
            raise Wrong("anthropic-version: header is required")
        if endpoint.scenario.only_messages and request.path != MESSAGES:
            raise Problem(404, f"Not found: {request.path}")
        endpoint.authorize(request.headers.get("Authorization", ""))
        return await handler(request)
    except web.HTTPException as error:
        problem = Problem(error.status, f"Not found: {request.path}")
    except Problem as raised:
        problem = raised
    entry.code = problem.code or ""
    if problem.status == 502:  # a proxy speaks here, and it speaks HTML
        page = "<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"
        return web.Response(status=502, text=page, content_type="text/html")
    status, body = as_error(problem, entry.request_id)
    said = {"retry-after": problem.headers["retry-after"]} if "retry-after" in problem.headers else {}
    return web.json_response(body, status=status, headers={**_headers(endpoint, entry, entry.model), **said})


def _headers(endpoint: Endpoint, entry: Entry, model: str) -> dict[str, str]:
    """The headers of a response: the request's id, and the limits with the times at which they are whole again."""
    headers = {"request-id": entry.request_id}
    quota = endpoint.quota(model) if model else None
    for name, (limit, left, whole_s) in ({} if quota is None else quota.left(endpoint.now())).items():
        name = {"tokens": "input-tokens"}.get(name, name)
        moment = datetime.fromtimestamp(math.ceil(time.time() + whole_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        told = {"limit": limit, "remaining": left, "reset": moment}
        headers |= {f"anthropic-ratelimit-{name}-{part}": str(value) for part, value in told.items()}
    return headers


async def _message(request: web.Request) -> web.StreamResponse:
    endpoint, entry = request.app[ENDPOINT], entry_of(request)
    scenario = endpoint.scenario
    given = parse_body(await request.read())
    asked = as_chat(given, scenario.models)
    call = read_call(asked.body, scenario.models, endpoint.tokens)
    if (given.get("thinking") or {}).get("type") == "disabled":
        call = replace(call, model=call.model.model_copy(update={"thought": 0}))
    entry.model, entry.request_hash = call.name, call.request_hash
    endpoint.check_credit()
    cached = cached_by_marks(endpoint, call, asked.marked)
    endpoint.admit(call, entry, (len(call.ids) - cached[0], call.limit or 0))
    fault = endpoint.faults.meet("chat", call.request_hash, call.prompt.text)
    call.check_window()
    attempt = endpoint.faults.attempt("chat", call.request_hash)
    await asyncio.sleep(draw_latency(scenario.latency, scenario.seed, call.request_hash, attempt))
    await held(request)
    done = complete(*_spoilt(endpoint, call, cached, fault.kind if fault is not None else None))
    if call.stream and scenario.replies.piece_s:
        return await _slowly(request, call, done, entry)

    async def work() -> web.Response:
        endpoint.charge(entry, call, done.usage, "chat")
        learn_marks(endpoint, call, asked.marked)
        message, headers = as_message(done.body), _headers(endpoint, entry, call.name)
        if call.stream:
            events = b"".join(map(event_bytes, events_of(message)))
            return web.Response(body=events, content_type="text/event-stream", headers=headers)
        return web.json_response(message, headers=headers)

    return await with_fault(request, fault, work)


def _spoilt(endpoint: Endpoint, call: ChatCall, cached: tuple[int, int], kind: Any) -> tuple[Any, ...]:
    scenario = endpoint.scenario
    spoilt = kind if kind in REPLY_KINDS else None
    if scenario.replies.overlong > 1:
        most = call.limit or call.model.max_completion_tokens
        call, spoilt = replace(call, limit=int(most * scenario.replies.overlong)), "length"
    return call, scenario.replies, scenario.seed, cached, spoilt


async def _slowly(request: web.Request, call: ChatCall, done: Completion, entry: Entry) -> web.StreamResponse:
    """Stream piece by piece, and charge what was written before the client went away."""
    endpoint = request.app[ENDPOINT]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **_headers(endpoint, entry, call.name)})
    await response.prepare(request)
    written, usage, number = "", done.usage, 0
    try:
        for event in events_of(as_message(done.body)):
            await response.write(event_bytes(event))
            if event["type"] == "content_block_delta":
                written += event["delta"].get("text", "")
                number += 1
                await piece_sent(request, number)
    except ConnectionResetError:
        thought = usage.reasoning_tokens
        usage = replace(usage, completion_tokens=count_tokens(written) + thought)
    endpoint.charge(entry, call, usage, "chat")
    return response


def cached_by_marks(endpoint: Endpoint, call: ChatCall, marked: list[tuple[str, str]]) -> tuple[int, int]:
    """Tokens of a prompt that are read from the cache and written to it: both only up to the request's last mark."""
    settings = endpoint.scenario.prompt_cache
    size = len(endpoint.tokens.of(marked)) if marked else 0
    if not settings.enabled or size < settings.first:
        return 0, 0
    used_at = endpoint.prefixes.marked.get(_digest(call.name, marked), -math.inf)
    return (size, 0) if endpoint.now() <= used_at + settings.lasts_s else (0, size)


def learn_marks(endpoint: Endpoint, call: ChatCall, marked: list[tuple[str, str]]) -> None:
    """Put a prompt into the cache, up to its last mark, or keep it there for longer."""
    if marked:
        endpoint.prefixes.marked[_digest(call.name, marked)] = endpoint.now()


def _digest(model: str, marked: list[tuple[str, str]]) -> bytes:
    return blake2b(repr((model, marked)).encode(), digest_size=16).digest()


async def _models(request: web.Request) -> web.Response:
    names = list(request.app[ENDPOINT].scenario.models)
    shown = [
        {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z", "lifecycle": "active"}
        for name in names
    ]
    return web.json_response({"data": shown, "has_more": False, "first_id": names[0], "last_id": names[-1]})
