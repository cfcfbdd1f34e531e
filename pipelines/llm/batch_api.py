"""An endpoint's Batch API: one request of a batch, files and batches there, refusals, and what a batch brought.

The method names are this product's; https://platform.openai.com/docs/guides/batch describes the protocol.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeVar

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.llm.completion import Bounds, Received, checked, read_completion
from okralong.pipelines.llm.config import EndpointConfig, LlmConfig
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.records import Call, Outcome
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.routing import (
    ApiError,
    ErrorResponse,
    RequestFields,
    by_status,
    classify,
    open_client,
    read_key,
    scrub,
    without_key,
)

CHAT_URL: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request that waits for a batch. ``body`` is what a chat request would hold, as JSON; ``tokens`` its prompt's,
    on the safe side. The scheduler gives ``call`` its attempt.
    """

    call: Call
    body: str
    tokens: int

    @classmethod
    def of(
        cls, request: LlmRequest, call: Call, tokens: int, fields: RequestFields, more: Mapping[str, Any] | None = None
    ) -> BatchItem:
        """The item of a call to ``call.model``, with the fields that the endpoint takes; ``more`` are further ones."""
        left_out = fields.left_out(request.json_schema)
        parameters = request.parameters(fields.limit_field, call.model, left_out)
        extra = parameters.pop("extra_body", {})
        more = {name: value for name, value in (more or {}).items() if name not in left_out}
        return cls(call, json.dumps(parameters | extra | more, separators=(",", ":")), tokens)

    @property
    def sent(self) -> frozenset[str]:
        """The names of its fields."""
        return frozenset(json.loads(self.body))

    def line(self, call: Call) -> bytes:
        """Its line of the batch's file, as the attempt ``call``."""
        name = json.dumps(custom_id(call))
        return f'{{"custom_id":{name},"method":"POST","url":"{CHAT_URL}","body":{self.body}}}\n'.encode()


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply came, is paid for and durable."""

    raw: RawReply


@dataclass(frozen=True, slots=True)
class NoReply:
    """A batch brought no reply, for a reason that another batch may cure where ``api_error.retry``.

    ``counts``: whether it is one of the failures after which a request is asked in real time.
    """

    api_error: ApiError
    counts: bool = True


@dataclass(frozen=True, slots=True)
class UseRealtime:
    """No batch will answer it any more: ask in real time."""

    why: str


BatchAnswer = Answered | NoReply | UseRealtime


def batch_call_id(query_id: str, path: str, sample: int, request_hash: str) -> str:
    """The same for the same call in every process, so that a run that asks again finds what it asked before."""
    parts = json.dumps([query_id, path, sample, request_hash], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def custom_id(call: Call) -> str:
    """The name of an attempt within its batch. (OpenAI asks for at most 64 characters.)"""
    return f"{call.call_id}-{call.attempt}"


MOST_NAMED: Final = 100
"""An endpoint need not name more wrong lines; so many may mean that all are wrong. Ours."""
FULL: Final = frozenset({"token_limit_exceeded"})
"""Codes by which OpenAI and Azure say that the account has too many tokens in unfinished batches."""
TOO_LARGE: Final = frozenset({"too_many_tasks"})


@dataclass(frozen=True, slots=True)
class BatchError:
    """One of a batch's errors; ``line`` counts from 1 and is None where it is about none."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an endpoint has refused a whole batch. None of its requests was billed.

    ``reason`` full: wait, and send less at a time; large: send less at a time; lines: the requests of ``lines``
    (from 1) are wrong and the others may go again; all: no batch of this kind will be taken.
    """

    reason: Literal["full", "large", "lines", "all"]
    message: str
    lines: frozenset[int] = frozenset()


def read_refusal(errors: Sequence[BatchError], requests: int) -> Refusal:
    """What is wrong with a batch of so many requests."""
    said = "; ".join(f"{'' if e.line is None else f'line {e.line}: '}{e.code}: {e.message}" for e in errors[:3])
    said = said[:500] or "it named no reason"
    codes = {error.code for error in errors}
    if codes & FULL:
        return Refusal("full", said)
    if codes & TOO_LARGE and requests > 1:
        return Refusal("large", said)
    lines = frozenset(error.line for error in errors if error.line is not None)
    everything = any(error.line is None for error in errors) or len(lines) >= min(requests, MOST_NAMED)
    if not lines or (everything and requests > 1):
        return Refusal("all", said)
    return Refusal("lines", said, lines)


T = TypeVar("T")

RUN_KEY: Final = "okralong_run"
BATCH_KEY: Final = "okralong_wave"
"""Of a batch's metadata: the run's id, and the batch's number in it."""
PAGE: Final = 100
CLOCKS_APART: Final = timedelta(hours=1)
"""How far this machine's clock and the endpoint's may differ. Ours."""
TRANSFER_S: Final = 1800.0
"""Longest pause within the transfer of a file; 200 MB take minutes. Ours."""
ENDED: Final = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the endpoint tells of it."""

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[BatchError, ...] = ()
    done: int = 0
    total: int = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in ENDED


class BatchApiError(Exception):
    """A call that brought nothing after all attempts. ``api_error.retry`` is False when no attempt could.

    ``may_exist``: whether what was to be created may be there all the same.
    """

    def __init__(self, api_error: ApiError, *, may_exist: bool = False) -> None:
        super().__init__(api_error.message)
        self.api_error, self.may_exist = api_error, may_exist


class BatchEndpoint:
    """The files and batches of one account at the first endpoint of ``config``.

    Each call is tried again while that may help; batches are found by the run and number in their metadata.
    """

    def __init__(self, config: LlmConfig, run_id: str, backoff: tuple[float, float] = (1.0, 30.0)) -> None:
        """``run_id`` marks this run's batches; ``backoff`` first and longest pause between two attempts, in seconds.

        Raises ConfigError when the key is needed and missing.
        """
        self.key = read_key(config)
        self._config, self._run_id = config, run_id
        self._first, self._longest = backoff
        self._http = open_client(config, config.base_url, self.key, config.timeout_s, uploads=True)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def upload(self, content: bytes) -> str:
        """The id of a new input file."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        made = await self._try(lambda: files.create(file=("requests.jsonl", content), purpose="batch"))
        return str(made.id)

    async def create(self, file_id: str, number: int, since: datetime) -> RemoteBatch:
        """A new batch, the run's ``number``-th; after an error the one that was made all the same, if the list has it.

        ``since`` is when the batch was closed.
        """
        marks = {RUN_KEY: self._run_id, BATCH_KEY: str(number)}
        failed = False

        async def created() -> RemoteBatch:
            nonlocal failed
            if failed and (made := await self._made(number, since)):
                return made
            failed = True
            return _read(
                await self._http.batches.create(
                    input_file_id=file_id, endpoint=CHAT_URL, completion_window="24h", metadata=marks
                )
            )

        try:
            return await self._try(created)
        except BatchApiError as error:
            if not error.api_error.retry or error.may_exist:
                raise
            await asyncio.sleep(self._first)
            if made := await self._made(number, since):
                return made
            raise

    async def of_this_run(self, since: datetime) -> dict[int, list[RemoteBatch]]:
        """The run's batches that were created ``since`` then, by number, the oldest first."""
        return await self._try(lambda: self._listed(since))

    async def look(self, batch_id: str) -> RemoteBatch:
        """The batch as it is now. One attempt: whoever watches it looks again anyway."""

        async def looked() -> RemoteBatch:
            return _read(await self._http.batches.retrieve(batch_id))

        return await self._try(looked, attempts=1)

    async def cancel(self, batch_id: str) -> None:
        """Ask for its end; it comes some minutes later, and what was done by then is kept. Too late is fine."""

        async def cancelled() -> None:
            try:
                await self._http.batches.cancel(batch_id)
            except (openai.ConflictError, openai.BadRequestError):  # it has ended, or is about to
                return

        await self._try(cancelled)

    async def read(self, file_id: str) -> bytes:
        """The content of a file."""
        files = self._http.with_options(timeout=TRANSFER_S).files

        async def content() -> bytes:
            return (await files.content(file_id)).content

        return await self._try(content)

    async def _made(self, number: int, since: datetime) -> RemoteBatch | None:
        try:
            return next(iter((await self.of_this_run(since)).get(number, [])), None)
        except BatchApiError as error:
            raise BatchApiError(error.api_error, may_exist=True) from None

    async def _listed(self, since: datetime) -> dict[int, list[RemoteBatch]]:
        oldest = (since - CLOCKS_APART).timestamp()
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        async for batch in self._http.batches.list(limit=PAGE):  # the newest first
            if batch.created_at < oldest:
                break
            marks = batch.metadata or {}
            if marks.get(RUN_KEY) == self._run_id and str(marks.get(BATCH_KEY)).isdigit():
                found[int(marks[BATCH_KEY])].insert(0, _read(batch))
        return dict(found)

    async def _try(self, work: Callable[[], Awaitable[T]], attempts: int | None = None) -> T:
        """What ``work`` brings. Raises BatchApiError when no attempt is left, or none would help."""

        async def tried() -> T:
            try:
                return await work()
            except BatchApiError:  # of a call within this one, which has had its attempts
                raise
            except Exception as error:
                raise BatchApiError(self._api_error(error)) from None

        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, BatchApiError) and e.api_error.retry and not e.may_exist),
            stop=stop_after_attempt(self._config.max_attempts if attempts is None else attempts),
            wait=self._pause,
            reraise=True,
        )
        return await retrying(tried)

    def _pause(self, state: RetryCallState) -> float:
        """Seconds until the next attempt: what the endpoint asked for, else growing ones."""
        error = state.outcome.exception() if state.outcome else None
        named = error.api_error.retry_after if isinstance(error, BatchApiError) else None
        return min(self._longest, self._first * 2.0 ** (state.attempt_number - 1)) if named is None else named

    def _api_error(self, error: Exception) -> ApiError:
        """What went wrong; what no further attempt can correct is the endpoint's, and ends the run."""
        where = self._config
        said = scrub(str(error), self.key)[:500]
        if not isinstance(error, openai.APIError):
            message = f"{where.base_url} answered with something that is neither a batch nor a file ({said})."
            return ApiError("unknown", 200, message, retry=True, whose="endpoint")
        if isinstance(error, openai.NotFoundError):
            message = (
                f"{where.base_url} knows no such file or batch ({said}). If it has no Batch API (/files and /batches), "
                "run the same command with --llm-mode realtime."
            )
            return ApiError("failed", 404, message, retry=False, whose="endpoint")
        api_error = classify(error, where.base_url, where.model, where.api_key_env, self.key)
        return replace(api_error, whose="endpoint")


