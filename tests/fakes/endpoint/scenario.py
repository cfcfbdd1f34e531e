"""How the endpoint behaves: one file or mapping, checked before the first request. Times are in real seconds.

Every key has a default under which the endpoint never refuses and never errs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from okralong.pipelines.core.config import Settings
from tests.fakes.endpoint.fault_rule import FaultKind, FaultRule

Seconds = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]

Role = Literal["read", "split", "step", "analyze", "classify", "sentence", "compress", "summarize", "other"]
"""What a prompt asks for, as ``prompts.py`` recognises it; "other" is none of okralong's prompts."""


class Rates(Settings):
    """US dollars per million tokens; taken as the decimal number that is written, so that the bill is exact.

    ``cache_write`` is for prompt tokens that go into the prompt cache, as from GPT-5.6 on; None: as ``input``, and no
    reply tells how many did.
    """

    input: Annotated[float, Field(ge=0)] = 2.5
    cached_input: Annotated[float, Field(ge=0)] = 1.25
    output: Annotated[float, Field(ge=0)] = 10.0
    cache_write: Annotated[float, Field(ge=0)] | None = None


class Model(Settings):
    """A model on offer. ``window`` holds prompt and reply together, in tokens; without ``logprobs`` it sends none,
    whoever asks; without ``json_schemas`` it refuses a ``response_format`` that has one. ``thought`` tokens come before
    each reply and count toward its limit. A prompt of more than ``long_above`` tokens is charged at ``long_rates``.
    ``refuses`` are the words with which a request that has a field of that name is refused (Gemini and Anthropic only).
    """

    window: Count = 128_000
    logprobs: bool = True
    json_schemas: bool = True
    max_completion_tokens: Count = 16_384
    thought: Annotated[int, Field(ge=0)] = 0
    rates: Rates = Rates()
    long_above: Count | None = None
    long_rates: Rates = Rates()
    refuses: dict[str, str] = Field(default_factory=dict)

    def rates_of(self, prompt_tokens: int) -> Rates:
        """The rates for a prompt of this length."""
        return self.rates if self.long_above is None or prompt_tokens <= self.long_above else self.long_rates


class Limits(Settings):
    """The organization's limits, for each model by itself; None is no limit.

    With ``output_tokens_per_minute`` (Anthropic only), ``tokens_per_minute`` is of prompts alone.

    ``minute_s`` is how long a minute of these limits lasts, so that a test need not wait for sixty seconds.
    ``window_s`` is the stretch, in seconds of a true minute, within which a minute's limit is enforced. ``estimate``
    says how a prompt is counted at admission: by its tokens, or by a quarter of its characters.
    ``refused_count``: refused requests count against the request limit too, as OpenAI's guide says. ``retry_after``
    says which headers a refusal names its time in.
    """

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    output_tokens_per_minute: Count | None = None
    minute_s: Annotated[float, Field(gt=0)] = 60.0
    window_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    estimate: Literal["tokens", "characters"] = "tokens"
    refused_count: bool = True
    retry_after: Literal["both", "seconds", "none"] = "both"


class Latency(Settings):
    """Seconds from admission to reply: log-normal with this median and this sigma of its logarithm, cut at a longest.

    A median of 0 is no latency at all.
    """

    median_s: Seconds = 0.0
    sigma: Annotated[float, Field(ge=0)] = 0.5
    longest_s: Seconds = 600.0


class ReplyRule(Settings):
    """``text`` is the reply to prompts of ``role`` (None: any) whose last message holds ``contains``."""

    text: str
    role: Role | None = None
    contains: str = ""


