"""What an endpoint takes of the protocol, found out by asking it: a few short calls, and its list of batches.

Servers that speak OpenAI's protocol differ in what they have of it, and some take a field without doing anything with
it. A run finds out as it goes: what is refused is left out, and what is missing in a reply is said by name. Here it is
found out before one, for ``okralong doctor --ask``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from okralong.pipelines.core.types import EndpointError, Message, Usage
from okralong.pipelines.llm.config import EndpointConfig, GeneratorConfig
from okralong.pipelines.llm.reply import read_completion
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.llm.routing import RequestFields, classify, open_client, read_key

SHORT: Final = 32
"""Tokens of a reply that is asked for, thought not counted. Ours."""
ROUNDS: Final = 8
"""How often one request is sent with a field less. Ours; there are fewer fields that can be left out."""
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
    """What one endpoint was seen to do. ``left_out`` are the fields that it refuses, ``limit_field`` its name for the
    limit of a reply; ``json_schema`` is "kept", "ignored" or "refused". ``tier`` is what its replies name as theirs.
    ``batches``: whether it has a list of batches; None: it did not say. ``calls`` were answered, for ``usage``.
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
    calls: int = 0
    usage: Usage = field(default_factory=Usage)

    def said(self) -> str:
        """In words."""
        lacks = [
            *(f"no {name}" for name in self.left_out),
            *(() if self.logprobs else ("no log-probabilities",)),
            *(() if self.json_schema == "kept" else (f"JSON schema {self.json_schema}",)),
            *(() if self.usage_told else ("no usage: tokens are counted here",)),
            *(() if self.cache_told else ("no count of cached tokens",)),
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
    """Whether the endpoint has a Batch API, by its list of batches, which costs nothing; None where it does not say."""
    async with open_client(endpoint, endpoint.base_url, read_key(endpoint)) as client:
        try:
            await client.batches.list(limit=1)
        except openai.APIStatusError as error:
            return False if error.status_code in (404, 405, 501) else None
        except Exception:
            return None
    return True


async def abilities(config: GeneratorConfig, endpoint: EndpointConfig) -> Abilities:
    """Ask ``endpoint`` as a run of ``config`` would, three times at least. Costs what three short calls cost.

    Raises EndpointError with the endpoint's words when it answers none, and ConfigError for a missing key.
    """
    key = read_key(endpoint)
    fields = RequestFields(config.limit_field(endpoint.model))
    usage, calls = Usage(), 0

    async with open_client(endpoint, endpoint.base_url, key, config.timeout_s) as client:

        async def ask(**more: Any) -> ChatCompletion | None:
            """The reply; None where the endpoint refuses what ``more`` asks for."""
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
                body = request.parameters(fields.limit_field, endpoint.model, fields.left_out(request.json_schema))
                try:
                    reply = await client.post("/chat/completions", cast_to=ChatCompletion, body=body)
                except Exception as error:
                    api_error = classify(error, endpoint.base_url, endpoint.model, endpoint.api_key_env, key)
                    if fields.refuse(api_error, body, None):
                        continue
                    if more and api_error.http_status in (400, 422):
                        return None
                    raise EndpointError(api_error.message) from None
                usage += read_completion(reply, QUESTION, endpoint.model, len).reply.usage
                calls += 1
                return reply
            raise EndpointError(
                f"{endpoint.base_url} refused the request {ROUNDS} times, each time for something else."
            )

        plain = await ask()
        if plain is None or not plain.choices:
            raise EndpointError(f"{endpoint.base_url} answered with something that is no chat completion.")
        told = await ask(logprobs=True)
        formed = await ask(json_schema=json.dumps(SCHEMA))
    details = plain.usage.prompt_tokens_details if plain.usage is not None else None
    return Abilities(
        left_out=tuple(sorted(fields.left_out(None))),
        limit_field=fields.limit_field,
        logprobs=told is not None and bool(told.choices[0].logprobs and told.choices[0].logprobs.content),
        json_schema="refused" if formed is None else "kept" if _keeps(formed) else "ignored",
        usage_told=plain.usage is not None,
        cache_told=details is not None and details.cached_tokens is not None,
        thought=read_completion(plain, QUESTION, endpoint.model, len).reply.usage.reasoning_tokens,
        tier=str(plain.service_tier or ""),
        batches=await has_batches(endpoint),
        calls=calls,
        usage=usage,
    )


def _keeps(reply: ChatCompletion) -> bool:
    """Whether a reply has the form of ``SCHEMA``, of which its prompt says nothing."""
    try:
        found = json.loads(reply.choices[0].message.content or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and set(found) == {"city_named"}
