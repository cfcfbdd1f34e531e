"""Choose among the endpoints of a run: which of them are usable, and which one gets a call."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from okralong.pipelines.core.types import CallFailed, ConfigError, EndpointError, QuestionError
from okralong.pipelines.llm.config import EndpointConfig, GeneratorConfig
from okralong.pipelines.llm.endpoint import NO_KEY, open_provider, read_key
from okralong.pipelines.llm.errors import LIMITS, ApiError, without_key
from okralong.pipelines.llm.prices import Price, PriceTable, highest
from okralong.pipelines.llm.providers.base import Connection, Provider
from okralong.pipelines.llm.providers.fields import RequestFields
from okralong.pipelines.llm.rate_limit_client import LimiterClient
from okralong.pipelines.llm.request import LlmRequest

logger = logging.getLogger(__name__)

STORM = 3  # project default
"""This many consecutive failures open a breaker; a failed connection opens it at once."""
PREFERENCE_S = 0.1  # project default
"""Seconds for which a call waits for a permit before it also requests one from the next endpoint."""
LOOK_AGAIN_S = 1.0  # project default
"""Interval in seconds at which a waiting call looks again which endpoints are usable."""
REMEDIES: Final = {
    "reasoning_effort": "Set llm.reasoning_effort to a value that the model takes, or leave it out.",
    "thinking": "Set llm.reasoning_effort to a value that the model takes, or leave it out.",
    "output_config": "Set llm.reasoning_effort to a value that the model takes, or leave it out; or set "
    "llm.json_schema to never if the form of replies is refused.",
    "service_tier": "Set llm.service_tier to a tier that the endpoint has for this model, or leave it out.",
    "logprobs": "The strategy works with the log-probabilities of the reply's tokens: set llm.base_url and llm.model "
    "to an endpoint and a model that give them, or choose another strategy.",
    "grammar": "Set llm.constrained to false, or llm.base_url to llama.cpp's server, which takes grammars.",
    **dict.fromkeys(
        LIMITS,
        "The field bounds the cost of a reply. If only its value is refused, lower llm.max_completion_tokens or "
        "llm.reasoning_tokens; if the field is, set llm.max_tokens_field to the name that the endpoint takes.",
    ),
    "thinking_config": "Set llm.reasoning_effort to a value that the model takes, or leave it out.",
    "response_logprobs": "The strategy works with the log-probabilities of the reply's tokens, which this model does "
    "not give: set llm.model to another one, or choose another strategy.",
    "response_format": "Set llm.json_schema to auto to do without it, or choose a model that takes JSON schemas.",
    "response_json_schema": "Set llm.json_schema to auto to do without it, or choose a model that takes JSON schemas.",
}
"""What users can do about a refused field that cannot be left out."""


class Router:
    """The routes of a run, in order of preference.

    A single route is used even if its breaker is open: the client then decides when to retry and when to stop.
    """

    def __init__(self, routes: Sequence[Route], clock: Callable[[], float] = time.monotonic) -> None:
        self.routes = tuple(routes)
        self.clock = clock
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def highest_price(self) -> Price:
        """The highest prices per token among the endpoints to which a call may still go."""
        now = self.clock()
        prices = [route.price for route in self.routes if not route.breaker.out(now)] or [self.routes[0].price]
        return prices[0] if len(prices) == 1 else highest(prices)

    @property
    def all_out(self) -> bool:
        """True if no endpoint is left."""
        now = self.clock()
        return all(route.breaker.out(now) for route in self.routes)

    def verdict(self) -> str:
        """Return what is wrong with each endpoint."""
        said = [
            f"({number}) {route.endpoint.base_url} ({route.endpoint.model}): {route.breaker.why or 'was not asked.'}"
            for number, route in enumerate(self.routes, 1)
        ]
        return f"None of the {len(said)} endpoints can be used. {' '.join(said)}"

    def without_keys(self, text: str) -> str:
        """Return ``text`` without any endpoint's key."""
        for route in self.routes:
            text = without_key(text, route.key)
        return text

    def open(self, tried: Sequence[Route] = ()) -> list[Route]:
        """Return the usable routes that are not in ``tried``, in order of preference."""
        now, alone = self.clock(), len(self.routes) == 1
        return [route for route in self.routes if route not in tried and (alone or route.breaker.ready(now))]

    async def acquire(self, tokens: int, expires_s: float, tried: Sequence[Route] = ()) -> tuple[Route, int]:
        """Wait for a permit from the route that grants one first, earlier routes preferred.

        Raises EndpointError if no endpoint is left, QuestionError if ``tokens`` exceed every endpoint's limit per
        minute.
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
                    if route not in self._choice(tried):  # it failed meanwhile, or another call is probing it
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
            await route.provider.aclose()

    def _choice(self, tried: Sequence[Route]) -> list[Route]:
        """Return the usable routes, or if there is none, the one that will be usable first, even if it was tried."""
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
        """Release a permit that was granted while the wait for it was being cancelled."""
        if waited.cancelled() or waited.exception() is not None:
            return
        back = asyncio.get_running_loop().create_task(best_effort(route.limiter.release(waited.result(), unsent=True)))
        self._returning.add(back)
        back.add_done_callback(self._returning.discard)


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    """One endpoint, with its provider, limiter and breaker."""

    endpoint: EndpointConfig
    provider: Provider
    limiter: LimiterClient
    price: Price
    key: str = field(repr=False)
    breaker: Breaker
    fields: RequestFields

    def body(self, request: LlmRequest, *, shared: bool = False) -> dict[str, Any]:
        """Return the body of a request, with the fields that the endpoint accepts (see ``Provider.body``)."""
        return self.provider.body(request, self.fields, shared=shared)

    def can_do_without(self, api_error: ApiError, sent: Collection[str], request: LlmRequest) -> bool:
        """Return whether the endpoint refused one of the fields ``sent`` and later requests can do without it.

        Raises EndpointError or CallFailed for a refused field that the config requires.
        """
        if refused := self.fields.refuse(api_error, sent, request.json_schema):
            if self.fields.is_news(refused):
                said = "" if api_error.body is None else api_error.body.shown
                where = self.endpoint.base_url
                logger.warning("%s does not accept %s, and is sent none from now on (%s)", where, refused, said)
            return True
        if api_error.wants_stream and "stream" not in sent:
            raise EndpointError(f"{api_error.message} Set llm.stream to auto.")
        for name in api_error.refused([each for each in sent if each in REMEDIES]):
            about_format = name == self.provider.wire.format and api_error.refuses_format
            # The limit may be too high only for this role or for a longer reply, and the schema may be that of one
            # question only.
            stops = api_error.refuses_whatever_value if name in LIMITS else not about_format
            raise (EndpointError if stops else CallFailed)(f"{api_error.message} {REMEDIES[name]}")
        return False


def open_routes(
    config: GeneratorConfig,
    limiters: Sequence[LimiterClient],
    prices: PriceTable,
    address: str | None,
    pauses: tuple[float, float],
    transport: Any = None,
) -> list[Route]:
    """Open the routes to all endpoints of ``config``, in order.

    An endpoint whose key is missing is unusable from the start.

    Args:
        config: The generator.
        limiters: The endpoints' limiters, in order.
        prices: The price table.
        address: URL of the first endpoint, if it differs from the base URL.
        pauses: First and longest pause of the breakers in seconds.
        transport: Carries requests to the first endpoint in place of the network.

    Raises:
        ConfigError: All keys are missing, or a model has no price.
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
        connection = Connection(where, key, config.timeout_s, None if routes else transport)
        provider = open_provider(endpoint, connection, config.prompt_cache_key)
        here = not routes and (address is not None or transport is not None)
        fields = RequestFields(
            config.limit_field(endpoint.model),
            stream=config.stream == "auto" and not here,
            schema_optional=config.json_schema == "auto",
            wire=provider.wire,
        )
        price = prices.price(endpoint.model, endpoint.price)
        if config.service_tier == "flex" and not price.flex_discount:
            raise ConfigError(
                f"llm.service_tier is flex, and the price of {endpoint.model!r} has no flex_discount. Give it in "
                "llm.price or in the price table, or leave llm.service_tier out. Nothing was run."
            )
        routes.append(Route(endpoint, provider, limiter, price, key, breaker, fields))
    if len(missing) == len(routes):
        raise missing[0]
    return routes


