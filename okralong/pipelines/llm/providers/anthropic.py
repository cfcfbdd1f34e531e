"""Anthropic's Messages API and Message Batches API, on the SDK ``anthropic``.

https://platform.claude.com/docs/en/api/messages and .../messages/batches describe the protocols.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, ClassVar, Final

import anthropic

from okralong.pipelines.core.types import QUESTION_MARK, Message
from okralong.pipelines.llm.completion import Dialect, name_of
from okralong.pipelines.llm.config import ROOM_FOR_THOUGHT, EndpointConfig, GeneratorConfig, claude_generation
from okralong.pipelines.llm.providers.base import BatchApi, Connection, RemoteBatch, checked_id, whole
from okralong.pipelines.llm.providers.fields import RequestFields, WireFields
from okralong.pipelines.llm.providers.stainless import RAW, StainlessProvider, open_http
from okralong.pipelines.llm.rate_limit import LimitHeaders, RateLimitHeaders
from okralong.pipelines.llm.records import Call, custom_id
from okralong.pipelines.llm.request import PREFIX_CHARS, LlmRequest
from okralong.pipelines.llm.usage import added, mapping

PATH: Final = "/v1/messages"
BATCHES: Final = "/v1/messages/batches"
DATED: Final = re.compile(r"-20\d{6}\Z")
ADAPTIVE_FROM: Final = (4, 6)
NO_SAMPLING_FROM: Final = (4, 7)
"""The first versions of Claude that choose the length of their thought by an effort, and those that refuse
``temperature`` and ``top_p`` (https://platform.claude.com/docs/en/about-claude/models/migration-guide)."""
LEAST_BUDGET: Final = 1024
"""The least tokens of thought of earlier versions (the SDK's ``thinking_config_enabled_param``)."""
LEAST_PREFIX: Final = ((re.compile(r"haiku-4-5|opus-4-[56]"), 4096), (re.compile(r"opus-4-7"), 2048))
"""The fewest tokens of a cached prefix of those models that do not cache ``PREFIX_CHARS`` characters
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching, as dev.to/creeta quotes it in 2026)."""
CHARS_PER_TOKEN: Final = 4  # project default
EFFORTS: Final = {"none": "low", "minimal": "low"}
"""Our names of efforts that Anthropic calls otherwise."""
FINISHED: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "refusal": "refusal",
    "tool_use": "tool_calls",
}
"""Anthropic's reasons for the end of a reply, and OpenAI's names."""
STATUSES: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""HTTP statuses of the types of errors, for errors inside the results of a batch."""
MOST_BEGUN: Final = 16  # project default
"""The most tokens of output that a stream may count at its beginning without having billed them; Claude counts 1."""
PAGE: Final = 100
TRANSFER_S: Final = 1800.0  # project default
"""The longest pause in seconds while a batch is sent or read."""
CLOCKS_DIFFER: Final = timedelta(days=1)  # project default
"""A batch that was created this long before its requests were recorded is not looked at, whatever the clocks say."""
POLL_S: Final = 60.0  # project default
MARK_CHARS: Final = 12
LONGEST_ID: Final = 64
"""Most characters of a custom_id."""
LONGEST_FIRST_LINE: Final = 4 * 1024 * 1024  # project default
"""The most bytes that are read of a result in order to learn its custom_id."""


def open_provider(config: EndpointConfig, connection: Connection, prompt_cache: str) -> AnthropicProvider:
    """Open an endpoint; see ``endpoint.open_provider``."""
    http, timeout = open_http(anthropic, connection)
    client = anthropic.AsyncAnthropic(
        base_url=connection.address.removesuffix("/v1"),  # the SDK's paths begin with it
        api_key=connection.key,
        max_retries=0,
        timeout=timeout,
        http_client=http,
    )
    return AnthropicProvider(config, connection.key, client, marks=prompt_cache != "never")


class AnthropicProvider(StainlessProvider):
    """Claude at Anthropic, or at a proxy that speaks its protocol."""

    sdk: ClassVar[ModuleType] = anthropic
    path: ClassVar[str] = PATH
    wire: ClassVar[WireFields] = WireFields(
        optional=("temperature", "top_p", "stop_sequences"), format="output_config", limits=(), stream_options=False
    )
    request_id_header: ClassVar[str] = "request-id"
    caches_on_request: ClassVar[bool] = True

    def __init__(self, endpoint: EndpointConfig, key: str, http: anthropic.AsyncAnthropic, marks: bool) -> None:
        """Mark shared prefixes for the cache if ``marks``."""
        super().__init__(endpoint, key, http)
        self._marks = marks
        self._input_per_output = 0.0  # the ratio of the limits of input and output tokens, 0 if unknown

    def dialect(self) -> Dialect:
        """See ``StainlessProvider``."""
        return AnthropicDialect()

    def prefix_key(self, messages: Sequence[Message]) -> str | None:
        """Return a hash of everything before the question, because Anthropic only caches up to a mark."""
        before = _before_question(messages)
        least = [CHARS_PER_TOKEN * tokens for models, tokens in LEAST_PREFIX if models.search(self.endpoint.model)]
        size = sum(len(each.content) for each in messages[:-1]) + len(before or "")
        if before is None or size < max([PREFIX_CHARS, *least]):
            return None
        parts = [f"{each.role}\n{each.content}\n" for each in messages[:-1]]
        return hashlib.sha256("".join([*parts, before]).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def permit_tokens(self, prompt_tokens: int, max_tokens: int) -> int:
        """Return the tokens that a request takes from the limit of input tokens.

        Input and output have separate limits. A reply counts as the share of the input limit that it takes of the
        output limit, so that neither is exceeded.
        """
        if not self._input_per_output:
            return prompt_tokens + max_tokens
        return max(prompt_tokens, math.ceil(max_tokens * self._input_per_output))

    def tier(self, flex: bool) -> dict[str, Any]:
        """See ``Provider``; there is no flex tier, and the standard one excludes priority capacity."""
        return {"service_tier": "standard_only"}

    def body(self, request: LlmRequest, fields: RequestFields, *, shared: bool = False) -> dict[str, Any]:
        """See ``Provider``. The seed, log-probabilities and grammars do not exist, so they are not sent."""
        left_out = fields.left_out(request.json_schema)
        system = "\n\n".join(each.content for each in request.messages if each.role in ("system", "developer"))
        turns = [each for each in request.messages if each.role not in ("system", "developer")]
        messages: list[dict[str, Any]] = [{"role": each.role, "content": each.content} for each in turns]
        body: dict[str, Any] = {"model": self.endpoint.model, "max_tokens": request.max_tokens, "messages": messages}
        if system:
            body["system"] = system
        if shared and self._marks and (before := _before_question(request.messages)):
            mark = {"type": "text", "text": before, "cache_control": {"type": "ephemeral"}}
            messages[-1]["content"] = [mark, {"type": "text", "text": turns[-1].content[len(before) :]}]
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        thinking, output = _effort(request, self.endpoint.model)
        if thinking:
            body["thinking"] = thinking
        elif claude_generation(self.endpoint.model) < NO_SAMPLING_FROM:
            # Either of the two is accepted, not both.
            body |= (
                {"temperature": min(1.0, request.temperature)} if request.top_p is None else {"top_p": request.top_p}
            )
        if request.json_schema is not None and self.wire.format not in left_out:
            schema = json.loads(request.json_schema)["schema"]
            output["format"] = {"type": "json_schema", "schema": _sendable(schema)}
        if output:
            body["output_config"] = output
        return {name: value for name, value in body.items() if name == "output_config" or name not in left_out}

    def rate_limits(
        self,
        headers: Mapping[str, str],
        *,
        taken: bool,
        slow_down: bool = False,
        retry_after: float | None = None,
    ) -> RateLimitHeaders:
        """Read ``anthropic-ratelimit-*``. The limit of input tokens is that of tokens (see ``permit_tokens``)."""
        sent, received = _limit(headers, "input-tokens"), _limit(headers, "output-tokens")
        if sent.limit and received.limit:
            self._input_per_output = sent.limit / received.limit
        tokens = sent if sent.limit is not None else _limit(headers, "tokens")
        return RateLimitHeaders(_limit(headers, "requests"), tokens, taken, slow_down, retry_after)

    async def model_names(self) -> list[str]:
        """See ``Provider``. Models up to version 4.5 are listed with their date, and may be named without it."""
        names = await super().model_names()
        return [*names, *dict.fromkeys(short for name in names if (short := DATED.sub("", name)) not in names)]

    async def _first_batches(self) -> Any:
        return await self.http.messages.batches.list(limit=1)

    def batch_api(self, run_id: str, tell: Callable[[str], None]) -> BatchApi:
        """See ``Provider``."""
        config = self.endpoint
        poll_s = config.batch.longest_poll_s if isinstance(config, GeneratorConfig) else POLL_S
        return AnthropicBatches(self.http, run_id, tell, poll_s)


def _before_question(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message that prompts over the same passages share, or None."""
    before, mark, _ = messages[-1].content.rpartition(QUESTION_MARK)
    return before if mark and before else None


