"""The ``llm`` section of a config: which generator, within which limits, and where else it may be asked.

GPT-4o, Azure, vLLM, llama.cpp and Ollama differ in ``base_url``, ``model`` and the name of a variable that holds the
key.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.answering.llm.batch.config import BatchConfig
from okralong.pipelines.answering.llm.endpoint_config import BaseUrl, EndpointConfig
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import Reader, find_reader
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED

CompletionTokens = Annotated[int, Field(ge=1, le=131_072)]

ANALYZE: Final = "analyze"
"""The role of a generator that analyses; its reply is one JSON dictionary."""

LATER_ROLES: Final = ("classify", "sentence", "compress", "summarize")
"""The roles that came after the first runs. Each belongs to baselines: a letter, a sentence, a summary."""


class CompletionLimits(Settings):
    """Most completion tokens by role. Ours, not in the papers: short answers, lists of questions, one step.

    Four are the baselines': ``sentence`` is FLARE's look-ahead (its authors' configs: 64); CompAct's authors allow 900
    for ``compress``, of a summary of 200 words and an evaluation; RAPTOR's allow 100 for a summary.
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

    def of(self, role: str) -> int:
        """The limit of one role."""
        return int(getattr(self, role))


class LlmConfig(EndpointConfig):
    """The generator, and the endpoint that is asked first. Times in seconds, sizes in the generator's own tokens.

    ``endpoints`` are others where the same generator may be asked when leave comes sooner there, or when the first
    cannot be used; in order of preference. ``window`` holds prompt and reply together. ``tokenizer`` is "o200k_base" or
    a folder with a tokenizer.json. ``demonstrations`` shows a worked example in each prompt, at 60 to 130 tokens a
    call: small models need it, GPT-4o does not; None is what the reader was trained with, True for a bare model that is
    served here and False for an endpoint. ``calculator`` asks for calculations as formulas, which are worked out here
    (see ``operators/calculate.py``); None is what the reader was trained with, and False without one. ``reader`` is
    merged into a model that is served here: "shipped" (into the embedded model alone), "none", or the folder that
    `okralong train` wrote. ``constrained`` sends the grammar of each role's reply, to which only llama.cpp's server
    keeps; None is True where that one serves a reader. ``mode`` batch gathers calls into batches of the first endpoint,
    as ``batch`` says; what no batch answers is asked in real time, at any.
    """

    base_url: BaseUrl = EMBEDDED
    model: str = "SmolLM2-135M-Instruct"
    endpoints: list[EndpointConfig] = Field(default_factory=list)
    window: Annotated[int, Field(ge=256, le=10_000_000)] = 8192
    tokenizer: str = "o200k_base"
    max_completion_tokens: CompletionLimits = CompletionLimits()
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = 0
    stop: list[str] = Field(default_factory=list)
    demonstrations: bool | None = None
    calculator: bool | None = None
    reader: Annotated[str, Field(min_length=1)] = SHIPPED
    constrained: bool | None = None
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    max_attempts: Annotated[int, Field(ge=1, le=20)] = 6
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
    def _endpoints_that_differ(self) -> Self:
        if self.endpoints and EMBEDDED in {one.base_url for one in self.all_endpoints}:
            raise ConfigError(
                "llm.endpoints cannot be used together with the embedded model: it is another generator, whose answers "
                "would stand beside theirs. Set llm.base_url to the first endpoint, and list the others."
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
        """Where calls may go: the one named here, then the others."""
        return (self, *self.endpoints)

    def found_reader(self) -> Reader | None:
        """The reader that is merged into this model, None for none. Raises ConfigError as ``find_reader`` does."""
        return find_reader(self.reader, self.base_url, self.model)

    def completion_limit(self, role: str) -> int:
        """Most completion tokens of a call of ``role``. Raises ConfigError for a role that there is not."""
        if role not in CompletionLimits.model_fields:
            roles = ", ".join(CompletionLimits.model_fields)
            raise ConfigError(f"There is no role {role!r} in llm.max_completion_tokens. Roles are {roles}.")
        return self.max_completion_tokens.of(role)
