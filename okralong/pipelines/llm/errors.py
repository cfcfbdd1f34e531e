"""Classify request errors: may it have been billed, can a retry help, and whose problem is it?

Errors are classified by status code, error code and exception type. Their texts are only searched for field names
(``ApiError.names``), since no error code says which field an endpoint refuses.
"""

from __future__ import annotations

import email.utils
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import aiohttp
import openai

from okralong.pipelines.core.types import CallFailed, EndpointError
from okralong.pipelines.llm.completion import name_of
from okralong.pipelines.llm.rate_limit import RateLimitHeaders, read_headers
from okralong.pipelines.llm.records import Call, Outcome, unknown

NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
"""Raised by aiohttp before a request is sent."""
NEVER_SENT_BY_HTTPX = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""The same for httpx, which carries requests to models in this process. Compared by name, since the package that
``openai`` imports it from has been renamed before."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
PROXY_ERRORS = frozenset({502, 504})
"""Statuses that a proxy returns; the model behind it may have answered."""
FOREVER_S = 86_400.0  # project default
"""Limit on the wait that an endpoint may ask for: a day."""
LONGEST_WAIT_S = 300.0  # project default
"""An endpoint that asks for a longer wait is unusable for now, and the run stops."""
SHORTEST_KEY = 12  # project default
"""Length from which on a key is a secret rather than a placeholder."""
REMOVED = "[key removed]"
_FORMAT = re.compile(r"response_format|json_schema", re.IGNORECASE)
_NO_CAPACITY = re.compile(r"resource[ _]unavailable|capacity[ _]exceeded", re.IGNORECASE)
"""Matches the message of a full flex tier: OpenAI sends "resource unavailable" with a 429; others send a 498."""
_KEY = re.compile(r"\b(sk|pk|gsk|xai|key)-[A-Za-z0-9_*\-]{6,}")


@dataclass(frozen=True, slots=True)
class ApiError:
    """A classified error.

    Attributes:
        status: For the ledger; "unknown" if the request may have been billed.
        http_status: 0 without a response.
        message: What is wrong and what to do, without keys.
        retry: Whether another attempt may succeed.
        whose: Whether the problem is the endpoint's or only this question's.
        retry_after: Seconds to wait, if the endpoint named them.
        no_capacity: The requested tier is full at the moment; the request was neither processed nor billed.
        timed_out: No reply came in time.
    """

    status: Literal["failed", "unknown"]
    http_status: int
    message: str
    retry: bool
    whose: Literal["endpoint", "question"] = "question"
    retry_after: float | None = None
    request_id: str = ""
    no_capacity: bool = False
    timed_out: bool = False

    @property
    def limited(self) -> bool:
        """True if the endpoint asked for fewer requests, by a 429 or a time to wait."""
        return self.retry and not self.no_capacity and (self.http_status == 429 or self.retry_after is not None)

    @property
    def final(self) -> bool:
        """True if the endpoint cannot be used (key, model, quota), or not for ``retry_after`` seconds."""
        return self.whose == "endpoint" and not self.retry

    @property
    def names_format(self) -> bool:
        """True if the request was refused for its ``response_format``, judging by the message (there is no code)."""
        return self.http_status in (400, 422) and _FORMAT.search(self.message) is not None

    def names(self, field_name: str) -> bool:
        """Return whether the message names a field: in quotes or backticks, after "parameter", or as part of a path."""
        named = rf"['\"`.\[ ]{field_name}['\"`\]]|(?:param(?:eter)?|field|argument|supplied):? {field_name}\b"
        return re.search(named, self.message, re.IGNORECASE) is not None

    @property
    def unreachable(self) -> bool:
        """True if no connection was established."""
        return self.http_status == 0 and self.status == "failed"

    def error(self) -> EndpointError | CallFailed:
        """Return the exception to raise: EndpointError stops the run, CallFailed fails the question."""
        return EndpointError(self.message) if self.whose == "endpoint" else CallFailed(self.message)

    def outcome(self, call: Call, latency_s: float = 0.0) -> Outcome:
        """Return the outcome of the attempt: either it was free, or its cost is unknown and its reserve stays held."""
        lost = replace(unknown(call, self.message, self.http_status, latency_s), provider_request_id=self.request_id)
        return lost if self.status == "unknown" else replace(lost, status="failed", cost_usd=0.0)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response to a request, alone or in a batch; ``code`` and ``kind`` of its body are "" if absent."""

    status: int
    code: str
    kind: str
    request_id: str
    headers: Mapping[str, str] = field(default_factory=dict)


def without_key(text: str, key: str) -> str:
    """Remove this exact key from ``text`` and leave the rest unchanged, as required for prompts and replies.

    Placeholders that self-hosted servers accept, such as "none" or "EMPTY", are words, not secrets.
    """
    return text.replace(key, REMOVED) if len(key) >= SHORTEST_KEY else text


def scrub(text: str, key: str) -> str:
    """Remove the key, and anything that looks like one, from an error message; servers tend to repeat keys."""
    return _KEY.sub(REMOVED, without_key(text, key))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds in ``retry-after-ms`` or ``Retry-After`` (seconds or an HTTP date), or None."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < math.inf:
            return min(seconds, FOREVER_S)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        if now is None:  # prefer the endpoint's clock: this machine's may be hours off
            said = headers.get("date")
            now = email.utils.parsedate_to_datetime(said).timestamp() if said else time.time()
        seconds = date.timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), FOREVER_S)


def classify(error: Exception, endpoint: str, model: str, key_env: str, key: str) -> ApiError:
    """Classify an exception of the ``openai`` package; any other exception after sending counts as unknown."""
    said = _said(error, key)
    if isinstance(error, TimeoutError):
        message = f"{endpoint} did not finish a request in time; it may have been billed, so its cost stays held."
        return ApiError("unknown", 0, message, retry=True, timed_out=True)
    if isinstance(error, openai.APIConnectionError):
        cause = _cause(error)
        said, timed_out = connection_message(error, key), isinstance(error, openai.APITimeoutError)
        if isinstance(cause, aiohttp.ClientError):  # the SDK reports any of these as a timeout
            timed_out = isinstance(cause, TimeoutError)
        if isinstance(cause, NEVER_SENT) or type(cause).__name__ in NEVER_SENT_BY_HTTPX:
            message = f"No connection to {endpoint}: {said} Start the server, or correct llm.base_url, and run again."
            return ApiError("failed", 0, message, retry=True, whose="endpoint")
        message = f"{endpoint} gave no reply ({said}); it may have been billed, so its cost stays held."
        return ApiError("unknown", 0, message, retry=True, timed_out=timed_out)
    if isinstance(error, openai.APIStatusError):
        answer = ErrorResponse(
            error.status_code,
            name_of(error.code),
            name_of(error.type),
            name_of(error.request_id),
            error.response.headers,
        )
        return by_status(answer, said, endpoint, model, key_env)
    message = f"{endpoint} answered with something that is not a chat completion: {said} Check llm.base_url."
    return ApiError("unknown", 200, message, retry=True)


def _said(error: Exception, key: str) -> str:
    """Return an error's message without keys, shortened because error pages may be long."""
    return scrub(str(error)[:10_000], key)[:500]


