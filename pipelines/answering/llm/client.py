"""The one way to a generator: replayed from the journal where it can be, else asked within the limits and the cap.

Each attempt runs: cost reserved, leave from the limiter, intent durable, HTTP, outcome durable, leave given back. Only
then does the caller see the reply, so that a reply that was used was always paid for once and is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from openai.types.chat import ChatCompletion
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from okralong.pipelines.answering.analysis import ANALYZE
from okralong.pipelines.answering.llm.calls import Call, Outcome, unknown
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.endpoint import open_client, read_key
from okralong.pipelines.answering.llm.faults import Fault, classify, without_key
from okralong.pipelines.answering.llm.meter import PromptMeter
from okralong.pipelines.answering.llm.ports import Grant, LedgerClient, LimiterClient
from okralong.pipelines.answering.llm.prices import PriceTable
from okralong.pipelines.answering.llm.replies import RawReply, from_journal, read_completion, to_journal, usable
from okralong.pipelines.answering.llm.request import LlmRequest
from okralong.pipelines.answering.llm.shared import SharedReplies
from okralong.pipelines.answering.prompts.grammars import GRAMMARS
from okralong.pipelines.errors import EndpointError, OverBudget
from okralong.pipelines.tokens import token_counter
from okralong.pipelines.values import Message, Reply, Usage

logger = logging.getLogger(__name__)

LEASE_SLACK_S = 60.0
"""How long after the timeout a lease of the limiter ends by itself, should its holder have died. Ours."""
GIVE_UP_AFTER = 3
"""Calls in a row that used up all attempts, after which the endpoint counts as down. Ours."""


class _TryAgainError(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class LlmClient:
    """Calls of one configured generator, from one event loop. Any number at a time."""

    def __init__(
        self,
        config: LlmConfig,
        ledger: LedgerClient,
        limiter: LimiterClient,
        prices: PriceTable | None = None,
        *,
        address: str | None = None,
        tags: Mapping[str, str] | None = None,
        backoff: tuple[float, float] = (0.5, 30.0),
        shared: SharedReplies | None = None,
    ) -> None:
        """``address`` is where an embedded model listens; ``backoff`` first and longest pause in seconds; ``shared``
        are replies of other runs, which are taken instead of paying for equal ones.

        Raises ConfigError when the model has no price, the tokenizer is unknown, or a key is needed and missing.
        """
        self.config = config
        self.price = (prices or PriceTable.load()).price(config.model, config.price)
        self._ledger, self._limiter = ledger, limiter
        self._count = token_counter(config.tokenizer)
        self._key = read_key(config)
        self._address = address or config.base_url
        self._http = open_client(config, self._address, self._key)
        self._tags = dict(tags or {})
        self._backoff = wait_exponential_jitter(initial=backoff[0], max=backoff[1], jitter=backoff[0])
        self._exhausted = 0
        self._meter = PromptMeter(self._count)
        self._shared = shared or SharedReplies()

    def __repr__(self) -> str:
        return f"LlmClient({self.config.model!r} at {self.config.base_url!r})"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.close()

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Prompt tokens on the safe side, as they would be reserved."""
        return self._meter.safe(self._meter.plain(messages))

    async def complete(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        sample: int = 0,
    ) -> Reply:
        """The reply at a step of a question.

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
            grammar=GRAMMARS.get(role) if config.constrained else None,
        )
        seen = await self._ledger.reply(query_id, path, sample)
        if seen is not None and seen.request_hash == request.request_hash:
            return usable(from_journal(seen.body))
        call = Call(
            call_id=uuid.uuid4().hex,
            attempt=1,
            query_id=query_id,
            path=path,
            sample=sample,
            role=role,
            model=config.model,
            request_hash=request.request_hash,
            input_usd_per_million=self.price.input,
            cached_usd_per_million=self.price.cached_input,
            output_usd_per_million=self.price.output,
            reserved_usd=0.0,
            queue_s=0.0,
            started_at=datetime.now(UTC),
            tags=self._tags,
            body=without_key(request.canonical(), self._key),
        )
        taken = self._shared.take(call)
        if taken is not None:
            raw, outcome = taken
            await self._ledger.settle(outcome)
            return usable(raw)
        return usable(await self._with_retries(request, call))

    async def _with_retries(self, request: LlmRequest, call: Call) -> RawReply:
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(_TryAgainError),
            stop=stop_after_attempt(self.config.max_attempts),
            wait=self._pause,
            reraise=True,
        )
        try:
            async for attempt in attempts:
                with attempt:
                    number = attempt.retry_state.attempt_number
                    body = call.body if number == 1 else "{}"
                    raw = await self._attempt(request, replace(call, attempt=number, body=body))
        except _TryAgainError as last:
            self._exhausted += 1
            message = f"{last.fault.message} Tried {self.config.max_attempts} times."
            if self._exhausted >= GIVE_UP_AFTER and last.fault.whose == "question":
                raise EndpointError(
                    f"{message} {self._exhausted} calls in a row have ended so; run the same command again later."
                ) from None
            raise replace(last.fault, message=message).error() from None
        self._exhausted = 0
        return raw

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        named = error.fault.retry_after if isinstance(error, _TryAgainError) else None
        return self._backoff(state) if named is None else named

    async def _attempt(self, request: LlmRequest, call: Call) -> RawReply:
        plain = self._meter.plain(request.messages)
        estimate = self._meter.safe(plain)
        tokens = estimate + request.max_tokens
        call = replace(call, reserved_usd=self.price.cost(Usage(estimate, 0, request.max_tokens)))
        grant: Grant | None = None
        sent_at: float | None = None
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd)
            grant = await self._limiter.acquire(tokens, self.config.timeout_s + LEASE_SLACK_S)
            call = replace(call, queue_s=grant.queue_s, started_at=datetime.now(UTC))
            await self._ledger.intend(call)
            sent_at = time.perf_counter()
            raw = await self._send(request, call)
        except asyncio.CancelledError:
            late = unknown(call, "cancelled while in flight", latency_s=_since(sent_at))
            await asyncio.shield(self._ledger.settle(_unsent(call, "cancelled") if sent_at is None else late))
            raise
        except OverBudget:  # nothing is reserved, and nothing went out
            raise
        except Exception as error:
            if sent_at is None:
                await _quietly(self._ledger.settle(_unsent(call, str(error))))
                raise
            raise await self._failed(call, error, _since(sent_at)) from None
        else:
            self._meter.learn(plain, raw.reply.usage.prompt_tokens)
            await asyncio.shield(self._ledger.settle(_arrived(call, raw)))
            return raw
        finally:
            if grant is not None:
                await _quietly(self._limiter.release(grant.lease))

    async def _send(self, request: LlmRequest, call: Call) -> RawReply:
        start = time.perf_counter()
        response = await self._http.chat.completions.with_raw_response.create(
            **request.parameters(self.config.max_tokens_field)
        )
        completion = response.parse()
        if not isinstance(completion, ChatCompletion) or not completion.choices:
            raise ValueError(f"the body is no chat completion: {str(completion)[:200]}")
        raw = read_completion(completion, request, self._count)
        reply = replace(
            raw.reply,
            text=without_key(raw.reply.text, self._key),
            cost_usd=self.price.cost(raw.reply.usage),
            latency_s=time.perf_counter() - start,
            queue_s=call.queue_s,
        )
        return replace(raw, reply=reply, request_id=response.headers.get("x-request-id", ""))

    async def _failed(self, call: Call, error: Exception, latency_s: float) -> Exception:
        """Settle an attempt that brought no reply; returns the exception to raise."""
        fault = classify(error, self.config.base_url, self.config.model, self.config.api_key_env, self._key)
        if fault.limited:
            await _quietly(self._limiter.penalise(fault.retry_after))
        outcome = replace(
            unknown(call, fault.message, fault.http_status, latency_s), provider_request_id=fault.request_id
        )
        if fault.status == "failed":
            outcome = replace(outcome, status="failed", cost_usd=0.0)
        await self._ledger.settle(outcome)
        return _TryAgainError(fault) if fault.retry else fault.error()


def _since(start: float | None) -> float:
    return 0.0 if start is None else time.perf_counter() - start


async def _quietly(work: Awaitable[None]) -> None:
    """Await what may fail without harm to the question: a lost lease ends by itself, a lost reserve with it."""
    try:
        await work
    except Exception as error:
        logger.warning("%s: %s", type(error).__name__, error)


def _unsent(call: Call, why: str) -> Outcome:
    return replace(unknown(call, f"never sent: {why}"), status="failed", cost_usd=0.0)


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
    )
