"""``/v1beta/models``: generate, stream, count and list; and the door that every request of this API goes through."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Usage
from tests.fakes.endpoint.chat_call import ChatCall, read_call
from tests.fakes.endpoint.completion import Completion, complete
from tests.fakes.endpoint.delivery import with_fault
from tests.fakes.endpoint.draws import draw_latency
from tests.fakes.endpoint.fault_rule import REPLY_KINDS
from tests.fakes.endpoint.journal import Entry, fingerprint
from tests.fakes.endpoint.problems import Problem, context_length, no_key
from tests.fakes.endpoint.state import Endpoint
from tests.fakes.endpoint.wire import ENDPOINT, begin, entry_of, held, is_gone, piece_sent
from tests.fakes.gemini.problems import as_google
from tests.fakes.gemini.translate import Wrong, as_chat, as_response, pieces_of, thinking_of

API: Final = "v1beta"
PREFIXES: Final = (f"/{API}/", f"/upload/{API}/", f"/download/{API}/")
GENERATE: Final = ("generateContent", "streamGenerateContent")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_get(f"/{API}/models", _models)
    app.router.add_get(f"/{API}/models/{{model}}", _model)
    app.router.add_post(f"/{API}/models/{{model}}:countTokens", _count)
    for name in GENERATE:
        app.router.add_post(f"/{API}/models/{{model}}:{name}", _generate)


@web.middleware
async def google_door(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Write a request to this API down, check its key, and answer it; a Problem becomes Google's error."""
    if not request.path.startswith(PREFIXES):
        return await handler(request)
    endpoint = request.app[ENDPOINT]
    generates = request.path.endswith(tuple(f":{name}" for name in GENERATE))
    key = request.headers.get("x-goog-api-key", "")
    entry = begin(request, "chat" if generates else request.path.split(f"/{API}/")[1].split("/")[0], key)
    entry.key = fingerprint(key)
    if generates:
        endpoint.journal.enter()
    try:
        response = await _answered(request, handler, key)
    finally:
        entry.took_s = endpoint.now() - entry.at_s
        if generates:
            endpoint.journal.leave()
    entry.status = 0 if is_gone(request) else response.status
    return response


async def _answered(request: web.Request, handler: Handler, key: str) -> web.StreamResponse:
    try:
        await request.read()  # so that no other request comes between the key's check and its use
        if "key" in request.query:
            raise Wrong("This endpoint is a fake that takes keys in the header alone, so that none stands in a URL.")
        if "upload_id" not in request.query:  # the address of an upload is a secret by itself
            if not key:
                raise no_key()
            request.app[ENDPOINT].authorize(f"Bearer {key}")
        return await handler(request)
    except web.HTTPException as error:
        problem = Problem(error.status, f"Not found: {request.path}")
    except Problem as raised:
        problem = raised
    entry_of(request).code = problem.code or ""
    if problem.status == 502:  # a proxy speaks here, and it speaks HTML
        page = "<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>"
        return web.Response(status=502, text=page, content_type="text/html")
    told = as_google(problem)
    return web.json_response(told, status=told["error"]["code"])


