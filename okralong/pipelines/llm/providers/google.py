"""Google's Gemini API on the SDK ``google-genai``.

The SDK sends requests of its own accord in four ways, each of which would be paid for without a ledger row: it retries
errors, repeats a request whose connection broke (unless ``retry_options`` are set), continues a reply that ended with
CONTINUATION, and calls functions. All four are turned off.

https://ai.google.dev/api/generate-content and https://ai.google.dev/gemini-api/docs/batch-api describe the protocol.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, ClassVar, Final, cast

import google.genai as genai  # not "from google", whose failure would not say that the SDK is missing
import httpx2
import openai
from google.genai import errors, types

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.llm.completion import Bounds, CutOff, Dialect, Received, receive
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
from okralong.pipelines.llm.providers.base import (
    CHECK_TIMEOUT_S,
    BatchApi,
    BatchError,
    Failure,
    Provider,
    RemoteBatch,
    checked_id,
    whole,
)
from okralong.pipelines.llm.providers.fields import RequestFields, WireFields
from okralong.pipelines.llm.providers.stainless import open_http
from okralong.pipelines.llm.records import Call
from okralong.pipelines.llm.request import LlmRequest

VERSION: Final = "v1beta"
"""The version of the API that has batches and JSON schemas (https://ai.google.dev/gemini-api/docs/api-versions)."""
FORMAT: Final = "response_json_schema"
FINISHED: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
        "content_filter",
    ),
}
"""Google's reasons for the end of a reply, and OpenAI's name for each. Others stay, in lower case."""
MOST_BUDGET: Final = 24_576
"""The largest ``thinking_budget`` of Gemini 2.5 Flash; 2.5 Pro takes 32,768 (https://ai.google.dev/gemini-api/docs/
thinking)."""
PACIFIC_OFFSET_H: Final = -8
"""Daily quotas are reset at midnight, Pacific time (https://ai.google.dev/gemini-api/docs/rate-limits). In summer, the
true time is an hour earlier."""
PAGE: Final = 100
MOST_PAGES: Final = 10_000  # project default
"""Number of pages after which a list of batches counts as endless."""
TRANSFER_MS: Final = 1_800_000  # project default
"""The longest pause in milliseconds during the transfer of a file."""
HTTP_STATUS: Final = {1: 499, 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401}
"""HTTP statuses of google.rpc codes, which errors within a batch have."""
ENDED: Final = {
    "SUCCEEDED": "completed",
    "PARTIALLY_SUCCEEDED": "completed",
    "FAILED": "failed",
    "EXPIRED": "expired",
    "CANCELLED": "cancelled",
}
"""The ends of ``BATCH_STATE_`` or ``JOB_STATE_``, and our names of them."""
_RESPONSE: ContextVar[httpx2.Response | None] = ContextVar("response", default=None)
"""The last response that the current task received: the SDK's objects lack some of what it says."""
_VERSIONED: Final = re.compile(r"(.+?)/(v\d\w*)/*")
_BY_BUDGET: Final = re.compile(r"gemini-2\.")
_TOO_LONG: Final = re.compile(r"token count .{0,40}exceeds the maximum", re.IGNORECASE)
_NO_CREDIT: Final = re.compile(r"credits? (?:are|is) depleted|prepay", re.IGNORECASE)


def open_provider(
    config: EndpointConfig,
    address: str,
    key: str,
    timeout_s: float,
    transport: Any,
    uploads: bool,
    on_headers: Callable[[Mapping[str, str]], None] | None,
    prompt_cache: str,
) -> GoogleProvider:
    """Open an endpoint; see ``endpoint.open_provider``. Prompts are cached without being asked for."""
    # The SDK accepts any client of httpx2, such as this one.
    http, _ = open_http(openai, address, timeout_s, transport, uploads, on_headers)

    async def shorten_connecting(request: httpx2.Request) -> None:
        timeouts = request.extensions.get("timeout", {})
        timeouts["connect"] = min(CHECK_TIMEOUT_S, timeout_s)

    async def keep(response: httpx2.Response) -> None:
        _RESPONSE.set(response)

    http.event_hooks["request"].append(shorten_connecting)
    http.event_hooks["response"].append(keep)
    versioned = _VERSIONED.fullmatch(address)
    options = types.HttpOptions(
        base_url=versioned[1] if versioned else address,
        api_version=versioned[2] if versioned else VERSION,
        timeout=int(1000 * timeout_s),
        retry_options=types.HttpRetryOptions(attempts=1),
        httpx_async_client=http,
    )
    return GoogleProvider(config, key, genai.Client(api_key=key, vertexai=False, http_options=options), http)


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
        first = await anext(lines)  # an error response is raised here
        response = _RESPONSE.get()
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


