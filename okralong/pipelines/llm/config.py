"""The ``llm`` section of a config: the generator, its limits, batching and endpoints.

The config of OpenAI, Azure, vLLM, llama.cpp and Ollama differs only in ``base_url``, ``model`` and the environment
variable with the key. A config names the variable and never contains the key, since configs are copied into manifests.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from okralong.pipelines.core.config import VARIABLE_NAME, Settings
from okralong.pipelines.core.tokens import tokenizer_digest
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.usage import LARGEST_WINDOW, Trust
from okralong.pipelines.models.merged_model import Reader, find_reader
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED

_FROM_NOW = re.compile(r"(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m)?\s*(?:(\d+)\s*s)?")


def read_deadline(text: str, now: datetime) -> datetime:
    """Parse a deadline, relative to ``now`` (with a time zone).

    "06:00" is the next six o'clock in this machine's time zone, "2026-11-23T06:00" a time in that zone (or in the one
    that it names), and "8h" and "1h30m" are durations from now. Where clocks change, a time that is shown twice is the
    next of the two, and one that is skipped comes as much later. Raises ConfigError for anything else.
    """
    text = text.strip()
    span = _FROM_NOW.fullmatch(text)
    if span is not None and any(span.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in span.groups())
        return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    try:
        if ":" in text and "-" not in text:
            day = time.fromisoformat(text)
            here = now.astimezone(day.tzinfo)
            times = [datetime.combine(here.date() + timedelta(days=n), day) for n in (0, 1, 2)]
            return min(each for one in times for each in _moments(one, here) if each > now)
        if "T" in text or ":" in text:
            found = _moments(datetime.fromisoformat(text))
            return next((each for each in found if each > now), found[0])
    except (ValueError, OverflowError):
        pass
    raise ConfigError(
        f"The deadline {text!r} cannot be read. Give a time of day (06:00), a moment (2026-11-23T06:00, with +01:00 at "
        "its end for another zone than this machine's), or a time from now (8h, 1h30m, 45m)."
    )


def _moments(shown: datetime, here: datetime | None = None) -> list[datetime]:
    """Return the moments at which this machine's clock shows a time, unless that names its own zone.

    There are two if the clock is set back over it. If the clock skips it, the moment is as long after the change as the
    time would be; none is left once the clock is beyond it, if that shows ``here``.
    """
    if shown.tzinfo is not None:
        return [shown]
    near = [(shown.replace(tzinfo=UTC) + timedelta(days=n)).astimezone().utcoffset() for n in (-1, 1)]
    found = [shown.replace(tzinfo=timezone(offset)).astimezone() for offset in near if offset is not None]
    real = sorted({each for each in found if each.replace(tzinfo=None) == shown})
    return real or (found[:1] if here is None or here.replace(tzinfo=None) < shown else [])


def _readable(deadline: str) -> str:
    read_deadline(deadline, datetime.now(UTC))
    return deadline


class BatchConfig(Settings):
    """The ``llm.batch`` section. Times are in seconds; defaults are project defaults.

    - ``deadline``: when the remaining calls are made in real time: a time of day ("06:00"), a date and time
      ("2026-11-23T06:00"), or a duration from now ("8h", "1h30m"). null waits for the batches as long as they take.
    - ``concurrency``: questions in flight, all of which may wait for one batch.
    - ``quiet_s``, ``gather_s``: a batch is closed when no request has arrived for ``quiet_s``, or when the first one
      has waited for ``gather_s``.
    - ``max_requests``, ``max_megabytes``: a batch that reaches this size is closed at once. OpenAI's limits are 50,000
      and 200 (https:

    platform.openai.com/docs/guides/batch).
    - ``enqueued_tokens``: the account's limit of prompt tokens in all unfinished batches. With null, it is learned when
      it is reached.
    - ``poll_s``, ``longest_poll_s``: the first and the longest polling interval of a batch.
    - ``max_failures``: number of unsuccessful batches after which a request is made in real time.
    """

    deadline: Annotated[str, AfterValidator(_readable)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 1000
    quiet_s: Annotated[float, Field(gt=0, le=3600)] = 20.0
    gather_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    max_requests: Annotated[int, Field(ge=1, le=50_000)] = 50_000
    max_megabytes: Annotated[float, Field(gt=0, le=200)] = 190.0
    enqueued_tokens: Annotated[int, Field(ge=1)] | None = None
    poll_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    longest_poll_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    max_failures: Annotated[int, Field(ge=1, le=20)] = 3

    @model_validator(mode="after")
    def _pauses_that_grow(self) -> Self:
        if self.longest_poll_s < self.poll_s or self.gather_s < self.quiet_s:
            raise ConfigError(
                "llm.batch.longest_poll_s must not be below poll_s, nor gather_s below quiet_s: each bounds the other "
                f"from above, and they are {self.longest_poll_s}, {self.poll_s}, {self.gather_s} and {self.quiet_s}."
            )
        return self


def _a_name_and_no_key(value: str) -> str:
    if not VARIABLE_NAME.fullmatch(value):
        # A pydantic error would repeat the value, which may be the key.
        raise ConfigError(
            "llm.api_key_env must be the name of an environment variable in capitals, such as OPENAI_API_KEY; "
            "the value looks like a key, or is not such a name. Put the key into the environment of the machine, and "
            "only the variable's name into the config."
        )
    return value


def _an_address(value: str) -> str:
    if value != EMBEDDED and not re.fullmatch(r"https?://[^/@?#]+(/[^@?#]*)?", value):
        # The message does not repeat the value, which may contain a key.
        raise ConfigError(
            "llm.base_url must be embedded, or an address such as https://api.openai.com/v1: without user, key, "
            "query or fragment. Correct it in the config; keys go into the environment."
        )
    return value.rstrip("/")


BaseUrl = Annotated[str, AfterValidator(_an_address)]
KeyVariable = Annotated[str, AfterValidator(_a_name_and_no_key)]


ProviderName = Literal["openai", "anthropic", "google"]


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What a config has to know of a provider.

    Attributes:
        base_url: The official address, used if the config names none; "" if the config has to name one.
        api_key_env: The variable of the key, if the config names none.
        extra: The optional dependencies with its SDK; "" if they are always installed.
        logprobs: Whether it may return the log-probabilities of a reply's tokens.
        dialect: Whether servers of others speak its protocol, with tiers and grammars that only they have.
    """

    base_url: str
    api_key_env: str
    extra: str
    logprobs: bool
    dialect: bool


