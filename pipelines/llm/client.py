"""One attempt at a call, from its reserve to its ledger row.

Cost reserved, leave from a limiter, intent durable, HTTP, outcome durable, leave given back. Only then does the caller
see the reply, so that a reply that was used was always paid for once and is on disk.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from openai.types.chat import ChatCompletion
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from okralong.pipelines.core.tokens import CountTokens, token_counter
from okralong.pipelines.core.types import EndpointError, Message, OverBudget, Reply, Usage
from okralong.pipelines.llm.batch import BatchCaller, BatchSchedulerClient
from okralong.pipelines.llm.config import ANALYZE, LlmConfig
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.prices import Price, PriceTable
from okralong.pipelines.llm.rate_limit import NO_HEADERS, RateLimitHeaders, read_headers
from okralong.pipelines.llm.records import Call, LedgerClient, LimiterClient, Outcome, unknown
from okralong.pipelines.llm.reply import RawReply, SharedReplies, from_journal, read_completion, to_journal, usable
from okralong.pipelines.llm.request import LlmRequest, PromptMeter, hash_of
from okralong.pipelines.llm.routing import ApiError, Route, Router, best_effort, error_headers, open_routes

PERMIT_SLACK_S = 60.0
"""How long after the timeout a lease of the limiter ends by itself, should its holder have died. Ours."""


class AttemptFailedError(Exception):
    """An endpoint was asked and gave no reply; the ledger has the row."""

    def __init__(self, route: Route, api_error: ApiError) -> None:
        super().__init__(api_error.message)
        self.route, self.api_error = route, api_error


class Attempts:
    """Sends requests by ``router``'s choice and writes down what came of them."""

    def __init__(self, config: LlmConfig, ledger: LedgerClient, router: Router, count: CountTokens) -> None:
        self.meter = PromptMeter(count)
        self._config, self._ledger, self._router, self._count = config, ledger, router, count

    async def run(self, request: LlmRequest, call: Call, tried: Sequence[Route]) -> RawReply:
        """The reply of an endpoint, if it can be of one that was not ``tried``; ``call`` says whose attempt it is.

        Raises AttemptFailedError, and OverBudget, EndpointError or QuestionError when nothing was sent.
        """
        plain = self.meter.plain(request.messages)
        estimate = self.meter.safe(plain)
        tokens = estimate + request.max_tokens
        call = replace(call, reserved_usd=self._router.dearest.cost(Usage(estimate, 0, request.max_tokens)))
        route: Route | None = None
        permit: int | None = None
        headers = NO_HEADERS
        sent_at: float | None = None
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd)
            asked_at = time.perf_counter()
            route, granted = await self._router.acquire(tokens, self._config.timeout_s + PERMIT_SLACK_S, tried)
            permit = granted.id
            call = replace(route.addressed(call), queue_s=_since(asked_at), started_at=datetime.now(UTC))
            await self._ledger.intend(call)
            sent_at = self._router.clock()
            raw, headers = await self._send(route, request, call)
        except asyncio.CancelledError:
            late = unknown(call, "cancelled while in flight", latency_s=self._latency(sent_at))
            await asyncio.shield(self._ledger.settle(_unsent(call, "cancelled") if sent_at is None else late))
            raise
        except OverBudget:  # nothing is reserved, and nothing went out
            raise
        except Exception as error:
            if route is None or sent_at is None:
                await best_effort(self._ledger.settle(_unsent(call, self._router.without_keys(str(error)))))
                raise
            api_error = self._fault(route, error, sent_at)
            if permit is not None:  # at once: what slows everyone down does not wait for the disk
                await best_effort(route.limiter.release(permit, error_headers(error, api_error)))
                permit = None
            await self._ledger.settle(_failed(call, api_error, self._latency(sent_at)))
            raise AttemptFailedError(route, api_error) from None
        else:
            route.breaker.answered()
            self.meter.learn(plain, raw.reply.usage.prompt_tokens)
            await asyncio.shield(self._ledger.settle(_arrived(call, raw)))
            return raw
        finally:
            if route is not None and permit is not None:
                await best_effort(route.limiter.release(permit, headers, unsent=sent_at is None))

    async def _send(self, route: Route, request: LlmRequest, call: Call) -> tuple[RawReply, RateLimitHeaders]:
        start = time.perf_counter()
        response = await route.http.chat.completions.with_raw_response.create(
            **request.parameters(self._config.max_tokens_field, route.endpoint.model)
        )
        completion = response.parse()
        if not isinstance(completion, ChatCompletion) or not completion.choices:
            raise ValueError(f"the body is no chat completion: {str(completion)[:200]}")
        raw = read_completion(completion, request.messages, route.endpoint.model, self._count)
        clean = self._router.without_keys
        text = clean(raw.reply.text)
        same = text == raw.reply.text  # else the tokens would spell what was taken out
        reply = replace(
            raw.reply,
            text=text,
            tokens=raw.reply.tokens if same else (),
            token_logprobs=raw.reply.token_logprobs if same else (),
            model=clean(raw.reply.model),
            system_fingerprint=clean(raw.reply.system_fingerprint),
            cost_usd=route.price.cost(raw.reply.usage),
            latency_s=_since(start),
            queue_s=call.queue_s,
        )
        raw = replace(raw, reply=reply, request_id=response.headers.get("x-request-id", ""))
        return raw, read_headers(response.headers, taken=True)

    def _fault(self, route: Route, error: Exception, sent_at: float) -> ApiError:
        api_error = route.api_error(error)
        api_error = replace(api_error, message=self._router.without_keys(api_error.message))
        route.breaker.failed(self._router.clock(), sent_at, api_error)
        return api_error

    def _latency(self, sent_at: float | None) -> float:
        return 0.0 if sent_at is None else self._router.clock() - sent_at


