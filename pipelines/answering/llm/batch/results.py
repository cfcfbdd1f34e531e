"""Reading what a batch brought, request by request: what the ledger is told, and what the caller."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from openai.types.chat import ChatCompletion

from okralong.pipelines.answering.llm.batch.item import Answered, BatchAnswer, Missed
from okralong.pipelines.answering.llm.calls import Call, Outcome, unknown
from okralong.pipelines.answering.llm.endpoint_config import EndpointConfig
from okralong.pipelines.answering.llm.faults import ErrorAnswer, Fault, by_status, scrub, without_key
from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.answering.llm.replies import RawReply, read_completion, to_journal
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Usage

Line = dict[str, Any]


@dataclass(frozen=True)
class ResultLines:
    """The lines of a batch's output and error files by custom_id; ``unreadable`` is how many could not be read."""

    lines: dict[str, Line] = field(default_factory=dict)
    unreadable: int = 0

    @classmethod
    def read(cls, files: Iterable[bytes]) -> ResultLines:
        """What stands in the files."""
        lines: dict[str, Line] = {}
        unreadable = 0
        for content in files:
            for text in content.splitlines():
                if not text.strip():
                    continue
                try:
                    line = json.loads(text)
                    lines[str(line["custom_id"])] = line
                except (ValueError, KeyError, TypeError):
                    unreadable += 1
        return cls(lines, unreadable)


@dataclass(frozen=True)
class ResultReader:
    """What the lines of one endpoint mean. ``key`` is removed wherever it turns up."""

    endpoint: EndpointConfig
    key: str = field(repr=False)
    count: CountTokens

    def read(self, call: Call, found: ResultLines, name: str, latency_s: float) -> tuple[Outcome, BatchAnswer]:
        """The outcome of an attempt whose line has this ``name``, and what its caller is told.

        Of a request without a line nothing was done, unless there are lines that cannot be read.
        """
        line = found.lines.get(name)
        if line is None:
            certain = not found.unreadable
            said = "the batch ended without it" if certain else "its line cannot be read among the batch's results"
            return _missed(call, Fault("failed" if certain else "unknown", 0, said, retry=True), latency_s)
        try:
            response, error = line.get("response"), line.get("error")
            if response is None:
                said = f"{error['code']}: {error['message']}" if error else "a line with neither reply nor error"
                return _missed(call, Fault("failed", 0, scrub(said, self.key)[:500], retry=True), latency_s)
            status, body = int(response["status_code"]), response["body"]
            request_id = str(response.get("request_id") or "")
            if status == 200:
                return self._answered(call, body, request_id, latency_s)
            return _missed(call, self._fault(status, body, request_id), latency_s)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            said = f"{self.endpoint.base_url} answered with something that is no chat completion ({error})"
            return _missed(call, Fault("unknown", 200, said, retry=True), latency_s)

    def _answered(self, call: Call, body: Line, request_id: str, latency_s: float) -> tuple[Outcome, BatchAnswer]:
        completion = ChatCompletion.construct(**body)
        if not completion.choices:
            raise ValueError("it has no choices")
        raw = read_completion(completion, (), self.endpoint.model, self.count)
        reply = raw.reply
        cost = _price(call).cost(reply.usage)
        if completion.usage is None:
            # Its prompt is not here any more, so the most that it can have cost stands.
            cost, raw = call.reserved_usd, replace(raw, note="the endpoint reported no usage; the reserve is the cost")
        clean = replace(
            reply,
            text=without_key(reply.text, self.key),
            model=without_key(reply.model, self.key),
            system_fingerprint=without_key(reply.system_fingerprint, self.key),
            cost_usd=cost,
            latency_s=latency_s,
            queue_s=call.queue_s,
        )
        raw = replace(raw, reply=clean, request_id=request_id)
        return _settled(call, raw), Answered(raw)

    def _fault(self, status: int, body: Any, request_id: str) -> Fault:
        error = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {}
        answer = ErrorAnswer(status, str(error.get("code") or ""), str(error.get("type") or ""), request_id)
        said = scrub(str(error.get("message") or body), self.key)[:500]
        where = self.endpoint
        return by_status(answer, f"in a batch: {said}", where.base_url, where.model, where.api_key_env)


def unanswered(call: Call, fault: Fault, latency_s: float = 0.0) -> Outcome:
    """The outcome of an attempt that brought no reply: it cost nothing, or nobody knows and its reserve is held."""
    outcome = replace(unknown(call, fault.message, fault.http_status, latency_s), provider_request_id=fault.request_id)
    return outcome if fault.status == "unknown" else replace(outcome, status="failed", cost_usd=0.0)


def _missed(call: Call, fault: Fault, latency_s: float) -> tuple[Outcome, BatchAnswer]:
    return unanswered(call, fault, latency_s), Missed(fault)


def _price(call: Call) -> Price:
    """The unit prices with which the attempt went out: a batch's."""
    return Price(
        input=call.input_usd_per_million,
        cached_input=call.cached_usd_per_million,
        output=call.output_usd_per_million,
    )


def _settled(call: Call, raw: RawReply) -> Outcome:
    reply = raw.reply
    return Outcome(
        call=call,
        status="ok",
        http_status=200,
        usage=Usage(reply.usage.prompt_tokens, reply.usage.cached_tokens, reply.usage.completion_tokens),
        cost_usd=reply.cost_usd,
        latency_s=reply.latency_s,
        provider_request_id=raw.request_id,
        error=raw.note,
        reply=to_journal(raw),
        snapshot=reply.model,
        system_fingerprint=reply.system_fingerprint,
    )
