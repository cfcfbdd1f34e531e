"""Parse the result files of a finished batch into outcomes of attempts and answers to callers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.llm.completion import (
    NoCompletion,
    Received,
    checked,
    name_of,
    read_completion,
    read_integer,
)
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.error_body import read_error, shortened
from okralong.pipelines.llm.errors import ApiError, Asked, ErrorResponse, by_status, scrub, without_key
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.records import Call, Outcome
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.usage import Bounds, Trust


@dataclass(frozen=True, slots=True)
class Answered:
    """The reply arrived; it is paid for and durable."""

    raw: RawReply


@dataclass(frozen=True, slots=True)
class NoReply:
    """A batch brought no reply; if ``api_error.retry``, another batch may.

    ``counts`` is True if this is one of the failures after which a request is sent in real time.
    """

    api_error: ApiError
    counts: bool = True


@dataclass(frozen=True, slots=True)
class UseRealtime:
    """No batch will answer the call, so that it must be sent in real time."""

    why: str


BatchAnswer = Answered | NoReply | UseRealtime
LONGEST_LINE: Final = 16 * 1024 * 1024
"""The most bytes of a result line; a longer one counts as unreadable. # project default"""
Line = dict[str, Any]


@dataclass(frozen=True)
class ResultLines:
    """The lines of a batch's output and error files by custom_id, and the number of unreadable lines."""

    lines: dict[str, Line] = field(default_factory=dict)
    unreadable: int = 0

    @classmethod
    def read(cls, files: Iterable[bytes], translate: Callable[[Line], Line] = lambda line: line) -> ResultLines:
        """Parse the files; ``translate`` is ``BatchApi.result``."""
        lines: dict[str, Line] = {}
        unreadable = 0
        for content in files:
            for text in content.splitlines():
                if not text.strip():
                    continue
                try:
                    if len(text) > LONGEST_LINE:
                        raise ValueError("a line that is too long")
                    line = translate(json.loads(text, parse_int=read_integer))
                    lines[str(line["custom_id"])] = line
                except (ValueError, KeyError, TypeError, RecursionError):  # RecursionError: deeply nested JSON
                    unreadable += 1
        return cls(lines, unreadable)


UNKNOWN_REQUEST: Final = Bounds(0, 2**17)  # project default
"""Bounds used if the request is unknown: the longest reply of any model."""


@dataclass(frozen=True)
class ResultReader:
    """Interprets the result lines of one endpoint.

    The key ``key`` is removed from all texts. Replies are charged at ``price``, the batch price; if it is None, at the
    price with which each call was sent.
    """

    endpoint: EndpointConfig
    key: str = field(repr=False)
    count: CountTokens
    trust: Trust
    price: Price | None = None

    def read(
        self,
        call: Call,
        found: ResultLines,
        name: str,
        latency_s: float,
        bounds: Bounds | None = None,
        *,
        undone: bool = False,
    ) -> tuple[Outcome, BatchAnswer]:
        """Return the outcome of the attempt whose custom_id is ``name``, and the answer to its caller.

        ``bounds`` are those of its request, or None if unknown. With ``undone``, a request without a line was certainly
        not processed; otherwise it may have been billed.
        """
        line = found.lines.get(name)
        if line is None:
            if undone and not found.unreadable:
                return _missed(call, ApiError("failed", 0, "the batch ended without it", retry=True), latency_s)
            if found.unreadable:
                said = "its line cannot be read among the batch's results"
                return _missed(call, ApiError("unknown", 0, said, retry=True), latency_s)
            said = "the batch's results leave it out, and it may have been billed"
            # An unknown attempt with an HTTP status is final: nothing more will be learned about it.
            return _missed(call, ApiError("unknown", 200, said, retry=True), latency_s)
        try:
            response, error = line.get("response"), line.get("error")
            if response is None:
                said = f"{error['code']}: {error['message']}" if error else "a line with neither reply nor error"
                return _missed(call, ApiError("failed", 0, scrub(said, self.key)[:500], retry=True), latency_s)
            status, body = int(response["status_code"]), response["body"]
            if not 100 <= status <= 599:
                raise ValueError(f"status_code {str(status)[:40]}")
            request_id = name_of(response.get("request_id"))
            if status == 200:
                return self._answered(call, body, request_id, latency_s, bounds)
            return _missed(call, self._api_error(status, body, request_id), latency_s)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            told = isinstance(error, NoCompletion)
            why = scrub(shortened(str(error)), self.key) if told else "its line has another form than a result"
            said = f"{self.endpoint.base_url} sent no chat completion in a batch: {why}."
            return _missed(call, ApiError("unknown", 200, said, retry=True), latency_s, error)

    def _answered(
        self, call: Call, body: Line, request_id: str, latency_s: float, bounds: Bounds | None
    ) -> tuple[Outcome, BatchAnswer]:
        received = Received(checked(body))
        raw = read_completion(received, bounds or UNKNOWN_REQUEST, self.endpoint.model, self.count, self.trust)
        if self.price is not None and self.price.longer:  # which rates apply depends on the endpoint's count of tokens
            call = call.charged(self.price.charged(raw.reply.usage.prompt_tokens))
        cost = call.price.cost(raw.reply.usage)
        if bounds is None and raw.counted_here:  # without the prompt; charge the most that the call can have cost
            cost, raw = max(cost, call.reserved_usd), replace(raw, note=f"{raw.note}; the reserve is the cost")
        raw = raw.received(call, cost, latency_s, request_id, lambda text: without_key(text, self.key))
        return raw.outcome(call), Answered(raw)

    def _api_error(self, status: int, body: Any, request_id: str) -> ApiError:
        told, where = read_error(body), self.endpoint
        told = replace(told, words=scrub(told.words, self.key))
        asked = Asked(where.base_url, where.model, where.api_key_env)
        return by_status(ErrorResponse(status, told, request_id, where="in a batch: "), asked)


def _missed(
    call: Call, api_error: ApiError, latency_s: float, error: Exception | None = None
) -> tuple[Outcome, BatchAnswer]:
    return api_error.outcome(call, latency_s, error), NoReply(api_error)
