"""Make calls in real time, in rounds of attempts, each at one endpoint.

In a round, a call tries one endpoint after the other, without pauses, until one replies. Between rounds it waits.
``RealtimeCalls._attempt`` is the path of one request: permission from the gateway (cost reserved, permit acquired,
intent durable), the HTTP request, the outcome to the gateway (permit released, outcome durable). Only then is the reply
returned, so every reply in use was paid for once and is on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import EndpointError, OverBudget, StoppedError
from okralong.pipelines.llm.completion import name_of, read_completion
from okralong.pipelines.llm.config import FlexConfig, GeneratorConfig
from okralong.pipelines.llm.errors import ApiError
from okralong.pipelines.llm.ports import NO_STEPS, GatewayPort, Steps
from okralong.pipelines.llm.rate_limit import RateLimitHeaders
from okralong.pipelines.llm.records import Call, unknown, unsent
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.request import LlmRequest, PrefixTurns, PromptMeter
from okralong.pipelines.llm.router import Route, Router, best_effort
from okralong.pipelines.llm.usage import Bounds

logger = logging.getLogger(__name__)

PERMIT_SLACK_S: Final = 60.0  # project default
"""A permit expires this many seconds after its request's timeout, in case the holder has died."""
CALL_SLACK_S: Final = 30.0  # project default
"""A request that is still being sent or received this many seconds after its timeout is cancelled, before its permit
expires."""
GIVE_UP_AFTER: Final = 3  # project default
"""After this many consecutive calls that used up all their attempts, the endpoint counts as down."""
OVERLONG_IN_A_ROW: Final = 3  # project default
"""After this many consecutive replies that ignored their limits, the run stops."""


class CallTracker:
    """Tracks the calls of a client: those waiting to be sent, and those in flight."""

    def __init__(self) -> None:
        self._halted = ""
        self._unsent: set[asyncio.Task[Any]] = set()
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._none_in_flight = asyncio.Event()
        self._none_in_flight.set()

    def halt(self, why: str) -> int:
        """Make waiting and later calls raise StoppedError; return the number of calls in flight."""
        self._halted = why
        for task in self._unsent:
            task.cancel()
        return len(self._in_flight)

    async def drain(self, grace_s: float) -> int:
        """Wait up to ``grace_s`` seconds for the calls in flight, then cancel the rest and return their number."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none_in_flight.wait(), grace_s)
        late = list(self._in_flight)
        for task in late:
            task.cancel()
        await self._none_in_flight.wait()  # until the ledger holds them as unknown
        return len(late)

    def check_halted(self) -> None:
        """Raise StoppedError if the client was halted."""
        if self._halted:
            raise StoppedError(self._halted)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Track the current task as a call that waits to be sent. Raises StoppedError if it is halted before."""
        self.check_halted()
        task = _current_task()
        self._unsent.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self._halted:
                raise
            task.uncancel()  # ``halt`` cancelled the wait; the task continues, to raise StoppedError
            raise StoppedError(self._halted) from None
        finally:
            self._unsent.discard(task)

    def sent(self) -> None:
        """Note that the current task's request is being sent."""
        task = _current_task()
        self._unsent.discard(task)
        self._in_flight.add(task)
        self._none_in_flight.clear()

    def settled(self) -> None:
        """Note that the outcome of the current task's request, if it was sent, is durable."""
        task = _current_task()
        self._in_flight.discard(task)
        if not self._in_flight:
            self._none_in_flight.set()
        self._unsent.add(task)


def _current_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls are made from tasks of an event loop")
    return task


