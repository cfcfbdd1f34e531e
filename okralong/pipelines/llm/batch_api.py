"""Client of an endpoint's Batch API: the requests of a batch, files and batches at the endpoint, and refusals.

https:

platform.openai.com/docs/guides/batch describes the protocol.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, TypeVar

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from okralong.pipelines.llm.completion import Bounds, name_of
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import open_client, read_key
from okralong.pipelines.llm.error_body import plain_words, shortened
from okralong.pipelines.llm.errors import ApiError, classify, error_words, scrub
from okralong.pipelines.llm.records import NAME_CHARS, Call
from okralong.pipelines.llm.request import LlmRequest

CHAT_URL: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request that waits for a batch.

    ``body`` is the JSON of the chat request, ``tokens`` a safe estimate of its prompt's size in tokens, and ``bounds``
    the bounds of its reply. The scheduler sets the attempt in ``call``, and ``since``, the monotonic time of arrival in
    seconds.
    """

    call: Call
    body: str
    tokens: int
    bounds: Bounds | None = None
    since: float = 0.0

    @classmethod
    def of(cls, request: LlmRequest, call: Call, tokens: int, body: Mapping[str, Any]) -> BatchItem:
        """Return the item of a request that is sent as ``body``."""
        bounds = Bounds.of(request.messages, tokens, request.max_tokens, request.json_schema)
        return cls(call, json.dumps(body, separators=(",", ":")), tokens, bounds)

    @property
    def sent(self) -> frozenset[str]:
        """The names of the request's fields."""
        return frozenset(json.loads(self.body))

    def line(self, call: Call) -> bytes:
        """Return the line for the attempt ``call`` in the batch's input file."""
        name = json.dumps(custom_id(call))
        return f'{{"custom_id":{name},"method":"POST","url":"{CHAT_URL}","body":{self.body}}}\n'.encode()