def _since(start: float) -> float:
    return time.perf_counter() - start


def _unsent(call: Call, why: str) -> Outcome:
    return replace(unknown(call, f"never sent: {why}"), status="failed", cost_usd=0.0)


def _failed(call: Call, api_error: ApiError, latency_s: float) -> Outcome:
    outcome = unknown(call, api_error.message, api_error.http_status, latency_s)
    outcome = replace(outcome, provider_request_id=api_error.request_id)
    return outcome if api_error.status == "unknown" else replace(outcome, status="failed", cost_usd=0.0)


def _arrived(call: Call, raw: RawReply) -> Outcome:
    reply = raw.reply
    return Outcome(
        call=call,
        status="ok",
        http_status=200,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        latency_s=reply.latency_s,
        provider_request_id=raw.request_id,
        error=raw.note,
        reply=to_journal(raw),
        snapshot=reply.model,
        system_fingerprint=reply.system_fingerprint,
    )


# --------
# The one way to a generator: replayed from the journal where it can be, else asked within the limits and the cap.
#
# In batch mode a call waits at the desk first (``batch/``), and goes on here when no batch will answer it.
#
# A call is tried in rounds. In each it goes to one endpoint, and at once to the next while an endpoint gives no reply;
# between two rounds it waits.

Recorded = Callable[[str, int], JournalRow | None]
"""The last reply recorded at a path and sample of one question, or None."""

GIVE_UP_AFTER = 3
"""Calls in a row that used up all attempts, after which the endpoint counts as down. Ours."""


class _TryAgainError(Exception):
    """A round brought no reply, and the next may; ``api_errors`` are its attempts', the last one last."""

    def __init__(self, api_errors: Sequence[ApiError]) -> None:
        super().__init__(api_errors[-1].message)
        self.api_errors = api_errors


