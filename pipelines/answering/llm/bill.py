"""What a run was billed, what it would have cost without replies of other runs, and whose bill it is by tag."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.answering.llm.prices import Price
from okralong.pipelines.core.types import Usage

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