PROVIDERS: Final[dict[ProviderName, ProviderFacts]] = {
    "openai": ProviderFacts("", "OPENAI_API_KEY", "", logprobs=True, dialect=True),
    "anthropic": ProviderFacts(
        "https://api.anthropic.com", "ANTHROPIC_API_KEY", "anthropic", logprobs=False, dialect=False
    ),
    "google": ProviderFacts(
        "https://generativelanguage.googleapis.com", "GEMINI_API_KEY", "google", logprobs=True, dialect=False
    ),
}


class EndpointConfig(Settings):
    """One endpoint.

    - ``provider``: whose protocol it speaks. Azure, vLLM, llama.cpp and Ollama speak OpenAI's.
    - ``base_url``, ``model``: its address, and the name of the model. The address of Anthropic and Google may be left
      out.
    - ``api_key_env``: the environment variable that contains its key; by default the one that the provider's SDK reads.
    - ``api_version``: if set, it is an Azure endpoint, and ``model`` is the name of the deployment.
    - ``requests_per_minute``, ``tokens_per_minute``: the account's limits. With null, they are taken from the
      endpoint's headers.
    - ``max_in_flight``: the most concurrent calls.
    - ``price``: the price of a model that is not in the price table.
    """

    # Left out at its default, so that the fingerprints of earlier runs stay the same.
    provider: ProviderName = Field(default="openai", exclude_if=lambda given: given == "openai")
    base_url: BaseUrl
    model: str
    api_key_env: KeyVariable = "OPENAI_API_KEY"
    api_version: str | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 64
    price: Price | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_the_provider_has_it(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("provider") not in PROVIDERS:
            return given
        facts = PROVIDERS[given["provider"]]
        defaults = {"base_url": facts.base_url, "api_key_env": facts.api_key_env} if facts.base_url else {}
        return {**defaults, **given}

    @model_validator(mode="after")
    def _of_one_provider(self) -> Self:
        if self.provider == "openai":
            return self
        if self.base_url == EMBEDDED or self.model == EMBEDDED:
            raise ConfigError(
                f"llm.provider is {self.provider}, and llm.base_url or llm.model is {EMBEDDED}: the embedded model is "
                "served by okralong itself. Set llm.model to a model of the provider and leave llm.base_url out, or "
                "leave llm.provider out. Nothing was run."
            )
        if self.api_version is not None:
            raise ConfigError(
                f"llm.api_version belongs to Azure, and llm.provider is {self.provider}. Leave one of them out. "
                "Nothing was run."
            )
        return self

    @property
    def limits(self) -> Limits:
        """The initial limits of its limiter."""
        return Limits(self.requests_per_minute, self.tokens_per_minute, self.max_in_flight)

    @property
    def identity(self) -> tuple[str, str, str | None]:
        """The parts of the endpoint that can change a reply: base URL, model, and API version or another provider."""
        return (self.base_url, self.model, self.api_version if self.provider == "openai" else self.provider)


CompletionTokens = Annotated[int, Field(ge=1, le=131_072)]

ANALYZE: Final = "analyze"
"""The role of calls that analyze a question; the reply is a JSON object."""


class CompletionLimits(Settings):
    """The most completion tokens by role. Project defaults, because the papers state none.

    The roles of the method ``okralong`` are ``generate`` (an answer), ``split`` (a question into sub-questions),
    ``step`` (of reasoning), ``full_text`` (an answer from the full text), ``analyze`` (a question), and
    ``documents`` (the task of a question over many documents).

    The baselines use ``classify``, ``sentence``, ``compress``, ``summarize``, ``critique``, ``rationale``, ``extract``
    and ``report``. ``sentence`` is FLARE's look-ahead (its authors' configs: 64). CompAct's authors allow 900 for
    ``compress``, a summary of 200 words and an evaluation; RAPTOR's allow 100 for a summary, GraphRAG's 2,000 for a
    report.
    """

    generate: CompletionTokens = 256
    split: CompletionTokens = 256
    step: CompletionTokens = 192
    full_text: CompletionTokens = 256
    analyze: CompletionTokens = 64
    classify: CompletionTokens = 16
    sentence: CompletionTokens = 64
    compress: CompletionTokens = 384
    summarize: CompletionTokens = 160
    documents: CompletionTokens = 256
    critique: CompletionTokens = 192
    rationale: CompletionTokens = 384
    extract: CompletionTokens = 640
    report: CompletionTokens = 384

    def of(self, role: str) -> int:
        """Return the limit of one role."""
        return int(getattr(self, role))


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

ROOM_FOR_THOUGHT: Final[dict[str | None, int]] = {
    "none": 0,
    "minimal": 1024,
    "low": 4096,
    None: 8192,
    "medium": 8192,
    "high": 25_000,
    "xhigh": 50_000,
}
"""Tokens of thought that a reply may have in addition to its text, by effort (None: the model's default). Project
defaults, except for "high": OpenAI's guide to reasoning models recommends to start with 25,000 for thought and text.
Reserves include all of them. A reply whose thought is longer ends without an answer."""

_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:-(\d{1,2}))?(?!\d)|claude-[a-z]+-(preview)")
CLAUDE_THINKS_FROM: Final = (5, 0)
"""The first version of Claude that thinks without being asked to."""
_ALWAYS_THINKS: Final = re.compile(r"claude-(?:fable|mythos)|claude-opus-5-5")
"""Claude's models that cannot be told not to think
(https://platform.claude.com/docs/en/about-claude/models/overview)."""


