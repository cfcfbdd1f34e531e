"""What a token costs: a dated table in a YAML file, and one place that turns usage into dollars.

A model without a price is refused, because a cap in dollars means nothing for a call whose cost nobody knows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.types import ConfigError, Usage

Dollars = Annotated[float, Field(ge=0, le=10_000)]
Share = Annotated[float, Field(ge=0, le=1)]

MILLION = 1_000_000


class Price(Settings):
    """US dollars per million tokens: ``input`` of prompts, ``output`` of replies. ``cached_input`` is for prompt tokens
    that the endpoint took from its cache.

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
    """A price with the day from which it holds (``since``) and where it was read (``source``)."""

    since: str
    source: str


class PriceTable(Settings):
    """All prices, of ``models`` by name. ``checked`` is the day on which somebody last looked."""

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


# --------
# What a run was billed, what it would have cost without replies of other runs, and whose bill it is by tag.

ARTIFACT: Final = "artifact/"
"""Opens the query_id of calls that made something for many questions, such as a document's summaries."""

COLUMNS: Final = [
    "query_id",
    "status",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "input_usd_per_million",
    "cached_usd_per_million",
    "output_usd_per_million",
    "cost_usd",
    "tags",
    "mode",
]
"""Of the ledger: what ``bill`` needs of a row."""


@dataclass(frozen=True, slots=True)
class Bill:
    """US dollars of a run, without attempts of which nobody knows whether they were billed.

    ``billed_usd`` is what the endpoint charged; ``alone_usd`` what it would have charged had no other run shared its
    replies, of which there are ``shared``. ``batch_usd`` was billed for the ``batch_calls`` that batches answered, and
    the rest of ``calls`` in real time. ``artifacts_usd`` was billed for the ``artifact_calls`` that belong to no
    question; it is in the other sums, and in no answer's cost. ``by_tag`` is the billed part of each tag; a call may
    have several.
    """

    billed_usd: float
    alone_usd: float
    shared: int
    by_tag: Mapping[tuple[str, str], float]
    calls: int = 0
    batch_usd: float = 0.0
    batch_calls: int = 0
    artifacts_usd: float = 0.0
    artifact_calls: int = 0


def bill(rows: Iterable[Mapping[str, Any]]) -> Bill:
    """The bill of ledger rows, each with ``COLUMNS``."""
    paid: list[float] = []
    spared: list[float] = []
    batched: list[float] = []
    artifacts: list[float] = []
    tags: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["status"] == "cached":
            spared.append(_list_price(row))
        elif row["status"] == "ok":
            paid.append(row["cost_usd"])
            if row["mode"] == "batch":
                batched.append(row["cost_usd"])
            if row["query_id"].startswith(ARTIFACT):
                artifacts.append(row["cost_usd"])
            for tag in row["tags"] or ():
                tags[tag].append(row["cost_usd"])
    by_tag = {tag: math.fsum(costs) for tag, costs in sorted(tags.items())}
    return Bill(
        billed_usd=math.fsum(paid),
        alone_usd=math.fsum([*paid, *spared]),
        shared=len(spared),
        by_tag=by_tag,
        calls=len(paid),
        batch_usd=math.fsum(batched),
        batch_calls=len(batched),
        artifacts_usd=math.fsum(artifacts),
        artifact_calls=len(artifacts),
    )


def _list_price(row: Mapping[str, Any]) -> float:
    """What the tokens of a row cost at the row's own unit prices."""
    price = Price(
        input=row["input_usd_per_million"],
        cached_input=row["cached_usd_per_million"],
        output=row["output_usd_per_million"],
    )
    return price.cost(Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"]))
