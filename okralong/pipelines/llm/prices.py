"""Money: what a token costs, the hard cap in dollars, and what a run was billed.

Prices are a dated table in a YAML file. A model without a price is refused, because a cap in dollars means nothing for
a call whose cost nobody knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import ConfigError, Usage

Dollars = Annotated[float, Field(ge=0, le=10_000)]
Share = Annotated[float, Field(ge=0, le=1)]

MILLION = 1_000_000


class Rates(Settings):
    """US dollars per million tokens: ``input`` of prompts, ``output`` of replies, thought included. ``cached_input`` is
    for prompt tokens that the endpoint took from its cache, ``cache_write`` for those that it put there (None: as
    ``input``).
    """

    input: Dollars
    cached_input: Dollars
    output: Dollars
    cache_write: Dollars | None = None

    @property
    def written(self) -> float:
        """What a prompt token costs that is written to the cache."""
        return self.input if self.cache_write is None else self.cache_write


class LongRates(Rates):
    """The rates of a request whose prompt has more than ``above`` tokens: all of its tokens are charged at them."""

    above: Annotated[int, Field(ge=1)]


class Price(Rates):
    """The rates of a model, and what it costs in other ways.

    ``batch_discount`` is the share by which calls that may wait for their replies (a batch) are cheaper; 0: not at all.
    ``batch_caches``: cached tokens of a batch have their own rate, with the discount; False: they cost as fresh ones.
    ``flex_discount`` is the share by which the flex tier is cheaper; 0: there is none. ``longer`` are the rates of
    longer prompts.
    """

    batch_discount: Share = 0.0
    batch_caches: bool = False
    flex_discount: Share = 0.0
    longer: list[LongRates] = Field(default_factory=list)

    def cost(self, usage: Usage) -> float:
        """Dollars for one reply. Cached and written tokens are part of the prompt tokens, and each has its own rate."""
        rates = self.rates(usage.prompt_tokens)
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        return (
            fresh * rates.input
            + usage.cached_tokens * rates.cached_input
            + usage.cache_write_tokens * rates.written
            + usage.completion_tokens * rates.output
        ) / MILLION

    def most(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for one reply at most: nothing is cached, and all of the prompt may be written to the cache.

        Of several calls together it is the most as well, since longer prompts cost more a token.
        """
        rates = self.rates(prompt_tokens)
        return (prompt_tokens * max(rates.input, rates.written) + completion_tokens * rates.output) / MILLION

    def rates(self, prompt_tokens: int) -> Rates:
        """The rates of a request with such a prompt."""
        above = [each for each in self.longer if prompt_tokens > each.above]
        return max(above, key=lambda each: each.above) if above else self

    def charged(self, prompt_tokens: int) -> Price:
        """The price of a request with such a prompt alone, as its ledger row has it."""
        rates = self.rates(prompt_tokens)
        return Price(
            input=rates.input, cached_input=rates.cached_input, output=rates.output, cache_write=rates.cache_write
        )

    def in_batch(self) -> Price:
        """The price in a batch; cached tokens on the safe side unless the price says that they are cheaper there."""
        return self._at(1 - self.batch_discount, self.batch_caches)

    def in_flex(self) -> Price:
        """The price of a reply that names the flex tier."""
        return self._at(1 - self.flex_discount, caches=True)

    def _at(self, share: float, caches: bool) -> Price:
        def lowered(rates: Rates) -> dict[str, float]:
            cached = rates.cached_input if caches else rates.input
            lower = {"input": rates.input * share, "cached_input": cached * share, "output": rates.output * share}
            return lower if rates.cache_write is None else {**lower, "cache_write": rates.cache_write * share}

        longer = [{**lowered(each), "above": each.above} for each in self.longer]
        return Price.model_validate({**lowered(self), "longer": longer})


def highest(prices: Sequence[Price]) -> Price:
    """What a token costs at most, whichever of ``prices`` holds."""

    def most(tokens: int) -> dict[str, float]:
        rates = [price.rates(tokens) for price in prices]
        return {
            "input": max(each.input for each in rates),
            "cached_input": max(each.cached_input for each in rates),
            "output": max(each.output for each in rates),
            "cache_write": max(each.written for each in rates),
        }

    bounds = sorted({each.above for price in prices for each in price.longer})
    longer = [{**most(above + 1), "above": above} for above in bounds]
    return Price.model_validate({**most(0), "longer": longer})


class ListedPrice(Price):
    """A price with the day from which it holds (``since``) and where it was read (``source``)."""

    since: str
    source: str


_SNAPSHOT: Final = re.compile(r"-20\d\d-\d\d-\d\d\Z")


class PriceTable(Settings):
    """All prices, of ``models`` by name. ``checked`` is the day on which somebody last looked."""

    checked: str
    models: dict[str, ListedPrice]

    @classmethod
    def load(cls, source: str = "prices.yaml") -> PriceTable:
        """The shipped table, or the one in a file of your own."""
        return load_config(cls, source)

    def price(self, model: str, override: Price | None = None) -> Price:
        """The price of ``model``; ``override`` (``llm.price`` in the config) wins. A dated snapshot that is not listed
        has that of its name. Raises ConfigError when unknown.
        """
        if override is not None:
            return override
        listed = model if model in self.models else _SNAPSHOT.sub("", model)
        if listed not in self.models:
            known = ", ".join(sorted(self.models))
            raise ConfigError(
                f"There is no price for the model {model!r}, so budget_usd could not be kept. Add it to "
                "configs/prices.yaml, or give llm.price (input, cached_input and output in US dollars per million "
                f"tokens; 0 for a model of your own) in the config. Known models: {known}."
            )
        return self.models[listed]
