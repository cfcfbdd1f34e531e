"""A request to a generator: its fields, hash, wire format, size in tokens, and shared prompt prefix."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Final

from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import VECTORS_PLACE, Message, TokenVectors

TOKENS_PER_MESSAGE: Final = 4
TOKENS_PER_PROMPT: Final = 3
"""Tokens that OpenAI's chat format adds: 3 plus the role around each message, and 3 to open the reply (OpenAI cookbook,
"How to count tokens with tiktoken"). What other endpoints add is learned from their replies."""
MOST_TOKENS_PER_MESSAGE: Final = 8  # project default
"""The most tokens that a chat template adds to a message: OpenAI's adds 4, ChatML 5."""
CACHED_FROM: Final = 1024
CACHED_BY: Final = 128
"""The fewest tokens of a cached prefix, and the steps in which its length grows (OpenAI's guide to prompt caching)."""
SHORT = 500  # project default
"""If the endpoint counts fewer than this many tokens more than we do, the chat template is taken to be the reason,
which adds the same to every prompt."""
TEXT: Final = "text"
VECTORS: Final = "vectors"
"""The types of content parts."""

Content = str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LlmRequest:
    """A request, and the hash that identifies its reply: it covers everything that can change a reply.

    None means that a field is not sent.

    Attributes:
        base_url: The base URL as configured: "embedded" stays "embedded", whatever its port.
        sample: Number of the draw among several for one prompt; the seed that is sent is ``seed + sample``.
        grammar: A grammar in GBNF, which llama.cpp's server and ``openvino_server`` enforce.
        json_schema: The reply's JSON schema with its name, as JSON. The hash covers it even if an endpoint refused it
            and the request was sent without it.
        others: Further endpoints that may be asked instead, each as (base URL, model, API version). The hash covers the
            whole list, not the endpoint that happened to reply.
        provider: The provider of the first endpoint, if it is not OpenAI's protocol.
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
    json_schema: str | None = None
    reasoning_effort: str | None = None
    others: tuple[tuple[str, str, str | None], ...] = ()
    provider: str | None = None

    @property
    def request_hash(self) -> str:
        """Sha256 in hex of the canonical JSON of all fields."""
        return hash_of(self.canonical())

    def canonical(self) -> str:
        """Return the request as ASCII JSON with sorted keys and no spaces; hashes stand for vectors.

        Fields added by later releases are left out while unset, so that the hashes of earlier replies stay valid.
        """
        # Not asdict, which copies every message.
        fields: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclass_fields(self)}
        fields["messages"] = [{"role": message.role, "content": content_named(message)} for message in self.messages]
        for name in ("grammar", "json_schema", "reasoning_effort", "provider"):
            if fields[name] is None:
                del fields[name]
        if not self.others:
            del fields["others"]
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def parameters(
        self, max_tokens_field: str = "max_tokens", model: str | None = None, left_out: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the arguments of ``chat.completions.create``, without unset fields, which some servers refuse.

        ``model`` overrides the model's name; ``left_out`` has fields not to send ("response_format" covers both forms).
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
        if self.response_format is not None and "response_format" not in left_out:
            arguments["response_format"] = {"type": self.response_format}
        if self.json_schema is not None and "response_format" not in left_out:
            arguments["response_format"] = {"type": "json_schema", "json_schema": json.loads(self.json_schema)}
        if self.reasoning_effort is not None:
            arguments["reasoning_effort"] = self.reasoning_effort
        if self.grammar is not None:
            arguments["extra_body"] = {"grammar": self.grammar}
        return {name: value for name, value in arguments.items() if name not in left_out}


def hash_of(canonical: str) -> str:
    """Return the sha256 in hex of a request's canonical JSON."""
    return hashlib.sha256(canonical.encode()).hexdigest()


def content_sent(message: Message) -> Content:
    """Return the content to send: the message's text, or a list of text and vector parts.

    OpenAI's protocol allows lists of parts such as ``{"type": "text", "text": ...}``. Our own server
    (``pipelines/sara/prompts.py``) also reads ``{"type": "vectors", "data": ..., "rows": n}`` with n rows of
    little-endian float32 in base64.
    """
    return _content(message, lambda each: {"data": base64.b64encode(each.data).decode("ascii")})


def content_named(message: Message) -> Content:
    """Return the content as journal and hash have it: the sha256 of the vectors' data stands for the data.

    The data, tens of kilobytes per question, are in the archive anyway, and people cannot read them.
    """
    return _content(message, lambda each: {"sha256": hashlib.sha256(each.data).hexdigest()})


def content_shown(content: object) -> str:
    """Return either form of content as readable text."""
    if not isinstance(content, list):
        return str(content)
    return "".join(
        str(part.get("text", "")) if part.get("type") == TEXT else f"[{part.get('rows')} vector(s)]" for part in content
    )


def _content(message: Message, said: Callable[[TokenVectors], dict[str, Any]]) -> Content:
    if not message.vectors:
        return message.content
    texts = message.content.split(VECTORS_PLACE)
    if len(texts) != len(message.vectors) + 1:
        raise ValueError(f"The message has {len(texts) - 1} places for {len(message.vectors)} pieces of vectors.")
    parts: list[dict[str, Any]] = [{"type": TEXT, "text": texts[0]}]
    for each, text in zip(message.vectors, texts[1:], strict=True):
        parts += [{"type": VECTORS, "rows": each.rows, **said(each)}, {"type": TEXT, "text": text}]
    return [part for part in parts if part["type"] == VECTORS or part["text"]]


