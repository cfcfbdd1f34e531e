"""Endpoints: reaching them, what went wrong with a request, which are worth asking now, and which one a call goes to.

Errors are told apart by status codes, error codes and exception types; their texts are searched for nothing but the
name of a field (``ApiError.names_format``). Three questions are answered for each: may it have been billed, is it worth
another try, and whose problem is it.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import logging
import math
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

import aiohttp
import openai

from okralong.pipelines.core.types import CallFailed, ConfigError, EndpointError, QuestionError
from okralong.pipelines.llm.completion import name_of
from okralong.pipelines.llm.config import EndpointConfig, GeneratorConfig
from okralong.pipelines.llm.network import bound_error_page, check_proxy, trouble, trust
from okralong.pipelines.llm.prices import Price, PriceTable, highest
from okralong.pipelines.llm.rate_limit import RateLimitHeaders, read_headers
from okralong.pipelines.llm.rate_limit_client import LimiterClient
from okralong.pipelines.llm.records import Call, Outcome, unknown
from okralong.pipelines.models.weights import EMBEDDED

logger = logging.getLogger(__name__)

NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
"""What aiohttp raises before a request has left."""
NEVER_SENT_BY_HTTPX = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
"""The same of httpx, which carries requests to models of this process. By name: the package that ``openai`` takes it
from has changed its name before."""
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
PROXY_ERRORS = frozenset({502, 504})
"""Statuses of a proxy; the model behind it may have answered."""
FOREVER_S = 86_400.0
"""The longest time that an endpoint is believed to ask for: a day. # project default"""
LONGEST_WAIT_S = 300.0
"""An endpoint that asks for a longer wait is out of use for now, and the run stops. Ours."""
SHORTEST_KEY = 12
"""Characters from which on a key is a secret and no placeholder. Ours."""
REMOVED = "[key removed]"
STORM = 3
"""Failures in a row that open a breaker; a connection that never came about opens it at once. Ours."""
NO_KEY = "none"
"""Sent to servers of one's own, which want some key but do not look at it."""
CHECK_TIMEOUT_S = 10.0
PREFERENCE_S = 0.1
"""How long an endpoint is waited for before the next one is asked for a permit as well. Ours."""
LOOK_AGAIN_S = 1.0
"""How often a call that waits looks who is worth asking by now. Ours."""
_STREAM = re.compile(r"\bstream", re.IGNORECASE)
_FORMAT = re.compile(r"response_format|json_schema", re.IGNORECASE)
_KEYED = re.compile(r"//([^/]+\.)?(openai\.com|azure\.com|mistral\.ai)(/|:|\Z)")
"""Endpoints whose documentation has ``prompt_cache_key`` (November 2026)."""
_NO_CAPACITY = re.compile(r"resource[ _]unavailable|capacity[ _]exceeded", re.IGNORECASE)
"""What a flex tier says that is full: a 429 at OpenAI, "resource unavailable"; 498 at others."""
LEFT_OUT: Final = ("temperature", "top_p", "seed", "prompt_cache_key")
"""Fields that are left out where an endpoint refuses them: the reply is as good without."""
_KEY = re.compile(r"\b(sk|pk|gsk|xai|key)-[A-Za-z0-9_*\-]{6,}")


