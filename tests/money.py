"""Sums of a ledger to the last digit, to hold against a bill that is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

PICO: Final = Decimal(10) ** -12
"""The ledger's unit, to which a reserve is rounded."""


def exact_cost(row: Mapping[str, Any]) -> Decimal:
    """What the tokens of a ledger row cost."""
    fresh, cached, output = (
        Decimal(repr(row[f"{kind}_usd_per_million"])) / 1_000_000 for kind in ("input", "cached", "output")
    )
    dearer = row.get("cache_write_usd_per_million")
    write = fresh if dearer is None else Decimal(repr(dearer)) / 1_000_000
    written = row.get("cache_write_tokens") or 0
    prompt = (row["prompt_tokens"] - row["cached_tokens"] - written) * fresh + row["cached_tokens"] * cached
    return prompt + written * write + row["completion_tokens"] * output


def settled_and_unknown(ledger: Iterable[Mapping[str, Any]]) -> tuple[Decimal, Decimal]:
    """What the replies cost, and what is held for calls of which nobody knows. Each row's own cost must agree."""
    settled = unknown = Decimal(0)
    for row in ledger:
        if row["status"] == "ok":
            assert abs(Decimal(repr(row["cost_usd"])) - exact_cost(row)) < PICO
            settled += exact_cost(row)
        elif row["status"] == "unknown":
            unknown += Decimal(repr(row["reserved_usd"])).quantize(PICO)
    return settled, unknown