def claude_generation(model: str) -> tuple[int, int]:
    """Return the version in the name of a Claude model, such as (4, 8); (9, 0) for names without one.

    The API of models without a version, such as previews, is that of the newest ones.
    """
    found = _CLAUDE.search(model)
    return (9, 0) if found is None or found[3] else (int(found[1]), int(found[2] or 0))


_REASONING: Final = re.compile(r"(?:^|/)(?:o[1-9](?![a-z0-9])|gpt-(?:[5-9]|oss)(?![0-9a-z])(?!.*chat))", re.IGNORECASE)
"""Names of reasoning models: OpenAI's o-series, GPT-5 and later, and its open models."""


_GEMINI_REASONING: Final = re.compile(r"gemini-(?:2\.5-(?!flash-lite)|[3-9])")
"""Names of Gemini models that think unless they are told not to (https://ai.google.dev/gemini-api/docs/thinking)."""


def thinks(model: str, provider: ProviderName = "openai") -> bool:
    """Return whether a model of this name is known to think before it answers; deployments and aliases are not."""
    if provider == "anthropic":
        return claude_generation(model) >= CLAUDE_THINKS_FROM
    return (_GEMINI_REASONING if provider == "google" else _REASONING).search(model) is not None


class FlexConfig(Settings):
    """The ``llm.flex`` section, for ``service_tier`` flex.

    A call times out after ``timeout_s``; OpenAI's guide recommends 15 minutes. If the tier has no capacity, the call is
    retried after ``pause_s``, which doubles each time. After ``attempts`` attempts, it is made at the standard tier.
    """

    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 900.0
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    pause_s: Annotated[float, Field(gt=0, le=600)] = 10.0