class Replies(Settings):
    """Replies: the first rule that fits, else ``answers`` by the question's exact words, else made from the prompt.

    ``answers`` hold whole replies to reading prompts; ``unanswerable_share`` of the made ones say "unanswerable".
    ``overlong``: each reply is so many times as long as its limit (1: limits are kept). ``piece_s``: seconds between
    two pieces of a stream, which after ``pieces`` of them waits until its client has gone. These are for Gemini and
    Anthropic only.
    """

    rules: list[ReplyRule] = Field(default_factory=list)
    answers: dict[str, str] = Field(default_factory=dict)
    unanswerable_share: Share = 0.0
    overlong: Annotated[float, Field(ge=1)] = 1.0
    piece_s: Seconds = 0.0
    pieces: Count | None = None


class PromptCache(Settings):
    """Prompt caching: repeated prefixes from ``first`` tokens on, in steps of ``step``, forgotten after ``lasts_s``."""

    enabled: bool = True
    first: Count = 1024
    step: Count = 128
    lasts_s: Seconds = 300.0


class Batches(Settings):
    """The life of a batch: seconds in each state, requests a second, and the completion window that "24h" stands for.

    ``requests_per_s`` 0 processes nothing. ``enqueued_tokens`` is the most prompt tokens of a model in all unfinished
    batches together. ``cached_prefixes``: whether prompt caching also lowers the price of batched requests; OpenAI's
    guide said that it does not. ``price_share`` is of the ordinary price, ``cached_share`` that of cached tokens (None:
    the same). ``clock_s``: seconds that the endpoint's
    clock is ahead of this machine's. ``omit_every``: each so many-th request is done and charged, and left out of the
    results. ``overlong``: each reply is so many times as long as its limit (1: limits are kept). ``fields`` stand in
    every batch object in place of its own. A batch waits after ``stop_after`` requests until that is changed.
    """

    validating_s: Seconds = 0.0
    requests_per_s: Seconds = 10_000.0
    finalizing_s: Seconds = 0.0
    cancelling_s: Seconds = 0.0
    window_s: Seconds = 86_400.0
    max_requests: Count = 50_000
    max_bytes: Count = 200_000_000
    enqueued_tokens: Count | None = None
    cached_prefixes: bool = False
    price_share: Share = 0.5
    cached_share: Share | None = None
    clock_s: float = 0.0
    omit_every: Count | None = None
    stop_after: Annotated[int, Field(ge=0)] | None = None
    overlong: Annotated[float, Field(ge=1)] = 1.0
    fields: dict[str, Any] = Field(default_factory=dict)


class Flex(Settings):
    """The flex tier: ``price_share`` of the ordinary price, and the share of requests that find it full."""

    full_share: Share = 0.0
    price_share: Share = 0.5


class Scenario(Settings):
    """Everything. ``keys`` empty takes any key that is not revoked; ``credit_usd`` None never runs out.

    ``script`` names what happens to the chat requests in order of admission (None: nothing); the rules of ``faults``
    are asked when it is used up, the first that fits wins. Chat requests after the first ``hold_after`` wait until it
    is changed or their client has gone, so that a test which acts at a moment of a run cannot miss it. With
    ``only_messages``, there is nothing else of Anthropic's API, as at Amazon Bedrock.
    """

    seed: int = 0
    models: dict[str, Model] = Field(default_factory=lambda: {"fake-model": Model()})
    keys: list[str] = Field(default_factory=list)
    revoked_keys: list[str] = Field(default_factory=list)
    credit_usd: Annotated[float, Field(ge=0)] | None = None
    limits: Limits = Limits()
    latency: Latency = Latency()
    hold_after: Annotated[int, Field(ge=0)] | None = None
    script: list[FaultKind | None] = Field(default_factory=list)
    faults: list[FaultRule] = Field(default_factory=list)
    replies: Replies = Replies()
    prompt_cache: PromptCache = PromptCache()
    batches: Batches = Batches()
    flex: Flex = Flex()
    only_messages: bool = False

    def changed(self, patch: dict[str, Any]) -> Scenario:
        """This scenario with the keys of ``patch`` laid over it, key by key; a list is replaced as a whole.

        Raises pydantic's ValidationError when the outcome is no scenario.
        """
        return Scenario.model_validate(_laid_over(self.model_dump(), patch))


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _laid_over(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
