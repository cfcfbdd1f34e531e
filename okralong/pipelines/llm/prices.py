"""Prices of tokens, from a dated table in a YAML file.

A model that has no price is refused, since a cap in dollars cannot be enforced on calls of unknown cost.
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
    """US dollars per million tokens.

    ``input`` is for prompt tokens, ``output`` for reply tokens including thought, ``cached_input`` for prompt tokens
    that the endpoint read from its cache, and ``cache_write`` for those that it wrote to its cache (null: same as
    ``input``).
    """

    input: Dollars
    cached_input: Dollars
    output: Dollars
    cache_write: Dollars | None = None

    @property
    def written(self) -> float:
        """The rate for prompt tokens that are written to the cache."""
        return self.input if self.cache_write is None else self.cache_write


class LongRates(Rates):
    """The rates for all tokens of a request whose prompt has more than ``above`` tokens."""

    above: Annotated[int, Field(ge=1)]


class Price(Rates):
    """The price of a model.

    ``batch_discount`` is the share by which a call in a batch is cheaper. With ``batch_caches``, cached tokens in a
    batch are charged at the discounted cache rate, with ``batch_cached_full`` at the cache rate outside batches, else
    like uncached tokens. ``flex_discount`` is the share by which
    the flex tier is cheaper, or 0 if there is no such tier. ``longer`` has the rates for requests with longer prompts.
    """

    batch_discount: Share = 0.0
    batch_caches: bool = False
    # Left out at its default, so that the fingerprints of earlier runs stay the same.
    batch_cached_full: bool = Field(default=False, exclude_if=lambda given: not given)
    flex_discount: Share = 0.0
    longer: list[LongRates] = Field(default_factory=list)

    def cost(self, usage: Usage) -> float:
        """Return the dollars for one reply. Its prompt tokens include those read from and written to the cache."""
        rates = self.rates(usage.prompt_tokens)
        fresh = usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens
        return (
            fresh * rates.input
            + usage.cached_tokens * rates.cached_input
            + usage.cache_write_tokens * rates.written
            + usage.completion_tokens * rates.output
        ) / MILLION

    def most(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the most that a reply may cost: no token is read from the cache, and all may be written to it.

        With the total tokens of several calls, this bounds their total cost, since longer prompts cost more per token.
        """
        rates = self.rates(prompt_tokens)
        return (prompt_tokens * max(rates.input, rates.written) + completion_tokens * rates.output) / MILLION

    def rates(self, prompt_tokens: int) -> Rates:
        """Return the rates of a request with a prompt of this length."""
        above = [each for each in self.longer if prompt_tokens > each.above]
        return max(above, key=lambda each: each.above) if above else self

    def charged(self, prompt_tokens: int) -> Price:
        """Return the price of a request with a prompt of this length, for its ledger row."""
        rates = self.rates(prompt_tokens)
        return Price(
            input=rates.input, cached_input=rates.cached_input, output=rates.output, cache_write=rates.cache_write
        )

    def in_batch(self) -> Price:
        """Return the price in a batch."""
        return self._at(1 - self.batch_discount, self.batch_caches, full=self.batch_cached_full)

    def in_flex(self) -> Price:
        """Return the price of a reply at the flex tier."""
        return self._at(1 - self.flex_discount, caches=True)

    def _at(self, share: float, caches: bool, *, full: bool = False) -> Price:
        def lowered(rates: Rates) -> dict[str, float]:
            cached = rates.cached_input if full else share * (rates.cached_input if caches else rates.input)
            lower = {"input": rates.input * share, "cached_input": cached, "output": rates.output * share}
            return lower if rates.cache_write is None else {**lower, "cache_write": rates.cache_write * share}

        longer = [{**lowered(each), "above": each.above} for each in self.longer]
        return Price.model_validate({**lowered(self), "longer": longer})


def highest(prices: Sequence[Price]) -> Price:
    """Return the highest of ``prices`` for each kind of token and prompt length."""

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
    """A price, valid from the day ``since``, as stated at ``source``."""

    since: str
    source: str


_SNAPSHOT: Final = re.compile(r"-20\d\d-?\d\d-?\d\d\Z")


class PriceTable(Settings):
    """The prices of ``models`` by name, last ``checked`` on that date."""

    checked: str
    models: dict[str, ListedPrice]

    @classmethod
    def load(cls, source: str = "prices.yaml") -> PriceTable:
        """Load the shipped table, or another file."""
        return load_config(cls, source)

    def price(self, model: str, override: Price | None = None) -> Price:
        """Return the price of ``model``, or ``override`` (``llm.price`` in the config) if given.

        A dated snapshot that is not listed has the price of its undated name. Raises ConfigError for unknown models.
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
