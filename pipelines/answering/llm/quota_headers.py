"""What a reply's headers say of the account's limits, each field believed only where it can be true.

OpenAI, Azure and many proxies send ``x-ratelimit-limit-requests``, ``-remaining-requests``, ``-reset-requests`` and the
same for tokens. Some leave fields out; some send -1, or 0 for an account without limits. Whatever is absent, negative,
not a number, or a limit of zero is as if it had not been sent. So is a remainder of such a limit, and one that is
larger than its limit: a bucket may hold more than a minute's worth, which says nothing of who used what.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_COUNT: Final = re.compile(r"[0-9]{1,15}")
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
_SECONDS: Final = re.compile(_NUMBER)
_DURATION: Final = re.compile(rf"(?:{_NUMBER}(?:ms|us|µs|ns|d|h|m|s))+")
_PART: Final = re.compile(rf"({_NUMBER})(ms|us|µs|ns|d|h|m|s)")
_UNITS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit in the server's words: per minute, what is left of it, and in how many seconds all of it is back.

    None is what the server did not say, or said unbelievably.
    """

    limit: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """What one reply says of the limits. It describes the moment at which the server took the request, or refused it.

    ``taken``: the server accepted the request, so no limit is smaller than it. ``slow_down``: it asks for fewer
    requests (a 429, or any ``Retry-After``), and for none in the next ``retry_after`` seconds where it names a time.
    """

    requests: Allowance = Allowance()
    tokens: Allowance = Allowance()
    taken: bool = False
    slow_down: bool = False
    retry_after: float | None = None


SILENT: Final = Notice()
"""Of a request that had no reply, or was never sent."""


def read_allowance(headers: Mapping[str, str], what: str) -> Allowance:
    """The three fields of ``what``, "requests" or "tokens"."""
    named = headers.get(f"x-ratelimit-limit-{what}", "")
    limit = _count(named) or None
    remaining = _count(headers.get(f"x-ratelimit-remaining-{what}", ""))
    if remaining is not None and named and (limit is None or remaining > limit):
        remaining = None
    return Allowance(limit, remaining, duration(headers.get(f"x-ratelimit-reset-{what}", "")))


def read_notice(
    headers: Mapping[str, str], *, taken: bool, slow_down: bool = False, retry_after: float | None = None
) -> Notice:
    """All that the headers of one reply say; their names are looked up in small letters."""
    return Notice(read_allowance(headers, "requests"), read_allowance(headers, "tokens"), taken, slow_down, retry_after)


def duration(text: str) -> float | None:
    """Seconds of "6ms", "1s", "1m2.3s", "1h0m2s" or a plain number; None for anything else, also what is negative."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def _count(text: str) -> int | None:
    text = text.strip()
    return int(text) if _COUNT.fullmatch(text) else None
