"""The one way to a generator: a call is replayed from the journal where it can be, else asked within limits and cap.

``LlmClient.complete`` is the way of one call from top to bottom. In batch mode it waits at the batch scheduler first,
and goes on in real time when no batch will answer it. In real time it is tried in rounds: in each it goes to one
endpoint, and at once to the next while an endpoint gives no reply; between two rounds it waits.

``LlmClient._attempt`` is the way of one request: permission is requested from the gateway (cost reserved, permit
acquired, intent durable), HTTP, outcome told to the gateway (permit released, outcome durable). Only then does the
caller see the reply, so that a reply that was used was always paid for once and is on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import CutShort, EndpointError, Message, OverBudget, Reply, StoppedError
from okralong.pipelines.llm.batch import BatchScheduler
from okralong.pipelines.llm.batch_api import Answered, BatchItem, UseRealtime, batch_call_id
from okralong.pipelines.llm.completion import OVERLONG, SLACK, Bounds, name_of, post_chat, read_completion
from okralong.pipelines.llm.config import ANALYZE, FlexConfig, GeneratorConfig
from okralong.pipelines.llm.gateway import NO_STEPS, EndpointLimiter, Gateway, Steps
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.prices import WORST, Price, PriceTable
from okralong.pipelines.llm.rate_limit import RateLimitHeaders, read_headers
from okralong.pipelines.llm.records import Call, unknown, unsent
from okralong.pipelines.llm.reply import RawReply, SharedReplies, from_journal, usable
from okralong.pipelines.llm.request import LlmRequest, PrefixTurns, PromptMeter, hash_of, prefix_key
from okralong.pipelines.llm.routing import ApiError, Route, Router, best_effort, error_headers, open_routes
from okralong.pipelines.models.weights import EMBEDDED

logger = logging.getLogger(__name__)

PERMIT_SLACK_S = 60.0
"""How long after the request's timeout its permit ends by itself, should its holder have died. Ours."""
CALL_SLACK_S = 30.0
"""How long after its timeout a call ends that is still being sent or received: before its permit does. Ours."""
GIVE_UP_AFTER = 3
"""Calls in a row that used up all attempts, after which the endpoint counts as down. Ours."""

OVERLONG_IN_A_ROW = 3
"""Replies in a row that ignore their limit and could not be aborted, after which the run stops. # project default"""
LONGER: Final = 4
"""How many times its limit a reply may have that is asked for once more because it was cut. # project default"""
Recorded = Callable[[str, int], JournalRow | None]
"""The last reply recorded at a path and sample of one question, or None."""


