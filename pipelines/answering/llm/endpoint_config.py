"""Where a generator is reached and what may be asked of it there: one endpoint of an ``llm`` section.

The key itself never stands in a config, because configs are copied into manifests; only the name of its variable does.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from okralong.pipelines.answering.llm.limiter import Limits
from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import EMBEDDED

VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


def _a_name_and_no_key(value: str) -> str:
    if not VARIABLE_NAME.fullmatch(value):
        # The value is not repeated: it may be the key. (Pydantic would print it, hence our own error.)
        raise ConfigError(
            "llm.api_key_env must be the name of an environment variable in capitals, such as OPENAI_API_KEY; "
            "what stands there looks like a key or is no such name. Put the key into the environment of the "
            "machine, and only the variable's name into the config."
        )
    return value


def _an_address(value: str) -> str:
    if value != EMBEDDED and not re.fullmatch(r"https?://[^/@?#]+(/[^@?#]*)?", value):
        # Again without the value, which may hold a key.
        raise ConfigError(
            "llm.base_url must be embedded, or an address such as https://api.openai.com/v1: without user, key, "
            "query or fragment. Mend it in the config; keys go into the environment."
        )
    return value.rstrip("/")


BaseUrl = Annotated[str, AfterValidator(_an_address)]
KeyVariable = Annotated[str, AfterValidator(_a_name_and_no_key)]


class EndpointConfig(Settings):
    """One endpoint. ``api_version`` makes it an Azure endpoint; ``model`` is then the name of the deployment.

    ``requests_per_minute`` and ``tokens_per_minute`` are the account's limits; None means that none is known here, and
    what the endpoint's headers say is kept. ``price`` is for a model that the price table has not.
    """

    base_url: BaseUrl
    model: str
    api_key_env: KeyVariable = "OPENAI_API_KEY"
    api_version: str | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    max_in_flight: Annotated[int, Field(ge=1, le=10_000)] = 64
    price: Price | None = None

    @property
    def limits(self) -> Limits:
        """What its limiter starts with."""
        return Limits(self.requests_per_minute, self.tokens_per_minute, self.max_in_flight)

    @property
    def identity(self) -> tuple[str, str, str | None]:
        """What can change a reply: where it is asked for, from which model, by which version of the protocol."""
        return (self.base_url, self.model, self.api_version)