class RealtimeCalls:
    """Makes the calls of one generator in real time."""

    def __init__(
        self,
        config: GeneratorConfig,
        gateway: GatewayPort,
        router: Router,
        meter: PromptMeter,
        count: CountTokens,
        tracker: CallTracker,
        first_limiter: int,
        backoff: tuple[float, float],
    ) -> None:
        """See ``LlmClient`` for the parameters."""
        self._config = config
        self._gateway = gateway
        self._router = router
        self._meter = meter
        self._count = count
        self._tracker = tracker
        self._first_limiter = first_limiter
        self._backoff = wait_exponential_jitter(initial=backoff[0], max=backoff[1], jitter=backoff[0])
        self._prefixes = PrefixTurns(on_request=router.routes[0].provider.caches_on_request)
        first = router.routes[0].price
        self._caches = first.cached_input < first.input
        self._exhausted = 0

    async def ask(self, request: LlmRequest, call: Call, pending: Callable[[], Steps]) -> RawReply:
        """Return the reply once it is durable; ``pending`` returns the question's steps that are not durable yet."""
        config = self._config
        tier = _Tier(config.service_tier, config.flex if config.service_tier == "flex" else None)
        rounds = AsyncRetrying(
            retry=retry_if_exception_type(_NoReplyError),
            # Attempts at the flex tier are in addition to those at the standard tier.
            stop=stop_after_attempt(config.max_attempts + (tier.flex.attempts if tier.flex is not None else 0)),
            wait=partial(self._pause, tier),
            reraise=True,
        )
        numbers = itertools.count(1)
        try:
            first = self._router.routes[0].provider
            async with self._prefixes.turn(first.prefix_key(request.messages) if self._caches else None):
                async for one in rounds:
                    with one:
                        raw = await self._round(request, call, numbers, pending, tier)
        except _NoReplyError as last:
            self._exhausted += 1
            raise self._given_up(last.api_errors) from None
        self._exhausted = 0
        return raw

    async def _round(
        self, request: LlmRequest, call: Call, numbers: Iterator[int], pending: Callable[[], Steps], tier: _Tier
    ) -> RawReply:
        """Try the usable endpoints one after the other until one replies."""
        tried: list[Route] = []
        api_errors: list[ApiError] = []
        while True:
            number = next(numbers)
            numbered = replace(call, attempt=number, body=call.body if number == 1 else "{}")
            got = await self._attempt(request, numbered, tried, pending(), tier)
            if isinstance(got, RawReply):
                return got
            self._tracker.check_halted()
            if got is _WITHOUT_FIELD:
                continue
            api_errors.append(got)
            tier.note_failure(got)
            if not got.retry and not got.final:
                raise got.error()
            if self._router.all_out:
                raise EndpointError(self._why(api_errors))
            if not self._router.open(tried):
                raise _NoReplyError(api_errors)

    async def _attempt(
        self, request: LlmRequest, call: Call, tried: list[Route], steps: Steps, tier: _Tier
    ) -> RawReply | ApiError:
        """Send one request, if possible to an endpoint not in ``tried``; add one that does not reply to ``tried``.

        Returns ``_WITHOUT_FIELD`` if the endpoint refused a field that can be left out, so that it can be tried again.
        Raises OverBudget, EndpointError or QuestionError if nothing was sent.
        """
        config = self._config
        tokens = self._meter.of_request(request)
        estimate = self._meter.safe(tokens)
        price = self._router.highest_price
        call = replace(
            call,
            reserved_usd=price.most(estimate, request.max_tokens),
            most_usd=price.most(config.window, max(request.max_tokens, config.window)),
        )
        permit = max(each.provider.permit_tokens(estimate, request.max_tokens) for each in self._router.routes)
        clock = self._router.clock
        route: Route | None = None
        sent_at: float | None = None
        body: dict[str, Any] = {}
        try:
            route, call = await self._may_send(call, permit, tried, steps, self._timeout_s(tier) + PERMIT_SLACK_S)
            shared = self._caches and self._prefixes.is_shared(route.provider.prefix_key(request.messages))
            body = route.body(request, shared=shared) | route.fields.streaming | tier.fields(route)
            bounds = Bounds(estimate, request.max_tokens)
            call = replace(call, body="{}")  # the request is in the journal
            sent_at = clock()
            self._tracker.sent()
            raw, call, headers = await self._send(route, bounds, call, body, self._timeout_s(tier))
        except asyncio.CancelledError:
            lost = None if sent_at is None else unknown(call, "cancelled while in flight", latency_s=clock() - sent_at)
            await asyncio.shield(self._gateway.came(lost or unsent(call, "cancelled"), unsent=lost is None))
            raise
        except OverBudget:  # nothing was reserved or sent
            raise
        except Exception as error:
            if route is None or sent_at is None:
                why = self._router.without_keys(str(error))
                await best_effort(self._gateway.came(unsent(call, why), unsent=True))
                raise
            api_error = route.provider.api_error(error)
            api_error = replace(api_error, message=self._router.without_keys(api_error.message))
            route.breaker.failed(clock(), sent_at, api_error)
            outcome = api_error.outcome(call, clock() - sent_at, error)
            headers = route.provider.rate_limits(
                route.provider.error_headers(error),
                taken=False,
                slow_down=api_error.limited,
                retry_after=api_error.retry_after,
            )
            await self._gateway.came(outcome, headers)
            if route.can_do_without(api_error, body, request):
                return _WITHOUT_FIELD
            tried.append(route)
            return api_error
        else:
            route.breaker.answered()
            if raw.tells_tokenizer(estimate):
                self._meter.learn(tokens, raw.reply.usage.prompt_tokens)
            in_a_row = await asyncio.shield(self._gateway.came(raw.outcome(call), headers))
            _check_length(route, raw, request.max_tokens, in_a_row)
            return raw
        finally:
            self._tracker.settled()

    async def _may_send(
        self, call: Call, tokens: int, tried: list[Route], steps: Steps, expires_s: float
    ) -> tuple[Route, Call]:
        """Wait until an attempt may be sent and its intent is durable; return endpoint and addressed call.

        With one endpoint, this takes one message to the gateway. With several, the choice among their permits is made
        here, where their failures are known.
        """
        if len(self._router.routes) == 1:
            (route,) = self._router.routes
            call = call.addressed(route.endpoint.base_url, route.endpoint.model, route.price)
            sendable = await self._gateway.ask(call, tokens, expires_s, self._first_limiter, steps)
            return route, replace(call, queue_s=sendable.queue_s, started_at=sendable.started_at)
        asked_at = time.perf_counter()
        while True:
            await self._gateway.reserve(call, steps)
            route, permit = await self._router.acquire(tokens, expires_s, tried)
            call = call.addressed(route.endpoint.base_url, route.endpoint.model, route.price)
            call = replace(call, queue_s=time.perf_counter() - asked_at, started_at=datetime.now(UTC))
            if await self._gateway.intend(call, self._first_limiter + self._router.routes.index(route), permit):
                return route, call
            steps = NO_STEPS

    async def _send(
        self, route: Route, bounds: Bounds, call: Call, body: Mapping[str, Any], timeout_s: float
    ) -> tuple[RawReply, Call, RateLimitHeaders]:
        """Return the reply, the call priced at the tier that the reply names, and the rate limit headers."""
        start = time.perf_counter()
        # aiohttp limits the time of connecting and of waiting, but not of sending.
        async with asyncio.timeout(timeout_s + CALL_SLACK_S):
            received, told = await route.provider.send(
                body, bounds, self._count, None if timeout_s == self._config.timeout_s else timeout_s
            )
        raw = read_completion(received, bounds, route.endpoint.model, self._count, self._config.trust)
        usage, latency_s = raw.reply.usage, time.perf_counter() - start
        price = route.price.in_flex() if raw.service_tier == "flex" else route.price
        price = price.charged(usage.prompt_tokens)
        call = call.charged(price)
        request_id = name_of(told.get(route.provider.request_id_header, ""))
        raw = raw.received(call, price.cost(usage), latency_s, request_id, self._router.without_keys)
        raw = replace(raw, first_token_s=received.first_token_s(start, latency_s))
        return raw, call, route.provider.rate_limits(told, taken=True)

    def _timeout_s(self, tier: _Tier) -> float:
        return self._config.timeout_s if tier.flex is None else max(self._config.timeout_s, tier.flex.timeout_s)

    def _given_up(self, api_errors: Sequence[ApiError]) -> Exception:
        """Return the exception to raise after the last round without a reply."""
        tries = "Tried once." if self._config.max_attempts == 1 else f"Tried {self._config.max_attempts} times."
        if all(api_error.whose == "endpoint" for api_error in api_errors):
            return EndpointError(f"{self._why(api_errors)} {tries}")
        if self._exhausted >= GIVE_UP_AFTER:
            often = f"{self._exhausted} calls in a row have ended like this; run the same command again later."
            return EndpointError(f"{self._why(api_errors)} {tries} {often}")
        return replace(api_errors[-1], message=f"{api_errors[-1].message} {tries}").error()

    def _why(self, api_errors: Sequence[ApiError]) -> str:
        """Return why the run stops: the last error, or the problem of each of several endpoints."""
        return self._router.verdict() if self._config.endpoints else api_errors[-1].message

    def _pause(self, tier: _Tier, state: RetryCallState) -> float:
        """Return the seconds until the next round: those that the endpoint stated, or else a growing time."""
        error = state.outcome.exception() if state.outcome else None
        last = error.api_errors[-1] if isinstance(error, _NoReplyError) else None
        if last is not None and last.no_capacity:
            return tier.pause_s(last.retry_after)
        named = last.retry_after if last is not None else None
        return self._backoff(state) if named is None else named


