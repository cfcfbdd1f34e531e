"""One request to a generator, and the hash by which its reply is known again.

The hash covers everything that can change a reply: a cache whose key forgets a system prompt or the base URL gives
the right answer to the wrong question.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

from okralong.pipelines.answering.llm.vector_parts import content_named, content_sent
from okralong.pipelines.core.types import Message


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """What is sent. ``base_url`` is the configured one ("embedded" stays "embedded", whatever port it has today).

    ``sample`` tells draws of one prompt apart; the seed that goes out is ``seed + sample``. ``grammar`` is GBNF, which
    llama.cpp's server keeps the reply to. None means "not sent". ``others`` are further endpoints that may be asked
    instead, each as (base URL, model, version of the API): the reply may be any of theirs, so it is known by the list
    and not by which of them happened to give it.
    """

    model: str
    base_url: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float | None = None
    seed: int | None = None
    logprobs: bool = False
    stop: tuple[str, ...] = ()
    response_format: str | None = None
    sample: int = 0
    api_version: str | None = None
    grammar: str | None = None
    others: tuple[tuple[str, str, str | None], ...] = ()

    @property
    def request_hash(self) -> str:
        """Sha256, in hex, of the canonical JSON of all fields."""
        return hash_of(self.canonical())

    def canonical(self) -> str:
        """JSON with sorted keys and no spaces; ASCII only, so that every string has one form. Vectors by their hashes.

        A grammar that is not sent is left out, and so are other endpoints where there are none, so that replies from
        before there were any are known again.
        """
        # Not by asdict, which copies whatever it finds, word for word.
        fields: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclass_fields(self)}
        fields["messages"] = [{"role": message.role, "content": content_named(message)} for message in self.messages]
        if self.grammar is None:
            del fields["grammar"]
        if not self.others:
            del fields["others"]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def parameters(self, max_tokens_field: str = "max_tokens", model: str | None = None) -> dict[str, Any]:
        """Keyword arguments of ``chat.completions.create``; what is unset is left out, as some servers refuse it.

        ``model`` is the name at the endpoint that is asked, where that is another one than the first.
        """
        arguments: dict[str, Any] = {
            "model": model or self.model,
            "messages": [{"role": message.role, "content": content_sent(message)} for message in self.messages],
            "temperature": self.temperature,
            max_tokens_field: self.max_tokens,
        }
        if self.top_p is not None:
            arguments["top_p"] = self.top_p
        if self.seed is not None:
            arguments["seed"] = self.seed + self.sample
        if self.logprobs:
            arguments["logprobs"] = True
        if self.stop:
            arguments["stop"] = list(self.stop)
        if self.response_format is not None:
            arguments["response_format"] = {"type": self.response_format}
        if self.grammar is not None:
            arguments["extra_body"] = {"grammar": self.grammar}
        return arguments


def hash_of(canonical: str) -> str:
    """Sha256, in hex, of a request's canonical JSON."""
    return hashlib.sha256(canonical.encode()).hexdigest()
