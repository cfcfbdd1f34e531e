"""What went wrong with an attempt, decided by status codes, error codes and exception types, never by searching texts.

Three questions are answered for each: may it have been billed, is it worth another try, and whose problem is it.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import openai

from okralong.pipelines.answering.llm.quota_headers import Notice, read_notice
from okralong.pipelines.core.types import CallFailed, EndpointError

NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""Names of the transport's exceptions that come before a request has left. By name: the transport library of
``openai`` has changed its module name before."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
GATEWAY = frozenset({502, 504})
"""Here a proxy speaks, and the model behind it may have worked all the same."""
LONGEST_WAIT_S = 300.0
"""An endpoint that asks for a longer wait is out of use for now, and the run stops. Ours."""
SHORTEST_KEY = 12
"""Characters from which on a key is a secret and no placeholder. Ours."""
REMOVED = "[key removed]"
_KEY = re.compile(r"\b(sk|pk|gsk|xai|key)-[A-Za-z0-9_*\-]{6,}")


@dataclass(frozen=True, slots=True)
class Fault:
    """``status`` for the ledger; ``http_status`` 0 without an answer; ``retry_after`` in seconds where it was named."""

    status: Literal["failed", "unknown"]
    http_status: int
    message: str
    retry: bool
    whose: Literal["endpoint", "question"] = "question"
    retry_after: float | None = None
    request_id: str = ""

    @property
    def limited(self) -> bool:
        """Whether the endpoint asked for fewer requests: by a 429, or by naming a time to wait."""
        return self.retry and (self.http_status == 429 or self.retry_after is not None)

    @property
    def final(self) -> bool:
        """Whether the endpoint cannot be used (key, model, quota), or not for ``retry_after`` seconds."""
        return self.whose == "endpoint" and not self.retry

    @property
    def unreachable(self) -> bool:
        """Whether no connection came about."""
        return self.http_status == 0 and self.status == "failed"

    def error(self) -> EndpointError | CallFailed:
        """The exception for it: EndpointError stops the run, CallFailed fails the question."""
        return EndpointError(self.message) if self.whose == "endpoint" else CallFailed(self.message)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is an error, to a request by itself or to one of a batch: HTTP status, and code and type ("" where
    there is none) of the error in its body.
    """

    status: int
    code: str
    kind: str
    request_id: str
    headers: Mapping[str, str] = field(default_factory=dict)


def without_key(text: str, key: str) -> str:
    """``text`` without this very key; all else is left alone, so this is fit for prompts and replies.

    Placeholders such as "none" or "EMPTY", which servers of one's own take, are words and no secrets.
    """
    return text.replace(key, REMOVED) if len(key) >= SHORTEST_KEY else text


def scrub(text: str, key: str) -> str:
    """An error message without the key and without anything that looks like one (servers like to repeat it)."""
    return _KEY.sub(REMOVED, without_key(text, key))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``Retry-After`` (seconds or an HTTP date); None when neither helps."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, date.timestamp() - (time.time() if now is None else now))


def classify(error: Exception, endpoint: str, model: str, key_env: str, key: str) -> Fault:
    """The fault behind an exception of the ``openai`` package; any other after sending counts as unknown."""
    said = scrub(str(error), key)[:500]
    if isinstance(error, openai.APITimeoutError | openai.APIConnectionError):
        if type(error.__cause__).__name__ in NEVER_SENT:
            message = f"No connection to {endpoint}: {said} Start the server, or mend llm.base_url, and run again."
            return Fault("failed", 0, message, retry=True, whose="endpoint")
        message = f"{endpoint} gave no reply ({said}); it may have been billed, so its cost stays held."
        return Fault("unknown", 0, message, retry=True)
    if isinstance(error, openai.APIStatusError):
        answer = ErrorAnswer(
            error.status_code,
            str(error.code or ""),
            str(error.type or ""),
            error.request_id or "",
            error.response.headers,
        )
        return by_status(answer, said, endpoint, model, key_env)
    message = f"{endpoint} answered with something that is no chat completion: {said} Check llm.base_url."
    return Fault("unknown", 200, message, retry=True)


def notice_of(error: Exception, fault: Fault) -> Notice:
    """What the limiter should know of a request that brought no reply."""
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    return read_notice(headers, taken=False, slow_down=fault.limited, retry_after=fault.retry_after)


def by_status(error: ErrorAnswer, said: str, endpoint: str, model: str, key_env: str) -> Fault:
    """The fault behind an answer that is an error; ``said`` is its message without any key."""
    code, status, request_id = error.code, error.status, error.request_id
    if status in (401, 403):
        message = (
            f"{endpoint} refuses the key in the environment variable {key_env} ({status}: {said}). Set it to a key "
            "that may use this model, on every node, and run the same command again."
        )
        return Fault("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if status == 404:
        message = f"{endpoint} does not know the model {model!r} ({said}). Mend llm.model or llm.base_url."
        return Fault("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if code == "insufficient_quota" or error.kind == "insufficient_quota":
        message = f"The quota of the account at {endpoint} is used up ({said}). Add credit, then run the same command."
        return Fault("failed", status, message, retry=False, whose="endpoint", request_id=request_id)
    if code == "context_length_exceeded":
        message = f"The prompt does not fit the window of {model} ({said}). Set llm.window to the model's true size."
        return Fault("failed", status, message, retry=False, request_id=request_id)
    if code == "content_filter":
        message = f"The endpoint's content filter refused the prompt ({said})."
        return Fault("failed", status, message, retry=False, request_id=request_id)
    if status in RETRIED or status >= 500:
        wait = retry_after(error.headers)
        message = f"{endpoint} answered {status} ({said})."
        whose: Literal["endpoint", "question"] = "endpoint" if status == 429 else "question"
        if wait is not None and wait > LONGEST_WAIT_S:
            message = f"{endpoint} asks to wait {wait:.0f} s ({status}: {said}). Run the same command again after that."
            return Fault("failed", status, message, False, "endpoint", wait, request_id)
        billed: Literal["failed", "unknown"] = "unknown" if status in GATEWAY else "failed"
        return Fault(billed, status, message, True, whose, wait, request_id)
    message = f"{endpoint} refused the request ({status}: {said})."
    return Fault("failed", status, message, retry=False, request_id=request_id)