def _check_length(route: Route, raw: RawReply, max_tokens: int, in_a_row: int) -> None:
    """Raise EndpointError if too many consecutive replies ignored their limits: each costs money for nothing."""
    if not in_a_row:
        return
    tokens = raw.reply.usage.completion_tokens
    where = f"{route.endpoint.base_url} ({route.endpoint.model})"
    if in_a_row == 1:
        logger.warning("%s wrote %d tokens, more than the limit of %d", where, tokens, max_tokens)
    if in_a_row >= OVERLONG_IN_A_ROW:
        raise EndpointError(
            f"{where} ignores the limit of its replies: {in_a_row} in a row were too long, the last of them "
            f"{tokens} tokens with a limit of {max_tokens}. The replies are kept. If the model thinks before it "
            "answers, set llm.reasoning_tokens to the room that it needs; otherwise use an endpoint that keeps the "
            "limit, and run the same command again."
        )


@dataclass(slots=True)
class _Tier:
    """The service tier of a call: ``flex`` is set until the attempts at the flex tier are used up, then None."""

    asked: str | None
    flex: FlexConfig | None
    tries: int = 0

    def fields(self, route: Route) -> dict[str, Any]:
        """Return the fields of a request that choose the tier."""
        return {} if self.asked is None else route.provider.tier(self.flex is not None)

    def note_failure(self, api_error: ApiError) -> None:
        """Count an attempt at the flex tier that got no reply because of a lack of capacity or a timeout."""
        if self.flex is not None and (api_error.no_capacity or api_error.timed_out):
            self.tries += 1
            if self.tries >= self.flex.attempts:
                self.flex = None

    def pause_s(self, named: float | None) -> float:
        """Return the seconds to wait for capacity; 0 if the next attempt is at the standard tier."""
        if self.flex is None:
            return 0.0
        return self.flex.pause_s * 2.0 ** (self.tries - 1) if named is None else named


_WITHOUT_FIELD: Final = ApiError("failed", 400, "asked again without a field of the request", retry=True)


class _NoReplyError(Exception):
    """A round ended without a reply, but another may succeed. ``api_errors`` are those of its attempts, in order."""

    def __init__(self, api_errors: Sequence[ApiError]) -> None:
        super().__init__(api_errors[-1].message)
        self.api_errors = api_errors
