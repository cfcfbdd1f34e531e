"""Client of an endpoint's Batch API: the requests of a batch, files and batches at the endpoint, and refusals.

``providers`` has the protocols; the retries, and what a failure means, are here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import open_provider, read_key
from okralong.pipelines.llm.errors import ApiError
from okralong.pipelines.llm.providers.base import MOST_NAMED, BatchError, Connection, RemoteBatch
from okralong.pipelines.llm.records import Call, custom_id
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A request that waits for a batch.

    ``body`` is the JSON of the request, ``tokens`` a safe estimate of its prompt's size in tokens, and ``bounds``
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
        return cls(call, json.dumps(body, separators=(",", ":")), tokens, Bounds(tokens, request.max_tokens))

    @property
    def sent(self) -> frozenset[str]:
        """The names of the request's fields."""
        return frozenset(json.loads(self.body))


def batch_call_id(query_id: str, path: str, sample: int, request_hash: str) -> str:
    """Return the id of a call. It is the same in every process, so that a resumed run finds its calls."""
    parts = json.dumps([query_id, path, sample, request_hash], separators=(",", ":"))
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


FULL: Final = frozenset({"token_limit_exceeded"})
"""Error codes of OpenAI and Azure for too many tokens in the account's unfinished batches."""
TOO_LARGE: Final = frozenset({"too_many_tasks"})


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

CLOCK_TOLERANCE_S: Final = 60.0  # project default
"""If the clocks of endpoint and machine differ by more than this, in seconds, the user gets a note."""
RESULT_BYTES: Final = (64 * 1024 * 1024, 1024 * 1024)  # project default
"""The most bytes read from a result file: a fixed number, plus a number per request."""


class BatchApiError(Exception):
    """A call to the Batch API failed after all attempts. ``api_error.retry`` is False if a retry cannot help.

    ``may_exist`` is True if the batch may have been created all the same.
    """

    def __init__(self, api_error: ApiError, *, may_exist: bool = False) -> None:
        super().__init__(api_error.message)
        self.api_error, self.may_exist = api_error, may_exist


class BatchEndpoint:
    """The files and batches of one account at the first endpoint of ``config``.

    Failed calls are retried.
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
        self._config = config
        self._first, self._longest = backoff
        connection = Connection(config.base_url, self.key, config.timeout_s, uploads=True, on_headers=self._read_clock)
        self._provider = open_provider(config, connection)
        self.api = self._provider.batch_api(run_id, tell)
        self._tell = tell
        self._clock_read = False

    async def aclose(self) -> None:
        """Close the connections."""
        await self._provider.aclose()

    def line(self, item: BatchItem, call: Call) -> bytes:
        """Return a request for the attempt ``call`` as ``upload`` takes it."""
        return self.api.line(custom_id(call), item.body)

    async def upload(self, lines: Sequence[bytes]) -> Any:
        """Upload the requests of a batch; return what ``create`` takes."""
        return await self._try(lambda: self.api.upload(lines))

    async def create(self, uploaded: Any, number: int, calls: Sequence[Call]) -> RemoteBatch:
        """Create the run's batch ``number``. After an error, return the batch if the endpoint has it all the same."""
        failed = False

        async def created() -> RemoteBatch:
            nonlocal failed
            if failed and (made := await self._made(number, calls)):
                return made
            failed = True
            return await self.api.create(uploaded, number)

        try:
            return await self._try(created)
        except BatchApiError as error:
            if not error.api_error.retry or error.may_exist:
                raise
            await asyncio.sleep(self._first)
            if made := await self._made(number, calls):
                return made
            raise

    async def of_this_run(self, wanted: Mapping[int, Sequence[Call]]) -> dict[int, list[RemoteBatch]]:
        """Return the run's batches with these numbers and calls, each list with the oldest first."""
        return await self._try(lambda: self.api.find(wanted))

    async def look(self, batch_id: str) -> RemoteBatch:
        """Fetch the batch's current state, without retries, since watchers poll it repeatedly."""
        return await self._try(lambda: self.api.look(batch_id), attempts=1)

    async def cancel(self, batch_id: str) -> None:
        """Cancel a batch. It ends some minutes later and keeps finished requests; an ended one stays as it is."""
        await self._try(lambda: self.api.cancel(batch_id))

    async def read(self, file_id: str, requests: int) -> bytes:
        """Return the content of a result file, cut at a size that grows with the number of requests."""
        least, more = RESULT_BYTES
        return await self._try(lambda: self.api.read(file_id, least + more * requests))

    async def _made(self, number: int, calls: Sequence[Call]) -> RemoteBatch | None:
        try:
            return next(iter((await self.of_this_run({number: calls})).get(number, [])), None)
        except BatchApiError as error:
            raise BatchApiError(error.api_error, may_exist=True) from None

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
        where, failure = self._config, self._provider.failure(error)
        if failure.status is None:
            message = f"{where.base_url} answered with something that is neither a batch nor a file ({failure.said})."
            return ApiError("unknown", 200, message, retry=True, whose="endpoint")
        if failure.status == 404:
            message = (
                f"{where.base_url} knows no such file or batch ({failure.said}). If it has no batches, "
                "run the same command with --llm-mode realtime."
            )
            return ApiError("failed", 404, message, retry=False, whose="endpoint")
        api_error = self._provider.api_error(error)
        return replace(api_error, whose="endpoint")