class Router:
    """The routes of a run, in order of preference. With one route it is that one, whatever its breaker says: who stops
    after an error, and when a call is tried again, is then the client's to say.
    """

    def __init__(self, routes: Sequence[Route], clock: Callable[[], float] = time.monotonic) -> None:
        self.routes = tuple(routes)
        self.clock = clock
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def highest_price(self) -> Price:
        """What a token costs at most, wherever a call may still go."""
        now = self.clock()
        prices = [route.price for route in self.routes if not route.breaker.out(now)] or [self.routes[0].price]
        return prices[0] if len(prices) == 1 else highest(prices)

    @property
    def all_out(self) -> bool:
        """Whether nobody can be asked any more."""
        now = self.clock()
        return all(route.breaker.out(now) for route in self.routes)

    def verdict(self) -> str:
        """What is wrong with each endpoint."""
        said = [
            f"({number}) {route.endpoint.base_url} ({route.endpoint.model}): {route.breaker.why or 'was not asked.'}"
            for number, route in enumerate(self.routes, 1)
        ]
        return f"None of the {len(said)} endpoints can be used. {' '.join(said)}"

    def without_keys(self, text: str) -> str:
        """``text`` without any endpoint's key."""
        for route in self.routes:
            text = without_key(text, route.key)
        return text

    def open(self, tried: Sequence[Route] = ()) -> list[Route]:
        """The routes that are worth asking now and were not ``tried``, in order."""
        now, alone = self.clock(), len(self.routes) == 1
        return [route for route in self.routes if route not in tried and (alone or route.breaker.ready(now))]

    async def acquire(self, tokens: int, expires_s: float, tried: Sequence[Route] = ()) -> tuple[Route, int]:
        """A permit of the route that grants one first; of the first in order that does so at once.

        Raises EndpointError when all are out of use, QuestionError when no minute of any can hold ``tokens``.
        """
        if len(self.routes) == 1:
            return self.routes[0], await self.routes[0].limiter.acquire(tokens, expires_s)
        asked: dict[Route, asyncio.Task[int]] = {}
        refused: dict[Route, QuestionError] = {}
        try:
            while True:
                routes = [route for route in self._choice(tried) if route not in refused]
                if not routes:
                    raise next(reversed(refused.values()))
                for route in [route for route in asked if route not in routes]:
                    self._withdraw(route, asked.pop(route))
                new = [route for route in routes if route not in asked]
                if new:
                    asked[new[0]] = asyncio.create_task(new[0].limiter.acquire(tokens, expires_s))
                timeout_s = PREFERENCE_S if len(new) > 1 else LOOK_AGAIN_S
                await asyncio.wait(asked.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                for route in [route for route in routes if route in asked and asked[route].done()]:
                    if route not in self._choice(tried):  # it has failed meanwhile, or another call is its trial
                        break
                    try:
                        permit = asked[route].result()
                    except QuestionError as error:
                        refused[route] = error
                        del asked[route]
                        continue
                    del asked[route]
                    route.breaker.asked(self.clock())
                    return route, permit
        finally:
            for route, waiting in asked.items():
                self._withdraw(route, waiting)

    async def aclose(self) -> None:
        """Close the connections."""
        for route in self.routes:
            await route.http.close()

    def _choice(self, tried: Sequence[Route]) -> list[Route]:
        """The open routes; when there are none, the one that is worth asking soonest, tried or not."""
        if routes := self.open(tried):
            return routes
        now = self.clock()
        left = [route for route in self.routes if not route.breaker.out(now)]
        if not left:
            raise EndpointError(self.verdict())
        return [min(left, key=lambda route: route.breaker.back_at)]

    def _withdraw(self, route: Route, waiting: asyncio.Task[int]) -> None:
        waiting.cancel()
        waiting.add_done_callback(partial(self._release, route))

    def _release(self, route: Route, waited: asyncio.Task[int]) -> None:
        """What was granted all the same, in the moment of the cancellation."""
        if waited.cancelled() or waited.exception() is not None:
            return
        back = asyncio.get_running_loop().create_task(best_effort(route.limiter.release(waited.result(), unsent=True)))
        self._returning.add(back)
        back.add_done_callback(self._returning.discard)


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    """One endpoint as a client reaches it: its connection, its limiter, its price, its key and its breaker."""

    endpoint: EndpointConfig
    http: openai.AsyncOpenAI
    limiter: LimiterClient
    price: Price
    key: str = field(repr=False)
    breaker: Breaker
    fields: RequestFields
    keyed: bool = False
    """Whether requests are sent with a ``prompt_cache_key``."""

    def api_error(self, error: Exception) -> ApiError:
        """What went wrong with a call that went there."""
        return classify(error, self.endpoint.base_url, self.endpoint.model, self.endpoint.api_key_env, self.key)


def open_routes(
    config: GeneratorConfig,
    limiters: Sequence[LimiterClient],
    prices: PriceTable,
    address: str | None,
    pauses: tuple[float, float],
    transport: Any = None,
) -> list[Route]:
    """The routes of all endpoints of ``config``, each with its limiter, in order.

    ``address`` is where the first one listens, if not at its base URL, and ``transport`` what carries its requests
    there, if not the network; ``pauses`` are the breakers'. An endpoint whose
    key is missing is out of use from the start; when that is all of them, or a model has no price, raises ConfigError.
    """
    routes: list[Route] = []
    missing: list[ConfigError] = []
    for endpoint, limiter in zip(config.all_endpoints, limiters, strict=True):
        where = endpoint.base_url if routes or address is None else address
        breaker = Breaker(*pauses)
        try:
            key = read_key(endpoint)
        except ConfigError as error:
            missing.append(error)
            breaker.refuse(str(error))
            key = NO_KEY
        http = open_client(endpoint, where, key, config.timeout_s, None if routes else transport)
        here = not routes and (address is not None or transport is not None)
        fields = RequestFields(config.limit_field(endpoint.model), stream=config.stream == "auto" and not here)
        price = prices.price(endpoint.model, endpoint.price)
        if config.service_tier == "flex" and not price.flex_discount:
            raise ConfigError(
                f"llm.service_tier is flex, and the price of {endpoint.model!r} has no flex_discount. Give it in "
                "llm.price or in the price table, or leave llm.service_tier out. Nothing was run."
            )
        keyed = config.prompt_cache_key == "always" or (
            config.prompt_cache_key == "auto" and _KEYED.search(endpoint.base_url) is not None
        )
        routes.append(Route(endpoint, http, limiter, price, key, breaker, fields, keyed))
    if len(missing) == len(routes):
        raise missing[0]
    return routes


async def best_effort(work: Awaitable[object]) -> None:
    """Await what may fail without harm to the question: a lost permit ends by itself, and a lost reserve is held."""
    try:
        await work
    except Exception as error:
        logger.warning("%s: %s", type(error).__name__, error)


class Breaker:
    """Whether an endpoint is worth asking while there are others: a circuit breaker.

    Closed, it is asked. Open, after a failed connection or a storm of errors, it is left alone for a growing pause;
    then one call tries it, and closes it by a reply. Out, because it refused (key, model, quota), it is not asked
    again. Every ``now`` is in seconds of one clock that never goes back.
    """

    def __init__(self, first_pause_s: float, longest_pause_s: float) -> None:
        self.why = ""
        """What was wrong the last time, for people."""
        self._first, self._longest = first_pause_s, longest_pause_s
        self._pause = first_pause_s
        self._failures = 0
        self._opened_at = -math.inf
        self._open_until = -math.inf
        self._out_until = -math.inf

    def ready(self, now: float) -> bool:
        """Whether a call may go there."""
        return now >= self.back_at

    def out(self, now: float) -> bool:
        """Whether no call may go there, even where there is no other endpoint."""
        return now < self._out_until

    @property
    def back_at(self) -> float:
        """When it is worth asking again; infinite when never."""
        return max(self._open_until, self._out_until)

    def refuse(self, why: str, until: float = math.inf) -> None:
        """Put it out of use."""
        self.why = why
        self._out_until = until

    def asked(self, now: float) -> None:
        """A call goes there now. After a pause it is the trial, and nobody follows it before it is over."""
        if self._open_until > -math.inf:
            self._open_until = now + self._pause

    def answered(self) -> None:
        """It did what it was asked, or said what was wrong with the request."""
        self._failures = 0
        self._pause = self._first
        self._open_until = -math.inf

    def failed(self, now: float, sent_at: float, api_error: ApiError) -> None:
        """A call that was sent at ``sent_at`` brought an error. Those of one burst make the pause longer once."""
        if api_error.final:
            self.refuse(api_error.message, math.inf if api_error.retry_after is None else now + api_error.retry_after)
            return
        if not api_error.retry:
            self.answered()
            return
        self.why = api_error.message
        if api_error.http_status == 429 or sent_at < self._opened_at:  # the limiter sees to the first
            return
        self._failures += 1
        if api_error.unreachable or self._failures >= STORM:
            self._opened_at = now
            self._open_until = now + self._pause
            self._pause = min(self._longest, 2 * self._pause)


class RequestFields:
    """Which fields of a request an endpoint takes, as far as it has said, and what it calls the limit of a reply.

    Of schemas: one that refuses a schema of ours takes none; of one that refuses a schema that came with a question, it
    is known of that one alone. Replies are asked for as streams, so that one that ignores its limit can be aborted,
    until the endpoint refuses that or streams a reply without its usage.
    """

    def __init__(self, limit_field: str = "max_tokens", *, stream: bool = False) -> None:
        self.limit_field = limit_field
        self.streams = False
        """Whether the endpoint has streamed a reply."""
        self._stream = stream
        self._stream_options = True
        self._refused: set[str] = set()
        self._no_schema = False
        self._schemas: set[str] = set()

    def left_out(self, json_schema: str | None) -> frozenset[str]:
        """The fields that a request with this schema (None: none) is sent without."""
        schema = self._no_schema or json_schema in self._schemas
        return frozenset(self._refused | {"response_format"} if schema else self._refused)

    @property
    def streaming(self) -> dict[str, Any]:
        """The fields by which a reply is asked for as a stream, usage at its end; none where it is not."""
        if not self._stream:
            return {}
        return {"stream": True} | ({"stream_options": {"include_usage": True}} if self._stream_options else {})

    def came(self, streamed: bool, usage_told: bool) -> bool:
        """A reply came; return whether replies are no longer streamed from here on, since its usage was not told."""
        self.streams = streamed
        if streamed and not usage_told:
            self.streams = self._stream = False
            return True
        return False

    def refuse(self, api_error: ApiError, sent: Collection[str], json_schema: str | None) -> str:
        """What the endpoint refused a request for whose fields were ``sent``, and will not be sent again; "" where it
        is nothing that can be left out. ``json_schema`` None: the form of the reply is not to be given up.
        """
        if api_error.http_status not in (400, 422):
            return ""
        if api_error.names("max_tokens") and api_error.names("max_completion_tokens"):
            for name, other in (LIMIT_FIELDS, LIMIT_FIELDS[::-1]):
                if name in sent:
                    self.limit_field = other
                    return name
        if "stream" in sent and _STREAM.search(api_error.message):
            if self._stream_options and "stream_options" in api_error.message:
                self._stream_options = False
                return "stream_options"
            self._stream = False
            return "stream"
        for name in LEFT_OUT:
            if name in sent and api_error.names(name):
                self._refused.add(name)
                return name
        if json_schema is not None and "response_format" in sent and api_error.names_format:
            self._schemas.add(json_schema)
            self._no_schema = self._no_schema or bool(json.loads(json_schema)["strict"])
            return "response_format"
        return ""


LIMIT_FIELDS: Final = ("max_tokens", "max_completion_tokens")
"""What the limit of a reply is called, by most servers and by OpenAI's models that think."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """``status`` for the ledger; ``http_status`` 0 without an answer; ``retry_after`` in seconds where it was named."""

    status: Literal["failed", "unknown"]
    http_status: int
    message: str
    retry: bool
    whose: Literal["endpoint", "question"] = "question"
    retry_after: float | None = None
    request_id: str = ""
    no_capacity: bool = False
    """The tier that was asked for has none at the moment: nothing was done, and nothing is billed."""
    timed_out: bool = False

    @property
    def limited(self) -> bool:
        """Whether the endpoint asked for fewer requests: by a 429, or by naming a time to wait."""
        return self.retry and not self.no_capacity and (self.http_status == 429 or self.retry_after is not None)

    @property
    def final(self) -> bool:
        """Whether the endpoint cannot be used (key, model, quota), or not for ``retry_after`` seconds."""
        return self.whose == "endpoint" and not self.retry

    @property
    def names_format(self) -> bool:
        """Whether the request was refused for the form that it asks the reply in. No code of any protocol says so, but
        who refuses a field of a request names it.
        """
        return self.http_status in (400, 422) and _FORMAT.search(self.message) is not None

    def names(self, field_name: str) -> bool:
        """Whether the message names a field of the request, as names are written there: in quotes or back ticks, after
        "parameter", or as a part of a path.
        """
        named = rf"['\"`.\[ ]{field_name}['\"`\]]|(?:param(?:eter)?|field|argument|supplied):? {field_name}\b"
        return re.search(named, self.message, re.IGNORECASE) is not None

    @property
    def unreachable(self) -> bool:
        """Whether no connection came about."""
        return self.http_status == 0 and self.status == "failed"

    def error(self) -> EndpointError | CallFailed:
        """The exception for it: EndpointError stops the run, CallFailed fails the question."""
        return EndpointError(self.message) if self.whose == "endpoint" else CallFailed(self.message)

    def outcome(self, call: Call, latency_s: float = 0.0) -> Outcome:
        """What the ledger is told of the attempt: it cost nothing, or nobody knows and its reserve stays held."""
        lost = replace(unknown(call, self.message, self.http_status, latency_s), provider_request_id=self.request_id)
        return lost if self.status == "unknown" else replace(lost, status="failed", cost_usd=0.0)


@dataclass(frozen=True, slots=True)
class ErrorResponse:
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
        if 0 <= seconds < math.inf:
            return min(seconds, FOREVER_S)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
        if now is None:  # by the endpoint's clock where it says: this machine's may be hours off
            said = headers.get("date")
            now = email.utils.parsedate_to_datetime(said).timestamp() if said else time.time()
        seconds = date.timestamp() - now
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), FOREVER_S)


def classify(error: Exception, endpoint: str, model: str, key_env: str, key: str) -> ApiError:
    """The error behind an exception of the ``openai`` package; any other after sending counts as unknown."""
    said = _said(error, key)
    if isinstance(error, TimeoutError):
        message = f"{endpoint} was not done with a request in time; it may have been billed, so its cost stays held."
        return ApiError("unknown", 0, message, retry=True, timed_out=True)
    if isinstance(error, openai.APIConnectionError):
        cause = _cause(error)
        said, timed_out = _connection_words(error, key), isinstance(error, openai.APITimeoutError)
        if isinstance(cause, aiohttp.ClientError):  # the SDK calls any of these a timeout
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
    message = f"{endpoint} answered with something that is no chat completion: {said} Check llm.base_url."
    return ApiError("unknown", 200, message, retry=True)


def _said(error: Exception, key: str) -> str:
    """What an error says, shortened; first to what is searched for keys, which may be long pages, then for people."""
    return scrub(str(error)[:10_000], key)[:500]


def _cause(error: openai.APIConnectionError) -> BaseException:
    """What the transport raised: aiohttp's own exception where there is one, since what the SDK makes of it does not
    tell a server that closed the connection after a request from one that was never reached."""
    now: BaseException | None = error.__cause__
    while now is not None and not isinstance(now, aiohttp.ClientError):
        now = now.__cause__
    return now or error.__cause__ or error


def _connection_words(error: openai.APIConnectionError, key: str) -> str:
    cause = _cause(error)
    said = str(cause) if isinstance(cause, aiohttp.ClientError) else str(error)
    return scrub(said.rstrip(".") or type(cause).__name__, key)[:500] + "."


def error_headers(error: Exception, api_error: ApiError) -> RateLimitHeaders:
    """What the limiter should know of a request that brought no reply."""
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    return read_headers(headers, taken=False, slow_down=api_error.limited, retry_after=api_error.retry_after)


def by_status(error: ErrorResponse, said: str, endpoint: str, model: str, key_env: str) -> ApiError:
    """The error behind an answer that is an error; ``said`` is its message without any key."""
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


EndpointState = Literal["ready", "down", "untrusted", "no_key", "wrong_key", "unknown_model", "unchecked"]


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """``ok`` is False when a run would fail. ``unchecked``: the server lists no models; the first call will tell."""

    ok: bool
    state: EndpointState
    message: str


def read_key(config: EndpointConfig) -> str:
    """The key from the environment; servers other than OpenAI and Azure may go without.

    Raises ConfigError when it is missing and needed.
    """
    key = os.environ.get(config.api_key_env, "").strip()
    if key or config.base_url == EMBEDDED:
        return key or NO_KEY
    if "openai.com" in config.base_url or "azure.com" in config.base_url:
        raise ConfigError(
            f"{config.base_url} needs a key, and the environment variable {config.api_key_env} is not set. Set it on "
            "every node (never in a config or in a Ray runtime_env, where it would be shown), or name another variable "
            "in llm.api_key_env."
        )
    return NO_KEY


def open_client(
    config: EndpointConfig,
    address: str,
    key: str,
    timeout_s: float = CHECK_TIMEOUT_S,
    transport: Any = None,
    uploads: bool = False,
    on_headers: Callable[[Mapping[str, str]], None] | None = None,
) -> openai.AsyncOpenAI:
    """The SDK's client with its own retries off, so that each attempt is seen and paid for knowingly.

    Requests travel by aiohttp, which takes a third to a half of the processor time of the SDK's own way
    (benchmarks/results/gateway.md). ``transport`` (an httpx transport) carries them in the network's place. Proxy and
    certificates are those of the environment; raises ConfigError when it names certificates that cannot be read, or a
    proxy that is none of HTTP. Where there are large ``uploads``, requests travel by httpx: by aiohttp nothing ends one
    that the other side stops reading. ``on_headers`` sees the headers of each response.
    """
    timeout = openai.Timeout(timeout_s, connect=min(CHECK_TIMEOUT_S, timeout_s))
    context = trust() if transport is None and address.startswith("https:") else None
    if transport is not None:
        http = openai.DefaultAsyncHttpxClient(transport=transport, timeout=timeout)
    else:
        check_proxy(address)
        kind = openai.DefaultAsyncHttpxClient if uploads else openai.DefaultAioHttpClient
        hooks = {"response": [bound_error_page]}
        http = kind(verify=True if context is None else context, timeout=timeout, event_hooks=hooks)
    if on_headers is not None:

        async def heard(response: Any) -> None:
            on_headers(response.headers)

        http.event_hooks["response"].append(heard)
    if config.api_version is not None:
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address,
            azure_deployment=config.model,
            api_version=config.api_version,
            api_key=key,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )
    return openai.AsyncOpenAI(base_url=address, api_key=key, max_retries=0, timeout=timeout, http_client=http)


async def check_endpoint(config: EndpointConfig, address: str | None = None) -> EndpointStatus:
    """Ask for the list of models, which costs nothing. ``address`` is where an embedded model listens now."""
    where = address or config.base_url
    try:
        key = read_key(config)
    except ConfigError as error:
        return EndpointStatus(False, "no_key", str(error))
    if where == EMBEDDED:
        return EndpointStatus(True, "unchecked", "The embedded model is started by the run itself.")
    try:
        opened = open_client(config, where, key)
    except ConfigError as error:
        return EndpointStatus(False, "untrusted", str(error))
    async with opened as client:
        try:
            names = [model.id async for model in await client.models.list()]
        except openai.APIConnectionError as error:
            said = scrub(trouble(error, where), key)
            if said:
                return EndpointStatus(False, "untrusted" if "certificate that" in said else "down", said)
            said = _connection_words(error, key)
            return EndpointStatus(
                False, "down", f"{where} cannot be reached ({said}). Start the server, or correct llm.base_url."
            )
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                return EndpointStatus(
                    False,
                    "wrong_key",
                    f"{where} refuses the key in {config.api_key_env} ({error.status_code}). Set that variable to a "
                    "valid key on every node.",
                )
            note = f"{where} is up but lists no models ({error.status_code}), so {config.model} was not checked."
            return EndpointStatus(True, "unchecked", note)
        except Exception as error:
            note = f"{where} is up but its list of models cannot be read ({scrub(str(error), key)[:200]})."
            return EndpointStatus(True, "unchecked", note)
    if config.api_version is not None or not names:
        return EndpointStatus(True, "unchecked", f"{where} takes the key; its list does not name deployments.")
    if config.model not in names:
        some = ", ".join(sorted(names)[:20])
        return EndpointStatus(
            False, "unknown_model", f"{where} has no model {config.model!r}. It has: {some}. Correct llm.model."
        )
    return EndpointStatus(True, "ready", f"{where} is up, takes the key and has {config.model}.")