def _read(batch: Any) -> RemoteBatch:
    told = (batch.errors.data or []) if batch.errors is not None else []
    counts = batch.request_counts
    return RemoteBatch(
        id=batch.id,
        status=batch.status,
        output_file_id=batch.output_file_id,
        error_file_id=batch.error_file_id,
        errors=tuple(BatchError(str(each.code), str(each.message), each.line) for each in told),
        done=0 if counts is None else counts.completed + counts.failed,
        total=0 if counts is None else counts.total,
    )


Line = dict[str, Any]


@dataclass(frozen=True)
class ResultLines:
    """The lines of a batch's output and error files by custom_id; ``unreadable`` is how many could not be read."""

    lines: dict[str, Line] = field(default_factory=dict)
    unreadable: int = 0

    @classmethod
    def read(cls, files: Iterable[bytes]) -> ResultLines:
        """What stands in the files."""
        lines: dict[str, Line] = {}
        unreadable = 0
        for content in files:
            for text in content.splitlines():
                if not text.strip():
                    continue
                try:
                    line = json.loads(text)
                    lines[str(line["custom_id"])] = line
                except (ValueError, KeyError, TypeError, RecursionError):  # the last of brackets in brackets
                    unreadable += 1
        return cls(lines, unreadable)


ANY: Final = Bounds(0, 2**39, 2**39)
"""Of a request that is not known here any more."""