async def best_effort(work: Awaitable[object]) -> None:
    """Await ``work``, and only log its errors: a permit that is lost expires, and a reserve that is lost stays held."""
    try:
        await work
    except Exception as error:
        logger.warning("%s: %s", type(error).__name__, error)


class Breaker:
    """A circuit breaker for one endpoint among several.

    While the breaker is closed, calls go to the endpoint. A failed connection or a series of errors opens it for a
    pause, which grows each time; then a single call probes the endpoint, and a reply closes the breaker. An endpoint
    that refused calls (key, model, quota) is out and gets no more. ``now`` is in seconds of a monotonic clock.
    """

    def __init__(self, first_pause_s: float, longest_pause_s: float) -> None:
        self.why = ""
        """The last error message."""
        self._first, self._longest = first_pause_s, longest_pause_s
        self._pause = first_pause_s
        self._failures = 0
        self._opened_at = -math.inf
        self._open_until = -math.inf
        self._out_until = -math.inf

    def ready(self, now: float) -> bool:
        """Return whether a call may go to the endpoint."""
        return now >= self.back_at

    def out(self, now: float) -> bool:
        """Return whether the endpoint gets no calls even if there is no other endpoint."""
        return now < self._out_until

    @property
    def back_at(self) -> float:
        """The monotonic time in seconds at which the endpoint is usable again; infinite if never."""
        return max(self._open_until, self._out_until)

    def refuse(self, why: str, until: float = math.inf) -> None:
        """Take the endpoint out of use until the time ``until``."""
        self.why = why
        self._out_until = until

    def asked(self, now: float) -> None:
        """Note that a call goes to the endpoint. After a pause, this call is the probe, for which other calls wait."""
        if self._open_until > -math.inf:
            self._open_until = now + self._pause

    def answered(self) -> None:
        """Note a reply, or an error that is the request's own fault."""
        self._failures = 0
        self._pause = self._first
        self._open_until = -math.inf

    def failed(self, now: float, sent_at: float, api_error: ApiError) -> None:
        """Note an error of a call sent at ``sent_at``. Errors of calls sent before a pause do not lengthen it."""
        if api_error.final:
            self.refuse(api_error.message, math.inf if api_error.retry_after is None else now + api_error.retry_after)
            return
        if not api_error.retry:
            self.answered()
            return
        self.why = api_error.message
        if api_error.http_status == 429 or sent_at < self._opened_at:  # the rate limiter handles a 429
            return
        self._failures += 1
        if api_error.unreachable or self._failures >= STORM:
            self._opened_at = now
            self._open_until = now + self._pause
            self._pause = min(self._longest, 2 * self._pause)
