"""A call that may wait for its reply: asked at the desk, wave after wave, until it is answered or better off alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from okralong.pipelines.answering.llm.batch.item import (
    Answered,
    BatchAnswer,
    BatchItem,
    InRealtime,
    batch_call_id,
    chat_body,
)
from okralong.pipelines.answering.llm.calls import Call
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.meter import PromptMeter
from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.answering.llm.replies import RawReply
from okralong.pipelines.answering.llm.request import LlmRequest
from okralong.pipelines.core.types import Usage


class BatchDeskClient(Protocol):
    """The one desk of a run."""

    async def ask(self, item: BatchItem) -> BatchAnswer:
        """The reply of a batch, once it is paid for and durable; or why there is none. It may take a day.

        Whoever asks for a call that is under way already, in this process or since an earlier one, waits with it.
        Raises OverBudget, EndpointError or BrokenError.
        """
        ...


class BatchCaller:
    """Calls of one generator by way of a desk."""

    def __init__(self, config: LlmConfig, desk: BatchDeskClient, price: Price, meter: PromptMeter) -> None:
        """``price`` is the first endpoint's, which is where batches go."""
        self._config, self._desk, self._meter = config, desk, meter
        self._price = price

    async def reply(self, request: LlmRequest, call: Call) -> RawReply | None:
        """The reply, None when it is to be asked for in real time.

        Raises OverBudget, EndpointError, BrokenError, or CallFailed where no further attempt would help.
        """
        plain = self._meter.plain(request.messages)
        item = self._item(request, call, self._meter.safe(plain))
        failures = 0
        while failures < self._config.batch.max_failures:
            got = await self._desk.ask(item)
            if isinstance(got, Answered):
                self._meter.learn(plain, got.raw.reply.usage.prompt_tokens)
                return got.raw
            if isinstance(got, InRealtime):
                return None
            if got.fault.final and self._others:
                return None
            if not got.fault.retry:
                raise got.fault.error()
            failures += got.counts
        return None

    @property
    def _others(self) -> Sequence[object]:
        return self._config.endpoints

    def _item(self, request: LlmRequest, call: Call, tokens: int) -> BatchItem:
        price = self._price.in_batch()
        call = replace(
            call,
            call_id=batch_call_id(call.query_id, call.path, call.sample, call.request_hash),
            endpoint=self._config.base_url,
            model=self._config.model,
            input_usd_per_million=price.input,
            cached_usd_per_million=price.cached_input,
            output_usd_per_million=price.output,
            reserved_usd=price.cost(Usage(tokens, 0, request.max_tokens)),
            mode="batch",
        )
        return BatchItem(call, chat_body(request, self._config.max_tokens_field, self._config.model), tokens)
