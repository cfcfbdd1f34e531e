"""The client for all generator calls. It replays them from the journal, or makes them within rate limits and the cap.

``LlmClient.complete`` shows the whole path of one call. In batch mode a call first waits at the batch scheduler, and is
made in real time (``realtime.py``) if no batch will answer it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import CutShort, EndpointError, Message, Reply
from okralong.pipelines.llm.batch_api import BatchItem, batch_call_id
from okralong.pipelines.llm.batch_results import Answered, UseRealtime
from okralong.pipelines.llm.config import ANALYZE, GeneratorConfig
from okralong.pipelines.llm.gateway import EndpointLimiter
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ports import NO_STEPS, GatewayPort, SchedulerPort, Steps
from okralong.pipelines.llm.prices import Price, PriceTable
from okralong.pipelines.llm.realtime import CallTracker, RealtimeCalls
from okralong.pipelines.llm.records import Call
from okralong.pipelines.llm.reply import RawReply, SharedReplies, from_journal, usable
from okralong.pipelines.llm.request import LlmRequest, PromptMeter, hash_of
from okralong.pipelines.llm.router import Router, open_routes
from okralong.pipelines.llm.usage import UNDECIDED, Bounds
from okralong.pipelines.models.weights import EMBEDDED

LONGER: Final = 4  # project default
"""Factor on the limit of a reply that is requested again because it was truncated."""
LONGER_VALUE: Final = 2  # project default
"""The same for a reply whose length the answer type bounds."""
COUNTED: Final = {"openai": 1.0, "anthropic": 1.35, "google": 1.2}
"""Tokens of a provider's models for one of ``o200k_base``, with which the first calls are reserved. Anthropic documents
about 30 % more tokens for its models since Opus 4.7; Google's figure is a project default."""
Recorded = Callable[[str, int], JournalRow | None]
"""A function that returns the last reply recorded at a path and sample of one question, or None."""