def _effort(request: LlmRequest, model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields ``thinking`` and ``output_config`` for the requested effort, {} to send none.

    Each version turns thinking off in a different way (https://platform.claude.com/docs/en/build-with-claude/thinking).
    """
    effort, generation = request.reasoning_effort, claude_generation(model)
    if effort is None:
        return {}, {}
    if generation < ADAPTIVE_FROM:
        budget = min(ROOM_FOR_THOUGHT[effort], request.max_tokens - 1)
        return ({"type": "enabled", "budget_tokens": budget} if budget >= LEAST_BUDGET else {}), {}
    if effort == "none":
        if generation < (5, 0):
            return {}, {}  # they think only on request
        return {"type": "between_tools" if "sonnet-5-5" in model else "disabled"}, {}
    return {"type": "adaptive"}, {"effort": EFFORTS.get(effort, effort)}


def _sendable(schema: Any) -> Any:
    """Return a JSON schema as the SDK rewrites it for Anthropic.

    The SDK knows no lists of types, so they become ``anyOf``. A schema that it still refuses is sent unchanged: if the
    endpoint refuses it, too, it is left out.
    """
    try:
        return anthropic.transform_schema(_without_type_lists(schema))
    except (AssertionError, TypeError, ValueError):
        return schema


def _without_type_lists(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_type_lists(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    values = {key: each if key in ("enum", "const") else _without_type_lists(each) for key, each in schema.items()}
    if not isinstance(types := values.get("type"), list) or "enum" in values or "const" in values:
        return values
    del values["type"]
    return {"anyOf": [{"type": each} | (values if each != "null" else {}) for each in types]}


def _limit(headers: Mapping[str, str], what: str) -> LimitHeaders:
    """Read the limit of ``what``: "requests", "tokens", "input-tokens" or "output-tokens"."""
    name = f"anthropic-ratelimit-{what}"
    limit, remaining = (_count(headers.get(f"{name}-{part}", "")) for part in ("limit", "remaining"))
    return LimitHeaders(limit or None, remaining, _seconds_until(headers.get(f"{name}-reset", ""), headers))


def _count(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,15}", text.strip()) else None


def _seconds_until(moment: str, headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a time in RFC 3339, by the endpoint's clock if it states it."""
    try:
        there = datetime.fromisoformat(moment)
        now = parsedate_to_datetime(headers["date"]) if headers.get("date") else datetime.now(UTC)
        return max(0.0, (there - now).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


class AnthropicDialect(Dialect):
    """Translates a message, whole or in events, to a chat completion."""

    def __init__(self) -> None:
        self._usage: dict[str, Any] = {}

    def whole(self, found: object) -> object:
        """See ``Dialect``."""
        if not isinstance(found, Mapping) or found.get("type") != "message":
            return found
        blocks = found.get("content")
        message: dict[str, Any] = {}
        for block in blocks if isinstance(blocks, list) else []:
            for name, text in _delta_of_block(block).items():
                message[name] = message[name] + text if name in message else text
        usage = found.get("usage")
        self._usage = dict(usage) if isinstance(usage, Mapping) else {}
        return {"model": found.get("model"), "choices": [self._end(found, message)], **self._told()}

    def event(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """See ``Dialect``."""
        kind = found.get("type")
        if kind == "error":
            return found
        if kind == "message_start":
            message = mapping(found.get("message"))
            self._usage |= mapping(message.get("usage"))
            written = self._usage.get("output_tokens")
            # The count so far is no count of the reply, which may be refused and free.
            self._usage["output_tokens"] = 0
            begun = {"model": message.get("model"), "choices": [{"index": 0, "delta": {}}], **self._told()}
            if isinstance(written, int) and written > MOST_BEGUN and "usage" in begun:
                begun["usage"]["completion_tokens"] = written
            return begun
        if kind == "content_block_start":
            return _chunk(_delta_of_block(found.get("content_block")))
        if kind == "content_block_delta":
            delta = mapping(found.get("delta"))
            name = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(delta.get("type")), "")
            return _chunk({{"text": "content"}.get(name, name): delta.get(name)}) if name else {}
        if kind == "message_delta":
            # The counts are cumulative, and some events leave out those that have not changed.
            told = {name: count for name, count in mapping(found.get("usage")).items() if count is not None}
            self._usage |= told
            return {"choices": [self._end(mapping(found.get("delta")), {}, "delta")], **self._told()}
        self.done = self.done or kind == "message_stop"
        return {}

    def _end(self, told: Mapping[str, Any], message: dict[str, Any], under: str = "message") -> dict[str, Any]:
        """Return a choice with the reason of the reply's end."""
        reason = told.get("stop_reason")
        if reason == "refusal":
            details = mapping(told.get("stop_details"))
            why = str(details.get("explanation") or details.get("category") or "its safety classifiers ended the reply")
            message["refusal"] = why[:1000]
        finish = FINISHED.get(reason, reason) if isinstance(reason, str) else None
        return {"index": 0, under: message, "finish_reason": finish}

    def _told(self) -> dict[str, Any]:
        """Return usage and tier. The prompt counts tokens that were read from the cache or written to it."""
        tier = {"service_tier": self._usage.get("service_tier")}
        if "input_tokens" not in self._usage and not self._usage.get("output_tokens"):
            return tier
        read, written = (self._usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
        thought = mapping(self._usage.get("output_tokens_details")).get("thinking_tokens")
        usage = {
            "prompt_tokens": added(self._usage.get("input_tokens"), read, written),
            "completion_tokens": self._usage.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
            "completion_tokens_details": {"reasoning_tokens": thought},
        }
        return tier | {"usage": usage}


def _delta_of_block(block: object) -> dict[str, Any]:
    """Return a content block as part of a chat message."""
    told = mapping(block)
    kind = str(told.get("type"))
    if kind == "text":
        return {"content": str(told.get("text") or "")}
    if kind == "thinking":
        return {"thinking": str(told.get("thinking") or "")}
    if kind.endswith("tool_use"):
        return {"tool_calls": [{"function": {"name": told.get("name")}}]}
    return {}


def _chunk(delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


class AnthropicBatches(BatchApi):
    """The Message Batches API.

    Batches have no metadata, and their requests cannot be read before they end. So each custom_id ends with a mark of
    the run, and a batch is found again by its number of requests and, once it has ended, by the custom_ids.
    """

    def __init__(self, http: anthropic.AsyncAnthropic, run_id: str, tell: Callable[[str], None], poll_s: float) -> None:
        self._http, self._tell, self._poll_s = http, tell, poll_s
        self._mark = "-" + hashlib.sha256(run_id.encode()).hexdigest()[:MARK_CHARS]
        self._claimed: set[str] = set()
        """Batches that are known to be others than a missing one."""

    def line(self, custom_id: str, body: str) -> bytes:
        """See ``BatchApi``."""
        return f'{{"custom_id":"{custom_id}{self._mark}","params":{body}}}'.encode()

    async def upload(self, lines: Sequence[bytes]) -> bytes:
        """Return the body of ``create``, which sends the requests."""
        return b'{"requests":[' + b",".join(lines) + b"]}"

    async def create(self, uploaded: bytes, number: int) -> RemoteBatch:
        """See ``BatchApi``."""
        options: Any = {"headers": {"Content-Type": "application/json"}, "timeout": TRANSFER_S}
        created = _read(await self._http.post(BATCHES, cast_to=object, content=uploaded, options=options))
        self._claimed.add(created.id)
        return created

    async def look(self, batch_id: str) -> RemoteBatch:
        """See ``BatchApi``."""
        self._claimed.add(batch_id)
        return await self._state(batch_id)

    async def _state(self, batch_id: str) -> RemoteBatch:
        return _read(await self._http.get(f"{BATCHES}/{batch_id}", cast_to=object))

    async def cancel(self, batch_id: str) -> None:
        """See ``BatchApi``."""
        try:
            await self._http.messages.batches.cancel(batch_id)
        except (anthropic.ConflictError, anthropic.BadRequestError):  # it has ended, or is about to
            return

    async def read(self, file_id: str, most_bytes: int) -> bytes:
        """See ``BatchApi``. Not the SDK's method, which follows any address that the batch names as its results."""
        options: Any = {"headers": RAW, "timeout": TRANSFER_S}
        raw: Any = await self._http.get(f"{BATCHES}/{file_id}/results", cast_to=object, options=options)
        parts: list[bytes] = []
        left = most_bytes
        try:
            async for part in raw.http_response.aiter_bytes():
                parts.append(part[:left])
                left -= len(parts[-1])
                if not left:  # skip the rest; the last line then cannot be parsed
                    break
        finally:
            await raw.http_response.aclose()
        return b"".join(parts)

    async def find(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Look at the account's batches with as many requests as the wanted ones, once they have ended."""
        names = {number: {custom_id(call) + self._mark for call in calls} for number, calls in wanted.items()}
        oldest = min((call.started_at for calls in wanted.values() for call in calls), default=datetime.now(UTC))
        found: dict[int, list[RemoteBatch]] = {}
        after: dict[str, Any] = {}
        while names.keys() - found.keys():
            listed = mapping(
                await self._http.get(BATCHES, cast_to=object, options={"params": {"limit": PAGE, **after}})
            )
            batches = [mapping(each) for each in listed.get("data") or []]
            for each in batches:
                if _created(each) < oldest - CLOCKS_DIFFER:
                    return found
                if each.get("id") in self._claimed:
                    continue
                sizes = {number for number in names.keys() - found.keys() if len(names[number]) == _read(each).total}
                if sizes:
                    ended = await self._ended(_read(each))
                    first = await self._first_name(ended)
                    found |= {number: [ended] for number in sizes if first in names[number]}
            if not listed.get("has_more") or not batches:
                return found
            after = {"after_id": checked_id(batches[-1].get("id"))}
        return found

    async def _ended(self, batch: RemoteBatch) -> RemoteBatch:
        if not batch.ended:
            self._tell(
                f"The batch {batch.id} may be one that this run created before it was stopped. This shows when it has "
                "ended, so it is waited for."
            )
        while not batch.ended:
            await asyncio.sleep(self._poll_s)
            batch = await self._state(batch.id)
        return batch

    async def _first_name(self, batch: RemoteBatch) -> str:
        """Return the custom_id in the first line of a batch's results, or "" if they are gone or unreadable."""
        try:
            line, _, _ = (await self.read(batch.id, LONGEST_FIRST_LINE)).partition(b"\n")
        except anthropic.NotFoundError:
            return ""
        found = re.search(rb'"custom_id"\s*:\s*"([^"]{1,%d})"' % LONGEST_ID, line)
        return found[1].decode("utf-8", "replace") if found else ""

    def result(self, line: dict[str, Any]) -> dict[str, Any]:
        """See ``BatchApi``."""
        name = str(line["custom_id"])
        result = line["result"]
        kind, translated = result["type"], {"custom_id": name.removesuffix(self._mark)}
        if kind == "succeeded":
            body = AnthropicDialect().whole(result["message"])
            return translated | {"response": {"status_code": 200, "body": body}}
        if kind == "errored":
            told = result["error"]
            status = STATUSES.get(str(mapping(told.get("error")).get("type")), 500)
            response = {"status_code": status, "request_id": told.get("request_id"), "body": told}
            return translated | {"response": response}
        return translated | {"error": {"code": name_of(kind), "message": "the request was not processed"}}


def _created(batch: Mapping[str, Any]) -> datetime:
    moment = datetime.fromisoformat(str(batch.get("created_at")))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read(told: object) -> RemoteBatch:
    """Convert a batch as it came. Raises ValueError if it has no id or status."""
    batch = mapping(told)
    status = batch.get("processing_status")
    if not isinstance(status, str):
        raise ValueError("a batch without a processing_status")
    counts = {name: whole(count) for name, count in mapping(batch.get("request_counts")).items()}
    known = [count for count in counts.values() if count is not None]
    if status == "ended":
        cancelled = counts.get("canceled") or batch.get("cancel_initiated_at")
        status = "expired" if counts.get("expired") else "cancelled" if cancelled else "completed"
    batch_id = checked_id(batch.get("id"))
    return RemoteBatch(
        id=batch_id,
        status=name_of(status),
        output_file_id=batch_id if batch.get("processing_status") == "ended" else None,
        completed=counts.get("succeeded"),
        total=sum(known) if known else None,
    )