class LlmClient:
    """Calls of one configured generator, from one event loop. Any number at a time."""

    def __init__(
        self,
        config: GeneratorConfig,
        gateway: Gateway,
        prices: PriceTable | None = None,
        *,
        first_limiter: int = 0,
        address: str | None = None,
        tags: Mapping[str, str] | None = None,
        backoff: tuple[float, float] = (0.5, 30.0),
        shared: SharedReplies | None = None,
        scheduler: BatchScheduler | None = None,
        transport: Any = None,
        grammar: Callable[[str, Sequence[Message], str], str | None] | None = None,
        reply_schema: Callable[[str], str | None] | None = None,
    ) -> None:
        """``first_limiter`` is the number, at the gateway, of the limiter of the first endpoint; those of
        ``config.endpoints`` follow it; ``address`` is where an embedded model
        listens; ``backoff`` first and longest pause, in seconds, of a call between two rounds and of an endpoint that
        does not answer while there are others; ``shared`` are replies of other runs, which are taken instead of paying
        for equal ones; ``scheduler`` is where calls wait for a batch (None: all are asked in real time);
        ``transport`` carries the requests to ``address`` where no network does; ``grammar`` gives the grammar of the
        reply to a prompt of a role that asks for an answer of a type ("" for text), which is sent where the config is
        ``constrained``, and to the embedded model for a type; ``reply_schema`` that of a type as a JSON schema, which
        is sent where no grammar is (None: there is none).

        Raises ConfigError when a model has no price, the tokenizer is unknown, or a key is needed and missing.
        """
        self.config = config
        self._gateway = gateway
        self._first_limiter = first_limiter
        self._count = token_counter(config.tokenizer)
        self._meter = PromptMeter(self._count)
        limiters = [EndpointLimiter(gateway, first_limiter + at) for at in range(len(config.all_endpoints))]
        routes = open_routes(config, limiters, prices or PriceTable.load(), address, backoff, transport)
        self._router = Router(routes)
        self._batch_price = routes[0].price.in_batch()
        self._prefixes = PrefixTurns()
        self._caches = routes[0].price.cached_input < routes[0].price.input
        self._tags = dict(tags or {})
        self._backoff = wait_exponential_jitter(initial=backoff[0], max=backoff[1], jitter=backoff[0])
        self._grammar = grammar
        self._reply_schema = reply_schema
        self._shared = shared or SharedReplies()
        self._scheduler = scheduler
        self._exhausted = 0
        self._halted = ""
        self._unsent: set[asyncio.Task[Any]] = set()
        self._in_flight: set[asyncio.Task[Any]] = set()
        self._none_in_flight = asyncio.Event()
        self._none_in_flight.set()

    def __repr__(self) -> str:
        return f"LlmClient({self.config.model!r} at {self.config.base_url!r})"

    @property
    def price(self) -> Price:
        """What a token costs at most: the highest price among the endpoints that may be asked."""
        return self._router.highest_price

    async def aclose(self) -> None:
        """Close the connections."""
        await self._router.aclose()

    def halt(self, why: str) -> int:
        """Send nothing more: calls that wait end at once with StoppedError, and so does each that is asked for later.

        Returns how many are in flight; these go on, until their replies are durable.
        """
        self._halted = why
        for task in self._unsent:
            task.cancel()
        return len(self._in_flight)

    async def drain(self, grace_s: float) -> int:
        """Wait for the calls in flight of a client that was halted, at most so long; then give them up as unknown.

        Returns how many were given up.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none_in_flight.wait(), grace_s)
        late = list(self._in_flight)
        for task in late:
            task.cancel()
        await self._none_in_flight.wait()  # until the ledger has them as unknown
        return len(late)

    async def complete(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        answer_type: str = "",
        longer: bool = False,
        sample: int = 0,
        recorded: Recorded | None = None,
        pending: Callable[[], Steps] = lambda: NO_STEPS,
    ) -> Reply:
        """The reply at a step of a question. ``recorded`` knows the question's replies from before; without it the
        ledger is asked, which costs a message to it. ``pending`` hands over the question's steps that are not durable
        yet; they are before the request goes out.

        With ``logprobs`` it has the texts of its tokens and their log-probabilities. ``longer``: it may be as long as
        the window allows, up to ``LONGER`` times the limit of its role.

        Raises OverBudget, EndpointError and StoppedError (stop the run), CallFailed (no reply came), ReplyError (one
        came that is of no use; it is in the journal) or QuestionError (no minute of the account can hold the prompt).
        """
        config = self.config
        rules = self._rules(role, messages, answer_type)
        request = LlmRequest(
            model=config.model,
            base_url=config.base_url,
            messages=tuple(messages),
            max_tokens=self._limit(role, messages, longer),
            temperature=config.temperature,
            top_p=config.top_p,
            seed=config.seed,
            logprobs=logprobs,
            stop=tuple(config.stop),
            sample=sample,
            api_version=config.api_version,
            response_format="json_object" if role == ANALYZE else None,
            grammar=rules,
            json_schema=self._schema(answer_type) if rules is None else None,
            reasoning_effort=config.reasoning_effort,
            others=tuple(endpoint.identity for endpoint in config.endpoints),
        )
        canonical = request.canonical()
        request_hash = hash_of(canonical)
        longest = Bounds(0, 0, request.max_tokens).longest_text
        seen = await self._gateway.reply(query_id, path, sample) if recorded is None else recorded(path, sample)
        if seen is not None and seen.request_hash == request_hash:
            return usable(from_journal(seen.body), longest, logprobs=logprobs)
        price = self.price
        call = Call(
            call_id=uuid.uuid4().hex,
            attempt=1,
            query_id=query_id,
            path=path,
            sample=sample,
            role=role,
            model=config.model,
            request_hash=request_hash,
            input_usd_per_million=price.input,
            cached_usd_per_million=price.cached_input,
            output_usd_per_million=price.output,
            cache_write_usd_per_million=price.cache_write,
            reserved_usd=0.0,
            queue_s=0.0,
            started_at=datetime.now(UTC),
            tags=self._tags,
            body=self._router.without_keys(canonical),
        )
        if (shared := self._shared.take(call)) is not None:
            raw, outcome = shared
            as_priced = call.charged(price.charged(outcome.usage.prompt_tokens))
            outcome = replace(outcome, call=as_priced)
            await self._gateway.came(outcome, steps=pending())
            return usable(raw, longest, logprobs=logprobs)
        return usable(await self._asked(request, call, pending), longest, logprobs=logprobs)

    def _limit(self, role: str, messages: Sequence[Message], longer: bool) -> int:
        limit = self.config.completion_limit(role)
        if not longer:
            return limit
        room = min(LONGER * limit, self.config.window - self._meter.plain(messages))
        if room <= limit:
            raise CutShort(
                f"The reply was cut off at its limit of {limit} tokens, and the window has no room for more."
            )
        return room

    def _rules(self, role: str, messages: Sequence[Message], answer_type: str) -> str | None:
        """The grammar that is sent with a prompt; None for none."""
        config = self.config
        typed = bool(answer_type) and config.base_url == EMBEDDED and config.json_schema != "never"
        return self._grammar(role, messages, answer_type) if self._grammar and (config.constrained or typed) else None

    def _schema(self, answer_type: str) -> str | None:
        """The schema that a reply of this type is asked for with; None for none."""
        if not answer_type or self._reply_schema is None or self.config.json_schema == "never":
            return None
        return self._reply_schema(answer_type)

    def _refuses(self, route: Route, request: LlmRequest, sent: Collection[str], api_error: ApiError) -> bool:
        """Whether the endpoint has refused one of the fields ``sent`` that the request can do without: it is sent
        again then. Raises EndpointError for one that the run was told to send.
        """
        schema = request.json_schema if self.config.json_schema == "auto" else None
        refused = route.fields.refuse(api_error, sent, schema)
        if refused:
            logger.warning("%s does not take %s, which is left out from here on", route.endpoint.base_url, refused)
            return True
        if api_error.http_status in (400, 422):
            for name in ("reasoning_effort", "service_tier", "logprobs"):
                if name in sent and api_error.names(name):
                    raise EndpointError(f"{api_error.message} {_REMEDIES[name]}")
        return False

    async def _asked(self, request: LlmRequest, call: Call, pending: Callable[[], Steps]) -> RawReply:
        """The reply. Raises StoppedError when the client is halted before the request goes out."""
        self._check_halted()
        task = _this_task()
        self._unsent.add(task)
        try:
            answered = await self._in_batch(request, call, pending)
            if answered is None:  # the attempt starts now: a batch may have taken its hours
                answered = await self._in_realtime(request, replace(call, started_at=datetime.now(UTC)), pending)
            return answered
        except asyncio.CancelledError:
            if not self._halted:
                raise
            task.uncancel()  # it was cancelled to end its wait, and goes on to say why
            raise StoppedError(self._halted) from None
        finally:
            self._unsent.discard(task)

    def _check_halted(self) -> None:
        if self._halted:
            raise StoppedError(self._halted)

    async def _in_batch(self, request: LlmRequest, call: Call, pending: Callable[[], Steps]) -> RawReply | None:
        """The reply of a batch of the first endpoint; None when it is to be asked for in real time."""
        if self._scheduler is None:
            return None
        config, price = self.config, self._batch_price
        first = self._router.routes[0]
        plain = self._plain(request)
        tokens = self._meter.safe(plain)
        call = replace(
            call.addressed(config.base_url, config.model, price.charged(tokens)),
            call_id=batch_call_id(call.query_id, call.path, call.sample, call.request_hash),
            reserved_usd=price.most(tokens, request.max_tokens),
            # A batch's replies have all been written when the first of them is read: none can be aborted.
            most_usd=price.most(WORST * tokens, max(request.max_tokens, config.window)),
            mode="batch",
        )
        more = self._cache_key(first, request)
        item = BatchItem.of(request, call, tokens, first.fields, more)
        if steps := pending():  # the scheduler knows nothing of them
            await self._gateway.record(call.query_id, steps)
        failures = 0
        while failures < config.batch.max_failures:
            got = await self._scheduler.ask(item)
            if isinstance(got, Answered):
                if not got.raw.counted_here:
                    self._meter.learn(plain, got.raw.reply.usage.prompt_tokens)
                return got.raw
            if isinstance(got, UseRealtime) or (got.api_error.final and config.endpoints):
                return None
            if self._refuses(first, request, item.sent, got.api_error):
                item = BatchItem.of(request, call, tokens, first.fields, more)
                continue
            if not got.api_error.retry:
                raise got.api_error.error()
            failures += got.counts
        return None

    async def _in_realtime(self, request: LlmRequest, call: Call, pending: Callable[[], Steps]) -> RawReply:
        config = self.config
        tier = _Tier(config.service_tier, config.flex if config.service_tier == "flex" else None)
        rounds = AsyncRetrying(
            retry=retry_if_exception_type(_NoReplyError),
            # What the flex tier does not do is asked for as often as ever at the standard one.
            stop=stop_after_attempt(config.max_attempts + (tier.flex.attempts if tier.flex is not None else 0)),
            wait=partial(self._pause, tier),
            reraise=True,
        )
        numbers = itertools.count(1)
        try:
            async with self._prefixes.turn(prefix_key(request.messages) if self._caches else None):
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
        """Ask one endpoint, and the others that are worth asking while none replies."""
        tried: list[Route] = []
        api_errors: list[ApiError] = []
        while True:
            number = next(numbers)
            numbered = replace(call, attempt=number, body=call.body if number == 1 else "{}")
            got = await self._attempt(request, numbered, tried, pending(), tier)
            if isinstance(got, RawReply):
                return got
            self._check_halted()
            if got is _WITHOUT_FIELD:
                continue
            api_errors.append(got)
            tier.heard(got)
            if not got.retry and not got.final:
                raise got.error()
            if self._router.all_out:
                raise EndpointError(self._why(api_errors))
            if not self._router.open(tried):
                raise _NoReplyError(api_errors)

    async def _attempt(
        self, request: LlmRequest, call: Call, tried: list[Route], steps: Steps, tier: _Tier
    ) -> RawReply | ApiError:
        """One request, to an endpoint that was not ``tried`` if it can be; one that gave no reply is added to these.
        ``_WITHOUT_FIELD`` where the endpoint refused a field of the request: it is asked again without that.

        Raises OverBudget, EndpointError or QuestionError when nothing was sent.
        """
        plain = self._plain(request)
        estimate = self._meter.safe(plain)
        price = self.price
        call = replace(
            call,
            reserved_usd=price.most(estimate, request.max_tokens),
            most_usd=price.most(WORST * estimate, self._longest_reply(request.max_tokens)),
        )
        tokens = estimate + request.max_tokens
        clock = self._router.clock
        route: Route | None = None
        sent_at: float | None = None
        body: dict[str, Any] = {}
        task = _this_task()
        try:
            route, call = await self._may_send(call, tokens, tried, steps, self._timeout_s(tier))
            call = replace(call, body="{}")  # the journal has it
            sent_at = clock()
            self._unsent.discard(task)
            self._in_flight.add(task)
            self._none_in_flight.clear()
            body = self._body(route, request) | tier.fields
            bounds = Bounds.of(request.messages, estimate, request.max_tokens, request.json_schema)
            raw, call, headers = await self._send(route, bounds, call, body, self._timeout_s(tier))
        except asyncio.CancelledError:
            lost = None if sent_at is None else unknown(call, "cancelled while in flight", latency_s=clock() - sent_at)
            await asyncio.shield(self._gateway.came(lost or unsent(call, "cancelled"), unsent=lost is None))
            raise
        except OverBudget:  # nothing is reserved, and nothing went out
            raise
        except Exception as error:
            if route is None or sent_at is None:
                why = self._router.without_keys(str(error))
                await best_effort(self._gateway.came(unsent(call, why), unsent=True))
                raise
            api_error = route.api_error(error)
            api_error = replace(api_error, message=self._router.without_keys(api_error.message))
            route.breaker.failed(clock(), sent_at, api_error)
            outcome = api_error.outcome(call, clock() - sent_at)
            await self._gateway.came(outcome, error_headers(error, api_error))
            if self._refuses(route, request, body, api_error):
                return _WITHOUT_FIELD
            tried.append(route)
            return api_error
        else:
            route.breaker.answered()
            if not raw.counted_here:
                self._meter.learn(plain, raw.reply.usage.prompt_tokens)
            in_a_row = await asyncio.shield(self._gateway.came(raw.outcome(call), headers))
            self._check_length(route, raw, request.max_tokens, in_a_row)
            return raw
        finally:
            self._in_flight.discard(task)
            if not self._in_flight:
                self._none_in_flight.set()
            self._unsent.add(task)

    def _timeout_s(self, tier: _Tier) -> float:
        return self.config.timeout_s if tier.flex is None else max(self.config.timeout_s, tier.flex.timeout_s)

    async def _may_send(
        self, call: Call, tokens: int, tried: list[Route], steps: Steps, timeout_s: float
    ) -> tuple[Route, Call]:
        """The endpoint that the attempt goes to, and the attempt as it goes there; all that must be is durable.

        One endpoint costs one message. Of several each is asked for a permit, and the choice is made here, where it is
        known which of them errs.
        """
        expires_s = timeout_s + PERMIT_SLACK_S
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

    def _plain(self, request: LlmRequest) -> int:
        """Our count of a prompt's tokens, with its schema, which endpoints write into the prompt."""
        schema = self._count(request.json_schema) if request.json_schema is not None else 0
        return self._meter.plain(request.messages) + schema

    def _body(self, route: Route, request: LlmRequest) -> dict[str, Any]:
        """What is sent, with the fields that the endpoint takes."""
        body = request.parameters(
            route.fields.limit_field, route.endpoint.model, route.fields.left_out(request.json_schema)
        )
        extra: dict[str, Any] = body.pop("extra_body", {})
        return body | extra | self._cache_key(route, request) | route.fields.streaming

    def _longest_reply(self, max_tokens: int) -> int:
        """The tokens of a reply whose limit is ignored: as many as pass before it is aborted, or the whole window."""
        if all(route.fields.streams for route in self._router.routes):
            return int(OVERLONG * max_tokens) + SLACK
        return max(max_tokens, self.config.window)

    def _check_length(self, route: Route, raw: RawReply, max_tokens: int, in_a_row: int) -> None:
        """Raises EndpointError when reply after reply ignores its limit at an endpoint that does not stream: each costs
        the user's money, and nobody knows how much the next will.
        """
        if not in_a_row:
            return
        tokens = raw.reply.usage.completion_tokens
        where = f"{route.endpoint.base_url} ({route.endpoint.model})"
        if in_a_row == 1:
            logger.warning("%s wrote %d tokens where %d were asked for at most", where, tokens, max_tokens)
        if in_a_row >= OVERLONG_IN_A_ROW:
            raise EndpointError(
                f"{where} ignores the limit of its replies: {in_a_row} in a row were too long, the last of them "
                f"{tokens} tokens where {max_tokens} were asked for, and it does not stream, so that none could be "
                "aborted. The replies are kept. If the model thinks before it answers, give llm.reasoning_tokens as "
                "much room as that takes; else use an endpoint that keeps the limit or streams, and run the same "
                "command again."
            )

    def _cache_key(self, route: Route, request: LlmRequest) -> dict[str, str]:
        """The field by which an endpoint finds the machine that has a prompt's prefix, where it has that field."""
        if not route.keyed or "prompt_cache_key" in route.fields.left_out(None):
            return {}
        key = prefix_key(request.messages)
        return {} if key is None else {"prompt_cache_key": key}

    async def _send(
        self, route: Route, bounds: Bounds, call: Call, body: Mapping[str, Any], timeout_s: float
    ) -> tuple[RawReply, Call, RateLimitHeaders]:
        """The reply, and the call with the prices that it is charged at: those of the tier that the reply names."""
        start = time.perf_counter()
        # aiohttp limits how long it connects and waits, and not how long it sends.
        async with asyncio.timeout(timeout_s + CALL_SLACK_S):
            received, told = await post_chat(
                route.http, body, bounds, self._count, None if timeout_s == self.config.timeout_s else timeout_s
            )
        raw = read_completion(received, bounds, route.endpoint.model, self._count)
        if route.fields.came(received.streamed, usage_told=received.aborted or not raw.counted_here):
            logger.warning("%s streams replies without usage: they are not streamed any more", route.endpoint.base_url)
        usage, latency_s = raw.reply.usage, time.perf_counter() - start
        price = route.price.in_flex() if raw.service_tier == "flex" else route.price
        price = price.charged(usage.prompt_tokens)
        call = call.charged(price)
        request_id = name_of(told.get("x-request-id", ""))
        raw = raw.received(call, price.cost(usage), latency_s, request_id, self._router.without_keys)
        return raw, call, read_headers(told, taken=True)

    def _given_up(self, api_errors: Sequence[ApiError]) -> Exception:
        """What to raise when the last of all rounds brought no reply either."""
        tries = f"Tried {self.config.max_attempts} times."
        if all(api_error.whose == "endpoint" for api_error in api_errors):
            return EndpointError(f"{self._why(api_errors)} {tries}")
        if self._exhausted >= GIVE_UP_AFTER:
            often = f"{self._exhausted} calls in a row have ended so; run the same command again later."
            return EndpointError(f"{self._why(api_errors)} {tries} {often}")
        return replace(api_errors[-1], message=f"{api_errors[-1].message} {tries}").error()

    def _why(self, api_errors: Sequence[ApiError]) -> str:
        """Why the run stops: the last error, or where there are several endpoints what is wrong with each."""
        return self._router.verdict() if self.config.endpoints else api_errors[-1].message

    def _pause(self, tier: _Tier, state: RetryCallState) -> float:
        """Seconds until the next round: what the endpoint asked for, else growing ones."""
        error = state.outcome.exception() if state.outcome else None
        last = error.api_errors[-1] if isinstance(error, _NoReplyError) else None
        if last is not None and last.no_capacity:
            return tier.pause_s(last.retry_after)
        named = last.retry_after if last is not None else None
        return self._backoff(state) if named is None else named