class LlmClient:
    """Calls of one configured generator, from one event loop. Any number at a time."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: LedgerClient,
        limiter: LimiterClient,
        prices: PriceTable | None = None,
        *,
        others: Sequence[LimiterClient] = (),
        address: str | None = None,
        tags: Mapping[str, str] | None = None,
        backoff: tuple[float, float] = (0.5, 30.0),
        shared: SharedReplies | None = None,
        scheduler: BatchSchedulerClient | None = None,
        transport: Any = None,
        grammar: Callable[[str, Sequence[Message]], str | None] | None = None,
    ) -> None:
        """``others`` are the limiters of ``config.endpoints``, in order; ``address`` is where an embedded model
        listens; ``backoff`` first and longest pause, in seconds, of a call between two rounds and of an endpoint that
        does not answer while there are others; ``shared`` are replies of other runs, which are taken instead of paying
        for equal ones; ``scheduler`` is where calls wait for a batch (None: all are asked in real time);
        ``transport`` carries the requests to ``address`` where no network does; ``grammar`` gives the grammar of the
        reply to a prompt of a role, which is sent where the config is ``constrained``.

        Raises ConfigError when a model has no price, the tokenizer is unknown, or a key is needed and missing.
        """
        self.config = config
        count = token_counter(config.tokenizer)
        routes = open_routes(config, [limiter, *others], prices or PriceTable.load(), address, backoff, transport)
        self._router = Router(routes)
        self._ledger = ledger
        self._attempts = Attempts(config, ledger, self._router, count)
        self._tags = dict(tags or {})
        self._backoff = wait_exponential_jitter(initial=backoff[0], max=backoff[1], jitter=backoff[0])
        self._grammar = grammar
        self._exhausted = 0
        self._shared = shared or SharedReplies()
        price = routes[0].price
        self._batches = None if scheduler is None else BatchCaller(config, scheduler, price, self._attempts.meter)

    def __repr__(self) -> str:
        return f"LlmClient({self.config.model!r} at {self.config.base_url!r})"

    @property
    def price(self) -> Price:
        """What a token costs at most: the dearest price among the endpoints that may be asked."""
        return self._router.dearest

    async def aclose(self) -> None:
        """Close the connections."""
        await self._router.aclose()

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Prompt tokens on the safe side, as they would be reserved."""
        return self._attempts.meter.safe(self._attempts.meter.plain(messages))

    async def complete(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        sample: int = 0,
        recorded: Recorded | None = None,
    ) -> Reply:
        """The reply at a step of a question. ``recorded`` knows the question's replies from before; without it the
        ledger is asked, which costs a message to it.

        With ``logprobs`` it has the texts of its tokens and their log-probabilities.

        Raises OverBudget, EndpointError (stop the run), CallFailed (no reply came), ReplyError (one came that is of no
        use; it is in the journal) or QuestionError (no minute of the account can hold the prompt).
        """
        config = self.config
        request = LlmRequest(
            model=config.model,
            base_url=config.base_url,
            messages=tuple(messages),
            max_tokens=config.completion_limit(role),
            temperature=config.temperature,
            top_p=config.top_p,
            seed=config.seed,
            logprobs=logprobs,
            stop=tuple(config.stop),
            sample=sample,
            api_version=config.api_version,
            response_format="json_object" if role == ANALYZE else None,
            grammar=self._grammar(role, messages) if config.constrained and self._grammar else None,
            others=tuple(endpoint.identity for endpoint in config.endpoints),
        )
        canonical = request.canonical()
        request_hash = hash_of(canonical)
        seen = await self._ledger.reply(query_id, path, sample) if recorded is None else recorded(path, sample)
        if seen is not None and seen.request_hash == request_hash:
            return usable(from_journal(seen.body), logprobs=logprobs)
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
            reserved_usd=0.0,
            queue_s=0.0,
            started_at=datetime.now(UTC),
            tags=self._tags,
            body=self._router.without_keys(canonical),
        )
        taken = self._shared.take(call)
        if taken is not None:
            raw, outcome = taken
            await self._ledger.settle(outcome)
            return usable(raw, logprobs=logprobs)
        if self._batches is not None and (late := await self._batches.reply(request, call)) is not None:
            return usable(late, logprobs=logprobs)
        call = replace(call, started_at=datetime.now(UTC))  # a batch may have taken its hours before
        return usable(await self._with_retries(request, call), logprobs=logprobs)

    async def _with_retries(self, request: LlmRequest, call: Call) -> RawReply:
        rounds = AsyncRetrying(
            retry=retry_if_exception_type(_TryAgainError),
            stop=stop_after_attempt(self.config.max_attempts),
            wait=self._pause,
            reraise=True,
        )
        numbers = itertools.count(1)
        try:
            async for one in rounds:
                with one:
                    raw = await self._round(request, call, numbers)
        except _TryAgainError as last:
            self._exhausted += 1
            raise self._given_up(last.api_errors) from None
        self._exhausted = 0
        return raw

    async def _round(self, request: LlmRequest, call: Call, numbers: Iterator[int]) -> RawReply:
        """Ask one endpoint, and the others that are worth asking while none replies."""
        tried: list[Route] = []
        api_errors: list[ApiError] = []
        while True:
            number = next(numbers)
            numbered = replace(call, attempt=number, body=call.body if number == 1 else "{}")
            try:
                return await self._attempts.run(request, numbered, tried)
            except AttemptFailedError as failed:
                tried.append(failed.route)
                api_errors.append(failed.api_error)
            if not api_errors[-1].retry and not api_errors[-1].final:
                raise api_errors[-1].error()
            if self._router.all_out:
                raise EndpointError(self._why(api_errors))
            if not self._router.open(tried):
                raise _TryAgainError(api_errors)

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
        """Why the run stops: the fault, or where there are several endpoints what is wrong with each."""
        return self._router.verdict() if self.config.endpoints else api_errors[-1].message

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        named = error.api_errors[-1].retry_after if isinstance(error, _TryAgainError) else None
        return self._backoff(state) if named is None else named
