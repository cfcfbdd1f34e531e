"""A scripted endpoint that speaks OpenAI's chat protocol over real sockets, and keeps its own bill.

Replies come from rules (the first whose predicate holds for the messages), troubles from a script (one entry a
request, in order of arrival; None means none). Everything that came in is kept, and what a real provider would have
charged is summed apart from the code under test, so that a ledger can be held against it.

    with FakeOpenAI(rules=[(lambda messages: True, "Paris")]) as server:
        client = openai.OpenAI(base_url=server.base_url, api_key="any")
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from okralong.pipelines.core.tokens import count_tokens

HELD_S = 0.005
"""How often a request that is held looks whether it may go on."""
Messages = list[dict[str, str]]
Rule = tuple[Callable[[Messages], bool], str | Callable[[Messages], str]]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with one request. Without ``status`` the reply is good but for the fields that are set.

    ``reset`` breaks the connection instead of replying; ``billed`` charges all the same; ``delay_s`` comes first.
    ``usage`` is told in place of the true counts, which are charged; ``names`` are fields of the reply that are
    replaced. ``raw`` is the whole body, in any shape: JSON, or a text of ``content_type``.
    """

    status: int = 200
    code: str = ""
    message: str = "scripted trouble"
    headers: dict[str, str] = field(default_factory=dict)
    reset: bool = False
    billed: bool = False
    delay_s: float = 0.0
    text: str | None = None
    refusal: str | None = None
    finish_reason: str | None = None
    no_usage: bool = False
    usage: dict[str, Any] | None = None
    names: dict[str, Any] | None = None
    garbage: str | None = None
    service_tier: str | None = None
    raw: Any = None
    content_type: str = "text/html"


def too_many(retry_after: float | None = None, **headers: str) -> Trouble:
    """A 429 as OpenAI sends it."""
    named = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Trouble(429, "rate_limit_exceeded", "Rate limit reached.", headers={**named, **headers})


@dataclass
class Received:
    """A request that came in: when (monotonic seconds), what, how it was answered, and what it was charged."""

    at: float
    body: dict[str, Any]
    authorization: str
    status: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    service_tier: str = "default"
    billed: bool = False

    @property
    def messages(self) -> Messages:
        """Its messages."""
        return list(self.body["messages"])

    def cost_usd(self, fresh: float, cached: float, output: float) -> float:
        """Its price, at US dollars per million tokens."""
        prompt = (self.prompt_tokens - self.cached_tokens) * fresh + self.cached_tokens * cached
        share = 0.5 if self.service_tier == "flex" else 1.0
        return share * (prompt + self.completion_tokens * output) / 1e6


