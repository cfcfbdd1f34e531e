"""``POST /v1/chat/completions`` and ``GET /v1/models``."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from tests.fakes.endpoint.chat_call import ChatCall, parse_body, read_call
from tests.fakes.endpoint.completion import complete, events_of
from tests.fakes.endpoint.delivery import with_fault
from tests.fakes.endpoint.draws import draw, draw_latency
from tests.fakes.endpoint.fault_rule import REPLY_KINDS
from tests.fakes.endpoint.problems import flex_is_full
from tests.fakes.endpoint.state import Endpoint
from tests.fakes.endpoint.wire import CHAT, ENDPOINT, entry_of, held, send_with

AT_THE_DOOR: Final = frozenset({"rate_limited", "insufficient_quota", "revoked_key", "context_length"})
"""Faults that are told at once, before any model is asked."""


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(CHAT, _complete)
    app.router.add_get("/v1/models", _models)


async def _complete(request: web.Request) -> web.StreamResponse:
    """In OpenAI's order: key, body, credit, rate limits, window; then the model is asked."""
    endpoint, entry = request.app[ENDPOINT], entry_of(request)
    scenario = endpoint.scenario
    call = read_call(parse_body(await request.read()), scenario.models, endpoint.tokens)
    entry.model, entry.request_hash = call.name, call.request_hash
    endpoint.check_credit()
    send_with(request, endpoint.admit(call, entry))
    fault = endpoint.faults.meet("chat", call.request_hash, call.prompt.text)
    call.check_window()
    if (
        call.flex
        and draw(scenario.seed, "flex", call.request_hash, _attempt(endpoint, call)) < scenario.flex.full_share
    ):
        raise flex_is_full()
    cached = endpoint.cached(call)
    if fault is None or fault.kind not in AT_THE_DOOR:
        await asyncio.sleep(_latency(endpoint, call))
        await held(request)

    async def work() -> web.Response:
        spoilt = fault.kind if fault is not None and fault.kind in REPLY_KINDS else None
        done = complete(call, scenario.replies, scenario.seed, cached, spoilt)
        endpoint.charge(entry, call, done.usage, "flex" if call.flex else "chat")
        if call.stream:
            return web.Response(body=events_of(done.body, call.stream_usage), content_type="text/event-stream")
        return web.json_response(done.body)

    return await with_fault(request, fault, work)


def _latency(endpoint: Endpoint, call: ChatCall) -> float:
    return draw_latency(endpoint.scenario.latency, endpoint.scenario.seed, call.request_hash, _attempt(endpoint, call))


def _attempt(endpoint: Endpoint, call: ChatCall) -> int:
    return endpoint.faults.attempt("chat", call.request_hash)


async def _models(request: web.Request) -> web.Response:
    names = request.app[ENDPOINT].scenario.models
    data = [{"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "fake"} for name in names]
    return web.json_response({"object": "list", "data": data})
