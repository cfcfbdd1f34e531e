"""What every request of the API goes through: the journal, the key, errors as JSON, and the headers of every reply."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Final

from aiohttp import web

from tests.fakes.endpoint.journal import Entry, fingerprint
from tests.fakes.endpoint.problems import ORGANIZATION, Problem
from tests.fakes.endpoint.state import Endpoint

ENDPOINT: Final = web.AppKey("endpoint", Endpoint)
API: Final = "/v1/"
CHAT: Final = "/v1/chat/completions"

HELD_S: Final = 0.02
"""How often a request that is held looks whether it may go on."""
_ENTRY: Final = "entry"
_KEY: Final = "key"
_HEADERS: Final = "headers"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def entry_of(request: web.Request) -> Entry:
    """The journal's entry of a request."""
    entry: Entry = request[_ENTRY]
    return entry


def key_of(request: web.Request) -> str:
    """The key that a request came with."""
    key: str = request[_KEY]
    return key


def begin(request: web.Request, where: str, key: str = "") -> Entry:
    """Write a request down in the journal, with the key that it came with."""
    endpoint = request.app[ENDPOINT]
    entry = endpoint.journal.open(endpoint.now(), where, request.method, request.path)
    entry.request_id = f"req_{uuid.uuid4().hex}"
    request[_ENTRY], request[_HEADERS], request[_KEY] = entry, {}, key
    return entry


def send_with(request: web.Request, headers: dict[str, str]) -> None:
    """Have ``headers`` sent with whatever will be the answer."""
    request[_HEADERS].update(headers)


async def held(request: web.Request) -> None:
    """Wait while the scenario holds chat requests that came as late as this one."""
    endpoint, entry = request.app[ENDPOINT], entry_of(request)
    number = sum(one.where == "chat" for one in endpoint.journal.entries[: entry.number])
    while not is_gone(request):
        after = endpoint.scenario.hold_after
        if after is None or number <= after:
            return
        await asyncio.sleep(HELD_S)


async def piece_sent(request: web.Request, number: int) -> None:
    """Wait between a slow stream's pieces. Raises ConnectionResetError where it was to wait for its client to go."""
    replies = request.app[ENDPOINT].scenario.replies
    await asyncio.sleep(replies.piece_s)
    if replies.pieces is not None and number >= replies.pieces:
        while not is_gone(request):  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(HELD_S)
        raise ConnectionResetError


def is_gone(request: web.Request) -> bool:
    """Whether the connection is closed, so that no answer can reach the client."""
    return request.transport is None or request.transport.is_closing()


@web.middleware
async def through_the_door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write the request down, check its key, and answer it; a Problem becomes an error response."""
    if not request.path.startswith(API):
        return await handler(request)
    endpoint = request.app[ENDPOINT]
    journal = endpoint.journal
    entry = begin(request, request.path.removeprefix(API).split("/")[0])
    if request.path == CHAT:
        journal.enter()
    try:
        response = await _answered(request, handler)
    finally:
        entry.took_s = endpoint.now() - entry.at_s
        if request.path == CHAT:
            journal.leave()
    entry.status = 0 if is_gone(request) else response.status
    return response


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if request.path == CHAT:
            await request.read()  # so that no other request comes between the key's check and its use
        authorization = request.headers.get("Authorization", "")
        entry_of(request).key = fingerprint(authorization.removeprefix("Bearer "))
        request[_KEY] = request.app[ENDPOINT].authorize(authorization)
        return await handler(request)
    except web.HTTPException as error:
        problem = Problem(error.status, f"Invalid URL ({request.method} {request.path})")
    except Problem as raised:
        problem = raised
    entry_of(request).code = problem.code or ""
    send_with(request, problem.headers)
    if problem.status == 502:  # a proxy speaks here, and it speaks HTML
        page = "<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"
        return web.Response(status=502, text=page, content_type="text/html")
    return web.json_response(problem.body, status=problem.status)


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """The headers of every reply of the API: its request id, and what ``send_with`` was given."""
    if _ENTRY not in request or not request.path.startswith(API):
        return
    entry = entry_of(request)
    took_ms = (request.app[ENDPOINT].now() - entry.at_s) * 1000
    response.headers.update(
        {
            "Date": formatdate(time.time() + request.app[ENDPOINT].scenario.batches.clock_s, usegmt=True),
            "x-request-id": entry.request_id,
            "openai-organization": ORGANIZATION,
            "openai-version": "2020-10-01",
            "openai-processing-ms": str(int(took_ms)),
            **request[_HEADERS],
        }
    )
