"""The ``llm`` section of a config: which generator, within which limits.

GPT-4o, Azure, vLLM, llama.cpp and Ollama differ in ``base_url``, ``model`` and the name of a variable that holds the
key. The key itself never stands in a config, because configs are copied into manifests.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.errors import ConfigError
from okralong.pipelines.models.embedded import EMBEDDED
from okralong.pipelines.models.reader import Reader, find_reader
from okralong.pipelines.models.shipped import SHIPPED
from okralong.pipelines.settings import Settings

VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")

CompletionTokens = Annotated[int, Field(ge=1, le=131_072)]


class CompletionLimits(Settings):
    """Most completion tokens by role. Ours, not in the papers: short answers, lists of questions, one step."""

    generate: CompletionTokens = 256
    split: CompletionTokens = 256
    step: CompletionTokens = 192
    full_text: CompletionTokens = 256
    analyze: CompletionTokens = 64


class LlmConfig(Settings):
    """The generator. Times in seconds, sizes in the generator's own tokens.

    ``window`` holds prompt and reply together. ``tokenizer`` is "o200k_base" or a folder with a tokenizer.json.
    ``requests_per_minute`` and ``tokens_per_minute`` are the account's limits; None means that none is known.
    ``api_version`` makes it an Azure endpoint; ``model`` is then the name of the deployment. ``demonstrations`` shows a
    worked example in each prompt, at 60 to 130 tokens a call: small models need it, GPT-4o does not; None is what the
    reader was trained with, True for a bare model that is served here and False for an endpoint. ``calculator`` asks
    for calculations as formulas, which are worked out here (see ``operators/calculate.py``); None is what the reader
    was trained with, and False without one. ``reader`` is merged into a model that is served here: "shipped" (into the
    embedded model alone), "none", or the folder that `okralong train` wrote. ``constrained`` sends the grammar of each
    role's reply, to which only llama.cpp's server keeps; None is True where that one serves a reader.
    """

    base_url: str = EMBEDDED
    model: str = "SmolLM2-135M-Instruct"
    api_key_env: str = "OPENAI_API_KEY"
    api_version: str | None = None
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
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 64
    price: Price | None = None

    @field_validator("api_key_env")
    @classmethod
    def _a_name_and_no_key(cls, value: str) -> str:
        if not VARIABLE_NAME.fullmatch(value):
            # The value is not repeated: it may be the key. (Pydantic would print it, hence our own error.)
            raise ConfigError(
                "llm.api_key_env must be the name of an environment variable in capitals, such as OPENAI_API_KEY; "
                "what stands there looks like a key or is no such name. Put the key into the environment of the "
                "machine, and only the variable's name into the config."
            )
        return value

    @field_validator("base_url")
    @classmethod
    def _an_address(cls, value: str) -> str:
        if value != EMBEDDED and not re.fullmatch(r"https?://[^/@?#]+(/[^@?#]*)?", value):
            # Again without the value, which may hold a key.
            raise ConfigError(
                "llm.base_url must be embedded, or an address such as https://api.openai.com/v1: without user, key, "
                "query or fragment. Mend it in the config; keys go into the environment."
            )
        return value.rstrip("/")

    def found_reader(self) -> Reader | None:
        """The reader that is merged into this model, None for none. Raises ConfigError as ``find_reader`` does."""
        return find_reader(self.reader, self.base_url, self.model)

    def completion_limit(self, role: str) -> int:
        """Most completion tokens of a call of ``role``. Raises ConfigError for a role that there is not."""
        if role not in CompletionLimits.model_fields:
            roles = ", ".join(CompletionLimits.model_fields)
            raise ConfigError(f"There is no role {role!r} in llm.max_completion_tokens. Roles are {roles}.")
        return int(getattr(self.max_completion_tokens, role))