def parse(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises Problem when it is none."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Wrong("Invalid JSON payload received. Expected an object.")
    return body


def read_request(endpoint: Endpoint, name: str, body: dict[str, Any]) -> ChatCall:
    """The request as the endpoint understands it. Raises Problem for what it refuses."""
    models = endpoint.scenario.models
    call = read_call(as_chat(name, body, models), models, endpoint.tokens)
    if thinking_of(body).get("thinkingbudget") == 0:
        call = replace(call, model=call.model.model_copy(update={"thought": 0}))
    return call


async def _generate(request: web.Request) -> web.StreamResponse:
    endpoint, entry = request.app[ENDPOINT], entry_of(request)
    scenario = endpoint.scenario
    call = read_request(endpoint, request.match_info["model"], parse(await request.read()))
    entry.model, entry.request_hash = call.name, call.request_hash
    endpoint.check_credit()
    endpoint.admit(call, entry)
    fault = endpoint.faults.meet("chat", call.request_hash, call.prompt.text)
    if len(call.ids) > call.model.window:  # the reply has a limit of its own
        raise context_length(call.model.window, len(call.ids), 0)
    cached = endpoint.cached(call)
    attempt = endpoint.faults.attempt("chat", call.request_hash)
    await asyncio.sleep(draw_latency(scenario.latency, scenario.seed, call.request_hash, attempt))
    await held(request)
    streams = request.path.endswith(":streamGenerateContent")
    if streams and request.query.get("alt") != "sse":
        raise Wrong("This endpoint is a fake that streams with alt=sse alone.")
    spoilt = fault.kind if fault is not None and fault.kind in REPLY_KINDS else None
    asked = call
    if scenario.replies.overlong > 1:
        most = call.limit or call.model.max_completion_tokens
        call, spoilt = replace(call, limit=int(most * scenario.replies.overlong)), "length"
    done = complete(call, scenario.replies, scenario.seed, cached, spoilt)
    if streams and scenario.replies.piece_s:
        return await _slowly(request, asked, done, entry)

    async def work() -> web.Response:
        endpoint.charge(entry, asked, done.usage, "chat")
        response = as_response(done.body)
        if streams:
            events = b"".join(f"data: {json.dumps(piece)}\r\n\r\n".encode() for piece in pieces_of(response))
            return web.Response(body=events, content_type="text/event-stream")
        return web.json_response(response)

    return await with_fault(request, fault, work)


async def _slowly(request: web.Request, call: ChatCall, done: Completion, entry: Entry) -> web.StreamResponse:
    """Stream piece by piece, and charge what was written before the client went away."""
    endpoint = request.app[ENDPOINT]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    written, usage = "", done.usage
    try:
        for number, piece in enumerate(pieces_of(as_response(done.body)), 1):
            await response.write(f"data: {json.dumps(piece)}\r\n\r\n".encode())
            written += piece["candidates"][0]["content"]["parts"][0]["text"]
            await piece_sent(request, number)
    except ConnectionResetError:
        thought = usage.reasoning_tokens
        usage = Usage(usage.prompt_tokens, usage.cached_tokens, count_tokens(written) + thought, thought)
    endpoint.charge(entry, call, usage, "chat")
    return response


async def _count(request: web.Request) -> web.Response:
    body = parse(await request.read())
    call = read_request(request.app[ENDPOINT], request.match_info["model"], body.get("generateContentRequest", body))
    return web.json_response({"totalTokens": len(call.ids)})


async def _models(request: web.Request) -> web.Response:
    """In pages: the token of a page is the number of its first model."""
    names = list(request.app[ENDPOINT].scenario.models)
    start, size = int(request.query.get("pageToken", 0)), int(request.query.get("pageSize", 50))
    shown: dict[str, Any] = {"models": [_public(request, name) for name in names[start : start + size]]}
    more = {"nextPageToken": str(start + size)} if start + size < len(names) else {}
    return web.json_response(shown | more)


async def _model(request: web.Request) -> web.Response:
    name = request.match_info["model"]
    if name not in request.app[ENDPOINT].scenario.models:
        raise Problem(404, f"The model `{name}` does not exist.", code="model_not_found")
    return web.json_response(_public(request, name))


def _public(request: web.Request, name: str) -> dict[str, Any]:
    model = request.app[ENDPOINT].scenario.models[name]
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": model.window,
        "outputTokenLimit": model.max_completion_tokens,
        "supportedGenerationMethods": ["generateContent", "countTokens", "batchGenerateContent"],
    }


def new_name(kind: str) -> str:
    """A resource name such as ``batches/abc``."""
    return f"{kind}/{uuid.uuid4().hex[:24]}"