def prompt_tokens(messages: Sequence[Message], count: CountTokens) -> int:
    """Return the tokens that an endpoint is expected to charge for a prompt."""
    each = (count(message.content) + message.vector_rows + TOKENS_PER_MESSAGE for message in messages)
    return sum(each) + TOKENS_PER_PROMPT


def cacheable(tokens: int) -> int:
    """Return how many tokens of a prefix can be cached."""
    return 0 if tokens < CACHED_FROM else CACHED_FROM + (tokens - CACHED_FROM) // CACHED_BY * CACHED_BY


class PromptMeter:
    """Estimates how many tokens the endpoint will count in a prompt, or slightly more, so that reserves suffice.

    An endpoint may count more than we do, because its chat template adds tokens or a system prompt, or its vocabulary
    is not the configured one. How many more is learned from its replies.
    """

    def __init__(self, count: CountTokens, ratio: float = 1.0) -> None:
        """``ratio``: the endpoint's tokens for one of ours, until its replies tell more."""
        self._count = count
        self._extra = 0
        self._ratio = ratio

    def plain(self, messages: Sequence[Message]) -> int:
        """Return our own count of a prompt's tokens, with room for the chat template."""
        return sum(map(self._one, messages)) + MOST_TOKENS_PER_MESSAGE

    def of_request(self, request: LlmRequest) -> int:
        """Return ``plain`` of a request's prompt, plus the tokens of its schema, which endpoints add to the prompt."""
        schema = 0 if request.json_schema is None else self._count(request.json_schema)
        return self.plain(request.messages) + schema

    def _one(self, message: Message) -> int:
        return self._count(message.content) + message.vector_rows + MOST_TOKENS_PER_MESSAGE

    def safe(self, plain: int) -> int:
        """Return how many tokens to reserve for a prompt of ``plain`` tokens."""
        return int(plain * self._ratio) + self._extra + 1

    def learn(self, plain: int, counted: int) -> None:
        """Learn that the endpoint counted ``counted`` tokens for a prompt of ``plain``."""
        if counted <= self.safe(plain):
            return
        if plain < SHORT:
            self._extra = max(self._extra, counted - plain)
        else:
            self._ratio = max(self._ratio, counted / plain)


PREFIX_CHARS: Final = 6000  # project default
"""Characters that two prompts must share to have a common cached prefix: endpoints cache from ``CACHED_FROM`` tokens,
about 4,600 characters of English prose."""
PREFIX_LASTS_S: Final = 240.0
"""Seconds after its last use for which a prefix is assumed to be cached; OpenAI's guide says 5 to 10 minutes."""
PREFIX_WAIT_S: Final = 60.0  # project default
"""The most seconds that a prompt waits for the first one with its prefix, which may itself wait for budget that others
hold."""
PREFIXES_KEPT: Final = 10_000


def prefix_key(messages: Sequence[Message]) -> str | None:
    """Return a hash of a prompt's first ``PREFIX_CHARS`` characters, or None for a shorter prompt."""
    taken: list[str] = []
    left = PREFIX_CHARS
    for message in messages:
        taken.append(f"{message.role}\n{message.content[:left]}\n")
        left -= len(message.content)
        if left < 0:
            return hashlib.sha256("".join(taken).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return None


class PrefixTurns:
    """Holds back prompts that share a prefix until the first is answered, so that the endpoint has cached the prefix.

    It serves one event loop. No prompt waits longer than ``wait_s`` seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wait_s: float = PREFIX_WAIT_S, on_request: bool = False
    ) -> None:
        """With ``on_request``, a prefix is only cached if ``is_shared`` returned True for it before it was sent."""
        self._clock, self._wait_s, self._on_request = clock, wait_s, on_request
        self._requested: set[str] = set()
        self._first: dict[str, asyncio.Event] = {}
        self._cached_at: dict[str, float] = {}
        self._seen_at: dict[str, float] = {}
        self._present: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, key: str | None) -> AsyncIterator[None]:
        """Enter a context as soon as a prompt with this prefix may be sent; leave it when the prompt is answered.

        Entering waits while the first prompt with the prefix is in flight; it does not wait if ``key`` is None. If the
        first prompt fails, or nobody asked for its prefix to be cached, the others go on, again one first.
        """
        if key is None:
            yield
            return
        self._present[key] += 1
        try:
            async with self._alone(key):
                yield
                self._used(key, not self._on_request or key in self._requested)
        finally:
            self._present[key] -= 1
            if not self._present[key]:
                del self._present[key]
                self._requested.discard(key)

    def is_shared(self, key: str | None) -> bool:
        """Return whether another prompt with this prefix waits, is in flight, or was answered a while ago."""
        if key is None or not (self._present[key] > 1 or self._is_recent(self._seen_at, key)):
            return False
        self._requested.add(key)
        return True

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """Enter alone, or as soon as the prefix is cached."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                while key in self._first and not self._is_warm(key):  # if the first fails, the next one takes over
                    await self._first[key].wait()
        if key in self._first or self._is_warm(key):
            yield
            return
        mine = self._first[key] = asyncio.Event()
        try:
            yield
        finally:
            del self._first[key]
            mine.set()

    def _is_warm(self, key: str) -> bool:
        return self._is_recent(self._cached_at, key)

    def _is_recent(self, times: Mapping[str, float], key: str) -> bool:
        return self._clock() < times.get(key, -math.inf) + PREFIX_LASTS_S

    def _used(self, key: str, cached: bool) -> None:
        for times in (self._seen_at, self._cached_at) if cached else (self._seen_at,):
            times.pop(key, None)
            times[key] = self._clock()  # moved to the end: the order is by last use
            while len(times) > PREFIXES_KEPT:
                del times[next(iter(times))]
