"""Google's Gemini API on the SDK ``google-genai``.

The SDK sends requests unasked in four ways, each of which would be paid for without a ledger row: it retries
errors, repeats a request whose connection broke (unless ``retry_options`` are set), continues a reply that ended with
CONTINUATION, and calls functions. All four are turned off.

https://ai.google.dev/api/generate-content describes the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, ClassVar, Final, cast

import google.genai as genai  # not "from google", whose failure would not say that the SDK is missing
import httpx2
import openai
from google.genai import errors, types

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.llm.completion import CutOff, Received, receive
from okralong.pipelines.llm.config import ROOM_FOR_THOUGHT, EndpointConfig
from okralong.pipelines.llm.error_body import plain_words, read_error, shortened
from okralong.pipelines.llm.errors import (
    ApiError,
    ErrorResponse,
    by_status,
    classify_other,
    connection_message,
    lost,
    root_cause,
    scrub,
)
from okralong.pipelines.llm.providers.base import CHECK_TIMEOUT_S, BatchApi, Connection, Failure, Provider
from okralong.pipelines.llm.providers.fields import RequestFields, WireFields
from okralong.pipelines.llm.providers.gemini import TOO_LONG, GeminiDialect
from okralong.pipelines.llm.providers.google_batches import LAST_RESPONSE, GoogleBatches
from okralong.pipelines.llm.providers.stainless import open_http
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds, mapping

VERSION: Final = "v1beta"
"""The version of the API that has batches and JSON schemas (https://ai.google.dev/gemini-api/docs/api-versions)."""
FORMAT: Final = "response_json_schema"
MOST_BUDGET: Final = 24_576
"""The largest ``thinking_budget`` of Gemini 2.5 Flash; 2.5 Pro takes 32,768 (https://ai.google.dev/gemini-api/docs/
thinking)."""
PACIFIC_OFFSET_H: Final = -8
"""Daily quotas are reset at midnight, Pacific time (https://ai.google.dev/gemini-api/docs/rate-limits). In summer, the
true time is an hour earlier."""
_VERSIONED: Final = re.compile(r"(.+?)/(v\d\w*)/*")
_BY_BUDGET: Final = re.compile(r"gemini-2\.")
_NO_CREDIT: Final = re.compile(r"credits? (?:are|is) depleted|prepay", re.IGNORECASE)


def open_provider(config: EndpointConfig, connection: Connection, prompt_cache: str) -> GoogleProvider:
    """Open an endpoint; see ``endpoint.open_provider``. Prompts are cached without being asked for."""
    # The SDK accepts any client of httpx2, such as this one.
    http, _ = open_http(openai, connection)

    async def shorten_connecting(request: httpx2.Request) -> None:
        timeouts = request.extensions.get("timeout", {})
        timeouts["connect"] = min(CHECK_TIMEOUT_S, connection.timeout_s)

    async def keep(response: httpx2.Response) -> None:
        LAST_RESPONSE.set(response)

    http.event_hooks["request"].append(shorten_connecting)
    http.event_hooks["response"].append(keep)
    versioned = _VERSIONED.fullmatch(connection.address)
    options = types.HttpOptions(
        base_url=versioned[1] if versioned else connection.address,
        api_version=versioned[2] if versioned else VERSION,
        timeout=int(1000 * connection.timeout_s),
        retry_options=types.HttpRetryOptions(attempts=1),
        httpx_async_client=http,
    )
    client = genai.Client(api_key=connection.key, vertexai=False, http_options=options)
    return GoogleProvider(config, connection.key, client, http)


class GoogleProvider(Provider):
    """The Gemini API. A request's body has the names of the SDK's ``GenerateContentConfig``, and ``contents``."""

    wire: ClassVar[WireFields] = WireFields(
        optional=("temperature", "top_p", "seed", "stop_sequences"), format=FORMAT, limits=(), stream_options=False
    )

    def __init__(self, endpoint: EndpointConfig, key: str, client: genai.Client, http: httpx2.AsyncClient) -> None:
        super().__init__(endpoint, key)
        self._client, self._http = client, http

    @property
    def api(self) -> genai.client.AsyncClient:
        """The SDK's client."""
        return self._client.aio

    async def aclose(self) -> None:
        """See ``Provider``."""
        await self._http.aclose()
        self._client.close()

    def body(self, request: LlmRequest, fields: RequestFields, *, shared: bool = False) -> dict[str, Any]:
        """See ``Provider``."""
        left_out = fields.left_out(request.json_schema)
        said = [message for message in request.messages if message.role == "system"]
        roles = {"assistant": "model"}
        contents = [
            {"role": roles.get(message.role, "user"), "parts": [{"text": message.content}]}
            for message in request.messages
            if message not in said or len(said) == len(request.messages)
        ]
        body: dict[str, Any] = {"contents": contents, "max_output_tokens": request.max_tokens}
        if said and len(said) < len(request.messages):
            body["system_instruction"] = "\n\n".join(message.content for message in said)
        body["temperature"] = request.temperature
        if request.top_p is not None:
            body["top_p"] = request.top_p
        if request.seed is not None:
            body["seed"] = request.seed + request.sample
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if request.logprobs:
            body["response_logprobs"] = True
        if request.reasoning_effort is not None:
            body["thinking_config"] = _thinking(self.endpoint.model, request.reasoning_effort)
        if request.response_format is not None and FORMAT not in left_out:
            body["response_mime_type"] = "application/json"
        if request.json_schema is not None and FORMAT not in left_out:
            body["response_mime_type"] = "application/json"
            body[FORMAT] = json.loads(request.json_schema)["schema"]
        return {name: value for name, value in body.items() if name not in left_out}

    def tier(self, flex: bool) -> dict[str, Any]:
        """See ``Provider``."""
        return {}

    async def send(
        self, body: Mapping[str, Any], bounds: Bounds, count: CountTokens, timeout_s: float | None = None
    ) -> tuple[Received, Mapping[str, str]]:
        """See ``Provider``."""
        given = dict(body)
        contents, streamed = given.pop("contents"), given.pop("stream", False)
        config = types.GenerateContentConfig(
            **given,
            automatic_continuation=False,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            http_options=None if timeout_s is None else types.HttpOptions(timeout=int(1000 * timeout_s)),
            should_return_http_response=not streamed,
        )
        model = self.endpoint.model
        if not streamed:
            whole_reply = await self.api.models.generate_content(model=model, contents=contents, config=config)
            told = whole_reply.sdk_http_response
            headers = dict((told.headers if told else None) or {})
            text = (told.body if told else None) or ""
            return await receive(_Body(headers, _once(text.encode())), bounds, count, GeminiDialect()), headers
        events = await self.api.models.generate_content_stream(model=model, contents=contents, config=config)
        lines = _lines(cast(AsyncGenerator[types.GenerateContentResponse, None], events))
        first = await anext(lines, b"")  # an error response is raised here
        response = LAST_RESPONSE.get()
        headers = {} if response is None else dict(response.headers)
        try:
            stream = _Body({"content-type": "text/event-stream"}, _after(first, lines))
            return await receive(stream, bounds, count, GeminiDialect()), headers
        except CutOff as error:
            late = "Timeout" in type(error.__cause__).__name__
            raise (httpx2.ReadTimeout if late else httpx2.ReadError)(str(error)) from error
        finally:
            if response is not None:
                await response.aclose()  # an aborted reply is billed as far as it is written
            await lines.aclose()

    def api_error(self, error: Exception) -> ApiError:
        """See ``Provider``."""
        if isinstance(error, httpx2.TransportError):
            timed_out = isinstance(error, httpx2.TimeoutException)
            return lost(error, root_cause(error), self.asked, self.key, timed_out=timed_out)
        if isinstance(error, errors.APIError):
            told = _Told.of(error)
            return by_status(told.response(self.key), self.asked)
        return classify_other(error, self.asked, self.key)

    def failure(self, error: Exception) -> Failure:
        """See ``Provider``."""
        if isinstance(error, httpx2.TransportError):
            return Failure(0, connection_message(error, root_cause(error), self.key))
        if isinstance(error, errors.APIError):
            told = _Told.of(error)
            return Failure(told.status, told.response(self.key).body.shown)
        return Failure(None, scrub(shortened(plain_words(str(error))), self.key))

    def error_headers(self, error: Exception) -> Mapping[str, str]:
        """See ``Provider``."""
        return _Told.of(error).headers if isinstance(error, errors.APIError) else {}

    async def model_names(self) -> list[str]:
        """See ``Provider``."""
        models = await self.api.models.list(config=types.ListModelsConfig(page_size=1000))
        return [(model.name or "").removeprefix("models/") async for model in models]

    async def has_batches(self) -> bool | None:
        """See ``Provider``."""
        try:
            await self.api.batches.list(config=types.ListBatchJobsConfig(page_size=1))
        except Exception as error:
            return False if self.failure(error).status in (404, 405, 501) else None
        return True

    def batch_api(self, run_id: str, tell: Callable[[str], None]) -> BatchApi:
        """See ``Provider``."""
        return GoogleBatches(self.api, self.endpoint.model, run_id)


def _thinking(model: str, effort: str) -> dict[str, Any]:
    """Return the ``thinking_config`` for an effort: tokens for Gemini 2.5, a level for later models.

    Levels have no "none"; "minimal" is the least.
    """
    if _BY_BUDGET.search(model):
        return {"thinking_budget": min(ROOM_FOR_THOUGHT[effort], MOST_BUDGET)}
    return {"thinking_level": "MINIMAL" if effort == "none" else effort.upper()}


@dataclass(frozen=True, slots=True)
class _Body:
    """A response as ``receive`` takes it."""

    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]

    def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        return self.chunks