class FakeOpenAI:
    """The server, in a thread of its own, from ``with`` to its end. Attributes may be changed while it runs."""

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        troubles: Iterable[Trouble | None] = (),
        *,
        models: Sequence[str] = ("fake-model",),
        key: str | None = None,
        delay_s: float = 0.0,
        cached_tokens: int = 0,
        usd_per_million: tuple[float, float, float] = (2.5, 1.25, 10.0),
        lists_models: bool = True,
    ) -> None:
        """``usd_per_million`` are input, cached input and output; ``key`` None takes any key."""
        self.base_url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="fake-openai", daemon=True)
        self.reset(
            rules, troubles, models=models, key=key, delay_s=delay_s, cached_tokens=cached_tokens,
            usd_per_million=usd_per_million, lists_models=lists_models,
        )  # fmt: skip

    def reset(
        self,
        rules: Sequence[Rule] = (),
        troubles: Iterable[Trouble | None] = (),
        *,
        models: Sequence[str] = ("fake-model",),
        key: str | None = None,
        delay_s: float = 0.0,
        cached_tokens: int = 0,
        usd_per_million: tuple[float, float, float] = (2.5, 1.25, 10.0),
        lists_models: bool = True,
    ) -> None:
        """Be as a new server is, at the same address."""
        self.rules = list(rules)
        self.troubles = list(troubles)
        self.models = list(models)
        self.key = key
        self.delay_s = delay_s
        self.cached_tokens = cached_tokens
        self.usd_per_million = usd_per_million
        self.lists_models = lists_models
        self.snapshot = ""
        """What replies name as their model; "": what was asked for."""
        self.system_fingerprint: str | None = None
        self.takes_schemas = True
        """Whether a ``response_format`` with a JSON schema is taken, or refused as OpenAI's older models do."""
        self.gives_logprobs = True
        """Many servers take the wish for log-probabilities and send none."""
        self.refuses: dict[str, str | Trouble] = {}
        """By field of a request, what it is refused with where it is there: words, or a whole response."""
        self.thought = 0
        """Tokens of thought before each reply, which count against its limit; 0: a model that does not think."""
        self.hidden = (0, 0)
        """Tokens of a prompt and of thought that it adds beyond any limit, reports and bills, and does not show."""
        self.counts = 1.0
        """How many times our tokens of a prompt it counts, as another tokenizer or a longer template does."""
        self.writes = 1.0
        """How many times the limit of a reply it may write, as some servers do."""
        self.streams = True
        """Whether a reply is streamed where that is asked for; many servers ignore the wish."""
        self.word_s = 0.0
        """Seconds between two words of a stream."""
        self.words_held: int | None = None
        """A stream stops after so many words until its client has gone; None: none does."""
        self.hold_after: int | None = None
        """Requests after so many wait until this is None, so that a test cannot miss a moment; None: none waits."""
        self.flex_is_full = 0
        """So many of the next requests to the flex tier find no capacity there."""
        self.received: list[Received] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def bill_usd(self) -> float:
        """What a provider would have charged until now."""
        return sum(one.cost_usd(*self.usd_per_million) for one in self.received if one.billed)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.1)
        self._loop.run_until_complete(site.start())
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}":
            return None
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return _problem(Trouble(401, "invalid_api_key", f"Incorrect API key provided: {given}."))

    async def _list_models(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        if not self.lists_models:
            return _problem(Trouble(500, "internal_error", "no such list"))
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        one = Received(time.monotonic(), json.loads(await request.read()), request.headers.get("Authorization", ""))
        self.received.append(one)
        trouble = (self.troubles.pop(0) if self.troubles else None) or Trouble()
        number = len(self.received)
        await asyncio.sleep(trouble.delay_s or self.delay_s)
        while self.hold_after is not None and number > self.hold_after:  # noqa: ASYNC110 - attributes set no event
            await asyncio.sleep(HELD_S)
        if (refused := self._refused(request)) is not None:
            one.status = refused.status
            return refused
        if one.body["model"] not in self.models:
            one.status = 404
            return _problem(Trouble(404, "model_not_found", f"The model {one.body['model']} does not exist."))
        for name, said in self.refuses.items():
            if name in one.body:
                refusal = Trouble(400, "unsupported_parameter", said) if isinstance(said, str) else said
                one.status = refusal.status
                return _problem(refusal)
        if one.body.get("service_tier") == "flex":
            if self.flex_is_full:
                self.flex_is_full -= 1
                one.status = 429
                return _problem(Trouble(429, "resource_unavailable", "Flex is unavailable. Please try again later."))
            one.service_tier = "flex"
        one.service_tier = trouble.service_tier or one.service_tier
        form = one.body.get("response_format") or {}
        if form.get("type") == "json_schema" and not self.takes_schemas:
            one.status = 400
            said = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
            return _problem(Trouble(400, "", said))
        one.status = trouble.status
        if (trouble.status == 200 and not trouble.reset) or trouble.billed:
            reply = self._charge(one, trouble)
        if trouble.reset:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if trouble.status != 200 or trouble.raw is not None:
            return _problem(trouble)
        if trouble.garbage is not None:
            return web.Response(text=trouble.garbage, content_type="text/html")
        headers = {"x-request-id": reply["id"], **trouble.headers}
        if one.body.get("stream") and self.streams:
            return await self._stream(request, one, reply, headers)
        return web.json_response(reply, headers=headers)

    async def _stream(
        self, request: web.Request, one: Received, reply: dict[str, Any], headers: dict[str, str]
    ) -> web.StreamResponse:
        """Send a reply as events, a word each, and charge what was written before its client went away."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", **headers})
        await response.prepare(request)
        choice = reply["choices"][0]
        common = {name: reply.get(name) for name in ("id", "model", "system_fingerprint", "service_tier")}
        words = re.findall(r"\S+\s*|\s+", choice["message"]["content"] or "")
        logprobs = (choice["logprobs"] or {}).get("content") or []
        full, one.completion_tokens = one.completion_tokens, one.reasoning_tokens
        written = ""

        buffer: list[bytes] = []

        async def send(event: dict[str, Any]) -> None:
            buffer.append(f"data: {json.dumps({**common, **event})}\n\n".encode())
            if self.word_s:
                await response.write(b"".join(buffer))
                buffer.clear()

        try:
            await send({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
            for number, word in enumerate(words, 1):
                tokens = {"logprobs": {"content": logprobs[number - 1 : number]}} if logprobs else {}
                await send({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None, **tokens}]})
                written += word
                if self.word_s:
                    await asyncio.sleep(self.word_s)
                while self.words_held is not None and number >= self.words_held:
                    await asyncio.sleep(HELD_S)
                    if request.transport is None or request.transport.is_closing():
                        raise ConnectionResetError
            if refusal := choice["message"]["refusal"]:
                await send({"choices": [{"index": 0, "delta": {"refusal": refusal}}]})
            one.completion_tokens = full
            await send({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
            if (one.body.get("stream_options") or {}).get("include_usage") and "usage" in reply:
                await send({"choices": [], "usage": reply["usage"]})
            await response.write(b"".join([*buffer, b"data: [DONE]\n\n"]))
        except ConnectionResetError:
            one.completion_tokens = one.reasoning_tokens + count_tokens(written)
        return response

    def _charge(self, one: Received, trouble: Trouble) -> dict[str, Any]:
        text = self._text(one.messages) if trouble.text is None else trouble.text
        limit = int(self.writes * (one.body.get("max_tokens") or one.body.get("max_completion_tokens") or 10**9))
        one.reasoning_tokens = min(self.thought, limit)
        limit -= one.reasoning_tokens
        finish = trouble.finish_reason or ("length" if count_tokens(text) > limit else "stop")
        text = text if limit else ""
        while count_tokens(text) > limit:
            text = text[: max(1, len(text) * limit // count_tokens(text)) - 1]
        ours = sum(count_tokens(message["content"]) + 4 for message in one.messages) + 3
        one.prompt_tokens = round(self.counts * ours) + self.hidden[0]
        one.cached_tokens = min(self.cached_tokens, one.prompt_tokens)
        shown = count_tokens(text) if trouble.refusal is None else count_tokens(trouble.refusal)
        one.reasoning_tokens += self.hidden[1]
        one.completion_tokens = shown + one.reasoning_tokens
        one.billed = True
        words = re.findall(r"\s*\S+", text)
        logprobs = {"content": [{"token": word, "logprob": -0.25, "top_logprobs": []} for word in words]}
        choice = {
            "index": 0,
            "finish_reason": finish,
            "message": {"role": "assistant", "content": text, "refusal": trouble.refusal},
            "logprobs": logprobs if one.body.get("logprobs") and self.gives_logprobs else None,
        }
        usage = {
            "prompt_tokens": one.prompt_tokens,
            "completion_tokens": one.completion_tokens,
            "total_tokens": one.prompt_tokens + one.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": one.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": one.reasoning_tokens - self.hidden[1]},
        }
        return {
            "id": f"chatcmpl-{next(self._numbers)}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": self.snapshot or one.body["model"],
            "system_fingerprint": self.system_fingerprint,
            "service_tier": one.service_tier,
            "choices": [choice],
            **({} if trouble.no_usage else {"usage": {**usage, **(trouble.usage or {})}}),
            **(trouble.names or {}),
        }

    def _text(self, messages: Messages) -> str:
        for predicate, text in self.rules:
            if predicate(messages):
                return text if isinstance(text, str) else text(messages)
        return f"An answer to: {messages[-1]['content'][:80]}"


def _problem(trouble: Trouble) -> web.Response:
    if isinstance(trouble.raw, str):
        return web.Response(text=trouble.raw, status=trouble.status, content_type=trouble.content_type)
    if trouble.raw is not None:
        return web.json_response(trouble.raw, status=trouble.status, headers=trouble.headers)
    kind = "insufficient_quota" if trouble.code == "insufficient_quota" else "error"
    body = {"error": {"message": trouble.message, "type": kind, "code": trouble.code or None, "param": None}}
    return web.json_response(body, status=trouble.status, headers={"x-request-id": "req-failed", **trouble.headers})
