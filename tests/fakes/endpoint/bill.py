"""The provider's own bill, in exact decimal dollars, kept apart from the code under test."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from okralong.pipelines.core.types import Usage
from tests.fakes.endpoint.scenario import Rates

Lane = Literal["chat", "flex", "batch"]


def price(rates: Rates, usage: Usage, share: float = 1.0, cached_share: float | None = None) -> Decimal:
    """US dollars for ``usage``: cached and written prompt tokens at their own rates, all at ``share`` of the price, and
    cached ones at ``cached_share`` of it where that is given.
    """
    fresh = (usage.prompt_tokens - usage.cached_tokens - usage.cache_write_tokens) * _exact(rates.input)
    cached = usage.cached_tokens * _exact(rates.cached_input)
    written = usage.cache_write_tokens * _exact(rates.cache_write or 0.0)
    output = usage.completion_tokens * _exact(rates.output)
    charged = (fresh + written + output) * _exact(share)
    return (charged + cached * _exact(share if cached_share is None else cached_share)).scaleb(-6)


def _exact(number: float) -> Decimal:
    return Decimal(repr(number))


@dataclass
class Line:
    """The sum of one lane."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    usd: Decimal = Decimal(0)

    def public(self) -> dict[str, Any]:
        """As JSON; dollars are a string, so that no digit is lost."""
        return {
            "calls": self.calls,
            "prompt_tokens": self.usage.prompt_tokens,
            "cached_tokens": self.usage.cached_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "usd": f"{self.usd:f}",
        }


@dataclass
class Bill:
    """What has been charged since the start or the last reset."""

    lines: dict[Lane, Line] = field(default_factory=lambda: {"chat": Line(), "flex": Line(), "batch": Line()})

    @property
    def usd(self) -> Decimal:
        """The whole of it."""
        return sum((line.usd for line in self.lines.values()), Decimal(0))

    def charge(
        self, lane: Lane, rates: Rates, usage: Usage, share: float = 1.0, cached_share: float | None = None
    ) -> Decimal:
        """Charge one reply; returns its price."""
        usd = price(rates, usage, share, cached_share)
        line = self.lines[lane]
        line.calls += 1
        line.usage += usage
        line.usd += usd
        return usd
