"""The one way to a generator: replayed from the journal where it can be, else asked within the limits and the cap.

In batch mode a call waits at the desk first (``batch/``), and goes on here when no batch will answer it.

A call is tried in rounds. In each it goes to one endpoint, and at once to the next while an endpoint gives no reply;
between two rounds it waits.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from okralong.pipelines.answering.journal import JournalRow
from okralong.pipelines.answering.llm.attempt import AttemptFailedError, Attempts
from okralong.pipelines.answering.llm.batch.caller import BatchCaller, BatchDeskClient
from okralong.pipelines.answering.llm.calls import Call
from okralong.pipelines.answering.llm.config import ANALYZE, LlmConfig
from okralong.pipelines.answering.llm.faults import Fault
from okralong.pipelines.answering.llm.ports import LedgerClient, LimiterClient
from okralong.pipelines.answering.llm.prices import Price, PriceTable
from okralong.pipelines.answering.llm.replies import RawReply, from_journal, usable
from okralong.pipelines.answering.llm.request import LlmRequest, hash_of
from okralong.pipelines.answering.llm.route import Route, open_routes
from okralong.pipelines.answering.llm.router import Router
from okralong.pipelines.answering.llm.shared import SharedReplies
from okralong.pipelines.answering.prompts.grammars import grammar
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import EndpointError, Message, Reply

Recorded = Callable[[str, int], JournalRow | None]
"""The last reply recorded at a path and sample of one question, or None."""

GIVE_UP_AFTER = 3
"""Calls in a row that used up all attempts, after which the endpoint counts as down. Ours."""


class _TryAgainError(Exception):
    """A round brought no reply, and the next may; ``faults`` are its attempts', the last one last."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults[-1].message)
        self.faults = faults


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
        desk: BatchDeskClient | None = None,
        transport: Any = None,
    ) -> None:
        """``others`` are the limiters of ``config.endpoints``, in order; ``address`` is where an embedded model
        listens; ``backoff`` first and longest pause, in seconds, of a call between two rounds and of an endpoint that
        does not answer while there are others; ``shared`` are replies of other runs, which are taken instead of paying
        for equal ones; ``desk`` is where calls wait for a batch (None: all are asked in real time);
        ``transport`` carries the requests to ``address`` where no network does.

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
        self._exhausted = 0
        self._shared = shared or SharedReplies()
        price = routes[0].price
        self._batches = None if desk is None else BatchCaller(config, desk, price, self._attempts.meter)

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
            grammar=grammar(role, messages) if config.constrained else None,
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
            raise self._given_up(last.faults) from None
        self._exhausted = 0
        return raw

    async def _round(self, request: LlmRequest, call: Call, numbers: Iterator[int]) -> RawReply:
        """Ask one endpoint, and the others that are worth asking while none replies."""
        tried: list[Route] = []
        faults: list[Fault] = []
        while True:
            number = next(numbers)
            numbered = replace(call, attempt=number, body=call.body if number == 1 else "{}")
            try:
                return await self._attempts.run(request, numbered, tried)
            except AttemptFailedError as failed:
                tried.append(failed.route)
                faults.append(failed.fault)
            if not faults[-1].retry and not faults[-1].final:
                raise faults[-1].error()
            if self._router.all_out:
                raise EndpointError(self._why(faults))
            if not self._router.open(tried):
                raise _TryAgainError(faults)

    def _given_up(self, faults: Sequence[Fault]) -> Exception:
        """What to raise when the last of all rounds brought no reply either."""
        tries = f"Tried {self.config.max_attempts} times."
        if all(fault.whose == "endpoint" for fault in faults):
            return EndpointError(f"{self._why(faults)} {tries}")
        if self._exhausted >= GIVE_UP_AFTER:
            often = f"{self._exhausted} calls in a row have ended so; run the same command again later."
            return EndpointError(f"{self._why(faults)} {tries} {often}")
        return replace(faults[-1], message=f"{faults[-1].message} {tries}").error()

    def _why(self, faults: Sequence[Fault]) -> str:
        """Why the run stops: the fault, or where there are several endpoints what is wrong with each."""
        return self._router.verdict() if self.config.endpoints else faults[-1].message

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        named = error.faults[-1].retry_after if isinstance(error, _TryAgainError) else None
        return self._backoff(state) if named is None else named