@dataclass(frozen=True)
class ResultReader:
    """What the lines of one endpoint mean. ``key`` is removed wherever it turns up. ``price`` is that of a batch, which
    replies are charged at; None: that which each call went out with.
    """

    endpoint: EndpointConfig
    key: str = field(repr=False)
    count: CountTokens
    price: Price | None = None

    def read(self, call: Call, found: ResultLines, name: str, latency_s: float) -> tuple[Outcome, BatchAnswer]:
        """The outcome of an attempt whose line has this ``name``, and what its caller is told.

        Of a request without a line nothing was done, unless there are lines that cannot be read.
        """
        line = found.lines.get(name)
        if line is None:
            certain = not found.unreadable
            said = "the batch ended without it" if certain else "its line cannot be read among the batch's results"
            return _missed(call, ApiError("failed" if certain else "unknown", 0, said, retry=True), latency_s)
        try:
            response, error = line.get("response"), line.get("error")
            if response is None:
                said = f"{error['code']}: {error['message']}" if error else "a line with neither reply nor error"
                return _missed(call, ApiError("failed", 0, scrub(said, self.key)[:500], retry=True), latency_s)
            status, body = int(response["status_code"]), response["body"]
            request_id = str(response.get("request_id") or "")
            if status == 200:
                return self._answered(call, body, request_id, latency_s)
            return _missed(call, self._api_error(status, body, request_id), latency_s)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
            said = f"{self.endpoint.base_url} answered with something that is no chat completion ({error})"
            return _missed(call, ApiError("unknown", 200, said, retry=True), latency_s)

    def _answered(self, call: Call, body: Line, request_id: str, latency_s: float) -> tuple[Outcome, BatchAnswer]:
        raw = read_completion(Received(checked(body)), ANY, self.endpoint.model, self.count)
        if self.price is not None and self.price.longer:  # which rates hold only the endpoint's own count says
            call = call.charged(self.price.charged(raw.reply.usage.prompt_tokens))
        cost = call.price.cost(raw.reply.usage)
        if raw.counted_here:
            # Its prompt is not here any more, so the most that it can have cost stands.
            cost, raw = call.reserved_usd, replace(raw, note=f"{raw.note}; the reserve is the cost")
        raw = raw.received(call, cost, latency_s, request_id, lambda text: without_key(text, self.key))
        return raw.outcome(call), Answered(raw)

    def _api_error(self, status: int, body: Any, request_id: str) -> ApiError:
        error = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {}
        answer = ErrorResponse(status, str(error.get("code") or ""), str(error.get("type") or ""), request_id)
        said = scrub(str(error.get("message") or body), self.key)[:500]
        where = self.endpoint
        return by_status(answer, f"in a batch: {said}", where.base_url, where.model, where.api_key_env)


def _missed(call: Call, api_error: ApiError, latency_s: float) -> tuple[Outcome, BatchAnswer]:
    return api_error.outcome(call, latency_s), NoReply(api_error)
