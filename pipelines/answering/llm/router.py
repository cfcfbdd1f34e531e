"""Which endpoint a call goes to: where leave comes soonest, the configured order first, among those worth asking."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from okralong.pipelines.answering.llm.faults import without_key
from okralong.pipelines.answering.llm.ports import Grant
from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.answering.llm.route import Route
from okralong.pipelines.core.types import EndpointError, QuestionError

logger = logging.getLogger(__name__)

PREFERENCE_S = 0.1
"""How long an endpoint is waited for before the next one is asked for leave as well. Ours."""
LOOK_AGAIN_S = 1.0
"""How often a call that waits looks who is worth asking by now. Ours."""


class Router:
    """The routes of a run, in order of preference. With one route it is that one, whatever its breaker says: who stops
    after a fault, and when a call is tried again, is then the client's to say.
    """

    def __init__(self, routes: Sequence[Route], clock: Callable[[], float] = time.monotonic) -> None:
        self.routes = tuple(routes)
        self.clock = clock
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def dearest(self) -> Price:
        """What a token costs at most, wherever a call may still go."""
        now = self.clock()
        prices = [route.price for route in self.routes if not route.breaker.out(now)] or [self.routes[0].price]
        return Price(
            input=max(price.input for price in prices),
            cached_input=max(price.cached_input for price in prices),
            output=max(price.output for price in prices),
        )

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

    async def leave(self, tokens: int, lease_s: float, tried: Sequence[Route] = ()) -> tuple[Route, Grant]:
        """Leave to send at the route that grants it first; the first in order that does so at once.

        Raises EndpointError when all are out of use, QuestionError when no minute of any can hold ``tokens``.
        """
        if len(self.routes) == 1:
            return self.routes[0], await self.routes[0].limiter.acquire(tokens, lease_s)
        asked: dict[Route, asyncio.Task[Grant]] = {}
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
                    asked[new[0]] = asyncio.create_task(new[0].limiter.acquire(tokens, lease_s))
                patience = PREFERENCE_S if len(new) > 1 else LOOK_AGAIN_S
                await asyncio.wait(asked.values(), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                for route in [route for route in routes if route in asked and asked[route].done()]:
                    if route not in self._choice(tried):  # it has failed meanwhile, or another call is its trial
                        break
                    try:
                        grant = asked[route].result()
                    except QuestionError as error:
                        refused[route] = error
                        del asked[route]
                        continue
                    del asked[route]
                    route.breaker.asked(self.clock())
                    return route, grant
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

    def _withdraw(self, route: Route, waiting: asyncio.Task[Grant]) -> None:
        waiting.cancel()
        waiting.add_done_callback(partial(self._give_back, route))

    def _give_back(self, route: Route, waited: asyncio.Task[Grant]) -> None:
        """What was granted all the same, in the moment of the cancellation."""
        if waited.cancelled() or waited.exception() is not None:
            return
        back = asyncio.get_running_loop().create_task(
            quietly(route.limiter.release(waited.result().lease, unsent=True))
        )
        self._returning.add(back)
        back.add_done_callback(self._returning.discard)


async def quietly(work: Awaitable[None]) -> None:
    """Await what may fail without harm to the question: a lost lease ends by itself, a lost reserve with it."""
    try:
        await work
    except Exception as error:
        logger.warning("%s: %s", type(error).__name__, error)
