"""Requests and tokens per minute, enforced in short windows, as OpenAI's guide describes and its headers show.

The guide says that a limit of 60,000 a minute may be enforced as 1,000 a second; the headers show a store that fills
up steadily (after one request on an account of 5,000 a minute, 4,999 remain and the reset takes 12 ms). So each limit
is a store that holds one window's share and fills at the limit's rate: in any stretch of time at most that rate and one
window's share more are admitted. A request larger than the window's share is admitted when the store is full, and the
next ones wait until its debt is paid.

Tokens are counted at admission: prompt and ``max_tokens``. What a reply did not use is not given back. That refused
requests count is OpenAI's word; that they can use up no more than a further window's share is our choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tests.fakes.endpoint.durations import format_duration
from tests.fakes.endpoint.scenario import Limits

LimitName = Literal["requests", "tokens", "output-tokens"]

_ROUNDING = 1e-6
"""Of a request or token: who comes back after exactly the named time is let in."""


class _Store:
    """One limit. ``missing`` is how far it is below full."""

    def __init__(self, limit: int, limits: Limits, now: float) -> None:
        self.limit = limit
        self.rate = limit / limits.minute_s
        self.share = max(1.0, limit * limits.window_s / 60)
        self.missing = 0.0
        self._at = now

    def wait(self, now: float, amount: float) -> float:
        """Seconds until ``amount`` may pass; 0 is now."""
        self.missing = max(0.0, self.missing - (now - self._at) * self.rate)
        self._at = now
        excess = self.missing + min(amount, self.share) - self.share
        return excess / self.rate if excess > _ROUNDING else 0.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which limit refused, and why. ``wait_s`` None: it never fits."""

    name: LimitName
    limit: int
    used: int
    requested: int
    wait_s: float | None


class Quota:
    """The limits of one model. Every ``now`` is in seconds of one clock that never goes back."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        wanted: dict[LimitName, int | None] = {
            "requests": limits.requests_per_minute,
            "tokens": limits.tokens_per_minute,
            "output-tokens": limits.output_tokens_per_minute,
        }
        self._stores = {name: _Store(limit, limits, now) for name, limit in wanted.items() if limit is not None}

    def admit(self, now: float, tokens: int, output_tokens: int = 0) -> Refusal | None:
        """Take one request of ``tokens`` from the stores, or say what refuses it."""
        amounts: dict[LimitName, int] = {"requests": 1, "tokens": tokens, "output-tokens": output_tokens}
        waits = {name: store.wait(now, amounts[name]) for name, store in self._stores.items()}
        for name, store in self._stores.items():
            if amounts[name] > store.limit:
                return Refusal(name, store.limit, 0, amounts[name], None)
        if not any(waits.values()):
            for name, store in self._stores.items():
                store.missing += amounts[name]
            return None
        if self._limits.refused_count and (requests := self._stores.get("requests")) is not None:
            requests.missing = max(requests.missing, min(requests.missing + 1, 2 * requests.share))
            waits["requests"] = requests.wait(now, 1)
        slowest = max(waits, key=lambda name: waits[name])
        store = self._stores[slowest]
        used = min(store.limit, math.ceil(store.missing))
        return Refusal(slowest, store.limit, used, amounts[slowest], waits[slowest])

    def left(self, now: float) -> dict[LimitName, tuple[int, int, float]]:
        """Each limit, what remains of it, and the seconds until it is whole again."""
        for store in self._stores.values():
            store.wait(now, 0)
        return {
            name: (store.limit, max(0, math.floor(store.limit - store.missing + _ROUNDING)), store.missing / store.rate)
            for name, store in self._stores.items()
        }

    def headers(self, now: float) -> dict[str, str]:
        """The ``x-ratelimit-*`` headers: limit, what remains of it, and how long until it is whole again."""
        named: dict[str, str] = {}
        for name, store in self._stores.items():
            store.wait(now, 0)
            named[f"x-ratelimit-limit-{name}"] = str(store.limit)
            named[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(store.limit - store.missing + _ROUNDING)))
            named[f"x-ratelimit-reset-{name}"] = format_duration(store.missing / store.rate)
        return named


def retry_headers(wait_s: float, form: Literal["both", "seconds", "none"]) -> dict[str, str]:
    """``retry-after`` in whole seconds, never too short, and ``retry-after-ms``."""
    if form == "none":
        return {}
    seconds = {"retry-after": str(math.ceil(wait_s))}
    return seconds if form == "seconds" else {**seconds, "retry-after-ms": str(math.ceil(wait_s * 1000))}