def _cause(error: openai.APIConnectionError) -> BaseException:
    """Return the transport's exception, preferably aiohttp's.

    The SDK's exception does not distinguish a server that closed the connection after a request from an unreachable
    one.
    """
    now: BaseException | None = error.__cause__
    while now is not None and not isinstance(now, aiohttp.ClientError):
        now = now.__cause__
    return now or error.__cause__ or error


def connection_message(error: openai.APIConnectionError, key: str) -> str:
    """Return the transport's message about a failed connection, without keys."""
    cause = _cause(error)
    said = str(cause) if isinstance(cause, aiohttp.ClientError) else str(error)
    return scrub(said.rstrip(".") or type(cause).__name__, key)[:500] + "."


def error_headers(error: Exception, api_error: ApiError) -> RateLimitHeaders:
    """Return the rate limit headers of a request that brought no reply."""
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    return read_headers(headers, taken=False, slow_down=api_error.limited, retry_after=api_error.retry_after)


def by_status(error: ErrorResponse, said: str, endpoint: str, model: str, key_env: str) -> ApiError:
    """Classify an error response; ``said`` is its message without keys."""
    code, status, request_id = error.code, error.status, error.request_id
    if status in (401, 403):
        message = (
            f"{endpoint} refuses the key in the environment variable {key_env} ({status}: {said}). Set it to a key "
            "that may use this model, on every node, and run the same command again."
        )
        return ApiError("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if status == 404:
        message = f"{endpoint} does not know the model {model!r} ({said}). Correct llm.model or llm.base_url."
        return ApiError("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if code == "insufficient_quota" or error.kind == "insufficient_quota":
        message = f"The quota of the account at {endpoint} is used up ({said}). Add credit, then run the same command."
        return ApiError("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if code == "context_length_exceeded":
        message = f"The prompt does not fit the window of {model} ({said}). Set llm.window to the model's true size."
        return ApiError("failed", status, message, retry=False, request_id=request_id)
    if code == "content_filter":
        message = f"The endpoint's content filter refused the prompt ({said})."
        return ApiError("failed", status, message, retry=False, request_id=request_id)
    if status == 498 or (status == 429 and _NO_CAPACITY.search(f"{code} {error.kind} {said}")):
        wait = retry_after(error.headers)
        message = f"{endpoint} has no capacity for this request at the moment ({status}: {said})."
        return ApiError("failed", status, message, True, "question", wait, request_id, no_capacity=True)
    if status in RETRIED or status >= 500:
        wait = retry_after(error.headers)
        message = f"{endpoint} answered {status} ({said})."
        whose: Literal["endpoint", "question"] = "endpoint" if status == 429 else "question"
        if wait is not None and wait > LONGEST_WAIT_S:
            message = f"{endpoint} asks to wait {wait:.0f} s ({status}: {said}). Run the same command again after that."
            return ApiError("failed", status, message, False, "endpoint", wait, request_id)
        billed: Literal["failed", "unknown"] = "unknown" if status in PROXY_ERRORS else "failed"
        return ApiError(billed, status, message, True, whose, wait, request_id)
    message = f"{endpoint} refused the request ({status}: {said})."
    return ApiError("failed", status, message, retry=False, request_id=request_id)
