"""What a token costs: a dated table in a YAML file, and one place that turns usage into dollars.

A model without a price is refused, because a cap in dollars means nothing for a call whose cost nobody knows.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.errors import ConfigError
from okralong.pipelines.settings import Settings, load_config
from okralong.pipelines.values import Usage

Dollars = Annotated[float, Field(ge=0, le=10_000)]

MILLION = 1_000_000


class Price(Settings):
    """US dollars per million tokens. ``cached_input`` is for prompt tokens that the endpoint took from its cache."""

    input: Dollars
    cached_input: Dollars
    output: Dollars

    def cost(self, usage: Usage) -> float:
        """Dollars for one reply. Cached tokens are part of the prompt tokens and are charged at their own rate."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (
            fresh * self.input + usage.cached_tokens * self.cached_input + usage.completion_tokens * self.output
        ) / MILLION


class ListedPrice(Price):
    """A price with the day from which it holds and where it was read."""

    since: str
    source: str


class PriceTable(Settings):
    """All prices. ``checked`` is the day on which somebody last looked."""

    checked: str
    models: dict[str, ListedPrice]

    @classmethod
    def load(cls, source: str = "prices.yaml") -> PriceTable:
        """The shipped table, or the one in a file of your own."""
        return load_config(cls, source)

    def price(self, model: str, override: Price | None = None) -> Price:
        """The price of ``model``; ``override`` (``llm.price`` in the config) wins. Raises ConfigError when unknown."""
        if override is not None:
            return override
        if model not in self.models:
            known = ", ".join(sorted(self.models))
            raise ConfigError(
                f"There is no price for the model {model!r}, so budget_usd could not be kept. Add it to "
                "configs/prices.yaml, or give llm.price (input, cached_input and output in US dollars per million "
                f"tokens; 0 for a model of your own) in the config. Known models: {known}."
            )
        return self.models[model]