class GeneratorConfig(EndpointConfig):
    """A generator and its first endpoint. Times are in seconds, sizes in tokens of the generator.

    - ``endpoints``: other endpoints of the same generator, in order of preference. A call is sent there if a permit is
      available sooner, or if the first endpoint cannot be used.
    - ``window``: the most tokens of prompt and reply together.
    - ``tokenizer``: "o200k_base", or a folder with a tokenizer.json.
    - ``max_completion_tokens``: the longest reply of each role. ``max_tokens_field`` is the name of that limit in a
      request; "auto" depends on the model's family.
    - ``temperature``, ``top_p``, ``seed``, ``stop``: sent with each request.
    - ``demonstrations``: whether each prompt has a worked example, of 60 to 130 tokens. Small models need it, GPT-4o
      does not. null means: as the reader adapter was trained; without one, true for a model served here and false for
      an endpoint.
    - ``calculator``: whether to ask for calculations as formulas, which code evaluates. null means: as the reader
      adapter was trained, and false without one.
    - ``contract``: the form of replies. "full" is quotations and then the answer, "short" is the answer and the number
      of a passage. "auto" is short for the embedded model without a reader adapter, else full.
    - ``reader``: the reader adapter to merge into a model served here: "shipped" (only for the embedded model), "none",
      or a folder that `okralong train` wrote.
    - ``constrained``: whether to send the grammar of each role's reply, which llama.cpp's server enforces, and the
      embedded model's on OpenVINO. null is true if one of them serves a reader adapter.
    - ``json_schema``: whether to send the form of a typed answer as ``response_format``. With "auto", it is no longer
      sent once the endpoint refuses it, and the embedded model gets a grammar instead. With "always", a refusal is an
      error; with "never", only the prompt states the form.
    - ``timeout_s``, ``max_attempts``: the timeout of an attempt, and the most attempts of a call.
    - ``mode``: with "batch", calls are put into batches at the first endpoint, with the settings ``batch``. Calls that
      no batch answers are made in real time, at any endpoint.
    - ``reasoning_effort``: the effort to request from models that think before they answer.
    - ``reasoning_tokens``: room for thought in addition to ``max_completion_tokens``. null depends on the effort for
      known reasoning models and if an effort is set, else it is 0.
    - ``prompt_cache_key``: whether to send a key with prompts that are long enough to be cached. Prompts that begin
      alike have the same key. "auto" sends it to OpenAI, Azure and Mistral.
    - ``service_tier``: "flex" is the cheaper, slower tier in real time, with the settings ``flex``. "standard" is the
      regular tier, null the account's default.
    - ``stream``: with "auto", replies are requested as streams, so that one that ignores its limit can be aborted,
      until the endpoint refuses to stream. With "never", replies are never streamed.
    - ``trust_usage``: what to do with a reply whose usage exceeds ``window``. null books as many tokens as the window
      has and stops the run, true books what the endpoint reports, and false counts all tokens here.

    Once the endpoint refuses a sampling field, later requests leave it out. If it refuses the name of the field that
    limits a reply, later requests use the other name.
    """

    base_url: BaseUrl = EMBEDDED
    model: str = "SmolLM2-135M-Instruct"
    endpoints: list[EndpointConfig] = Field(default_factory=list)
    window: Annotated[int, Field(ge=256, le=LARGEST_WINDOW)] = 8192
    tokenizer: str = "o200k_base"
    max_completion_tokens: CompletionLimits = CompletionLimits()
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = 0
    stop: list[str] = Field(default_factory=list)
    reasoning_effort: Effort | None = None
    reasoning_tokens: Annotated[int, Field(ge=0, le=200_000)] | None = None
    prompt_cache_key: Literal["auto", "always", "never"] = "auto"
    service_tier: Literal["standard", "flex"] | None = None
    flex: FlexConfig = FlexConfig()
    demonstrations: bool | None = None
    calculator: bool | None = None
    contract: Literal["full", "short", "auto"] = "auto"
    reader: Annotated[str, Field(min_length=1)] = SHIPPED
    constrained: bool | None = None
    json_schema: Literal["auto", "always", "never"] = "auto"
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 6
    stream: Literal["auto", "never"] = "auto"
    trust_usage: bool | None = None
    mode: Literal["realtime", "batch"] = "realtime"
    batch: BatchConfig = BatchConfig()

    @model_validator(mode="after")
    def _a_batch_needs_its_endpoint(self) -> Self:
        if self.mode == "batch" and self.base_url == EMBEDDED:
            raise ConfigError(
                "llm.mode is batch, and the embedded model has no Batch API: it answers at once, and for nothing. Set "
                "llm.base_url to an endpoint that has one, or llm.mode to realtime. Nothing was run."
            )
        if self.mode == "batch" and self.api_version is not None:
            raise ConfigError(
                "llm.mode is batch, and with llm.api_version a deployment is asked by its own path, which has no Batch "
                "API. Leave api_version out, set llm.base_url to https://NAME.openai.azure.com/openai/v1 and llm.model "
                "to a deployment for batches. Nothing was run."
            )
        return self

    @model_validator(mode="after")
    def _a_tier_needs_its_endpoint(self) -> Self:
        if self.service_tier is not None and self.base_url == EMBEDDED:
            raise ConfigError(
                f"llm.service_tier is {self.service_tier}, and the embedded model has no tiers. Set llm.base_url to an "
                "endpoint that has them, or leave llm.service_tier out. Nothing was run."
            )
        if self.service_tier == "flex" and self.mode == "batch":
            raise ConfigError(
                "llm.service_tier is flex and llm.mode is batch: a batch has its own price, which flex does not lower. "
                "Leave one of them out. Nothing was run."
            )
        return self

    @model_validator(mode="after")
    def _what_all_providers_have(self) -> Self:
        for provider in sorted({one.provider for one in self.all_endpoints if not PROVIDERS[one.provider].dialect}):
            if self.service_tier == "flex":
                raise ConfigError(
                    f"llm.service_tier is flex, which llm.provider {provider} does not have. Leave llm.service_tier "
                    "out, or set llm.mode to batch, which is as cheap. Nothing was run."
                )
            always = [one.model for one in self.all_endpoints if _ALWAYS_THINKS.search(one.model)]
            if self.reasoning_effort == "none" and always and provider == "anthropic":
                raise ConfigError(
                    f"llm.reasoning_effort is none, and {always[0]} always thinks. Set it to low. Nothing was run."
                )
            if self.constrained:
                raise ConfigError(
                    f"llm.constrained is true, and llm.provider {provider} takes no grammars. Leave it out: typed "
                    "answers are constrained by JSON schemas (llm.json_schema). Nothing was run."
                )
        return self

    @model_validator(mode="after")
    def _endpoints_that_differ(self) -> Self:
        if self.endpoints and EMBEDDED in {one.base_url for one in self.all_endpoints}:
            raise ConfigError(
                "llm.endpoints cannot be used together with the embedded model: it is another generator, whose "
                "answers would be mixed with theirs. Set llm.base_url to the first endpoint, and list the others."
            )
        names = [f"{one.base_url} ({one.model})" for one in self.all_endpoints]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"llm.endpoints names {', '.join(twice)} twice, llm.base_url and llm.model counted: one endpoint and "
                "model has one limiter. Leave the second one out, or name another deployment."
            )
        return self

    @property
    def all_endpoints(self) -> tuple[EndpointConfig, ...]:
        """The first endpoint and the others."""
        return (self, *self.endpoints)

    def found_reader(self) -> Reader | None:
        """Return the reader adapter merged into this model, or None. Raises ConfigError as ``find_reader`` does."""
        return find_reader(self.reader, self.base_url, self.model)

    @property
    def short_contract(self) -> bool:
        """True if answers are requested with the short contract. Raises ConfigError as ``found_reader`` does."""
        if self.contract == "auto":
            return self.base_url == EMBEDDED and self.model == EMBEDDED and self.found_reader() is None
        return self.contract == "short"

    @property
    def room_for_thought(self) -> int:
        """Tokens of thought that a reply may have in addition to its text."""
        if self.reasoning_tokens is not None:
            return self.reasoning_tokens
        first = self.base_url != EMBEDDED and thinks(self.model, self.provider)
        other = any(one.provider != "openai" and thinks(one.model, one.provider) for one in self.endpoints)
        known = self.reasoning_effort is not None or first or other
        return ROOM_FOR_THOUGHT[self.reasoning_effort] if known else 0

    def limit_field(self, model: str) -> str:
        """Return the request field that limits this model's replies."""
        if self.max_tokens_field != "auto":
            return self.max_tokens_field
        if self.provider == "google":
            return "max_output_tokens"
        return "max_completion_tokens" if thinks(model) or self.room_for_thought else "max_tokens"

    def reply_settings(self, roles: Sequence[str], weights: str = "") -> dict[str, Any]:
        """Return the parts of a complete config that can change a reply of one of the ``roles``, as JSON values.

        For a model served here, ``weights`` identifies the weights, reader adapter and engine
        (``ServedModel.identity``). For other models the address is included, since a mock, a proxy or another
        deployment may have the same name.
        """
        same = ("model", "window", "temperature", "top_p", "seed", "stop", "reasoning_effort")
        elsewhere = () if self.base_url == EMBEDDED else self.all_endpoints
        return {
            **self.model_dump(mode="json", include=set(same)),
            "weights": weights,
            "endpoints": [list(endpoint.identity) for endpoint in elsewhere],
            "tokenizer": tokenizer_digest(self.tokenizer),
            "limits": {role: self.completion_limit(role) for role in roles},
        }

    def completion_limit(self, role: str, at_most: int | None = None) -> int:
        """Return the most completion tokens of a call, thought included.

        ``at_most`` is what a reply of its answer type needs, None for any; it does not limit a model that thinks.

        Raises ConfigError for an unknown role.
        """
        if role not in CompletionLimits.model_fields:
            roles = ", ".join(CompletionLimits.model_fields)
            raise ConfigError(f"There is no role {role!r} in llm.max_completion_tokens. Roles are {roles}.")
        limit, thought = self.max_completion_tokens.of(role), self.room_for_thought
        return limit + thought if thought or at_most is None else min(limit, at_most)

    @property
    def trust(self) -> Trust:
        """How far the usage of replies is believed."""
        return Trust(self.window, self.trust_usage)

    @property
    def longest_reply(self) -> int:
        """The most completion tokens of a call of any role."""
        return max(map(self.completion_limit, CompletionLimits.model_fields))


class LlmConfig(GeneratorConfig):
    """The run's generator.

    ``stronger`` is a second generator with its own endpoints, prices, limits and key. It is called, in real time, for
    answers that are escalated under ``policy.escalate``.
    """

    stronger: GeneratorConfig | None = None

    @model_validator(mode="after")
    def _a_stronger_one_at_an_endpoint(self) -> Self:
        if self.stronger is None:
            return self
        if self.stronger.base_url == EMBEDDED or "model" not in self.stronger.model_fields_set:
            raise ConfigError(
                "llm.stronger needs a base_url and a model: a second generator is asked at an endpoint, and the "
                "embedded model is served once a run. Name both, and the variable of its key in "
                "llm.stronger.api_key_env, or leave llm.stronger out. Nothing was run."
            )
        if self.stronger.mode == "batch":
            raise ConfigError(
                "llm.stronger.mode is batch, and the stronger generator is called in real time: its questions are only "
                "known after their first answer. Leave llm.stronger.mode out. Nothing was run."
            )
        return self
