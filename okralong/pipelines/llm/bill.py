"""Add up the bill of a run from its ledger rows."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.budget import WORST
from okralong.pipelines.llm.prices import Price


def usage_of(row: Mapping[str, Any]) -> Usage:
    """Return the tokens of a ledger row of any schema version."""
    return Usage(
        row["prompt_tokens"],
        row["cached_tokens"],
        row["completion_tokens"],
        row.get("reasoning_tokens") or 0,
        row.get("cache_write_tokens") or 0,
    )


ARTIFACT: Final = "artifact/"
"""Prefix of the query_id of calls that serve many questions, such as a document's summaries."""
UNIT_PRICES: Final = [
    "input_usd_per_million",
    "cached_usd_per_million",
    "output_usd_per_million",
    "cache_write_usd_per_million",
]
COLUMNS: Final = [
    "query_id",
    "status",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "cache_write_tokens",
    *UNIT_PRICES,
    "cost_usd",
    "reserved_usd",
    "tags",
    "mode",
]
"""The ledger columns that ``bill`` needs."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The costs of a run in US dollars.

    Attributes:
        billed_usd: What the endpoint charged, without attempts of unknown outcome.
        alone_usd: What it would have charged if no replies had been reused from other runs.
        shared: The number of reused replies.
        by_tag: The part of ``billed_usd`` for each tag; a call may have several tags.
        calls: The number of billed calls, in real time and in batches.
        batch_usd: The part of ``billed_usd`` that batches cost, for ``batch_calls``.
        artifacts_usd: The part of ``billed_usd`` for ``artifact_calls``, which is in no answer's cost.
        unknown_usd: What may have been billed in addition, for ``unknown_calls``.
        dear_calls: The number of calls that cost more than ``WORST`` times their reserve.
        dearest: The largest cost of a call as a multiple of its reserve.
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
    unknown_usd: float = 0.0
    unknown_calls: int = 0
    dear_calls: int = 0
    dearest: float = 0.0


def bill(rows: Iterable[Mapping[str, Any]]) -> Bill:
    """Add up ledger rows, each with ``COLUMNS``."""
    paid: list[float] = []
    spared: list[float] = []
    batched: list[float] = []
    artifacts: list[float] = []
    unknown: list[float] = []
    shares: list[float] = []
    tags: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["status"] == "cached":
            spared.append(alone_usd(row))
        elif row["status"] == "unknown":
            unknown.append(row["cost_usd"])
        elif row["status"] == "ok":
            paid.append(row["cost_usd"])
            shares.append(row["cost_usd"] / row["reserved_usd"] if row["reserved_usd"] else 0.0)
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
        unknown_usd=math.fsum(unknown),
        unknown_calls=len(unknown),
        dear_calls=sum(share > WORST for share in shares),
        dearest=max(shares, default=0.0),
    )


def alone_usd(row: Mapping[str, Any]) -> float:
    """Return what a call with a reply would have cost if the reply had not been reused from another run.

    A reused reply is priced at the unit prices of its row.
    """
    if row["status"] != "cached":
        return float(row["cost_usd"])
    price = Price(
        input=row["input_usd_per_million"],
        cached_input=row["cached_usd_per_million"],
        output=row["output_usd_per_million"],
        cache_write=row.get("cache_write_usd_per_million"),
    )
    return price.cost(usage_of(row))
