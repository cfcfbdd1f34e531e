"""Classify errors of requests: was it possibly billed, can a retry help, and whose problem is it?

The status code, the error code and the type of the exception decide. The server's words (``error_body.py``) are quoted.
They are also searched for what no code says: which field is refused, and whether the prompt is too long.
"""

from __future__ import annotations

import email.utils
import math
import os
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import aiohttp

from okralong.pipelines.core.types import CallFailed, EndpointError, Usage
from okralong.pipelines.llm.completion import CutOff, NoCompletion, Unfinished, name_of
from okralong.pipelines.llm.error_body import ErrorBody, plain_words, read_error, shortened
from okralong.pipelines.llm.network import REFUSED_REDIRECT
from okralong.pipelines.llm.records import Call, Outcome, unknown
from okralong.pipelines.llm.usage import NOTHING_TOLD, Told, as_usage

NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
"""Exceptions that aiohttp raises before a request is sent."""
NEVER_SENT_BY_HTTPX = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""The names of httpx's exceptions before a request is sent; it carries requests to models in this process. Names are
compared, since the package from which ``openai`` imports httpx has been renamed before."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
PROXY_ERRORS = frozenset({502, 504})
"""Statuses that a proxy returns although the model behind it may have answered."""
FOREVER_S = 86_400.0  # project default
"""The longest wait, in seconds, that is believed when an endpoint asks for it: a day."""
LONGEST_WAIT_S = 300.0  # project default
"""Seconds. If an endpoint asks for a longer wait, it cannot be used for now, and the run stops."""
SHORTEST_KEY = 12  # project default
"""A key of at least this many characters is a secret; a shorter one is a placeholder."""
REMOVED = "[key removed]"
_KEY = re.compile(r"\b(?:(?:sk|pk|rk|xai|key|gsk|nvapi)-|(?:gsk|hf|r8)_|AIza)[A-Za-z0-9_*\-]{6,}")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=*\-]{8,}", re.IGNORECASE)

LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""Names of the field that limits a reply: that of most servers, and that of OpenAI's reasoning models."""
TOO_LONG: Final = frozenset({"context_length_exceeded", "exceed_context_size_error", "contextwindowexceedederror"})
NO_CREDIT: Final = frozenset(
    {
        "insufficient_quota",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "billing_not_active",
        "billing_error",
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "arrearage",
    }
)
FILTERED: Final = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed"}
)
NO_MODEL: Final = frozenset({"model_not_found", "invalid_model", "model_not_exist", "unknown_model"})
"""Codes of servers, in lower case."""
_PROMPT_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size|limit)|maximum context|(?:prompt|input) (?:is )?too long|reduce the length"
    r"|too many (?:input )?tokens|(?:prompt|input) (?:contains|has) [\d,]+ tokens",
    re.IGNORECASE,
)
_UNKNOWN_MODEL = re.compile(
    r"\bmodel\b.{0,200}(?:does not exist|not found|is invalid)|(?:no such|not a valid|invalid|unknown) model",
    re.IGNORECASE,
)
_TOO_LITTLE_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)
"""Matches what Anthropic says with a 400."""
_FLAGGED = re.compile(
    r"blocked by content filtering policy|(?:input|prompt|content|request) (?:was|is|has been) flagged", re.IGNORECASE
)
_MODEL = re.compile(r"\bmodel|deployment", re.IGNORECASE)
_NO_CAPACITY = re.compile(r"resource[ _]unavailable|capacity[ _]exceeded", re.IGNORECASE)
"""Matches the message that the flex tier is full. OpenAI sends "resource unavailable" with a 429; others send a 498."""
_FORMAT = re.compile(
    r"response_?format|output_config\.format|output_format"
    r"|response_schema|json[ _]?schema|json_object|json mode|(?:valid|validate|generate) json|guided"
    r"|structured[ _]output",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"\bnot\b|n't\b|cannot|\bun(?:support|know|recogni|expect|permit|avail)|forbid|\bextra|invalid|illegal|deprecated"
    r"|\bonly\b|\bmust\b|\bshould\b|remove|no such|[^\x00-\u2fff]",
    re.IGNORECASE,
)
"""Matches words of refusal, and texts in scripts of East Asia."""
_UNKNOWN_FIELD = re.compile(
    r"extra_forbidden|\bextra|not (?:be )?(?:permitted|allowed|supported|recogni[sz]ed|expected|known|used)"
    r"|\bun(?:supported|known|recogni[sz]ed|expected)|n[o']t support|cannot find field|no such",
    re.IGNORECASE,
)
"""Matches words that refuse a field whatever its value."""
_OF_FIELDS = re.compile(r"\b(?:keyword|argument|parameter|param|field|propert|input|kwargs)", re.IGNORECASE)
_WANTS_STREAM = re.compile(r"only\b.{0,40}\bstream|(?:enable|requires?|must)\b.{0,40}\bstream", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ApiError:
    """A classified error.

    Attributes:
        status: For the ledger; "unknown" if the request may have been billed.
        http_status: HTTP status of the response, 0 without one.
        message: What is wrong and what to do, without keys.
        retry: Whether another attempt may succeed.
        whose: Whose problem it is: the endpoint's, or only this question's.
        retry_after: Seconds to wait, if the endpoint gave them.
        no_capacity: Whether the requested tier is full at the moment. The request was then neither processed nor
            billed.
        timed_out: Whether no reply came in time.
        body: What the server says, if it is about the fields of the request.
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
    body: ErrorBody | None = None

    @property
    def limited(self) -> bool:
        """True if the endpoint asked for fewer requests, with a 429 or a time to wait."""
        return self.retry and not self.no_capacity and (self.http_status == 429 or self.retry_after is not None)

    @property
    def final(self) -> bool:
        """True if the endpoint cannot be used (key, model, quota), or cannot for ``retry_after`` seconds."""
        return self.whose == "endpoint" and not self.retry

    def refused(self, sent: Collection[str]) -> tuple[str, ...]:
        """Return those of the fields ``sent`` that the endpoint marks as refused, else those that its words name.

        A field whose name is an English word, such as "temperature", counts only next to words of refusal.
        """
        if self.body is None:
            return ()
        fields = {_plain_name(name) for name in self.body.fields}
        if marked := tuple(name for name in sent if _plain_name(name) in fields):
            return marked
        return tuple(name for name in sent if _names(self.body.words, name))

    @property
    def refuses_format(self) -> bool:
        """True if the request was refused for its ``response_format``."""
        return self.body is not None and (
            "response_format" in self.body.fields or _FORMAT.search(self.body.words) is not None
        )

    @property
    def refuses_whatever_value(self) -> bool:
        """True if the words refuse a field itself, rather than its value."""
        said = () if self.body is None else (self.body.words, *self.body.codes)
        return any(_UNKNOWN_FIELD.search(words) for words in said)

    @property
    def about_streams(self) -> bool:
        """True if the server's words are about streaming."""
        return self.body is not None and re.search(r"\bstream", self.body.words, re.IGNORECASE) is not None

    @property
    def wants_stream(self) -> bool:
        """True if the endpoint only streams its replies."""
        return self.body is not None and _WANTS_STREAM.search(self.body.words) is not None

    @property
    def unreachable(self) -> bool:
        """True if no connection was established."""
        return self.http_status == 0 and self.status == "failed"

    def error(self) -> EndpointError | CallFailed:
        """Return the exception to raise: EndpointError stops the run, CallFailed only fails the question."""
        return EndpointError(self.message) if self.whose == "endpoint" else CallFailed(self.message)

    def outcome(self, call: Call, latency_s: float = 0.0, error: BaseException | None = None) -> Outcome:
        """Return the outcome of the attempt: it was free, or its cost is unknown and its reserve stays held.

        If ``error``, or one that caused it, says that more tokens were used than the reserve covers, these are held.
        """
        used = as_usage(_used_before(error))
        lost = replace(unknown(call, self.message, self.http_status, latency_s), provider_request_id=self.request_id)
        if self.status == "failed" and used == Usage():
            return replace(lost, status="failed", cost_usd=0.0)
        return replace(lost, cost_usd=max(lost.cost_usd, call.price.cost(used)))


def _used_before(error: BaseException | None) -> Told:
    """Return the tokens that a response reported or brought before it failed."""
    while error is not None and not isinstance(error, Unfinished):
        error = error.__cause__
    return NOTHING_TOLD if error is None else error.used


def _plain_name(name: str) -> str:
    """Return a field's name without underscores and capitals: ``topP`` and ``top_p`` are the same."""
    return name.replace("_", "").lower()


def _names(words: str, name: str) -> bool:
    spelt = name.replace("_", "_?")
    quoted = rf"['\"`.\[]{spelt}['\"`\]]|(?:param(?:eter)?s?|field|argument|supplied|key|name|property):? {spelt}\b"
    if re.search(quoted, words, re.IGNORECASE):
        return True
    bare = re.search(rf"(?<![A-Za-z0-9_-]){spelt}(?![A-Za-z0-9_-])", words, re.IGNORECASE)
    return bare is not None and ("_" in name or _REFUSAL.search(words) is not None)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response to a request, alone or in a batch."""

    status: int
    body: ErrorBody
    request_id: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    """What messages put before the quoted words, such as "in a batch: "."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The description of a request's endpoint for messages.

    ``endpoint`` is its base URL, ``form`` how base URLs of its kind look, and ``key_env`` the environment variable with
    the key.
    """

    endpoint: str
    model: str
    key_env: str
    form: str = "which usually ends in /v1"


def without_key(text: str, key: str) -> str:
    """Remove exactly this key from ``text``. Prompts and replies must not be changed otherwise.

    Placeholders for self-hosted servers, such as "none" or "EMPTY", are words, not secrets, and stay.
    """
    return text.replace(key, REMOVED) if len(key) >= SHORTEST_KEY else text


def scrub(text: str, key: str) -> str:
    """Remove the key, and anything that looks like a key, from an error message, since servers may repeat it."""
    return _BEARER.sub(rf"\1 {REMOVED}", _KEY.sub(REMOVED, without_key(text, key)))


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
        if now is None:  # use the endpoint's clock if it states one, since this machine's may be hours off
            said = headers.get("date")
            now = email.utils.parsedate_to_datetime(said).timestamp() if said else time.time()
        seconds = date.timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), FOREVER_S)


def lost(error: Exception, cause: BaseException, asked: Asked, key: str, *, timed_out: bool) -> ApiError:
    """Classify the failure of a connection, whose ``cause`` is the exception of the HTTP client."""
    endpoint, said = asked.endpoint, connection_message(error, cause, key)
    if isinstance(cause, aiohttp.ClientError):  # an SDK may report any of these as a timeout
        timed_out = isinstance(cause, TimeoutError)
    if isinstance(cause, NEVER_SENT) or type(cause).__name__ in NEVER_SENT_BY_HTTPX:
        message = f"No connection to {endpoint}: {said} Start the server, or correct llm.base_url, and run again."
        return ApiError("failed", 0, message, retry=True, whose="endpoint")
    message = f"{endpoint} gave no reply ({said.rstrip('.')}); it may have been billed, so its cost stays held."
    return ApiError("unknown", 0, message, retry=True, timed_out=timed_out)


def error_response(
    status: int, content: object, headers: Mapping[str, str], request_id: object, asked: Asked, key: str
) -> ApiError:
    """Classify an error response with the body ``content``."""
    body = _without_keys(read_error(content), key)
    return by_status(ErrorResponse(status, body, name_of(request_id), headers), asked)


def classify_other(error: Exception, asked: Asked, key: str) -> ApiError:
    """Classify an exception that is not the SDK's own. Any unknown one after sending counts as "unknown"."""
    if isinstance(error, TimeoutError):
        message = f"{asked.endpoint} did not finish a request in time; it may have been billed, so its cost stays held."
        return ApiError("unknown", 0, message, retry=True, timed_out=True)
    if isinstance(error, NoCompletion):
        return _not_a_completion(error, asked, key)
    said = scrub(shortened(plain_words(str(error))), key) or "no reason was given"
    where = asked.endpoint
    message = f"{where} sent a reply that cannot be read ({said}); it may have been billed, so its cost stays held."
    return ApiError("unknown", 200, message, retry=True)


def _without_keys(body: ErrorBody, key: str) -> ErrorBody:
    return replace(body, words=scrub(body.words, key))


def _not_a_completion(error: NoCompletion, asked: Asked, key: str) -> ApiError:
    """Classify a reply with status 200 that is not a chat completion."""
    said = scrub(shortened(str(error)), key)
    if error.told is None:
        message = f"{asked.endpoint} sent no chat completion: {said}."
        if error.page:
            message = (
                f"{asked.endpoint} sent a web page in place of a reply ({said}). A proxy or a login page may answer "
                f"for it: check llm.base_url, {asked.form}, and the variables HTTPS_PROXY and NO_PROXY."
            )
        elif error.elsewhere:
            message += f" Check llm.base_url, {asked.form}."
        return ApiError("unknown", 200, message, retry=True)
    body = _without_keys(error.told, key)
    codes = TOO_LONG | NO_CREDIT | FILTERED | NO_MODEL
    status = body.status or (400 if codes & set(body.codes) else 0)
    if not status:
        message = f"{asked.endpoint} sent an error in place of a reply (200: {body.shown})."
        return ApiError("unknown", 200, message, retry=True)
    found = by_status(ErrorResponse(status, body, where="in a reply with status 200: "), asked)
    return replace(found, status="unknown") if error.begun or status >= 500 else found


def root_cause(error: Exception) -> BaseException:
    """Return the exception of the transport, if possible aiohttp's, that caused an SDK's ``error``.

    SDKs raise the same exception if a server closes the connection after a request and if it cannot be reached.
    """
    now: BaseException | None = error.__cause__
    while now is not None and not isinstance(now, aiohttp.ClientError):
        now = now.__cause__
    return now or error.__cause__ or error


_CONNECTIONS: Final = {
    "ClientPayloadError": "the connection ended in the middle of the reply",
    "ContentEncodingError": "the reply is compressed in a way that cannot be read",
    "ServerDisconnectedError": "the server closed the connection before it replied",
    "TooManyRedirects": "the server redirects in a circle",
}
"""By name, the words for those exceptions of aiohttp whose own words print objects or say little."""


def connection_message(error: Exception, cause: BaseException, key: str) -> str:
    """Return a sentence on why a connection failed, without keys."""
    said = _CONNECTIONS.get(type(cause).__name__) or _system_words(cause)
    if not said:
        said = str(cause) if isinstance(cause, aiohttp.ClientError | CutOff) else str(error)
    return (scrub(shortened(plain_words(said)), key) or type(cause).__name__) + "."


def _system_words(error: BaseException) -> str:
    """Return the operating system's words for a failed connection, or ""."""
    system = getattr(error, "os_error", error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError) or not isinstance(system, OSError):
        return ""
    if isinstance(system.errno, int) and system.errno > 0 and not isinstance(error, aiohttp.ClientSSLError):
        return os.strerror(system.errno)
    return str(system.strerror or "")


def by_status(error: ErrorResponse, asked: Asked) -> ApiError:
    """Classify an error response, from whose body keys have been removed."""
    status, request_id, body = error.status, error.request_id, error.body
    endpoint, model, codes = asked.endpoint, asked.model, set(body.codes)
    said = f"{error.where}{'a web page, ' if body.page else ''}{body.shown}"

    def endpoints(message: str, wait: float | None = None) -> ApiError:
        return ApiError("failed", status, message, False, "endpoint", wait, request_id)

    def questions(message: str, about: ErrorBody | None = None) -> ApiError:
        return ApiError("failed", status, message, retry=False, request_id=request_id, body=about)

    if moved := redirected(status, error.headers, endpoint):
        return endpoints(moved)
    if status == 407 or (body.page and status in (401, 403)):
        return endpoints(
            f"{endpoint} answered {status} ({said}). A proxy or firewall may have sent it: check llm.base_url and the "
            "variables HTTPS_PROXY and NO_PROXY, and run the same command again."
        )
    if codes & FILTERED or (status in (400, 403) and _FLAGGED.search(body.words)):
        return questions(f"The endpoint's content filter refused the prompt ({said}).")
    if status in (401, 403):
        return endpoints(
            f"{endpoint} refuses the key in the environment variable {asked.key_env} ({status}: {said}). Set it to a "
            "key that may use this model, on every node, and run the same command again."
        )
    if status == 402 or codes & NO_CREDIT or _TOO_LITTLE_CREDIT.search(body.words):
        return endpoints(
            f"The quota of the account at {endpoint} is used up ({said}). Add credit, then run the same command."
        )
    if _is_about_model(status, body, model):
        return endpoints(f"{endpoint} does not know the model {model!r} ({said}). Correct llm.model.")
    if status in (404, 405):
        return endpoints(
            f"{endpoint} does not know the address of chat requests, or not the model {model!r} ({status}: {said}). "
            f"{_RIGHT_AZURE if 'azure' in endpoint else f'Correct llm.base_url, {asked.form}'}, or llm.model."
        )
    if status in (400, 413, 422) and (codes & TOO_LONG or _PROMPT_TOO_LONG.search(body.words)):
        return questions(
            f"The prompt does not fit the window of {model} ({said}). Set llm.window to the model's true size."
        )
    if status == 413:
        return questions(
            f"The request is too long for {endpoint}, or for a proxy in between (413: {said}). Set llm.window to the "
            "model's true size, or raise the limit of the proxy (nginx: client_max_body_size)."
        )
    if status == 498 or (status == 429 and _NO_CAPACITY.search(f"{' '.join(body.codes)} {body.words}")):
        wait = retry_after(error.headers)
        message = f"{endpoint} has no capacity for this request at the moment ({status}: {said})."
        return ApiError("failed", status, message, True, "question", wait, request_id, no_capacity=True)
    if status in RETRIED or status >= 500:
        wait = retry_after(error.headers)
        if wait is not None and wait > LONGEST_WAIT_S:
            message = f"{endpoint} asks to wait {wait:.0f} s ({status}: {said}). Run the same command again after that."
            return endpoints(message, wait)
        whose: Literal["endpoint", "question"] = "endpoint" if status == 429 else "question"
        billed: Literal["failed", "unknown"] = "unknown" if status in PROXY_ERRORS else "failed"
        # Servers that hand fields on to a library fail like this: "got an unexpected keyword argument 'seed'".
        refuses = status in (500, 501) and _UNKNOWN_FIELD.search(body.words) and _OF_FIELDS.search(body.words)
        message, about = f"{endpoint} answered {status} ({said}).", body if refuses else None
        return ApiError(billed, status, message, True, whose, wait, request_id, body=about)
    return questions(f"{endpoint} refused the request ({status}: {said}).", body if status in (400, 422) else None)


def redirected(status: int | None, headers: Mapping[str, str], endpoint: str) -> str:
    """Return a sentence on a redirect that was not followed, or "" for other responses."""
    address = headers.get(REFUSED_REDIRECT, "") if status is not None and 300 <= status < 400 else ""
    return address and (
        f"{endpoint} redirects to {shortened(address)} ({status}). Prompts go to the address of the config only: if "
        "the other one is right, set llm.base_url to it, and run the same command again."
    )


_RIGHT_AZURE: Final = "Correct llm.base_url, which ends with the host at Azure, or llm.api_version"


def _is_about_model(status: int, body: ErrorBody, model: str) -> bool:
    """Return whether an endpoint refuses a request because it does not have the model."""
    if body.page or status not in (400, 404, 422):
        return False
    if NO_MODEL & set(body.codes) or (status == 404 and _MODEL.search(body.words)):
        return True
    named = "model" in body.fields or re.search(rf"(?<!\w){re.escape(model)}(?!\w)", body.words) is not None
    return named and _UNKNOWN_MODEL.search(body.words) is not None