@dataclass(slots=True)
class _Tier:
    """The tier of the endpoint that a call is asked for: ``flex`` until that has been tried often enough, then None and
    the standard one.
    """

    asked: str | None
    flex: FlexConfig | None
    tries: int = 0

    @property
    def fields(self) -> dict[str, str]:
        """What a request has besides. OpenAI's name for the standard tier is "default"."""
        if self.flex is not None:
            return {"service_tier": "flex"}
        return {} if self.asked is None else {"service_tier": "default"}

    def heard(self, api_error: ApiError) -> None:
        """An attempt brought no reply: the flex tier had no capacity, or let the call wait for its whole time."""
        if self.flex is not None and (api_error.no_capacity or api_error.timed_out):
            self.tries += 1
            if self.tries >= self.flex.attempts:
                self.flex = None

    def pause_s(self, named: float | None) -> float:
        """How long a call waits that found no capacity; not at all before it is asked for at the other tier."""
        if self.flex is None:
            return 0.0
        return self.flex.pause_s * 2.0 ** (self.tries - 1) if named is None else named


def _this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("calls are made from tasks of an event loop")
    return task


_WITHOUT_FIELD: Final = ApiError("failed", 400, "asked again without a field of the request", retry=True)

_REMEDIES: Final = {
    "reasoning_effort": "Set llm.reasoning_effort to a value that the model takes, or leave it out.",
    "service_tier": "Set llm.service_tier to a tier that the endpoint has for this model, or leave it out.",
    "logprobs": "The strategy works with the log-probabilities of the reply's tokens: set llm.base_url and llm.model "
    "to an endpoint and a model that give them, or choose another strategy.",
}
"""What to do where a field is refused that cannot be left out."""


class _NoReplyError(Exception):
    """A round brought no reply, and the next may; ``api_errors`` are its attempts', the last one last."""

    def __init__(self, api_errors: Sequence[ApiError]) -> None:
        super().__init__(api_errors[-1].message)
        self.api_errors = api_errors
