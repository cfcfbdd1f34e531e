"""One endpoint as a client reaches it: its connection, its limiter, its price, its key and its breaker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import openai

from okralong.pipelines.answering.llm.breaker import Breaker
from okralong.pipelines.answering.llm.calls import Call
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.endpoint import NO_KEY, open_client, read_key
from okralong.pipelines.answering.llm.endpoint_config import EndpointConfig
from okralong.pipelines.answering.llm.faults import Fault, classify
from okralong.pipelines.answering.llm.ports import LimiterClient
from okralong.pipelines.answering.llm.prices import Price, PriceTable
from okralong.pipelines.core.types import ConfigError


@dataclass(frozen=True, eq=False, slots=True)
class Route:
    """A way to the generator."""

    endpoint: EndpointConfig
    http: openai.AsyncOpenAI
    limiter: LimiterClient
    price: Price
    key: str = field(repr=False)
    breaker: Breaker

    def addressed(self, call: Call) -> Call:
        """The call as it goes there: with the model and the prices of this endpoint."""
        return replace(
            call,
            endpoint=self.endpoint.base_url,
            model=self.endpoint.model,
            input_usd_per_million=self.price.input,
            cached_usd_per_million=self.price.cached_input,
            output_usd_per_million=self.price.output,
        )

    def fault(self, error: Exception) -> Fault:
        """What went wrong with a call that went there."""
        return classify(error, self.endpoint.base_url, self.endpoint.model, self.endpoint.api_key_env, self.key)


def open_routes(
    config: LlmConfig,
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
        routes.append(Route(endpoint, http, limiter, prices.price(endpoint.model, endpoint.price), key, breaker))
    if len(missing) == len(routes):
        raise missing[0]
    return routes
