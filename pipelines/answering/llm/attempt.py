"""One attempt at a call, from its reserve to its ledger row.

Cost reserved, leave from a limiter, intent durable, HTTP, outcome durable, leave given back. Only then does the caller
see the reply, so that a reply that was used was always paid for once and is on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from openai.types.chat import ChatCompletion

from okralong.pipelines.answering.llm.calls import Call, Outcome, unknown
from okralong.pipelines.answering.llm.config import LlmConfig
from okralong.pipelines.answering.llm.faults import Fault, notice_of
from okralong.pipelines.answering.llm.meter import PromptMeter
from okralong.pipelines.answering.llm.ports import LedgerClient
from okralong.pipelines.answering.llm.quota_headers import SILENT, Notice, read_notice
from okralong.pipelines.answering.llm.replies import RawReply, read_completion, to_journal
from okralong.pipelines.answering.llm.request import LlmRequest
from okralong.pipelines.answering.llm.route import Route
from okralong.pipelines.answering.llm.router import Router, quietly
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import OverBudget, Usage

LEASE_SLACK_S = 60.0
"""How long after the timeout a lease of the limiter ends by itself, should its holder have died. Ours."""


class AttemptFailedError(Exception):
    """An endpoint was asked and gave no reply; the ledger has the row."""

    def __init__(self, route: Route, fault: Fault) -> None:
        super().__init__(fault.message)
        self.route, self.fault = route, fault


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
        lease: int | None = None
        notice = SILENT
        sent_at: float | None = None
        try:
            await self._ledger.reserve(call.key, call.query_id, call.reserved_usd)
            asked_at = time.perf_counter()
            route, grant = await self._router.leave(tokens, self._config.timeout_s + LEASE_SLACK_S, tried)
            lease = grant.lease
            call = replace(route.addressed(call), queue_s=_since(asked_at), started_at=datetime.now(UTC))
            await self._ledger.intend(call)
            sent_at = self._router.clock()
            raw, notice = await self._send(route, request, call)
        except asyncio.CancelledError:
            late = unknown(call, "cancelled while in flight", latency_s=self._latency(sent_at))
            await asyncio.shield(self._ledger.settle(_unsent(call, "cancelled") if sent_at is None else late))
            raise
        except OverBudget:  # nothing is reserved, and nothing went out
            raise
        except Exception as error:
            if route is None or sent_at is None:
                await quietly(self._ledger.settle(_unsent(call, self._router.without_keys(str(error)))))
                raise
            fault = self._fault(route, error, sent_at)
            if lease is not None:  # at once: what slows everyone down does not wait for the disk
                await quietly(route.limiter.release(lease, notice_of(error, fault)))
                lease = None
            await self._ledger.settle(_failed(call, fault, self._latency(sent_at)))
            raise AttemptFailedError(route, fault) from None
        else:
            route.breaker.answered()
            self.meter.learn(plain, raw.reply.usage.prompt_tokens)
            await asyncio.shield(self._ledger.settle(_arrived(call, raw)))
            return raw
        finally:
            if route is not None and lease is not None:
                await quietly(route.limiter.release(lease, notice, unsent=sent_at is None))

    async def _send(self, route: Route, request: LlmRequest, call: Call) -> tuple[RawReply, Notice]:
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
        return raw, read_notice(response.headers, taken=True)

    def _fault(self, route: Route, error: Exception, sent_at: float) -> Fault:
        fault = route.fault(error)
        fault = replace(fault, message=self._router.without_keys(fault.message))
        route.breaker.failed(self._router.clock(), sent_at, fault)
        return fault

    def _latency(self, sent_at: float | None) -> float:
        return 0.0 if sent_at is None else self._router.clock() - sent_at


def _since(start: float) -> float:
    return time.perf_counter() - start


def _unsent(call: Call, why: str) -> Outcome:
    return replace(unknown(call, f"never sent: {why}"), status="failed", cost_usd=0.0)


def _failed(call: Call, fault: Fault, latency_s: float) -> Outcome:
    outcome = unknown(call, fault.message, fault.http_status, latency_s)
    outcome = replace(outcome, provider_request_id=fault.request_id)
    return outcome if fault.status == "unknown" else replace(outcome, status="failed", cost_usd=0.0)


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
