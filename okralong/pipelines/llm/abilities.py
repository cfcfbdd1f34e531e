"""Find out with a few short calls which parts of the protocol an endpoint supports (``okralong doctor --ask``).

Servers with OpenAI's protocol differ in what they support, and some accept a field and ignore it. A run learns this
only from refusals and replies: it then leaves out refused fields and reports what a reply lacks. This module finds out
before a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import EndpointError, Message, Reply, Usage
from okralong.pipelines.llm.completion import Received, read_completion
from okralong.pipelines.llm.config import EndpointConfig, GeneratorConfig
from okralong.pipelines.llm.endpoint import open_provider, read_key
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.fields import RequestFields
from okralong.pipelines.llm.reply import RawReply
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.usage import Bounds

SHORT: Final = 32  # project default
"""The limit of a reply in tokens, without its thought."""
ROUNDS: Final = 8  # project default
"""The most attempts per request, each with one field fewer; there are fewer optional fields than this."""
QUESTION: Final = (Message("system", "Answer in one word."), Message("user", "What is the capital of France?"))
SCHEMA: Final[Mapping[str, Any]] = {
    "name": "answer",
    "strict": True,
    "schema": {
        "type": "object",
        "properties": {"city_named": {"type": "string"}},
        "required": ["city_named"],
        "additionalProperties": False,
    },
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one endpoint supports, as observed.

    Attributes:
        left_out: The request fields that the endpoint refuses.
        limit_field: The name of the field that limits a reply.
        logprobs: Whether it returns log-probabilities.
        json_schema: What it does with a JSON schema for the reply: "kept", "ignored" or "refused".
        usage_told: Whether replies report their usage in tokens.
        cache_told: Whether the usage has the number of cached tokens.
        thought: Tokens of thought before a reply of one word.
        tier: The service tier that replies name, or "".
        batches: Whether it has a Batch API; None if unknown.
        streams: Whether it streams replies and reports their usage.
        calls: Number of calls that were answered.
        usage: The tokens of these calls.
    """

    left_out: tuple[str, ...]
    limit_field: str
    logprobs: bool
    json_schema: str
    usage_told: bool
    cache_told: bool
    thought: int
    tier: str
    batches: bool | None
    streams: bool = False
    calls: int = 0
    usage: Usage = field(default_factory=Usage)

    def said(self) -> str:
        """Describe the findings in words."""
        lacks = [
            *(f"no {name}" for name in self.left_out),
            *(() if self.logprobs else ("no log-probabilities",)),
            *(() if self.json_schema == "kept" else (f"JSON schema {self.json_schema}",)),
            *(() if self.usage_told else ("no usage: tokens are counted here",)),
            *(() if self.cache_told else ("no count of cached tokens",)),
            *(() if self.streams else ("no streams: a reply that ignores its limit cannot be aborted",)),
            *(() if self.batches is not False else ("no batches",)),
        ]
        has = [
            f"limits replies by {self.limit_field}",
            *((f"thinks ({self.thought} tokens before one word)",) if self.thought else ()),
            *((f"answers at the tier {self.tier}",) if self.tier else ()),
            *(("has batches",) if self.batches else ()),
        ]
        return f"{', '.join(has)}; {', '.join(lacks) or 'lacks nothing that was asked for'}"


async def has_batches(endpoint: EndpointConfig) -> bool | None:
    """Return whether the endpoint has a Batch API; None if unknown. It is asked for its list of batches, for free."""
    async with aclosing(open_provider(endpoint, Connection(endpoint.base_url, read_key(endpoint)))) as provider:
        return await provider.has_batches()


async def abilities(config: GeneratorConfig, endpoint: EndpointConfig) -> Abilities:
    """Make at least three short calls to ``endpoint``, as a run of ``config`` would.

    Raises EndpointError, which quotes the endpoint, if it answers none of the calls, and ConfigError for a missing key.
    """
    key = read_key(endpoint)
    usage, calls = Usage(), 0
    bounds = Bounds(len(QUESTION), SHORT + config.room_for_thought)

    connection = Connection(endpoint.base_url, key, config.timeout_s)
    async with aclosing(open_provider(endpoint, connection)) as provider:
        fields = RequestFields(config.limit_field(endpoint.model), stream=config.stream == "auto", wire=provider.wire)

        async def ask(**more: Any) -> tuple[Received, RawReply] | None:
            """Return the reply, raw and parsed, or None if the endpoint refuses the fields in ``more``."""
            nonlocal usage, calls
            request = LlmRequest(
                model=config.model,
                base_url=endpoint.base_url,
                messages=QUESTION,
                max_tokens=SHORT + config.room_for_thought,
                temperature=config.temperature,
                top_p=config.top_p,
                seed=config.seed,
                reasoning_effort=config.reasoning_effort,
                **more,
            )
            for _ in range(ROUNDS):
                body = provider.body(request, fields) | fields.streaming
                try:
                    received, _ = await provider.send(body, bounds, count_tokens)
                except Exception as error:
                    api_error = provider.api_error(error)
                    if fields.refuse(api_error, [name for name in body if name != provider.wire.format], None):
                        continue
                    if more and api_error.http_status in (400, 422):
                        return None
                    raise EndpointError(api_error.message) from None
                raw = read_completion(received, bounds, endpoint.model, count_tokens, config.trust)
                usage += raw.reply.usage
                calls += 1
                return received, raw
            raise EndpointError(
                f"{endpoint.base_url} refused the request {ROUNDS} times, each time for a different field."
            )

        plain = await ask()
        if plain is None:
            raise EndpointError(f"{endpoint.base_url} refuses a plain request.")
        told = await ask(logprobs=True)
        formed = await ask(json_schema=json.dumps(SCHEMA))
    received, raw = plain
    usage_told = received.body.get("usage")
    details = usage_told.get("prompt_tokens_details") if isinstance(usage_told, Mapping) else None
    return Abilities(
        left_out=tuple(sorted(fields.left_out(None))),
        limit_field=fields.limit_field,
        logprobs=told is not None and bool(told[1].reply.token_logprobs),
        json_schema="refused" if formed is None else "kept" if _keeps(formed[1].reply) else "ignored",
        usage_told=not raw.counted_here,
        cache_told=isinstance(details, Mapping) and details.get("cached_tokens") is not None,
        thought=raw.reply.usage.reasoning_tokens,
        tier=raw.service_tier,
        streams=received.streamed,
        batches=await has_batches(endpoint),
        calls=calls,
        usage=usage,
    )


def _keeps(reply: Reply) -> bool:
    """Return whether a reply follows ``SCHEMA``, of which its prompt says nothing."""
    try:
        found = json.loads(reply.text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and set(found) == {"city_named"}
