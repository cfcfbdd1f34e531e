"""Scripted faults of requests: refused, answered by an error, or with a reply that does not arrive whole."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from socket import SO_LINGER, SOL_SOCKET
from typing import Final

from aiohttp import web

from tests.fakes.endpoint.fault_rule import LOST_KINDS, FaultRule, Where
from tests.fakes.endpoint.problems import scripted
from tests.fakes.endpoint.wire import ENDPOINT, Handler, entry_of, is_gone, key_of

POLL_S: Final = 0.05
"""How often a hanging request looks whether its client has gone."""
_LINGER_NOT: Final = struct.pack("ii", 1, 0)


async def with_fault(
    request: web.Request, fault: FaultRule | None, work: Callable[[], Awaitable[web.Response]]
) -> web.StreamResponse:
    """Do the work, or what the fault makes of it. Raises Problem for a fault that is an error status.

    The work is done before anything goes wrong where the fault is billed, and not at all where it is not.
    """
    if fault is None:
        return await work()
    entry_of(request).fault = fault.kind
    if fault.kind == "revoked_key":
        request.app[ENDPOINT].revoke(key_of(request))
    response = await work() if fault.is_billed else web.Response()
    if (problem := scripted(fault, key_of(request))) is not None:
        raise problem
    return await _lost(request, response, fault) if fault.kind in LOST_KINDS else response


def open_to_faults(where: Where, handler: Callable[[web.Request], Awaitable[web.Response]]) -> Handler:
    """``handler`` of a route whose faults know the request by its method and path."""

    async def guarded(request: web.Request) -> web.StreamResponse:
        called = f"{request.method} {request.path}"
        fault = request.app[ENDPOINT].faults.meet(where, called, called)
        return await with_fault(request, fault, lambda: handler(request))

    return guarded


async def _lost(request: web.Request, response: web.Response, fault: FaultRule) -> web.StreamResponse:
    if fault.kind == "malformed_json":
        assert isinstance(response.body, bytes)
        return web.Response(body=response.body[:-1] + b', "', content_type="application/json")
    if fault.kind == "truncated_body":
        return await _cut_short(request, response)
    if fault.kind == "hang":
        await _hold(request, fault.hang_s)
    _reset(request)
    return web.Response()


async def _cut_short(request: web.Request, response: web.Response) -> web.StreamResponse:
    """Announce the whole body, send half of it and close."""
    assert isinstance(response.body, bytes)
    half = web.StreamResponse(headers={"Content-Type": "application/json"})
    half.content_length = len(response.body)
    half.force_close()
    await half.prepare(request)
    await half.write(response.body[: len(response.body) // 2])
    return half


async def _hold(request: web.Request, seconds: float) -> None:
    for _ in range(int(seconds / POLL_S)):
        if is_gone(request):
            return
        await asyncio.sleep(POLL_S)


def _reset(request: web.Request) -> None:
    """Break the connection with a RST, which is what a client calls "connection reset by peer"."""
    if request.transport is not None and not is_gone(request):
        request.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, _LINGER_NOT)
        request.transport.abort()