def batch_call_id(query_id: str, path: str, sample: int, request_hash: str) -> str:
    """Return the id of a call. It is the same in every process, so that a resumed run finds its calls."""
    parts = json.dumps([query_id, path, sample, request_hash], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


def custom_id(call: Call) -> str:
    """Return the name of an attempt within its batch; OpenAI allows 64 characters."""
    return f"{call.call_id}-{call.attempt}"


MOST_NAMED: Final = 100  # project default
"""The most errors that are read per batch. Endpoints may not list more, so if there are this many, any line may be
wrong."""
FULL: Final = frozenset({"token_limit_exceeded"})
"""Error codes of OpenAI and Azure for too many tokens in the account's unfinished batches."""
TOO_LARGE: Final = frozenset({"too_many_tasks"})


@dataclass(frozen=True, slots=True)
class BatchError:
    """An error of a batch; ``line`` counts from 1, or is None if the error is not about a single line."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an endpoint refused a whole batch. None of it was billed.

    Reasons:

    - "full": wait, and send less at a time.
    - "large": send less at a time.
    - "lines": the requests of ``lines`` (from 1) are wrong; the others may be sent again.
    - "all": no batch of this kind will be accepted.
    """

    reason: Literal["full", "large", "lines", "all"]
    message: str
    lines: frozenset[int] = frozenset()


def read_refusal(errors: Sequence[BatchError], requests: int) -> Refusal:
    """Return what is wrong with a batch of ``requests`` requests."""
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
"""Keys of a batch's metadata: the id of the run, and the number of the batch within the run."""
PAGE: Final = 100
MOST_PAGES: Final = 10_000  # project default
"""Number of pages after which a list of batches counts as endless (a million batches)."""
LONG_LIST: Final = 5  # project default
"""Number of pages after which the user gets a note that the list is long."""
CLOCK_TOLERANCE_S: Final = 60.0  # project default
"""If the clocks of endpoint and machine differ by more than this, in seconds, the user gets a note."""
RESULT_BYTES: Final = (64 * 1024 * 1024, 1024 * 1024)  # project default
"""The most bytes read from a result file: a fixed number, plus a number per request."""
TRANSFER_S: Final = 1800.0  # project default
"""The longest pause in seconds during the transfer of a file; 200 MB take minutes."""
ENDED: Final = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch as the endpoint describes it; a count is None if it is missing or impossible."""

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: tuple[BatchError, ...] = ()
    completed: int | None = None
    total: int | None = None

    @property
    def ended(self) -> bool:
        """True if the batch will bring no more results."""
        return self.status in ENDED


class BatchApiError(Exception):
    """A call to the Batch API failed after all attempts. ``api_error.retry`` is False if a retry cannot help.

    ``may_exist`` is True if the batch may have been created all the same.
    """

    def __init__(self, api_error: ApiError, *, may_exist: bool = False) -> None:
        super().__init__(api_error.message)
        self.api_error, self.may_exist = api_error, may_exist


class BatchEndpoint:
    """The files and batches of one account at the first endpoint of ``config``.

    Failed calls are retried. A batch is recognized by the run and the number in its metadata.
    """

    def __init__(
        self,
        config: LlmConfig,
        run_id: str,
        backoff: tuple[float, float] = (1.0, 30.0),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open the connection.

        ``run_id`` marks this run's batches, ``backoff`` has the first and longest pause between attempts in seconds,
        and ``tell`` passes a note to the user. Raises ConfigError if a required key is missing.
        """
        self.key = read_key(config)
        self._config, self._run_id = config, run_id
        self._first, self._longest = backoff
        self._http = open_client(
            config, config.base_url, self.key, config.timeout_s, uploads=True, on_headers=self._read_clock
        )
        self._tell = tell
        self._clock_read = False

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def upload(self, content: bytes) -> str:
        """Upload an input file; return its id."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        made = await self._try(lambda: files.create(file=("requests.jsonl", content), purpose="batch"))
        return str(made.id)

    async def create(self, file_id: str, number: int) -> RemoteBatch:
        """Create the run's batch ``number``. After an error, return the batch if the endpoint lists it all the same."""
        marks = {RUN_KEY: self._run_id, BATCH_KEY: str(number)}
        failed = False

        async def created() -> RemoteBatch:
            nonlocal failed
            if failed and (made := await self._made(number)):
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
            if made := await self._made(number):
                return made
            raise

    async def of_this_run(self, numbers: Collection[int]) -> dict[int, list[RemoteBatch]]:
        """Return the run's batches with these numbers, each list with the oldest first.

        The account's list of batches is read until all are found, or to its end. Times are not compared, since the
        clocks of endpoint and machine may differ by hours.
        """
        return await self._try(lambda: self._listed(numbers))

    async def look(self, batch_id: str) -> RemoteBatch:
        """Fetch the batch's current state, without retries, since watchers poll it repeatedly."""

        async def looked() -> RemoteBatch:
            return _read(await self._http.batches.retrieve(batch_id))

        return await self._try(looked, attempts=1)

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch. It ends some minutes later and keeps finished requests; an ended one stays as it is."""

        async def cancelled() -> None:
            try:
                await self._http.batches.cancel(batch_id)
            except (openai.ConflictError, openai.BadRequestError):  # it has ended, or is about to
                return

        await self._try(cancelled)

    async def read(self, file_id: str, requests: int) -> bytes:
        """Return the content of a result file, cut at a size that grows with the number of requests."""
        files = self._http.with_options(timeout=TRANSFER_S).files
        least, more = RESULT_BYTES
        room = least + more * requests

        async def content() -> bytes:
            parts: list[bytes] = []
            left = room
            async with files.with_streaming_response.content(file_id) as response:
                async for part in response.iter_bytes():
                    parts.append(part[:left])
                    left -= len(parts[-1])
                    if not left:  # skip the rest; the last line then cannot be parsed
                        break
            return b"".join(parts)

        return await self._try(content)

    async def _made(self, number: int) -> RemoteBatch | None:
        try:
            return next(iter((await self.of_this_run([number])).get(number, [])), None)
        except BatchApiError as error:
            raise BatchApiError(error.api_error, may_exist=True) from None

    async def _listed(self, numbers: Collection[int]) -> dict[int, list[RemoteBatch]]:
        found: dict[int, list[RemoteBatch]] = defaultdict(list)
        missing, seen = set(numbers), set[str]()
        page = await self._http.batches.list(limit=PAGE)  # the newest first
        for count in range(1, MOST_PAGES + 1):
            new = [batch for batch in page.data or [] if name_of(getattr(batch, "id", "")) not in seen]
            for batch in new:
                seen.add(name_of(getattr(batch, "id", "")))
                number = self._number_of(batch)
                if number in numbers:
                    found[number].insert(0, _read(batch))
                    missing.discard(number)
            if not missing or not new or not page.has_next_page():
                return dict(found)
            if count == LONG_LIST:
                self._tell(
                    f"The account has more than {PAGE * LONG_LIST} batches. All are listed, to find those that this "
                    "run may have created before it was stopped; this may take some minutes."
                )
            page = await page.get_next_page()
        raise ValueError(f"its list of batches has more than {MOST_PAGES} pages")

    def _number_of(self, batch: Any) -> int:
        """Return the batch's number within this run, or 0 if another run created it."""
        marks = batch.metadata if isinstance(getattr(batch, "metadata", None), Mapping) else {}
        number = str(marks.get(BATCH_KEY))[:10]
        own = marks.get(RUN_KEY) == self._run_id and number.isascii() and number.isdecimal()
        return int(number) if own else 0

    def _read_clock(self, headers: Mapping[str, str]) -> None:
        """Compare this machine's clock with the endpoint's, once, in the first response that states a time."""
        if self._clock_read:
            return
        try:
            there = parsedate_to_datetime(headers.get("date", ""))
            behind = (there.astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return
        self._clock_read = True
        if abs(behind) > CLOCK_TOLERANCE_S:
            side = "behind" if behind > 0 else "ahead of"
            self._tell(
                f"The clock of this machine is {abs(behind) / 60:,.0f} minutes {side} "
                f"that of {self._config.base_url}. Batches are found by their metadata and durations are measured by a "
                "monotonic clock, so nothing is paid twice; a deadline at a time of day means this machine's clock."
            )

    async def _try(self, work: Callable[[], Awaitable[T]], attempts: int | None = None) -> T:
        """Return the result of ``work``, which is retried if that may help. Raises BatchApiError."""

        async def tried() -> T:
            try:
                return await work()
            except BatchApiError:  # from a nested call, which had its own attempts
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
        """Return the seconds until the next attempt: as many as the endpoint asks for, else more after each attempt."""
        error = state.outcome.exception() if state.outcome else None
        named = error.api_error.retry_after if isinstance(error, BatchApiError) else None
        return min(self._longest, self._first * 2.0 ** (state.attempt_number - 1)) if named is None else named

    def _api_error(self, error: Exception) -> ApiError:
        """Return what went wrong. If no retry can help, the problem counts as the endpoint's, which ends the run."""
        where = self._config
        if not isinstance(error, openai.APIError):
            said = scrub(shortened(plain_words(str(error))), self.key)
            message = f"{where.base_url} answered with something that is neither a batch nor a file ({said})."
            return ApiError("unknown", 200, message, retry=True, whose="endpoint")
        if isinstance(error, openai.NotFoundError):
            said = scrub(error_words(error), self.key)
            message = (
                f"{where.base_url} knows no such file or batch ({said}). If it has no Batch API (/files and /batches), "
                "run the same command with --llm-mode realtime."
            )
            return ApiError("failed", 404, message, retry=False, whose="endpoint")
        api_error = classify(error, where.base_url, where.model, where.api_key_env, self.key)
        return replace(api_error, whose="endpoint")


def _read(batch: Any) -> RemoteBatch:
    """Convert a batch of the SDK, which does not check types. Raises ValueError if it has no id or status."""
    status = getattr(batch, "status", None)
    if not isinstance(status, str):
        raise ValueError("a batch without a status")
    told = getattr(getattr(batch, "errors", None), "data", None)
    counts = getattr(batch, "request_counts", None)
    return RemoteBatch(
        id=_id(getattr(batch, "id", None)),
        status=name_of(status),
        output_file_id=_file_id(getattr(batch, "output_file_id", None)),
        error_file_id=_file_id(getattr(batch, "error_file_id", None)),
        errors=tuple(_error(each) for each in (told if isinstance(told, list) else [])[:MOST_NAMED]),
        completed=_whole(getattr(counts, "completed", None)),
        total=_whole(getattr(counts, "total", None)),
    )


def _error(told: Any) -> BatchError:
    code, message = (name_of(getattr(told, name, None)) for name in ("code", "message"))
    return BatchError(code or "unnamed", message, _whole(getattr(told, "line", None)))


def _id(told: object) -> str:
    """Return an id that the endpoint sent. Raises ValueError if it is not safe in a URL path."""
    if not isinstance(told, str) or not 0 < len(told) <= NAME_CHARS or not told.isprintable() or "/" in told:
        raise ValueError(f"an invalid id: {str(told)[:40]!r}")
    return told


def _file_id(told: object) -> str | None:
    return None if told is None or told == "" else _id(told)


def _whole(told: object) -> int | None:
    """Return a count, or None if it cannot be one."""
    right = isinstance(told, int) and not isinstance(told, bool) and 0 <= told <= 2**31
    return int(told) if right else None  # type: ignore[call-overload]
