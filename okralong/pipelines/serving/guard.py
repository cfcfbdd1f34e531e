"""The outermost layer of a service over HTTP: checks each request and writes the audit log.

It is plain ASGI and wraps every route, those of the MCP server included. A request passes in this order: the ``Host``
and ``Origin`` headers, the token, the rate, the kind of the body, the token's share of open requests, the body.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from okralong.pipelines.run.config import ServeConfig
from okralong.pipelines.serving.asked import RETRY_S, Refused
from okralong.pipelines.serving.audit import AuditLog
from okralong.pipelines.serving.tokens import Caller, RequestRates, Tokens

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
CALLER: Final = "okralong.caller"
"""The key of an ASGI scope with the ``Caller``."""
NOTES: Final = "okralong.notes"
"""The key of an ASGI scope with what the audit log keeps beside the request's end: question, query_id, cost_usd."""
OPEN: Final = ("/health",)
"""Paths that need no token. Their bodies are not read."""
ONGOING: Final = 1_024
"""Requests that the service accepts, running and waiting. # project default"""
SHARE: Final = ONGOING // 4
"""Open requests of one token, so that others are answered. # project default"""
SHARES: Final = 3 * SHARE
"""Open requests of all tokens; the rest is for those that need none, and for refusals. # project default"""
BODY_S: Final = 10.0
"""Seconds in which the body of a request must arrive. # project default"""


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address to listen on."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def known_hosts(host: str, config: ServeConfig) -> frozenset[str]:
    """Return the allowed ``Host`` headers of a service that listens on ``host``; empty allows any."""
    return frozenset(map(str.lower, (*(LOOPBACK if is_loopback(host) else ()), *config.allowed_hosts)))


def caller_in(scope: Scope) -> Caller:
    """Return the sender of a request that passed the guard."""
    caller: Caller = scope[CALLER]
    return caller


def notes_in(scope: Scope) -> dict[str, Any]:
    """Return the mapping for a request's line in the audit log."""
    notes: dict[str, Any] = scope[NOTES]
    return notes


def note_answer(notes: dict[str, Any], answer: Mapping[str, Any]) -> None:
    """Note the id of an answered question, and what it cost this time."""
    notes["query_id"] = answer["query_id"]
    notes["cost_usd"] = 0.0 if answer["replayed"] else answer["cost_usd"] or 0.0


def with_cors(app: ASGIApp, config: ServeConfig) -> ASGIApp:
    """Return ``app`` with CORS headers for the allowed origins, if there are any.

    It belongs around the guard: browsers send no token in a preflight, and pages may read why a request was refused.
    """
    if not config.allowed_origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=config.allowed_origins,
        allow_methods=["GET", "POST"],
        allow_headers=["*"],
        expose_headers=["Retry-After"],
    )


def refusal(error: Refused) -> JSONResponse:
    """Return the reply to a refused request."""
    headers = {"Retry-After": str(error.retry_after_s)} if error.retry_after_s else {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.cost_usd:
        headers["x-should-retry"] = "false"  # clients of OpenAI would ask, and pay, twice more
    return JSONResponse(error.body(), error.status, headers)


class Guard:
    """Wraps the routes of a service."""

    def __init__(self, app: ASGIApp, host: str, config: ServeConfig, tokens: Tokens, audit: AuditLog) -> None:
        self._app, self._config, self._tokens, self._audit = app, config, tokens, audit
        self._hosts = known_hosts(host, config)
        self._rates = RequestRates()
        self._ongoing: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, pass it on and write it to the audit log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.monotonic(), 500
        notes: dict[str, Any] = {}
        caller: Caller | None = None

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            caller = self._admitted(scope)
            scope[CALLER], scope[NOTES] = caller, notes
            if scope["path"] in OPEN:
                await self._app(scope, receive, noting)
            else:
                with self._counted(caller):
                    await self._app(scope, await self._read(scope, receive), noting)
        except Refused as error:
            await refusal(error)(scope, receive, noting)
        finally:
            if scope["path"] not in OPEN:
                seconds, notes["status"] = time.monotonic() - started, notes.get("status", status)
                name = caller.name if caller else ""
                self._audit.write(name, notes.pop("endpoint", scope["path"]), seconds=seconds, **notes)

    def _admitted(self, scope: Scope) -> Caller:
        headers = Headers(scope=scope)
        host = _name_of(headers.get("host", ""))
        if self._hosts and host not in self._hosts:
            raise Refused(
                421, "wrong_host", f"This service is not reached as {host!r}. Use its address, or add allowed_hosts."
            )
        self._check_origin(headers.get("origin", ""), host)
        caller = self._tokens.caller(headers.get("authorization", ""))
        if scope["path"] in OPEN:
            return caller or Caller("", None, 1, False)
        if caller is None:
            raise Refused(
                401, "invalid_token", "The bearer token is missing or unknown. Ask the service's owner for one."
            )
        if wait_s := self._rates.wait_s(caller):
            raise Refused(
                429,
                "rate_limit",
                f"The token {caller.name!r} may send {caller.requests_per_minute} requests a minute. Ask again in "
                f"{wait_s} s.",
                wait_s,
            )
        if (scope["method"], scope["path"]) == ("GET", "/mcp"):
            # Without sessions there is nothing to send on such a stream, which would stay open.
            raise Refused(405, "invalid_request", "This MCP server has no stream of its own. Send requests with POST.")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            # A page of another origin may send other kinds without asking first.
            raise Refused(415, "wrong_content_type", "Send JSON, with the header Content-Type: application/json.")
        return caller

    @contextmanager
    def _counted(self, caller: Caller) -> Iterator[None]:
        """Count an open request. Raises Refused if its token, or all together, have too many."""
        if self._ongoing[caller.name] >= SHARE:
            raise Refused(
                429, "rate_limit", f"The token {caller.name!r} has {SHARE} open requests. Wait for one to end.", RETRY_S
            )
        if self._ongoing.total() >= SHARES:
            raise Refused(503, "unavailable", f"The service has {SHARES} open requests.", RETRY_S)
        self._ongoing[caller.name] += 1
        try:
            yield
        finally:
            self._ongoing[caller.name] -= 1

    def _check_origin(self, origin: str, host: str) -> None:
        """Refuse requests that a page of another origin has sent. Without a browser there is no such header."""
        if not origin or origin in self._config.allowed_origins:
            return
        name = _name_of(origin.partition("://")[2])
        if name != host or (self._hosts and name not in self._hosts):
            raise Refused(403, "wrong_origin", f"Pages of {origin} may not ask this service. Add allowed_origins.")

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body, and return a ``receive`` that begins with it. Raises Refused if it is too large or late."""
        most = self._config.most_body_bytes
        too_large = Refused(413, "too_large", f"The request is larger than {most:,} bytes.")
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isdecimal() or int(declared) > most:
            raise too_large
        messages: list[Message] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_S):
                while not messages or (size <= most and messages[-1].get("more_body")):
                    messages.append(await receive())
                    size += len(messages[-1].get("body", b""))
        except TimeoutError:
            raise Refused(
                408, "timeout", f"The body has not arrived within {BODY_S:g} s. Send it with its headers."
            ) from None
        if size > most:
            raise too_large

        async def replayed() -> Message:
            return messages.pop(0) if messages else await receive()

        return replayed


def _name_of(host: str) -> str:
    """Return a ``Host`` header without its port, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower()