async def _once(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content


async def _after(first: bytes, others: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    async for line in others:
        yield line


async def _lines(events: AsyncGenerator[types.GenerateContentResponse, None]) -> AsyncGenerator[bytes, None]:
    """Yield the SDK's events as the lines of a stream, and an error within the stream as an event, too."""
    try:
        async for event in events:
            text = event.model_dump_json(by_alias=True, exclude_none=True, exclude={"sdk_http_response"})
            yield f"data: {text}\n".encode()
    except errors.APIError as error:
        if isinstance(error.response, httpx2.Response):
            raise  # an error response
        yield f"data: {json.dumps(error.details)}\n".encode()


@dataclass(frozen=True, slots=True)
class _Told:
    """An error response, with what its ``details`` say put into a status, codes and headers that others use, too."""

    status: int
    content: object
    details: tuple[Mapping[str, Any], ...]
    headers: Mapping[str, str]

    @classmethod
    def of(cls, error: errors.APIError) -> _Told:
        """Return what ``error`` says."""
        told = mapping(mapping(error.details).get("error")) or mapping(error.details)
        found = told.get("details")
        details = tuple(map(mapping, found if isinstance(found, list) else []))
        code = error.code if isinstance(error.code, int) else 0
        reasons = {detail.get("reason") for detail in details}
        if "API_KEY_INVALID" in reasons or "API key not valid" in str(told.get("message")):
            code = 401  # Google's own status is 400
        elif told.get("status") == "FAILED_PRECONDITION":  # no billing, or a country without the API
            code = 403
        headers = {name.lower(): value for name, value in (getattr(error.response, "headers", None) or {}).items()}
        if (wait := _wait_s(details)) is not None:
            headers["retry-after"] = f"{wait:.3f}"
        page = error.details.get("message") if isinstance(error.details, Mapping) and not told.get("code") else None
        return cls(code, page or error.details, details, headers)

    def response(self, key: str) -> ErrorResponse:
        """Return the error as ``by_status`` takes it, without ``key``."""
        body = read_error(self.content)
        body = replace(body, words=scrub(body.words, key))
        codes, fields = set[str](), set[str]()
        if TOO_LONG.search(body.words):
            codes.add("context_length_exceeded")
        if self.status == 429 and _NO_CREDIT.search(body.words):
            codes.add("insufficient_quota")
        for name, words in (("thinking_config", r"\bthinking"), ("response_logprobs", r"\blogprobs")):
            if self.status == 400 and re.search(words, body.words, re.IGNORECASE):
                fields.add(name)
        body = replace(body, codes=(*body.codes, *codes), fields=body.fields | fields)
        return ErrorResponse(self.status, body, headers=self.headers)


def _wait_s(details: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the seconds to wait: until a daily quota is reset, else as many as ``RetryInfo`` has, or None."""
    for detail in details:
        violations = detail.get("violations")
        for violation in map(mapping, violations if isinstance(violations, list) else []):
            if "PerDay" in str(violation.get("quotaId")):
                now = datetime.now(UTC) + timedelta(hours=PACIFIC_OFFSET_H)
                midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
                return (midnight - now).total_seconds()
    for detail in details:
        delay = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", str(detail.get("retryDelay")))
        if delay:
            return float(delay[1])
    return None
