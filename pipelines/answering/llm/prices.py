"""What a token costs: a dated table in a YAML file, and one place that turns usage into dollars.

A model without a price is refused, because a cap in dollars means nothing for a call whose cost nobody knows.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import ConfigError, Usage

Dollars = Annotated[float, Field(ge=0, le=10_000)]
Share = Annotated[float, Field(ge=0, le=1)]

MILLION = 1_000_000


class Price(Settings):
    """US dollars per million tokens. ``cached_input`` is for prompt tokens that the endpoint took from its cache.

    ``batch_discount`` is the share by which calls that may wait for their replies (a batch) are cheaper; 0: not at all.
    """

    input: Dollars
    cached_input: Dollars
    output: Dollars
    batch_discount: Share = 0.0

    def cost(self, usage: Usage) -> float:
        """Dollars for one reply. Cached tokens are part of the prompt tokens and are charged at their own rate."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        return (
            fresh * self.input + usage.cached_tokens * self.cached_input + usage.completion_tokens * self.output
        ) / MILLION

    def in_batch(self) -> Price:
        """The price in a batch, on the safe side: nobody promises a batch the price of the cache."""
        share = 1 - self.batch_discount
        return Price(input=self.input * share, cached_input=self.input * share, output=self.output * share)

    def batch_cost(self, usage: Usage) -> float:
        """Dollars for one reply in a batch."""
        return self.in_batch().cost(usage)


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