class GeminiDialect(Dialect):
    """Translates Gemini's replies to OpenAI's.

    Tokens of thought are billed as output, but ``candidatesTokenCount`` excludes them. ``promptTokenCount`` includes
    the cached tokens. In a stream, each event repeats the usage so far.
    """

    def whole(self, found: object) -> object:
        """See ``Dialect``."""
        return _completion(found, "message") if isinstance(found, Mapping) and _is_reply(found) else found

    def event(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """See ``Dialect``."""
        return _completion(found, "delta") if _is_reply(found) else found


def _is_reply(found: Mapping[str, Any]) -> bool:
    return any(name in found for name in ("candidates", "promptFeedback", "usageMetadata"))


def _completion(found: Mapping[str, Any], message: str) -> dict[str, Any]:
    candidates = found.get("candidates")
    candidate = _mapping(candidates[0]) if isinstance(candidates, list) and candidates else {}
    blocked = _mapping(found.get("promptFeedback")).get("blockReason")
    reason = str(candidate.get("finishReason") or "")[:100]
    told: dict[str, Any] = {"model": found.get("modelVersion")}
    if (usage := _usage(_mapping(found.get("usageMetadata")))) is not None:
        told["usage"] = usage
    if not candidate and not blocked and message == "delta":
        return told  # an event with nothing but the usage
    choice = {
        "index": 0,
        message: _message(_mapping(candidate.get("content")).get("parts")),
        "finish_reason": "content_filter" if blocked else FINISHED.get(reason, reason.lower()),
        "logprobs": {"content": _logprobs(_mapping(candidate.get("logprobsResult")).get("chosenCandidates"))},
    }
    return {**told, "choices": [choice]}


def _message(parts: object) -> dict[str, Any]:
    texts: dict[str, str] = {}
    called: list[dict[str, Any]] = []
    for part in map(_mapping, parts if isinstance(parts, list) else []):
        name = "reasoning_content" if part.get("thought") else "content"
        if isinstance(part.get("text"), str):
            texts[name] = texts.get(name, "") + part["text"]
        if part.get("functionCall"):
            called.append({"function": {"name": _mapping(part["functionCall"]).get("name")}})
    return {**texts, "tool_calls": called} if called else dict(texts)


def _usage(told: Mapping[str, Any]) -> dict[str, Any] | None:
    if "promptTokenCount" not in told:
        return None
    parts = [told.get(name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount")]
    right = all(isinstance(part, int) and part >= 0 for part in parts)
    return {
        "prompt_tokens": told["promptTokenCount"],
        "completion_tokens": sum(parts) if right else None,
        "prompt_tokens_details": {"cached_tokens": told.get("cachedContentTokenCount") or 0},
        "completion_tokens_details": {"reasoning_tokens": parts[1]},
    }


def _logprobs(chosen: object) -> list[dict[str, Any]]:
    found = map(_mapping, chosen if isinstance(chosen, list) else [])
    return [{"token": each.get("token"), "logprob": each.get("logProbability")} for each in found]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


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
        told = _mapping(_mapping(error.details).get("error")) or _mapping(error.details)
        found = told.get("details")
        details = tuple(map(_mapping, found if isinstance(found, list) else []))
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
        if _TOO_LONG.search(body.words):
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
        for violation in map(_mapping, violations if isinstance(violations, list) else []):
            if "PerDay" in str(violation.get("quotaId")):
                now = datetime.now(UTC) + timedelta(hours=PACIFIC_OFFSET_H)
                midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
                return (midnight - now).total_seconds()
    for detail in details:
        delay = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)s", str(detail.get("retryDelay")))
        if delay:
            return float(delay[1])
    return None


class GoogleBatches(BatchApi):
    """Google's Batch API, with requests and results in files. A batch is recognized by its display name."""

    def __init__(self, api: genai.client.AsyncClient, model: str, run_id: str) -> None:
        self._api, self._model, self._run_id = api, model, run_id

    def line(self, custom_id: str, body: str) -> bytes:
        """See ``BatchApi``."""
        given = json.loads(body)
        request: dict[str, Any] = {"contents": given.pop("contents")}
        if (said := given.pop("system_instruction", None)) is not None:
            request["systemInstruction"] = {"parts": [{"text": said}]}
        thinking = given.pop("thinking_config", None)
        config = {_camel(name): value for name, value in given.items()}
        if thinking is not None:
            config["thinkingConfig"] = {_camel(name): value for name, value in thinking.items()}
        request["generationConfig"] = config
        return (json.dumps({"key": custom_id, "request": request}, separators=(",", ":")) + "\n").encode()

    async def upload(self, lines: Sequence[bytes]) -> str:
        """Upload an input file; return its name."""
        options = types.HttpOptions(timeout=TRANSFER_MS)
        config = types.UploadFileConfig(mime_type="application/jsonl", http_options=options)
        made = await self._api.files.upload(file=io.BytesIO(b"".join(lines)), config=config)
        return f"files/{_own_id(made.name, 'files')}"

    async def create(self, uploaded: str, number: int) -> RemoteBatch:
        """See ``BatchApi``."""
        config = types.CreateBatchJobConfig(display_name=self._name(number))
        await self._api.batches.create(model=self._model, src=uploaded, config=config)
        return _batch(_told())

    async def find(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Read the account's list of batches until all are found, or to its end."""
        names = {self._name(number): number for number in wanted}
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        missing, seen, token = set(wanted), set[str](), None
        for _ in range(MOST_PAGES):
            config = types.ListBatchJobsConfig(page_size=PAGE, page_token=token)
            await self._api.batches.list(config=config)
            page = _told()
            listed = page.get("operations")
            new = [each for each in map(_mapping, listed if isinstance(listed, list) else []) if _key(each) not in seen]
            for each in new:
                seen.add(_key(each))
                number = names.get(str(_mapping(each.get("metadata")).get("displayName")))
                if number is not None:
                    found[number].insert(0, _batch(each))
                    missing.discard(number)
            token = page.get("nextPageToken")
            if not missing or not new or not isinstance(token, str) or not token:
                return dict(found)
        raise ValueError(f"its list of batches has more than {MOST_PAGES} pages")

    async def look(self, batch_id: str) -> RemoteBatch:
        """See ``BatchApi``."""
        await self._api.batches.get(name=f"batches/{batch_id}")
        return _batch(_told())

    async def cancel(self, batch_id: str) -> None:
        """See ``BatchApi``."""
        try:
            await self._api.batches.cancel(name=f"batches/{batch_id}")
        except errors.ClientError as error:
            if error.code not in (400, 409):  # it has ended, or is about to
                raise

    async def read(self, file_id: str, most_bytes: int) -> bytes:
        """See ``BatchApi``."""
        content = _Content(most_bytes)
        try:
            config = types.DownloadFileConfig(http_options=types.HttpOptions(timeout=TRANSFER_MS))
            await self._api.files.download(file=f"files/{file_id}", destination=content, config=config)
        except _FullError:  # the last line then cannot be parsed
            pass
        return content.getvalue()

    def result(self, line: dict[str, Any]) -> dict[str, Any]:
        """See ``BatchApi``."""
        custom_id, told = line["key"], _mapping(line.get("response"))
        if told:
            body: object = GeminiDialect().whole(told)
            response = {"status_code": 200, "request_id": told.get("responseId"), "body": body}
            return {"custom_id": custom_id, "response": response}
        error = _mapping(line.get("error"))
        code, said = error.get("code"), str(error.get("message"))
        named = {"code": "context_length_exceeded"} if _TOO_LONG.search(said) else {}
        status = HTTP_STATUS.get(code, 500) if isinstance(code, int) else 500
        response = {"status_code": status, "request_id": "", "body": {"error": {"message": said, **named}}}
        return {"custom_id": custom_id, "response": response}

    def _name(self, number: int) -> str:
        return f"okralong {self._run_id} {number}"


class _FullError(Exception):
    """A file is longer than the bytes that are read."""


class _Content(io.BytesIO):
    """The beginning of a file."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._room = most_bytes

    def write(self, data: Any) -> int:
        written = super().write(data[: self._room])
        self._room -= written
        if written < len(data):
            raise _FullError
        return written


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _told() -> Mapping[str, Any]:
    """Return the JSON of the response that the SDK has just read; its own objects lack counts and errors."""
    response = _RESPONSE.get()
    found = None if response is None else response.json()
    if not isinstance(found, Mapping):
        raise ValueError("a body that is no object")
    return found


def _key(batch: Mapping[str, Any]) -> str:
    return str(batch.get("name"))[:200]


def _own_id(name: object, kind: str) -> str:
    """Return the id in the name of a resource, such as ``batches/ID``."""
    return checked_id(str(name).removeprefix(f"{kind}/") if name else None)


def _batch(told: Mapping[str, Any]) -> RemoteBatch:
    """Read an operation. Raises ValueError if it has no name or state."""
    metadata = _mapping(told.get("metadata"))
    state = metadata.get("state")
    if not isinstance(state, str):
        raise ValueError("a batch without a state")
    output = _mapping(metadata.get("output")) or _mapping(told.get("response"))
    file, error = output.get("responsesFile"), _mapping(told.get("error"))
    said = str(error.get("message"))[:500]
    stats = metadata.get("batchStats")
    return RemoteBatch(
        id=_own_id(told.get("name"), "batches"),
        status=ENDED.get(state.split("_STATE_")[-1], "in_progress"),
        output_file_id=None if file is None else _own_id(file, "files"),
        errors=(BatchError(str(error.get("code")), said),) if error else (),
        completed=_counted(stats, "successfulRequestCount"),
        total=_counted(stats, "requestCount"),
    )


def _counted(stats: object, name: str) -> int | None:
    """Return a count, which is a string; one of 0 is left out."""
    if not isinstance(stats, Mapping):
        return None
    text = str(stats.get(name, "0"))
    return whole(int(text)) if text.isascii() and text.isdecimal() and len(text) <= 10 else None