class LlmClient:
    """Calls one configured generator, any number of times concurrently, from one event loop."""

    def __init__(
        self,
        config: GeneratorConfig,
        gateway: GatewayPort,
        prices: PriceTable | None = None,
        *,
        first_limiter: int = 0,
        address: str | None = None,
        tags: Mapping[str, str] | None = None,
        backoff: tuple[float, float] = (0.5, 30.0),
        shared: SharedReplies | None = None,
        scheduler: SchedulerPort | None = None,
        transport: Any = None,
        grammar: Callable[[str, Sequence[Message], str], str | None] | None = None,
        reply_schema: Callable[[str], str | None] | None = None,
        reply_tokens: Callable[[str], int | None] | None = None,
    ) -> None:
        """Open the routes to all endpoints of ``config``.

        Args:
            config: The generator.
            gateway: The run's gateway.
            prices: The price table; by default the shipped one.
            first_limiter: The position, at the gateway, of the first endpoint's limiter. Those of ``config.endpoints``
                follow it.
            address: Where an embedded model listens.
            tags: Added to every ledger row.
            backoff: First and longest pause in seconds, of a call between rounds and of a failing endpoint that has
                alternatives.
            shared: Replies of other runs, which are reused for equal requests.
            scheduler: The scheduler at which calls wait for a batch; with None, all calls are made in real time.
            transport: Carries the requests to ``address`` in place of the network.
            grammar: Returns the grammar of a reply, given a role, a prompt and an answer type ("" for text). Grammars
                are sent if the config is ``constrained``, and to the embedded model for typed answers.
            reply_schema: Returns the JSON schema of an answer type, which is sent if no grammar is.
            reply_tokens: Returns the most tokens of a reply of an answer type, None if the role alone limits it.

        Raises:
            ConfigError: A model has no price, the tokenizer is unknown, or a required key is missing.
        """
        self.config = config
        self._gateway = gateway
        count = token_counter(config.tokenizer)
        self.meter = PromptMeter(count, max(COUNTED[each.provider] for each in config.all_endpoints))
        limiters = [EndpointLimiter(gateway, first_limiter + at) for at in range(len(config.all_endpoints))]
        self.router = Router(open_routes(config, limiters, prices or PriceTable.load(), address, backoff, transport))
        self._batch_price = self.router.routes[0].price.in_batch()
        self._tags = dict(tags or {})
        self._grammar = grammar
        self._reply_schema = reply_schema
        self._reply_tokens = reply_tokens
        self._shared = shared or SharedReplies()
        self._scheduler = scheduler
        self._tracker = CallTracker()
        self._realtime = RealtimeCalls(
            config, gateway, self.router, self.meter, count, self._tracker, first_limiter, backoff
        )

    def __repr__(self) -> str:
        return f"LlmClient({self.config.model!r} at {self.config.base_url!r})"

    @property
    def price(self) -> Price:
        """The highest token prices among the endpoints that may be called."""
        return self.router.highest_price

    async def aclose(self) -> None:
        """Close the connections."""
        await self.router.aclose()

    def halt(self, why: str) -> int:
        """Stop sending. Waiting and later calls raise StoppedError at once.

        Returns the number of calls in flight, which continue until their replies are durable.
        """
        return self._tracker.halt(why)

    async def drain(self, grace_s: float) -> int:
        """Wait up to ``grace_s`` seconds for the calls in flight of a halted client, then give them up as unknown.

        Returns the number of calls that were given up.
        """
        return await self._tracker.drain(grace_s)

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
        """Return the reply at a step of a question.

        Args:
            query_id: The question.
            path: The step's path within the question.
            role: The role of the call, which determines the limit of the reply.
            messages: The prompt.
            sample: The number of the draw, if one prompt is sent several times.
            answer_type: The type of the wanted answer, "" for text.
            logprobs: Whether to request the texts and log-probabilities of the reply's tokens.
            longer: Whether to allow up to ``LONGER`` times the limit (``LONGER_VALUE`` times for a type that bounds its
                replies), if the window has room.
            recorded: Returns the question's earlier replies; by default the ledger is asked, which costs a message.
            pending: Returns the question's steps that are not durable yet; they become so before the request is sent.

        Raises:
            OverBudget, EndpointError, StoppedError: The run stops.
            CallFailed: No reply arrived.
            ReplyError: The reply is unusable; it is in the journal.
            QuestionError: The prompt exceeds the account's limit per minute.
        """
        config = self.config
        rules = self._rules(role, messages, answer_type)
        request = LlmRequest(
            model=config.model,
            base_url=config.base_url,
            messages=tuple(messages),
            max_tokens=self._limit(role, messages, longer, answer_type),
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
            provider=None if config.provider == "openai" else config.provider,
        )
        canonical = request.canonical()
        request_hash = hash_of(canonical)
        longest = Bounds(0, request.max_tokens).longest_text
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
            body=self.router.without_keys(canonical),
        )
        if (shared := self._shared.take(call)) is not None:
            raw, outcome = shared
            as_priced = call.charged(price.charged(outcome.usage.prompt_tokens))
            outcome = replace(outcome, call=as_priced)
            await self._gateway.came(outcome, steps=pending())
        else:
            raw = await self._ask(request, call, pending)
        return usable(raw, longest, logprobs=logprobs)

    def _limit(self, role: str, messages: Sequence[Message], longer: bool, answer_type: str) -> int:
        at_most = self._reply_tokens(answer_type) if answer_type and self._reply_tokens else None
        limit = self.config.completion_limit(role, at_most)
        if not longer:
            return limit
        room = min(
            (LONGER if at_most is None else LONGER_VALUE) * limit, self.config.window - self.meter.plain(messages)
        )
        if room <= limit:
            raise CutShort(
                f"The reply was cut off at its limit of {limit} tokens, and the window has no room for more."
            )
        return room

    def _rules(self, role: str, messages: Sequence[Message], answer_type: str) -> str | None:
        """Return the grammar that is sent with a prompt, or None."""
        config = self.config
        typed = bool(answer_type) and config.base_url == EMBEDDED and config.json_schema != "never"
        return self._grammar(role, messages, answer_type) if self._grammar and (config.constrained or typed) else None

    def _schema(self, answer_type: str) -> str | None:
        """Return the JSON schema for a reply of this type, or None."""
        if not answer_type or self._reply_schema is None or self.config.json_schema == "never":
            return None
        return self._reply_schema(answer_type)

    async def _ask(self, request: LlmRequest, call: Call, pending: Callable[[], Steps]) -> RawReply:
        """Send the request and return the reply. Raises StoppedError if the client is halted before it is sent."""
        with self._tracker.waiting():
            answered = (
                None if self._scheduler is None else await self._in_batch(self._scheduler, request, call, pending)
            )
            if answered is None:  # the attempt starts only now: waiting for a batch may have taken hours
                answered = await self._realtime.ask(request, replace(call, started_at=datetime.now(UTC)), pending)
            if answered.undecided:
                raise EndpointError(UNDECIDED)
            return answered

    async def _in_batch(
        self, scheduler: SchedulerPort, request: LlmRequest, call: Call, pending: Callable[[], Steps]
    ) -> RawReply | None:
        """Return a batch's reply from the first endpoint, or None if the call should be made in real time."""
        config, price = self.config, self._batch_price
        first = self.router.routes[0]
        plain = self.meter.of_request(request)
        tokens = self.meter.safe(plain)
        call = replace(
            call.addressed(config.base_url, config.model, price.charged(tokens)),
            call_id=batch_call_id(call.query_id, call.path, call.sample, call.request_hash),
            reserved_usd=price.most(tokens, request.max_tokens),
            most_usd=price.most(config.window, max(request.max_tokens, config.window)),
            mode="batch",
        )
        item = BatchItem.of(request, call, tokens, first.body(request))
        if steps := pending():  # the scheduler does not record them
            await self._gateway.record(call.query_id, steps)
        failures = 0
        while failures < config.batch.max_failures:
            got = await scheduler.ask(item)
            if isinstance(got, Answered):
                if got.raw.tells_tokenizer(tokens):
                    self.meter.learn(plain, got.raw.reply.usage.prompt_tokens)
                return got.raw
            if isinstance(got, UseRealtime) or (got.api_error.final and config.endpoints):
                return None
            if first.can_do_without(got.api_error, item.sent, request):
                item = BatchItem.of(request, call, tokens, first.body(request))
                continue
            if not got.api_error.retry:
                raise got.api_error.error()
            failures += got.counts
        return None
