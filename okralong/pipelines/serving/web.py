"""The routes of a service over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, Final, TypeVar

from fastapi import FastAPI, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from okralong.pipelines.run.config import ServeConfig
from okralong.pipelines.serving.asked import MOST_FOUND, MOST_ROWS, AskRequest, Event, Refused, ServicePort, final
from okralong.pipelines.serving.guard import caller_in, note_answer, notes_in, refusal
from okralong.pipelines.serving.mcp_tools import mcp_over_http
from okralong.pipelines.serving.openai_chat import ChatRequest, completion, models, streamed

T = TypeVar("T")

GONE_POLL_S: Final = 0.5
"""Interval of the checks whether the client is still connected. # project default"""
KEEP_ALIVE_S: Final = 15.0
"""Seconds of silence after which a stream sends a comment, so that no proxy closes it. # project default"""
_SSE: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Key = Annotated[str, Header(alias="Idempotency-Key", max_length=200)]


def web_app(service: ServicePort, config: ServeConfig, hosts: Collection[str]) -> ASGIApp:
    """Return the application, without its guard; it opens the service when it starts.

    Args:
        service: The service.
        config: Its limits.
        hosts: Names under which it may be reached; empty for any.
    """
    mcp, routes = mcp_over_http(service, config, hosts)

    @asynccontextmanager
    async def whole(_: FastAPI) -> AsyncIterator[None]:
        async with service, mcp.session_manager.run():
            yield

    app = FastAPI(title="okralong", docs_url=None, redoc_url=None, openapi_url=None, lifespan=whole)
    _add_routes(app, service)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(ValidationError, _invalid)  # a request of another form makes a question that is invalid
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _broken)
    app.router.routes.extend(routes)
    return app


def _add_routes(app: FastAPI, service: ServicePort) -> None:
    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Return the service's state; needs no token."""
        return await service.facts()

    @app.post("/ask")
    async def ask(request: Request, asked: AskRequest, key: Key = "") -> Any:
        """Answer a question, as events or, if the client accepts JSON only, as JSON."""
        events = _noted(request, asked, service.ask(caller_in(request.scope), asked, key))
        if "text/event-stream" not in request.headers.get("accept", "text/event-stream") and (
            "application/json" in request.headers["accept"]
        ):
            return JSONResponse(await _while_connected(request, final(events)))
        return await _stream(_as_sse(events))

    @app.post("/v1/chat/completions")
    async def chat(request: Request, asked: ChatRequest, key: Key = "") -> Any:
        """Answer the last message of the user, in OpenAI's form."""
        question = asked.to_asked()
        events = _noted(request, question, service.ask(caller_in(request.scope), question, key))
        if asked.stream:
            return await _stream(streamed(events, bool((asked.stream_options or {}).get("include_usage"))))
        return JSONResponse(completion(await _while_connected(request, final(events))))

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return models()

    @app.post("/search")
    async def search(
        request: Request, asked: AskRequest, count: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 10
    ) -> Any:
        """Return the chunks that fit a question best; costs nothing."""
        notes_in(request.scope)["question"] = asked.question
        return {"found": await service.search(asked, count)}

    @app.get("/search")
    async def search_words(
        request: Request,
        q: str,
        doc_id: Annotated[list[str] | None, Query()] = None,
        where: str = "",
        count: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 10,
    ) -> Any:
        notes_in(request.scope)["question"] = q
        return {"found": await service.search(AskRequest(question=q, doc_ids=doc_id or [], where=where), count)}

    @app.get("/answers")
    async def answers(
        document: str = "",
        column: str = "",
        status: str = "",
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
    ) -> Any:
        """Return a page of the last night's answers."""
        return await service.tonight(document, column, status, offset, limit)

    @app.get("/answers/{query_id:path}")
    async def answer_of(query_id: str) -> Any:
        return await service.answer_of(query_id)

    @app.get("/cost")
    async def cost(request: Request) -> Any:
        """Return the US dollars spent today, and those left."""
        return await service.cost(caller_in(request.scope))


async def _noted(request: Request, asked: AskRequest, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    """Yield the events, and note their cost for the audit log."""
    notes = notes_in(request.scope)
    notes["question"] = asked.question
    try:
        async with aclosing(events):  # type: ignore[type-var]
            async for event in events:
                if event.name == "answer":
                    note_answer(notes, event.data)
                yield event
    except Refused as error:
        notes["cost_usd"] = error.cost_usd
        raise


async def _stream(parts: AsyncIterator[str]) -> StreamingResponse:
    """Return a stream once its first part is there, so that an error before it has its own HTTP status."""
    ready: asyncio.Queue[str | None] = asyncio.Queue()

    async def pump() -> None:
        try:
            async for part in parts:
                ready.put_nowait(part)
        finally:
            ready.put_nowait(None)

    # A task of its own: where the client disconnects, the question is abandoned by the end of ``parts``.
    pumping = asyncio.create_task(pump())
    try:
        first = await ready.get()
    except asyncio.CancelledError:
        pumping.cancel()
        raise
    if first is None:
        await pumping  # raises the error before the first part

    async def rest() -> AsyncIterator[str]:
        try:
            part = first
            while part is not None:
                yield part
                try:
                    part = await asyncio.wait_for(ready.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    part = ": waiting\n\n"
            await pumping
        finally:
            pumping.cancel()

    return StreamingResponse(rest(), media_type="text/event-stream", headers=_SSE)


async def _as_sse(events: AsyncIterator[Event]) -> AsyncIterator[str]:
    begun = False
    try:
        async for event in events:
            begun = True
            yield event.sse()
    except Refused as error:
        if not begun:
            raise
        yield Event("error", error.body()["error"] | {"status": error.status}).sse()


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return the result of ``work``; cancel it if the client disconnects before."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=GONE_POLL_S))[0]:
            if await request.is_disconnected():
                raise Refused(499, "client_gone", "The client closed the connection.")
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refused)
    return refusal(error)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError | ValidationError)
    places = [each["loc"][isinstance(error, RequestValidationError) :] for each in error.errors()]  # without "body"
    told = [
        f"the body is not JSON ({each['ctx']['error']} at character {place[0]})"
        if each["type"] == "json_invalid"
        else f"{'.'.join(map(str, place)) or 'the body'}: {each['msg']}"
        for place, each in zip(places, error.errors(), strict=True)
    ]
    return refusal(Refused(422, "invalid_request", f"The request cannot be used: {'; '.join(told)}."))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    path, allowed = request.url.path, (error.headers or {}).get("Allow", "")
    message = {404: f"There is nothing at {path}.", 405: f"{path} does not take {request.method}. Send {allowed}."}
    code = "not_found" if error.status_code == 404 else "invalid_request"
    return refusal(Refused(error.status_code, code, message.get(error.status_code, str(error.detail))))


async def _broken(_: Request, error: Exception) -> JSONResponse:
    return refusal(Refused(500, "internal_error", f"{type(error).__name__}; this is a bug. Paid replies are kept."))
